// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/vmlinux"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// addVmlinux adds the text of a vmlinux file to the builder, at the addresses where the
// recorded kernel ran.
func (s *scan) addVmlinux(path string, textLo uint64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...))
	}
	misfit := func(format string, args ...any) error {
		return &MisfitError{Path: path, Msg: fmt.Sprintf(format, args...)}
	}
	f, err := vmlinux.New(file)
	if err != nil {
		return bad("%w", err)
	}
	if machine := s.arch.machine; machine != elf.EM_NONE && f.Machine != machine {
		return misfit("a kernel for %v, but the recorded one is for %v", f.Machine, machine)
	}
	linked, err := f.Stext()
	if err != nil {
		return bad("%w", err)
	}
	if textLo == 0 {
		return fmt.Errorf("%s: nothing says where kernel text was: %w", path, ErrNoKallsyms)
	}
	id, err := buildIDOf(f.File)
	if err != nil {
		return bad("%w", err)
	}
	switch want := s.kernelBuildID(); {
	case want == nil || id == nil:
		s.warn(bad("this file or the recording has no build ID, so it may be of another kernel"))
	case !bytes.Equal(id, want):
		return misfit("build ID %x, but the recorded kernel has %x", id, want)
	}
	moved := textLo - linked
	var segments []timeline.Segment
	relocated := moved == 0
	for _, sec := range f.Sections {
		if sec.Type != elf.SHT_PROGBITS || sec.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) != elf.SHF_ALLOC|elf.SHF_EXECINSTR || sec.Size == 0 {
			continue
		}
		data, ok, err := f.Moved(sec, moved)
		if err != nil {
			return bad("section %s: %w", sec.Name, err)
		}
		relocated = relocated || ok
		segments = append(segments, timeline.Segment{Addr: sec.Addr + moved, Data: data})
	}
	if !relocated {
		s.warn(bad("the kernel was moved by %#x when it booted; absolute addresses in instructions are those of the file", int64(moved)))
	}
	sortSegments(&segments)
	s.b.Seed(segments)
	return nil
}

// sortSegments sorts segments by address and drops those that overlap others.
func sortSegments(segments *[]timeline.Segment) {
	slices.SortStableFunc(*segments, func(a, b timeline.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	out := (*segments)[:0]
	for _, s := range *segments {
		if n := len(out); s.End() > s.Addr && (n == 0 || out[n-1].End() <= s.Addr) {
			out = append(out, s)
		}
	}
	*segments = out
}

// buildIDOf returns the build id of an ELF file (the GNU note of type 3), or nil if it
// has none.
func buildIDOf(f *elf.File) ([]byte, error) {
	for _, sec := range f.Sections {
		if sec.Type != elf.SHT_NOTE {
			continue
		}
		data, err := sec.Data()
		if err != nil {
			return nil, err
		}
		if id := buildIDNote(f.ByteOrder, data); id != nil {
			return id, nil
		}
	}
	return nil, nil
}

// kernelBuildID returns the build id of the image's kernel, or nil if the recording has
// none. It needs all records.
//
// perf writes a BUILD_ID feature, or HEADER_BUILD_ID records in a pipe, for the files of
// samples when it ends. With --buildid-mmap, the default of perf 7.2, the id is in the
// kernel's MMAP2 record.
func (s *scan) kernelBuildID() []byte {
	for b, err := range s.rec.BuildIDs() {
		if err != nil {
			break
		}
		if s.isKernel(&b) {
			return bytes.Clone(b.BuildID)
		}
	}
	return s.buildID
}

// buildIDRecord reads a HEADER_BUILD_ID record.
func (s *scan) buildIDRecord(rec *perfdata.Record) {
	var b perfdata.BuildID
	if err := s.rec.BuildID(rec, &b); err != nil {
		s.broken(rec, "%v", err)
		return
	}
	if s.isKernel(&b) {
		s.buildID = bytes.Clone(b.BuildID)
	}
}

// isKernel reports whether a build id is of the image's kernel. The build ids of guests are
// in the same list, with the hypervisor's pid (guest_session__add_build_ids of
// tools/perf/builtin-inject.c).
func (s *scan) isKernel(b *perfdata.BuildID) bool {
	switch mode, name := b.Misc&perfdata.MiscCPUModeMask, string(b.Filename); {
	case len(b.BuildID) == 0:
		return false
	case s.machine == 0:
		return mode == perfdata.MiscKernel && name == "[kernel.kallsyms]"
	case s.machine == int(b.PID):
		return mode == perfdata.MiscGuestKernel && (name == "[kernel.kallsyms]" || strings.HasPrefix(name, "[guest.kernel.kallsyms"))
	case s.machine == DefaultGuest:
		return mode == perfdata.MiscGuestKernel && name == "[guest.kernel.kallsyms]"
	}
	return false
}
