// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A growing file is written bit by bit, as perf does it: the header says how
// long the records are only at the end.
type growing struct {
	whole []byte
	size  int64 // bytes of it that are there
	ended bool
}

func (g *growing) ReadAt(p []byte, off int64) (int, error) {
	if off >= g.size {
		return 0, io.EOF
	}
	n := copy(p, g.whole[off:g.size])
	if !g.ended {
		for i := max(off, hdrData+8); i < min(off+int64(n), hdrData+16); i++ {
			p[i-off] = 0
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// grow adds up to n bytes, and then the end of the recording.
func (g *growing) grow(n int64) {
	switch {
	case g.size < int64(len(g.whole)):
		g.size = min(g.size+n, int64(len(g.whole)))
	default:
		g.ended = true
	}
}

// recordsOf lists the records that a reader has, without their places.
func recordsOf(t *testing.T, src io.Reader) (list []string, err error) {
	t.Helper()
	rd, err := NewReader(src)
	if err != nil {
		return nil, err
	}
	for rd.Next() {
		rec := rd.Record()
		line := fmt.Sprintf("%v %x", rec.Type, rec.Raw)
		if rec.Type == RecordAuxtrace {
			b, err := io.ReadAll(rd.Payload())
			line += fmt.Sprintf(" %x %v", b, err)
		}
		list = append(list, line)
	}
	return list, rd.Err()
}

func tailTestFile(t testing.TB, e endian) []byte {
	t.Helper()
	return build(t, e, testEvents(), func(w *Writer) {
		sample(w)
		w.WriteRecord(rawRecord(e, RecordFinishedRound, 0, nil))
		sample(w)
		w.WriteFeature(FeatureCmdline, e.appendString(e.appendU32s(nil, 1), "perf"))
	})
}

// TestTail reads recordings while they grow.
func TestTail(t *testing.T) {
	for _, e := range []endian{little, big} {
		file := tailTestFile(t, e)
		want, err := recordsOf(t, bytes.NewReader(file))
		if err != nil || len(want) < 7 {
			t.Fatalf("%d records, %v", len(want), err)
		}
		for seed := range uint64(50) {
			rng := rand.New(rand.NewPCG(seed, 7))
			g := &growing{whole: file}
			waits := 0
			got, err := recordsOf(t, NewTail(g, func() error {
				if waits++; g.ended {
					t.Fatal("it waits although the recording has ended")
				}
				g.grow(rng.Int64N(200) + 1)
				return nil
			}))
			if err != nil || waits < 3 {
				t.Fatalf("seed %d: error %v after %d waits", seed, err, waits)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("seed %d (-want +got):\n%s", seed, d)
			}
		}
		// A complete recording comes whole, with its features.
		rd, err := NewReader(NewTail(bytes.NewReader(file), func() error { t.Fatal("it waits"); return nil }))
		if err != nil {
			t.Fatal(err)
		}
		for rd.Next() {
		}
		if args, err := rd.Recording().Cmdline(); err != nil || rd.Err() != nil || len(args) != 1 {
			t.Errorf("command line %q, errors %v, %v", args, err, rd.Err())
		}
	}
}

// TestTailChanged: what was cut, or written anew, is not taken for more of the recording, and the Tail
// waits no longer.
func TestTailChanged(t *testing.T) {
	other := func(last uint64) []byte {
		return build(t, little, testEvents(), func(w *Writer) {
			for i := range uint64(40) {
				w.WriteRecord(rawRecord(little, RecordFinishedRound, 0, nil))
				w.WriteRecord(rawRecord(little, 90, 0, little.appendU64s(nil, []uint64{1, 2, i, last})))
			}
		})
	}
	file := other(0)
	for name, change := range map[string]func(g *growing){
		"cut within the header":    func(g *growing) { g.size = 50 },
		"emptied":                  func(g *growing) { g.size = 0 },
		"cut":                      func(g *growing) { g.size = 1000 },
		"another of the same size": func(g *growing) { g.whole = other(1) },
		"another header":           func(g *growing) { g.whole = append(bytes.Clone(file[:20]), other(1)[24:]...) },
		"emptied, and written behind": func(g *growing) {
			g.whole = append(make([]byte, g.size), file[g.size:]...)
		},
	} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 8))
			g := &growing{whole: bytes.Clone(file), size: 1100 + rng.Int64N(int64(len(file))-1300)}
			waits := 0
			_, err := recordsOf(t, NewTail(g, func() error {
				if waits++; waits == 1 {
					change(g)
					return nil
				}
				if waits > 2 {
					t.Fatalf("%s, seed %d: it waits on", name, seed)
				}
				return io.EOF
			}))
			var changed *ChangedError
			if !errors.As(err, &changed) {
				t.Fatalf("%s, seed %d: error %v after %d waits", name, seed, err, waits)
			}
		}
	}
}

// TestTailPipe reads what perf writes to a pipe out of a file that grows.
func TestTailPipe(t *testing.T) {
	e := little
	trace := rawRecord(e, RecordAuxtrace, 0, e.appendU64s(nil, []uint64{24, 0, 0, 0, 0}))
	pipe := pipeOf(e, rawRecord(e, RecordFinishedRound, 0, nil), append(trace, make([]byte, 24)...), rawRecord(e, RecordFinishedRound, 0, nil))
	want, err := recordsOf(t, bytes.NewReader(pipe))
	if err != nil || len(want) < 3 {
		t.Fatalf("%d records, %v", len(want), err)
	}
	for step := int64(1); step < 40; step++ {
		g := &growing{whole: pipe, ended: true}
		got, err := recordsOf(t, NewTail(g, func() error {
			if g.size == int64(len(pipe)) {
				return io.EOF // a pipe ends when its writer does
			}
			g.grow(step)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%d bytes at a time (-want +got):\n%s", step, d)
		}
	}
}

// TestTailKilled: a recording whose writer was killed has no end, and what is
// there is read.
func TestTailKilled(t *testing.T) {
	file := tailTestFile(t, little)
	want, err := recordsOf(t, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	g := &growing{whole: file, size: int64(len(file)) / 2}
	got, err := recordsOf(t, NewTail(g, func() error { return io.EOF }))
	if err != nil || len(got) == 0 || len(got) >= len(want) {
		t.Fatalf("%d of %d records, error %v", len(got), len(want), err)
	}
	if d := cmp.Diff(want[:len(got)], got); d != "" {
		t.Error(d)
	}

	stop := errors.New("stop")
	if _, err := recordsOf(t, NewTail(g, func() error { return stop })); !errors.Is(err, stop) {
		t.Errorf("error %v, want that of wait", err)
	}
	if _, err := recordsOf(t, NewTail(bytes.NewReader([]byte("this is no recording at all")), func() error { return nil })); !errors.Is(err, ErrBadMagic) {
		t.Errorf("error %v, want %v", err, ErrBadMagic)
	}
}

// TestTailPerf reads what perf itself is writing.
func TestTailPerf(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: recording takes a moment, because of -short")
	}
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("skipped: this needs perf")
	}
	path := filepath.Join(t.TempDir(), "perf.data")
	cmd := exec.Command(perf, "record", "-q", "-e", "cpu-clock", "-F", "500", "-m", "1", "-o", path, "--",
		"sh", "-c", "for i in 1 2 3 4 5 6; do ls -lR /usr/share/doc /usr/lib | head -5000 >/dev/null; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var file *os.File
	for file == nil {
		select {
		case err := <-ended:
			t.Skipf("skipped: perf cannot record here: %v", err)
		case <-time.After(time.Millisecond):
		}
		file, _ = os.Open(path)
	}
	defer file.Close()
	last := false
	var failed error
	got, err := recordsOf(t, NewTail(file, func() error {
		if last {
			return io.EOF
		}
		select {
		case failed = <-ended:
			last = true
		case <-time.After(time.Millisecond):
		}
		return nil
	}))
	if !last { // the Tail saw the end in the header
		failed = <-ended
	}
	if failed != nil {
		t.Skipf("skipped: perf cannot record here: %v", failed)
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	want, err := recordsOf(t, whole)
	if err != nil || len(want) < 10 {
		t.Fatalf("%d records, %v", len(want), err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// FuzzTail reads anything as a file that grows.
func FuzzTail(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		g := &growing{whole: b}
		waits := 0
		tail := NewTail(g, func() error {
			if waits++; waits > 20 {
				return io.EOF
			}
			g.grow(int64(len(b))/10 + 1)
			return nil
		})
		n, err := io.Copy(io.Discard, tail)
		if n > int64(len(b)) {
			t.Fatalf("%d bytes out of %d, error %v", n, len(b), err)
		}
	})
}
