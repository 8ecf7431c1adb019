// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A victim is a recording that tests damage, with its oracles.
type victim struct {
	data    []byte
	snap    *kcore.Snapshot
	oracles []victimOracle
	records []victimRecord
	bpf     []timeline.Range // places of BPF programs
	info    [2]int           // BPF_PROG_INFO section in data
}

type victimOracle struct {
	corpus.Oracle
	segs  []timeline.Segment
	diffs []timeline.Range // where the oracle differs from the snapshot
}

type victimRecord struct{ lo, hi int }

func newVictim(tb testing.TB, dir string) *victim {
	tb.Helper()
	v := &victim{}
	var err error
	path := filepath.Join(dir, "rec.data")
	if v.data, err = os.ReadFile(filepath.Join(path, "data")); err != nil {
		tb.Fatal(err)
	}
	if v.snap, err = kcore.Open(filepath.Join(path, "kcore_dir")); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { v.snap.Close() })
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		tb.Fatal(err)
	}
	for _, o := range oracles {
		if o.Outside() {
			continue
		}
		vo := victimOracle{Oracle: o, segs: segments(tb, o.Path)}
		for _, s := range vo.segs {
			for i := 0; i < len(s.Data); i += 64 {
				n := min(64, len(s.Data)-i)
				if b := v.snap.Core.Bytes(s.Addr+uint64(i), n); b != nil && bytes.Equal(b, s.Data[i:i+n]) {
					continue
				}
				for k := i; k < i+n; k++ {
					if b := v.snap.Core.Bytes(s.Addr+uint64(k), 1); b != nil && b[0] != s.Data[k] {
						a := s.Addr + uint64(k)
						vo.diffs = append(vo.diffs, timeline.Range{Lo: a, Hi: a + 1})
					}
				}
			}
		}
		v.oracles = append(v.oracles, vo)
	}
	rec, err := perfdata.New(v.data)
	if err != nil {
		tb.Fatal(err)
	}
	sc := rec.Scan()
	for sc.Next() {
		r := sc.Record()
		v.records = append(v.records, victimRecord{int(r.Offset), int(r.Offset) + len(r.Raw)})
		var k perfdata.KSymbol
		if r.Type == perfdata.RecordKSymbol && rec.KSymbol(r, &k) == nil {
			v.bpf = append(v.bpf, timeline.Range{Lo: k.Addr, Hi: k.Addr + uint64(k.Len)})
		}
	}
	if info, err := rec.Feature(perfdata.FeatureBPFProgInfo); err == nil {
		v.info[0] = bytes.Index(v.data, info)
		v.info[1] = v.info[0] + len(info)
	}
	return v
}

// excuses returns the addresses that a change of the byte at off can affect directly:
// those of the poke, the symbol or the program info that has the byte, in the original
// and in the changed form.
func (v *victim) excuses(data []byte, off int) []timeline.Range {
	if off >= v.info[0] && off < v.info[1] {
		return v.bpf
	}
	i := sort.Search(len(v.records), func(i int) bool { return v.records[i].hi > off })
	if i == len(v.records) || off < v.records[i].lo {
		return nil
	}
	var out []timeline.Range
	for _, d := range [][]byte{v.data, data} {
		raw := d[v.records[i].lo:v.records[i].hi]
		u16 := func(at int) uint64 { return uint64(raw[at]) | uint64(raw[at+1])<<8 }
		u64 := func(at int) (x uint64) {
			for k := 7; k >= 0; k-- {
				x = x<<8 | uint64(raw[at+k])
			}
			return x
		}
		switch v.data[v.records[i].lo] {
		case byte(perfdata.RecordTextPoke):
			addr := u64(8)
			out = append(out, timeline.Range{Lo: addr, Hi: addr + max(u16(16), u16(18))})
		case byte(perfdata.RecordKSymbol), byte(perfdata.RecordBPFEvent):
			out = append(out, v.bpf...)
			out = append(out, timeline.Range{Lo: u64(8), Hi: u64(8) + u16(16)})
		}
	}
	return out
}

// replay makes an image of data, or returns nil if data is refused.
func (v *victim) replay(data []byte) *replay.Replay {
	rec, err := perfdata.New(data)
	if err != nil {
		return nil
	}
	r, err := replay.New(rec, v.snap, replay.Options{})
	if err != nil {
		return nil
	}
	return r
}

// differences yields each byte that an image calls known and that differs from an oracle,
// with the oracle's time.
func (v *victim) differences(im *timeline.Image, yield func(addr, time uint64, known byte)) {
	for _, o := range v.oracles {
		for span, want := range im.At(o.Time()).Against(o.segs) {
			if span.Standing != timeline.Known {
				continue
			}
			if span.Source == timeline.SourceSnapshot {
				i := sort.Search(len(o.diffs), func(i int) bool { return o.diffs[i].Lo >= span.Addr })
				for ; i < len(o.diffs) && o.diffs[i].Lo < span.Addr+span.Len; i++ {
					a := o.diffs[i].Lo
					yield(a, o.Time(), span.Bytes[a-span.Addr])
				}
				continue
			}
			if bytes.Equal(span.Bytes, want) {
				continue
			}
			for k := range want {
				if want[k] != span.Bytes[k] {
					yield(span.Addr+uint64(k), o.Time(), span.Bytes[k])
				}
			}
		}
	}
}

// wrong counts the bytes that the image of data calls known and that differ from an
// oracle, except for the excused ones. r is nil if the recording is refused.
func (v *victim) wrong(data []byte, excused []timeline.Range) (n uint64, r *replay.Replay) {
	if r = v.replay(data); r == nil {
		return 0, nil
	}
	v.differences(r.Image, func(addr, _ uint64, _ byte) {
		if !slices.ContainsFunc(excused, func(e timeline.Range) bool { return e.Lo <= addr && addr < e.Hi }) {
			n++
		}
	})
	return n, r
}

// rounds returns how often a test repeats random damage: the usual number, or
// $TEXTREPLAY_DAMAGE.
func rounds(tb testing.TB, usual int) int {
	if s := os.Getenv("TEXTREPLAY_DAMAGE"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			tb.Fatalf("TEXTREPLAY_DAMAGE: %v", err)
		}
		return n
	}
	return usual
}

// TestDamage cuts a recording, or changes one byte. The recording is then refused, or
// no known byte is wrong except for those that the changed byte affects directly.
func TestDamage(t *testing.T) {
	t.Run("testdata", func(t *testing.T) { testDamage(t, newVictim(t, filepath.Join(corpus.Root(), "testdata", "small"))) })
	t.Run("whole", func(t *testing.T) { testDamage(t, newVictim(t, corpus.Large(t, "x86_64/small"))) })
}

func testDamage(t *testing.T, v *victim) {
	if n, r := v.wrong(v.data, nil); n != 0 || r == nil || r.Report.Trusted.To == 0 {
		t.Fatalf("%d wrong bytes in the whole recording", n)
	}
	t.Run("cut", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		refused := 0
		for range rounds(t, 200) {
			at := rng.IntN(len(v.data))
			n, r := v.wrong(v.data[:at:at], nil)
			if n != 0 {
				t.Errorf("cut at %d: %d wrong bytes; warnings %v", at, n, r.Report.Warnings)
			}
			if r == nil {
				refused++
			} else if len(r.Report.Warnings) == 0 {
				t.Errorf("cut at %d: no warning", at)
			}
		}
		t.Logf("%d refused", refused)
	})
	t.Run("change", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		refused, warned, trusted := 0, 0, 0
		data := bytes.Clone(v.data)
		for range rounds(t, 500) {
			off, with := rng.IntN(len(data)), byte(1+rng.IntN(255))
			data[off] ^= with
			n, r := v.wrong(data, v.excuses(data, off))
			if n != 0 {
				t.Errorf("byte %#x changed by %#x: %d wrong bytes; %s", off, with, n, v.where(off))
			}
			switch {
			case r == nil:
				refused++
			case r.Report.Trusted.To != 0:
				trusted++
				fallthrough
			default:
				if len(r.Report.Warnings) > 0 {
					warned++
				}
			}
			data[off] ^= with
		}
		t.Logf("%d refused, %d with warnings, %d still trusted", refused, warned, trusted)
	})
}

// TestDamagedType changes a bit of the type of each of some pokes. The change that is not
// read as one then is damage.
func TestDamagedType(t *testing.T) {
	v := newVictim(t, filepath.Join(corpus.Root(), "testdata", "small"))
	data := bytes.Clone(v.data)
	offsets := v.offsetsOf(perfdata.RecordTextPoke)
	for k := 7; k < len(offsets); k += 8 {
		lo := offsets[k]
		for bit := range 8 {
			data[lo] ^= 1 << bit
			if wrong, im := v.wrong(data, nil); wrong != 0 || im == nil {
				t.Errorf("type %v at %#x: %d wrong bytes", perfdata.RecordType(data[lo]), lo, wrong)
			}
			data[lo] ^= 1 << bit
		}
	}
	if n := len(offsets); n < 100 {
		t.Errorf("%d pokes", n)
	}
}

// TestSampleOfOtherTime: the CPU of a sample goes offline some time later. If the sample's time is damaged,
// the CPU must not seem to have been silent for as long before.
func TestSampleOfOtherTime(t *testing.T) {
	v := newVictim(t, filepath.Join(corpus.Root(), "testdata", "hotplug"))
	data := bytes.Clone(v.data)
	offsets := v.offsetsOf(perfdata.RecordSample)
	for k := 39; k < len(offsets); k += 40 {
		lo := offsets[k]
		for _, bit := range []int{35, 40, 62} {
			data[lo+24+bit/8] ^= 1 << (bit % 8) // of the time, behind the header, the id, pid and tid
			if wrong, _ := v.wrong(data, nil); wrong != 0 {
				t.Errorf("bit %d of the time of the sample at %#x: %d wrong bytes", bit, lo, wrong)
			}
			data[lo+24+bit/8] ^= 1 << (bit % 8)
		}
	}
	if n := len(offsets); n < 1000 {
		t.Errorf("%d samples", n)
	}
}

// TestEventsDiffer: where one of the two descriptions of an event is damaged, it is not certain what its records
// are: changes may seem to be copies for another event.
func TestEventsDiffer(t *testing.T) {
	v := newVictim(t, filepath.Join(corpus.Root(), "testdata", "hotplug"))
	data := bytes.Clone(v.data)
	const off, bit = 433, 7 // of the size of an event's ids in the attrs
	data[off] ^= 1 << bit
	if wrong, r := v.wrong(data, nil); wrong != 0 || r == nil || !r.Report.Damaged {
		t.Errorf("%d wrong bytes", wrong)
	}
}

// offsetsOf returns where the records of a type begin.
func (v *victim) offsetsOf(typ perfdata.RecordType) (out []int) {
	for _, r := range v.records {
		if perfdata.RecordType(v.data[r.lo]) == typ {
			out = append(out, r.lo)
		}
	}
	return out
}

// where names the record that has a byte.
func (v *victim) where(off int) string {
	for _, r := range v.records {
		if off >= r.lo && off < r.hi {
			return fmt.Sprintf("byte %d of the %v record at %#x", off-r.lo, perfdata.RecordType(v.data[r.lo]), r.lo)
		}
	}
	return "in no record"
}

// TestCut cuts large recordings in many places.
func TestCut(t *testing.T) {
	for _, name := range []string{"x86_64/storm", "x86_64/rich"} {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t, corpus.Large(t, name))
			rng := rand.New(rand.NewPCG(5, 6))
			answered := 0
			for range rounds(t, 4) {
				at := rng.IntN(len(v.data))
				n, r := v.wrong(v.data[:at:at], nil)
				if n != 0 {
					t.Errorf("cut at %d: %d wrong bytes", at, n)
				}
				if r == nil {
					continue
				}
				if len(r.Report.Warnings) == 0 {
					t.Errorf("cut at %d: no warning", at)
				}
				if r.Report.Horizon > r.Report.First {
					answered++
				}
			}
			if answered == 0 {
				t.Error("of no part is anything known")
			}
		})
	}
}

// TestCutThreads cuts a recording of several files, in one of them or in all.
func TestCutThreads(t *testing.T) {
	dir := corpus.Large(t, "x86_64/threads")
	v := newVictim(t, dir)
	source := filepath.Join(dir, "rec.data")
	files, err := filepath.Glob(filepath.Join(source, "data*"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	rng := rand.New(rand.NewPCG(9, 10))
	answered := 0
	for i := range rounds(t, 4) {
		cut := filepath.Join(t.TempDir(), "rec.data")
		if err := os.Mkdir(cut, 0o777); err != nil {
			t.Fatal(err)
		}
		victim := rng.IntN(len(files) + 1) // the last value means all of them
		for k, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if victim == k || victim == len(files) {
				data = data[:rng.IntN(len(data))]
			}
			if err := os.WriteFile(filepath.Join(cut, filepath.Base(file)), data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		rec, err := perfdata.Open(cut)
		if err != nil {
			continue
		}
		if r, err := replay.New(rec, v.snap, replay.Options{}); err == nil {
			v.differences(r.Image, func(addr, time uint64, known byte) {
				t.Errorf("cut %d: %#x at %d is known as %02x", i, addr, time, known)
			})
			if r.Report.Horizon > r.Report.First {
				answered++
			}
		}
		rec.Close()
	}
	if answered == 0 {
		t.Error("of no part is anything known")
	}
}

// TestDamagedCopy: if the recording's copy of text or its symbols cannot be read at all,
// the image uses what is left. A copy that the options name must be readable.
func TestDamagedCopy(t *testing.T) {
	source := filepath.Join(corpus.Root(), "testdata", "small", "rec.data")
	for _, name := range []string{"kcore", "kallsyms"} {
		path := filepath.Join(t.TempDir(), "rec.data")
		if err := os.CopyFS(path, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "kcore_dir", name), []byte("no such file\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := replay.Load(path, replay.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (r.Snapshot.Core == nil) != (name == "kcore") || (r.Kallsyms() == nil) != (name == "kallsyms") {
			t.Errorf("%s: the copy has %v and %v", name, r.Snapshot.Core, r.Kallsyms())
		}
		if w := fmt.Sprint(r.Report.Warnings); !strings.Contains(w, "kcore_dir/"+name) || !strings.Contains(w, "left out") {
			t.Errorf("%s: warnings %s", name, w)
		}
		known := 0
		sc := r.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
		var p perfdata.TextPoke
		for sc.Next() {
			if r.Recording.TextPoke(sc.Record(), &p) == nil && r.Image.At(p.Time).Read(p.Addr, make([]byte, 1)).Standing == timeline.Known {
				known++
			}
		}
		if known == 0 {
			t.Errorf("%s: nothing is known", name)
		}
		r.Close()
		if _, err := replay.Load(path, replay.Options{KCore: filepath.Join(path, "kcore_dir")}); err == nil {
			t.Errorf("%s: a damaged copy that was asked for is opened", name)
		}
	}
}
