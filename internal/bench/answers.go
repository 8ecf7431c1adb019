// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// mappedFigures measures making an image of a recording whose pages are mapped.
func mappedFigures(path string, f map[string]float64) error {
	rec, err := perfdata.Open(path)
	if err != nil {
		return err
	}
	snap, err := replay.OpenSnapshot(rec, replay.Options{})
	if err != nil {
		return err
	}
	sc := rec.Scan()
	for sc.Next() {
	}
	start := cpuSeconds()
	if _, err := replay.New(rec, snap, replay.Options{}); err != nil {
		return err
	}
	f["mapped"] = cpuSeconds() - start
	return sc.Err()
}

// indexFigures measures making an image, and opening its index until the first
// answer.
func indexFigures(path, index string, f map[string]float64) error {
	start := cpuSeconds()
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		return err
	}
	f["build"] = cpuSeconds() - start
	if err := r.Close(); err != nil {
		return err
	}
	opts := replay.Options{Index: index}
	if _, err := os.Stat(index); err != nil {
		opts.SaveIndex = true
		if r, err = replay.Load(path, opts); err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
		opts.SaveIndex = false
	}
	runtime.GC()
	start = cpuSeconds()
	if r, err = replay.Load(path, opts); err != nil {
		return err
	}
	var insn [16]byte
	b := r.Image.At(r.Report.Horizon).Read(genperf.TextAddr, insn[:])
	f["open"] = cpuSeconds() - start
	if !r.Index().Used || b.Standing != timeline.Known {
		return errors.New("the index did not answer")
	}
	return nil
}

const reads = 2_000_000

// A walker goes from one random place to the next. Each next place depends on
// the bytes that were read at the last, as those of a decoder do.
type walker struct {
	state uint64
	buf   [16]byte
}

func (w *walker) next() uint64 {
	w.state += 0x9e3779b97f4a7c15 + uint64(w.buf[0])
	x := w.state
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// below maps a random number to one below n.
func below(r, n uint64) uint64 { hi, _ := bits.Mul64(r, n); return hi }

// perRead runs fn and returns the thread's CPU time for each of n, in
// nanoseconds, the least of three.
func perRead(n int, fn func()) float64 {
	best := time.Duration(1<<63 - 1)
	for range 3 {
		start := threadTime()
		fn()
		best = min(best, threadTime()-start)
	}
	return float64(best) / float64(n)
}

// sites are places of a history.
type sites struct {
	addrs     []uint64
	unpatched []uint64 // addresses of blocks of 16 bytes that are never poked
}

// sitesOf returns the places of a history, and text between them.
func sitesOf(h *genperf.History) (s sites) {
	for i := range h.Sites {
		s.addrs = append(s.addrs, h.Addr(i))
	}
	for i := range h.Sites - 1 {
		for a := s.addrs[i] + 8; a+24 < s.addrs[i+1]; a += 64 {
			s.unpatched = append(s.unpatched, a)
		}
	}
	return s
}

// at reads from random ones of a list of addresses at random times.
func (w *walker) at(im *timeline.Image, addrs []uint64, n int) {
	first, span := im.First(), im.Horizon()-im.First()
	for range n {
		r := w.next()
		im.At(first+below(r*0x9e3779b97f4a7c15, span)).Read(addrs[below(r, uint64(len(addrs)))], w.buf[:])
	}
}

// copied does as at, but copies from a buffer.
func (w *walker) copied(text []byte, addrs []uint64, n int) {
	sink := uint64(0)
	for range n {
		r := w.next()
		sink += below(r*0x9e3779b97f4a7c15, 1<<40)
		copy(w.buf[:], text[addrs[below(r, uint64(len(addrs)))]-genperf.TextAddr:])
	}
	w.state += sink & 1
}

// loads loads from three random places of a table. Each load depends on
// what the one before it gave.
func (w *walker) loads(table []uint64, n int) {
	for range n {
		r := w.next()
		for range 3 {
			r ^= table[below(r, uint64(len(table)))]
			r *= 0x9e3779b97f4a7c15
		}
		binary.LittleEndian.PutUint64(w.buf[:], r)
	}
}

// readFigures measures single answers of images of 1 million pokes, of 10
// million, and of 10 million over few sites.
func readFigures(paths []string, f map[string]float64) error {
	runtime.LockOSThread()
	var images [3]*timeline.Image
	index := 0.0
	for i, path := range paths {
		before := heap()
		r, err := replay.Load(path, replay.Options{})
		if err != nil {
			return err
		}
		images[i] = r.Image
		if i == 1 {
			index = heap() - before
		}
	}
	many, few := sitesOf(&manyPokes), sitesOf(&fewSites)
	text := make([]byte, genperf.TextSize+16)
	images[0].At(images[0].First()).Read(genperf.TextAddr, text[:genperf.TextSize])
	table := make([]uint64, int(index/8))
	w := &walker{}
	for i := range table {
		table[i] = w.next()
	}
	for range 3 { // in turn, so that what slows one down slows the other
		least := func(name string, fn func()) {
			if ns := perRead(reads, fn); f[name] == 0 || ns < f[name] {
				f[name] = ns
			}
		}
		least("copy", func() { w.copied(text, many.unpatched, reads) })
		least("unpatched", func() { w.at(images[0], many.unpatched, reads) })
		least("poked1M", func() { w.at(images[0], many.addrs, reads) })
		least("poked10M", func() { w.at(images[1], many.addrs, reads) })
		least("loads", func() { w.loads(table, reads) })
		least("poked500", func() { w.at(images[2], few.addrs, reads) })
		for _, n := range []int{1, 2} {
			suffix := string(rune('0' + n))
			wall := func(name string, fn func(w *walker)) {
				if ns := together(n, fn); f[name+suffix] == 0 || ns < f[name+suffix] {
					f[name+suffix] = ns
				}
			}
			wall("view", func(w *walker) { w.at(images[0], many.addrs, reads) })
			wall("copy", func(w *walker) { w.copied(text, many.addrs, reads) })
		}
	}
	return nil
}

// together runs fn in n goroutines and returns the wall time for each read of
// one of them.
func together(n int, fn func(w *walker)) float64 {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() { fn(&walker{state: uint64(i)}) })
	}
	wg.Wait()
	return float64(time.Since(start)) / reads
}

// The code that is walked, and how long its instructions are.
const (
	walkSize = 50 << 10
	walkInsn = 5
)

// A flat buffer is what a decoder reads from that knows no time.
type flat struct {
	lo   uint64
	text []byte
}

// Read has the parameters and results of Cursor.Read, since whatever a decoder
// reads from lies behind such a call.
//
//go:noinline
func (f *flat) Read(addr, t uint64, buf []byte) timeline.Block {
	at := addr - f.lo
	if at >= uint64(len(f.text)) {
		return timeline.Block{}
	}
	return timeline.Block{Standing: timeline.Known, Given: copy(buf, f.text[at:]), Validity: timeline.Validity{Until: t}}
}

// walkFigures measures reading the code of 50 KiB round and round, instruction
// by instruction, while time advances and pokes change it.
func walkFigures(path string, f map[string]float64) error {
	runtime.LockOSThread()
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		return err
	}
	im := r.Image
	lo, _ := im.Text()
	lo += 1 << 20
	const steps = 10_000_000
	step := (im.Horizon() - im.First()) / steps
	flat := &flat{lo, make([]byte, walkSize+16)}
	im.At(im.First()).Read(lo, flat.text)
	c := im.Cursor()
	var buf [16]byte
	sink := 0
	f["cursor"] = perRead(steps, func() {
		now, at := im.First(), uint64(0)
		for range steps {
			sink += c.Read(lo+at, now, buf[:]).Given + int(buf[0])
			if at += walkInsn; at >= walkSize {
				at = 0
			}
			now += step
		}
	})
	f["call"] = perRead(steps, func() {
		now, at := im.First(), uint64(0)
		for range steps {
			sink += flat.Read(lo+at, now, buf[:]).Given + int(buf[0])
			if at += walkInsn; at >= walkSize {
				at = 0
			}
			now += step
		}
	})
	f["flat"] = perRead(steps, func() {
		at := uint64(0)
		for range steps {
			sink += copy(buf[:], flat.text[at:]) + int(buf[0])
			if at += walkInsn; at >= walkSize {
				at = 0
			}
		}
	})
	runtime.KeepAlive(sink)
	return nil
}
