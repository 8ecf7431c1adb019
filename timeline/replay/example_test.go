// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"log"
	"os"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A decoder asks for the bytes at an address and a time. Until shows how long it may keep
// its result.
func ExampleView_Read() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	const addr = 0xffffffffaecdbcb1 // a static key's site in sysctl_schedstats

	var insn [5]byte
	b := r.Image.At(9_000_000_000).Read(addr, insn[:])
	fmt.Printf("%v % x until %s\n", b.Standing, insn, replay.Seconds(b.Until))
	b = r.Image.At(b.Until).Read(addr, insn[:])
	fmt.Printf("%v % x until %s\n", b.Standing, insn, replay.Seconds(b.Until))
	// Output:
	// known 0f 1f 44 00 00 until 9.137028325
	// known e9 a8 00 00 00 until 9.421097335
}

// A decoder that knows only an interval of time tries every version.
func ExampleImage_Versions() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	var insn [2]byte
	for b := range r.Image.Versions(0xffffffffaef63fa7, insn[:], 14_000_000_000, 15_000_000_000) {
		fmt.Printf("from %s %v % x\n", replay.Seconds(b.Since), b.Standing, insn)
	}
	// Output:
	// from 6.712319015 known 49 89
	// from 14.390316565 known cc 89
	// from 14.452890175 known e9 1c
}

// A builder takes facts from any source, not only from perf.data.
func ExampleBuilder() {
	b := timeline.NewBuilder()
	b.Extent(100, 1000)
	b.Text(0x1000, 0x2000)
	b.Poke(&timeline.Poke{Addr: 0x1004, Time: 500, Old: []byte{0x66, 0x90}, New: []byte{0xeb, 0x10}})
	im, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	for s := range im.At(400).Spans(0x1002, 6) {
		fmt.Printf("%#x: %d bytes [% x] %v\n", s.Addr, s.Len, s.Bytes, s.Standing)
	}
	// Output:
	// 0x1002: 2 bytes [] unknown
	// 0x1004: 2 bytes [66 90] known
	// 0x1006: 2 bytes [] unknown
}

// A decoder runs at the same time as perf. It makes an image when it needs times that
// the last image does not cover.
func ExampleFollow() {
	stream, err := os.Open("../../testdata/storm/rec.data/data")
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	f, err := replay.Follow(stream, replay.Options{KCore: "../../testdata/storm/rec.data/kcore_dir", CPUs: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	const addr = 0xffffffff943669e0 // vfs_read
	wanted := []uint64{20_000_000_000, 46_000_000_000, 110_000_000_000}
	for f.Next() && len(wanted) > 0 {
		if f.Horizon() < wanted[0] {
			continue
		}
		im, err := f.Image()
		if err != nil {
			log.Fatal(err)
		}
		for len(wanted) > 0 && wanted[0] <= im.Horizon() {
			var insn [5]byte
			b := im.At(wanted[0]).Read(addr, insn[:])
			fmt.Printf("at %s, of an image up to %s: %v % x\n", replay.Seconds(wanted[0]), replay.Seconds(im.Horizon()), b.Standing, insn)
			wanted = wanted[1:]
		}
	}
	// Output:
	// at 20.000000000, of an image up to 101.141793639: known e8 1b 96 f5 2b
	// at 46.000000000, of an image up to 101.141793639: known e8 1b 96 f5 2b
	// at 110.000000000, of an image up to 112.395973599: known 0f 1f 44 00 00
}
