// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
)

// compressed: how long images of compressed recordings take.
//
// perf writes one zstd frame, in which each block needs the one before, so one CPU decompresses it. The
// yardstick is what can be had with that: the longer of the decompression alone, and of all work, shared by
// the CPUs without loss. The work is the CPU time of the decompression and of the image of the same records,
// not compressed.
func (b *allBench) compressed() error {
	for _, h := range []struct {
		name string
		genperf.History
	}{
		{"10 million pokes by address", manyPokes},
		{"10 million pokes in random order", randomPokes},
		{"10 million samples, 100,000 pokes", samples},
	} {
		plain, err := b.generate("plain", h.History)
		if err != nil {
			return err
		}
		h.Compress = true
		packed, err := b.generate("packed", h.History)
		if err != nil {
			return err
		}
		image, ours, zstd := noLeasts, noLeasts, noLeasts
		for range b.runs {
			err := errors.Join(image.run(1, nil, b.self, "figures", "image", plain),
				ours.run(1, nil, b.self, "figures", "image", packed),
				zstd.run(1, oneCPU, b.self, "figures", "zstd", packed))
			if err != nil {
				return err
			}
		}
		least := max(zstd.wall, (image.cpu+zstd.cpu)/time.Duration(runtime.NumCPU()))
		b.row(h.name+", wall", seconds(ours.wall), seconds(least)+" at best", ours.wall.Seconds()/least.Seconds(), 1.5)
		b.row("  CPU time", seconds(ours.cpu), seconds(image.cpu)+" not compressed, and "+seconds(zstd.cpu)+" zstd", ours.cpu.Seconds()/(image.cpu+zstd.cpu).Seconds(), 0)
		b.row("  not compressed, wall", seconds(ours.wall), seconds(image.wall), ours.wall.Seconds()/image.wall.Seconds(), 0)
		b.row("  most memory", fmt.Sprintf("%d MiB", ours.memory>>20), fmt.Sprintf("%d MiB not compressed", image.memory>>20), float64(ours.memory)/float64(image.memory), 0)
		if err := errors.Join(os.RemoveAll(plain), os.RemoveAll(packed)); err != nil {
			return err
		}
	}
	return nil
}

// zstdAlone decompresses all that is compressed in a recording, and no more.
func zstdAlone(path string) error {
	r, err := perfdata.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	return bareZstd(r)
}
