// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/perfetto"
)

// perfettoTrace is the state of the command perfetto.
type perfettoTrace struct {
	*app
	output, times string
	sites         int
}

func (a *app) perfettoCmd() *cobra.Command {
	p := &perfettoTrace{app: a}
	cmd := &cobra.Command{
		Use:   "perfetto -o FILE [flags]",
		Short: "Write the changes as a trace for Perfetto",
		Long: `perfetto writes the changes of kernel text as a trace that https://ui.perfetto.dev
opens. It has

  - for each mechanism (static keys, ftrace, ...) a track of its runs, with the writer,
    and a counter of changes per second
  - for each of the busiest sites a track of the instructions that were there, and one
    of the times when a CPU may have met a trap instead
  - the lifetimes of BPF programs, trampolines, out-of-line code and modules
  - lost records, and a counter of them

Slices have bytes, instructions and addresses as arguments. Times are those of the
recording's clock. The size is bounded: a large recording takes some 10 MB, and
perfetto says what it left out.`,
		Example: `  textreplay perfetto -o changes.pftrace
  textreplay perfetto -o changes.pftrace --time 12.5,13 --sites 200`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run() },
	}
	f := cmd.Flags()
	f.StringVarP(&p.output, "output", "o", "", "the `FILE` to write, - for standard output")
	f.StringVar(&p.times, "time", "", "only from time A up to but not including B (`A,B`; either may be empty)")
	f.IntVar(&p.sites, "sites", 50, "make a track of each of the `N` busiest sites, at most 200")
	cmd.MarkFlagRequired("output")
	return cmd
}

// traceSummary says what was written.
type traceSummary struct {
	Bytes    int64    `json:"bytes"`
	Tracks   int      `json:"tracks"`
	Slices   int      `json:"slices"`
	Counters int      `json:"counters"` // values of counters
	Changes  uint64   `json:"changes"`
	LeftOut  []string `json:"left_out"`
}

func (p *perfettoTrace) run() error {
	if p.sites < 0 {
		return usagef("--sites %d: must be 0 or more", p.sites)
	}
	if err := p.reserve(p.output); err != nil {
		return err
	}
	r, err := p.loadAndWarn()
	if err != nil {
		return err
	}
	p.warnWindows("the trace")
	window, err := windowOf(r, p.times)
	if err != nil {
		return err
	}
	c, err := newCoder(r)
	if err != nil {
		return err
	}
	opts := perfetto.Options{Sites: p.sites}
	opts.From, opts.To = window.bounds()
	if p.sites == 0 {
		opts.Sites = -1
	}
	opts.Disassemble = func(v timeline.View, addr uint64, code []byte) string {
		return instsText(c.shown(v, addr, code), len(code))
	}
	if opts.Tables, err = p.tables(r); err != nil {
		return err
	}
	var stats *perfetto.Stats
	err = p.writeFile(p.output, func(w io.Writer) (err error) {
		stats, err = perfetto.Write(w, r, opts)
		return err
	})
	if err != nil {
		return err
	}
	for _, what := range stats.Truncated {
		p.warnf("left out: %s", what)
	}
	switch {
	case p.output == "-":
		return nil
	case p.json:
		return outputError(encoder(p.out).Encode(traceSummary{stats.Bytes, stats.Tracks, stats.Slices, stats.Counters, stats.Changes,
			append([]string{}, stats.Truncated...)}))
	}
	_, err = fmt.Fprintf(p.out, "%s: %s in %s, %s, %s\n", p.output, count(stats.Changes, "change"), count(stats.Slices, "slice"),
		count(stats.Tracks, "track"), count(uint64(stats.Bytes), "byte"))
	return outputError(err)
}
