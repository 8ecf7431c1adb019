// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/recorder/journal"
)

// A memory reads kernel memory through /proc/kcore, an ELF core file whose segments are
// the mapped parts of the kernel's address space (fs/proc/kcore.c).
type memory struct {
	file    *os.File
	machine elf.Machine
	class   elf.Class
	data    elf.Data
	loads   []elf.ProgHeader // by address
}

func openMemory(path string) (*memory, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	m := &memory{file: f}
	if err := m.readHeaders(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// readHeaders reads the program headers. New segments appear when memory is added to the
// machine; the areas of text and of modules are there from the beginning.
func (m *memory) readHeaders() error {
	e, err := elf.NewFile(m.file)
	if err != nil {
		return err
	}
	m.machine, m.class, m.data = e.Machine, e.Class, e.Data
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Filesz > 0 {
			m.loads = append(m.loads, p.ProgHeader)
		}
	}
	slices.SortFunc(m.loads, func(a, b elf.ProgHeader) int { return cmp.Compare(a.Vaddr, b.Vaddr) })
	return nil
}

var errUnmapped = errors.New("not in any segment of /proc/kcore")

// read fills b with the memory at addr. Pages that are not mapped are zeros: the kernel
// says so itself. On arm64 and others the text has several segments with one address.
func (m *memory) read(b []byte, addr uint64) error {
	for i := range m.loads {
		p := &m.loads[i]
		if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz && uint64(len(b)) <= p.Filesz-(addr-p.Vaddr) {
			_, err := m.file.ReadAt(b, int64(p.Off+(addr-p.Vaddr)))
			return err
		}
	}
	return fmt.Errorf("%d bytes at %#x: %w", len(b), addr, errUnmapped)
}

func (m *memory) close() error { return m.file.Close() }

// A span is a range of addresses.
type span struct{ lo, hi uint64 }

// textSpans returns what is copied: the kernel's text, and the pages of the modules, of
// kprobes' slots and of ftrace's trampolines.
func textSpans(kallsyms *kcore.Kallsyms, modules []kcore.Module) ([]span, error) {
	stext, etext, ok := kallsyms.Text()
	if !ok || stext == 0 {
		return nil, errors.New("/proc/kallsyms does not say where the kernel's text is (kptr_restrict)")
	}
	page := uint64(os.Getpagesize())
	spans := []span{{stext &^ (page - 1), (etext + page - 1) &^ (page - 1)}}
	for _, m := range modules {
		if m.Addr != 0 {
			spans = append(spans, span{m.Addr &^ (page - 1), (m.Addr + m.Size + page - 1) &^ (page - 1)})
		}
	}
	for _, s := range kallsyms.All() {
		if s.Module == "__builtin__kprobes" || s.Module == "__builtin__ftrace" {
			spans = append(spans, span{s.Addr &^ (page - 1), (s.Addr &^ (page - 1)) + page})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	joined := spans[:1]
	for _, s := range spans[1:] {
		if last := &joined[len(joined)-1]; s.lo <= last.hi {
			last.hi = max(last.hi, s.hi)
		} else {
			joined = append(joined, s)
		}
	}
	return joined, nil
}

// A textCopy is a copy of kernel text in memory of its own, which [textCopy.free] gives
// back: the garbage collector would keep it for long.
type textCopy struct {
	segments []kcore.Segment
	kallsyms []byte
	modules  []byte
	from, to uint64
}

// read returns the ranges that the copy has.
func (c *textCopy) read() (ranges []journal.Range) {
	for _, s := range c.segments {
		ranges = append(ranges, journal.Range{Lo: journal.Addr(s.Addr), Hi: journal.Addr(s.Addr + uint64(len(s.Data)))})
	}
	return ranges
}

func (c *textCopy) free() {
	for _, s := range c.segments {
		unix.Munmap(s.Data)
	}
	c.segments = nil
}

// copyText reads the text of the kernel and of its modules. now is the clock of the
// records. The lists are read before the text and after it: what both have was there.
func (m *memory) copyText(now func() uint64) (c *textCopy, err error) {
	c = &textCopy{from: now()}
	if c.kallsyms, err = os.ReadFile("/proc/kallsyms"); err != nil {
		return nil, err
	}
	if c.modules, err = os.ReadFile("/proc/modules"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err // it does not exist in a kernel without modules
	}
	names, err := kcore.ParseKallsyms(c.kallsyms)
	if err != nil {
		return nil, err
	}
	modules, err := kcore.ParseModules(c.modules)
	if err != nil {
		return nil, err
	}
	spans, err := textSpans(names, modules)
	if err != nil {
		return nil, err
	}
	for i, s := range spans {
		data, err := unix.Mmap(-1, 0, int(s.hi-s.lo), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			c.free()
			return nil, fmt.Errorf("memory for a copy of %d bytes: %w", s.hi-s.lo, err)
		}
		c.segments = append(c.segments, kcore.Segment{Addr: s.lo, Data: data})
		err = m.read(data, s.lo)
		if err != nil && i == 0 {
			c.free()
			return nil, err
		}
		if err != nil { // a module that has gone meanwhile
			unix.Munmap(data)
			c.segments = c.segments[:len(c.segments)-1]
		}
	}
	c.to = now()
	return c, nil
}

// write writes a copy as perf's kcore_copy does. Only pages for which keep returns true
// are written; nil keeps all.
func (m *memory) write(dir string, c *textCopy, keep func(addr uint64, page []byte) bool) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	segments := c.segments
	if keep != nil {
		segments = kept(segments, keep)
	}
	err := create(filepath.Join(dir, "kcore"), func(w io.Writer) error {
		return kcore.WriteCore(w, m.machine, m.class, m.data, segments, nil)
	})
	for _, f := range []struct {
		name string
		data []byte
	}{{"kallsyms", c.kallsyms}, {"modules", c.modules}} {
		err = errors.Join(err, create(filepath.Join(dir, f.name), func(w io.Writer) error {
			_, err := w.Write(f.data)
			return err
		}))
	}
	return err
}

// kept returns the pages for which keep returns true, neighbours in one segment.
func kept(segments []kcore.Segment, keep func(addr uint64, page []byte) bool) (out []kcore.Segment) {
	page := os.Getpagesize()
	for _, s := range segments {
		open := false
		for at := 0; at < len(s.Data); at += page {
			b := s.Data[at:min(at+page, len(s.Data))]
			switch addr := s.Addr + uint64(at); {
			case !keep(addr, b):
				open = false
			case open:
				last := &out[len(out)-1]
				last.Data = s.Data[last.Addr-s.Addr : at+len(b)]
			default:
				out = append(out, kcore.Segment{Addr: addr, Data: b})
				open = true
			}
		}
	}
	return out
}

// create writes a file that only its owner can read.
func create(path string, fill func(w io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}
