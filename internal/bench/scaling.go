// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/textreplay/textreplay/internal/genperf"
)

// benchScaling prints the rows of scaling alone.
func benchScaling(runs int) error {
	if runtime.NumCPU() == 1 {
		return errors.New("there is only one CPU")
	}
	return benchStep(runs, (*allBench).scaling)
}

// benchStep prints the rows of one step, which needs no more than this program.
func benchStep(runs int, step func(*allBench) error) error {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &allBench{dir: dir, runs: runs}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	return b.run(func() error { return step(b) })
}

// scaling: how much faster all CPUs make an image than one.
//
// The yardstick is as many processes at once as there are CPUs. Each makes the image on one CPU. They have
// nothing to do with each other, and still n of them make less than n images in the time that one takes alone,
// with more CPU time for each: CPUs share memory and caches, and virtual ones often more. No program that runs on
// all of them can be expected to do better. The bound of the first row is a part of what they reach.
func (b *allBench) scaling() error {
	n := runtime.NumCPU()
	if n == 1 {
		return nil
	}
	for _, h := range []struct {
		name string
		genperf.History
		least float64
	}{
		{"10 million pokes by address", manyPokes, 0.75},
		{"the same, 4 CPUs by turns", cpuPokes, 0.8},
		{"10 million pokes in random order", randomPokes, 0.65},
		{"10 million pokes by Zipf's law", zipfPokes, 0.65},
		{"10 million pokes, 5 % births and deaths", birthPokes, 0.65},
		{"10 million samples, 100,000 pokes", samples, 0.7},
	} {
		path, err := b.generate("scaling", h.History)
		if err != nil {
			return err
		}
		one, all, atOnce := noLeasts, noLeasts, noLeasts
		for range b.runs {
			for _, side := range []struct {
				of  *leasts
				n   int
				env []string
			}{{&one, 1, oneCPU}, {&all, 1, nil}, {&atOnce, n, oneCPU}} {
				if err := side.of.run(side.n, side.env, b.self, "figures", "image", path); err != nil {
					return err
				}
			}
		}
		alone := one.wall.Seconds()
		ours, theirs := alone/all.wall.Seconds(), float64(n)*alone/atOnce.wall.Seconds()
		b.print(h.name, fmt.Sprintf("%.2f times", ours), fmt.Sprintf("%.2f times, %d at once", theirs, n), ours/theirs, h.least, ours/theirs < h.least)
		b.row("  CPU time", seconds(all.cpu), fmt.Sprintf("%.3f s each of %d, %.3f s one", atOnce.cpu.Seconds(), n, one.cpu.Seconds()), all.cpu.Seconds()/atOnce.cpu.Seconds(), 1.15)
		b.row("  most memory", fmt.Sprintf("%d MiB", all.memory>>20), "200 MiB", float64(all.memory)/(200<<20), 0)
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

var oneCPU = []string{"GOMAXPROCS=1"}
