// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/textreplay/textreplay/internal/build"
	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/timeline/replay"
)

// An app is one run of the program.
type app struct {
	stdin  io.Reader
	out    *bufio.Writer // standard output; keeps its first error until the end
	stdout *os.File      // where out goes, nil if that is no file
	stderr io.Writer
	style  style
	pager  *pager

	outputs outfile.Outputs // the files that the run writes
	opened  []opened        // the files that it reads; they stay open until its end
	sources []io.Closer     // files of debug information

	complete bool // all outputs are written, and nothing more is read: see commit

	indexErr error // why the file of --index could not be written

	notesRuns bool // the command reads the pokes again, and may leave out whole runs of them

	// Global flags.
	input      string
	kcore      []string
	copies     []replay.Copy
	kallsyms   string
	vmlinux    string
	modules    string
	windows    string
	hasWindows bool // the file of --windows has some
	noPager    bool
	counters   []string
	formats    string
	guest      guest
	cpus       int
	index      string
	json       bool
	csv        bool // --format csv
	progress   choice
	color      choice
	require    choice
}

// run runs the program with the given arguments and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	code, a := perform(args, stdin, stdout, stderr)
	a.closeAll()
	return code
}

// perform is run, but the inputs may still be open.
func perform(args []string, stdin io.Reader, stdout, stderr io.Writer) (int, *app) {
	a := &app{stdin: stdin, stderr: stderr, pager: &pager{out: stdout}}
	a.out = bufio.NewWriterSize(a.pager, 1<<16)
	root := a.rootCmd(stdout)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.out)
	root.SetErr(stderr)
	if c := commandOf(args, root.PersistentFlags()); c != nil {
		a.addCommand(root, c)
	} else {
		a.addCommands(root)
	}
	setNumbers(root)

	var cmd *cobra.Command
	err := replay.Guard(func() (err error) {
		cmd, err = root.ExecuteC()
		return err
	})
	if changed := a.unchanged(); changed != nil && !a.complete {
		err = changed // the rest of the answers may be wrong and is not printed
	} else if flushed := outputError(a.out.Flush()); flushed != nil && exitCode(err) <= exitBelow {
		err = flushed
	} else if a.indexErr != nil && exitCode(err) <= exitBelow {
		err = a.indexErr
	}
	if a.pager.pipe != nil {
		a.closeAll() // the pager may be read for long
	}
	if failed := a.pager.wait(); failed != nil {
		err = outputError(failed)
	} else if errors.Is(err, errPagerLeft) {
		err = nil // the user has seen enough
	}
	if err == nil && !a.pager.decided && !a.json && emptyResult[cmd.Name()] != "" {
		a.sayf("%s", emptyResult[cmd.Name()])
	}
	if err != nil && !silent(err) {
		a.sayf("%s", message(err))
		if exitCode(err) == exitUsage && !namesFault(err) {
			fmt.Fprintf(stderr, "usage: %s\n", cmd.UseLine())
		}
	}
	return exitCode(err), a
}

// emptyResult is what commands say that print nothing if nothing matches.
var emptyResult = map[string]string{
	"log":     "no change matches",
	"symbols": "no symbol matches",
}

// A command is a command of the program, or a help topic.
type command struct {
	name string
	make func(a *app) *cobra.Command
	// readsOthers is set if the command reads the other commands of the program.
	readsOthers bool
}

// commands returns all commands and help topics, but for those that the library adds.
func commands() []command {
	topic := func(name string, make func() *cobra.Command) command {
		return command{name: name, make: func(*app) *cobra.Command { return make() }}
	}
	return []command{
		{name: "at", make: (*app).atCmd},
		{name: "info", make: (*app).infoCmd},
		{name: "log", make: (*app).logCmd},
		{name: "history", make: (*app).historyCmd},
		{name: "diff", make: (*app).diffCmd},
		{name: "symbols", make: (*app).symbolsCmd},
		{name: "image", make: (*app).imageCmd},
		{name: "verify", make: (*app).verifyCmd},
		{name: "audit", make: (*app).auditCmd},
		{name: "pprof", make: (*app).pprofCmd},
		{name: "web", make: (*app).webCmd},
		{name: "report", make: (*app).reportCmd},
		{name: "perfetto", make: (*app).perfettoCmd},
		{name: "export", make: (*app).exportCmd},
		{name: "trim", make: (*app).trimCmd},
		{name: "oops", make: (*app).oopsCmd},
		{name: "record", make: (*app).recordCmd},
		{name: "man", make: (*app).manCmd, readsOthers: true},
		{name: "probes", make: (*app).probesCmd},
		{name: "version", make: (*app).versionCmd},
		topic("index", indexTopic),
		topic("outputs", outputsTopic),
		topic("times", timesTopic),
		topic("addresses", addressesTopic),
	}
}

// commandOf returns the command that args name, which needs no other command, nil if that is not certain:
// flags that are not among the given ones, those of all commands, may precede it. The flags of a command
// are as many as those of all commands, and most of what a short run of the program does is to make them.
func commandOf(args []string, flags *pflag.FlagSet) *command {
	args, ok := afterFlags(args, flags)
	if !ok || len(args) == 0 {
		return nil
	}
	for _, c := range commands() {
		if c.name == args[0] && !c.readsOthers {
			return &c
		}
	}
	return nil
}

// afterFlags returns what follows the flags and their values at the beginning of args. It reports whether
// they are flags of the given set.
func afterFlags(args []string, flags *pflag.FlagSet) (rest []string, ok bool) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		var f *pflag.Flag
		hasValue := len(args[0]) > 2
		if name, isLong := strings.CutPrefix(args[0], "--"); isLong {
			name, _, hasValue = strings.Cut(name, "=")
			f = flags.Lookup(name)
		} else if len(args[0]) > 1 {
			f = flags.ShorthandLookup(args[0][1:2])
			if f != nil && hasValue && f.NoOptDefVal != "" {
				return nil, false // several flags of one letter
			}
		}
		if f == nil {
			return nil, false
		}
		n := 1
		if !hasValue && f.NoOptDefVal == "" {
			n = 2
		}
		if len(args) < n {
			return nil, false
		}
		args = args[n:]
	}
	return args, true
}

// addCommand adds one command to root, as the only one.
func (a *app) addCommand(root *cobra.Command, c *command) {
	root.AddCommand(c.make(a))
	root.CompletionOptions.DisableDefaultCmd = true
}

// addCommands adds all commands to root, whose output is set, --version, and what shells ask for
// completion.
func (a *app) addCommands(root *cobra.Command) {
	root.Version = build.This().String()
	root.SetVersionTemplate("textreplay {{.Version}}\n")
	for _, c := range commands() {
		root.AddCommand(c.make(a))
	}
	a.setCompletion(root)
	checkShell(root)
}

// rootCmd returns the program's command, without those below it.
func (a *app) rootCmd(stdout io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "textreplay COMMAND",
		Short: "Which bytes of Linux kernel text were at an address at a time",
		Long: `textreplay answers which bytes of Linux kernel text were at an address at a time,
from recordings that perf made with --kcore:

  sudo perf record -a --kcore -e dummy -e module:module_load \
       -e module:module_free -e cpuhp:cpuhp_enter -- sleep 10
  textreplay info                          can kernel text be trusted, and when?
  textreplay log                           what changed, when, and who did it?
  textreplay at do_sys_openat2 50%         which instructions were there then?

Every answer says how far it can be trusted. The recording proves bytes that are
known; every other answer gives a reason.

Exit codes: 0 answered; 1 answered, but a byte does not meet --require, or a
comparison found a difference; 2 usage, an unknown or ambiguous name, or a time that
cannot be converted; 3 the input cannot be read; 4 the output cannot be written.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			a.style.on = a.color.value == "always" ||
				a.color.value == "auto" && os.Getenv("NO_COLOR") == "" && isTerminal(stdout)
			a.page(cmd)
			if err := cmp.Or(checkInherited(cmd), checkFlags(cmd), checkArgs(cmd, args)); err != nil {
				return err
			}
			const mostCPUs = 1 << 16
			if cmd.Flags().Changed("cpus") && (a.cpus < 1 || a.cpus > mostCPUs) {
				return usagef("--cpus %d: must be from 1 to %d", a.cpus, mostCPUs)
			}
			if err := a.kcores(); err != nil {
				return err
			}
			a.input = pathname.Plain(a.input)
			return a.protect(stdout)
		},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return usagef("no command given; %q lists them", "textreplay help")
		},
	}
	root.SetFlagErrorFunc(flagError)

	f := root.PersistentFlags()
	f.StringVarP(&a.input, "input", "i", defaultInput, "the recording `REC`: a file, a directory, or - for a stream on standard input")
	f.StringArrayVar(&a.kcore, "kcore", nil, "use the kcore_dir at `DIR`, which proves nothing without a time; DIR@TIME adds a snapshot taken at TIME, or at some time in A..B (repeatable)")
	f.StringVar(&a.kallsyms, "kallsyms", "", "use this copy of /proc/kallsyms (`FILE`) instead of kcore_dir's")
	f.StringVar(&a.modules, "modules", "", "use this copy of /proc/modules (`FILE`) instead of kcore_dir's")
	f.StringVar(&a.vmlinux, "vmlinux", "", "take text that was not recorded from this kernel ELF `FILE`; it is at most unconfirmed")
	f.StringVar(&a.windows, "windows", "", "read explicit windows from this `FILE`: JSON lines, one before and one after each change, with the fields flag (before or after), time (ns), addr, before and after (hex bytes); docs/files.md")
	f.StringArrayVar(&a.counters, "probe-counters", nil, "read the hit counters of probes from this `FILE` (repeatable); the default is the files kprobe_profile.* in and next to the recording's directory")
	f.StringVar(&a.formats, "formats", "", "read the formats of tracepoints from this `FILE` if the recording has none yet; the default is tracing_formats in the recording's directory (docs/probes.md)")
	a.guestFlagOf(root)
	f.IntVar(&a.cpus, "cpus", 0, "the machine has `N` CPUs, all online; for a recording without that number (perf was killed, or the file was cut)")
	f.StringVar(&a.index, "index", "auto", "the saved index: auto, never, or a `FILE` (textreplay help index)")
	f.BoolVar(&a.json, "json", false, "print JSON: one object a line, addresses as \"0x...\", times as decimal nanoseconds")
	a.choice(root, &a.progress, "progress", "show a progress bar on standard error", "auto", "auto", "always", "never")
	f.BoolVar(&a.noPager, "no-pager", false, "do not show long output page by page (TEXTREPLAY_PAGER and PAGER name the pager)")
	a.choice(root, &a.color, "color", "use colors; auto respects NO_COLOR", "auto", "auto", "always", "never")
	a.choice(root, &a.require, "require", "the least standing that an answer must have (default known for hex, raw and image; any for text and JSON)", "",
		"known", "unconfirmed", "any")

	a.setHelp(root)
	return root
}

// A choice is the value of a flag that takes one of a few words.
type choice struct {
	value   string
	choices []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.choices, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.choices, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.choices, ", "))
	}
	c.value = s
	return nil
}

// words is the value of a flag that takes a comma-separated list of a few
// words.
type words struct {
	given   []string
	choices []string
}

func (w *words) String() string { return strings.Join(w.given, ",") }
func (w *words) Type() string   { return strings.Join(w.choices, ",") }

func (w *words) Set(s string) error {
	for _, x := range strings.Split(s, ",") {
		if !slices.Contains(w.choices, x) {
			return fmt.Errorf("%q is not one of %s", x, strings.Join(w.choices, ", "))
		}
		w.given = append(w.given, x)
	}
	return nil
}

// has reports whether a word was given. If none was given, it reports true for
// all.
func (w *words) has(word string) bool { return len(w.given) == 0 || slices.Contains(w.given, word) }

// words adds a flag for w to cmd.
func (a *app) words(cmd *cobra.Command, w *words, name, usage string, choices ...string) {
	w.choices = choices
	cmd.Flags().Var(w, name, usage+": "+strings.Join(choices, ", "))
	completeFrom(cmd, name, choices)
}

// choice adds a flag for c to cmd and all of its commands.
func (a *app) choice(cmd *cobra.Command, c *choice, name, usage, value string, choices ...string) {
	*c = choice{value, choices}
	cmd.PersistentFlags().Var(c, name, usage)
	completeFrom(cmd, name, choices)
}

// completeFrom lets shells complete the flag of this name from a few words.
func completeFrom(cmd *cobra.Command, name string, choices []string) {
	// The error is that the flag does not exist, or has a completion already.
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}
