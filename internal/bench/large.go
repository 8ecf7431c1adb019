// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/timeline/replay"
)

// largeBound is the most memory that reading a recording of any size may take, in bytes: what
// the process has of its own and of mapped files, and its page tables.
const largeBound = 256 << 20

// benchLarge reads recordings that are larger than the memory: size bytes of AUX traces in
// a sparse file, and so many samples, from a file, from a pipe, and while they are written.
func benchLarge(samples int, size int64) error {
	textreplay, dir, remove, err := commandIn("bench-large-")
	if err != nil {
		return err
	}
	defer remove()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	missed := 0
	fmt.Printf("%-46s %10s %10s %10s %10s %10s %10s\n", "", "wall s", "CPU s", "VmHWM MB", "anon MB", "tables MB", "bound MB")
	measure := func(what string, write func(w io.Writer) error, args ...string) error {
		u, err := follow(write, args...)
		if err != nil {
			return err
		}
		bound := strconv.Itoa(int(largeBound) / 1_000_000)
		if max(u.memory, u.anonymous)+u.tables > largeBound {
			bound += " MISSED"
			missed++
		}
		fmt.Printf("%-46s %10.1f %10.1f %10d %10d %10d %10s\n", what, u.wall.Seconds(), u.cpu.Seconds(), u.memory/1e6, u.anonymous/1e6, u.tables/1e6, bound)
		return nil
	}

	aux := filepath.Join(dir, "aux.data")
	if err := writeFile(aux, func(f *os.File) error { return genperf.AUX(f, size) }); err != nil {
		return err
	}
	if err := measure(fmt.Sprintf("info, %d GiB of AUX traces, file", size>>30), nil, textreplay, "info", "--index", "never", "-i", aux); err != nil {
		return err
	}
	if err := os.Remove(aux); err != nil {
		return err
	}

	h := genperf.History{Pokes: samples / 100_000, Sites: 50_000, Samples: samples, Short: true}
	kcore := filepath.Join(dir, "kcore_dir")
	if err := h.Copy(kcore); err != nil {
		return err
	}
	what := fmt.Sprintf("%d million samples, ", samples/1e6)
	if err := measure("replay.Follow, "+what+"pipe", h.Stream, self, "figures", "follow", kcore); err != nil {
		return err
	}
	if err := measure("info, "+what+"pipe", h.Stream, textreplay, "info", "--index", "never", "-i", "-", "--kcore", kcore); err != nil {
		return err
	}
	file := filepath.Join(dir, "samples.data")
	if err := writeFile(file, func(f *os.File) error { return h.Stream(f) }); err != nil {
		return err
	}
	if err := measure("info, "+what+"file", nil, textreplay, "info", "--index", "never", "-i", file, "--kcore", kcore); err != nil {
		return err
	}
	if missed > 0 {
		return fmt.Errorf("%d bounds missed", missed)
	}
	return nil
}

func writeFile(path string, write func(f *os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// A use is what a process took: most bytes at any time, mapped files included in memory only.
type use struct {
	cpu, wall                 time.Duration
	memory, anonymous, tables int64
}

// follow runs a process to the end. If write is not nil, it writes the process's input.
// The process may exit with code 1: it has seen everything, and proves nothing of the text.
func follow(write func(w io.Writer) error, args ...string) (u use, err error) {
	cmd := exec.Command(args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	var input io.WriteCloser
	if write != nil {
		if input, err = cmd.StdinPipe(); err != nil {
			return u, err
		}
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return u, err
	}
	var group sync.WaitGroup
	var failed error
	if write != nil {
		group.Go(func() { failed = errors.Join(write(input), input.Close()) })
	}
	done := make(chan struct{})
	group.Go(func() {
		for {
			u.look(cmd.Process.Pid)
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	err = cmd.Wait()
	u.wall = time.Since(start)
	close(done)
	group.Wait()
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if code := cmd.ProcessState.ExitCode(); code == 0 || code == 1 {
		err = nil
	}
	if err = errors.Join(err, failed); err != nil {
		return u, fmt.Errorf("%s: %w\n%s", args, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return u, nil
}

// look notes what /proc says of a process, if it still runs.
func (u *use) look(pid int) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		words := strings.Fields(s.Text())
		if len(words) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(words[1], 10, 64)
		switch n <<= 10; words[0] {
		case "VmHWM:":
			u.memory = max(u.memory, n)
		case "RssAnon:":
			u.anonymous = max(u.anonymous, n)
		case "VmPTE:":
			u.tables = max(u.tables, n)
		}
	}
}

// followFigures reads a recording that is being written to standard input, and makes its image.
func followFigures(kcore string, f map[string]float64) error {
	fl, err := replay.Follow(os.Stdin, replay.Options{KCore: kcore})
	if err != nil {
		return err
	}
	defer fl.Close()
	for fl.Next() {
	}
	if err := fl.Err(); err != nil {
		return err
	}
	if _, err := fl.Image(); err != nil {
		return err
	}
	f["horizon"] = float64(fl.Report().Horizon)
	return nil
}
