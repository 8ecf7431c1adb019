// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The kinds of symbols.
const (
	symKernel = "kernel"
	symModule = "module"
	symBPF    = "bpf"
	symOOL    = "ool"
)

// listedSymbol is a symbol with its kind.
type listedSymbol struct {
	timeline.Symbol
	kind    string
	aliasOf string // the name that addresses here are printed with; "" if it is this one
	// As of one time of its lifetime: the purpose of a trampoline, and the
	// first source line of a BPF program.
	asOf       uint64
	trampoline *replay.Trampoline
	source     *replay.SourceLine
}

// describe finds the purpose or the source of a dynamic symbol.
func (s *listedSymbol) describe(r *replay.Replay) {
	if !s.Dynamic {
		return
	}
	// Without --at, look at its last time: a trampoline's code may be written
	// after it is registered.
	if s.asOf == 0 {
		s.asOf = min(s.To-1, r.Report.Horizon)
	}
	s.asOf = max(s.asOf, s.From)
	// A page of slots has many purposes.
	if svc, ok := r.TrampolineAt(s.Addr, s.asOf); ok && (svc.Func != 0 || svc.Kind == replay.BPFTrampoline) {
		s.trampoline = &svc
	}
	if l, ok := r.FirstSourceLine(s.Addr, s.asOf); ok {
		s.source = &l
	}
}

func (a *app) symbolsCmd() *cobra.Command {
	var at string
	var kinds words
	var format choice
	cmd := &cobra.Command{
		Use:   "symbols [flags]",
		Short: "List names with addresses, sizes and lifetimes",
		Long: `symbols lists the names of kernel text by address: address, size in bytes, kind and
name, and the name's lifetime if that is not the whole recording. Without --at it
lists the names of all times, so one address can have several. If one function has
several names, addresses are printed with one of them and the others are marked as
its aliases; every name finds the function.

Names of the kernel and of modules come from kallsyms, which perf read when the
recording began. Names of modules that were loaded later come only from further
snapshots (--kcore DIR@TIME). A module's names end when the recording has its unload
or a further snapshot no longer has it. BPF programs and trampolines (bpf) and
out-of-line code (ool) have their lifetimes from KSYMBOL records. A trampoline is
listed with its purpose, and a BPF program with its source line, if they are known.`,
		Example: `  textreplay symbols --kind bpf,ool
  textreplay symbols --at 12.345678901 --json | jq -r .name`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.loadAndWarn()
			if err != nil {
				return err
			}
			list, err := symbolList(r, at, kinds)
			if err != nil {
				return err
			}
			return outputError(a.writeSymbols(r, list))
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "only symbols that exist at this `TIME`")
	a.formatFlag(cmd, &format)
	a.words(cmd, &kinds, "kind", "only these `KINDS`", symKernel, symModule, symBPF, symOOL)
	return cmd
}

// symbolList returns the symbols of some kinds, of all times or of the time at, sorted by
// address and time.
func symbolList(r *replay.Replay, at string, kinds words) ([]listedSymbol, error) {
	var times replay.Times
	if at != "" {
		var err error
		if times, err = r.ParseTime(at); err != nil {
			return nil, err
		}
	}
	var list []listedSymbol
	add := func(s listedSymbol) {
		// If the time is an interval, all symbols that existed in it.
		if kinds.has(s.kind) && (at == "" || s.From <= times.To && (times.From < s.To || s.To == timeline.MaxTime)) {
			s.asOf = times.From
			list = append(list, s)
		}
	}
	for s := range r.Image.Symbols {
		if s.Module == "bpf" {
			add(listedSymbol{Symbol: s, kind: symBPF})
		} else {
			add(listedSymbol{Symbol: s, kind: symOOL})
		}
	}
	if kinds.has(symKernel) || kinds.has(symModule) { // otherwise kallsyms is not read
		for s := range r.TableFunctions {
			if s.Addr == 0 {
				continue
			}
			kind := symKernel
			if s.Module != "" {
				kind = symModule
			}
			add(listedSymbol{Symbol: s.Symbol, kind: kind, aliasOf: s.AliasOf})
		}
	}
	slices.SortStableFunc(list, func(a, b listedSymbol) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.From, b.From))
	})
	return list, nil
}

// binding returns the ELF binding of a function by its type in kallsyms. ok is
// false if it is not a function.
func binding(typ byte) (bind elf.SymBind, ok bool) {
	switch typ {
	case 't':
		return elf.STB_LOCAL, true
	case 'T':
		return elf.STB_GLOBAL, true
	case 'w', 'W':
		return elf.STB_WEAK, true
	}
	return 0, false
}

type jsonListed struct {
	Name   string  `json:"name"`
	Module *string `json:"module"`
	Kind   string  `json:"kind"`
	Addr   string  `json:"addr"`
	Size   *uint64 `json:"size"`
	From   *string `json:"from"`
	To     *string `json:"to"`
	// The name that this function is printed with, if it is not this one.
	AliasOf string `json:"alias_of,omitempty"`
	// The purpose of a trampoline, and the first source line of a BPF program.
	Serves *jsonTrampoline `json:"serves,omitempty"`
	Source *jsonSource     `json:"source,omitempty"`
}

func (a *app) writeSymbols(r *replay.Replay, list []listedSymbol) error {
	for i := range list {
		list[i].describe(r)
	}
	if a.json || a.csv {
		enc := a.rows("addr", "size", "kind", "name", "module", "from", "to", "alias_of")
		if table, ok := enc.(*csvEncoder); ok {
			if err := table.begin(); err != nil {
				return err
			}
		}
		for i := range list {
			s := &list[i]
			out := jsonListed{Name: s.Name, Kind: s.kind, Addr: hexAddr(s.Addr), From: since(s.From), To: until(s.To), AliasOf: s.aliasOf, Module: nonEmpty(s.Module)}
			if s.Size != 0 {
				out.Size = &s.Size
			}
			if s.trampoline != nil {
				out.Serves = trampolineJSON(r, r.Image.At(s.asOf), s.trampoline)
			}
			if s.source != nil {
				out.Source = sourceJSON(s.source)
			}
			if err := enc.Encode(out); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range list {
		s := &list[i]
		size := "?"
		if s.Size != 0 {
			size = thousands(s.Size)
		}
		more := ""
		switch {
		case s.aliasOf != "":
			more = " (alias of " + s.aliasOf + ")"
		case s.trampoline != nil:
			more = trampolineText(r.Image.At(s.asOf), s.trampoline)
			if ops := variable(r, s.trampoline.Ops); ops != "" {
				more += " for " + ops
			}
			more = " (" + more + ")"
		case s.source != nil && s.source.File != "":
			more = fmt.Sprintf(" (%s at %s:%d)", s.source.Func, s.source.File, s.source.Line)
		}
		_, err := fmt.Fprintf(a.out, "%016x %9s  %-6s  %s%s%s\n", s.Addr, size, s.kind, place{name: s.Name, module: s.Module}, more, lifetime(&s.Symbol))
		if err != nil {
			return err
		}
	}
	return nil
}
