// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
)

// The bounds of benchPprof.
const (
	pprofPart   = 1. / 5 // of perf's CPU time
	pprofMemory = 512    // MiB
)

// benchPprof measures `textreplay pprof` on a large recording with call chains
// against perf naming the addresses of the same samples.
func benchPprof(samples, runs int) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return err
	}
	textreplay, dir, remove, err := commandIn("bench-pprof-")
	if err != nil {
		return err
	}
	defer remove()
	recording, kallsyms, profile := filepath.Join(dir, "perf.data"), filepath.Join(dir, "kallsyms"), filepath.Join(dir, "prof.pb.gz")
	if err := generateProfiled(recording, kallsyms, samples); err != nil {
		return err
	}

	// The samples that perf prints are counted, so that both saw the same.
	count := 0
	script := exec.Command(perf, "script", "-f", "-i", recording, "--kallsyms", kallsyms, "-F", "ip,sym,time")
	theirs, err := measure(script, func(out io.Reader) error {
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			if line := sc.Bytes(); len(line) > 0 && line[0] != '\t' && bytes.HasSuffix(bytes.TrimRight(line, " "), []byte(":")) {
				count++
			}
		}
		return sc.Err()
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d samples, %d call chains\n\n%-40s %9s %7s %9s\n", samples, genperf.Stacks, "", "CPU s", "part", "MiB")
	fmt.Printf("%-40s %9.2f %7s %9d\n", "perf script -F ip,sym,time", theirs.cpu, "", theirs.mem)

	missed := count != samples
	if missed {
		fmt.Printf("perf printed %d samples\n", count)
	}
	for _, side := range []struct {
		name  string
		args  []string
		stdin bool
	}{
		{"textreplay pprof", nil, false},
		{"textreplay pprof --labels none", []string{"--labels", "none"}, false},
		{"textreplay pprof -i -", []string{"-i", "-"}, true},
	} {
		var best usage
		for range runs {
			cmd := exec.Command(textreplay, append([]string{"pprof", "-i", recording, "--kallsyms", kallsyms, "-o", profile, "--json", "--index", "never"}, side.args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			if side.stdin {
				f, err := os.Open(recording)
				if err != nil {
					return err
				}
				defer f.Close()
				cmd.Stdin = f
			}
			var sum struct {
				Events []struct{ Samples int }
			}
			used, err := measure(cmd, func(out io.Reader) error { return json.NewDecoder(out).Decode(&sum) })
			if err != nil {
				return err
			}
			if len(sum.Events) != 1 || sum.Events[0].Samples != samples {
				return fmt.Errorf("%s: %+v, want %d samples", side.name, sum, samples)
			}
			if best.cpu == 0 || used.cpu < best.cpu {
				best.cpu = used.cpu
			}
			best.mem = max(best.mem, used.mem)
		}
		verdict := ""
		if best.cpu > theirs.cpu*pprofPart || best.mem > pprofMemory {
			verdict, missed = "  MISSED", true
		}
		fmt.Printf("%-40s %9.2f %7s %9d%s\n", side.name, best.cpu, fmt.Sprintf("1/%.1f", theirs.cpu/best.cpu), best.mem, verdict)
	}
	if missed {
		return errors.New("a bound is missed")
	}
	return nil
}

func generateProfiled(recording, kallsyms string, samples int) error {
	f, err := os.Create(recording)
	if err != nil {
		return err
	}
	defer f.Close()
	k, err := os.Create(kallsyms)
	if err != nil {
		return err
	}
	defer k.Close()
	if err := genperf.Profiled(f, k, samples); err != nil {
		return err
	}
	return errors.Join(f.Close(), k.Close())
}

// A usage is what a process took.
type usage struct {
	cpu float64 // seconds, user and system
	mem int64   // MiB, at its largest, mapped files included
}

// measure runs a program and hands over its output.
func measure(cmd *exec.Cmd, output func(io.Reader) error) (usage, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return usage{}, err
	}
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	err = errors.Join(output(out), cmd.Wait())
	if err != nil {
		return usage{}, fmt.Errorf("%s: %w\n%s", cmd, err, &stderr)
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return usage{
		cpu: time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(),
		mem: u.Maxrss >> 10,
	}, nil
}
