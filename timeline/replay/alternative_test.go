// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// executedDirs yields the recordings with a log of execution, and the recording in each.
func executedDirs(t *testing.T, check func(t *testing.T, dir, rec string)) {
	for _, name := range []string{"executed", "executed72", "executedarm"} {
		t.Run(name, func(t *testing.T) { check(t, testdata(name), filepath.Join(testdata(name), "cut.data")) })
	}
	for _, dir := range executedElsewhere() {
		t.Run(filepath.Base(dir), func(t *testing.T) { check(t, dir, filepath.Join(dir, "rec.data")) })
	}
	for _, name := range []string{"pt", "dense", "gone", "lossy"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(corpus.Large(t, "x86_64/exec"), name)
			check(t, dir, filepath.Join(dir, "rec.data"))
		})
	}
}

// TestAlternativesExecuted: what a CPU executed is among the alternatives of that place and
// time, wherever bytes are known; and the trap only inside a window, where NoTrap says so.
func TestAlternativesExecuted(t *testing.T) {
	executedDirs(t, func(t *testing.T, dir, rec string) {
		if testing.Short() && !strings.HasPrefix(filepath.Base(dir), "executed") {
			t.Skip("reads large logs")
		}
		e := executionOf(t, dir)
		r := loadWith(t, rec, replay.Options{Windows: true})
		c := r.Cursor()
		var buf [16]byte
		runs, traps, inFlight, most := 0, 0, 0, 0
		for _, x := range e.runs {
			trap := len(x.bytes) == 1 && x.bytes[0] == 0xcc
			for _, at := range []uint64{x.first, x.last} {
				b := c.Read(x.addr, at, buf[:len(x.bytes)])
				if b.Standing == timeline.InFlight {
					inFlight++
				} else if b.Standing != timeline.Known {
					continue
				}
				list := c.Alternatives(x.addr, at, at)
				most = max(most, len(list))
				i := slices.IndexFunc(list, func(a replay.Alternative) bool { return a.Possible && bytes.Equal(a.Inst.Bytes, x.bytes) })
				if i < 0 {
					t.Fatalf("CPU %d ran %x at %#x at %d; the alternatives are %+v", x.cpu, x.bytes, x.addr, at, list)
				}
				runs++
				if !trap {
					continue
				}
				if !list[i].Agrees(replay.Observation{Trapped: true}) || list[i].Agrees(replay.Observation{}) {
					t.Errorf("%#x at %d: the trap does not agree with a trap: %+v", x.addr, at, list[i])
				}
				if list[i].Trap {
					if traps++; b.NoTrap.At(at) || list[i].Effect.Kind == replay.EffectUnknown {
						t.Errorf("%#x at %d: %+v; %+v", x.addr, at, b, list)
					}
				}
			}
		}
		t.Logf("%d ends of runs, %d of them traps, %d in flight; at most %d alternatives", runs, traps, inFlight, most)
		if runs == 0 || traps == 0 && r.Machine() == elf.EM_X86_64 {
			t.Error("nothing was compared")
		}
	})
}

// TestAlternativesInFlight: while a change is in flight, the old and the new instruction are both
// possible. The samples of probes say when a change began and when it had ended.
func TestAlternativesInFlight(t *testing.T) {
	for _, name := range []string{"executedarm/cut.data", "probe612/rec.data"} {
		t.Run(filepath.Dir(name), func(t *testing.T) {
			r := loadWith(t, testdata(name), replay.Options{Windows: true})
			c := r.Cursor()
			changes := 0
			for a, v := range r.Image.Fragments() {
				var code [4]byte
				if a.Lo%4 != 0 || c.Read(a.Lo, v.Since, code[:]).Standing != timeline.InFlight {
					continue
				}
				changes++
				for _, at := range []uint64{v.Since, v.Since + (v.Until-v.Since)/2, v.Until - 1} {
					for s := range r.Image.At(at).Spans(a.Lo, 4) {
						list := c.Alternatives(a.Lo, at, at)
						for _, side := range s.Candidates {
							if !slices.ContainsFunc(list, func(a replay.Alternative) bool { return a.Possible && bytes.Equal(a.Inst.Bytes, side.Bytes) }) {
								t.Errorf("%#x at %d may have %x; the alternatives are %+v", a.Lo, at, side.Bytes, list)
							}
						}
					}
				}
			}
			if changes < 5 {
				t.Errorf("%d changes in flight", changes)
			}
			t.Logf("%d changes", changes)
		})
	}
}

// TestAlternativesAgain: an answer does not depend on what the cursor was asked before. The
// questions are about a few places, at exact times and over intervals in which a place changes
// several times.
func TestAlternativesAgain(t *testing.T) {
	for _, name := range []string{"small", "storm", "probe612", "ppc64le"} {
		t.Run(name, func(t *testing.T) {
			r := load(t, name)
			var places []struct{ addr, time uint64 }
			for c := range r.ChangesAlone() {
				if c.Poke != nil {
					places = append(places, struct{ addr, time uint64 }{c.Poke.Addr, c.Time})
				}
			}
			if len(places) == 0 {
				t.Skip("skipped: no changes")
			}
			places = places[:min(len(places), 60)]
			rng := rand.New(rand.NewPCG(1, 2))
			c := r.Cursor()
			for range 1000 {
				p := places[rng.IntN(len(places))]
				first := p.time + rng.Uint64N(5) - 2
				last := first
				if span := r.Report.Horizon - r.Report.First; rng.IntN(2) == 0 {
					last += rng.Uint64N(span >> rng.IntN(20))
				}
				got, want := c.Alternatives(p.addr, first, last), r.Cursor().Alternatives(p.addr, first, last)
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("%#x from %d to %d:\n%s", p.addr, first, last, diff)
				}
			}
		})
	}
}

// TestEffect: the effect of every window of some recordings is the one that the cursor lists,
// and static calls that become "return 0", and probes, have theirs.
func TestEffect(t *testing.T) {
	for _, dir := range []string{"executed", "executed72", "small", "storm", "z72"} {
		t.Run(dir, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(testdata(dir), "*.data"))
			if err != nil || len(files) == 0 {
				t.Fatal("no recording: ", err)
			}
			r := loadWith(t, files[0], replay.Options{Windows: true})
			c := r.Cursor()
			kinds := make(map[replay.EffectKind]int)
			for p := range r.Windows().Batches() {
				for _, w := range r.Windows().At(p.Addr, uint64(p.Len), p.Time) {
					effect := r.Effect(&w)
					kinds[effect.Kind]++
					listed := slices.ContainsFunc(c.Alternatives(w.Addr, p.Time, p.Time), func(a replay.Alternative) bool {
						return a.Trap && a.Effect == effect
					})
					if !listed {
						t.Fatalf("the window at %#x: Effect says %+v; the alternatives are %+v", w.Addr, effect, c.Alternatives(w.Addr, p.Time, p.Time))
					}
					if w.Kind != timeline.PokeBatch && effect.Kind != replay.EffectProbe {
						t.Fatalf("the trap of a kprobe at %#x: %+v", w.Addr, effect)
					}
				}
			}
			t.Log(kinds)
			if len(kinds) == 0 {
				t.Error("no window was compared")
			}
		})
	}
}

func TestAgrees(t *testing.T) {
	const at = 0x1000
	jump := replay.Alternative{Inst: disasm.Inst{Addr: at, Bytes: make([]byte, 5), Class: disasm.Jump, Target: 0x2000, HasTarget: true}}
	nop := replay.Alternative{Inst: disasm.Inst{Addr: at, Bytes: make([]byte, 5)}}
	cond := replay.Alternative{Inst: disasm.Inst{Addr: at, Bytes: make([]byte, 2), Class: disasm.CondJump, Target: 0x2000, HasTarget: true}}
	ret := replay.Alternative{Inst: disasm.Inst{Addr: at, Bytes: make([]byte, 1), Class: disasm.Return}}
	int3 := replay.Alternative{Inst: disasm.Inst{Addr: at, Bytes: []byte{0xcc}, Class: disasm.Trap}}
	trap := func(e replay.Effect) replay.Alternative {
		return replay.Alternative{Inst: int3.Inst, Trap: true, Effect: e}
	}
	toNext := trap(replay.Effect{Kind: replay.EffectNop, Next: at + 5})
	call := trap(replay.Effect{Kind: replay.EffectCall, Target: 0x3000, Next: at + 5})
	branch := trap(replay.Effect{Kind: replay.EffectBranch, Target: 0x3000, Next: at + 6})
	probe := trap(replay.Effect{Kind: replay.EffectProbe})
	for _, tt := range []struct {
		name string
		a    replay.Alternative
		o    replay.Observation
		want bool
	}{
		{"a jump goes to its target", jump, replay.Observation{Next: 0x2000}, true},
		{"and not on", jump, replay.Observation{Next: at + 5}, false},
		{"a NOP goes on", nop, replay.Observation{Next: at + 5}, true},
		{"and nowhere else", nop, replay.Observation{Next: 0x2000}, false},
		{"a NOP takes no TNT", nop, replay.Observation{Branch: replay.BranchTaken}, false},
		{"a NOP is no trap", nop, replay.Observation{Trapped: true}, false},
		{"taken", cond, replay.Observation{Branch: replay.BranchTaken, Next: 0x2000}, true},
		{"not taken", cond, replay.Observation{Branch: replay.BranchNotTaken, Next: 0x2000}, false},
		{"not taken, on", cond, replay.Observation{Branch: replay.BranchNotTaken, Next: at + 2}, true},
		{"either", cond, replay.Observation{Next: at + 2}, true},
		{"neither", cond, replay.Observation{Next: at + 3}, false},
		{"anywhere", ret, replay.Observation{Next: 0x9000}, true},
		{"INT3 in the text", int3, replay.Observation{Trapped: true, Resumed: 0x7777}, true},
		{"a trap", toNext, replay.Observation{Trapped: true}, true},
		{"no trap", toNext, replay.Observation{Next: at + 5}, false},
		{"emulated NOP", toNext, replay.Observation{Trapped: true, Resumed: at + 5}, true},
		{"not emulated", toNext, replay.Observation{Trapped: true, Resumed: at + 1}, false},
		{"emulated call", call, replay.Observation{Trapped: true, Resumed: 0x3000}, true},
		{"emulated call, on", call, replay.Observation{Trapped: true, Resumed: at + 5}, false},
		{"emulated branch", branch, replay.Observation{Trapped: true, Resumed: 0x3000}, true},
		{"emulated branch, on", branch, replay.Observation{Trapped: true, Resumed: at + 6}, true},
		{"emulated branch, elsewhere", branch, replay.Observation{Trapped: true, Resumed: at + 5}, false},
		{"a probe", probe, replay.Observation{Trapped: true, Resumed: 0x1234}, true},
	} {
		if got := tt.a.Agrees(tt.o); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func BenchmarkAlternatives(b *testing.B) {
	path := stormPath(b)
	if _, err := os.Stat(path); err != nil {
		b.Skip(err)
	}
	r, err := replay.Load(path, replay.Options{Windows: true})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	type place struct{ addr, t uint64 }
	var places []place
	n := 0
	for p := range r.Windows().Batches() {
		if n++; n%1000 == 0 && p.Kind == timeline.PokeBatch {
			places = append(places, place{p.Addr, p.Time})
		}
	}
	c := r.Cursor()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p := places[i/100%len(places)] // a CPU visits hot code again and again
		i++
		if len(c.Alternatives(p.addr, p.t, p.t)) < 2 {
			b.Fatal(p)
		}
	}
}
