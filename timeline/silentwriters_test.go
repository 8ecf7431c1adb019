// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSilentWriters: pokes of an architecture whose kernels are not known to
// record them. Only between two that agree is anything known.
func TestSilentWriters(t *testing.T) {
	silent := func() *Builder {
		b := kernel()
		b.SilentPokes(true)
		b.Gap(GapPokes, 0, MaxTime, SilentWriters)
		return b
	}
	toggled := func(b *Builder) *Builder {
		b.Poke(pokeAt(0x1100, 300, "90909090", "11111111"))
		b.Poke(pokeAt(0x1100, 400, "11111111", "90909090"))
		b.Poke(pokeAt(0x1100, 600, "90909090", "22222222"))
		return b
	}
	for _, tt := range []struct {
		name  string
		build func() *Builder
		addr  uint64
		want  string
	}{
		{"known between pokes that agree, not before, not after", func() *Builder { return toggled(silent()) }, 0x1100, lines(
			"0..300 unconfirmed silent-writers 90909090",
			"300..400 known 11111111",
			"400..600 known 90909090",
			"600.. unconfirmed silent-writers 22222222",
		)},
		{"never poked", func() *Builder { return toggled(silent()) }, 0x1104, lines(
			"0.. unconfirmed silent-writers 90909090",
		)},
		{"a loss between two pokes leaves nothing known there", func() *Builder {
			b := toggled(silent())
			b.Gap(GapPokes, 410, 420, AfterLoss)
			return b
		}, 0x1100, lines(
			"0..300 unconfirmed silent-writers 90909090",
			"300..400 known 11111111",
			"400..600 unconfirmed silent-writers 90909090",
			"600.. unconfirmed silent-writers 22222222",
		)},
		{"a contradiction anywhere in core text shows a silent writer: nothing is known", func() *Builder {
			b := toggled(silent())
			b.Poke(pokeAt(0x1800, 700, "33", "44"))
			return b
		}, 0x1100, lines(
			"0..300 unconfirmed silent-writers 90909090",
			"300..400 unconfirmed silent-writers 11111111",
			"400..600 unconfirmed silent-writers 90909090",
			"600.. unconfirmed silent-writers 22222222",
		)},
		{"out-of-line code may change silently too", func() *Builder {
			b := silent()
			b.Symbol(SymbolEvent{Time: 250, Addr: 0x8000, Len: 0x100, Kind: SymbolOutOfLine, Name: "kprobe_insn_page"})
			b.Poke(pokeAt(0x8000, 300, "", "11111111"))
			return b
		}, 0x8000, lines(
			"0..250 unmapped",
			"250..300 unknown out-of-line-gap",
			"300.. unconfirmed silent-writers 11111111",
		)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, history(mustBuild(t, tt.build()), tt.addr, 4)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
