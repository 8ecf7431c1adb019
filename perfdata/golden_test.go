// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/*.txt again")

// TestGolden compares all that is read out of the recordings in testdata with
// the text files.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.data")
	if err != nil || len(paths) == 0 {
		t.Fatal("no recordings in testdata: ", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var got bytes.Buffer
			dump(&got, r)
			golden := strings.TrimSuffix(path, ".data") + ".txt"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// dump prints all that the package can read.
func dump(w io.Writer, r *Recording) {
	fmt.Fprintf(w, "%v, %d bytes, pipe %v, clean end: %v, warnings: %v\n", r.ByteOrder(), r.Size(), r.Pipe(), r.CleanEnd(), r.Warnings())
	fmt.Fprintf(w, "\nfeatures %v\n", r.Features())
	vals := values(r)
	for _, f := range r.Features() {
		if v, ok := vals[f.String()]; ok {
			fmt.Fprintf(w, "  %v: %s\n", f, v)
		}
	}
	fmt.Fprintf(w, "\nevents\n")
	for _, ev := range r.Events() {
		a := ev.Attr
		fmt.Fprintf(w, "  %d %s: ids %v, type %d, config %#x, period %d, sample_type %#x, read_format %#x, flags %#x, clockid %d, size %d\n",
			ev.Index, ev.Name, ev.IDs, a.Type, a.Config, a.SamplePeriod, uint64(a.SampleType), uint64(a.ReadFormat), uint64(a.Flags), a.ClockID, a.Size)
	}
	fmt.Fprintf(w, "\nprograms\n")
	for p, err := range r.BPFProgs() {
		if err != nil {
			fmt.Fprintf(w, "  %v\n", err)
			continue
		}
		fmt.Fprintf(w, "  %d %s: type %d, tag %x, loaded %d, btf %d, %d bytes of code, %d functions, tables %d %d %d\n", p.ID, p.Name, p.Type, p.Tag, p.LoadTime, p.BTFID,
			len(p.Insns), len(p.FuncLens), p.FuncInfo.Count, p.LineInfo.Count, p.JitedLineInfo.Count)
		for f := range p.Funcs() {
			fmt.Fprintf(w, "    %#x %d %x %x\n", f.Addr, f.Len, f.Tag, f.Code)
		}
	}
	for b, err := range r.BPFBTFs() {
		fmt.Fprintf(w, "  BTF %d: %d bytes, %v\n", b.ID, len(b.Data), err)
	}
	fmt.Fprintf(w, "\nrecords\n")
	s := r.Scan()
	for s.Next() {
		rec := s.Record()
		fmt.Fprintf(w, "  %d %v, misc %#x, %d bytes", rec.Offset, rec.Type, rec.Misc, len(rec.Raw))
		var id SampleID
		if err := r.SampleID(rec, &id); err != nil {
			fmt.Fprintf(w, ": %v", err)
		}
		if id.Event != nil {
			fmt.Fprintf(w, ", event %d by id %d, time %d, cpu %d, pid %d, tid %d", id.Event.Index, id.ID, id.Time, id.CPU, id.PID, id.TID)
		}
		v, err := decode(r, rec)
		switch v := v.(type) {
		case *TextPoke:
			fmt.Fprintf(w, ": %#x %x -> %x, excess %d", v.Addr, v.Old, v.New, v.Excess)
		case *KSymbol:
			fmt.Fprintf(w, ": %#x %d kind %d flags %d %s, excess %d", v.Addr, v.Len, v.Kind, v.Flags, v.Name, v.Excess)
		case *BPFEvent:
			fmt.Fprintf(w, ": kind %d flags %d id %d tag %x, excess %d", v.Kind, v.Flags, v.ID, v.Tag, v.Excess)
		case *Mmap:
			fmt.Fprintf(w, ": %d/%d %#x %#x @ %#x, %d:%d %d %d, build id %x, prot %d flags %d %s",
				int32(v.PID), int32(v.TID), v.Addr, v.Len, v.Pgoff, v.Major, v.Minor, v.Ino, v.InoGeneration, v.BuildID, v.Prot, v.Flags, v.Filename)
		case *Comm:
			fmt.Fprintf(w, ": %d/%d %s", v.PID, v.TID, v.Comm)
		case *Task:
			fmt.Fprintf(w, ": %d/%d of %d/%d at %d", v.PID, v.TID, v.PPID, v.PTID, v.TaskTime)
		case *Lost:
			fmt.Fprintf(w, ": %d, id %d", v.Lost, v.ID)
		case *LostSamples:
			fmt.Fprintf(w, ": %d", v.Lost)
		case *TimeConv, *IDIndex, *CPUMap:
			fmt.Fprintf(w, ": %+v", v)
		}
		if err != nil {
			fmt.Fprintf(w, ": %v", err)
		}
		fmt.Fprintln(w)
	}
	if err := s.Err(); err != nil {
		fmt.Fprintln(w, err)
	}
}

func excess(v any) int {
	switch v := v.(type) {
	case *TextPoke:
		return v.Excess
	case *KSymbol:
		return v.Excess
	}
	return 0
}

// TestPerfAgrees lets perf read what a Writer wrote, and compares the records
// that it finds, their places, times and CPUs.
func TestPerfAgrees(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed")
	}
	bigFile := filepath.Join(t.TempDir(), "big.data")
	b := build(t, big, testEvents(), sample)
	if err := os.WriteFile(bigFile, b, 0o666); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(-?\d+) (\d+) (0x[0-9a-f]+) \[(0x[0-9a-f]+)\]: PERF_RECORD_(\w+)`)
	for _, path := range []string{"testdata/x86_64.data", bigFile} {
		out, err := exec.Command(perf, "report", "-D", "-i", path).CombinedOutput()
		if err != nil {
			t.Skipf("perf report -D -i %s: %v\n%s", path, err, out)
		}
		type record struct {
			Place, Size, Name string
			Time              string
		}
		var want []record
		for _, m := range line.FindAllSubmatch(out, -1) {
			want = append(want, record{string(m[3]), string(m[4]), string(m[5]), string(m[2])})
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []record
		for s := r.Scan(); s.Next(); {
			rec := s.Record()
			var id SampleID
			if err := r.SampleID(rec, &id); err != nil {
				t.Error(err)
			}
			if v, _ := decode(r, rec); excess(v) != 0 {
				id.Time = 0 // perf takes the trailer from the end, where the bytes are stale
			}
			got = append(got, record{fmt.Sprintf("%#x", rec.Offset), fmt.Sprintf("%#x", len(rec.Raw)), rec.Type.String(), fmt.Sprint(id.Time)})
		}
		r.Close()
		// perf prints them in the order of time.
		byPlace := func(a, b record) int {
			return cmp.Or(cmp.Compare(len(a.Place), len(b.Place)), strings.Compare(a.Place, b.Place))
		}
		slices.SortFunc(want, byPlace)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-perf +got):\n%s", path, diff)
		}
	}
}
