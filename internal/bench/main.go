// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Bench measures this project's packages against yardsticks, each a program of
// its own over the same file in the same run, and prints both sides of every
// ratio. What it needs it makes, in $TMPDIR, and removes.
//
//	go run ./internal/bench all [RECORDING]
//	go run ./internal/bench scaling
//	go run ./internal/bench compressed
//	go run ./internal/bench perfdata
//	go run ./internal/bench start RECORDING
//	go run ./internal/bench at RECORDING
//	go run ./internal/bench pprof
//	go run ./internal/bench large
//
// The first, of images and answers, needs cc, 5 GB of disk and memory for the page
// cache, and perf; with a real recording that has many text pokes it has more
// rows. The second has those of its rows that compare all CPUs with one, and start those of
// processes that do nearly nothing. compressed, of recordings made with perf record -z, needs 3 GB
// of disk; perfdata gcc, 3 GB of disk and as much memory; start and at a recording with many text
// pokes, and at perf; pprof perf and 5 GB of disk; the last, of recordings that are larger than the
// memory, 60 GB of disk and half an hour.
//
// bench figures and bench side make single measurements for these, each in a process of its
// own.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [flags] all [RECORDING]\n       bench [flags] scaling\n       bench [flags] start RECORDING\n       bench [flags] compressed\n       bench [flags] perfdata\n       bench [flags] at RECORDING\n       bench [flags] pprof\n       bench [flags] large")
		flag.PrintDefaults()
	}
	samples := flag.Int("samples", 0, "how many `samples` the files have (default 10 million; large: a billion)")
	aux := flag.Int64("aux", 0, "`bytes` of AUX payload (default 4 GiB; large: 1 TiB)")
	runs := flag.Int("runs", 5, "how many times each side runs; the least counts")
	flag.Parse()
	large := flag.NArg() == 1 && flag.Arg(0) == "large"
	if *samples == 0 {
		*samples = map[bool]int{false: 10_000_000, true: 1_000_000_000}[large]
	}
	if *aux == 0 {
		*aux = map[bool]int64{false: 4 << 30, true: 1 << 40}[large]
	}
	var err error
	switch {
	case large:
		err = benchLarge(*samples, *aux)
	case flag.NArg() == 1 && flag.Arg(0) == "perfdata":
		err = benchPerfdata(*samples, *aux, *runs)
	case flag.NArg() > 0 && flag.NArg() <= 2 && flag.Arg(0) == "all":
		err = benchAll(flag.Arg(1), *runs)
	case flag.NArg() == 1 && flag.Arg(0) == "scaling":
		err = benchScaling(*runs)
	case flag.NArg() == 2 && flag.Arg(0) == "start":
		err = benchStart(flag.Arg(1), *runs)
	case flag.NArg() == 1 && flag.Arg(0) == "compressed":
		err = benchStep(*runs, (*allBench).compressed)
	case flag.NArg() >= 3 && flag.Arg(0) == "figures":
		err = figures(flag.Args()[1:])
	case flag.NArg() == 2 && flag.Arg(0) == "at":
		err = benchAt(flag.Arg(1), *runs)
	case flag.NArg() == 1 && flag.Arg(0) == "pprof":
		err = benchPprof(*samples, *runs)
	case flag.NArg() == 5 && flag.Arg(0) == "side":
		err = side(flag.Arg(1), flag.Arg(2), flag.Arg(3), flag.Arg(4))
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
