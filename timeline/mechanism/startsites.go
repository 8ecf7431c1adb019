// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
)

// The places that the kernel changes when it boots, from the lists of them in its file.

// A site is a place that the kernel may change when it boots.
type site struct {
	addr uint64
	n    uint64 // length in bytes
	kind Cause
	// repl are the instructions that an alternative may put there, and replAt is where
	// they are in the file's section of replacements; or what another operand has that
	// has the same runtime constant.
	repl   []byte
	replAt uint64
}

// readSites reads the kernel's lists of places that it changes when it boots.
func (s *starter) readSites() error {
	for _, read := range []func() error{s.readAlternatives, s.readParavirt, s.readRelative, s.readConstants} {
		if err := read(); err != nil {
			return err
		}
	}
	s.addTables()
	slices.SortStableFunc(s.sites, func(a, b site) int { return cmp.Compare(a.addr, b.addr) })
	return nil
}

// section returns the data of a section as it is in memory, and where; nil if the file
// does not have it.
func (s *starter) section(name string) (data []byte, at uint64, err error) {
	sec := s.f.Section(name)
	if sec == nil || sec.Type != elf.SHT_PROGBITS {
		return nil, 0, nil
	}
	if sec.Size > maxTable {
		return nil, 0, fmt.Errorf("%s: %d bytes are too many", name, sec.Size)
	}
	data, _, err = s.f.Moved(sec, s.by)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	return data, sec.Addr + s.by, nil
}

// readAlternatives reads struct alt_instr (arch/x86/include/asm/alternative.h): relative
// addresses of the instructions and of their replacement, the CPU's feature, and both
// lengths. It has 12 bytes; until 5.12 it had 13, and the last one is the length of
// padding; since 6.3 it has 14, because flags follow the feature.
func (s *starter) readAlternatives() error {
	data, at, err := s.section(".altinstructions")
	if err != nil || len(data) == 0 {
		return err
	}
	repl, replAt, err := s.section(".altinstr_replacement")
	if err != nil {
		return err
	}
	rel := func(i int) uint64 { return at + uint64(i) + uint64(int64(int32(binary.LittleEndian.Uint32(data[i:])))) }
sizes:
	for _, size := range []int{12, 13, 14} {
		if len(data)%size != 0 {
			continue
		}
		var out []site
		for i := 0; i < len(data); i += size {
			addr, from := rel(i), rel(i+4)
			lens := data[i+10:]
			if size == 14 {
				lens = data[i+12:]
			}
			n, m := uint64(lens[0]), uint64(lens[1])
			if from < replAt || from-replAt > uint64(len(repl)) || m > uint64(len(repl))-(from-replAt) || m > n {
				continue sizes
			}
			out = append(out, site{addr: addr, n: n, kind: CauseAlternative, repl: repl[from-replAt:][:m], replAt: from})
		}
		s.sites = append(s.sites, out...)
		return nil
	}
	return fmt.Errorf(".altinstructions: %d bytes are not entries of a known size", len(data))
}

// readParavirt reads struct paravirt_patch_site: the address, the type and the length
// (arch/x86/include/asm/paravirt_types.h).
func (s *starter) readParavirt() error {
	data, _, err := s.section(".parainstructions")
	if err != nil {
		return err
	}
	for ; len(data) >= 10; data = data[min(16, len(data)):] { // the last has no padding
		addr := binary.LittleEndian.Uint64(data)
		if addr < s.at && addr+s.by >= s.at {
			addr += s.by // the file does not say which words are addresses
		}
		s.sites = append(s.sites, site{addr: addr, n: uint64(data[9]), kind: CauseParavirt})
	}
	return nil
}

// readRelative reads the lists of relative addresses of 32 bits.
func (s *starter) readRelative() error {
	for _, l := range []struct {
		name string
		kind Cause
	}{{".retpoline_sites", CauseRetpoline}, {".return_sites", CauseReturn}, {".call_sites", CauseCallDepth},
		{".smp_locks", CauseLock}, {".ibt_endbr_seal", CauseEndbr}} {
		data, at, err := s.section(l.name)
		if err != nil {
			return err
		}
		for ; len(data) >= 4; data, at = data[4:], at+4 {
			addr := at + rel32(data)
			n := uint64(1)
			switch l.kind {
			case CauseEndbr:
				n = 4
			case CauseRetpoline, CauseReturn, CauseCallDepth:
				n = uint64(len(s.dis.Decode(s.file(addr, 15), addr).Bytes))
				if n == 0 {
					continue // in another section
				}
			}
			s.sites = append(s.sites, site{addr: addr, n: n, kind: l.kind})
		}
	}
	return nil
}

// readConstants reads the sections of the runtime constants. Each has the relative addresses
// of one constant's operands (arch/x86/include/asm/runtime-const.h).
func (s *starter) readConstants() error {
	for _, sec := range s.f.Sections {
		n := uint64(8)
		if strings.HasPrefix(sec.Name, "runtime_shift_") {
			n = 1
		} else if !strings.HasPrefix(sec.Name, "runtime_ptr_") {
			continue
		}
		data, at, err := s.section(sec.Name)
		if err != nil {
			return err
		}
		first := uint64(0)
		for ; len(data) >= 4; data, at = data[4:], at+4 {
			addr := at + rel32(data)
			if first == 0 {
				first = addr
			}
			s.sites = append(s.sites, site{addr: addr, n: n, kind: CauseConstant, repl: s.memory(first, n)})
		}
	}
	return nil
}

// addTables adds the places of the tables that audit has read already.
func (s *starter) addTables() {
	t := s.tables
	if t == nil {
		return
	}
	for addr := range t.JumpLabels {
		n := uint64(5)
		if code := s.file(addr, 2); patching.IsNOP(code) || len(code) == 2 && code[0] == 0xeb {
			n = 2
		}
		s.sites = append(s.sites, site{addr: addr, n: n, kind: CauseStaticKey})
	}
	for addr := range t.StaticCalls {
		n := uint64(5)
		if code := s.file(addr, 2); len(code) == 2 && code[0] == 0x0f && code[1]&0xf0 == 0x80 {
			n = 6 // a conditional tail call
		}
		s.sites = append(s.sites, site{addr: addr, n: n, kind: CauseStaticCall})
	}
	for addr := range t.Functions {
		s.sites = append(s.sites, site{addr: addr, n: 5, kind: CauseFtrace})
	}
}

func rel32(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }
