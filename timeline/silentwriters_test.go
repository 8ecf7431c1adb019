// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSilentWritersModel holds an image of such an architecture against one of
// the same facts where all writers are known to record: it knows no more, and
// knows what lies between two pokes that agree.
func TestSilentWritersModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		open, silent := kernel(), kernel()
		silent.SilentPokes(true)
		silent.Gap(GapPokes, 0, MaxTime, SilentWriters)
		both := func(f func(b *Builder)) { f(open); f(silent) }
		var losses []gap
		for range rapid.IntRange(0, 2).Draw(rt, "losses") {
			from := rapid.Uint64Range(copied+1, horizon-20).Draw(rt, "lost from")
			losses = append(losses, gap{from: from, to: from + rapid.Uint64Range(1, 20).Draw(rt, "for")})
			both(func(b *Builder) { b.Gap(GapPokes, from, losses[len(losses)-1].to, AfterLoss) })
		}
		text := slices.Repeat([]byte{0x90}, 12)
		var pokes []Poke
		for range rapid.IntRange(1, 12).Draw(rt, "pokes") {
			last := uint64(copied)
			if len(pokes) > 0 {
				last = pokes[len(pokes)-1].Time
			}
			at := rapid.IntRange(0, len(text)/4-1).Draw(rt, "word") * 4
			n := 4
			if at == 4 && rapid.Bool().Draw(rt, "of two words") {
				n = 8
			}
			old := slices.Clone(text[at : at+n])
			if rapid.IntRange(0, 15).Draw(rt, "contradicts") == 0 {
				old[0] ^= 0xff
			}
			fill := rapid.SampledFrom([]byte{0x90, 0x11, 0x22}).Draw(rt, "new")
			p := Poke{Addr: textLo + uint64(at), Time: last + rapid.Uint64Range(1, 60).Draw(rt, "after"), Old: old, New: slices.Repeat([]byte{fill}, n)}
			copy(text[at:], p.New)
			pokes = append(pokes, p)
			both(func(b *Builder) { b.Poke(&p) })
		}
		a, b := mustBuild(t, open), mustBuild(t, silent)
		contradicted := b.Stats().Conflicts > 0
		var x, y [1]byte
		for addr := uint64(textLo); addr < textLo+uint64(len(text)); addr++ {
			// The pokes before and after, of those that cover the byte.
			var before, after *Poke
			for at := uint64(0); at < horizon; at += 3 {
				before, after = nil, nil
				for i := range pokes {
					p := &pokes[i]
					switch {
					case addr < p.Addr || addr-p.Addr >= uint64(len(p.Old)):
					case p.Time <= at:
						before = p
					case after == nil:
						after = p
					}
				}
				whole := a.At(at).Read(addr, x[:])
				part := b.At(at).Read(addr, y[:])
				between := before != nil && after != nil && !contradicted && before.New[addr-before.Addr] == after.Old[addr-after.Addr] &&
					!slices.ContainsFunc(losses, func(g gap) bool { return g.from < after.Time && before.Time < g.to })
				if (part.Standing == Known) != between {
					rt.Fatalf("%#x at %d: %v (%v), between two pokes that agree: %v", addr, at, part.Standing, part.Reason, between)
				}
				if part.Standing == Known && (whole.Standing != Known || x != y) {
					rt.Fatalf("%#x at %d: known %x, but %v %x where all is recorded", addr, at, y, whole.Standing, x)
				}
			}
		}
	})
}
