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

// TestAlternativesOfOverlapping: the target of a call is changed, and then the call, while clocks
// differ by more than there is between the two. A CPU runs what is there between changes, never
// bytes of one change with those of another.
func TestAlternativesOfOverlapping(t *testing.T) {
	const at, site = uint64(genperf.TextAddr), 0x80
	call1, call2, nop := unhex("e810000000"), unhex("e820000000"), unhex("0f1f440000")
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: at, CPUs: 2,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: at}, {Name: "end", Addr: at + 4095}}}
	copy(k.Text[site:], call1)
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		time     uint64
		cpu      uint32
		addr     uint64
		old, new []byte
	}{
		{2_000_000_000, 0, 16, unhex("9090"), unhex("9001")},
		{2_999_000_000, 1, 16, unhex("9002"), unhex("9003")}, // it was made after the next one
		{3_000_000_000, 0, 16, unhex("9001"), unhex("9002")},
		{7_000_000_000, 0, site + 1, call1[1:], call2[1:]},
		{7_001_000_000, 1, site, call2, nop},
	} {
		if err := w.TextPoke(&perfdata.TextPoke{Addr: at + p.addr, Old: p.old, New: p.new, SampleID: w.ID(p.time, p.cpu, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	r := loadWith(t, path, replay.Options{Windows: true})
	c := r.Cursor()
	var b [5]byte
	const time = 7_001_500_000
	if got := c.Read(at+site, time, b[:]); got.Standing != timeline.InFlight {
		t.Fatalf("%v, want both changes in flight", got)
	}
	var got []string
	for _, a := range c.Alternatives(at+site, time, time) {
		if !a.Trap && a.Possible {
			got = append(got, hex.EncodeToString(a.Inst.Bytes))
		}
	}
	slices.Sort(got)
	if want := []string{"0f1f440000", "e810000000", "e820000000"}; !slices.Equal(got, want) {
		t.Errorf("alternatives %q, want %q", got, want)
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
