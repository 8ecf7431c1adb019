// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"path/filepath"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestAlternativesOfOverlapping: the target of a call is changed, and then the call, or the other way round, while
// clocks differ by more than there is between the two. A CPU runs what is there between changes, never bytes of one
// change with those of another; nor where only one of the two is in flight.
func TestAlternativesOfOverlapping(t *testing.T) {
	const at, site, skew = uint64(genperf.TextAddr), 0x80, 50_000_000
	const first, second = 7_000_000_000, 7_001_000_000
	call1, call2, nop := unhex("e810000000"), unhex("e820000000"), unhex("0f1f440000")
	for _, tt := range []struct {
		name    string
		changes []perfdata.TextPoke
	}{
		{"the target, then the call", []perfdata.TextPoke{{Addr: site + 1, Old: call1[1:], New: call2[1:]}, {Addr: site, Old: call2, New: nop}}},
		{"the call, then its target", []perfdata.TextPoke{{Addr: site, Old: nop, New: call1}, {Addr: site + 1, Old: call1[1:], New: call2[1:]}}},
	} {
		k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: at, CPUs: 2,
			Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: at}, {Name: "end", Addr: at + 4095}}}
		copy(k.Text[tt.changes[0].Addr:], tt.changes[0].Old)
		copy(k.Text[site:], tt.changes[0].Old[:1])
		if tt.changes[0].Addr != site {
			copy(k.Text[site:], call1)
		}
		path := filepath.Join(t.TempDir(), "rec.data")
		w, err := k.Record(path)
		if err != nil {
			t.Fatal(err)
		}
		tt.changes[0].SampleID, tt.changes[1].SampleID = w.ID(first, 0, 100), w.ID(second, 1, 100)
		for _, p := range append([]perfdata.TextPoke{
			{Addr: 16, Old: unhex("9090"), New: unhex("9001"), SampleID: w.ID(2_000_000_000, 0, 100)},
			{Addr: 16, Old: unhex("9002"), New: unhex("9003"), SampleID: w.ID(2_999_000_000, 1, 100)}, // it was made after the next one
			{Addr: 16, Old: unhex("9001"), New: unhex("9002"), SampleID: w.ID(3_000_000_000, 0, 100)},
		}, tt.changes...) {
			p.Addr += at
			if err := w.TextPoke(&p); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.End(9e9); err != nil {
			t.Fatal(err)
		}
		r := loadWith(t, path, replay.Options{Windows: true})
		c := r.Cursor()
		var b [5]byte
		if got := c.Read(at+site, 7_001_500_000, b[:]); got.Standing != timeline.InFlight {
			t.Fatalf("%s: %v, want both changes in flight", tt.name, got)
		}
		want := []string{"0f1f440000", "e810000000", "e820000000"}
		var got []string
		for _, a := range c.Alternatives(at+site, 7_001_500_000, 7_001_500_000) {
			if !a.Trap && a.Possible {
				got = append(got, hex.EncodeToString(a.Inst.Bytes))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: alternatives %q, want %q", tt.name, got, want)
		}
		for time := uint64(first - 3*skew); time < second+3*skew; time += 500_000 {
			for _, a := range c.Alternatives(at+site, time, time) {
				code := hex.EncodeToString(a.Inst.Bytes)
				if !a.Trap && !slices.Contains(want, code) {
					t.Fatalf("%s: at %d %s, which was never there", tt.name, time, code)
				}
			}
		}
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
