// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages",
		Long: `man writes a man page for each command, in section 1, to a directory, which is made
where it does not exist.`,
		Example: `  textreplay man /usr/local/share/man/man1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want a directory, have %s", count(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return outputError(err)
			}
			root := cmd.Root()
			forMan(root)
			return outputError(doc.GenManTree(root, &doc.GenManHeader{
				Section: "1",
				Source:  "textreplay",
				Manual:  "textreplay manual",
				Date:    buildTime(),
			}, args[0]))
		},
	}
}

// buildTime returns the time of the commit that the program was built from, so
// that the same program writes the same pages; nil where it is not known.
func buildTime() *time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				return &t
			}
		}
	}
	return nil
}

// forMan makes the help texts fit for the Markdown that man pages are made of.
func forMan(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	lines := strings.Split(cmd.Long, "\n")
	for i, line := range lines {
		// What is indented is shown as it stands, if by four.
		if strings.HasPrefix(line, "  ") {
			lines[i] = "  " + line
		}
	}
	cmd.Long = strings.Join(lines, "\n")
	for _, c := range cmd.Commands() {
		forMan(c)
	}
}
