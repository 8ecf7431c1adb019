// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

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
	"syscall"
	"time"

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

	ours := func(what, file, times string) []string { return []string{self, "side", what, file, times} }
	const often = "50" // the trace is passed over in milliseconds
	fmt.Printf("\n%-28s %-32s %-32s %6s %6s\n", "CPU seconds", "textreplay", "yardstick", "ratio", "bound")
	missed := 0
	for _, b := range []struct {
		name  string
		ours  []string
		than  string
		yard  []string
		bound float64
	}{
		{"records as they stand", ours("scan", plain, "1"), "C loop", []string{hop, plain, "1"}, 1.5},
		{"in the order of time", ours("order", plain, "1"), "C loop", []string{hop, plain, "1"}, 4},
		{"compressed", ours("scan", packed, "1"), "bare klauspost zstd", ours("zstd", packed, "1"), 1.3},
		{"compressed, order of time", ours("order", packed, "1"), "bare klauspost zstd", ours("zstd", packed, "1"), 0},
		{"AUX payload, " + often + " times", ours("scan", trace, often), "C loop", []string{hop, trace, often}, 5},
		{"out of a pipe", ours("pipe", plain, "1"), "C loop", []string{hop, plain, "1"}, 0},
	} {
		a, b1, err := compare(b.ours, b.yard, runs)
		if err != nil {
			return err
		}
		ratio := a.cpu.Seconds() / b1.cpu.Seconds()
		bound := "-"
		if b.bound > 0 {
			bound = fmt.Sprintf("%.1f", b.bound)
			if ratio > b.bound {
				bound += " MISSED"
				missed++
			}
		}
		fmt.Printf("%-28s %-32s %-32s %6.2f %6s\n", b.name, a.String(), b1.String()+" "+b.than, ratio, bound)
	}
	if missed > 0 {
		return fmt.Errorf("%d bounds missed", missed)
	}
	return nil
}

// A cost is what a program took.
type cost struct {
	cpu time.Duration // user and system
	mem string        // memory that Go took from the system, as the program printed it
}

func (c cost) String() string {
	s := fmt.Sprintf("%.3f", c.cpu.Seconds())
	if c.mem != "" {
		s += " (" + c.mem + ")"
	}
	return s
}

// compare runs two programs in turn and returns the least that each took.
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

func run(args []string) (cost, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return cost{}, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	c := cost{cpu: time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
	_, c.mem, _ = strings.Cut(strings.TrimSpace(string(out)), " records, ")
	return c, nil
}

// side is one side of a comparison, in a process of its own.
func side(what, file, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	records := 0
	for range n {
		k, err := pass(what, file)
		if err != nil {
			return err
		}
		records += k
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Printf("%d records, %.1f MB\n", records, float64(m.Sys)/1e6)
	return nil
}

func pass(what, file string) (records int, err error) {
	if what == "pipe" {
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
	r, err := perfdata.Open(file)
	if err != nil {
		return 0, err
	}
	defer r.Close()
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
