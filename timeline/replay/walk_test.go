// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// walk visits n blocks of 50 KiB of kernel text that changes, one after the other and again
// and again, while time advances. It returns how often visit returned true.
func walk(im *timeline.Image, n int, visit func(addr, t uint64) bool) (traps int) {
	const size, insn = 50 << 10, 5
	pages := slices.Collect(im.ChangingPages(4096))
	lo := pages[len(pages)/10]
	step := (im.Horizon() - im.First()) / uint64(n)
	now, at := im.First(), uint64(0)
	for range n {
		if visit(lo+at, now) {
			traps++
		}
		if at += insn; at >= size {
			at = 0
		}
		now += step
	}
	return traps
}

// TestWalkWithWindows: a walk of a million blocks that asks at each visit whether a CPU may
// meet a trap, and where it may which windows are open, takes at most twice the time of a
// walk that does not ask.
func TestWalkWithWindows(t *testing.T) {
	r := loadWith(t, stormPath(t), replay.Options{Windows: true})
	im := r.Image
	begin := time.Now()
	asking := r.Cursor()
	t.Logf("the index of windows takes %v", time.Since(begin))
	plain := im.Cursor()
	var buf [16]byte
	var windows []timeline.Window
	const visits = 1_000_000
	least := func(visit func(addr, t uint64) bool) (best time.Duration, traps int) {
		best = time.Hour
		for range 5 {
			begin := time.Now()
			traps = walk(im, visits, visit)
			best = min(best, time.Since(begin))
		}
		return best, traps
	}
	for range 3 { // this machine may be busy
		without, _ := least(func(addr, t uint64) bool { plain.Read(addr, t, buf[:]); return false })
		with, traps := least(func(addr, t uint64) bool {
			if b := asking.Read(addr, t, buf[:]); b.NoTrap.At(t) {
				return false
			}
			windows = asking.AppendWindows(windows[:0], addr, uint64(len(buf)), t, t)
			return len(windows) > 0
		})
		t.Logf("%d visits: %v without windows, %v with; %d inside a window", visits, without, with, traps)
		if traps == 0 {
			t.Error("the walk met no window")
		}
		if with <= 2*without {
			return
		}
	}
	t.Error("a walk that asks for windows takes more than twice the time")
}

// stormPath returns the path of the large recording of that name if it is there, else of
// the small one.
func stormPath(tb testing.TB) string {
	if dir := filepath.Join(corpus.Root(), "..", "shared", "corpus"); os.Getenv(corpus.Env) == "" {
		if _, err := os.Stat(dir); err != nil {
			return testdata("storm", "rec.data")
		}
	}
	return filepath.Join(corpus.Large(tb, "x86_64/storm"), "rec.data")
}

// TestCursorsAtOnce: eight goroutines, each with its own cursor, get the answers of
// [timeline.View.Read] and of [timeline.Windows.At].
func TestCursorsAtOnce(t *testing.T) {
	r := load(t, "storm")
	w := r.Windows()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			c := r.Cursor()
			var buf, want [16]byte
			checked := 0
			walk(r.Image, 20_000, func(addr, at uint64) bool {
				addr += uint64(g) * 3
				b := c.Read(addr, at, buf[:])
				v := r.Image.At(at).Read(addr, want[:])
				if b.Standing != v.Standing || b.Validity != v.Validity || buf != want {
					t.Errorf("%#x at %d: %+v, want %+v", addr, at, b, v)
				}
				if checked++; checked%50 == 0 && b.NoTrap.At(at) != (len(w.At(addr, 16, at)) == 0) {
					t.Errorf("%#x at %d: NoTrap is %+v, the windows are %+v", addr, at, b.NoTrap, w.At(addr, 16, at))
				}
				return false
			})
		})
	}
	wg.Wait()
}

// BenchmarkWalkWithWindows is BenchmarkWalk with a cursor that knows windows.
func BenchmarkWalkWithWindows(b *testing.B) {
	r, err := replay.Load(storm(b), replay.Options{Windows: true})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var buf [16]byte
	var windows []timeline.Window
	for _, tt := range []struct {
		name string
		c    *timeline.Cursor
	}{{"plain", r.Image.Cursor()}, {"windows", r.Cursor().Cursor}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			walk(r.Image, b.N, func(addr, t uint64) bool {
				if bl := tt.c.Read(addr, t, buf[:]); tt.name == "windows" && !bl.NoTrap.At(t) {
					windows = tt.c.AppendWindows(windows[:0], addr, 16, t, t)
				}
				return false
			})
		})
	}
}
