// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/build"
	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/recorder"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A size is the value of a flag, in bytes. It is written with an optional unit, a power of 1,024:
// K, M, G or T.
type size int64

func (s *size) Type() string   { return "SIZE" }
func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }

func (s *size) Set(text string) error {
	const units = "KMGT"
	number, shift := text, 0
	if n := len(text); n > 0 {
		if i := strings.IndexByte(units, text[n-1]&^0x20); i >= 0 {
			number, shift = text[:n-1], 10*(i+1)
		}
	}
	v, err := numbers.Parse(number, 64)
	if errors.Is(err, strconv.ErrRange) || err == nil && v > (1<<62)>>shift {
		return strconv.ErrRange
	}
	if err != nil {
		return errors.New("must be a number of bytes, as 500M or 2G")
	}
	*s = size(v << shift)
	return nil
}

func (a *app) recordCmd() *cobra.Command {
	var opts recorder.Options
	var maxSize size
	var follow bool
	cmd := &cobra.Command{
		Use:   "record [-o DIR] [flags] [-- COMMAND [ARG]...]",
		Short: "Record how the running kernel changes its text",
		Long: `record writes a perf.data directory that has everything the other commands need,
for as long as COMMAND runs, or until Ctrl-C. perf reads it too.

Compared with "perf record -a --kcore", it copies kernel text with a time, fetches the
code of each BPF program when it is loaded, follows CPUs that go offline and come back,
and can run for days: --max-size begins a new piece, which can be read alone, and
--max-pieces removes the oldest. Killed at any moment, it leaves what it has recorded.

Kernels of arm64 and powerpc record no text pokes. There it checks the kernel's code, makes
the kprobe events that "textreplay probes" prints, and notes their hit counters. It removes
them at the end.

It needs root, or CAP_PERFMON, CAP_SYSLOG, CAP_SYS_ADMIN, CAP_SYS_RAWIO and
CAP_DAC_READ_SEARCH. It begins with what it may do, and says what will be unknown and
what would help. The exit code does not depend on that of COMMAND.`,
		Example: `  sudo textreplay record -o rec.data -- sleep 10
  sudo textreplay record -o rec.data --follow -- sleep 10
  sudo textreplay record -o /var/lib/textreplay --max-size 500M --max-pieces 20`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return usagef("%s: write -- before the command to run", args[0])
			}
			return a.record(opts, int64(maxSize), follow, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&opts.Dir, "output", "o", "perf.data", "the `DIR` to make")
	f.IntVarP(&opts.Pages, "mmap-pages", "m", opts.Pages, "make ring buffers of `N` pages for each CPU, a power of two (default 128, or 4 MB where probes record the changes)")
	f.DurationVar(&opts.SnapshotEvery, "snapshot-every", 0, "copy kernel text again each `TIME`, such as 10m; only changed pages are stored")
	f.Var(&maxSize, "max-size", "begin a new piece in DIR when one has this many bytes")
	f.BoolVar(&follow, "follow", false, "print each change when it was made, as log does")
	f.BoolVar(&opts.Rearm, "rearm", false, "if somebody disarms all kprobes, arm them again, where probes record the changes")
	f.IntVar(&opts.MaxPieces, "max-pieces", 0, "keep only the `N` newest pieces")
	return cmd
}

// record runs the recorder.
func (a *app) record(opts recorder.Options, maxSize int64, follow bool, command []string) error {
	if err := checkDir("-o", opts.Dir); err != nil {
		return err
	}
	opts.MaxSize = maxSize
	if opts.MaxPieces != 0 && opts.MaxSize == 0 {
		return usagef("--max-pieces needs --max-size")
	}
	if len(command) > 0 {
		if _, err := exec.LookPath(command[0]); err != nil {
			return usagef("%w", err) // before anything is made
		}
	}
	opts.Program = "textreplay " + build.This().Version
	opts.Args = append([]string{"textreplay"}, os.Args[1:]...)
	opts.Probes = planProbes
	opts.Warn = func(err error) { a.warnf("%v", err) }
	opts.Dir = pathname.Plain(opts.Dir)
	if _, err := os.Lstat(opts.Dir); err == nil && opts.MaxSize == 0 {
		return usagef("%s exists; record makes a new directory", opts.Dir)
	}
	// To hand work from one thread to another costs more than recording does.
	runtime.GOMAXPROCS(1)
	// What is alive takes some hundred KB. By itself the heap would grow to 4 MB before it is
	// collected.
	debug.SetGCPercent(25)
	ctx, release := outfile.SignalContext()
	defer release()
	r, err := recorder.Start(opts)
	if err != nil {
		return startError(err)
	}
	var w *workload
	if len(command) > 0 {
		if ctx, w, err = a.startWorkload(ctx, command); err != nil {
			return errors.Join(usagef("%w", err), r.Discard())
		}
	} else {
		a.sayf("recording into %s; Ctrl-C ends it", opts.Dir)
	}
	began := time.Now()
	printed := make(chan error, 1)
	var over atomic.Bool
	if dir := r.Dir(); follow {
		go func() { printed <- a.followRecord(dir, opts.MaxSize > 0, &over) }()
	} else {
		printed <- nil
	}
	err = r.Run(ctx)
	err = errors.Join(err, r.Close())
	over.Store(true)
	err = errors.Join(err, <-printed)
	s := r.Stats()
	a.sayf("%v recorded into %s: %d records, %d lost; %d of %d BPF programs with their code; copies of kernel text: %d",
		time.Since(began).Round(time.Millisecond), opts.Dir, s.Records, s.Lost, s.Fetched, s.Programs, s.Copies)
	if err != nil {
		return outputError(err)
	}
	var exit *exec.ExitError
	if w != nil && errors.As(w.failed(), &exit) {
		a.sayf("%s: %v", command[0], exit)
	}
	return nil
}

// startError returns err of recorder.Start with its exit code and what the user can do.
func startError(err error) error {
	switch {
	case errors.Is(err, recorder.ErrOptions):
		return usagef("%w", err)
	case errors.Is(err, fs.ErrExist):
		return usagef("%w; record makes a new directory", err)
	case errors.Is(err, errors.ErrUnsupported):
		return inputError(err)
	case errors.Is(err, recorder.ErrLocked):
		return inputError(fmt.Errorf("%w; make them smaller (-m), raise kernel.perf_event_mlock_kb, or run as root or with CAP_IPC_LOCK", err))
	case errors.Is(err, fs.ErrPermission):
		return inputError(fmt.Errorf("%w; run as root, or with CAP_PERFMON, or set kernel.perf_event_paranoid to -1", err))
	}
	return outputError(err)
}

// A workload is the command that is recorded.
type workload struct{ ended chan error }

// startWorkload starts a command. The context that it returns ends when the command has ended.
func (a *app) startWorkload(ctx context.Context, command []string) (context.Context, *workload, error) {
	c := exec.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = a.stdin, os.Stdout, a.stderr
	if err := c.Start(); err != nil {
		return ctx, nil, err
	}
	w := &workload{make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		w.ended <- c.Wait()
		cancel()
	}()
	return ctx, w, nil
}

// failed returns the error of a command that has ended, nil of one that has not.
func (w *workload) failed() error {
	select {
	case err := <-w.ended:
		return err
	default:
		return nil
	}
}

// planProbes returns the probes that record the changes of text of a kernel that emits no
// TEXT_POKE records. "textreplay probes" derives them in a process of its own: the kernel's
// names and text take more memory than the recorder may have.
func planProbes() (probes []recorder.Probe, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var complaint strings.Builder
	c := exec.Command(self, "probes", "--json")
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		if s := strings.TrimSpace(strings.TrimPrefix(complaint.String(), "textreplay: ")); s != "" {
			err = errors.New(s)
		}
		return nil, err
	}
	var p jsonPlan
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, fmt.Errorf("textreplay probes: %w", err)
	}
	for i, d := range p.Definitions {
		probes = append(probes, recorder.Probe{Definition: d, Each: !(&replay.ProbePlan{Definitions: p.Definitions}).IsPart(i)})
	}
	return probes, nil
}
