// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// symbolizer returns a function that names addresses as of v's time. Modules'
// functions have the module, out-of-line code has the function it belongs to.
func (c *coder) symbolizer(v timeline.View) disasm.Symbolizer {
	return func(addr uint64) (string, uint64, bool) {
		c.names++
		if c.asking {
			c.asked = append(c.asked, addr)
		}
		s, ok := v.Symbol(addr)
		if ok && (s.Dynamic || s.Module != "") {
			return c.nameOf(v, addr), addr, true
		}
		return s.Name, s.Addr, ok
	}
}

// nameOf returns the place of addr with the purpose of the code there:
// "kprobe_optinsn_page+0x7c (serves do_sys_openat2+0x7)".
func (c *coder) nameOf(v timeline.View, addr uint64) string {
	name := placeOf(v, addr).String()
	if s, ok := c.trampoline(v, addr); ok && name != "" {
		name += " (" + trampolineText(v, &s) + ")"
	}
	return name
}

// heading is nameOf with the other names of a function that begins at addr.
func (c *coder) heading(v timeline.View, addr uint64) string {
	name := c.nameOf(v, addr)
	if s, ok := v.Symbol(addr); ok && s.Addr == addr {
		if aliases := v.Aliases(s); len(aliases) > 0 {
			name += " (also " + strings.Join(aliases, ", ") + ")"
		}
	}
	return name
}

// label returns an address with its nameOf.
func (c *coder) label(v timeline.View, addr uint64) string {
	if name := c.nameOf(v, addr); name != "" {
		return labelNamed(addr, name)
	}
	return label(v, addr)
}

func (c *coder) trampoline(v timeline.View, addr uint64) (replay.Trampoline, bool) {
	if c.r == nil {
		return replay.Trampoline{}, false
	}
	return c.r.TrampolineAt(addr, v.Time())
}

// trampolineText describes the purpose of code: "serves do_sys_openat2+0x7",
// "calls function_trace_call".
func trampolineText(v timeline.View, s *replay.Trampoline) string {
	if s.Func != 0 {
		return "calls " + addrText(v, s.Func)
	}
	const most = 3
	var names []string
	for i, p := range s.Places {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(s.Places)-most))
			break
		}
		names = append(names, addrText(v, p))
	}
	return "serves " + strings.Join(names, ", ")
}

// variable returns the name that kallsyms has at exactly addr, or "".
func variable(r *replay.Replay, addr uint64) string {
	if k := r.Kallsyms(); k != nil {
		for _, s := range k.NamesOf(addr) {
			return s.Name
		}
	}
	return ""
}

// addrText returns the place of addr, or addr in hexadecimal if it has no name.
func addrText(v timeline.View, addr uint64) string {
	if name := placeOf(v, addr).String(); name != "" {
		return name
	}
	return hexAddr(addr)
}

// sourceText returns a line of source: "count.bpf.c:11: return add(1);".
func sourceText(l *replay.SourceLine) string {
	text := fmt.Sprintf("%s:%d", l.File, l.Line)
	if code := strings.TrimSpace(l.Text); code != "" {
		text += ": " + code
	}
	return text
}

// jsonPlace is an address with its name.
type jsonPlace struct {
	Addr   string      `json:"addr"`
	Symbol *jsonSymbol `json:"symbol"`
}

// jsonTrampoline describes the purpose of out-of-line code or a BPF trampoline.
type jsonTrampoline struct {
	Kind   string      `json:"kind"`
	Addr   string      `json:"addr"`
	Len    uint64      `json:"len"`
	From   *string     `json:"from"`
	To     *string     `json:"to"`
	Places []jsonPlace `json:"places,omitempty"` // the probed instruction, or what calls the trampoline
	Calls  *jsonPlace  `json:"calls,omitempty"`  // the tracer's function
	Ops    *jsonPlace  `json:"ops,omitempty"`    // and its struct ftrace_ops
}

func trampolineJSON(r *replay.Replay, v timeline.View, s *replay.Trampoline) *jsonTrampoline {
	out := &jsonTrampoline{Kind: s.Kind.String(), Addr: hexAddr(s.Addr), Len: s.Len, From: since(s.From), To: until(s.To)}
	for _, p := range s.Places {
		out.Places = append(out.Places, jsonPlace{hexAddr(p), placeOf(v, p).json()})
	}
	if s.Func != 0 {
		out.Calls = &jsonPlace{hexAddr(s.Func), placeOf(v, s.Func).json()}
	}
	if s.Ops != 0 {
		out.Ops = &jsonPlace{hexAddr(s.Ops), place{name: variable(r, s.Ops)}.json()}
	}
	return out
}

// jsonSource is a line of source, of a BPF program or of the kernel.
type jsonSource struct {
	Program uint32 `json:"program,omitempty"` // id of the BPF program
	Func    string `json:"func,omitempty"`
	File    string `json:"file,omitempty"`
	Line    uint32 `json:"line,omitempty"`
	Column  uint32 `json:"column,omitempty"`
	Text    string `json:"text,omitempty"`
	// InlinedInto are the functions that Func is inlined into, the innermost first.
	InlinedInto []jsonFrame `json:"inlined_into,omitempty"`
}

func sourceJSON(l *replay.SourceLine) *jsonSource {
	return &jsonSource{l.Program, l.Func, l.File, l.Line, l.Column, l.Text, nil}
}

// symbolJSON returns the name of addr with everything known about it.
func (c *coder) symbolJSON(v timeline.View, addr uint64) *jsonSymbol {
	out := placeOf(v, addr).json()
	if out == nil {
		return nil
	}
	if s, ok := v.Symbol(addr); ok {
		out.Aliases = v.Aliases(s)
	}
	if s, ok := c.trampoline(v, addr); ok {
		out.Serves = trampolineJSON(c.r, v, &s)
	}
	if l, ok := c.sourceLine(v, addr); ok {
		out.Source = sourceJSON(&l)
		if l.Program == 0 {
			out.Source.InlinedInto = c.inlinedInto(addr)
		}
	}
	return out
}
