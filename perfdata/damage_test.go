// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
)

// TestDamageAnywhere changes bytes of real recordings and reads all that can be
// read: it must neither panic nor hang, errors must say where, and what is
// before the first byte that changed must be as before.
func TestDamageAnywhere(t *testing.T) {
	n := 600
	if testing.Short() {
		n = 100
	}
	for _, path := range []string{"testdata/x86_64.data", "testdata/s390x.data"} {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := scan(open(t, whole))
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range n {
			b := bytes.Clone(whole)
			first := len(b)
			for range 1 + rng.IntN(3) {
				at := rng.IntN(len(b))
				b[at] ^= byte(1 << rng.IntN(8))
				first = min(first, at)
			}
			r, err := New(b)
			if err != nil {
				var fe *FormatError
				if !errors.As(err, &fe) || first >= fileHeader {
					t.Fatalf("%s changed at %d: %v", path, first, err)
				}
				continue
			}
			got, err := scan(r)
			var fe *FormatError
			if err != nil && !errors.As(err, &fe) {
				t.Fatalf("%s changed at %d: untyped error %v", path, first, err)
			}
			for i := range want {
				if first < fileHeader || int(want[i].Offset)+len(want[i].Raw) > first {
					break
				}
				if i >= len(got) || !bytes.Equal(got[i].Raw, want[i].Raw) {
					t.Fatalf("%s changed at %d: record at %d differs", path, first, want[i].Offset)
				}
			}
			if fe != nil && first >= fileHeader && fe.Offset+maxRecord < int64(first) {
				t.Fatalf("%s changed at %d: %v", path, first, err)
			}
			dump(io.Discard, r)
		}
	}
}
