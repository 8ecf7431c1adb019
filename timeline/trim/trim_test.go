// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/pprofexport"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

func open(t *testing.T, path string) *replay.Replay {
	t.Helper()
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// recordNOPs begins a recording of a kernel whose text is four pages of NOPs. k has the number of CPUs and what else is
// not usual.
func recordNOPs(t *testing.T, k *genperf.Kernel) (w *genperf.Recorder, path string) {
	t.Helper()
	const size = 4 * 4096
	k.Machine, k.Arch, k.Release, k.Order = elf.EM_X86_64, "x86_64", "6.1.0", binary.LittleEndian
	k.Addr, k.Text = genperf.TextAddr, bytes.Repeat([]byte{0x90}, size)
	k.Symbols = []kcore.ELFSymbol{{Name: "f", Addr: genperf.TextAddr}, {Name: "end", Addr: genperf.TextAddr + size - 1}}
	path = filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	return w, path
}

func recording(name string) string {
	return filepath.Join(corpus.Root(), "testdata", name, "rec.data")
}

// cut trims a recording and opens what is left.
func cut(t *testing.T, r *replay.Replay, opts trim.Options) (*replay.Replay, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cut.data")
	result, err := trim.Write(dir, r, opts)
	if err != nil {
		t.Fatal(err)
	}
	part := open(t, dir)
	if want := (trim.Result{From: part.Report.Trusted.From, To: part.Report.Trusted.To, Horizon: part.Report.Horizon}); result != want {
		t.Errorf("Write says %v of what it wrote, want %v", result, want)
	}
	return part, dir
}

// claims checks that all that part calls known whole calls known too, and the
// same: at random times, over all places of which part knows anything. It
// returns how many bytes part knows.
func claims(t *testing.T, part, whole *replay.Replay, upTo uint64) (known uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	from := part.Report.First
	for range 50 {
		at := from + rng.Uint64N(upTo-from)
		v, w := part.Image.At(at), whole.Image.At(at)
		for lo, hi := range v.Ranges() {
			if hi-lo > 1<<20 {
				hi = lo + 1<<20
			}
			for s := range v.Spans(lo, hi-lo) {
				if s.Standing != timeline.Known {
					continue
				}
				known += s.Len
				buf := make([]byte, s.Len)
				if b := w.Read(s.Addr, buf); b.Standing != timeline.Known || !bytes.Equal(buf, s.Bytes) {
					t.Fatalf("at %d %#x: the cut recording knows %x, the whole one says %v %v %x", at, s.Addr, s.Bytes, b.Standing, b.Reason, buf)
				}
			}
		}
	}
	return known
}

// TestPaddingAcross: the NOPs before a function go on in the next page, which is not kept. The kernel may write a
// call thunk over them without a record, as the whole recording says. A page with the first of 17 NOPs is
// kept here, as it bounds the time of a trap.
func TestPaddingAcross(t *testing.T) {
	const last, to = 0xffffffff9d712fff, 73_000_000_000 // of the page
	whole := open(t, recording("thunks"))
	sym := whole.Image.At(to).Lookup("in_gate_area")[0]
	part, _ := cut(t, whole, trim.Options{From: 20e9, To: to, Ranges: []timeline.Range{{Lo: sym.Addr, Hi: sym.Addr + sym.Size}}})
	if b := part.Image.At(58e9).Read(last-1, make([]byte, 1)); b.Standing != timeline.Known {
		t.Errorf("the byte before is %v, want one of a page that is kept", b.Standing)
	}
	if b := part.Image.At(58e9).Read(last, make([]byte, 1)); b.Reason != timeline.ThunkPadding {
		t.Errorf("%v (%v), want padding", b.Standing, b.Reason)
	}
}

// TestThunkElsewhere: a large part of text without a call thunk does not show that the kernel writes none, if another part
// has one.
func TestThunkElsewhere(t *testing.T) {
	const mib, padding = 1 << 20, 2<<20 - 16
	text := bytes.Repeat([]byte{0xcc}, 3*mib)
	copy(text[4096-5:], "\x65\x48\xc1\x3d\x01\x02\x03\x04\x05") // over the end of a page
	copy(text[padding:], bytes.Repeat([]byte{0x90}, 16))
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12.0", Order: binary.LittleEndian, Addr: genperf.TextAddr, Text: text, CPUs: 1,
		Symbols: []kcore.ELFSymbol{{Name: "f", Addr: genperf.TextAddr}, {Name: "g", Addr: genperf.TextAddr + padding + 16}}}
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	part, _ := cut(t, whole, trim.Options{Ranges: []timeline.Range{{Lo: genperf.TextAddr + mib, Hi: genperf.TextAddr + 3*mib}}})
	for which, r := range map[string]*replay.Replay{"whole": whole, "cut": part} {
		if b := r.Image.At(5e9).Read(genperf.TextAddr+padding+8, make([]byte, 1)); b.Reason != timeline.ThunkPadding {
			t.Errorf("%s: %v (%v), want padding", which, b.Standing, b.Reason)
		}
	}
}

func TestClaims(t *testing.T) {
	for _, name := range []string{"small", "rich", "lossy", "uponline", "modfull", "hotplug", "thunks"} {
		t.Run(name, func(t *testing.T) {
			whole := open(t, recording(name))
			ends := whole.Report.Horizon
			half := whole.Report.First + (ends-whole.Report.First)/2
			sym, ok := whole.Image.At(half).Symbol(whole.Report.Segments[0].Lo + 0x100)
			if !ok {
				t.Fatal("no symbol")
			}
			for _, opts := range []trim.Options{
				{},
				{Samples: true},
				{To: half},
				{Ranges: []timeline.Range{{Lo: sym.Addr, Hi: sym.Addr + 1}}},
			} {
				part, _ := cut(t, whole, opts)
				if opts.To != 0 && part.Report.Horizon >= endOf(whole, half) {
					t.Errorf("%+v: the horizon is %d, behind the window's end", opts, part.Report.Horizon)
				}
				// LOST_SAMPLES counts what was lost behind the window's end too, so a
				// window of a lossy recording can leave nothing known.
				little := name == "hotplug" || name == "lossy" && opts.To != 0 || opts.Ranges != nil
				if known := claims(t, part, whole, ends); known == 0 && whole.Report.Trusted.To != 0 && !little {
					t.Errorf("%+v: nothing is known any more", opts)
				}
			}
		})
	}
}

// TestSmaller: samples are dropped unless asked for, those of the module
// tracepoints never; trimming again changes nothing.
func TestSmaller(t *testing.T) {
	count := func(r *replay.Replay) uint64 { return r.Report.Records[perfdata.RecordSample] }
	whole := open(t, recording("hotplug"))
	bare, _ := cut(t, whole, trim.Options{})
	with, dir := cut(t, whole, trim.Options{Samples: true})
	if count(bare) != 0 || count(with) == 0 || count(with) != count(whole) {
		t.Errorf("%d samples, %d without, %d with", count(whole), count(bare), count(with))
	}
	again := filepath.Join(t.TempDir(), "again.data")
	if _, err := trim.Write(again, with, trim.Options{Samples: true}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"data", "kcore_dir/kcore", "kcore_dir/kallsyms", "kcore_dir/modules"} {
		a, err1 := os.ReadFile(filepath.Join(dir, file))
		b, err2 := os.ReadFile(filepath.Join(again, file))
		if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs after trimming twice: %d and %d bytes, %v %v", file, len(a), len(b), err1, err2)
		}
	}
	if m, _ := cut(t, open(t, recording("modfull")), trim.Options{}); count(m) == 0 {
		t.Error("the samples of module tracepoints are gone: modules would seem to be there for ever")
	}
}

// TestForks: forks are kept, because a thread that was never renamed has its parent's name.
func TestForks(t *testing.T) {
	whole := open(t, recording("callgraph"))
	forks := func(r *replay.Replay) (n int) {
		for sc := r.Recording.Scan(perfdata.Only(perfdata.RecordFork)); sc.Next(); {
			n++
		}
		return n
	}
	part, _ := cut(t, whole, trim.Options{})
	if n := forks(part); n == 0 || n != forks(whole) {
		t.Errorf("%d forks are kept, want all %d", n, forks(whole))
	}
}

func TestRefused(t *testing.T) {
	whole := open(t, recording("small"))
	dir := t.TempDir()
	if _, err := trim.Write(dir, whole, trim.Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into an existing directory: %v", err)
	}
}

// changed copies a recording of testdata, with change made to its data.
func changed(t *testing.T, name string, change func(data []byte) []byte) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recording(name), "data"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rec.data")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "data"), change(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(recording(name), "kcore_dir"), filepath.Join(path, "kcore_dir")); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUndatedCopyIsNotKept: of a copy of text that is given without a time nothing is
// left, or it would be taken for the one that perf made.
func TestUndatedCopyIsNotKept(t *testing.T) {
	data := filepath.Join(t.TempDir(), "rec.data")
	content, err := os.ReadFile(filepath.Join(recording("small"), "data"))
	if err == nil {
		err = os.WriteFile(data, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(data, replay.Options{KCore: filepath.Join(recording("small"), "kcore_dir")})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	part, dir := cut(t, r, trim.Options{})
	if part.Snapshot != nil || part.Report.SnapshotBytes != 0 {
		t.Errorf("%s has a copy of text", dir)
	}
}

// TestCompressed: a recording that perf compressed is cut like a plain one.
// TestSymbolsOfAnotherTime: symbols that were given are not written as those that perf copied.
func TestSymbolsOfAnotherTime(t *testing.T) {
	own, err := os.ReadFile(filepath.Join(recording("small"), "kcore_dir", "kallsyms"))
	if err != nil {
		t.Fatal(err)
	}
	const later = "ffffffffc0700000 t ftrace_trampoline [__builtin__ftrace]\n"
	given := filepath.Join(t.TempDir(), "kallsyms")
	if err := os.WriteFile(given, append(own, later...), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(recording("small"), replay.Options{Kallsyms: given})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, dir := cut(t, r, trim.Options{})
	written, err := os.ReadFile(filepath.Join(dir, "kcore_dir", "kallsyms"))
	if err != nil || len(written) == 0 || bytes.Contains(written, []byte("ffffffffc0700000")) {
		t.Errorf("%d bytes of symbols, %v", len(written), err)
	}
}

func TestCompressed(t *testing.T) {
	whole := open(t, recording("small"))
	plain, _ := cut(t, whole, trim.Options{})
	for _, typ := range []perfdata.RecordType{perfdata.RecordCompressed, perfdata.RecordCompressed2} {
		t.Run(typ.String(), func(t *testing.T) {
			packed := changed(t, "small", func([]byte) []byte { return compressed(t, whole.Recording, typ) })
			part, _ := cut(t, open(t, packed), trim.Options{})
			if d := cmp.Diff(plain.Report.Records, part.Report.Records); d != "" {
				t.Errorf("records (-plain +compressed):\n%s", d)
			}
			if d := cmp.Diff(plain.Report.Trusted, part.Report.Trusted); d != "" {
				t.Errorf("trusted (-plain +compressed):\n%s", d)
			}
		})
	}
}

// compressed returns the data of a recording with its records compressed.
func compressed(t *testing.T, rec *perfdata.Recording, typ perfdata.RecordType) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := perfdata.NewWriter(f, rec.ByteOrder(), perfdata.Compress(typ))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.SetEvents(rec.Events()))
	sc := rec.Scan()
	for sc.Next() {
		check(w.WriteRecord(sc.Record().Raw))
	}
	check(sc.Err())
	for _, feature := range rec.Features() {
		data, err := rec.Feature(feature)
		check(err)
		check(w.WriteFeature(feature, data))
	}
	check(w.Close())
	data, err := os.ReadFile(path)
	check(err)
	return data
}

// TestDamaged: what is cut out of a damaged recording says that it is damaged,
// to those too who say how many CPUs there are.
func TestDamaged(t *testing.T) {
	sc := open(t, recording("small")).Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	if !sc.Next() {
		t.Fatal("no text poke")
	}
	poke := sc.Record().Offset
	for _, tt := range []struct {
		name   string
		change func(data []byte) []byte
	}{
		{"a size that says too much", func(data []byte) []byte { data[poke+6] *= 2; return data }},
		{"a size of 0", func(data []byte) []byte { data[poke+6] = 0; return data }},
		{"lengths that say too much", func(data []byte) []byte { data[poke+17] = 1; return data }},
		{"ids that are lost", func(data []byte) []byte { clear(data[104:136]); return data }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			part, dir := cut(t, open(t, changed(t, "small", tt.change)), trim.Options{})
			told, err := replay.Load(dir, replay.Options{CPUs: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer told.Close()
			for _, r := range []*replay.Replay{part, told} {
				if !r.Report.Damaged {
					t.Errorf("coverage is limited by %v alone", r.Report.Coverage.Pokes.Limits)
				}
			}
		})
	}
}

// TestDamagedSamples: samples that cannot be read are left out, and the others are kept.
func TestDamagedSamples(t *testing.T) {
	whole := open(t, recording("callgraph"))
	sc := whole.Recording.Scan(perfdata.Only(perfdata.RecordSample))
	var samples []int64
	for sc.Next() {
		samples = append(samples, sc.Record().Offset)
	}
	for _, tt := range []struct {
		name    string
		place   int64 // in the record
		damaged bool
	}{
		{"of no event", 8, true},
		{"a call chain that says too much", 8 + 6*8, false}, // identifier, ip, tid, time, cpu, period
	} {
		t.Run(tt.name, func(t *testing.T) {
			part, _ := cut(t, open(t, changed(t, "callgraph", func(data []byte) []byte {
				data[samples[len(samples)/2]+tt.place+1] ^= 0x7f
				return data
			})), trim.Options{Samples: true})
			n := 0
			for sc := part.Recording.Scan(perfdata.Only(perfdata.RecordSample)); sc.Next(); {
				n++
			}
			// Those beyond the horizon are left out too, and so is one that perf cannot read.
			if n < len(samples)-5 || part.Report.Damaged != tt.damaged {
				t.Errorf("%d of %d samples are left; damaged: %v", n, len(samples), part.Report.Damaged)
			}
		})
	}
}

// TestParts: a recording of whose kcore_dir only a part is there is cut like others.
func TestParts(t *testing.T) {
	for _, left := range []string{"kcore", "kallsyms", "modules"} {
		path := filepath.Join(t.TempDir(), "rec.data")
		if err := os.MkdirAll(filepath.Join(path, "kcore_dir"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"data", filepath.Join("kcore_dir", left)} {
			if err := os.Symlink(filepath.Join(recording("s390x"), name), filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
		part, dir := cut(t, open(t, path), trim.Options{})
		if part.Report.Symbols.Births == 0 {
			t.Errorf("%s: no symbol is left", left)
		}
		if _, err := os.Stat(filepath.Join(dir, "kcore_dir", left)); err != nil {
			t.Error(err)
		}
	}
}

// TestCutOffProbed: of a recording that ends before its features, what comes before the horizon is
// cut out, although a later reading of the probe's counters shows missing samples.
func TestCutOffProbed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(path, os.DirFS(recording("probe612"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(path, "data"), 169_930); err != nil { // behind TRACING_DATA
		t.Fatal(err)
	}
	whole := open(t, path)
	reasons := func(r *replay.Replay) string {
		out := ""
		for _, l := range r.Report.Coverage.Pokes.Limits {
			out += fmt.Sprintf("%v: %s\n", l.Reason, l.Text)
		}
		return out
	}
	if got := reasons(whole); !strings.Contains(got, "probe-missed: map has 152 hits more than samples before 123.467306896\n") {
		t.Errorf("the whole:\n%s", got)
	}
	part, _ := cut(t, whole, trim.Options{})
	if got := reasons(part); !strings.Contains(got, "probe-unchecked: the hit counters of map were read at 109.288634768 for the last time\n") {
		t.Errorf("the part:\n%s", got)
	}
	if part.Report.Horizon > whole.Report.Horizon {
		t.Errorf("the part ends at %d, the whole at %d", part.Report.Horizon, whole.Report.Horizon)
	}
}

// TestCutOff: what is cut out of a recording that ends in the midst of a record has no clean end either. It answers as the
// whole one, also by what comes after its horizon: changes that find other bytes, and those whose traps may be there before.
func TestCutOff(t *testing.T) {
	later := 0 // changes after the horizon whose traps may be there before
	for _, name := range []string{"small", "lossy", "modfull", "smalldup", "z72", "callgraph", "storm", "thunks"} {
		t.Run(name, func(t *testing.T) {
			whole := open(t, changed(t, name, func(data []byte) []byte { return data[:len(data)/10*6+3] }))
			end := whole.Report.Horizon
			want := trapsOf(whole, end+1, nil)
			var places []timeline.Range
			for p, proven := range whole.Windows().Proven() {
				places = append(places, timeline.Range{Lo: p.Addr, Hi: p.Addr + max(uint64(p.Len), 1)})
				if p.Time > end && proven.From <= end {
					later++
				}
			}
			half := end - (end-whole.Report.Begin)/2
			until := min(endOf(whole, half)-1, end)
			if part, _ := cut(t, whole, trim.Options{To: half}); part.Report.Horizon != until && name != "lossy" { // which had lost records then
				t.Errorf("cut at %d: it ends at %d, want %d", half, part.Report.Horizon, until)
			}
			for r := range 2 { // the second one is a cut of the cut
				part, _ := cut(t, whole, trim.Options{})
				if part.Report.Pokes.Total == 0 || part.Report.Horizon != end {
					t.Errorf("%d: %d pokes up to %d, want %d", r, part.Report.Pokes.Total, part.Report.Horizon, end)
				}
				claims(t, part, whole, end)
				if name != "z72" { // padding
					same(t, part, whole, places, end+1)
				}
				if diff := cmp.Diff(want, trapsOf(part, end+1, nil)); diff != "" {
					t.Errorf("traps (-want +got):\n%s", diff)
				}
				if l := part.Report.Coverage.Pokes.Limits; !slices.ContainsFunc(l, func(l replay.Limit) bool { return l.Reason == timeline.CPUCountsMissing }) {
					t.Errorf("coverage is limited by %v alone", l)
				}
				whole = part
			}
		})
	}
	if later == 0 {
		t.Error("no change behind a horizon has a trap before")
	}
}

// TestRoundsBehindHorizon: the rounds of a recording without a clean end show what is missing only as long as no ring buffer
// was full. The samples that filled one are not kept, so rounds behind the horizon are dropped too.
func TestRoundsBehindHorizon(t *testing.T) {
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 2})
	poke := func(i, at uint64, cpu uint32) error {
		return w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 16*i, Old: []byte{0x90}, New: []byte{0x91}, SampleID: w.ID(at, cpu, 7)})
	}
	err := errors.Join(poke(0, 5e9, 1))
	for i := range uint64(100) { // of CPU 1
		raw := binary.LittleEndian.AppendUint64(nil, 40<<48|1<<32|uint64(perfdata.RecordSample))
		for _, v := range []uint64{w.ID(0, 1, 7).ID, 7<<32 | 7, 5e9 + i, 1} {
			raw = binary.LittleEndian.AppendUint64(raw, v)
		}
		err = errors.Join(err, w.WriteRecord(raw))
	}
	for i := range uint64(30) {
		err = errors.Join(err, w.FinishedRound(), poke(1+i, 6e9+i*1e9, 0))
	}
	if err = errors.Join(err, w.End(40e9)); err != nil {
		t.Fatal(err)
	}
	sc := open(t, path).Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	last := int64(0)
	for sc.Next() {
		last = sc.Record().Offset
	}
	data := filepath.Join(path, "data")
	text, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(text[48:56]) // the size of the records
	if err := os.WriteFile(data, text[:last], 0o600); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	if whole.Report.Horizon >= 5e9 {
		t.Fatalf("it is known up to %d", whole.Report.Horizon)
	}
	part, _ := cut(t, whole, trim.Options{})
	if part.Report.Horizon != whole.Report.Horizon || part.Report.Pokes != whole.Report.Pokes {
		t.Errorf("%+v up to %d, want %+v up to %d", part.Report.Pokes, part.Report.Horizon, whole.Report.Pokes, whole.Report.Horizon)
	}
}

// TestPerf: what was cut is a recording to perf too.
func TestPerf(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("skipped: perf is not installed")
	}
	whole := open(t, recording("small"))
	_, dir := cut(t, whole, trim.Options{})
	out, err := exec.Command(perf, "script", "--show-text-poke-events", "-i", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "PERF_RECORD_TEXT_POKE"); uint64(n) != whole.Report.Pokes.Total {
		t.Errorf("perf lists %d text pokes, want %d", n, whole.Report.Pokes.Total)
	}
}

// TestProfile: the samples that are kept make the profile that they make of the whole recording, also where only one page of
// text is kept.
func TestProfile(t *testing.T) {
	// An interrupt comes at the beginning of a function, behind no call.
	plain := open(t, recording("callgraph"))
	var begins uint64
	for addr := plain.Report.Segments[0].Lo + 4096; begins == 0; addr++ {
		before := make([]byte, 5)
		if s, ok := plain.Image.At(plain.Report.Begin).Symbol(addr); !ok || s.Addr != addr || plain.Image.At(plain.Report.Begin).Read(addr-5, before).Given < 5 {
			continue
		}
		if before[0] != 0xe8 && before[3] != 0xff {
			begins = addr
		}
	}
	whole := open(t, changed(t, "callgraph", func(data []byte) []byte {
		sc := plain.Recording.Scan(perfdata.Only(perfdata.RecordSample))
		for sc.Next() {
			var s perfdata.Sample
			if plain.Recording.Sample(sc.Record(), &s) != nil || s.Time < plain.Report.Begin {
				continue
			}
			chain, err := s.Callchain()
			if err != nil {
				t.Fatal(err)
			}
			for i, addr := range chain.All() {
				if i >= 2 && addr>>47 == 1<<17-1 && addr < perfdata.CallchainContextMax {
					at := bytes.Index(data[sc.Record().Offset:], binary.LittleEndian.AppendUint64(nil, addr))
					binary.LittleEndian.PutUint64(data[int(sc.Record().Offset)+at:], begins)
					return data
				}
			}
		}
		t.Fatal("no call chain in the kernel")
		return nil
	}))
	folded := func(r *replay.Replay, from, to uint64) string {
		var out bytes.Buffer
		if _, err := pprofexport.WriteFolded(&out, r, pprofexport.Options{From: from, To: to, Labels: pprofexport.AllLabels}); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text, half := whole.Report.Segments[0].Lo, whole.Report.First+(whole.Report.Horizon-whole.Report.First)/2
	for _, opts := range []trim.Options{{}, {To: half}, {From: half}, {Ranges: []timeline.Range{{Lo: text, Hi: text + 1}}}} {
		opts.Samples = true
		part, _ := cut(t, whole, opts)
		if diff := cmp.Diff(folded(whole, opts.From, opts.To), folded(part, opts.From, opts.To)); diff != "" {
			t.Errorf("%+v (-whole +cut):\n%s", opts, diff)
		}
	}
}

// TestPerfNames: perf names the samples that are kept as it names those of the whole recording.
func TestPerfNames(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("skipped: perf is not installed")
	}
	_, dir := cut(t, open(t, recording("callgraph")), trim.Options{Samples: true})
	nameless := func(dir string) int {
		out, err := exec.Command(perf, "script", "-F", "ip,sym", "-i", dir).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(out), "[unknown]")
	}
	if part, whole := nameless(dir), nameless(recording("callgraph")); part > whole || whole == 0 {
		t.Errorf("perf has no name for %d addresses, in the whole recording for %d", part, whole)
	}
}

// TestGuests: what is cut out of a recording with guests is the host's part alone.
func TestGuests(t *testing.T) {
	path := filepath.Join(corpus.Root(), "testdata", "guest", "merged.data")
	whole := open(t, path)
	part, dir := cut(t, whole, trim.Options{})
	if n := claims(t, part, whole, whole.Report.Last); n == 0 {
		t.Error("nothing is known of what is left")
	}
	for _, g := range part.Report.Guests {
		if g.Records != 0 || g.KCore != "" {
			t.Errorf("of guest %d are left: %+v", g.PID, g)
		}
	}
	if part.Report.Pokes.Total != whole.Report.Pokes.Total {
		t.Errorf("%d pokes are left of %d", part.Report.Pokes.Total, whole.Report.Pokes.Total)
	}
	r, err := replay.Load(dir, replay.Options{Guest: 7001})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Report.Trusted.To != 0 {
		t.Errorf("the guest's text is known: %+v", r.Report.Trusted)
	}

	guest, err := replay.Load(path, replay.Options{Guest: 7001})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	if _, err := trim.Write(filepath.Join(t.TempDir(), "cut.data"), guest, trim.Options{}); !errors.Is(err, trim.ErrGuest) {
		t.Errorf("error %v, want %v", err, trim.ErrGuest)
	}
}

// TestAux: with Aux the hardware trace is kept byte for byte, and the records that
// a decoder needs; without, none of it.
func TestAux(t *testing.T) {
	order := binary.LittleEndian
	path := filepath.Join(t.TempDir(), "perf.data")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := perfdata.NewWriter(f, order)
	attr := perfdata.Attr{Type: 1, Size: 136, Config: 9, Flags: perfdata.FlagTextPoke | perfdata.FlagSampleIDAll | perfdata.FlagContextSwitch,
		SampleType: perfdata.SampleIdentifier | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleTID}
	if err := w.SetEvents([]*perfdata.Event{{Attr: attr, IDs: []uint64{7}, Name: "dummy"}}); err != nil {
		t.Fatal(err)
	}
	record := func(typ perfdata.RecordType, misc uint16, payload []byte, body ...uint64) {
		raw := order.AppendUint16(order.AppendUint16(order.AppendUint32(nil, uint32(typ)), misc), uint16(8+8*len(body)))
		for _, v := range body {
			raw = order.AppendUint64(raw, v)
		}
		if err := w.WriteRecord(append(raw, payload...)); err != nil {
			t.Fatal(err)
		}
	}
	trailer := []uint64{1<<32 | 1, 100, 0, 7} // pid and tid, time, CPU, id
	record(perfdata.RecordAuxtraceInfo, 0, nil, 0, 1)
	first := slices.Clone(trailer) // it shows since when the CPU was recorded, and is kept
	first[1] = 50
	record(perfdata.RecordComm, 0, nil, append([]uint64{1<<32 | 1, 'x'}, first...)...)
	record(perfdata.RecordSwitch, 0, nil, trailer...)
	record(perfdata.RecordAux, 0, nil, append([]uint64{0, 16, 0}, trailer...)...)
	trace := []byte("0123456789abcdef")
	record(perfdata.RecordAuxtrace, 0, trace, 16, 0, 0, 0, 0)
	record(perfdata.RecordFinishedRound, 0, nil)
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	for _, aux := range []bool{false, true} {
		part, _ := cut(t, whole, trim.Options{Aux: aux})
		want := uint64(0)
		if aux {
			want = 1
		}
		for _, typ := range []perfdata.RecordType{perfdata.RecordAuxtraceInfo, perfdata.RecordSwitch, perfdata.RecordAux, perfdata.RecordAuxtrace} {
			if n := part.Report.Records[typ]; n != want {
				t.Errorf("Aux %v: %d records %v, want %d", aux, n, typ, want)
			}
		}
		var got []byte
		sc := part.Recording.Scan(perfdata.Only(perfdata.RecordAuxtrace))
		for sc.Next() {
			got = append(got, sc.Payload()...)
		}
		if aux && !bytes.Equal(got, trace) {
			t.Errorf("trace %q, want %q", got, trace)
		}
	}
}

// TestAuxEnds: with Aux too, nothing is known behind the end of what is kept, where changes are left out. The record that
// describes trace of before and after the end is kept, with a time before.
func TestAuxEnds(t *testing.T) {
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1})
	aux := binary.LittleEndian.AppendUint64(nil, 64<<48|uint64(perfdata.RecordAux))
	for _, v := range []uint64{0, 16, 0, 7<<32 | 7, 5e9, 0, w.ID(0, 0, 7).ID} { // tid, time, cpu, identifier
		aux = binary.LittleEndian.AppendUint64(aux, v)
	}
	change := binary.LittleEndian.AppendUint64(nil, 40<<48|uint64(perfdata.RecordSwitch))
	for _, v := range []uint64{7<<32 | 7, 7e9, 0, w.ID(0, 0, 7).ID} {
		change = binary.LittleEndian.AppendUint64(change, v)
	}
	err := errors.Join(w.Poke(2e9, genperf.TextAddr, []byte{0x90}, []byte{0x91}), w.WriteRecord(aux),
		w.Poke(6e9, genperf.TextAddr, []byte{0x91}, []byte{0x92}), w.WriteRecord(change), w.End(9e9+1)) // which counts no ticks
	if err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	part, dir := cut(t, whole, trim.Options{To: 2_500_000_000, Aux: true, Ranges: []timeline.Range{{Lo: genperf.TextAddr + 4096, Hi: genperf.TextAddr + 4097}}})
	sc := part.Recording.Scan(perfdata.Only(perfdata.RecordAux))
	var id perfdata.SampleID
	if !sc.Next() || part.Recording.SampleID(sc.Record(), &id) != nil || id.Time != part.Report.Horizon || id.TID != 7 {
		t.Errorf("an AUX record of %d by %d; it ends at %d", id.Time, id.TID, part.Report.Horizon)
	}
	if part.Report.Horizon != 2_499_999_999 {
		t.Errorf("it ends at %d", part.Report.Horizon)
	}
	inOrder(t, dir)
	claims(t, part, whole, whole.Report.Horizon)
}

// TestInfoReadLater: perf may have read the info of a program after the end of the window, and after records were
// lost behind it. The whole recording knows nothing of its code then, so the info is dropped.
func TestInfoReadLater(t *testing.T) {
	var loaded, to uint64 // a program is loaded, then the window ends, then records are lost
	data := changed(t, "rich", func(data []byte) []byte {
		// Without changes, whose traps could reach over the end.
		data, err := corpus.Strip(data, uint32(perfdata.RecordTextPoke))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := perfdata.New(data)
		if err != nil {
			t.Fatal(err)
		}
		sc := rec.Scan(perfdata.Only(perfdata.RecordBPFEvent, perfdata.RecordComm))
		for sc.Next() {
			r := sc.Record()
			var e perfdata.BPFEvent
			var id perfdata.SampleID
			switch {
			case r.Type == perfdata.RecordBPFEvent && rec.BPFEvent(r, &e) == nil && e.Kind == perfdata.BPFLoad:
				loaded = e.Time
			case r.Type == perfdata.RecordComm && loaded != 0 && rec.SampleID(r, &id) == nil && id.Time > loaded+1e6 && id.Time < loaded+5e9 && bytes.IndexByte(r.Raw[16:24], 0) > 0:
				at := data[r.Offset:]
				binary.LittleEndian.PutUint32(at, uint32(perfdata.RecordLost))
				binary.LittleEndian.PutUint64(at[8:], id.ID)
				binary.LittleEndian.PutUint64(at[16:], 1)
				to = loaded + 1e6
				return data
			}
		}
		t.Fatal("no program is loaded, or no COMM follows")
		return nil
	})
	whole := open(t, data)
	if len(whole.Report.Losses) == 0 {
		t.Fatal("nothing was lost")
	}
	part, _ := cut(t, whole, trim.Options{To: to})
	for p := range whole.Recording.BPFProgs() {
		for f := range p.Funcs() {
			code, had := make([]byte, len(f.Code)), make([]byte, len(f.Code))
			if part.Image.At(to-1).Read(f.Addr, code).Standing != timeline.Known {
				continue
			}
			if b := whole.Image.At(to-1).Read(f.Addr, had); b.Standing != timeline.Known || !bytes.Equal(code, had) {
				t.Errorf("the code at %#x is known; of the whole recording it is %v", f.Addr, b.Standing)
			}
		}
	}
}

// TestInfoKept: if nothing was lost, the whole recording knows the code, whenever perf read the info.
func TestInfoKept(t *testing.T) {
	whole := open(t, recording("rich"))
	var at uint64
	for l := range whole.Image.Lifetimes {
		if l.Kind == timeline.BPFProgram && l.From > whole.Report.Begin && l.From < whole.Report.Horizon && l.To > l.From+2e6 {
			at = l.From + 1e6
		}
	}
	part, _ := cut(t, whole, trim.Options{To: at + 1})
	for l := range whole.Image.Lifetimes {
		if l.Kind != timeline.BPFProgram || l.From > at || at >= l.To {
			continue
		}
		w, p := whole.Image.At(at).Read(l.Lo, make([]byte, 4)), part.Image.At(at).Read(l.Lo, make([]byte, 4))
		if w.Standing != timeline.Known || p.Standing != timeline.Known {
			t.Errorf("%s is %v in the whole recording, %v in the part", l.Name, w.Standing, p.Standing)
		}
	}
}

// TestSetBack: if the clock was set back, all records that show by how much are kept.
func TestSetBack(t *testing.T) {
	const by = 3e9
	data := changed(t, "callgraph", func(data []byte) []byte {
		rec, err := perfdata.New(data)
		if err != nil {
			t.Fatal(err)
		}
		var maps []uint64 // times of records that are dropped else
		var ids []perfdata.SampleID
		var recs []perfdata.Record
		sc := rec.Scan()
		for sc.Next() {
			var id perfdata.SampleID
			if r := sc.Record(); rec.SampleID(r, &id) == nil && id.Time != 0 {
				if r.Type == perfdata.RecordMMAP2 && r.CPUMode() == perfdata.MiscUser {
					maps = append(maps, id.Time)
				}
				ids, recs = append(ids, id), append(recs, *r)
			}
		}
		back := maps[len(maps)/2]
		for i := range recs {
			if ids[i].Time <= back {
				continue
			}
			raw := data[recs[i].Offset:][:len(recs[i].Raw)]
			old := binary.LittleEndian.AppendUint64(nil, ids[i].Time)
			at := bytes.LastIndex(raw, old)
			if recs[i].Type == perfdata.RecordSample {
				at = bytes.Index(raw, old)
			}
			binary.LittleEndian.PutUint64(raw[at:], ids[i].Time-by)
		}
		return data
	})
	whole := open(t, data)
	want, _ := whole.UncertaintyBefore(timeline.MaxTime)
	if want < by {
		t.Fatalf("the clock was set back by %d", want)
	}
	part, _ := cut(t, whole, trim.Options{})
	if got, _ := part.UncertaintyBefore(timeline.MaxTime); got < want {
		t.Errorf("the clock was set back by %d, want %d", got, want)
	}
	count := func(r *replay.Replay) (n int) {
		for sc := r.Recording.Scan(perfdata.Only(perfdata.RecordMMAP2)); sc.Next(); n++ {
		}
		return n
	}
	if got, want := count(part), count(whole); got < want/2 {
		t.Errorf("%d of %d maps are kept", got, want)
	}
	claims(t, part, whole, whole.Report.Horizon)
}

// TestSkew: if the changes that show that clocks differ are of other pages, what is left would claim too much.
func TestSkew(t *testing.T) {
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 2})
	poke := func(time uint64, cpu uint32, at uint64, old, new byte) {
		err := w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + at, Old: []byte{0x0f, old}, New: []byte{0x0f, new}, SampleID: w.ID(time, cpu, 100)})
		if err != nil {
			t.Fatal(err)
		}
	}
	poke(2_000_000_000, 0, 16, 1, 2)
	poke(2_995_000_000, 1, 16, 3, 4) // it was made after the next one
	poke(3_000_000_000, 0, 16, 2, 3)
	poke(3_500_000_000, 0, 8192+16, 1, 2) // this one and the last one bound the trap of the next one
	poke(4_000_000_000, 0, 4096+16, 1, 2)
	poke(4_500_000_000, 1, 8192+16, 2, 1)
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	if by, _ := whole.UncertaintyBefore(timeline.MaxTime); by != timeline.AssumedSkew {
		t.Fatalf("clocks differ by %d", by)
	}
	part, _ := cut(t, whole, trim.Options{})
	claims(t, part, whole, whole.Report.Horizon)
	other := []timeline.Range{{Lo: genperf.TextAddr + 4096, Hi: genperf.TextAddr + 8192}}
	if _, err := trim.Write(filepath.Join(t.TempDir(), "cut.data"), whole, trim.Options{Ranges: other}); !errors.Is(err, trim.ErrHides) {
		t.Errorf("the other page: %v", err)
	}
	// What shows that clocks differ is later. No trap of the last page reaches over the end.
	cut(t, whole, trim.Options{To: 2_500_000_000, Ranges: []timeline.Range{{Lo: genperf.TextAddr + 8192, Hi: genperf.TextAddr + 12288}}})
}

// TestLastPage: changes, copies and ranges may be of the last page of the address space.
func TestLastPage(t *testing.T) {
	const last = math.MaxUint64 &^ 4095
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: last - 4096,
		Text: bytes.Repeat([]byte{0x90}, 8191), CPUs: 1, Symbols: []kcore.ELFSymbol{{Name: "f", Addr: last - 4096}, {Name: "end", Addr: last + 4000}}}
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []uint64{16, 4088} {
		if err := w.Poke(2e9+uint64(i), last+at, bytes.Repeat([]byte{0x90}, 7), bytes.Repeat([]byte{0xcc}, 7)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Poke(3e9, last+4090, []byte{0x90}, bytes.Repeat([]byte{0x91}, 64)); err != nil {
		t.Fatal(err)
	}
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	for name, opts := range map[string]trim.Options{
		"all":           {},
		"range":         {Ranges: []timeline.Range{{Lo: last, Hi: math.MaxUint64}, {Lo: 9, Hi: 5}}},
		"all addresses": {Ranges: []timeline.Range{{Lo: 0, Hi: math.MaxUint64}}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cut.data")
			done := make(chan error, 1)
			go func() {
				_, err := trim.Write(dir, whole, opts)
				done <- err
			}()
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("not written after a minute")
			}
			part := open(t, dir)
			var b [8]byte
			if got := part.Image.At(2_500_000_000).Read(last+16, b[:7]); got.Given != 7 || b[0] != 0xcc {
				t.Errorf("the cut recording has % x, %v", b[:got.Given], got.Standing)
			}
			kept := part.Image.At(2_500_000_000).Read(last-4000, b[:1]).Given == 1 // of the page that nothing changes
			if want := name == "all addresses"; kept != want {
				t.Errorf("the page before is kept: %v, want %v", kept, want)
			}
			claims(t, part, whole, whole.Report.Horizon)
		})
	}
}

// TestWidePoke: a change is kept if one of its pages is, also one in its middle.
func TestWidePoke(t *testing.T) {
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1})
	if err := w.Poke(2e9, genperf.TextAddr+4000, bytes.Repeat([]byte{0x90}, 9000), bytes.Repeat([]byte{0xcc}, 9000)); err != nil {
		t.Fatal(err)
	}
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	part, _ := cut(t, whole, trim.Options{Ranges: []timeline.Range{{Lo: genperf.TextAddr + 4096, Hi: genperf.TextAddr + 2*4096}}})
	var b [8]byte
	if got := part.Image.At(3e9).Read(genperf.TextAddr+5000, b[:]); got.Given != 8 || b[0] != 0xcc {
		t.Errorf("the cut recording has % x, %v", b[:got.Given], got.Standing)
	}
	claims(t, part, whole, whole.Report.Horizon)
}

// TestFirstAct: what alone shows when perf had made the copy of text is kept, also of another page.
func TestFirstAct(t *testing.T) {
	for name, act := range map[string]func(w *genperf.Recorder, id perfdata.SampleID) error{
		"a change": func(w *genperf.Recorder, id perfdata.SampleID) error {
			return w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 4096, Old: []byte{0x90}, New: []byte{0xcc}, SampleID: id})
		},
		"a map": func(w *genperf.Recorder, id perfdata.SampleID) error {
			return w.Mmap(perfdata.RecordMMAP2, perfdata.MiscUser, &perfdata.Mmap{PID: id.PID, TID: id.TID, Addr: 0x400000, Len: 4096, Filename: []byte("/bin/true"), SampleID: id})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1, NoExec: true})
			err := errors.Join(
				act(w, w.ID(2e9, 0, genperf.Workload)),
				// This one bounds the trap of the next, so that the act does not.
				w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 8192, Old: []byte{0x90}, New: []byte{0x91}, SampleID: w.ID(27e8, 0, 8)}),
				w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 16, Old: []byte{0xeb, 2}, New: []byte{0x90, 0x90}, SampleID: w.ID(3e9, 0, 7)}),
				w.End(9e9))
			if err != nil {
				t.Fatal(err)
			}
			whole := open(t, path)
			part, _ := cut(t, whole, trim.Options{Ranges: []timeline.Range{{Lo: genperf.TextAddr, Hi: genperf.TextAddr + 4096}}})
			var b [2]byte
			for which, r := range map[string]*replay.Replay{"whole": whole, "cut": part} {
				if got := r.Image.At(25e8).Read(genperf.TextAddr+16, b[:]).Standing; got != timeline.Conflicting {
					t.Errorf("%s: %v", which, got)
				}
			}
			claims(t, part, whole, whole.Report.Horizon)
		})
	}
}

// TestPrograms: of programs that were loaded after the window the infos are
// dropped, so that the cut recording does not seem to have lost their loads.
func TestPrograms(t *testing.T) {
	whole := open(t, recording("rich"))
	infos := func(r *replay.Replay) (n int) {
		for _, err := range r.Recording.BPFProgs() {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for _, to := range []uint64{whole.Report.First + 1, whole.Report.First + (whole.Report.Horizon-whole.Report.First)/2, timeline.MaxTime} {
		part, _ := cut(t, whole, trim.Options{To: to})
		for f := range part.Findings() {
			if !f.Excused {
				t.Errorf("up to %d: %v of program %d", to, f.Kind, f.ID)
			}
		}
		got, loads := infos(part), part.Report.BPF.Programs
		if got != loads || got > infos(whole) || to == timeline.MaxTime && got == 0 {
			t.Errorf("up to %d: %d infos of %d loads; %d in the whole recording", to, got, loads, infos(whole))
		}
	}
}
