// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"
)

// Kallsyms returns /proc/kallsyms.
func (k *Kernel) Kallsyms() string {
	var b strings.Builder
	line := func(addr uint64, kind byte, name, module string) {
		fmt.Fprintf(&b, "%016x %c %s", addr, kind, name)
		if module != "" {
			fmt.Fprintf(&b, "\t[%s]", module)
		}
		b.WriteByte('\n')
	}
	line(k.Text.Lo, 'T', "_text", "")
	line(k.Text.Lo, 'T', "_stext", "")
	for _, f := range k.Text.Funcs {
		line(f.Addr, 'T', f.Name, "")
	}
	if len(k.calls) > 0 {
		line(k.calls[0].trampoline, 'T', "__static_call_text_start", "")
		line(k.Text.Hi, 'T', "__static_call_text_end", "")
	}
	line(k.Text.Hi, 'T', "_etext", "")
	line(k.DataEnd-PageSize, 'D', "_sdata", "")
	line(k.DataEnd, 'D', "_edata", "")
	for _, m := range k.modules {
		for _, f := range m.text.Funcs {
			line(f.Addr, 't', f.Name, m.file.name)
		}
		line(m.data, 'd', m.file.name+"_data", m.file.name)
		if m.init != 0 {
			line(m.init, 't', "init_module", m.file.name)
			line(m.init+16, 't', m.file.name+"_init", m.file.name)
		}
	}
	for _, tr := range k.tracers {
		if tr.life != nil {
			line(tr.page, 't', "ftrace_trampoline", "__builtin__ftrace")
		}
	}
	for kind := range k.slots {
		for _, page := range k.slots[kind].pages {
			line(page.life.Addr, 't', page.life.Name, "__builtin__kprobes")
		}
	}
	for _, g := range k.programs {
		for _, f := range g.Funcs {
			if f.Life.From != forever {
				line(f.Life.Addr, 't', f.Life.Name, "bpf")
			}
		}
	}
	for _, m := range k.images() {
		line(m.life.Addr, 't', m.life.Name, "bpf")
	}
	return b.String()
}

// Modules returns /proc/modules.
func (k *Kernel) Modules() string {
	var b strings.Builder
	for i := len(k.modules) - 1; i >= 0; i-- {
		m := k.modules[i]
		fmt.Fprintf(&b, "%s %d 0 - %s 0x%016x\n", m.file.name, m.size(), m.state, m.text.Lo)
	}
	return b.String()
}

// A ModuleMap is what perf makes a MMAP record of.
type ModuleMap struct {
	Name      string
	Addr, Len uint64
}

// ModuleMaps returns the modules that are loaded.
func (k *Kernel) ModuleMaps() (maps []ModuleMap) {
	for _, m := range k.modules {
		maps = append(maps, ModuleMap{m.file.name, m.text.Lo, uint64(m.size())})
	}
	return maps
}

// Images returns the BPF images that kallsyms lists.
func (k *Kernel) Images() (lives []*Life) {
	for _, m := range k.images() {
		lives = append(lives, m.life)
	}
	return lives
}

func (k *Kernel) images() (images []*image) {
	for _, tr := range k.trampolines {
		images = append(images, tr.image)
	}
	if k.dispatcher != nil {
		images = append(images, k.dispatcher.image)
	}
	return images
}
