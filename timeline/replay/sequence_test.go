// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// patched loads a synthetic recording.
func patched(tb testing.TB, name string) *replay.Replay {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "rec.data")
	if err := genperf.Patching[name](dir); err != nil {
		tb.Fatal(err)
	}
	r, err := replay.Load(dir, replay.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	if len(r.Report.Warnings) > 0 {
		tb.Fatalf("warnings: %v", r.Report.Warnings)
	}
	return r
}

func TestSequences(t *testing.T) {
	want := []string{
		"enable vfs_read+0x8 complete (nop, nop) -> (mflr, bl): 2000000000 +0x8, 2100000000 +0xc",
		"enable vfs_write+0x8 complete (nop, nop) -> (mflr, bl): 2000001000 +0x8, 2100001000 +0xc",
		"retarget vfs_read+0x8 complete (mflr, bl) -> (mflr, bl): 2500000000 +0xc",
		"disable vfs_read+0x8 complete (mflr, bl) -> (nop, nop): 3000000000 +0xc, 3050000000 +0x8",
		"disable vfs_write+0x8 interrupted (mflr, bl) -> (mflr, nop): 3000001000 +0xc",
		"enable do_sys_openat2+0x8 interrupted illegal (nop, nop) -> (nop, bl): 3500000000 +0xc",
		"enable do_sys_openat2+0x8 interrupted (nop, bl) -> (mflr, bl): 3600000000 +0x8",
		"disable compiled_with_pg+0x0 complete (bl, other) -> (other, other): 4800000000 +0x0",
		"enable compiled_with_pg+0x0 complete (other, other) -> (bl, other): 4900000000 +0x0",
	}
	for _, name := range []string{"ppc64", "ppc64le"} {
		t.Run(name, func(t *testing.T) {
			r := patched(t, name)
			var got []string
			for s := range r.Sequences().All() {
				sym, _ := r.Image.At(s.Begin()).Symbol(s.Site)
				end := "complete"
				if !s.Complete {
					end = "interrupted"
				}
				var steps []string
				for _, x := range s.Steps {
					steps = append(steps, fmt.Sprintf("%d +%#x", x.Time, x.Addr-sym.Addr))
					if of := r.Sequences().Of(x.Addr, x.Time); of != s {
						t.Errorf("the poke of %#x at %d is of %v, want %v", x.Addr, x.Time, of, s)
					}
				}
				before, after := replay.SiteState{Words: s.Before}, replay.SiteState{Words: s.After}
				if !s.Legal {
					end += " illegal"
				}
				got = append(got, fmt.Sprintf("%v %s+%#x %s %v -> %v: %s", s.Kind, sym.Name, s.Site-sym.Addr, end,
					&before, &after, strings.Join(steps, ", ")))
				if s.End() != s.Steps[len(s.Steps)-1].Time {
					t.Errorf("ends at %d", s.End())
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("sequences (-want +got):\n%s", d)
			}
		})
	}
}

// TestSiteStates: the words at a site at a time, and whether a CPU could run them.
func TestSiteStates(t *testing.T) {
	r := patched(t, "ppc64")
	site := func(name string) uint64 {
		addr, err := r.ParseAddr(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		return addr
	}
	for _, tt := range []struct {
		at   string
		time uint64
		want string
	}{
		{"vfs_read+8", 1_999_999_999, "(nop, nop) 0..2000000000 legal"},
		{"vfs_read+8", 2_000_000_000, "(mflr, nop) 2000000000..2100000000 legal enable"},
		{"vfs_read+0xf", 2_050_000_000, "(mflr, nop) 2000000000..2100000000 legal enable"}, // any byte of either word
		{"vfs_read+0xc", 2_100_000_000, "(mflr, bl) 2100000000..2500000000 legal"},
		{"vfs_read+0xc", 2_600_000_000, "(mflr, bl) 2500000000..3000000000 legal"},
		{"vfs_read+0xc", 3_000_000_000, "(mflr, nop) 3000000000..3050000000 legal disable"},
		{"vfs_read+0xc", 5_000_000_000, "(nop, nop) 3050000000.. legal"},
		{"vfs_write+0xc", 5_000_000_000, "(mflr, nop) 3000001000.. legal disable"},
		{"do_sys_openat2+8", 3_550_000_000, "(nop, bl) 3500000000..3600000000 illegal"},
		{"do_sys_openat2+8", 3_600_000_000, "(mflr, bl) 3600000000.. legal"},
		{"vfs_read+4", 2_000_000_000, ""},
		{"schedule", 4_000_000_000, ""},
	} {
		got := ""
		if s, ok := r.Sequences().At(site(tt.at), tt.time); ok {
			got = fmt.Sprintf("%v %d..", &s, s.During.From)
			if s.During.To != timeline.MaxTime {
				got += fmt.Sprint(s.During.To)
			}
			got += map[bool]string{true: " legal", false: " illegal"}[s.Legal]
			got = strings.TrimRight(got+" "+s.UnderWay.String(), " ")
		}
		if got != tt.want {
			t.Errorf("%s at %d: %q, want %q", tt.at, tt.time, got, tt.want)
		}
	}
	illegal := slices.Collect(r.Sequences().Illegal())
	if len(illegal) != 1 || illegal[0].Site != site("do_sys_openat2+8") {
		t.Errorf("illegal states: %+v", illegal)
	}
}

// TestNoSequences: only powerpc has sequences.
func TestNoSequences(t *testing.T) {
	for _, name := range []string{"arm64", "s390x"} {
		r := patched(t, name)
		for s := range r.Sequences().All() {
			t.Errorf("%s: %+v", name, s)
		}
		if s, ok := r.Sequences().At(r.Report.First, 0); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestSequencesWithLoss: if a step was lost, the answer for its time is unknown.
func TestSequencesWithLoss(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lost    int // number of the lost poke, from 0
		at      []uint64
		want    []string // the states at these times
		illegal int
	}{
		{"the second step", 2, []uint64{1_900_000_000, 2_050_000_000, 2_200_000_000, 2_600_000_000},
			[]string{"none", "none", "none", "(mflr, bl)"}, 1},
		{"the first step: there is no branch without its mflr", 0, []uint64{1_900_000_000, 2_200_000_000, 2_600_000_000, 3_060_000_000},
			[]string{"none", "none", "none", "(nop, nop)"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole := patched(t, "ppc64")
			rec, err := perfdata.New(dropPokes(t, whole.Recording, map[int]bool{tt.lost: true}, true))
			if err != nil {
				t.Fatal(err)
			}
			snap, err := kcore.Open(filepath.Join(whole.Recording.Dir(), "kcore_dir"))
			if err != nil {
				t.Fatal(err)
			}
			r, err := replay.New(rec, snap, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			addr, err := r.ParseAddr("vfs_read+8", 0)
			if err != nil {
				t.Fatal(err)
			}
			for i, at := range tt.at {
				got := "none"
				if s, ok := r.Sequences().At(addr, at); ok {
					got = s.String()
				}
				if got != tt.want[i] {
					t.Errorf("at %d: %s, want %s", at, got, tt.want[i])
				}
			}
			if n := len(slices.Collect(r.Sequences().Illegal())); n != tt.illegal {
				t.Errorf("%d illegal states, want %d", n, tt.illegal)
			}
		})
	}
}

// TestSilentWritersEverywhere: a contradiction anywhere affects every address, so an
// image is not restricted to the addresses of a question.
func TestSilentWritersEverywhere(t *testing.T) {
	whole := patched(t, "ppc64")
	const probed = 0xc000000000011600
	for _, tt := range []struct {
		name string
		drop map[int]bool
		want timeline.Standing // of the probe, between its two pokes
	}{
		{"whole", nil, timeline.Known},
		{"a step is missing elsewhere", map[int]bool{2: true}, timeline.Unconfirmed},
	} {
		rec, err := perfdata.New(dropPokes(t, whole.Recording, tt.drop, true))
		if err != nil {
			t.Fatal(err)
		}
		snap, err := kcore.Open(filepath.Join(whole.Recording.Dir(), "kcore_dir"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := replay.New(rec, snap, replay.Options{Only: func(k *kcore.Kallsyms) []timeline.Range {
			return replay.Near(k, "probed", 4)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var code [4]byte
		if b := r.Image.At(4_550_000_000).Read(probed, code[:]); b.Standing != tt.want {
			t.Errorf("%s: %v (%v), want %v", tt.name, b.Standing, b.Reason, tt.want)
		}
	}
}
