// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/textreplay/textreplay/timeline"
)

// recorded returns a builder with a small recording: 16 bytes of kernel text, all NOPs
// in the snapshot, and a static key that is switched on at 300 and off at 700. Records
// were lost between 400 and 500.
func recorded() *timeline.Builder {
	b := timeline.NewBuilder()
	b.Extent(100, 1000)
	b.Text(0x1000, 0x1010)
	b.SetSnapshot(timeline.Snapshot{From: 100, To: 200, Segments: []timeline.Segment{
		{Addr: 0x1000, Data: bytes.Repeat([]byte{0x90}, 16)},
	}})
	b.Poke(&timeline.Poke{Addr: 0x1004, Time: 300, Old: []byte{0x90, 0x90}, New: []byte{0xeb, 0x02}})
	b.Poke(&timeline.Poke{Addr: 0x1004, Time: 700, Old: []byte{0xeb, 0x02}, New: []byte{0x90, 0x90}})
	b.Gap(timeline.GapPokes, 400, 500, timeline.AfterLoss)
	return b
}

func image() *timeline.Image {
	im, err := recorded().Build()
	if err != nil {
		log.Fatal(err)
	}
	return im
}

// A decoder reads the instruction at an address and a time, and may cache it as long as
// the answer is valid.
func Example() {
	im, err := recorded().Build()
	if err != nil {
		log.Fatal(err)
	}
	var insn [2]byte
	for _, t := range []uint64{350, 450, 600} {
		block := im.At(t).Read(0x1004, insn[:])
		fmt.Printf("at %d: %x, until %d, %v", t, insn, block.Until, block.Standing)
		if block.Standing != timeline.Known {
			fmt.Printf(" (%v)", block.Reason)
		}
		fmt.Println()
	}
	// Output:
	// at 350: eb02, until 400, known
	// at 450: eb02, until 500, unconfirmed (after-loss)
	// at 600: eb02, until 700, known
}

// Versions yields the whole history of some bytes.
func ExampleImage_Versions() {
	var buf [2]byte
	for v := range image().Versions(0x1004, buf[:], 0, timeline.MaxTime) {
		fmt.Printf("from %d: %x %v\n", v.Since, buf, v.Standing)
	}
	// Output:
	// from 0: 9090 unconfirmed
	// from 100: 9090 known
	// from 300: eb02 known
	// from 400: eb02 unconfirmed
	// from 500: eb02 known
	// from 700: 9090 known
	// from 1001: 9090 unconfirmed
}

// A poke whose old bytes do not fit shows that something changed with no record. All
// contents that facts give are candidates.
func ExampleView_Spans() {
	b := recorded()
	b.Poke(&timeline.Poke{Addr: 0x1008, Time: 800, Old: []byte{0xcc}, New: []byte{0x90}})
	im, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	for s := range im.At(350).Spans(0x1006, 4) {
		fmt.Printf("%#x+%d %v [%x]\n", s.Addr, s.Len, s.Standing, s.Bytes)
		for _, c := range s.Candidates {
			fmt.Printf("  %x by the %v\n", c.Bytes, c.Fact.Source)
		}
	}
	// Output:
	// 0x1006+2 known [9090]
	// 0x1008+1 conflicting []
	//   90 by the snapshot
	//   cc by the poke
	// 0x1009+1 known [90]
}

// The same address has the code of one BPF program after the other.
func ExampleView_Symbol() {
	b := recorded()
	for i, name := range []string{"bpf_prog_11_first", "bpf_prog_22_second"} {
		born := uint64(200 + 400*i)
		e := timeline.SymbolEvent{Time: born, Addr: 0x9000, Len: 64, Kind: timeline.SymbolBPF, Name: name}
		b.Symbol(e)
		e.Time, e.Unregister = born+100, true
		b.Symbol(e)
	}
	im, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range []uint64{100, 250, 350, 650} {
		s, ok := im.At(t).Symbol(0x9010)
		fmt.Println(t, ok, s.Name, s.From, s.To)
	}
	// Output:
	// 100 false  0 0
	// 250 true bpf_prog_11_first 200 300
	// 350 true bpf_prog_11_first 200 300
	// 650 true bpf_prog_22_second 600 700
}

// A cursor gives the answers of a view, faster: it is made for a decoder that reads
// the same code again and again.
func ExampleCursor() {
	c := image().Cursor()
	var insn [2]byte
	for t := uint64(200); t < 500; t += 100 {
		block := c.Read(0x1004, t, insn[:])
		fmt.Printf("%d %x %v\n", t, insn, block.Standing)
	}
	// Output:
	// 200 9090 known
	// 300 eb02 known
	// 400 eb02 unconfirmed
}

// Task 8 makes a batch of two pokes, in the order of their addresses. The trap of both
// may be there from the poke before the batch to the poke after it.
func ExampleWindows() {
	pokes := []timeline.InPlacePoke{
		{Time: 100, Addr: 0x1010, Len: 5, TID: 7},
		{Time: 300, Addr: 0x1000, Len: 5, TID: 8},
		{Time: 310, Addr: 0x1004, Len: 5, TID: 8},
		{Time: 900, Addr: 0x1000, Len: 5, TID: 8},
	}
	for _, w := range timeline.NewWindows(pokes, nil, false).At(0x1004, 1, 200) {
		fmt.Printf("%#x: poked at %d, a trap in [%d, %d)\n", w.Addr, w.Switch, w.Proven.From, w.Proven.To)
	}
	// Output:
	// 0x1000: poked at 300, a trap in [100, 900)
	// 0x1004: poked at 310, a trap in [100, 900)
}

// ReadWindows reads changes whose writer recorded both ends.
func ExampleReadWindows() {
	windows, err := timeline.ReadWindows(bytes.NewBufferString(
		`{"flag":"before","time":"300","addr":"0x1004","before":"9090","after":"eb02","method":"int3"}
{"flag":"after","time":"350","addr":"0x1004","before":"9090","after":"eb02"}
`))
	if err != nil {
		log.Fatal(err)
	}
	w := windows[0]
	fmt.Printf("%#x: %x -> %x in [%d, %d)\n", w.Addr, w.Before, w.After, w.From, w.To)
	// Output:
	// 0x1004: 9090 -> eb02 in [300, 350)
}

// InTimeOrder merges the items of several CPUs. Each recorded its own in the order of time.
func ExampleInTimeOrder() {
	times := []uint64{100, 200, 500, 150, 160, 300}
	timeline.InTimeOrder(times, func(t *uint64) uint64 { return *t }, func(lo, hi int) {
		fmt.Println(times[lo:hi])
	})
	// Output:
	// [100]
	// [150 160]
	// [200]
	// [300]
	// [500]
}
