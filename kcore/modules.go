// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Module is a line of /proc/modules, as m_show writes it
// (kernel/module/procfs.c).
type Module struct {
	Name string
	// Addr is where the module's core area begins, 0 if the reader of
	// /proc/modules was not allowed to see addresses (kptr_restrict).
	Addr uint64
	// Size is the module's size in bytes. Since Linux 6.4 a module has several
	// memory areas and Size is their sum, so Addr+Size is not its end.
	Size   uint64
	Refs   int      // reference count; -1 where the kernel cannot unload modules
	UsedBy []string // modules that use this one; "[permanent]" for one that cannot be unloaded
	State  string   // "Live", "Loading" or "Unloading"
	Taints string   // letters of the taint flags, such as "OE"; "" for none
}

// ParseModules parses the text of /proc/modules. It returns the modules in the
// order of the text. If lines have another form, it also returns a
// *[FormatError] for the first of them; the modules of the other lines are
// valid. The result does not refer to text.
func ParseModules(text []byte) ([]Module, error) {
	mods := []Module{}
	var bad skipped
	rest := string(text)
	for off, line := 0, 1; rest != ""; line++ {
		l, tail, ended := strings.Cut(rest, "\n")
		if !ended {
			// An address that was cut short would look like another address.
			bad.add("modules", off, line, "last line has no end")
		} else if m, err := parseModule(l); err != nil {
			bad.add("modules", off, line, err.Error())
		} else {
			mods = append(mods, m)
		}
		off += len(l) + 1
		rest = tail
	}
	return mods, bad.err()
}

// WriteModules writes modules as /proc/modules shows them, for [ParseModules].
// Errors are those of w, or report a name, a state or taints that no line can hold.
func WriteModules(w io.Writer, mods []Module) error {
	out := bufio.NewWriter(w)
	for _, m := range mods {
		for _, s := range append([]string{m.Name, m.State}, m.UsedBy...) {
			if s == "" || strings.Contains(s, ",") || strings.ContainsFunc(s, unicode.IsSpace) {
				return fmt.Errorf("kcore: a list of modules cannot hold %.64q, of module %.64q", s, m.Name)
			}
		}
		if strings.ContainsAny(m.Taints, "()") || strings.ContainsFunc(m.Taints, unicode.IsSpace) {
			return fmt.Errorf("kcore: a list of modules cannot hold the taints %.64q of module %.64q", m.Taints, m.Name)
		}
		refs, users := "-", "-"
		if m.Refs >= 0 {
			refs = strconv.Itoa(m.Refs)
		}
		if len(m.UsedBy) > 0 {
			users = strings.Join(m.UsedBy, ",") + ","
		}
		fmt.Fprintf(out, "%s %d %s %s %s 0x%016x", m.Name, m.Size, refs, users, m.State, m.Addr)
		if m.Taints != "" {
			fmt.Fprintf(out, " (%s)", m.Taints)
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

// parseModule parses one line:
//
//	virtio_pci_legacy_dev 16384 1 virtio_pci, Live 0xffffffffc0529000 (OE)
func parseModule(line string) (Module, error) {
	f := strings.Fields(line)
	if len(f) < 6 {
		return Module{}, fmt.Errorf("module has %d fields, want 6", len(f))
	}
	m := Module{Name: f[0], State: f[4]}
	var err error
	if m.Size, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return Module{}, fmt.Errorf("module size %.32q is not a number", f[1])
	}
	if f[2] == "-" {
		m.Refs = -1
	} else if m.Refs, err = strconv.Atoi(f[2]); err != nil {
		return Module{}, fmt.Errorf("module reference count %.32q is not a number", f[2])
	}
	if f[3] != "-" {
		for user := range strings.SplitSeq(strings.TrimSuffix(f[3], ","), ",") {
			m.UsedBy = append(m.UsedBy, user)
		}
	}
	hex, ok := strings.CutPrefix(f[5], "0x")
	if !ok {
		return Module{}, fmt.Errorf("module address %.32q does not begin with 0x", f[5])
	}
	if m.Addr, err = strconv.ParseUint(hex, 16, 64); err != nil {
		return Module{}, fmt.Errorf("module address %.32q is not a number", f[5])
	}
	if len(f) > 6 {
		m.Taints = strings.Trim(f[6], "()")
	}
	return m, nil
}
