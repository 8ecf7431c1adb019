// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

func (a *app) trimCmd() *cobra.Command {
	var out, times string
	var symbols []string
	var samples, aux bool
	cmd := &cobra.Command{
		Use:   "trim -o DIR [--time A,B] [--symbol S]...",
		Short: "Write a smaller recording with the same answers",
		Long: `trim writes a small recording that textreplay can read alone. It keeps side-band
records, BPF program infos, and the pages of the snapshot that text pokes changed.
It drops samples, hardware trace and the memory maps of processes, unless --samples
or --aux asks for them.

With --time it keeps nothing from B on and no samples before A. It keeps the changes
before A, because the answers from A to B depend on them, and those that are being
made at B, up to the last one: their traps may be there before B. If perf may have
copied kernel text at B or later, it keeps what changes text until the copy was
complete, and of what "textreplay record" recorded with probes, until their hit
counters were read next. Of a recording of perf record --threads it keeps nothing
behind the time up to which that is complete. With --symbol it keeps only the pages of
these functions, with their changes, all dynamic code, and the pages of other changes
that bound the traps.

If the small recording says that bytes are known, so does the whole one, unless a change
from B on finds other bytes there, or shows that clocks differ. A record of the idle
task's name, which is always the same, stands for the dropped records that show until
when a CPU was recorded. Where none can, as while records were lost, nothing is known
after the last record that is kept. What comes after B may be needed too, such as a
reading of a probe's hit counters. trim names the time until which text is known if
more than that was to be kept. trim refuses a cut that would hide another sign of
unrecorded changes; samples can be such a sign, and --samples keeps them. A cut of a damaged
recording is damaged too. A copy of text that was given with --kcore is left out,
and so is what --kallsyms, --modules, --vmlinux and --windows give.`,
		Example: `  textreplay trim -o small.data
  textreplay trim -i big.data -o window.data --time 12.5,13 --symbol vfs_read`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("-o DIR is required: the directory to write")
			}
			if err := cmp.Or(checkDir("-o", out), a.reserve(out)); err != nil {
				return err
			}
			r, err := a.loadAndWarn()
			if err != nil {
				return err
			}
			if a.hasWindows {
				a.warnf("the small recording does not have the changes of --windows %s: give it the same file", a.windows)
			}
			for _, f := range []struct{ flag, file, has string }{
				{"kallsyms", a.kallsyms, "symbols"}, {"modules", a.modules, "modules"}, {"vmlinux", a.vmlinux, "text"},
			} {
				if f.file != "" {
					a.warnf("the small recording does not have the %s of --%s %s: give it the same file", f.has, f.flag, f.file)
				}
			}
			window, err := windowOf(r, times)
			if err != nil {
				return err
			}
			opts := trim.Options{Samples: samples, Aux: aux}
			opts.From, opts.To = window.bounds()
			for _, name := range symbols {
				found := r.Image.At(r.Report.First).Lookup(name)
				if len(found) == 0 {
					return usagef("--symbol %s: no symbol of this name", name)
				}
				for _, s := range found {
					opts.Ranges = append(opts.Ranges, timeline.Range{Lo: s.Addr, Hi: s.Addr + max(s.Size, 1)})
				}
			}
			known, err := trim.Write(out, r, opts)
			switch {
			case errors.Is(err, trim.ErrGuest):
				return &exitError{exitUsage, err}
			case errors.Is(err, trim.ErrHides):
				return inputError(err)
			case err != nil:
				return outputError(err)
			}
			a.complete = true
			size, err := treeSize(pathname.Plain(out))
			if err != nil {
				return outputError(err)
			}
			if a.json {
				sum := trimSummary{Bytes: size, Horizon: decTime(known.Horizon)}
				if known.To > 0 {
					from, to := decTime(known.From), decTime(known.To)
					sum.From, sum.To = &from, &to
				}
				return outputError(encoder(a.out).Encode(sum))
			}
			a.sayf("wrote %s, %.1f MB%s", out, float64(size)/1e6, knowsUntil(r, known, opts.To))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "write the recording to `DIR`, which must not exist")
	f.StringVar(&times, "time", "", "keep only what questions from time A up to but not including B need (`A,B`; either may be empty)")
	f.StringArrayVar(&symbols, "symbol", nil, "keep only the pages of this `FUNCTION` ([MODULE:]NAME; all places that have the name; repeatable)")
	f.BoolVar(&samples, "samples", false, "keep samples, and the pages of the code that they ran")
	f.BoolVar(&aux, "aux", false, "keep all hardware trace, and what its decoder needs")
	return cmd
}

// trimSummary says what was written, and what is known in it.
type trimSummary struct {
	Bytes   int64   `json:"bytes"`
	From    *string `json:"from"` // kernel text is known from then on; null if it is at no time
	To      *string `json:"to"`   // until then
	Horizon string  `json:"horizon"`
}

// knowsUntil says from when on nothing is known in a recording that was cut out of a whole one, if more
// or less than that was to be kept, up to the time to or the end of the whole. A ring buffer that was full then
// recorded nothing. What proves the answers may come after it, such as a reading of a probe's hit
// counters.
func knowsUntil(r *replay.Replay, known trim.Result, to uint64) string {
	whole := r.Report
	if to == 0 {
		to = timeline.MaxTime
	}
	to = r.NextTick(to)
	switch last := min(whole.Trusted.To, to-1); {
	case known.To == 0 && last > whole.Trusted.From:
		return "; kernel text is not known in it at any time (textreplay info says why)"
	case known.To != 0 && known.To < min(last, known.Horizon):
		return "; kernel text is known in it until " + replay.Seconds(known.To) + " only (textreplay info says why)"
	case known.Horizon < min(whole.Horizon, to-1):
		return "; nothing is known in it after its last record, at " + replay.Seconds(known.Horizon)
	case known.Horizon > to-1 && known.Horizon <= r.ReadyBy():
		return "; it ends at " + replay.Seconds(known.Horizon) + ", as perf may have copied kernel text until then"
	case known.Horizon > to-1 && isReading(r, known.Horizon):
		return "; it ends at " + replay.Seconds(known.Horizon) + ", when the probes' hit counters were read"
	case known.Horizon > to-1:
		return "; its last change is of " + replay.Seconds(known.Horizon) + ", as its trap may be there before"
	}
	return ""
}

// isReading reports whether a reading of probes' hit counters in the recorder's journal ended at a time.
func isReading(r *replay.Replay, t uint64) bool {
	entries, _ := r.Journal()
	return slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Counters != nil && e.Counters.To == t })
}

// treeSize returns how many bytes the files under dir have.
func treeSize(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
