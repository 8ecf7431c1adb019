// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"iter"
	"math/bits"
	"slices"
)

// A Sample is a SAMPLE record (perf_output_sample of kernel/events/core.c,
// evsel__parse_sample of tools/perf/util/evsel.c). Its fields are those at fixed
// offsets. The parts that follow have variable sizes: each begins where the one
// before it ends. The method for a part finds it and the parts before it, and the
// Sample remembers where they are.
//
// If the event does not sample a part, its method returns the zero value and no
// error; Type has the parts that it samples. A part that does not fit in the
// record gives a [*FormatError], and so do all parts after it.
//
// A Sample can be used for one record after the other. What its methods return
// aliases Record.Raw. It serves one goroutine at a time.
type Sample struct {
	// Type says what the sample carries: its event's sample_type.
	Type   SampleType
	IP     uint64 // with SampleIP
	Addr   uint64 // with SampleAddr: its meaning depends on the event
	Period uint64 // with SamplePeriod: events since the sample before
	SampleID

	r     *Recording
	rec   Record
	found int                        // parts whose end is known
	start [numSampleParts + 1]uint32 // of the parts, as offsets in rec.Raw
}

// The parts that follow the fixed fields, in their order.
const (
	partRead = iota
	partCallchain
	partRaw
	partBranchStack
	partRegsUser
	partStackUser
	partWeight
	partDataSrc
	partTransaction
	partRegsIntr
	partPhysAddr
	partCgroup
	partDataPageSize
	partCodePageSize
	partAux
	numSampleParts
)

// sampleParts has the bits of sample_type that select each part.
var sampleParts = [numSampleParts]SampleType{
	partRead:         SampleRead,
	partCallchain:    SampleCallchain,
	partRaw:          SampleRaw,
	partBranchStack:  SampleBranchStack,
	partRegsUser:     SampleRegsUser,
	partStackUser:    SampleStackUser,
	partWeight:       SampleWeight | SampleWeightStruct,
	partDataSrc:      SampleDataSrc,
	partTransaction:  SampleTransaction,
	partRegsIntr:     SampleRegsIntr,
	partPhysAddr:     SamplePhysAddr,
	partCgroup:       SampleCgroup,
	partDataPageSize: SampleDataPageSize,
	partCodePageSize: SampleCodePageSize,
	partAux:          SampleAux,
}

// What precedes ADDR and PERIOD; before IP only IDENTIFIER does.
const (
	beforeAddr   = SampleIdentifier | SampleIP | SampleTID | SampleTime
	beforePeriod = beforeAddr | SampleAddr | SampleEventID | SampleStreamID | SampleCPU
)

// Sample decodes the fixed fields of a SAMPLE record into s, without allocating; see
// [Sample] for the other parts. s keeps rec.Raw. The error, where the record is too
// short for its fixed fields or names no event of the recording, is a [*FormatError].
func (r *Recording) Sample(rec *Record, s *Sample) error {
	raw := rec.Raw
	if rec.Type != RecordSample || len(raw) < headerSize {
		*s = Sample{}
		return r.notA(rec, RecordSample, "record of %d bytes is too short", len(raw))
	}
	l, ev := r.locate(r.samples, raw, headerSize)
	if l == nil {
		*s = Sample{}
		return r.notLocated(rec)
	}
	if ev == nil {
		id, _ := l.readID(raw, headerSize, r.endian)
		*s = Sample{}
		return r.recordErr(rec, "no event of the recording has the id %d", id)
	}
	typ, e := ev.Attr.SampleType, r.endian
	end := headerSize + 8*bits.OnesCount64(uint64(typ&(beforePeriod|SamplePeriod)))
	if end > len(raw) {
		*s = Sample{}
		return r.notLocated(rec)
	}
	ev.sample.decode(raw[headerSize:], e, ev, &s.SampleID)
	s.Type, s.IP, s.Addr, s.Period = typ, 0, 0, 0
	if typ&SampleIP != 0 {
		at := headerSize
		if typ&SampleIdentifier != 0 {
			at += 8
		}
		s.IP = e.u64(raw[at:])
	}
	if typ&SampleAddr != 0 {
		s.Addr = e.u64(raw[headerSize+8*bits.OnesCount64(uint64(typ&beforeAddr)):])
	}
	if typ&SamplePeriod != 0 {
		s.Period = e.u64(raw[end-8:])
	}
	s.r, s.rec = r, *rec
	s.found, s.start[0] = 0, uint32(end)
	return nil
}

// part returns the bytes of a part, nil if the sample has none.
func (s *Sample) part(p int) ([]byte, error) {
	if s.Type&sampleParts[p] == 0 {
		return nil, nil
	}
	if s.found <= p {
		if err := s.find(p); err != nil {
			return nil, err
		}
	}
	return s.rec.Raw[s.start[p]:s.start[p+1]:s.start[p+1]], nil
}

// find finds the parts up to p.
func (s *Sample) find(p int) error {
	for ; s.found <= p; s.found++ {
		at := s.start[s.found]
		if s.Type&sampleParts[s.found] == 0 {
			s.start[s.found+1] = at
			continue
		}
		b := s.rec.Raw[at:]
		if len(b) < 8 {
			return s.r.recordErr(&s.rec, "the sample ends before its %s", partNames[s.found])
		}
		n, err := s.partSize(s.found, b)
		if err != nil {
			return err
		}
		if n > uint64(len(b)) {
			return s.r.recordErr(&s.rec, "%s does not fit in the %d bytes that are left of the sample", partNames[s.found], len(b))
		}
		s.start[s.found+1] = at + uint32(n)
	}
	return nil
}

var partNames = [numSampleParts]string{
	partRead:         "READ",
	partCallchain:    "CALLCHAIN",
	partRaw:          "RAW",
	partBranchStack:  "BRANCH_STACK",
	partRegsUser:     "REGS_USER",
	partStackUser:    "STACK_USER",
	partWeight:       "WEIGHT",
	partDataSrc:      "DATA_SRC",
	partTransaction:  "TRANSACTION",
	partRegsIntr:     "REGS_INTR",
	partPhysAddr:     "PHYS_ADDR",
	partCgroup:       "CGROUP",
	partDataPageSize: "DATA_PAGE_SIZE",
	partCodePageSize: "CODE_PAGE_SIZE",
	partAux:          "AUX",
}

// partSize returns the size of the part that b begins with, which has 8 bytes
// at least; more than len(b) if it does not end there.
func (s *Sample) partSize(p int, b []byte) (uint64, error) {
	e, attr := s.r.endian, &s.Event.Attr
	switch p {
	case partRead:
		if attr.ReadFormat&^readKnown != 0 {
			return 0, s.r.unsupported(&s.rec, "read format %#x", uint64(attr.ReadFormat))
		}
		return e.readSize(attr.ReadFormat, b), nil
	case partCallchain:
		return 8 + arraySize(e.u64(b), 8, len(b)), nil
	case partRaw:
		n := 4 + uint64(e.u32(b))
		if n&7 != 0 {
			return 0, s.r.recordErr(&s.rec, "RAW of %d bytes, which leaves what follows unaligned", n-4)
		}
		return n, nil
	case partBranchStack:
		head, entry := s.branchSizes()
		return head + arraySize(e.u64(b), entry, len(b)), nil
	case partRegsUser:
		return s.regsSize(b, attr.SampleRegsUser)
	case partRegsIntr:
		return s.regsSize(b, attr.SampleRegsIntr)
	case partStackUser:
		// The size that is valid follows the stack, if there is any.
		n := e.u64(b)
		if n == 0 {
			return 8, nil
		}
		return 16 + arraySize(n, 1, len(b)), nil
	case partAux:
		return 8 + arraySize(e.u64(b), 1, len(b)), nil
	}
	return 8, nil
}

// value returns the u64 that a part consists of.
func (s *Sample) value(p int) (uint64, error) {
	b, err := s.part(p)
	if b == nil {
		return 0, err
	}
	return s.r.endian.u64(b), nil
}

// Read returns the values of the event's counter or group of counters.
func (s *Sample) Read() (ReadValues, error) {
	b, err := s.part(partRead)
	if b == nil {
		return ReadValues{}, err
	}
	return s.r.endian.readValues(s.Event.Attr.ReadFormat, b), nil
}

// Callchain returns the call chain: addresses, the innermost first, between
// values from CallchainContextMax on that say in whose code those which follow
// lie. A chain whose user part comes later ends with CallchainUserDeferred and
// a cookie; see [DeferredCallchains].
func (s *Sample) Callchain() (Words, error) {
	b, err := s.part(partCallchain)
	if b == nil {
		return Words{}, err
	}
	return Words{b[8:], s.r.endian}, nil
}

// Raw returns the event's own data, of a tracepoint its fields; their layout is
// in the tracepoint's format ([Recording.TracingData]). Up to 7 bytes of
// padding may end it.
func (s *Sample) Raw() ([]byte, error) {
	b, err := s.part(partRaw)
	if b == nil {
		return nil, err
	}
	return b[4:], nil
}

// The bits of Attr.BranchSampleType that change the layout of a branch stack.
const (
	branchHWIndex  = 1 << 17 // PERF_SAMPLE_BRANCH_HW_INDEX
	branchCounters = 1 << 19 // PERF_SAMPLE_BRANCH_COUNTERS
	branchEntry    = 24      // u64 from, to, flags
)

// branchSizes returns the bytes before the entries, and the bytes of each entry with its
// counters.
func (s *Sample) branchSizes() (head, entry uint64) {
	head, entry = 8, branchEntry
	if s.Event.Attr.BranchSampleType&branchHWIndex != 0 {
		head += 8
	}
	if s.Event.branchCounters {
		entry += 8
	}
	return head, entry
}

// A BranchStack is a sample's branch stack: the branches that the CPU took
// last, the youngest first.
type BranchStack struct {
	// HWIndex is the index of the first entry in the CPU's table, if HasHWIndex is
	// set. perf uses it to join the call stacks of several samples.
	HWIndex    uint64
	HasHWIndex bool
	entries    []byte
	counters   []byte // u64 for each entry, behind all entries
	order      endian
}

// A Branch is one entry of a [BranchStack] (struct perf_branch_entry).
type Branch struct {
	From, To uint64
	Flags    BranchFlags
	Counters uint64 // occurrences of the group's events, as the PMU packs them; 0 where not recorded
}

// BranchStack returns the branch stack. Branches have counters if any event of the group asks for
// them. A file that is read as a stream says only behind its samples which events are a group: then
// [Sample.Rest] has the counters of an event that does not ask for them itself.
func (s *Sample) BranchStack() (BranchStack, error) {
	b, err := s.part(partBranchStack)
	if b == nil {
		return BranchStack{}, err
	}
	e := s.r.endian
	stack := BranchStack{order: e}
	head, entry := s.branchSizes()
	if head > 8 {
		stack.HWIndex, stack.HasHWIndex = e.u64(b[8:]), true
	}
	n := e.u64(b) * branchEntry
	stack.entries = b[head : head+n]
	if entry > branchEntry {
		stack.counters = b[head+n:]
	}
	return stack, nil
}

// Len returns the number of branches.
func (b BranchStack) Len() int { return len(b.entries) / branchEntry }

// At returns branch i, the youngest for 0; like an index expression, it panics
// where there is none.
func (b BranchStack) At(i int) Branch {
	e := b.entries[i*branchEntry:]
	br := Branch{From: b.order.u64(e), To: b.order.u64(e[8:]), Flags: b.order.branchFlags(e[16:])}
	if b.counters != nil {
		br.Counters = b.order.u64(b.counters[8*i:])
	}
	return br
}

// All returns the branches with their indices.
func (b BranchStack) All() iter.Seq2[int, Branch] {
	return func(yield func(int, Branch) bool) {
		for i := range b.Len() {
			if !yield(i, b.At(i)) {
				return
			}
		}
	}
}

// BranchFlags are the bit-fields of struct perf_branch_entry. Bit n is bit n of
// the little-endian C layout, whatever the recording's byte order.
type BranchFlags uint64

// Mispredicted reports whether the branch was mispredicted. With neither this
// nor Predicted, the CPU does not say.
func (f BranchFlags) Mispredicted() bool { return f&1 != 0 }

// Predicted reports whether the branch was predicted.
func (f BranchFlags) Predicted() bool { return f>>1&1 != 0 }

// InTX reports whether the branch was in a transaction.
func (f BranchFlags) InTX() bool { return f>>2&1 != 0 }

// Abort reports whether a transaction was aborted.
func (f BranchFlags) Abort() bool { return f>>3&1 != 0 }

// Cycles returns the cycles since the branch before, 0 if not known.
func (f BranchFlags) Cycles() uint16 { return uint16(f >> 4) }

// Type returns the kind of branch, PERF_BR_*.
func (f BranchFlags) Type() uint8 { return uint8(f >> 20 & 15) }

// Spec returns the outcome of speculation, PERF_BR_SPEC_*.
func (f BranchFlags) Spec() uint8 { return uint8(f >> 24 & 3) }

// NewType returns, where Type is PERF_BR_EXTEND_ABI, the kind, PERF_BR_NEW_*.
func (f BranchFlags) NewType() uint8 { return uint8(f >> 26 & 15) }

// Priv returns the privilege level, PERF_BR_PRIV_*.
func (f BranchFlags) Priv() uint8 { return uint8(f >> 30 & 7) }

// branchBits are the widths of the fields, from bit 0 on.
var branchBits = [...]int{1, 1, 1, 1, 16, 4, 2, 4, 3}

// branchFlags reads the bit-fields, which on a big-endian machine begin with
// the most significant bit (evsel__bitfield_swap_branch_flags).
func (e endian) branchFlags(b []byte) BranchFlags {
	v := e.u64(b)
	if e == little {
		return BranchFlags(v)
	}
	var f uint64
	at := 0
	for _, n := range branchBits {
		f |= v >> (64 - at - n) & (1<<n - 1) << at
		at += n
	}
	return BranchFlags(f)
}

// A RegsABI says which registers a sample has (enum perf_sample_regs_abi).
type RegsABI uint64

// The ABIs.
const (
	RegsNone RegsABI = 0 // no registers: for those of user space, of a kernel thread
	Regs32   RegsABI = 1
	Regs64   RegsABI = 2
)

// A Regs is the registers of a task at the moment of a sample.
type Regs struct {
	ABI RegsABI
	// Mask has a bit for each register, by the numbers of the architecture's
	// arch/*/include/uapi/asm/perf_regs.h.
	Mask uint64
	// Values are those of the bits in Mask, the lowest first; of a 32-bit task
	// they are 64 bits wide too. Empty with RegsNone.
	Values Words
}

func (s *Sample) regsSize(b []byte, mask uint64) (uint64, error) {
	switch abi := RegsABI(s.r.endian.u64(b)); abi {
	case RegsNone:
		return 8, nil
	case Regs32, Regs64:
		return 8 + 8*uint64(bits.OnesCount64(mask)), nil
	default:
		return 0, s.r.unsupported(&s.rec, "registers of ABI %d", uint64(abi))
	}
}

func (s *Sample) regs(p int, mask uint64) (Regs, error) {
	b, err := s.part(p)
	if b == nil {
		return Regs{}, err
	}
	return Regs{ABI: RegsABI(s.r.endian.u64(b)), Mask: mask, Values: Words{b[8:], s.r.endian}}, nil
}

// Value returns the value of a register, and whether the sample has it.
func (g *Regs) Value(reg int) (uint64, bool) {
	if reg < 0 || reg > 63 || g.Mask>>reg&1 == 0 || g.Values.Len() == 0 {
		return 0, false
	}
	return g.Values.At(bits.OnesCount64(g.Mask & (1<<reg - 1))), true
}

// UserRegs returns the registers that the task has in user space.
func (s *Sample) UserRegs() (Regs, error) {
	if s.Event == nil {
		return Regs{}, nil
	}
	return s.regs(partRegsUser, s.Event.Attr.SampleRegsUser)
}

// IntrRegs returns the registers at the moment of the sample itself.
func (s *Sample) IntrRegs() (Regs, error) {
	if s.Event == nil {
		return Regs{}, nil
	}
	return s.regs(partRegsIntr, s.Event.Attr.SampleRegsIntr)
}

// UserStack returns the start of the task's stack in user space, from the stack
// pointer on. It is nil for a kernel thread.
func (s *Sample) UserStack() ([]byte, error) {
	b, err := s.part(partStackUser)
	if len(b) < 16 {
		return nil, err
	}
	// The bytes after the valid size are undefined.
	stack := b[8 : len(b)-8]
	return stack[:min(s.r.endian.u64(b[len(b)-8:]), uint64(len(stack)))], nil
}

// A Weight is how much the sample's event cost, in units of the hardware
// (union perf_sample_weight).
type Weight uint64

// Weight returns the weight.
func (s *Sample) Weight() (Weight, error) {
	v, err := s.value(partWeight)
	return Weight(v), err
}

// Var1 returns, with SampleWeightStruct, the weight itself: of a load on x86
// its latency in cycles.
func (w Weight) Var1() uint32 { return uint32(w) }

// Var2 returns, with SampleWeightStruct, the instruction's latency on x86.
func (w Weight) Var2() uint16 { return uint16(w >> 32) }

// Var3 returns, with SampleWeightStruct, the retire latency on x86 and the
// cycles in the pipeline stage on powerpc.
func (w Weight) Var3() uint16 { return uint16(w >> 48) }

// A DataSrc says where the data of a memory access came from (union
// perf_mem_data_src). The meaning of the fields is that of PERF_MEM_*.
type DataSrc uint64

// DataSrc returns where the data of a sampled memory access came from.
func (s *Sample) DataSrc() (DataSrc, error) {
	v, err := s.value(partDataSrc)
	return DataSrc(v), err
}

// Op returns mem_op, PERF_MEM_OP_*: load, store and so on.
func (d DataSrc) Op() uint8 { return uint8(d & 31) }

// Lvl returns mem_lvl, PERF_MEM_LVL_*: the level of the memory hierarchy.
func (d DataSrc) Lvl() uint16 { return uint16(d >> 5 & 0x3fff) }

// Snoop returns mem_snoop, PERF_MEM_SNOOP_*.
func (d DataSrc) Snoop() uint8 { return uint8(d >> 19 & 31) }

// Lock returns mem_lock, PERF_MEM_LOCK_*.
func (d DataSrc) Lock() uint8 { return uint8(d >> 24 & 3) }

// DTLB returns mem_dtlb, PERF_MEM_TLB_*.
func (d DataSrc) DTLB() uint8 { return uint8(d >> 26 & 127) }

// LvlNum returns mem_lvl_num, PERF_MEM_LVLNUM_*.
func (d DataSrc) LvlNum() uint8 { return uint8(d >> 33 & 15) }

// Remote returns mem_remote: whether the level is on another node.
func (d DataSrc) Remote() bool { return d>>37&1 != 0 }

// SnoopX returns mem_snoopx, PERF_MEM_SNOOPX_*.
func (d DataSrc) SnoopX() uint8 { return uint8(d >> 38 & 3) }

// Blk returns mem_blk, PERF_MEM_BLK_*.
func (d DataSrc) Blk() uint8 { return uint8(d >> 40 & 7) }

// Hops returns mem_hops, PERF_MEM_HOPS_*.
func (d DataSrc) Hops() uint8 { return uint8(d >> 43 & 7) }

// Transaction returns the reason of a transaction's abort, PERF_TXN_*.
func (s *Sample) Transaction() (uint64, error) { return s.value(partTransaction) }

// PhysAddr returns the physical address of Addr.
func (s *Sample) PhysAddr() (uint64, error) { return s.value(partPhysAddr) }

// Cgroup returns the id of the task's cgroup; CGROUP records have the paths.
func (s *Sample) Cgroup() (uint64, error) { return s.value(partCgroup) }

// DataPageSize returns the size in bytes of the page of Addr.
func (s *Sample) DataPageSize() (uint64, error) { return s.value(partDataPageSize) }

// CodePageSize returns the size in bytes of the page of IP.
func (s *Sample) CodePageSize() (uint64, error) { return s.value(partCodePageSize) }

// Aux returns the trace that was sampled, the last bytes of an AUX area.
func (s *Sample) Aux() ([]byte, error) {
	b, err := s.part(partAux)
	if b == nil {
		return nil, err
	}
	return b[8:], nil
}

// Rest returns what follows the last part. It is empty, save for an event whose
// sample_type has bits that this package does not know. Asking for it checks
// the whole sample.
func (s *Sample) Rest() ([]byte, error) {
	if s.r == nil {
		return nil, nil
	}
	if err := s.find(numSampleParts - 1); err != nil {
		return nil, err
	}
	return s.rec.Raw[s.start[numSampleParts]:], nil
}

// markBranchCounters marks the events whose branch stacks have counters: all events
// of a group in which one event asks for counters (is_branch_counters_group
// of arch/x86/events/intel/lbr.c, evsel__has_branch_counters).
func (r *Recording) markBranchCounters() {
	for _, ev := range r.events {
		ev.branchCounters = ev.Attr.BranchSampleType&branchCounters != 0
	}
	groups, err := r.GroupDesc()
	if err != nil {
		return // none, or damaged; a caller of GroupDesc gets the error
	}
	room := uint64(len(r.events)) // for members: no event belongs to two groups
	for _, g := range groups {
		first, n := uint64(g.Leader), uint64(g.Members)
		if first+n > uint64(len(r.events)) || n > room {
			continue
		}
		room -= n
		members := r.events[first : first+n]
		if slices.ContainsFunc(members, func(ev *Event) bool { return ev.branchCounters }) {
			for _, ev := range members {
				ev.branchCounters = true
			}
		}
	}
}
