// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// tally counts bytes of one or more oracles.
type tally struct {
	known, wrong, other uint64
}

// score is a comparison of an image with an oracle, by kind of memory.
type score map[string]*tally

func (s score) of(kind string) *tally {
	if s[kind] == nil {
		s[kind] = &tally{}
	}
	return s[kind]
}

func (s score) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s: %d known, %d wrong, %d not known; ", k, s[k].known, s[k].wrong, s[k].other)
	}
	return b.String()
}

func (s score) wrong() (n uint64) {
	for _, t := range s {
		n += t.wrong
	}
	return n
}

// kindOf names the kind of memory at addr.
func kindOf(v timeline.View, addr uint64) string {
	if lo, hi := v.Image().Text(); lo <= addr && addr < hi {
		return "kernel"
	}
	sym, ok := v.Symbol(addr)
	switch {
	case !ok || sym.To <= v.Time():
		return "other" // nothing is here, or no longer
	case strings.HasPrefix(sym.Name, "bpf_prog_"):
		return "bpf"
	case strings.HasPrefix(sym.Name, "ftrace_trampoline"):
		return "ftrace"
	case strings.HasPrefix(sym.Name, "kprobe_"):
		return "kprobe"
	case sym.Module == "bpf":
		return "bpf image"
	}
	return "module"
}

func segments(tb testing.TB, path string) []timeline.Segment {
	tb.Helper()
	core, err := kcore.OpenCore(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { core.Close() })
	var segs []timeline.Segment
	for _, s := range core.Segments {
		segs = append(segs, timeline.Segment(s))
	}
	return segs
}

// judge compares all bytes that the image calls known with an oracle. If windows are given, the
// oracle may have the trap of a change that was being made while it was copied.
func judge(tb testing.TB, im *timeline.Image, o corpus.Oracle, sum score, windows ...func() *timeline.Windows) score {
	tb.Helper()
	s := score{}
	v := im.At(o.Time())
	shown := 0
	for span, want := range v.Against(segments(tb, o.Path)) {
		kind := kindOf(v, span.Addr)
		bad := false
		for _, t := range []*tally{s.of(kind), sum.of(kind)} {
			switch {
			case span.Standing != timeline.Known:
				t.other += span.Len
			case !bytes.Equal(span.Bytes, want):
				for i := range want {
					if want[i] != span.Bytes[i] && !changedDuring(im, o, span.Addr+uint64(i), want[i]) && !trapDuring(im, o, span.Addr+uint64(i), want[i], windows) {
						t.wrong++
						bad = true
					}
				}
				fallthrough
			default:
				t.known += span.Len
			}
		}
		if bad && shown < 5 {
			shown++
			sym, _ := v.Symbol(span.Addr)
			tb.Errorf("%s: wrong bytes at %#x (%s+%#x, %s): known %.32x (%v since %s), oracle %.32x",
				o.Label, span.Addr, sym.Name, span.Addr-sym.Addr, kind, span.Bytes, span.Source, replay.Seconds(span.Since), want)
		}
	}
	return s
}

// changedDuring reports whether a byte may have had the oracle's value at some time while
// the oracle was copied: it changed then.
func changedDuring(im *timeline.Image, o corpus.Oracle, addr uint64, want byte) bool {
	var b [1]byte
	for v := range im.Versions(addr, b[:], o.Before, o.After+1) {
		if v.Standing != timeline.Known || b[0] == want {
			return true
		}
	}
	return false
}

// trapDuring reports whether a byte is the trap of a change that may have been there at some time
// while the oracle was copied: the answer of that time says may_trap.
func trapDuring(im *timeline.Image, o corpus.Oracle, addr uint64, want byte, windows []func() *timeline.Windows) bool {
	const int3 = 0xcc
	if want != int3 {
		return false
	}
	for _, find := range windows {
		for _, open := range find().Cursor(im).AppendWindows(nil, addr, 1, o.Before, o.After) {
			if open.Addr == addr {
				return true
			}
		}
	}
	return false
}

// judged loads a recording and compares it with all oracles in its directory.
func judged(t *testing.T, dir string) (*replay.Replay, score, []score) {
	t.Helper()
	path := filepath.Join(dir, "rec.data")
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		t.Fatal(err)
	}
	sum := score{}
	var each []score
	for _, o := range oracles {
		if o.Outside() {
			continue
		}
		each = append(each, judge(t, r.Image, o, sum, r.Windows))
	}
	if len(each) == 0 {
		t.Fatal("no oracle inside the recording")
	}
	if n := sum.wrong(); n != 0 {
		t.Errorf("%d wrong bytes among those called known", n)
	}
	t.Logf("%v; trusted %+v; %+v", sum, r.Report.Trusted, r.Image.Stats())
	return r, sum, each
}

// TestRecordings: in the recordings of testdata, no known byte is wrong, and no fewer bytes
// are known than can be.
func TestRecordings(t *testing.T) {
	want := map[string]score{
		"small":     {"kernel": {known: 634880}, "bpf": {known: 109}, "kprobe": {known: 115}},
		"rich":      {"kernel": {known: 266240}, "bpf": {known: 1277}, "ftrace": {known: 9817}, "kprobe": {known: 9184}},
		"storm":     {"kernel": {known: 57344}, "ftrace": {known: 1242}},
		"lossy":     {"kernel": {known: 20350}, "ftrace": {known: 5}},
		"uponline":  {},
		"hotplug":   {"kernel": {known: 24576}},
		"smalldup":  {"kernel": {known: 36864}, "bpf": {known: 109}, "kprobe": {known: 115}},
		"modfull":   {"kernel": {known: 24576}, "module": {known: 49152}, "ftrace": {known: 621}},
		"old510":    {"kernel": {known: 73728}, "bpf": {known: 1090}, "ftrace": {known: 2721}, "kprobe": {known: 4561}},
		"z72":       {"kernel": {known: 32022}, "bpf": {known: 268}}, // save padding: the cut does not show that there are no thunks
		"callgraph": {"kernel": {known: 16384}, "ftrace": {known: 207}},
		"thunks":    {"kernel": {known: 111744}, "bpf": {known: 862}, "ftrace": {known: 3738}},
		"arm64":     {"bpf": {known: 116}}, // except for the NOP of the entry
		"ppc64le":   {"bpf": {known: 4200}},
		"s390x":     {},
		"pokeprobe": {"kernel": {known: 76310}, "ftrace": {known: 458}, "kprobe": {known: 234}}, // as z72
		"probe612":  {"kernel": {known: 196608}, "bpf": {known: 2288}},
	}
	for _, dir := range corpus.Small(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			_, sum, _ := judged(t, dir)
			want, ok := want[filepath.Base(dir)]
			if !ok {
				t.Fatal("no expectation for this recording")
			}
			for kind, got := range sum {
				if w := want[kind]; w == nil && got.known != 0 || w != nil && got.known != w.known {
					t.Errorf("%s: %d bytes known, want %v", kind, got.known, w)
				}
			}
			for kind := range want {
				if sum[kind] == nil {
					t.Errorf("no %s memory in the oracles", kind)
				}
			}
		})
	}
}

// TestOracles: no byte that an image calls known differs from an independent copy of
// kernel text, in any x86-64 recording in directory form.
func TestOracles(t *testing.T) {
	const (
		kernel   = 1 << iota // every byte of core text must be known
		floors               // rich: BPF programs and out-of-line code
		programs             // every byte of BPF programs, except for silent changes
	)
	for _, tt := range []struct {
		name string
		must int
	}{
		{"x86_64/small", kernel},
		{"x86_64/rich", kernel | floors},
		{"x86_64/storm", kernel},
		{"x86_64/task", kernel},
		{"x86_64/lossy", 0},
		{"x86_64/uponline", 0},
		{"x86_64/smalldup", 0},
		{"x86_64/nokcore", 0},
		{"x86_64/threads", 0},
		{"x86_64/local", 0},
		{"x86_64/modfull", 0},
		{"x86_64/hotplug", 0},
		{"x86_64/old510", kernel},
		{"x86_64/z72", kernel},
		{"arm64/rich", programs},
		{"arm64/local", programs},
		{"ppc64le/rich", programs},
		{"s390x/rich", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := corpus.Large(t, tt.name)
			r, sum, each := judged(t, dir)
			lo, hi := r.Image.Text()
			if tt.must&kernel != 0 {
				for i, s := range each {
					if k := s.of("kernel"); k.known != hi-lo || k.other != 0 {
						t.Errorf("oracle %d: %d of %d bytes of core kernel text are known", i, k.known, hi-lo)
					}
				}
			}
			if b := sum.of("bpf"); tt.must&programs != 0 && (b.known == 0 || b.other*100 > b.known) {
				t.Errorf("%d bytes of BPF programs are known, %d not", b.known, b.other)
			}
			if tt.must&floors != 0 {
				for kind, least := range map[string]uint64{"bpf": 1277, "ftrace": 26642, "kprobe": 18368} {
					if n := sum.of(kind).known; n < least {
						t.Errorf("%s: %d bytes known, want at least %d", kind, n, least)
					}
				}
			}
		})
	}
}

// TestFurtherCopies: oracles are given as further snapshots of text, each alone and all at
// once. No known byte differs from any oracle, and no fewer bytes are known than without
// the copies.
func TestFurtherCopies(t *testing.T) {
	dirs := corpus.Small(t)
	for _, dir := range corpus.All() {
		if filepath.Base(dir) == "lossy" || filepath.Base(filepath.Dir(dir)) != "x86_64" {
			dirs = append(dirs, dir)
		}
	}
	more := map[string]bool{"lossy": true} // with copies than without
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			oracles, err := corpus.Oracles(dir)
			if err != nil {
				t.Fatal(err)
			}
			oracles = slices.DeleteFunc(oracles, corpus.Oracle.Outside)
			if len(oracles) > 8 {
				oracles = oracles[:8]
			}
			known := func(copies ...corpus.Oracle) (n uint64) {
				var opts replay.Options
				for _, o := range copies {
					opts.Copies = append(opts.Copies, replay.Copy{KCore: o.Path, Made: replay.Times{From: o.Before, To: o.After}})
				}
				r, err := replay.Load(filepath.Join(dir, "rec.data"), opts)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				sum := score{}
				for _, o := range oracles {
					judge(t, r.Image, o, sum)
				}
				for _, s := range sum {
					n += s.known
				}
				return n
			}
			without, with := known(), known(oracles...)
			if with < without || more[filepath.Base(dir)] && with == without {
				t.Errorf("%d bytes known with all copies, %d without", with, without)
			}
			t.Logf("%d bytes known with all copies, %d without", with, without)
			for _, o := range oracles {
				if n := known(o); n < without {
					t.Errorf("%s: %d bytes known, %d without", o.Label, n, without)
				}
			}
		})
	}
}

// TestOtherOracles does the same for the recordings in $TEXTREPLAY_OTHER. What is known from
// perf's recording of a scenario, NAME-perf, is known from NAME-textreplay too.
func TestOtherOracles(t *testing.T) {
	root := os.Getenv("TEXTREPLAY_OTHER")
	if root == "" {
		t.Skip("skipped: $TEXTREPLAY_OTHER names no directory with further recordings")
	}
	dirs, err := filepath.Glob(filepath.Join(root, "*", "oracle"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings in %s: %v", root, err)
	}
	sums := make(map[string]score)
	for _, d := range dirs {
		name := filepath.Base(filepath.Dir(d))
		t.Run(name, func(t *testing.T) { _, sums[name], _ = judged(t, filepath.Dir(d)) })
	}
	for name, perf := range sums {
		scenario, ok := strings.CutSuffix(name, "-perf")
		own := sums[scenario+"-textreplay"]
		if !ok || own == nil {
			continue
		}
		for kind, n := range perf {
			if own.of(kind).known < n.known {
				t.Errorf("%s: %s: %d bytes known from textreplay's recording, %d from perf's", scenario, kind, own.of(kind).known, n.known)
			}
		}
	}
}
