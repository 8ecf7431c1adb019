// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// An executedRun is a number of executions of the same bytes at the same address by
// one CPU. No CPU wrote to text between the first and the last of them. Times are in
// nanoseconds of the recording's clock.
type executedRun struct {
	first, last uint64
	cpu         int
	addr        uint64
	bytes       []byte
	count       uint64
}

// A textStore is a CPU's store into kernel text.
type textStore struct {
	time  uint64
	addr  uint64
	bytes []byte
}

// An execution is the log of an emulated machine, made while perf recorded it. The file
// truth.tsv in the recording's directory has a line for each run and each store.
//
//	R first last cpu addr bytes count
//	S time cpu addr bytes
type execution struct {
	runs   []executedRun
	stores []textStore
}

// executionOf reads truth.tsv, or truth.tsv.zst, of a directory.
func executionOf(tb testing.TB, dir string) *execution {
	tb.Helper()
	path := filepath.Join(dir, "truth.tsv")
	var in io.Reader
	if file, err := os.Open(path); err == nil {
		defer file.Close()
		in = file
	} else {
		cmd := exec.Command("zstd", "-dcq", "--long=31", path+".zst")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			tb.Fatal(err)
		}
		defer cmd.Wait()
		in = out
	}
	var e execution
	sc := bufio.NewScanner(in)
	for n := 1; sc.Scan(); n++ {
		f := strings.Fields(sc.Text())
		bad := false
		number := func(s string, base int) uint64 {
			v, err := strconv.ParseUint(s, base, 64)
			bad = bad || err != nil
			return v
		}
		data := func(s string) []byte {
			b, err := hex.DecodeString(s)
			bad = bad || err != nil || len(b) == 0
			return b
		}
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
		case len(f) == 7 && f[0] == "R":
			e.runs = append(e.runs, executedRun{number(f[1], 10), number(f[2], 10), int(number(f[3], 10)), number(f[4], 16), data(f[5]), number(f[6], 10)})
		case len(f) == 5 && f[0] == "S":
			e.stores = append(e.stores, textStore{number(f[1], 10), number(f[3], 16), data(f[4])})
		default:
			bad = true
		}
		if bad {
			tb.Fatalf("%s:%d: bad line %q", path, n, sc.Text())
		}
	}
	if sc.Err() != nil || len(e.runs) == 0 {
		tb.Fatalf("%s: %d runs, %v", path, len(e.runs), sc.Err())
	}
	slices.SortStableFunc(e.stores, func(a, b textStore) int { return cmp.Compare(a.time, b.time) })
	return &e
}

// executedScore is a comparison of an image with an execution. Each execution counts.
type executedScore struct {
	known, traps  uint64 // executions of the known bytes, and of a trap inside a window
	other         uint64 // executions at places whose bytes are not all known
	wrong         uint64 // executions of other bytes than the known ones
	outside       uint64 // executions of a trap outside any window
	stored, torn  uint64 // intervals in which memory held the known byte, or another one inside a window
	storedWrongly uint64 // intervals in which memory held another byte outside any window
}

func (s executedScore) contradictions() uint64 { return s.wrong + s.outside + s.storedWrongly }

// openWindows caches the open windows that were found, for each of their bytes. A poke
// writes several times, and finding a window takes longer than a look at the cache.
type openWindows struct {
	of    *timeline.Windows
	found map[uint64][]timeline.Window
}

// mayTrap reports whether a window is open over addr at both times.
func (o *openWindows) mayTrap(addr, from, to uint64) bool { return o.at(addr, from) && o.at(addr, to) }

func (o *openWindows) at(addr, t uint64) bool {
	old := o.found[addr]
	if len(old) > 0 {
		if w := &old[len(old)-1]; w.Proven.From <= t && t < w.Proven.To {
			return true
		}
	}
	now := o.of.At(addr, 1, t)
	for _, w := range now {
		for a := range uint64(w.Len) {
			o.found[w.Addr+a] = append(o.found[w.Addr+a][:0], w)
		}
	}
	return len(now) > 0
}

// compare compares an image with an execution.
func (e *execution) compare(tb testing.TB, im *timeline.Image, open *timeline.Windows) (s executedScore) {
	tb.Helper()
	ws := openWindows{open, make(map[uint64][]timeline.Window)}
	shown := 0
	report := func(format string, args ...any) {
		if shown++; shown <= 5 {
			tb.Logf(format, args...)
		}
	}
	buf := make([]byte, 16)
	for _, x := range e.runs {
		trap := len(x.bytes) == 1 && x.bytes[0] == 0xcc
		all, trapped, wrong, outside := true, false, false, false
		for b := range im.Versions(x.addr, buf[:len(x.bytes)], x.first, x.last+1) {
			from, to := max(b.Since, x.first), min(b.Until-1, x.last)
			all = all && b.Standing == timeline.Known
			for span := range im.At(from).Spans(x.addr, uint64(len(x.bytes))) {
				if span.Standing != timeline.Known || string(span.Bytes) == string(x.bytes[span.Addr-x.addr:][:span.Len]) {
					continue
				}
				switch {
				case trap && ws.mayTrap(x.addr, from, to):
					trapped = true
				case trap:
					outside = true
				default:
					wrong = true
				}
				if outside || wrong {
					report("CPU %d ran %x at %#x, %d..%d; known %x", x.cpu, x.bytes, x.addr, x.first, x.last, span.Bytes)
				}
			}
		}
		switch {
		case wrong:
			s.wrong += x.count
		case outside:
			s.outside += x.count
		case !all:
			s.other += x.count
		case trapped:
			s.traps += x.count
		default:
			s.known += x.count
		}
	}
	// The content of memory from each store to the next.
	type content struct {
		since uint64
		value byte
	}
	memory := make(map[uint64]content)
	until := func(addr, t uint64) {
		c, ok := memory[addr]
		if !ok || c.since >= t {
			return
		}
		for b := range im.Versions(addr, buf[:1], c.since, t) {
			if b.Standing != timeline.Known {
				continue
			}
			from, to := max(b.Since, c.since), min(b.Until, t)-1
			switch {
			case buf[0] == c.value:
				s.stored++
			case ws.mayTrap(addr, from, to):
				s.torn++
			default:
				s.storedWrongly++
				report("memory held %x at %#x, %d..%d; known %x", c.value, addr, from, to, buf[0])
			}
		}
	}
	for _, x := range e.stores {
		for i, v := range x.bytes {
			addr := x.addr + uint64(i)
			until(addr, x.time)
			memory[addr] = content{x.time, v}
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(memory)) {
		until(addr, im.Horizon())
	}
	return s
}

// executedIn returns the directories in root that have a recording with a log of execution.
func executedIn(root string) (dirs []string) {
	for _, name := range []string{"truth.tsv", "truth.tsv.zst"} {
		files, _ := filepath.Glob(filepath.Join(root, "*", name))
		for _, f := range files {
			dirs = append(dirs, filepath.Dir(f))
		}
	}
	return dirs
}

// executedElsewhere returns those in the directory that TEXTREPLAY_OTHER names.
func executedElsewhere() []string {
	if root := os.Getenv("TEXTREPLAY_OTHER"); root != "" {
		return executedIn(root)
	}
	return nil
}

// TestExecuted: perf recorded an emulated machine. Each CPU ran the bytes that the image
// calls known, or a trap inside a window, and nothing else. Memory held these bytes. No
// fewer executions are known than can be.
func TestExecuted(t *testing.T) {
	least := map[string]executedScore{
		"executed":    {known: 3448, traps: 823, stored: 177},
		"executed72":  {known: 455123, traps: 2523, stored: 166},
		"executedarm": {known: 187986, stored: 848},
		"pt":          {known: 2193274, traps: 3170, stored: 47607},
		"dense":       {known: 7358969, traps: 8884, stored: 112972},
		"gone":        {known: 60415, traps: 1859, stored: 3665},
		"lossy":       {known: 179489, traps: 104131, stored: 533770},
	}
	dirs := append(executedIn(filepath.Join(corpus.Root(), "testdata")), executedElsewhere()...)
	check := func(t *testing.T, dir string) {
		path := filepath.Join(dir, "rec.data")
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(dir, "cut.data") // in testdata, without copies of text
		}
		r, err := replay.Load(path, replay.Options{Windows: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		s := executionOf(t, dir).compare(t, r.Image, r.Windows())
		t.Logf("%+v; %v", s, r.Report.Trusted.Because)
		if n := s.contradictions(); n != 0 {
			t.Errorf("%d contradictions", n)
		}
		if l := least[filepath.Base(dir)]; s.known < l.known || s.traps < l.traps || s.stored < l.stored {
			t.Errorf("%+v, want at least %+v", s, l)
		}
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { check(t, dir) })
	}
	t.Run("large", func(t *testing.T) {
		root := corpus.Large(t, "x86_64/exec")
		for _, name := range []string{"pt", "dense", "gone", "lossy"} {
			t.Run(name, func(t *testing.T) { check(t, filepath.Join(root, name)) })
		}
	})
}

// TestFollowedExecution: the same is true at every time while perf is still writing, also
// if a CPU goes offline and comes back without its events.
func TestFollowedExecution(t *testing.T) {
	dir := filepath.Join(corpus.Large(t, "x86_64/exec"), "gone")
	e := executionOf(t, dir)
	file, err := os.Open(filepath.Join(dir, "rec.data", "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f, err := replay.Follow(file, replay.Options{KCore: filepath.Join(dir, "rec.data", "kcore_dir"), CPUs: 3, Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for n := 0; ; n++ {
		more := f.Next()
		if n%10 != 0 && more {
			continue
		}
		im, err := f.Image()
		if err != nil {
			t.Fatal(err)
		}
		s := e.compare(t, im, f.Windows())
		if s.contradictions() != 0 || !more && s.known < 50000 {
			t.Fatalf("round %d, until %s: %+v", n, replay.Seconds(im.Horizon()), s)
		}
		if !more {
			t.Logf("%d rounds, until %s: %+v", n, replay.Seconds(im.Horizon()), s)
			return
		}
	}
}
