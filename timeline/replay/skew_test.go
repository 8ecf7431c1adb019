// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// retimed loads a copy of a recording with another time at each of the given offsets.
func retimed(t *testing.T, source string, to uint64, offsets ...int64) *Replay {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "data"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range offsets {
		_, e := f.WriteAt(binary.LittleEndian.AppendUint64(nil, to), offset)
		err = errors.Join(err, e)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestSkewRecorded sets back the clock of one CPU in a real recording. Two successive
// changes of a place then have times in the wrong order. Bytes far from any change do not
// change. Bytes near a change are in flight.
func TestSkewRecorded(t *testing.T) {
	const source = "../../testdata/small/rec.data"
	was, err := Load(source, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer was.Close()
	if n := len(was.Report.Skews); n != 0 {
		t.Fatalf("%d skews found in a recording that has none", n)
	}

	// Four successive changes of a place. The middle two are of different CPUs and less than a
	// second apart.
	type made struct {
		offset int64 // of the time in the file
		time   uint64
		cpu    uint32
		old    string
	}
	places := make(map[uint64][]made)
	const by = 1000
	tasks := make(map[uint32][]made) // records of each CPU: those of tasks, and pokes with their old bytes
	for sc := was.Recording.Scan(); sc.Next(); {
		rec := sc.Record()
		var id perfdata.SampleID
		if !madeByTask(rec.Type) || was.Recording.SampleID(rec, &id) != nil {
			continue
		}
		m := made{offset: rec.Offset + int64(len(rec.Raw)-trailerSize(&id)), time: id.Time}
		if id.Has&perfdata.SampleTID != 0 {
			m.offset += 8
		}
		if rec.Type == perfdata.RecordTextPoke {
			m.old = "a poke"
		}
		tasks[id.CPU] = append(tasks[id.CPU], m)
	}
	// between returns the records of a CPU in an interval; ok is false if some are pokes.
	between := func(cpu uint32, from, to uint64) (offsets []int64, ok bool) {
		for _, m := range tasks[cpu] {
			if from < m.time && m.time < to {
				if m.old != "" {
					return nil, false
				}
				offsets = append(offsets, m.offset)
			}
		}
		return offsets, true
	}
	var p perfdata.TextPoke
	sc := was.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	for sc.Next() {
		rec := sc.Record()
		if err := was.Recording.TextPoke(rec, &p); err != nil {
			t.Fatal(err)
		}
		if !was.scan.isChosen(rec, &p.SampleID, takesPokes) || len(p.Old) != len(p.New) {
			continue
		}
		at := rec.Offset + int64(len(rec.Raw)-trailerSize(&p.SampleID))
		if p.Has&perfdata.SampleTID != 0 {
			at += 8
		}
		places[p.Addr] = append(places[p.Addr], made{offset: at, time: p.Time, cpu: p.CPU, old: string(p.Old)})
	}
	var addr uint64
	var pair []made
	var moved []int64
	for a, list := range places {
		slices.SortFunc(list, func(x, y made) int { return cmp.Compare(x.time, y.time) })
		for i := 1; i+2 < len(list); i++ {
			x, y := list[i], list[i+1]
			if others, ok := between(y.cpu, x.time-by, y.time); ok && x.cpu != y.cpu && y.time-x.time < 1e9/2 && (addr == 0 || a < addr) {
				addr, pair, moved = a, []made{x, y}, others
			}
		}
	}
	if addr == 0 {
		t.Fatal("no place was changed by two CPUs in quick succession")
	}

	// The second of the pair comes 1,000 ns after the first, or is recorded 1,000 ns before
	// it. Earlier records of tasks on its CPU move with it.
	base := retimed(t, source, pair[0].time+by, pair[1].offset)
	if n := len(base.Report.Skews); n != 0 {
		t.Fatalf("%d skews found in order", n)
	}
	now := retimed(t, source, pair[0].time-by, append(moved, pair[1].offset)...)
	want := []timeline.Skew{{Addr: addr, First: pair[0].time, Second: pair[0].time - by, FirstCPU: int(pair[0].cpu), SecondCPU: int(pair[1].cpu)}}
	if d := gocmp.Diff(want, now.Report.Skews); d != "" {
		t.Fatalf("skews (-want +got):\n%s", d)
	}
	if got := now.Report.ClockUncertainty; got != timekeeperTick {
		t.Errorf("uncertainty %d, want %d", got, uint64(timekeeperTick))
	}

	var a, b [5]byte
	known, flying := 0, 0
	for addr, list := range places {
		for _, m := range list {
			for _, d := range []int64{-2 * timekeeperTick, -by, 0, by, 2 * timekeeperTick} {
				at := m.time + uint64(d)
				x, y := base.Image.At(at).Read(addr, a[:]), now.Image.At(at).Read(addr, b[:])
				switch {
				case y.Standing == timeline.Known && x.Standing == timeline.Known && a != b:
					t.Fatalf("%#x at %d: %x, want %x", addr, at, b, a)
				case y.Standing == timeline.Known:
					known++
				case y.Standing == timeline.InFlight:
					flying++
					for s := range now.Image.At(at).Spans(addr, 5) {
						if s.Standing == timeline.InFlight && !slices.ContainsFunc(s.Candidates, func(c timeline.Candidate) bool {
							return x.Standing != timeline.Known || string(c.Bytes) == string(a[s.Addr-addr:][:s.Len])
						}) {
							t.Fatalf("%#x at %d: %x is not among the candidates %+v", s.Addr, at, a, s.Candidates)
						}
					}
				}
			}
		}
	}
	if known < 100 || flying < 100 {
		t.Errorf("%d known, %d in flight: both should be many", known, flying)
	}
}

// TestSkewLeast: two changes show by how much clocks differ at least. So a time of a third CPU, whose clock is further
// apart, may be before a change or after it.
func TestSkewLeast(t *testing.T) {
	for _, differ := range []bool{true, false} {
		k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: genperf.TextAddr,
			Text: bytes.Repeat([]byte{0x90}, 4096), CPUs: 3}
		path := filepath.Join(t.TempDir(), "rec.data")
		w, err := k.Record(path)
		if err != nil {
			t.Fatal(err)
		}
		poke := func(time uint64, cpu uint32, at uint64, old, new byte) {
			err := w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + at, Old: []byte{0x90, old}, New: []byte{0x90, new}, SampleID: w.ID(time, cpu, 100)})
			if err != nil {
				t.Fatal(err)
			}
		}
		poke(2e9, 0, 16, 0x90, 1)
		if differ {
			poke(3e9-1000, 1, 16, 2, 3) // it was made after the next one
			poke(3e9, 0, 16, 1, 2)
		}
		poke(4e9, 2, 32, 0x90, 1)
		if err := w.End(9e9); err != nil {
			t.Fatal(err)
		}
		r, err := Load(path, Options{Windows: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		if !r.Report.ClocksMayDiffer || differ != (r.Report.ClockUncertainty == timeline.AssumedSkew) || differ != (len(r.Report.Skews) == 1) {
			t.Errorf("clocks may differ: %v, uncertainty %d, %v", r.Report.ClocksMayDiffer, r.Report.ClockUncertainty, r.Report.Skews)
		}
		var b [1]byte
		for _, d := range []int64{-timeline.AssumedSkew - 1, -timeline.AssumedSkew, -1, 0, timeline.AssumedSkew, timeline.AssumedSkew + 1} {
			want := timeline.Known
			if differ && d >= -timeline.AssumedSkew && d <= timeline.AssumedSkew {
				want = timeline.InFlight
			}
			if got := r.Image.At(uint64(4e9+d)).Read(genperf.TextAddr+33, b[:]).Standing; got != want {
				t.Errorf("clocks differ %v: %d ns from the change it is %v, want %v", differ, d, got, want)
			}
		}
		const near = 4e9 + timeline.AssumedSkew/2
		if got := len(r.Windows().At(genperf.TextAddr+33, 1, near)); differ && got != 1 {
			t.Errorf("%d windows", got)
		}
		if by, _ := r.UncertaintyBefore(2.5e9); by != 0 {
			t.Errorf("before anything shows it, times are uncertain by %d", by)
		}
	}
}
