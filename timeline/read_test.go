// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
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

// TestReadIsSpans: a block is what the spans that it lies over say together,
// whatever its length, wherever it begins.
func TestReadIsSpans(t *testing.T) {
	// The recordings of the repository have parts of a kernel's text.
	whole := filepath.Join(t.TempDir(), "rec.data")
	if err := (&genperf.History{Pokes: 4000, Sites: 700}).Write(whole); err != nil {
		t.Fatal(err)
	}
	paths := []string{whole}
	for _, dir := range slices.Concat(corpus.Small(t), corpus.All()) {
		if path := filepath.Join(dir, "rec.data"); exists(path) {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		im := loadWith(t, path, Options{}).Image
		rng := rand.New(rand.NewPCG(8, 9))
		cursor := im.Cursor()
		all := 0
		for _, p := range places(im, 4000) {
			n := rng.IntN(maxCold + 8)
			want, wantBytes := Block{Standing: Known, Validity: Validity{Until: MaxTime}}, make([]byte, n)
			given := true
			for s := range im.At(p.time).Spans(p.addr, uint64(n)) {
				if s.Standing < want.Standing {
					want.Standing, want.Reason = s.Standing, s.Reason
				}
				want.Since, want.Until = max(want.Since, s.Since), min(want.Until, s.Until)
				if given = given && s.Bytes != nil; given {
					want.Given += copy(wantBytes[want.Given:], s.Bytes)
				}
			}
			for who, read := range map[string]func([]byte) Block{
				"view":   func(b []byte) Block { return im.At(p.time).Read(p.addr, b) },
				"cursor": func(b []byte) Block { return cursor.Read(p.addr, p.time, b) },
			} {
				buf := bytes.Repeat([]byte{0xff}, n+shortContent)
				got := read(buf[:n])
				if got != want || !bytes.Equal(buf[:n], wantBytes) {
					t.Fatalf("%s, %s: %d bytes at %#x, time %d: %+v %x, spans say %+v %x", path, who, n, p.addr, p.time, got, buf[:n], want, wantBytes)
				}
				if !bytes.Equal(buf[n:], bytes.Repeat([]byte{0xff}, shortContent)) {
					t.Fatalf("%s, %s: %d bytes at %#x: wrote behind the block", path, who, n, p.addr)
				}
			}
			all += want.Given
		}
		if all == 0 {
			t.Errorf("%s: no block had bytes", path)
		}
	}
}

// exists reports whether a file is there: one recording of the corpus is a pipe's.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
