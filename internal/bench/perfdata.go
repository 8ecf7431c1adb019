// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
)

//go:embed yardstick/hop.c
var hopSource string

// benchPerfdata measures iteration over large recordings.
func benchPerfdata(samples int, aux int64, runs int) error {
	dir, err := os.MkdirTemp("", "bench-perfdata-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	hop := filepath.Join(dir, "hop")
	gcc := exec.Command("gcc", "-O2", "-x", "c", "-o", hop, "-")
	gcc.Stdin, gcc.Stderr = strings.NewReader(hopSource), os.Stderr
	if err := gcc.Run(); err != nil {
		return fmt.Errorf("gcc: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	generate := func(name string, write func(f *os.File) error) (string, error) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		err = write(f)
		fi, serr := f.Stat()
		if err := errors.Join(err, serr, f.Close()); err != nil {
			return "", err
		}
		fmt.Printf("%s: %.2f GB\n", name, float64(fi.Size())/1e9)
		return f.Name(), nil
	}
	fmt.Printf("%s, %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	plain, err := generate("samples.data", func(f *os.File) error { return genperf.Samples(f, samples) })
	if err != nil {
		return err
	}
	packed, err := generate("samples.zst.data", func(f *os.File) error {
		return genperf.Samples(f, samples, perfdata.Compress(perfdata.RecordCompressed))
	})
	if err != nil {
		return err
	}
	trace, err := generate("aux.data", func(f *os.File) error { return genperf.AUX(f, aux) })
	if err != nil {
		return err
	}

	fmt.Printf("\n%-28s %-8s %-20s %-34s %6s %6s\n", "CPU seconds of a pass", "pages", "textreplay", "yardstick", "ratio", "bound")
	missed := 0
	for _, b := range []struct {
		name, what string
		file       string
		yard       string // "" for the C loop
		times      int
		bound      float64
	}{
		{"records in file order", "scan", plain, "", 3, 1.5},
		{"in the order of time", "order", plain, "", 3, 4},
		{"compressed", "scan", packed, "zstd", 1, 1.3},
		{"compressed, order of time", "order", packed, "zstd", 1, 0},
		{"AUX payload", "scan", trace, "", 300, 5},
		{"out of a pipe", "pipe", plain, "", 3, 0},
	} {
		// In a fresh mapping the first touch of each page can cost several times
		// what the loop does, which hides what a reader adds to it: so both.
		for _, pages := range []string{"fresh", "mapped"} {
			times := strconv.Itoa(b.times)
			yardName, yard := "C loop", []string{hop, b.file, pages, times}
			if b.yard != "" {
				yardName, yard = "bare klauspost zstd", []string{self, "side", b.yard, b.file, pages, times}
			}
			x, y, err := compare([]string{self, "side", b.what, b.file, pages, times}, yard, runs)
			if err != nil {
				return err
			}
			if x.records != y.records && b.yard == "" {
				return fmt.Errorf("%s: %d records, the %s has %d", b.name, x.records, yardName, y.records)
			}
			ratio, bound := x.cpu/y.cpu, "-"
			if b.bound > 0 {
				bound = fmt.Sprintf("%.1f", b.bound)
				if ratio > b.bound {
					bound += " MISSED"
					missed++
				}
			}
			n := float64(b.times)
			fmt.Printf("%-28s %-8s %-20s %-34s %6.2f %6s\n", b.name, pages,
				fmt.Sprintf("%.5f (%.0f MB)", x.cpu/n, x.mem), fmt.Sprintf("%.5f %s", y.cpu/n, yardName), ratio, bound)
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d bounds missed", missed)
	}
	return nil
}

// A cost is what a program's passes took.
type cost struct {
	records int
	cpu     float64 // seconds, user and system
	mem     float64 // megabytes that Go has from the system, mapped files aside
}

// compare runs two programs in turn and returns the run of each with the least CPU time.
func compare(a, b []string, runs int) (ca, cb cost, err error) {
	for range runs {
		for _, side := range []struct {
			cmd  []string
			best *cost
		}{{a, &ca}, {b, &cb}} {
			c, err := run(side.cmd)
			if err != nil {
				return ca, cb, err
			}
			if side.best.cpu == 0 || c.cpu < side.best.cpu {
				*side.best = c
			}
		}
	}
	return ca, cb, nil
}

// run runs a program that prints its records, its CPU seconds and its megabytes.
func run(args []string) (c cost, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &c.records, &c.cpu, &c.mem)
	}
	if err != nil {
		return cost{}, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return c, nil
}

// side is one side of a comparison, in a separate process; it prints what run
// reads. See yardstick/hop.c for what pages says.
func side(what, file, pages, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	var r *perfdata.Recording
	if pages == "mapped" && what != "pipe" {
		if r, err = perfdata.Open(file); err != nil {
			return err
		}
		defer r.Close()
		if _, err := pass(what, r); err != nil {
			return err
		}
	}
	start, records := cpuSeconds(), 0
	for range n {
		var k int
		switch {
		case what == "pipe":
			k, err = streamPass(file)
		case r != nil:
			k, err = pass(what, r)
		default:
			k, err = freshPass(what, file)
		}
		if err != nil {
			return err
		}
		records += k
	}
	took := cpuSeconds() - start
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println(records, took, float64(m.Sys)/1e6)
	return nil
}

func freshPass(what, file string) (records int, err error) {
	r, err := perfdata.Open(file)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return pass(what, r)
}

func streamPass(file string) (records int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	rd, err := perfdata.NewReader(f)
	if err != nil {
		return 0, err
	}
	for rd.Next() {
		records++
	}
	return records, rd.Err()
}

func pass(what string, r *perfdata.Recording) (records int, err error) {
	switch what {
	case "scan":
		s := r.Scan()
		for s.Next() {
			records++
		}
		return records, s.Err()
	case "order":
		s := r.Ordered()
		for s.Next() {
			records++
		}
		if s.Late() > 0 {
			return records, fmt.Errorf("%d records out of order", s.Late())
		}
		return records, s.Err()
	case "zstd":
		return 0, bareZstd(r)
	}
	return 0, fmt.Errorf("no side %q", what)
}

// bareZstd decompresses all that is compressed in a recording, and no more.
func bareZstd(r *perfdata.Recording) error {
	src := &payloads{s: r.Scan(perfdata.KeepCompressed(), perfdata.Only(perfdata.RecordCompressed))}
	dec, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer dec.Close()
	buf := make([]byte, 192<<10)
	for {
		if _, err := dec.Read(buf); err == io.ErrUnexpectedEOF {
			return src.s.Err() // perf does not end the stream
		} else if err != nil {
			return err
		}
	}
}

// payloads reads what COMPRESSED records hold.
type payloads struct {
	s    *perfdata.Scanner
	rest []byte
}

func (p *payloads) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if !p.s.Next() {
			return 0, io.EOF
		}
		p.rest = p.s.Record().Body()
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
