// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestCursor: a cursor gives the same answers as a view, whatever it read before. It walks
// forward in time as a decoder does, goes back, and jumps.
func TestCursor(t *testing.T) {
	for _, name := range []string{"small", "rich", "lossy", "hotplug"} {
		im := load(t, name).Image
		lo, hi := im.Text()
		var places []uint64
		for s, e := range im.At(im.First()).Ranges() {
			for a := s; a < e; a += 4096 {
				places = append(places, a)
			}
		}
		places = append(places, lo, hi, 0, timeline.MaxTime-8)
		rng := rand.New(rand.NewPCG(1, 2))
		c := im.Cursor()
		now := im.First()
		span := im.Horizon() - im.First()
		var a, b [24]byte
		place := places[0]
		for i := range 200_000 {
			switch rng.IntN(50) {
			case 0:
				now = rng.Uint64N(im.Horizon() + span/10)
			case 1:
				place = places[rng.IntN(len(places))] + rng.Uint64N(4096)
			case 2:
				now -= min(now, rng.Uint64N(span/1000+1))
			default:
				now += rng.Uint64N(span/10000 + 1)
				place += rng.Uint64N(16)
			}
			n := 1 + rng.IntN(len(a))
			want, got := im.At(now).Read(place, a[:n]), c.Read(place, now, b[:n])
			if want != got || !bytes.Equal(a[:n], b[:n]) {
				t.Fatalf("%s, question %d: %d bytes at %#x, time %d: view %+v %x, cursor %+v %x", name, i, n, place, now, want, a[:n], got, b[:n])
			}
		}
	}
}

func TestCursorAllocs(t *testing.T) {
	im := load(t, "small").Image
	lo, _ := im.Text()
	c := im.Cursor()
	var buf [16]byte
	now := im.First()
	if n := testing.AllocsPerRun(100, func() { now += 1000; c.Read(lo+now%4096, now, buf[:]) }); n != 0 {
		t.Errorf("Read allocates %v times", n)
	}
}

// TestWindowsAtEnd: a range of addresses may reach to the end of the address space, also before all
// windows are made.
func TestWindowsAtEnd(t *testing.T) {
	all := load(t, "small")
	lo, _ := all.Image.Text()
	for p, during := range all.Windows().Proven() {
		if p.Len == 0 || p.Addr < lo {
			continue
		}
		r, err := replay.Load(all.Recording.Path(), replay.Options{Windows: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if len(r.WindowsAt(lo, -lo, during.From)) == 0 {
			t.Errorf("no window over [%#x, 2^64) at %d", lo, during.From)
		}
		break
	}
}
