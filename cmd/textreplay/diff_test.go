// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestDiffMisses compares diff with reading every single byte at both times:
// each byte that is given at both and differs must be in a place that diff
// lists, or in code that it says came or went. A place whose bytes differ has
// one standing at either time, which is that of each of its bytes.
func TestDiffMisses(t *testing.T) {
	for _, test := range []struct {
		rec      string
		min      int // at least so many bytes must differ, or the test shows nothing
		from, to []uint64
	}{
		{"small", 40, []uint64{6_800_000_000, 12_900_000_000, 16_500_000_000}, []uint64{14_400_000_000, 9_000_000_000, 20_000_000_000}},
		{"rich", 100, []uint64{30_000_000_000, 66_370_000_000, 200_000_000_000}, []uint64{66_940_000_000, 88_100_000_000, 20_000_000_000}},
		{"modfull", 0, []uint64{6_000_000_000, 8_000_000_000, 22_021_702_728}, []uint64{24_000_000_000, 12_000_000_000, 22_022_400_000}},
		{"probe612", 100, []uint64{49_350_931_585}, []uint64{40_526_905_887}},
		{"lossy", 5, []uint64{17_200_000_000}, []uint64{17_230_000_000}},
	} {
		t.Run(test.rec, func(t *testing.T) {
			path := "../../testdata/" + test.rec + "/rec.data"
			r, err := replay.Load(path, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			total := 0
			for i := range test.from {
				total += checkDiff(t, r, path, test.from[i], test.to[i])
			}
			if total < test.min {
				t.Errorf("%d bytes differ, want at least %d", total, test.min)
			}
		})
	}
}

// checkDiff returns how many known bytes differ between two times.
func checkDiff(t *testing.T, r *replay.Replay, path string, from, to uint64) int {
	t.Helper()
	var stdout, stderr bytes.Buffer
	run([]string{"diff", "-i", path, "--json", fmt.Sprint(from, "ns"), fmt.Sprint(to, "ns")}, nil, &stdout, &stderr)
	told := make(map[uint64]jsonDelta) // by address
	var summary jsonDiff
	for d := json.NewDecoder(&stdout); d.More(); {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		var x jsonDelta
		if err := json.Unmarshal(raw, &x); err != nil || x.Change == "summary" {
			if err := json.Unmarshal(raw, &summary); err != nil {
				t.Fatal(err)
			}
			continue
		}
		addr, err := strconv.ParseUint(x.Addr, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		for k := range x.Len {
			told[addr+k] = x
		}
	}

	before, after := r.Image.At(from), r.Image.At(to)
	known, inPlace := 0, uint64(0)
	check := func(addr uint64) {
		var a, b [1]byte
		was, is := before.Read(addr, a[:]), after.Read(addr, b[:])
		if was.Given == 0 || is.Given == 0 || a == b {
			return
		}
		x, ok := told[addr]
		if !ok {
			t.Errorf("%d to %d: %#x is %02x and then %02x, which diff does not tell", from, to, addr, a, b)
		}
		if x.Change == "bytes" {
			inPlace++
			if x.Before.Standing != was.Standing.String() || x.After.Standing != is.Standing.String() {
				t.Errorf("%d to %d: %#x is %s and then %s, its place %s and %s", from, to, addr, was.Standing, is.Standing, x.Before.Standing, x.After.Standing)
			}
		}
		if was.Standing == timeline.Known && is.Standing == timeline.Known {
			known++
		}
	}
	for lo, hi := range before.Ranges() {
		for s := range before.Spans(lo, hi-lo) {
			for rest := s.Bytes; len(rest) > 0; {
				var block [64]byte
				n := min(len(rest), len(block))
				addr := s.Addr + uint64(len(s.Bytes)-len(rest))
				if after.Read(addr, block[:n]).Given < n || !bytes.Equal(block[:n], rest[:n]) {
					for k := range n {
						check(addr + uint64(k))
					}
				}
				rest = rest[n:]
			}
		}
	}
	if summary.Bytes.Bytes != inPlace {
		t.Errorf("%d to %d: diff counts %d bytes, %d differ in the places that it lists", from, to, summary.Bytes.Bytes, inPlace)
	}
	return known
}

// TestDiffPlaces checks where a place begins and ends when pokes of different
// lengths cut instructions into pieces.
func TestDiffPlaces(t *testing.T) {
	const text = 0xffffffff81000000
	nop, jmp1, jmp2 := []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xe9, 1, 0, 0, 0}, []byte{0xe9, 2, 1, 0, 0}
	trap, afterTrap := []byte{0xcc}, []byte{0xcc, 0x1f, 0x44, 0, 0}
	poke := func(offset, time uint64, old, new []byte) timeline.Poke {
		return timeline.Poke{Addr: text + offset, Time: time, Old: old, New: new}
	}
	// An optimised probe at offset 10: its jump, taken away, and with another target.
	probe := []timeline.Poke{
		poke(10, 110, nop[:1], trap), poke(10, 120, afterTrap, jmp1), poke(10, 130, jmp1, afterTrap), poke(10, 140, trap, nop[:1]),
		poke(10, 210, nop[:1], trap), poke(10, 220, afterTrap, jmp2),
	}
	// A probe on a jump, whose opcode is then older in one version than in the other.
	onJump := []timeline.Poke{
		poke(10, 110, nop, jmp1), poke(10, 120, jmp1[:1], trap), poke(10, 130, trap, jmp1[:1]), poke(10, 220, jmp1, jmp2),
	}
	// Jumps one right after another, some of whose bytes are in flight at 225.
	jumps := []timeline.Poke{poke(5, 110, nop, jmp1), poke(10, 110, nop, jmp1), poke(15, 110, nop, jmp1)}
	flight := func(lo, hi uint64) timeline.ExplicitWindow {
		code := bytes.Repeat(jmp1, 4)
		w := timeline.ExplicitWindow{Addr: text + lo, From: 200, To: 250, Before: code[lo:hi], After: bytes.Repeat(jmp2, 4)[lo:hi]}
		if w.After[0] == jmp1[0] {
			w.After = append([]byte{0xe8}, w.After[1:]...)
		}
		return w
	}
	rows := func(n ...uint64) (out []delta) {
		for ; len(n) > 0; n = n[3:] {
			out = append(out, delta{change: changeBytes, addr: text + n[0], n: n[1], bytes: n[2]})
		}
		return out
	}
	for _, test := range []struct {
		name     string
		pokes    []timeline.Poke
		from, to uint64
		want     []delta
		windows  []timeline.ExplicitWindow
	}{
		{"the trap alone", probe, 115, 145, []delta{{change: changeBytes, addr: text + 10, n: 1, bytes: 1}}, nil},
		{"the trap in the place of the jump", probe, 115, 125, []delta{{change: changeBytes, addr: text + 10, n: 5, bytes: 3}}, nil},
		{"another target", probe, 125, 225,
			[]delta{{change: changeBytes, addr: text + 10, n: 5, bytes: 2}}, nil},
		{"another target behind an opcode with a life of its own", onJump, 135, 225,
			[]delta{{change: changeBytes, addr: text + 10, n: 5, bytes: 2}}, nil},
		{"the opcode there and back meanwhile", slices.Insert(slices.Clone(onJump), 3, poke(10, 140, jmp1[:1], trap), poke(10, 150, trap, jmp1[:1])), 135, 225,
			[]delta{{change: changeBytes, addr: text + 10, n: 5, bytes: 2}}, nil},
		{"backwards", onJump, 225, 135, []delta{{change: changeBytes, addr: text + 10, n: 5, bytes: 2}}, nil},
		{"there and back", probe, 105, 145, nil, nil},
		{"a site before it goes there and back", append(onJump, poke(5, 150, nop, jmp1), poke(5, 160, jmp1, nop)), 135, 225,
			[]delta{{change: changeBytes, addr: text + 10, n: 5, bytes: 2}}, nil},
		{"one right after another", []timeline.Poke{poke(0, 110, nop, jmp1), poke(5, 120, nop, jmp2)}, 105, 125,
			[]delta{{change: changeBytes, addr: text, n: 10, bytes: 6}}, nil},
		{"before the recording", nil, 50, 105, []delta{{change: changeStanding, addr: text, n: 20}}, nil},
		{"an instruction in flight", jumps, 105, 225, rows(5, 5, 3, 10, 5, 3, 15, 5, 3), []timeline.ExplicitWindow{flight(10, 15)}},
		{"the target in flight", jumps, 105, 225, rows(5, 5, 3, 10, 5, 3, 15, 5, 3), []timeline.ExplicitWindow{flight(11, 15)}},
		{"the opcode in flight", jumps, 105, 225, rows(5, 5, 3, 10, 5, 3, 15, 5, 3), []timeline.ExplicitWindow{flight(10, 11)}},
		{"an instruction and the next one's opcode in flight", jumps, 105, 225, rows(5, 10, 6, 15, 5, 3), []timeline.ExplicitWindow{flight(5, 11)}},
		{"the targets in flight", jumps, 105, 225, rows(5, 15, 9), []timeline.ExplicitWindow{flight(6, 10), flight(11, 15), flight(16, 20)}},
		{"a target's end in flight", jumps[:1], 105, 225, rows(5, 5, 3), []timeline.ExplicitWindow{flight(7, 10)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := timeline.NewBuilder()
			b.Text(text, text+20)
			b.Extent(100, 300)
			b.SetSnapshot(timeline.Snapshot{From: 100, To: 105, Segments: []timeline.Segment{{Addr: text, Data: bytes.Repeat(nop, 4)}}})
			for i := range test.pokes {
				b.Poke(&test.pokes[i])
			}
			for _, w := range test.windows {
				if err := b.Window(w); err != nil {
					t.Fatal(err)
				}
			}
			im, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			dis, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
			if err != nil {
				t.Fatal(err)
			}
			d := &diff{app: &app{}, c: &coder{dis: dis}, before: im.At(test.from), after: im.At(test.to)}
			d.walk(timeline.Range{Lo: text, Hi: text + 20}, [2]replay.Times{{From: test.from, To: test.from}, {From: test.to, To: test.to}})
			if diff := cmp.Diff(test.want, d.found, cmp.AllowUnexported(delta{}), cmpopts.IgnoreFields(delta{}, "old", "new", "sure")); diff != "" {
				t.Error(diff)
			}
			for _, x := range d.found {
				for i, v := range []timeline.View{d.before, d.after} {
					if b := v.Read(x.addr, make([]byte, x.n)); x.sure[i] != (sureness{b.Standing, b.Reason}) {
						t.Errorf("%#x: %+v, want %+v", x.addr, x.sure[i], b)
					}
				}
				if got, want := string(d.appendLine(nil, &x)), d.line(&x); got != want {
					t.Errorf("line %q, want %q", got, want)
				}
			}
		})
	}
}

func TestFirst(t *testing.T) {
	for _, test := range []struct {
		n    int
		want []int
	}{{0, nil}, {2, []int{7, 8}}, {3, []int{7, 8, 9}}, {4, []int{7, 8, 9}}} {
		if d := cmp.Diff(test.want, first(slices.Values([]int{7, 8, 9}), test.n)); d != "" {
			t.Errorf("first %d: %s", test.n, d)
		}
	}
}
