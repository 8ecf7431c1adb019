// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/textreplay/textreplay/internal/build"
	"github.com/textreplay/textreplay/internal/outfile"
)

func (a *app) manCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages",
		Long: `man writes a man page for each command and each topic of help, in section 1, to a
directory. It creates the directory if needed.`,
		Example: `  textreplay man /usr/local/share/man/man1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want a directory, got %s", count(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDir("man", args[0]); err != nil {
				return err
			}
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
			if err := writeMan(d, cmd.Root()); err != nil {
				return outputError(err)
			}
			return outputError(d.Commit())
		},
	}
}

// writeMan writes the pages of cmd and of the commands and topics below it.
func writeMan(d *outfile.Dir, cmd *cobra.Command) error {
	err := d.WriteFile(manName(cmd)+".1", func(w io.Writer) error {
		b := bufio.NewWriter(w)
		manPage(b, cmd)
		return b.Flush()
	})
	for _, c := range cmd.Commands() {
		if err == nil && hasManPage(c) {
			err = writeMan(d, c)
		}
	}
	return err
}

func hasManPage(cmd *cobra.Command) bool {
	return cmd.IsAvailableCommand() || cmd.IsAdditionalHelpTopicCommand()
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage writes the page of a command in the language of man(7).
//
// The library's own pages (cobra/doc) lack the names of options' values and the topics.
func manPage(w io.Writer, cmd *cobra.Command) {
	name := manName(cmd)
	fmt.Fprintf(w, ".TH \"%s\" \"1\" \"%s\" \"textreplay\" \"textreplay manual\"\n", strings.ToUpper(name), buildMonth())
	fmt.Fprintf(w, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	topic := cmd.IsAdditionalHelpTopicCommand()
	if !topic {
		fmt.Fprintf(w, ".SH SYNOPSIS\n\\fB%s\\fP\n", roff(cmd.UseLine()))
	}
	fmt.Fprint(w, ".SH DESCRIPTION\n")
	manText(w, cmd.Long)
	if !topic {
		cmd.InitDefaultHelpFlag()
		manFlags(w, "OPTIONS", cmd.NonInheritedFlags())
		manFlags(w, "OPTIONS OF ALL COMMANDS", inheritedFlags(cmd))
	}
	if cmd.Example != "" {
		fmt.Fprint(w, ".SH EXAMPLES\n")
		manText(w, cmd.Example)
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, c := range cmd.Root().Commands() {
		if hasManPage(c) && (!cmd.HasParent() || c.IsAdditionalHelpTopicCommand()) && c != cmd {
			also = append(also, manName(c))
		}
	}
	slices.Sort(also)
	fmt.Fprint(w, ".SH SEE ALSO\n")
	for i, page := range also {
		comma := ","
		if i == len(also)-1 {
			comma = ""
		}
		fmt.Fprintf(w, "\\fB%s\\fP(1)%s\n", roff(page), comma)
	}
}

// manText writes paragraphs. Lines that begin with two spaces keep their form.
func manText(w io.Writer, text string) {
	literal := false
	for i, line := range strings.Split(text, "\n") {
		keep := strings.HasPrefix(line, "  ") || literal && line == ""
		switch {
		case keep && !literal:
			fmt.Fprint(w, ".PP\n.nf\n")
		case !keep && literal:
			fmt.Fprint(w, ".fi\n.PP\n")
		case line == "" || i == 0:
			fmt.Fprint(w, ".PP\n")
		}
		if literal = keep; line == "" && !literal {
			continue
		}
		fmt.Fprintln(w, roff(line))
	}
	if literal {
		fmt.Fprint(w, ".fi\n")
	}
}

// manFlags writes a section of options with the names of their values.
func manFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(w, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		names := "\\fB" + roff("--"+f.Name) + "\\fP"
		if f.Shorthand != "" {
			names = "\\fB" + roff("-"+f.Shorthand) + "\\fP, " + names
		}
		if value != "" {
			names += " \\fI" + roff(value) + "\\fP"
		}
		switch f.DefValue {
		case "", "0", "false", "[]", "0s":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, ".TP\n%s\n%s\n", names, roff(usage))
	})
}

// roff escapes a line of text.
func roff(s string) string {
	s = strings.NewReplacer("\\", "\\e", "-", "\\-", "'", "\\(aq", "^", "\\(ha", "~", "\\(ti").Replace(s)
	if strings.HasPrefix(s, ".") {
		s = "\\&" + s
	}
	return s
}

// buildMonth returns the month of the commit that the program was built from, so that
// the same program writes the same pages; "" if the build does not record it.
func buildMonth() string {
	at := build.This().Time
	if at == nil {
		return ""
	}
	t, err := time.Parse(time.RFC3339, *at)
	if err != nil {
		return ""
	}
	return t.Format("Jan 2006")
}
