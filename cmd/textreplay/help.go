// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknownCommand is the error of a command or a help topic that does not exist.
func unknownCommand(root *cobra.Command, name string) error {
	// The library suggests no topics.
	all := &cobra.Command{SuggestionsMinimumDistance: min(2, len(name)/2)}
	for _, c := range root.Commands() {
		if c.Name() == name {
			return usagef("-- comes before the command %s; write it after it", name)
		}
		if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			all.AddCommand(&cobra.Command{Use: c.Name(), Run: func(*cobra.Command, []string) {}})
		}
	}
	if similar := all.SuggestionsFor(name); name != "" && len(similar) > 0 { // every name begins with ""
		return usagef("unknown command %q; did you mean %s?", name, strings.Join(similar, " or "))
	}
	return usagef("unknown command %q; %q lists them", name, "textreplay help")
}

// helpWidth is how many columns help has at most.
const helpWidth = 100

// usageTemplate is what help has after the text of a command.
const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{wrapped .LocalFlags}}{{end}}{{with inherited .}}{{if .HasAvailableFlags}}

Flags of all commands:
{{wrapped .}}{{end}}{{end}}{{if .HasHelpSubCommands}}

Help topics:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{$.CommandPath}} help {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} COMMAND --help" for more about a command.{{end}}
`

// readsNothing are the commands that do not read a recording, with those flags of all
// commands that they take.
var readsNothing = map[string][]string{
	"completion":            nil,
	"completion bash":       nil,
	"completion fish":       nil,
	"completion powershell": nil,
	"completion zsh":        nil,
	"man":                   nil,
	"probes":                {"json", "kallsyms", "kcore"},
	"record":                nil,
	"version":               {"json"},
}

// meansNothing are the commands that read a recording, with those flags of all commands that mean nothing to
// them: --require to those that answer with no bytes, --json to a server.
var meansNothing = map[string][]string{
	"audit":    {"require"},
	"export":   {"require"},
	"info":     {"require"},
	"log":      {"require"},
	"perfetto": {"require"},
	"pprof":    {"require"},
	"report":   {"require"},
	"symbols":  {"require"},
	"trim":     {"require"},
	"verify":   {"require"},
	"web":      {"require", "json"},
}

// nameOf returns the name of a command behind that of the program.
func nameOf(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}

// takesInherited reports whether a flag of all commands means something to cmd.
func takesInherited(cmd *cobra.Command, flag string) bool {
	if takes, found := readsNothing[nameOf(cmd)]; found {
		return slices.Contains(takes, flag)
	}
	return !slices.Contains(meansNothing[nameOf(cmd)], flag)
}

// inheritedFlags returns the flags of all commands that cmd takes.
func inheritedFlags(cmd *cobra.Command) *pflag.FlagSet {
	flags := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if takesInherited(cmd, f.Name) {
			flags.AddFlag(f)
		}
	})
	return flags
}

// checkInherited returns an error if a flag was given that means nothing to cmd. How output
// is shown may be set for all commands.
func checkInherited(cmd *cobra.Command) (err error) {
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if err == nil && f.Changed && !takesInherited(cmd, f.Name) && !slices.Contains([]string{"color", "no-pager", "progress"}, f.Name) {
			err = usagef("%s takes no --%s", nameOf(cmd), f.Name)
		}
	})
	return err
}

// setHelp sets how root and its commands print help: with a pager, lines of at most
// helpWidth columns, and an error for a topic that does not exist.
func (a *app) setHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("wrapped", func(f *pflag.FlagSet) string {
		return strings.TrimRight(f.FlagUsagesWrapped(helpWidth), "\n ")
	})
	cobra.AddTemplateFunc("inherited", inheritedFlags)
	root.SetUsageTemplate(usageTemplate)

	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		a.pager.enabled = !a.noPager
		show(cmd, args)
	})
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND or TOPIC]",
		Short: "Help about a command or a topic",
		Long:  "help prints the help of a command, or a topic such as times and addresses.",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				for _, c := range cmd.Root().Commands() {
					if c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
						names = append(names, c.Name()+"\t"+c.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 || topic == cmd.Root() && len(args) > 0 {
				return unknownCommand(cmd.Root(), strings.Join(args, " "))
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	})
}

// checkShell makes "completion SHELL" fail for a shell that is not known. The library
// adds that command when the output is set.
func checkShell(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Use, c.Short = "completion SHELL", "Write the completion script of a shell"
			c.Long = `completion writes a script that lets a shell complete commands, flags, and what the
recording has: names, times of changes, events, guests. The help of each shell says
where to put the script.`
			c.Example = `  textreplay completion bash > /etc/bash_completion.d/textreplay`
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return usagef("want a shell: bash, zsh, fish or powershell")
				}
				return usagef("no completion for %q: bash, zsh, fish or powershell", args[0])
			}
		}
	}
}

// paged are the commands whose text is shown in a pager.
var paged = []string{"at", "audit", "diff", "history", "info", "log", "oops", "symbols", "verify", "help"}

// page decides whether cmd's output is shown in a pager.
func (a *app) page(cmd *cobra.Command) {
	stdin, _ := cmd.Flags().GetBool("stdin") // each answer must be seen before the next question
	format := cmd.Flags().Lookup("format")
	a.pager.raw = format != nil && format.Value.String() == "raw"
	a.pager.enabled = !a.noPager && slices.Contains(paged, cmd.Name()) && !stdin && !a.pager.raw
}

// A command without a Run is a help topic: "textreplay help TOPIC" prints it.

func timesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "times",
		Short: "How times are written",
		Long: `Times are those of the recording's clock, which "textreplay info" names:

  12.345678901          seconds, as perf script --ns prints them
  12.345678             with one to eight digits behind the point: the whole interval
                        of that width; if a change is in it, both sides are shown
  12                    without a point: that second's beginning, exactly
  12.5s                 seconds, exactly; other units are ns, us, ms, m and h: 1m30s;
                        a part of a nanosecond is refused
  +1.5s                 since the first record
  50%                   between the first record and the newest one
  start                 the first record
  end                   the horizon: the recording is complete up to this time
  end-1s, 50%+2ms       before or after another time
  tsc:0x1a2b3c4d5e      a counter value (TSC, CNTVCT), if the recording uses perf's
                        own clock and has a TIME_CONV record
  2026-01-02T15:04:05.123Z, 2026-01-02T16:04:05+01:00
                        wall-clock time with its zone, if the recording has
                        CLOCK_DATA (perf record -k CLOCK_MONOTONIC); wall: may
                        precede it
  @1767366245.123       wall-clock time in seconds since 1970, likewise
  11.116404:, "[   11.116404]"
                        seconds as perf script and dmesg print them; dmesg's clock
                        may differ from the recording's
  A..B                  from A to B, where a command answers for an interval: at,
                        symbols, verify and oops; and of --kcore DIR@A..B

At the exact time of a change, the answer has the new bytes. Options that take A,B
mean the half-open interval from A up to but not including B; either may be empty.`,
	}
}

func addressesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "addresses",
		Short: "How addresses are written",
		Long: `Addresses are those of the running kernel:

  0xffffffff81000000    hexadecimal; with sixteen digits the 0x is optional
  vfs_read              a symbol, as it is at the asked time
  vfs_read+0x10         with an offset, decimal or 0x
  vfs_read+0x10/0x2a0   as the kernel prints it, with the function's size: it
                        chooses between functions of one name, and a size that the
                        function does not have is an error
  virtio_blk:virtblk_done
                        a symbol of one module
  "virtblk_done+0x10/0x90 [virtio_blk]"
                        likewise, as the kernel prints it; a build id may follow the
                        module's name
  bpf_prog_0123456789abcdef_name
                        a BPF program; also trampolines and out-of-line pages

If a name has several addresses, the error lists them: ask again with the module's
name, the size or the address. The filter --symbol of log, diff and trim
takes all of them; [MODULE:]NAME takes those of one module. If there is no such name,
the error has similar ones.
Names come from kcore_dir's kallsyms (or --kallsyms) and from the recording's KSYMBOL
records, which also say when BPF programs and out-of-line code existed.`,
	}
}

func outputsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "outputs",
		Short: "How files are written, and who can read them",
		Long: `An output (-o FILE, --unknown FILE, --kcore-dir DIR, --index FILE, man DIR) is
refused, with exit code 2, if it is an input of the same command or is inside an
input directory, under any name.

textreplay writes a temporary file in the same directory and renames it when it is
complete. If writing fails or a signal ends the program, the temporary file is
removed and an existing file stays as it was. Pipes, devices and standard output
(- or /dev/stdout) are written directly.

The group and others can read an output only if they can read every input. A
recording that only its owner can read, by its own mode or by that of its
directory, makes outputs that only their owner can read. Everyone can read man pages.

If standard output is a terminal, text is shown in a pager: the command in
TEXTREPLAY_PAGER, else that in PAGER, else less, with LESS=FRX unless LESS is set. cat
or an empty value means none, as does --no-pager. The exit code is the command's, or 0
if you leave the pager before all is printed.`,
	}
}
