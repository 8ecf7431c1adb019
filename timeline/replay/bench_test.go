// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline/replay"
)

func storm(b *testing.B) string {
	return filepath.Join(corpus.Large(b, "x86_64/storm"), "rec.data")
}

// BenchmarkLoad makes an image of 1.2 million pokes.
func BenchmarkLoad(b *testing.B) {
	path := storm(b)
	b.ReportAllocs()
	for b.Loop() {
		r, err := replay.Load(path, replay.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Report.Pokes.Total), "pokes")
		r.Close()
	}
}

// BenchmarkRead reads 16 bytes at random addresses of kernel text and random times.
func BenchmarkRead(b *testing.B) {
	r, err := replay.Load(storm(b), replay.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	lo, hi := r.Image.Text()
	from, to := r.Report.First, r.Report.Horizon
	rng := rand.New(rand.NewPCG(1, 1))
	type question struct{ addr, time uint64 }
	questions := make([]question, 1<<16)
	for i := range questions {
		questions[i] = question{lo + rng.Uint64N(hi-lo-16), from + rng.Uint64N(to-from)}
	}
	var buf [16]byte
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		q := &questions[i&(len(questions)-1)]
		i++
		r.Image.At(q.time).Read(q.addr, buf[:])
	}
}

// BenchmarkWalk reads 50 KiB of code again and again, instruction by instruction. Time
// advances, and pokes change the code. It uses a cursor, and a flat copy.
func BenchmarkWalk(b *testing.B) {
	r, err := replay.Load(storm(b), replay.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	const size, insn = 50 << 10, 5
	im := r.Image
	lo, _ := im.Text()
	lo += 1 << 20
	step := (im.Horizon() - im.First()) / 10_000_000
	var buf [16]byte
	b.Run("cursor", func(b *testing.B) {
		c := im.Cursor()
		now, at := im.First(), uint64(0)
		for b.Loop() {
			c.Read(lo+at, now, buf[:])
			if at += insn; at >= size {
				at = 0
			}
			if now += step; now > im.Horizon() {
				now = im.First()
			}
		}
	})
	b.Run("flat", func(b *testing.B) {
		flat := make([]byte, size+16)
		im.At(im.First()).Read(lo, flat)
		at := uint64(0)
		for b.Loop() {
			copy(buf[:], flat[at:])
			if at += insn; at >= size {
				at = 0
			}
		}
	})
}
