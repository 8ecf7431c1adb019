// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInside: records that are handed over many at once are those that the Scanner hands over one by one,
// from any record on, and so are the errors.
func TestInside(t *testing.T) {
	several := 0
	for name, path := range files(t) {
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, before := range []int{0, 1, 2, 100, 5000, 1 << 20} {
			several += compareInside(t, fmt.Sprintf("%s, from record %d on", name, before), r, before)
		}
	}
	if several == 0 {
		t.Error("never several records at once")
	}
}

// TestInsideDamaged does so for compressed recordings in which some bytes were overwritten or cut off.
func TestInsideDamaged(t *testing.T) {
	rounds, several := 120, 0
	if testing.Short() {
		rounds = 40
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	for name, path := range files(t) {
		good, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(good, binary.LittleEndian.AppendUint32(nil, zstdMagic)) {
			continue // a directory, or not compressed
		}
		bad := filepath.Join(t.TempDir(), "bad")
		for i := range rounds {
			data := slices.Clone(good)
			for range 1 + rnd.IntN(3) {
				at := 500 + rnd.IntN(len(data)-500)
				for k := range min(1+rnd.IntN(8), len(data)-at) {
					data[at+k] = [...]byte{0, 1, 0xff, byte(rnd.IntN(256))}[rnd.IntN(4)]
				}
			}
			if rnd.IntN(4) == 0 {
				data = data[:500+rnd.IntN(len(data)-500)]
			}
			if err := os.WriteFile(bad, data, 0o666); err != nil {
				t.Fatal(err)
			}
			if r, err := Open(bad); err == nil {
				several += compareInside(t, fmt.Sprintf("%s, round %d", name, i), r, rnd.IntN(300))
				r.Close()
			}
		}
	}
	if several == 0 {
		t.Error("never several records at once")
	}
}

// compareInside compares the records that Inside hands over, from the given record on, with those of Next.
// It returns how often Inside handed over several at once.
func compareInside(t *testing.T, name string, r *Recording, before int) (several int) {
	t.Helper()
	one := r.Scan()
	want := transcript(one)
	var b bytes.Buffer
	note := func(r *Record) {
		fmt.Fprintf(&b, "%v %#x %d %#x %x\n", r.Type, r.Misc, r.File, r.Offset, r.Raw)
	}
	s := r.Scan()
	for n := 0; s.Next(); n++ {
		note(s.Record())
		if n < before {
			continue
		}
		outer := *s.Record()
		room := []byte("kept")
		for {
			had := len(room)
			if room = s.Inside(room); len(room) == had {
				break
			}
			if len(room)-had > maxRecord+maxZstdOut {
				t.Fatalf("%s: %d bytes at once", name, len(room)-had)
			}
			got := 0
			for data := room[had:]; len(data) > 0; got++ {
				h := r.endian.header(data)
				note(&Record{Type: h.typ, Misc: h.misc, File: outer.File, Offset: outer.Offset, Raw: data[:h.size]})
				data = data[h.size:]
			}
			if got > 1 {
				several++
			}
		}
		if string(room[:4]) != "kept" {
			t.Fatalf("%s: what was in room is %q", name, room[:4])
		}
	}
	fmt.Fprintln(&b, s.Err())
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("%s: %.1000s", name, d)
	}
	if fmt.Sprint(s.Damage()) != fmt.Sprint(one.Damage()) {
		t.Errorf("%s: damage %v, want %v", name, s.Damage(), one.Damage())
	}
	if room := s.Inside(nil); len(room) > 0 || s.Next() {
		t.Errorf("%s: a record behind the end", name)
	}
	return several
}
