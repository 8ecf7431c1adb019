// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/kernelsource"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A debugInfo is the debug information of the vmlinux file, with the range of kernel
// text that it is about.
type debugInfo struct {
	file   *kernelsource.File
	lo, hi uint64
	warn   func(error) // called once, if the information cannot be read
}

// debugInfo opens the debug information of the file that --vmlinux names. It returns nil
// if there is none.
func (a *app) debugInfo(r *replay.Replay) (*debugInfo, error) {
	lo, hi := r.Image.Text()
	if a.vmlinux == "" || lo == 0 {
		return nil, nil
	}
	f, err := kernelsource.Open(a.vmlinux, lo)
	if errors.Is(err, kernelsource.ErrNoDebugInfo) {
		return nil, nil
	}
	if err != nil {
		return nil, inputError(err)
	}
	a.sources = append(a.sources, f)
	warned := false
	return &debugInfo{f, lo, hi, func(err error) {
		if !warned {
			a.warnf("%s: no source lines: %v", a.vmlinux, err)
		}
		warned = true
	}}, nil
}

// frames returns the places in the source of kernel text, the innermost first.
func (d *debugInfo) frames(addr uint64) []kernelsource.Frame {
	if d == nil || addr < d.lo || addr >= d.hi {
		return nil
	}
	frames, err := d.file.Frames(addr)
	if err != nil {
		d.warn(err)
	}
	return frames
}

// sourceLine returns the source of the code at addr: of a BPF program, or of the kernel
// if there is debug information.
func (c *coder) sourceLine(v timeline.View, addr uint64) (replay.SourceLine, bool) {
	if c.r == nil {
		return replay.SourceLine{}, false
	}
	if l, ok := c.r.SourceLine(addr, v.Time()); ok {
		return l, true
	}
	frames := c.debug.frames(addr)
	if len(frames) == 0 {
		return replay.SourceLine{}, false
	}
	f := frames[0]
	return replay.SourceLine{Func: f.Func, File: f.File, Line: uint32(f.Line), Column: uint32(f.Column)}, true
}

// sourceText returns a line of source: "count.bpf.c:11: return add(1);", and where it is
// inlined: "fs/open.c:10 (inlined into do_sys_open, fs/open.c:99)".
func (c *coder) sourceText(l *replay.SourceLine, addr uint64) string {
	text := sourceText(l)
	if l.Program != 0 {
		return text
	}
	for i, f := range c.debug.frames(addr) {
		if i > 0 {
			text += fmt.Sprintf(" (inlined into %s, %s:%d)", f.Func, f.File, f.Line)
		}
	}
	return text
}

// jsonFrame is a function that code is inlined into.
type jsonFrame struct {
	Func   string `json:"func"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"`
}

func (c *coder) inlinedInto(addr uint64) (out []jsonFrame) {
	for i, f := range c.debug.frames(addr) {
		if i > 0 {
			out = append(out, jsonFrame(f))
		}
	}
	return out
}
