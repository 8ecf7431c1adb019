// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/vmlinux"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A Cause says why text differs from the file that the kernel was linked to. Scripts may
// rely on the names.
type Cause uint8

const (
	_ Cause = iota
	// CauseAlternative: instructions for the CPU that the kernel runs on.
	CauseAlternative
	// CauseParavirt: a direct call, or the instruction itself, in place of a call through
	// pv_ops.
	CauseParavirt
	// CauseRetpoline: an indirect jump or call for the CPU's mitigations.
	CauseRetpoline
	// CauseReturn: a return for the CPU's mitigations.
	CauseReturn
	// CauseCallDepth: calls that count their depth, and the code for it before functions.
	CauseCallDepth
	// CauseLock: a LOCK prefix that a machine with one CPU does not need.
	CauseLock
	// CauseEndbr: an ENDBR64 of a function that is never called indirectly.
	CauseEndbr
	// CauseStaticKey, CauseStaticCall, CauseFtrace, CauseKprobe, CauseBPF: the state of
	// these mechanisms at the start.
	CauseStaticKey
	CauseStaticCall
	CauseFtrace
	CauseKprobe
	CauseBPF
	// CauseConstant: a constant that is known when the kernel has booted, such as the size
	// of a hash table (runtime constants, since Linux 6.11).
	CauseConstant
	// CauseHypercall: the hypervisor's page of hypercalls.
	CauseHypercall
	// CauseMoved: an absolute address, in a file that does not say where these are.
	CauseMoved

	numCauses
)

var causeNames = [numCauses]string{CauseAlternative: "alternative", CauseParavirt: "paravirt", CauseRetpoline: "retpoline",
	CauseReturn: "return-thunk", CauseCallDepth: "call-depth", CauseLock: "lock-prefix", CauseEndbr: "endbr",
	CauseStaticKey: "static-key", CauseStaticCall: "static-call", CauseFtrace: "ftrace", CauseKprobe: "kprobe", CauseBPF: "bpf",
	CauseConstant: "runtime-constant", CauseHypercall: "hypercall-page", CauseMoved: "moved-address"}

// String returns the name, for example "static-key"; "" for 0.
func (c Cause) String() string {
	if c >= numCauses {
		return fmt.Sprintf("Cause(%d)", uint8(c))
	}
	return causeNames[c]
}

// A Start is how the text of the first copy compares with the file that the kernel was
// linked to.
type Start struct {
	Compared  uint64            // bytes that both have
	Missing   uint64            // bytes of the file that the recording has no copy of
	Differing uint64            // of Compared
	By        [numCauses]uint64 // of Differing, the bytes that a mechanism explains; none at 0
	// Unexplained counts the other differing bytes.
	Unexplained uint64
	// violations are the first 10,000 runs of these bytes.
	violations []Violation
	runs       uint64 // how many runs there are
}

// Causes returns the causes of s.By that are not 0, the greatest first.
func (s *Start) Causes() []Cause {
	var out []Cause
	for c := range numCauses {
		if s.By[c] > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(s.By[b], s.By[a]) })
	return out
}

// CompareStart compares the text at the start of the recording with the file that the
// kernel was linked to. The caller must know that the file is of this kernel. If
// the result is given to [Classifier.Audit], it is a part of the audit.
//
// Only x86-64 is known well enough; for others, the error wraps
// [disasm.ErrUnsupportedArch].
func (c *Classifier) CompareStart(file io.ReaderAt) (*Start, error) {
	if c.machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("the text at the start is not compared: %w", disasm.ErrUnsupportedArch)
	}
	if c.r.Kallsyms() == nil || c.lo == 0 {
		return nil, replay.ErrNoKallsyms
	}
	f, err := vmlinux.New(file)
	if err != nil {
		return nil, err
	}
	linked, err := f.Stext()
	if err != nil {
		return nil, err
	}
	s := &starter{Classifier: c, f: f, by: c.lo - linked, s: &Start{}, t: c.r.Report.First}
	if s.dis, err = disasm.New(c.machine, c.order); err != nil {
		return nil, err
	}
	a := auditor{Classifier: c, stubs: make(map[uint64]effect), has: make(map[effect]int)}
	a.readStubs()
	s.auditor = &a
	for l := range c.r.Image.Lifetimes {
		s.probes = s.probes || dynamicPlace(l).kind == kprobeSlots && l.From <= s.t
	}
	text := f.Section(".text")
	if text == nil {
		return nil, fmt.Errorf("no section .text")
	}
	s.at = text.Addr + s.by
	var ok bool
	if s.want, ok, err = f.Moved(text, s.by); err != nil {
		return nil, err
	}
	s.read()
	if !ok {
		s.guessMoved()
	}
	if err := s.readSites(); err != nil {
		return nil, err
	}
	s.compare()
	return s.s, nil
}

// A starter compares text with the file.
type starter struct {
	*Classifier
	f       *vmlinux.File
	by      uint64 // how far the kernel was moved
	t       uint64 // the start of the recording
	s       *Start
	auditor *auditor
	dis     *disasm.Disassembler
	probes  bool // a page of kprobes' slots is there

	at        uint64 // where the file's .text begins in memory
	want, got []byte
	has       []bool // which bytes of got the recording has
	sites     []site // by address
}

// read reads the text at the start. Bytes that come from the file itself do not count.
func (s *starter) read() {
	s.got, s.has = make([]byte, len(s.want)), make([]bool, len(s.want))
	for span := range s.r.Image.At(s.t).Spans(s.at, uint64(len(s.want))) {
		if span.Bytes == nil || span.Source == timeline.SourceVmlinux || !span.Standing.HasBytes() {
			s.s.Missing += span.Len
			continue
		}
		s.s.Compared += span.Len
		off := span.Addr - s.at
		copy(s.got[off:], span.Bytes)
		for i := off; i < off+span.Len; i++ {
			s.has[i] = true
		}
	}
}

// guessMoved takes a word for an address that was moved with the kernel if it differs
// from the file's by just that much.
func (s *starter) guessMoved() {
	le := binary.LittleEndian
	for i := 0; i+4 <= len(s.want); i++ {
		if s.want[i] == s.got[i] && s.want[i+1] == s.got[i+1] && s.want[i+2] == s.got[i+2] {
			continue
		}
		from := max(i-3, 0)
		for j := from; j <= i && j+4 <= len(s.want); j++ {
			was, is := le.Uint32(s.want[j:]), le.Uint32(s.got[j:])
			if s.has[j] && s.has[j+3] && was != is && (is == was+uint32(s.by) && was >= 1<<31 || is == was-uint32(s.by)) {
				s.s.By[CauseMoved] += differing(s.want[j:j+4], s.got[j:j+4])
				s.s.Differing += differing(s.want[j:j+4], s.got[j:j+4])
				copy(s.want[j:j+4], s.got[j:])
				break
			}
		}
	}
}

func differing(a, b []byte) (n uint64) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// file returns up to n bytes of the file's text at addr.
func (s *starter) file(addr, n uint64) []byte { return part(s.want, addr-s.at, n) }

// memory returns up to n bytes of the text at the start.
func (s *starter) memory(addr, n uint64) []byte { return part(s.got, addr-s.at, n) }

func part(b []byte, off, n uint64) []byte {
	if off >= uint64(len(b)) {
		return nil
	}
	return b[off:min(off+n, uint64(len(b)))]
}

// compare finds the differing bytes, and what explains them.
func (s *starter) compare() {
	first := 0             // the first site that can reach the byte
	var longest uint64 = 0 // length of a site
	for i := range s.sites {
		longest = max(longest, s.sites[i].n)
	}
	for i := uint64(0); i < uint64(len(s.want)); i++ {
		if s.want[i] == s.got[i] || !s.has[i] {
			continue
		}
		addr := s.at + i
		for first < len(s.sites) && s.sites[first].addr+longest <= addr {
			first++
		}
		to := uint64(0)
		why := Cause(0)
		for j := first; j < len(s.sites) && s.sites[j].addr <= addr; j++ {
			if x := &s.sites[j]; addr < x.addr+x.n && s.explains(x) {
				// A place can be in two lists; the alternatives come first.
				why, to = cmp.Or(why, x.kind), max(to, x.addr+x.n)
			}
		}
		if why == 0 {
			why, to = s.elsewhere(addr)
		}
		if why == 0 {
			to = s.unexplained(addr)
		}
		for ; i < to-s.at && i < uint64(len(s.want)); i++ {
			if s.has[i] && s.want[i] != s.got[i] {
				s.s.Differing++
				s.s.By[why]++
			}
		}
		i-- // the loop adds it
	}
	s.s.Unexplained, s.s.By[0] = s.s.By[0], 0
}

// unexplained adds a violation for the bytes from addr on that differ, and returns where
// they end. A few equal bytes may be among them.
func (s *starter) unexplained(addr uint64) uint64 {
	const gap = 4
	i := addr - s.at
	end := i + 1
	for j := end; j < uint64(len(s.want)) && j < end+gap && j < i+64 && s.has[j]; j++ {
		if s.want[j] != s.got[j] {
			end = j + 1
		}
	}
	s.s.runs++
	if s.s.runs <= mostViolations {
		s.s.violations = append(s.s.violations, Violation{Fault: NotAsLinked, Addr: addr,
			Old: bytes.Clone(s.want[i:end]), New: bytes.Clone(s.got[i:end])})
	}
	return s.at + end
}
