// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/timeline"
)

// TestReadIsSpans: a block combines the spans that it covers, whatever its length and
// wherever it begins.
func TestReadIsSpans(t *testing.T) {
	// The recordings in the repository have only parts of a kernel's text.
	whole := filepath.Join(t.TempDir(), "rec.data")
	if err := (&genperf.History{Pokes: 4000, Sites: 700}).Write(whole); err != nil {
		t.Fatal(err)
	}
	const (
		longest = 120 // bytes: more than one lookup of unpatched text covers
		guard   = 8   // bytes behind the block
	)
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
			n := rng.IntN(longest)
			want, wantBytes := timeline.Block{Standing: timeline.Known, Validity: timeline.Validity{Until: timeline.MaxTime}}, make([]byte, n)
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
			for who, read := range map[string]func([]byte) timeline.Block{
				"view":   func(b []byte) timeline.Block { return im.At(p.time).Read(p.addr, b) },
				"cursor": func(b []byte) timeline.Block { return cursor.Read(p.addr, p.time, b) },
			} {
				buf := bytes.Repeat([]byte{0xff}, n+guard)
				got := read(buf[:n])
				if got != want || !bytes.Equal(buf[:n], wantBytes) {
					t.Fatalf("%s, %s: %d bytes at %#x, time %d: %+v %x, spans say %+v %x", path, who, n, p.addr, p.time, got, buf[:n], want, wantBytes)
				}
				if !bytes.Equal(buf[n:], bytes.Repeat([]byte{0xff}, guard)) {
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

// exists reports whether a file exists: one recording of the corpus is in pipe form.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
