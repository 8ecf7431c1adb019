// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/recorder/journal"
)

// A memory reads kernel memory through /proc/kcore, an ELF core file whose segments are
// the mapped parts of the kernel's address space (fs/proc/kcore.c). Several goroutines may read.
//
// The kernel reads through a page that belongs to the open file (open_kcore and read_kcore_iter of
// fs/proc/kcore.c), without a lock. Of two reads of one file at the same time, one returns what the
// other has read.
type memory struct {
	reading sync.Mutex // held while file is read
	file    interface {
		io.ReaderAt
		io.Closer
	}
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
			m.reading.Lock()
			defer m.reading.Unlock()
			_, err := m.file.ReadAt(b, int64(p.Off+(addr-p.Vaddr)))
			return err
		}
	}
	return fmt.Errorf("%d bytes at %#x: %w", len(b), addr, errUnmapped)
}

func (m *memory) close() error { return m.file.Close() }

// A span is a range of addresses.
type span struct{ lo, hi uint64 }

// textSpans returns what is copied, ascending: the kernel's text, which is at core, and the pages
// of the modules, of kprobes' slots and of ftrace's trampolines.
func textSpans(kallsyms *kcore.Kallsyms, modules []kcore.Module) (spans []span, core uint64, err error) {
	stext, etext, ok := kallsyms.Text()
	if !ok || stext == 0 {
		return nil, 0, errors.New("/proc/kallsyms does not say where the kernel's text is (kptr_restrict)")
	}
	page := uint64(os.Getpagesize())
	spans = []span{{stext &^ (page - 1), (etext + page - 1) &^ (page - 1)}}
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
	if drop := len(joined) - journal.MaxRanges; drop > 0 {
		// The journal cannot say that more of them were read.
		joined = slices.DeleteFunc(joined, func(s span) bool {
			drop--
			return drop >= 0 && (stext < s.lo || s.hi <= stext)
		})
	}
	return joined, stext, nil
}

// A textCopy describes a copy of kernel text that was written.
type textCopy struct {
	spans    []span // that were read
	core     uint64 // is in the span of the kernel's own text
	size     int    // bytes that were stored
	from, to uint64 // it was read at some moment of [from, to], in ns
}

// read returns the ranges that the copy has.
func (c *textCopy) read() (ranges []journal.Range) {
	for _, s := range c.spans {
		ranges = append(ranges, journal.Range{Lo: journal.Addr(s.lo), Hi: journal.Addr(s.hi)})
	}
	return ranges
}

// copyText copies the text of the kernel and of its modules to a directory, as perf's
// kcore_copy does. now is the clock of the records. Text goes through a buffer of a few pages:
// all of it would be most of the memory that the recorder takes.
//
// If modules come or go meanwhile, the error is errModulesChanged.
//
// sums has a checksum of each page of the first copy, by address. If it is empty, this is the
// first copy, and fills it. Otherwise only pages that differ are stored. They are found first,
// and then read again: any moment of the copy is as good as any other.
func (m *memory) copyText(dir string, now func() uint64, sums map[uint64]uint64) (c *textCopy, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c = &textCopy{from: now()}
	var names *kcore.Kallsyms
	err = create(filepath.Join(dir, "kallsyms"), func(w io.Writer) error {
		f, err := os.Open("/proc/kallsyms")
		if err != nil {
			return err
		}
		defer f.Close()
		names, err = copyKallsyms(w, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	list, modules, err := readModules()
	if err != nil {
		return nil, err
	}
	if err := create(filepath.Join(dir, "modules"), func(w io.Writer) error {
		_, err := w.Write(list)
		return err
	}); err != nil {
		return nil, err
	}
	if c.spans, c.core, err = textSpans(names, modules); err != nil {
		return nil, err
	}
	if err := m.write(filepath.Join(dir, "kcore"), c, sums); err != nil {
		return nil, err
	}
	_, left, err := readModules()
	if err == nil && !slices.EqualFunc(modules, left, isAt) {
		err = errModulesChanged
	}
	if err != nil {
		return nil, err
	}
	c.to = now()
	return c, nil
}

// errModulesChanged is the error of a copy during which modules were loaded or unloaded. What it has at their
// addresses may be of neither: perf refuses such a copy too (kcore_copy in tools/perf/util/symbol-elf.c).
var errModulesChanged = errors.New("modules were loaded or unloaded while it was made")

// readModules returns the list of modules, as the kernel shows it and parsed.
func readModules() (list []byte, modules []kcore.Module, err error) {
	list, err = os.ReadFile("/proc/modules")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it does not exist in a kernel without modules
		return nil, nil, err
	}
	modules, err = kcore.ParseModules(list)
	return list, modules, err
}

// isAt reports whether two lists have the same module at the same place. Who uses it may change.
func isAt(a, b kcore.Module) bool { return a.Name == b.Name && a.Addr == b.Addr && a.Size == b.Size }

// copyPart is how many bytes are read at once.
const copyPart = 64 << 10

// write writes the file kcore of a copy.
func (m *memory) write(path string, c *textCopy, sums map[uint64]uint64) error {
	page := uint64(os.Getpagesize())
	first, sizes := len(sums) == 0, make(map[uint64]uint64)
	buf := make([]byte, max(copyPart, page))
	for i := 0; i < len(c.spans); i++ {
		s := c.spans[i]
		var err error
		if first {
			sizes[s.lo] = s.hi - s.lo
			err = m.read(buf[:page], s.lo)
		} else {
			err = m.changed(s, buf, sums, sizes)
		}
		switch {
		case err != nil && s.lo <= c.core && c.core < s.hi:
			return err
		case err != nil: // a module that was unloaded meanwhile
			delete(sizes, s.lo)
			c.spans = slices.Delete(c.spans, i, i+1)
			i--
		}
	}
	err := create(path, func(w io.Writer) error {
		return kcore.WriteCoreFrom(w, m.machine, m.class, m.data, sizes, func(b []byte, addr uint64) error {
			if err := m.read(b, addr); err != nil {
				return err
			}
			for at := uint64(0); first && at < uint64(len(b)); at += page {
				sums[addr+at] = maphash.Bytes(pageSeed, b[at:min(at+page, uint64(len(b)))])
			}
			return nil
		})
	})
	for _, n := range sizes {
		c.size += int(n)
	}
	return err
}

// changed adds the pages of s whose sums differ to sizes, which has the length of each run of
// pages by its address. If it fails, it has removed the runs of s.
func (m *memory) changed(s span, buf []byte, sums, sizes map[uint64]uint64) error {
	page := uint64(os.Getpagesize())
	begin, open := uint64(0), false
	for at := s.lo; at < s.hi; at += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), s.hi-at)]
		if err := m.read(b, at); err != nil {
			for addr := range sizes {
				if s.lo <= addr && addr < s.hi {
					delete(sizes, addr)
				}
			}
			return err
		}
		for i := uint64(0); i < uint64(len(b)); i += page {
			addr := at + i
			sum, ok := sums[addr]
			switch {
			case ok && sum == maphash.Bytes(pageSeed, b[i:i+page]):
				open = false
			case open:
				sizes[begin] += page
			default:
				begin, open = addr, true
				sizes[addr] = page
			}
		}
	}
	return nil
}

// pageSeed is of this process: the sums are compared only within it.
var pageSeed = maphash.MakeSeed()

// create writes a file that only its owner can read.
func create(path string, fill func(w io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}
