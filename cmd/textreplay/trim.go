// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/trim"
)

func (a *app) trimCmd() *cobra.Command {
	var out, times string
	var symbols []string
	var samples, aux bool
	cmd := &cobra.Command{
		Use:   "trim -o DIR [--time A,B] [--symbol S]...",
		Short: "Cut a recording down to what questions about kernel text need",
		Long: `trim writes a small recording that answers for itself: side-band records, BPF
program infos, and of the snapshot the pages that text pokes touched. Samples,
hardware trace and the memory maps of programs are dropped, unless --samples or
--aux asks for them.

With --time nothing is kept from B on, and no samples before A; changes before A
stay, because the answers for the window rest on them. With --symbol only the
pages of these functions are kept, with their changes, and all dynamic code.

What the cut recording says is known, the whole one says is known; for the rest it
says that it does not know. A cut that would hide that changes went unrecorded is
refused: samples (--samples) can be such a sign. What is cut out of a damaged
recording is damaged too.`,
		Example: `  textreplay trim -o small.data
  textreplay trim -i big.data -o window.data --time 12.5,13 --symbol vfs_read`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("-o names the directory to write")
			}
			if err := a.reserve(out); err != nil {
				return err
			}
			r, err := a.loadAndWarn()
			if err != nil {
				return err
			}
			window := interval{0, timeline.MaxTime}
			err = halves("--time", times, &window, func(s string) (uint64, error) {
				t, err := r.ParseTime(s)
				return t.From, err
			})
			if err != nil {
				return err
			}
			opts := trim.Options{From: window.from, To: window.to, Samples: samples, Aux: aux}
			for _, name := range symbols {
				found := r.Image.At(r.Report.First).Lookup(name)
				if len(found) == 0 {
					return usagef("--symbol %s: no symbol of this name", name)
				}
				for _, s := range found {
					opts.Ranges = append(opts.Ranges, timeline.Range{Lo: s.Addr, Hi: s.Addr + max(s.Size, 1)})
				}
			}
			err = trim.Write(out, r, opts)
			switch {
			case errors.Is(err, trim.ErrGuest):
				return &exitError{exitUsage, err}
			case errors.Is(err, trim.ErrHides):
				return inputError(err)
			case err != nil:
				return outputError(err)
			}
			size, err := treeSize(out)
			if err != nil {
				return outputError(err)
			}
			fmt.Fprintf(a.stderr, "textreplay: wrote %s, %.1f MB\n", out, float64(size)/1e6)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&out, "output", "o", "", "the directory to write, which must not exist")
	f.StringVar(&times, "time", "", "a window of time `A,B`; either end may be empty")
	f.StringArrayVar(&symbols, "symbol", nil, "keep only the pages of this function (repeatable)")
	f.BoolVar(&samples, "samples", false, "keep samples")
	f.BoolVar(&aux, "aux", false, "keep hardware trace, all of it, and what a decoder of it needs")
	return cmd
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
