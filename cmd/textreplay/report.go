// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/web"
)

func (a *app) reportCmd() *cobra.Command {
	var output, times string
	var symbols []string
	var megabytes uint
	cmd := &cobra.Command{
		Use:   "report -o FILE.html [flags]",
		Short: "Write the pages of web as one HTML file",
		Long: `report writes the pages of "textreplay web" for a window of time as one HTML file, to send
to somebody: overview, map, what differs between start and end, log, and the functions that
changed most. The file needs no network and no other file. --max-size bounds it; it says what
it leaves out.`,
		Example: `  textreplay report -o report.html
  textreplay report -i run7.data -o window.html --time 12.5,13 --symbol vfs_read`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if megabytes == 0 {
				return usagef("--max-size 0: must be at least 1")
			}
			if err := a.reserve(output); err != nil {
				return err
			}
			r, err := a.loadAndWarn()
			if err != nil {
				return err
			}
			window, err := windowOf(r, times)
			if err != nil {
				return err
			}
			opts := web.ReportOptions{From: window.from, To: window.to, MaxSize: int(min(megabytes, 1<<10)) << 20}
			for _, name := range symbols {
				found, err := symbolsNamed(r, name, r.Image.At(max(window.from, r.Report.First)))
				if err != nil {
					return err
				}
				opts.Symbols = append(opts.Symbols, found...)
			}
			text, err := newWebText(a, r)
			if err != nil {
				return err
			}
			var stats *web.ReportStats
			err = a.writeFile(output, func(w io.Writer) (err error) {
				stats, err = web.WriteReport(w, &web.Recording{Replay: r, Name: a.inputName(), Text: text}, opts)
				return err
			})
			var empty *web.RequestError
			switch {
			case errors.As(err, &empty):
				return usagef("--time %s: %w", times, empty)
			case err != nil:
				return err
			}
			for _, what := range stats.LeftOut {
				a.sayf("left out: %s", what)
			}
			switch {
			case output == "-":
			case a.json:
				return outputError(encoder(a.out).Encode(reportSummary{int64(stats.Bytes), append([]string{}, stats.LeftOut...)}))
			default:
				a.sayf("wrote %s, %.1f MB", output, float64(stats.Bytes)/1e6)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "the `FILE` to write, - for standard output")
	f.StringVar(&times, "time", "", "only from time A up to but not including B (`A,B`; either may be empty)")
	f.StringArrayVar(&symbols, "symbol", nil, "always have a page of this `FUNCTION` (repeatable)")
	f.UintVar(&megabytes, "max-size", 4, "about how large the file may be, in `MB`")
	cmd.MarkFlagRequired("output")
	return cmd
}

// reportSummary says what was written.
type reportSummary struct {
	Bytes   int64    `json:"bytes"`
	LeftOut []string `json:"left_out"`
}
