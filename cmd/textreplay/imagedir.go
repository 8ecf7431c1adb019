// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"iter"
	"strings"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// kcoreFiles are the files of a kcore_dir.
var kcoreFiles = []string{"kcore", "kallsyms", "modules"}

// createKcoreDir begins to write a kcore_dir like that of perf record --kcore, with the
// text, symbols and modules at the view's time. If there is no error, the caller must discard it
// or commit it.
func (m *image) createKcoreDir(r *replay.Replay, view timeline.View, segs []kcore.Segment) (out pendingOutput, err error) {
	d, err := m.outputs.Dir(m.kcoreDir)
	if err != nil {
		return nil, outputError(err)
	}
	defer func() {
		if out == nil {
			d.Discard()
		}
	}()
	class, data := elfForm(r)
	for i, write := range []func(w io.Writer) error{
		func(w io.Writer) error { return kcore.WriteCore(w, r.Machine(), class, data, segs, nil) },
		func(w io.Writer) error { return kcore.WriteKallsyms(w, kallsymsAt(r, view, segs)) },
		func(w io.Writer) error { return kcore.WriteModules(w, r.ModulesAt(view.Time())) },
	} {
		if err := d.WriteFile(kcoreFiles[i], write); err != nil {
			return nil, outputError(err)
		}
	}
	return d, nil
}

// kallsymsAt yields the symbols that kallsyms would have had at the view's
// time.
func kallsymsAt(r *replay.Replay, view timeline.View, segs []kcore.Segment) iter.Seq[kcore.Symbol] {
	return func(yield func(kcore.Symbol) bool) {
		for s := range r.TableSymbols {
			if alive(&s.Symbol, view.Time()) && !yield(kcore.Symbol{Addr: s.Addr, Type: s.Type, Name: s.Name, Module: s.Module}) {
				return
			}
		}
		for s := range dynamicSymbols(r, view, segs) {
			if strings.ContainsAny(s.Name, "\t\n") {
				continue // a name of a damaged record that no line can hold
			}
			// the pseudo-modules of kernel/kallsyms.c
			module := "bpf"
			switch {
			case s.Module == "bpf":
			case strings.HasPrefix(s.Name, "ftrace_"):
				module = "__builtin__ftrace"
			default:
				module = "__builtin__kprobes"
			}
			if !yield(kcore.Symbol{Addr: s.Addr, Type: 't', Name: s.Name, Module: module}) {
				return
			}
		}
	}
}
