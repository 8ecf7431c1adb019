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
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/internal/vmlinux"
	"github.com/textreplay/textreplay/perfdata"
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

// explains reports whether the mechanism of a site can have written what is there.
func (s *starter) explains(x *site) bool {
	got := s.memory(x.addr, x.n)
	switch x.kind {
	case CauseAlternative:
		return s.like(x.repl, x.replAt, got, x.addr) || s.like(s.file(x.addr, x.n), x.addr, got, x.addr)
	case CauseParavirt:
		if s.isNative(s.file(x.addr, x.n), got) {
			return true
		}
		fallthrough
	case CauseRetpoline, CauseReturn, CauseCallDepth:
		return s.like(s.file(x.addr, x.n), x.addr, got, x.addr)
	case CauseConstant:
		return bytes.Equal(got, x.repl)
	case CauseLock:
		return got[0] == 0x3e && s.file(x.addr, 1)[0] == 0xf0 // a DS prefix: alternatives_smp_unlock
	case CauseEndbr:
		return s.endbr(x.addr)
	}
	is := s.decode(x.addr, part(got, 0, 5))
	at := s.Classifier.at(x.addr, s.t)
	switch x.kind {
	case CauseStaticKey:
		is = s.decode(x.addr, got)
		return is.kind == nop || is == effect{jump, s.tables.JumpLabels[x.addr]}
	case CauseStaticCall:
		if x.n == 6 {
			is = s.decode(x.addr, got)
		}
		why, _ := s.auditor.staticCall(&perfdata.TextPoke{Addr: x.addr, New: got}, at, is)
		return why == 0
	case CauseFtrace:
		return is.kind == nop || is.kind == call && s.tracer(is.target) ||
			is.kind == jump && s.Classifier.at(is.target, s.t).kind == trampoline // FTRACE_OPS_FL_JMP
	}
	return false
}

// tracer reports whether a tracer's call may lead to addr.
func (s *starter) tracer(addr uint64) bool {
	switch to := s.Classifier.at(addr, s.t); to.kind {
	case ftraceText, ftraceOutOfLine, trampoline:
		return true
	default:
		return to.kind == text && to.module == "" && strings.HasPrefix(to.name, "__fentry__")
	}
}

// elsewhere explains the differing byte at addr, which is in none of the lists. It returns
// the cause, 0 if there is none, and the address behind the last byte that the cause
// explains.
func (s *starter) elsewhere(addr uint64) (Cause, uint64) {
	at := s.Classifier.at(addr, s.t)
	switch {
	case at.kind == staticCallText:
		// The jump of a trampoline, or what replaces the jump to a function that does nothing.
		lo := at.lo
		if why, to := s.jumps(lo, addr, CauseStaticCall); why != 0 {
			return why, to
		}
		if is := s.decode(lo, s.memory(lo, 5)); addr < lo+5 && (is.kind == ret || is.kind == inlined) {
			return CauseStaticCall, lo + 5
		}
	case at.kind == ftraceText:
		for lo := addr - 4; lo <= addr; lo++ {
			was, is := s.decode(lo, s.file(lo, 5)), s.decode(lo, s.memory(lo, 5))
			if was.kind != unknown && (is.kind == nop || is.leads() && s.begins(is.target)) {
				return CauseFtrace, lo + 5
			}
		}
	case at.kind == text && strings.HasPrefix(at.name, "bpf_dispatcher_") && addr < at.lo+9:
		for lo := at.lo; lo <= addr; lo++ {
			if is := s.decode(lo, s.memory(lo, 5)); addr < lo+5 && is.leads() && s.Classifier.at(is.target, s.t).kind.dynamic() {
				return CauseBPF, lo + 5
			}
		}
	case at.kind == text && (strings.HasPrefix(at.name, "xen_hypercall_") || at.name == "hypercall_page" || at.name == "hyperv_hypercall_page"):
		return CauseHypercall, max(at.hi, addr+1)
	}
	if why, to := s.probe(addr, at); why != 0 {
		return why, to
	}
	return s.pad(addr)
}

// jumps explains a jump at lo that leads to the beginning of a function.
func (s *starter) jumps(lo, addr uint64, why Cause) (Cause, uint64) {
	if is := s.decode(lo, s.memory(lo, 5)); lo <= addr && addr < lo+5 && is.kind == jump && s.begins(is.target) {
		return why, lo + 5
	}
	return 0, 0
}

// begins reports whether code begins at addr.
func (s *starter) begins(addr uint64) bool {
	at := s.Classifier.at(addr, s.t)
	return at.kind != unnamed && at.lo == addr
}

// probe explains the trap of a kprobe, and the jump of an optimised one.
func (s *starter) probe(addr uint64, at *place) (Cause, uint64) {
	if at.kind != text || !s.probes {
		return 0, 0
	}
	for lo := addr; lo+4 >= addr && lo >= at.lo; lo-- {
		if !s.beginsLinked(lo, at) {
			continue
		}
		if lo == addr && s.memory(lo, 1)[0] == patching.INT3 {
			return CauseKprobe, lo + 1
		}
		if is := s.decode(lo, s.memory(lo, 5)); is.kind == jump {
			if k := s.Classifier.at(is.target, s.t).kind; k == optprobeSlots {
				return CauseKprobe, lo + 5
			}
		}
	}
	return 0, 0
}

// beginsLinked reports whether an instruction of the file begins at addr.
func (s *starter) beginsLinked(addr uint64, at *place) bool {
	for in := range s.dis.All(s.file(at.lo, addr-at.lo+15), at.lo, nil) {
		if in.Addr >= addr {
			return in.Addr == addr
		}
	}
	return false
}

// callDepthPad is how the code before a function begins that counts the depth of calls:
// sarq $5, %gs:... (SKL_CALL_THUNK_TEMPLATE, arch/x86/kernel/callthunks.c).
var callDepthPad = []byte{0x65, 0x48, 0xc1}

// pad explains code in the padding before a function.
func (s *starter) pad(addr uint64) (Cause, uint64) {
	entry := (addr + 16) &^ 15
	lo := entry - 16
	got := s.memory(lo, 16)
	i := bytes.Index(got, callDepthPad)
	if i < 0 || uint64(i) > addr-lo || !s.begins(entry) {
		return 0, 0
	}
	for _, b := range s.skipNOPs(s.file(lo, 16), 0) {
		if b != 0x90 && b != patching.INT3 {
			return 0, 0
		}
	}
	return CauseCallDepth, entry
}

// skipNOPs returns code from the first instruction at or after i that is no NOP.
func (s *starter) skipNOPs(code []byte, i int) []byte {
	for i < len(code) {
		n := len(s.dis.Decode(code[i:], 0).Bytes)
		if n == 0 || !patching.IsNOP(code[i:i+n]) {
			break
		}
		i += n
	}
	return code[i:]
}

// like reports whether two pieces of code do the same, up to what the kernel does to
// instructions when it boots: it moves branches, shortens jumps, joins NOPs, and changes
// indirect branches, returns and calls of pv_ops.
func (s *starter) like(want []byte, wantAt uint64, got []byte, gotAt uint64) bool {
	after := false // an instruction behind which nothing runs
	// next returns the next instruction that is no NOP.
	next := func(code *[]byte, at *uint64) (disasm.Inst, bool) {
		for len(*code) > 0 {
			in := s.dis.Decode(*code, *at)
			if in.Data {
				return in, false
			}
			*code, *at = (*code)[len(in.Bytes):], *at+uint64(len(in.Bytes))
			if patching.IsNOP(in.Bytes) || after && in.Bytes[0] == patching.INT3 {
				continue
			}
			if n := in.Target - *at; in.Class == disasm.Jump && 0 < n && n <= uint64(len(*code)) &&
				bytes.Count((*code)[:n], []byte{patching.INT3}) == int(n) {
				*code, *at = (*code)[n:], in.Target // many NOPs (add_nop, since Linux 6.7)
				continue
			}
			return in, true
		}
		return disasm.Inst{}, true
	}
	for {
		w, ok1 := next(&want, &wantAt)
		g, ok2 := next(&got, &gotAt)
		if !ok1 || !ok2 {
			return false
		}
		if len(g.Bytes) == 3 && bytes.Equal(g.Bytes, lfence) && !bytes.Equal(w.Bytes, lfence) {
			if g, ok2 = next(&got, &gotAt); !ok2 {
				return false
			}
		}
		switch {
		case len(w.Bytes) == 0:
			return len(g.Bytes) == 0
		case len(g.Bytes) == 0:
			// A call of pv_ops that does nothing is removed.
			if !s.callsPV(&w) {
				return false
			}
			continue
		case !s.sameInst(&w, &g):
			return false
		}
		after = g.Bytes[0] == 0xc3 || g.Bytes[0] == 0xe9 || g.Bytes[0] == 0xeb || g.Bytes[0] == 0xff
	}
}

var lfence = []byte{0x0f, 0xae, 0xe8}

// native are the instructions that Linux before 5.18 puts in place of a call through
// pv_ops, if there is no hypervisor that needs the call (patch_data_xxl,
// arch/x86/kernel/paravirt_patch.c). Newer kernels have them as alternatives.
var native = [][]byte{
	{0xfa},                               // cli
	{0xfb},                               // sti
	{0x9c, 0x58},                         // pushf; pop %rax
	{0x57, 0x9d},                         // push %rdi; popf
	{0x0f, 0x20, 0xd0},                   // mov %cr2,%rax
	{0x0f, 0x20, 0xd8},                   // mov %cr3,%rax
	{0x0f, 0x22, 0xdf},                   // mov %rdi,%cr3
	{0x0f, 0x09},                         // wbinvd
	{0x0f, 0x01, 0xf8},                   // swapgs
	{0x48, 0x89, 0xf8},                   // mov %rdi,%rax
	{0xc6, 0x07, 0x00},                   // movb $0,(%rdi): queued_spin_unlock
	{0x31, 0xc0},                         // xor %eax,%eax: vcpu_is_preempted
	{0x48, 0xcf},                         // iretq
	{0x0f, 0x01, 0xf8, 0x48, 0x0f, 0x07}, // swapgs; sysretq
}

// isNative reports whether got is one of the native instructions in place of want, a call
// or jump through pv_ops, with NOPs behind it.
func (s *starter) isNative(want, got []byte) bool {
	if len(want) < 6 || want[0] != 0xff {
		return false
	}
	for _, code := range native {
		if bytes.HasPrefix(got, code) && len(s.skipNOPs(got, len(code))) == 0 {
			return true
		}
	}
	return false
}

// callsPV reports whether an instruction is a call through a pointer in memory. All such
// calls that the kernel changes are through pv_ops.
func (s *starter) callsPV(in *disasm.Inst) bool {
	return len(in.Bytes) >= 6 && in.Bytes[0] == 0xff && (in.Bytes[1] == 0x15 || in.Bytes[1] == 0x14)
}

// jumpsPV is callsPV for a jump.
func (s *starter) jumpsPV(in *disasm.Inst) bool {
	return len(in.Bytes) >= 6 && in.Bytes[0] == 0xff && (in.Bytes[1] == 0x25 || in.Bytes[1] == 0x24)
}

// sameInst reports whether g is what the kernel makes of w.
func (s *starter) sameInst(w, g *disasm.Inst) bool {
	if bytes.Equal(w.Bytes, g.Bytes) {
		return true
	}
	we, ge := s.effectOf(w), s.effectOf(g)
	if we.leads() && we == ge {
		return true
	}
	if n := len(w.Bytes); n == len(g.Bytes) && !we.leads() {
		// An operand that is relative to the instruction.
		for i := 2; i+4 <= n; i++ {
			if bytes.Equal(w.Bytes[:i], g.Bytes[:i]) && bytes.Equal(w.Bytes[i+4:], g.Bytes[i+4:]) &&
				w.Addr+rel32(w.Bytes[i:]) == g.Addr+rel32(g.Bytes[i:]) {
				return true
			}
		}
	}
	name := ""
	if we.leads() {
		name = s.Classifier.at(we.target, s.t).name
	}
	switch {
	case s.callsPV(w):
		return ge.kind == call && s.begins(ge.target)
	case s.jumpsPV(w):
		return ge.kind == jump && s.begins(ge.target)
	case isReturnThunk(name):
		return ge.kind == ret || ge.kind == jump && isReturnThunk(s.Classifier.at(ge.target, s.t).name)
	case strings.HasPrefix(name, "__x86_indirect_"):
		reg := registerOf(name)
		if reg < 0 {
			return false
		}
		if ge.leads() {
			to := s.Classifier.at(ge.target, s.t)
			return ge.kind == we.kind && (registerOf(to.name) == reg || to.kind == otherOutOfLine)
		}
		return isIndirect(g.Bytes, reg, we.kind == call)
	case we.kind == call && ge.kind == call:
		// Call depth tracking: the call leads into the padding before the function.
		return ge.target < we.target && we.target-ge.target <= 16 && bytes.HasPrefix(s.memory(ge.target, 16), callDepthPad)
	}
	return false
}

func rel32(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

func (s *starter) effectOf(in *disasm.Inst) effect {
	code := in.Bytes
	for len(code) > 1 && (code[0] == 0x2e || code[0] == 0x3e) {
		code = code[1:] // a segment prefix, which means nothing
	}
	return s.decode(in.Addr+uint64(len(in.Bytes)-len(code)), code)
}

// isReturnThunk reports whether a function is one that a mitigation puts in place of RET
// (arch/x86/lib/retpoline.S).
func isReturnThunk(name string) bool {
	return strings.HasSuffix(name, "return_thunk") || name == "__x86_return_skl"
}

// registers are the names of the thunks' registers, by their numbers in instructions.
var registers = [...]string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}

// registerOf returns the number of the register through which a thunk such as
// __x86_indirect_thunk_rax jumps; -1 if the function is not a thunk.
func registerOf(name string) int {
	if !strings.HasPrefix(name, "__x86_indirect_") {
		return -1
	}
	return slices.Index(registers[:], name[strings.LastIndexByte(name, '_')+1:])
}

// isIndirect reports whether code is call *%reg or jmp *%reg.
func isIndirect(code []byte, reg int, call bool) bool {
	for len(code) > 0 && (code[0] == 0x2e || code[0] == 0x3e) {
		code = code[1:]
	}
	var want []byte
	if reg >= 8 {
		want = append(want, 0x41)
	}
	modrm := byte(0xe0)
	if call {
		modrm = 0xd0
	}
	return bytes.Equal(code, append(want, 0xff, modrm|byte(reg&7)))
}
