// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// writeKcoreDir writes a kcore_dir as perf record --kcore makes one, but of the
// view's time: text, symbols and modules.
func (m *image) writeKcoreDir(r *timeline.Replay, view timeline.View, segs []kcore.Segment) error {
	if err := os.MkdirAll(m.kcoreDir, 0o777); err != nil {
		return outputError(err)
	}
	class, data := elfForm(r)
	err := m.writeFile(filepath.Join(m.kcoreDir, "kcore"), func(w io.Writer) error {
		return kcore.WriteCore(w, r.Machine(), class, data, segs, nil)
	})
	if err != nil {
		return err
	}
	gone := goneModules(view)
	err = m.writeFile(filepath.Join(m.kcoreDir, "kallsyms"), func(w io.Writer) error {
		return kcore.WriteKallsyms(w, kallsymsAt(r, view, segs, gone))
	})
	if err != nil {
		return err
	}
	return m.writeFile(filepath.Join(m.kcoreDir, "modules"), func(w io.Writer) error {
		var mods []kcore.Module
		if r.Snapshot != nil {
			for _, x := range r.Snapshot.Modules {
				if !gone[x.Name] {
					mods = append(mods, x)
				}
			}
		}
		return kcore.WriteModules(w, mods)
	})
}

// goneModules names the modules of the snapshot that are not there at the
// view's time.
func goneModules(view timeline.View) map[string]bool {
	gone := make(map[string]bool)
	for s := range view.Image().Modules {
		if !alive(&s, view.Time()) {
			gone[s.Name] = true
		}
	}
	return gone
}

// kallsymsAt yields the symbols of the snapshot that stand for the same as
// then, and those of the code that came since.
func kallsymsAt(r *timeline.Replay, view timeline.View, segs []kcore.Segment, gone map[string]bool) iter.Seq[kcore.Symbol] {
	return func(yield func(kcore.Symbol) bool) {
		if k := r.Kallsyms(); k != nil {
			for _, s := range k.All() {
				if s.Module == "bpf" || strings.HasPrefix(s.Module, "__builtin__") || gone[s.Module] {
					continue
				}
				if !yield(s) {
					return
				}
			}
		}
		for s := range dynamicSymbols(r, view, segs) {
			// The names that the kernel shows them under (kernel/kallsyms.c).
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
