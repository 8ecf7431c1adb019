// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// neverChunks reads each record by itself. smallChunks makes very small chunks, even where
// they do not pay.
var (
	neverChunks = chunking{records: 1 << 12, bytes: 1 << 18, least: 1 << 62}
	smallChunks = chunking{records: 16, bytes: 1 << 12, least: 1, run: 0, keep: 3, batch: 1 << 12}
)

// read is what Load makes of a recording.
type read struct {
	Err    string
	Report *Report
	Image  *timeline.Encoded
	Placed *timeline.Windows
	Writes *codeWrites
	// What the second passes find, in hashes of all changes.
	Changes, Alone string
	Findings       []Finding
	Times          [][]uint64 // of the records of tasks, by ring buffer
	runs           int        // of pokes, which were not decoded at once
	inRuns         int        // records
}

// readWith loads a recording in chunks of this kind, on so many CPUs.
func readWith(t *testing.T, path string, by chunking, cpus int) read {
	t.Helper()
	was := usualChunking
	usualChunking = by
	n := runtime.GOMAXPROCS(cpus)
	defer func() {
		usualChunking = was
		runtime.GOMAXPROCS(n)
	}()
	r, err := Load(path, Options{Windows: true})
	if err != nil {
		return read{Err: err.Error()}
	}
	t.Cleanup(func() { r.Close() })
	im := r.Image.Encode()
	writes := r.codeWrites()
	checkNear(t, r)
	var times [][]uint64
	for _, b := range r.scan.buffers {
		b.tasks.settle()
		times = append(times, b.tasks.times)
	}
	return read{Report: r.Report, Image: &im, Placed: r.Windows(), Writes: writes, Times: times,
		Changes: hashOf(r.Changes()), Alone: hashOf(r.ChangesAlone()), Findings: slices.Collect(r.Findings()),
		runs: len(r.scan.placed.runs), inRuns: r.scan.inRuns}
}

// hashOf returns a hash of changes.
func hashOf(changes iter.Seq[*Change]) string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 1<<16)
	for c := range changes {
		binary.Write(w, binary.LittleEndian, []uint64{c.Time, c.Began, uint64(c.Kind)}) // a hash takes everything
		switch {
		case c.Poke != nil:
			p := c.Poke
			binary.Write(w, binary.LittleEndian, []uint64{p.Addr, uint64(len(p.Old)), uint64(len(p.New)), p.Time, p.ID, uint64(p.PID), uint64(p.TID), uint64(p.CPU), uint64(p.Has)})
			w.Write(p.Old)
			w.Write(p.New)
		case c.KSymbol != nil:
			k := *c.KSymbol
			k.Event = nil
			fmt.Fprintf(w, "%+v", k)
		case c.BPF != nil:
			b := *c.BPF
			b.Event = nil
			fmt.Fprintf(w, "%+v", b)
		case c.Loss != nil:
			fmt.Fprintf(w, "%+v", *c.Loss)
		}
		if c.Batch != nil {
			fmt.Fprintf(w, "%+v", *c.Batch)
		}
		w.WriteString(c.Comm)
	}
	w.Flush()
	return hex.EncodeToString(h.Sum(nil))
}

// checkNear compares what the pokes around a time say of windows with all windows.
func checkNear(t *testing.T, r *Replay) {
	t.Helper()
	w := r.scan.newWindows()
	var places []timeline.InPlacePoke
	for p := range w.Batches() {
		places = append(places, *p)
	}
	if len(places) == 0 {
		return
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		p, q := places[rnd.IntN(len(places))], places[rnd.IntN(len(places))]
		at := []uint64{p.Time, p.Time - 1, q.Time, q.Time + 1, 0, timeline.MaxTime - 1}[rnd.IntN(6)]
		if found := w.At(p.Addr, 2, at); len(found) > 0 && !r.scan.mayHaveWindow(p.Addr, 2, at) {
			t.Fatalf("no window is near %#x at %d, but there is %+v", p.Addr, at, found[0])
		}
	}
}

// written writes a history, and loads it.
func written(t *testing.T, h genperf.History) *Replay {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rec")
	if err := h.Write(path); err != nil {
		t.Fatal(err)
	}
	r, err := Load(path, Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// noted reads a recording of this history, and runs of its pokes are kept.
func noted(t *testing.T, h genperf.History) *Replay {
	t.Helper()
	r := written(t, h)
	if len(r.scan.placed.runs) == 0 {
		t.Fatal("no run of pokes was kept")
	}
	return r
}

// TestFewWindows asks for windows where few questions do not need all of them.
func TestFewWindows(t *testing.T) {
	t.Run("clocks that are equal", func(t *testing.T) { testFewWindows(t, 0) })
	t.Run("clocks that differ", func(t *testing.T) { testFewWindows(t, 1e9) })
}

func testFewWindows(t *testing.T, skew uint64) {
	h := genperf.History{Pokes: 60_000, Sites: 20_000}
	r := noted(t, h)
	r.Report.ClockUncertainty = skew
	all := r.scan.newWindows()
	all.Widen(skew)
	first, last := r.Report.First, r.Report.Horizon
	none := 0
	for i := range uint64(50) {
		addr, at := h.Addr(int((i+7)*371%20_000)), first+(last-first)/50*i
		want := all.At(addr, 5, at)
		if !r.scan.mayHaveWindow(addr, 5, at) {
			none++
		}
		if got := r.WindowsAt(addr, 5, at); !reflect.DeepEqual(got, want) {
			t.Errorf("%#x at %d: windows %v, want %v", addr, at, got, want)
		}
		if made := r.windows != nil; skew == 0 && (made && i < 4 || !made && i >= 4) {
			t.Errorf("after question %d, all windows were made: %v", i, made)
		}
	}
	if none < 40 && skew == 0 {
		t.Errorf("only %d of 50 questions were answered by the pokes around them", none)
	}
	var p timeline.InPlacePoke
	for q := range all.Batches() {
		if p = *q; p.Time > first+(last-first)/2 {
			break
		}
	}
	if !r.scan.mayHaveWindow(p.Addr, 1, p.Time) || len(all.At(p.Addr, 1, p.Time)) == 0 {
		t.Error("a poke has no window at its own time")
	}
}

// TestTimesInFile compares times that wait in the file with times that were added one by
// one.
func TestTimesInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec")
	if err := (&genperf.History{Pokes: 10, Sites: 5}).Write(path); err != nil {
		t.Fatal(err)
	}
	rec, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	sc := rec.Scan(perfdata.Only(perfdata.RecordTextPoke))
	var p perfdata.TextPoke
	if !sc.Next() || !rec.PlainTextPoke(sc.Record().Raw, &p) {
		t.Fatal("no plain poke")
	}
	raw := slices.Clone(sc.Record().Raw)
	at := bytes.LastIndex(raw, binary.LittleEndian.AppendUint64(nil, p.Time)) // where the time is
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := range 13 {
		var fast, slow taskOrder
		now := uint64(1000)
		most, runs, alone := []int{10, 1_000, 30_000, 100_000}[round%4], 40, 4
		if round == 12 { // more runs than may wait
			most, runs, alone = 40, 3*mostWaiting, 20_000
		}
		for range runs {
			if rnd.IntN(alone) == 0 { // a record by itself, which may go back
				at := now + uint64(rnd.IntN(3))
				if rnd.IntN(3) == 0 {
					at = now - uint64(rnd.IntN(900))
				}
				now = max(now, at)
				fast.see(at)
				slow.see(at)
				continue
			}
			n := 1 + rnd.IntN(most)
			data := make([]byte, 0, n*len(raw))
			for range n {
				now += uint64(rnd.IntN(3))
				binary.LittleEndian.PutUint64(raw[at:], now)
				data = append(data, raw...)
				slow.see(now)
			}
			if run := (pokeRecords{rec, data}); rnd.IntN(3) > 0 {
				fast.wait(timesInFile{pokes: run, n: n}, now)
			} else {
				var times []uint64
				for p := range run.all {
					times = append(times, p.Time)
				}
				fast.seeAll(times)
			}
		}
		if fast.newest != slow.newest || fast.latest != slow.latest || !reflect.DeepEqual(fast.steps, slow.steps) {
			t.Fatalf("round %d: %d, %d, %v, want %d, %d, %v", round, fast.newest, fast.latest, fast.steps, slow.newest, slow.latest, slow.steps)
		}
		fast.settle()
		if !slices.Equal(fast.times, slow.times) {
			t.Fatalf("round %d: %d times, want %d, or others", round, len(fast.times), len(slow.times))
		}
		if fast.repeated != slow.repeated {
			t.Fatalf("round %d: repeated %d, want %d", round, fast.repeated, slow.repeated)
		}
	}
}

// difference says in which part two readings differ, "" if they do not.
func difference(a, b read) string {
	switch {
	case a.Err != b.Err:
		return fmt.Sprintf("error %q, %q", a.Err, b.Err)
	case !reflect.DeepEqual(a.Report, b.Report):
		return "the report: " + cmp.Diff(fmt.Sprintf("%+v", a.Report), fmt.Sprintf("%+v", b.Report))
	case !reflect.DeepEqual(a.Image, b.Image):
		return "the image"
	case !reflect.DeepEqual(a.Placed, b.Placed):
		return "the windows"
	case !reflect.DeepEqual(a.Writes, b.Writes):
		return "the writes of out-of-line code"
	case a.Changes != b.Changes:
		return "the changes"
	case a.Alone != b.Alone:
		return "the changes without batches"
	case !reflect.DeepEqual(a.Findings, b.Findings):
		return "the findings: " + cmp.Diff(a.Findings, b.Findings)
	case !reflect.DeepEqual(a.Times, b.Times):
		return "the times by which repetitions are found"
	}
	return ""
}

// compress writes a copy of a recording in which records of the kernel are compressed.
func compress(t *testing.T, from, to string, typ perfdata.RecordType) string {
	t.Helper()
	rec, err := perfdata.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if kcore := os.DirFS(from); isDir(filepath.Join(from, "kcore_dir")) {
		must(os.CopyFS(to, kcore))
	} else {
		must(os.Mkdir(to, 0o777))
	}
	f, err := os.Create(filepath.Join(to, "data"))
	must(err)
	defer f.Close()
	w := perfdata.NewWriter(f, rec.ByteOrder(), perfdata.Compress(typ))
	must(w.SetEvents(rec.Events()))
	sc := rec.Scan()
	for sc.Next() {
		must(w.WriteRecord(sc.Record().Raw))
	}
	must(sc.Err())
	for _, ft := range rec.Features() {
		if b, err := rec.Feature(ft); err == nil && ft != perfdata.FeatureDirFormat {
			must(w.WriteFeature(ft, b))
		}
	}
	must(w.Close())
	return to
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// histories are read in chunks and in batches.
var histories = map[string]genperf.History{
	"address": {Pokes: 30_000, Sites: 500},
	"random":  {Pokes: 60_000, Sites: 300, Order: genperf.Random, CPUs: 4},
	"births":  {Pokes: 30_000, Sites: 500, Births: 5},
	"samples": {Pokes: 1_000, Sites: 500, Samples: 30_000},
}

// readsAlike compares what is read record by record with what is read in small and usual chunks or batches, on one CPU
// and on several. It returns how many runs of pokes were kept, and how many records were entered in runs.
func readsAlike(t *testing.T, path string) (runs, inRuns int) {
	t.Helper()
	want := readWith(t, path, neverChunks, 1)
	if want.Err != "" {
		t.Fatal(want.Err)
	}
	for _, by := range []chunking{smallChunks, usualChunking} {
		for _, cpus := range []int{1, 2, 3, 8} {
			got := readWith(t, path, by, cpus)
			runs, inRuns = runs+got.runs, inRuns+got.inRuns
			if d := difference(want, got); d != "" {
				t.Errorf("regions of %d bytes, batches of %d, %d CPUs: %.2000s", by.bytes, by.batch, cpus, d)
			}
		}
	}
	return runs, inRuns
}

// TestBatchesChangeNothing compares what is read in batches, if records are compressed, with what is read
// record by record.
func TestBatchesChangeNothing(t *testing.T) {
	dir := t.TempDir()
	paths := map[string]string{"z72": "../../testdata/z72/rec.data"}
	for i, name := range []string{"callgraph", "hotplug", "lossy", "rich", "small", "smalldup", "storm", "arm64"} {
		typ := []perfdata.RecordType{perfdata.RecordCompressed, perfdata.RecordCompressed2}[i%2]
		paths[name] = compress(t, filepath.Join("../../testdata", name, "rec.data"), filepath.Join(dir, name), typ)
	}
	for name, h := range histories {
		plain := filepath.Join(dir, name+".plain")
		if err := h.Write(plain); err != nil {
			t.Fatal(err)
		}
		paths[name] = compress(t, plain, filepath.Join(dir, name), perfdata.RecordCompressed)
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			_, inRuns := readsAlike(t, path)
			if inRuns == 0 && name != "arm64" && name != "callgraph" && name != "smalldup" {
				t.Error("no record was entered in a run")
			}
		})
	}
}

// TestChunksChangeNothing compares what is read in chunks, small and usual ones, on one CPU
// and on several, with what is read record by record.
func TestChunksChangeNothing(t *testing.T) {
	dir := t.TempDir()
	paths := map[string]string{}
	for _, name := range []string{"callgraph", "hotplug", "lossy", "rich", "small", "smalldup", "storm", "z72", "arm64"} {
		paths[name] = filepath.Join("../../testdata", name, "rec.data")
	}
	for name, h := range histories {
		paths[name] = filepath.Join(dir, name)
		if err := h.Write(paths[name]); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			runs, _ := readsAlike(t, path)
			if runs == 0 && name != "arm64" && name != "callgraph" && name != "smalldup" && name != "samples" {
				t.Error("no run of pokes was kept")
			}
		})
	}
}

// TestChunksOfDamaged does so for recordings in which some bytes were overwritten.
func TestChunksOfDamaged(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 15
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	h := genperf.History{Pokes: 1_500, Sites: 40, Order: genperf.Random, CPUs: 2, Births: 3}
	if err := h.Write(filepath.Join(dir, "made")); err != nil {
		t.Fatal(err)
	}
	packed := compress(t, filepath.Join(dir, "made"), filepath.Join(dir, "packed"), perfdata.RecordCompressed)
	for _, path := range []string{filepath.Join(dir, "made", "data"), filepath.Join(packed, "data"), "../../testdata/small/rec.data/data", "../../testdata/smalldup/rec.data/data"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		loaded := 0
		for i := range rounds {
			bad := append([]byte(nil), data...)
			for range 1 + rnd.IntN(3) {
				at := 500 + rnd.IntN(len(bad)-500)
				for k := range min(1+rnd.IntN(16), len(bad)-at) {
					bad[at+k] = [...]byte{0, 1, 0xff, byte(rnd.IntN(256))}[rnd.IntN(4)]
				}
			}
			if rnd.IntN(4) == 0 {
				bad = bad[:500+rnd.IntN(len(bad)-500)]
			}
			copied := filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(copied, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			want := readWith(t, copied, neverChunks, 1)
			if want.Err == "" {
				loaded++
			}
			if d := difference(want, readWith(t, copied, smallChunks, 1+i%3)); d != "" {
				t.Fatalf("%s, round %d: %.2000s", path, i, d)
			}
		}
		if loaded < rounds/2 {
			t.Errorf("%s: only %d of %d damaged copies could be read", path, loaded, rounds)
		}
	}
}

// TestChunksBeforeDamage: where the Scanner cannot go on as the chunk says, because a record is damaged,
// no poke before it is lost.
func TestChunksBeforeDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec")
	h := genperf.History{Pokes: 5_000, Sites: 50, Births: 5}
	if err := h.Write(path); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(path, "data")
	rec, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var births []int64
	for sc := rec.Scan(perfdata.Only(perfdata.RecordKSymbol)); sc.Next(); {
		births = append(births, sc.Record().Offset)
	}
	if err := rec.Close(); err != nil || len(births) < 20 {
		t.Fatal(len(births), err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		bad := slices.Clone(good)
		binary.LittleEndian.PutUint32(bad[births[i*len(births)/20]:], 0) // no type that there is
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		want := readWith(t, path, neverChunks, 1)
		for _, by := range []chunking{smallChunks, {records: 1 << 12, bytes: 1 << 14, least: 1, run: 1, keep: 3}} {
			if d := difference(want, readWith(t, path, by, 1+i%3)); want.Err != "" || d != "" {
				t.Fatalf("record %d is damaged: %s%.2000s", i, want.Err, d)
			}
		}
	}
}

// cutReader is a file that was cut short meanwhile: it has only the first n bytes.
type cutReader struct {
	io.ReaderAt
	n int64
}

func (r cutReader) ReadAt(b []byte, off int64) (int, error) {
	return r.ReaderAt.ReadAt(b[:max(0, min(int64(len(b)), r.n-off))], off)
}

// TestChunksOfCut: what cannot be read is taken from the mapping. Where the file was cut short, that is a
// fault, which Guard makes an error.
func TestChunksOfCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rec")
	h := genperf.History{Pokes: 20_000, Sites: 500}
	if err := h.Write(path); err != nil {
		t.Fatal(err)
	}
	rec, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	pokes := func(n int64) (sum int) {
		s := newScan(rec, nil, nil)
		sc := rec.Scan()
		for !s.mayEnterRuns() && sc.Next() {
			s.step(sc.Record())
		}
		c := newChunks(s, sc.Rest(), cutReader{sc.RestReader(), n})
		defer c.stop()
		for x := c.take(); x != nil; x = c.take() {
			if x.failed != nil {
				t.Fatal(x.failed)
			}
			sum += x.pokes.Len()
			c.giveBack(x)
		}
		return sum
	}
	want := pokes(1 << 62)
	for _, n := range []int64{0, 1000, 1 << 18, 1<<18 + 1000, 1_000_000} {
		if got := pokes(n); got != want || got < h.Pokes*9/10 {
			t.Errorf("%d pokes where %d bytes can be read, %d where all can", got, n, want)
		}
	}
}

// TestProgressCountsAUX: what is read of AUX traces counts, so that the memory of a long one
// is unloaded while it is read.
func TestProgressCountsAUX(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aux.data")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(genperf.AUX(f, 200<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	calls := 0
	r, err := Load(path, Options{Progress: func(done, total int64) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if calls < 10 {
		t.Errorf("progress was reported %d times in 200 MiB, want one time for each 16 MiB", calls)
	}
}

// TestChunksEnterRuns: nearly all records are entered as runs, and few chunks are decoded twice,
// otherwise chunks only cost time.
func TestChunksEnterRuns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for name, h := range map[string]genperf.History{
		"address": {Pokes: 100_000, Sites: 5_000},
		"random":  {Pokes: 100_000, Sites: 5_000, Order: genperf.Random, CPUs: 4},
		"samples": {Pokes: 1_000, Sites: 500, Samples: 100_000},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "rec")
		if err := h.Write(path); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{path, compress(t, path, filepath.Join(dir, "packed"), perfdata.RecordCompressed)} {
			r, err := Load(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got, least := r.scan.inRuns, (h.Pokes+h.Samples)*8/10; got < least {
				t.Errorf("%s: %d records were entered as runs, want %d", name, got, least)
			}
			if n := r.scan.misjudged; n > 0 {
				t.Errorf("%s: %d chunks were not guessed right", name, n)
			}
		}
	}
}
