// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/pprofexport"
	"github.com/textreplay/textreplay/timeline/replay"
)

// mostCompletions limits what is offered for a word: shells print it all.
const mostCompletions = 500

// largestToComplete is the size in bytes of the largest recording that is read for
// completion. A shell waits meanwhile.
const largestToComplete = 64 << 20

// setCompletion lets shells complete what the recording has: symbols, events, and the
// times of changes.
func (a *app) setCompletion(root *cobra.Command) {
	type complete = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)
	none := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	symbols := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeSymbols(word), cobra.ShellCompDirectiveNoFileComp
	}
	times := func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeTimes("", word), cobra.ShellCompDirectiveNoFileComp
	}
	byFlag := map[string]complete{
		"symbol": symbols,
		"addr":   symbols,
		"at":     times,
		"time":   times,
		"event": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.completeEvents(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	byCommand := map[string]complete{
		"at": func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return symbols(cmd, args, word)
			case 1:
				return a.completeTimes(args[0], word), cobra.ShellCompDirectiveNoFileComp
			}
			return none(cmd, args, word)
		},
		"history": func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return symbols(cmd, args, word)
			}
			return none(cmd, args, word)
		},
		"diff": times,
		"info": none, "log": none, "symbols": none, "verify": none,
	}
	for _, cmd := range root.Commands() {
		if f := byCommand[cmd.Name()]; f != nil && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = f
		}
		for name, f := range byFlag {
			if cmd.Flags().Lookup(name) == nil {
				continue
			}
			if _, has := cmd.GetFlagCompletionFunc(name); !has {
				if err := cmd.RegisterFlagCompletionFunc(name, f); err != nil {
					panic(err)
				}
			}
		}
	}
}

// completeSymbols returns the functions that begin with word, by kallsyms alone: reading
// the recording would take too long. BPF programs are in it as of the copy's time.
func (a *app) completeSymbols(word string) []string {
	path := a.kallsyms
	if path == "" {
		dir := filepath.Join(a.input, "kcore_dir")
		if len(a.kcore) > 0 {
			dir, _, _ = cutTime(a.kcore[0])
		}
		path = filepath.Join(dir, "kallsyms")
	}
	text, err := readFileUpTo(path, largestToComplete)
	if err != nil {
		return nil
	}
	k, err := kcore.ParseKallsyms(text)
	if err != nil {
		return nil
	}
	module, name, inModule := strings.Cut(word, ":")
	if !inModule {
		name = word
	}
	var names []string
	for _, s := range k.All() {
		if _, function := binding(s.Type); !function || !strings.HasPrefix(s.Name, name) || inModule && s.Module != module {
			continue
		}
		if inModule {
			names = append(names, module+":"+s.Name)
		} else {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), mostCompletions)]
}

// readFileUpTo reads a file that has at most this many bytes.
func readFileUpTo(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = errors.New("the file is too large")
	}
	return text, err
}

// completeEvents returns the names of the recording's events.
func (a *app) completeEvents() []string {
	rec, err := perfdata.Open(a.input)
	if err != nil {
		return nil
	}
	defer rec.Close()
	var names []string
	for _, name := range pprofexport.EventNames(rec) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// completeTimes returns the times at which something changes, at addr if it is not "",
// that begin with word.
func (a *app) completeTimes(addr, word string) []string {
	offered := []string{"start\tthe first record", "end\tthe recording is complete up to here", "50%\tthe middle"}
	// The part after the separator of A,B or A..B.
	i := max(strings.LastIndex(word, ",")+1, strings.LastIndex(word, "..")+2)
	if !strings.Contains(word, ",") && !strings.Contains(word, "..") {
		i = 0
	}
	before, last := word[:i], word[i:]
	if a.input != "-" && recordingSize(a.input) <= largestToComplete && a.kcores() == nil {
		if r, err := a.loadFor(addr, maxInsn); err == nil {
			offered = append(offered, changeTimes(r, addr, last)...)
		}
	}
	offered = slices.DeleteFunc(offered, func(s string) bool { return !strings.HasPrefix(s, last) })
	for i := range offered {
		offered[i] = before + offered[i]
	}
	return offered
}

// changeTimes returns times of changes that begin with word, each with what changes.
func changeTimes(r *replay.Replay, addr, word string) []string {
	var lo uint64
	if addr != "" {
		var err error
		if lo, err = r.ParseAddr(addr, r.Report.First); err != nil {
			return nil
		}
	}
	var out []string
	for c := range r.Changes() {
		if len(out) == mostCompletions {
			break
		}
		at := replay.Seconds(c.Time)
		if c.Time == 0 || !strings.HasPrefix(at, word) {
			continue
		}
		var what string
		switch {
		case c.Poke != nil:
			n := uint64(max(len(c.Poke.Old), len(c.Poke.New)))
			if addr != "" && (c.Poke.Addr >= lo+maxInsn || c.Poke.Addr+n <= lo) {
				continue
			}
			what = addrText(r.Image.At(c.Time), c.Poke.Addr)
		case addr != "":
			continue
		case c.KSymbol != nil:
			what = string(c.KSymbol.Name)
		default:
			continue
		}
		out = append(out, fmt.Sprintf("%s\t%s", at, what))
	}
	return slices.Compact(out)
}
