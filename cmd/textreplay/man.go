// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/textreplay/textreplay/internal/outfile"
)

func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages",
		Long: `man writes a man page for each command, in section 1, to a directory. It creates the
directory if needed.`,
		Example: `  textreplay man /usr/local/share/man/man1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want a directory, got %s", count(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// The pages contain nothing from the inputs.
			var out outfile.Outputs
			for _, name := range a.inputs() {
				out.Spares(name)
			}
			d, err := out.Dir(args[0])
			if err != nil {
				return outputError(err)
			}
			defer d.Discard()
			root := cmd.Root()
			forMan(root)
			if err := writeMan(d, root); err != nil {
				return outputError(err)
			}
			return outputError(d.Commit())
		},
	}
}

// writeMan writes the pages of cmd and of the commands below it.
func writeMan(d *outfile.Dir, cmd *cobra.Command) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	err := d.WriteFile(name, func(w io.Writer) error {
		return doc.GenMan(cmd, &doc.GenManHeader{
			Section: "1",
			Source:  "textreplay",
			Manual:  "textreplay manual",
			Date:    buildTime(),
		}, w)
	})
	for _, c := range cmd.Commands() {
		if err == nil && c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			err = writeMan(d, c)
		}
	}
	return err
}

// buildTime returns the time of the commit that the program was built from, so
// that the same program writes the same pages. It returns nil if the build does
// not record it.
func buildTime() *time.Time {
	at := thisBuild().Time
	if at == nil {
		return nil
	}
	t, err := time.Parse(time.RFC3339, *at)
	if err != nil {
		return nil
	}
	return &t
}

// forMan converts the help texts to the Markdown that man pages are made from.
func forMan(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	lines := strings.Split(cmd.Long, "\n")
	for i, line := range lines {
		// Markdown shows a block literally if it is indented by four.
		if strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line
		}
	}
	cmd.Long = strings.Join(lines, "\n")
	for _, c := range cmd.Commands() {
		forMan(c)
	}
}
