// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadOver: a block over a place that is not known, and over the known text
// behind it, has the least standing, and no bytes from that place on.
func TestReadOver(t *testing.T) {
	b := kernel()
	b.Poke(pokeAt(0x1102, 300, "9090", "eb02"))
	b.Poke(pokeAt(0x1102, 600, "eb04", "9090")) // contradicts the one before
	im := mustBuild(t, b)
	for _, tt := range []struct {
		time  uint64
		want  Block
		bytes string
	}{
		{200, Block{Standing: Known, Given: 6, Validity: Validity{100, 300}}, "909090909090"},
		// The last byte is as known at 400 as it was before: only one of two is disputed.
		{400, Block{Standing: Conflicting, Reason: OldBytesMismatch, Given: 2, Validity: Validity{300, 600}}, "909000000000"},
		{700, Block{Standing: Known, Given: 6, Validity: Validity{600, 1001}}, "909090909090"},
		{1001, Block{Standing: Unconfirmed, Reason: BeyondHorizon, Given: 6, Validity: Validity{1001, MaxTime}}, "909090909090"},
	} {
		buf := bytes.Repeat([]byte{0xff}, 6)
		if d := cmp.Diff(tt.want, im.At(tt.time).Read(0x1100, buf)); d != "" {
			t.Errorf("at %d (-want +got):\n%s", tt.time, d)
		}
		if s := hex.EncodeToString(buf); s != tt.bytes {
			t.Errorf("at %d: bytes %s, want %s", tt.time, s, tt.bytes)
		}
	}
}
