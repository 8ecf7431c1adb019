// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline/pprofexport"
)

// pprof is the state of the command pprof.
type pprof struct {
	*app
	output, times string
	labels        words
	opts          pprofexport.Options
	pids          []uint

	folded, speedscope bool
}

// noLabels is the value of --labels for no labels.
const noLabels = "none"

var labelWords = []struct {
	word  string
	label pprofexport.Labels
}{
	{"cpu", pprofexport.LabelCPU},
	{"pid", pprofexport.LabelPID},
	{"tid", pprofexport.LabelTID},
	{"comm", pprofexport.LabelComm},
}

func (a *app) pprofCmd() *cobra.Command {
	p := &pprof{app: a}
	cmd := &cobra.Command{
		Use:   "pprof -o FILE [flags]",
		Short: "Write the samples as a profile for pprof",
		Long: `pprof writes the recording's samples, with their call chains, as a profile for
"go tool pprof". It names each kernel address as of the time of its sample. So an
unloaded BPF program keeps its name even if another program used the address later.
User-space addresses have no names; pprof finds them by file and build ID. With
--vmlinux and a file that has debug information, kernel text has lines of source and
inlined functions.

Each event has two values: the number of samples and the sum of their periods. The
labels cpu, pid, tid and comm separate samples of the same stack; pprof filters by
them (-tagfocus) and groups by them (-tagroot). With fewer labels, the profile of a
large recording is smaller.

In a call chain, the address of the call replaces the return address. After a call
of a function that never returns, the return address belongs to another function.

--folded and --speedscope write the same stacks for flame graphs. The outermost frame is
the name of the thread, unless --labels leaves out comm.`,
		Example: `  textreplay pprof -o prof.pb.gz && go tool pprof -top prof.pb.gz
  textreplay pprof -o prof.pb.gz --time 12.5,13 --labels comm
  textreplay pprof -o out.folded --folded && flamegraph.pl out.folded > out.svg
  textreplay pprof -o out.speedscope.json --speedscope
  perf record -g -a -o - -- sleep 5 | textreplay pprof -i - -o prof.pb.gz
  textreplay image --at end --exec -o text.elf && go tool pprof -disasm vfs_read text.elf prof.pb.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run() },
	}
	f := cmd.Flags()
	f.StringVarP(&p.output, "output", "o", "", "the `FILE` to write, - for standard output")
	f.StringVar(&p.times, "time", "", "only samples from time A up to but not including B (`A,B`; either may be empty)")
	f.StringArrayVar(&p.opts.Events, "event", nil, "only samples of this `event` (repeatable)")
	f.UintSliceVar(&p.pids, "pid", nil, "only samples of these processes: `PID,...`")
	f.Lookup("pid").DefValue = "" // otherwise help would show an empty list
	f.StringSliceVar(&p.opts.Comms, "comm", nil, "only samples of threads with these `names`, or of --pid")
	var choices []string
	for _, l := range labelWords {
		choices = append(choices, l.word)
	}
	f.BoolVar(&p.folded, "folded", false, "write folded stacks instead, for flamegraph.pl")
	f.BoolVar(&p.speedscope, "speedscope", false, "write a file for speedscope instead")
	cmd.MarkFlagsMutuallyExclusive("folded", "speedscope")
	a.words(cmd, &p.labels, "labels", "the `labels` of samples (default all)", append(choices, noLabels)...)
	cmd.MarkFlagRequired("output")
	return cmd
}

// profileSummary counts what was written.
type profileSummary struct {
	Events    []profileEvent `json:"events"`
	Stacks    int            `json:"stacks"`
	Locations int            `json:"locations"`
	Functions int            `json:"functions"`
	Mappings  int            `json:"mappings"`
	Lost      uint64         `json:"lost"`
	Damaged   uint64         `json:"damaged"`
}

type profileEvent struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Samples uint64 `json:"samples"`
	Total   uint64 `json:"total"`
}

func (p *pprof) run() error {
	if len(p.labels.given) > 1 && slices.Contains(p.labels.given, noLabels) {
		return usagef("--labels: %s excludes other labels", noLabels)
	}
	for _, l := range labelWords {
		if p.labels.has(l.word) {
			p.opts.Labels |= l.label
		}
	}
	for _, pid := range p.pids {
		if uint64(uint32(pid)) != uint64(pid) {
			return usagef("--pid %d: not a process ID", pid)
		}
		p.opts.PIDs = append(p.opts.PIDs, uint32(pid))
	}
	if err := p.reserve(p.output); err != nil {
		return err
	}
	r, err := p.loadAndWarn()
	if err != nil {
		return err
	}
	window, err := windowOf(r, p.times)
	if err != nil {
		return err
	}
	p.opts.From, p.opts.To = window.from, window.to
	debug, err := p.debugInfo(r)
	if err != nil {
		return err
	}
	if debug != nil {
		p.opts.Source = func(addr uint64) (out []pprofexport.SourceFrame) {
			for _, f := range debug.frames(addr) {
				out = append(out, pprofexport.SourceFrame{Func: f.Func, File: f.File, Line: f.Line})
			}
			return out
		}
	}
	if bar := p.bar(); bar != nil {
		p.opts.Progress = bar.update
		defer bar.clear()
	}
	var stats *pprofexport.Stats
	err = p.writeFile(p.output, func(w io.Writer) (err error) {
		write := pprofexport.Write
		switch {
		case p.folded:
			write = pprofexport.WriteFolded
		case p.speedscope:
			write = pprofexport.WriteSpeedscope
		}
		stats, err = write(w, r, p.opts)
		return err
	})
	var event *pprofexport.EventError
	switch {
	case errors.Is(err, pprofexport.ErrNoSamples):
		return belowf("no sample matches: no profile was written")
	case errors.As(err, &event):
		return usagef("--event: %w", event)
	case err != nil:
		return err
	}
	for _, w := range stats.Warnings {
		fmt.Fprintf(p.stderr, "textreplay: warning: %v\n", w)
	}
	if stats.Lost > 0 {
		fmt.Fprintf(p.stderr, "textreplay: warning: %s lost while recording; samples may be among them\n", count(stats.Lost, "record"))
	}
	if p.output == "-" {
		return nil
	}
	return outputError(p.summary(stats))
}

func (p *pprof) summary(stats *pprofexport.Stats) error {
	if p.json {
		sum := profileSummary{
			Stacks: stats.Stacks, Locations: stats.Locations, Functions: stats.Functions,
			Mappings: stats.Mappings, Lost: stats.Lost, Damaged: stats.Damaged,
		}
		for _, e := range stats.Events {
			sum.Events = append(sum.Events, profileEvent(e))
		}
		return encoder(p.out).Encode(sum)
	}
	for _, e := range stats.Events {
		fmt.Fprintf(p.out, "%s: %s of %s, %s %s\n", p.output, count(e.Samples, "sample"), e.Name, thousands(e.Total), e.Unit)
	}
	_, err := fmt.Fprintf(p.out, "%s: %s, %s, %s\n", p.output,
		count(stats.Stacks, "stack"), count(stats.Locations, "location"), count(stats.Functions, "function")+" of the kernel")
	return err
}
