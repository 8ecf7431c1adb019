// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKindOfPoke(t *testing.T) {
	le, be := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	for _, tt := range []struct {
		machine  elf.Machine
		order    binary.ByteOrder
		old, new string
		want     PokeKind
		traps    bool
	}{
		{elf.EM_X86_64, le, "0f1f440000", "e811223344", PokeBatch, true},
		{elf.EM_X86_64, le, "6690", "eb10", PokeBatch, true},
		{elf.EM_X86_64, le, "cc89f45589", "e911223344", PokeBatch, true}, // a kprobe being optimised
		{elf.EM_X86_64, le, "49", "cc", PokeArmed, true},
		{elf.EM_X86_64, le, "cc", "49", PokeDisarmed, true},
		{elf.EM_X86_64, le, "e911223344", "cc89f45589", PokeUnoptimised, true},
		{elf.EM_X86_64, le, "", "5589e5", PokeCreated, false},
		{elf.EM_X86_64, le, "5589e5", "", PokeRemoved, false},
		{elf.EM_NONE, le, "49", "cc", PokeArmed, true}, // x86, as far as anything says

		{elf.EM_AARCH64, le, "1f2003d5", "0e000014", PokeBatch, true},  // nop -> b
		{elf.EM_AARCH64, be, "1f2003d5", "ffffff97", PokeBatch, true},  // nop -> bl: instructions are little-endian
		{elf.EM_AARCH64, le, "fd7bbfa9", "1f2003d5", PokeBatch, false}, // not one that a CPU may run meanwhile
		{elf.EM_AARCH64, le, "00112233445566ff", "00112233885566ff", PokeBatch, false},
		{elf.EM_AARCH64, le, "e9031eaa", "800020d4", PokeArmed, true},
		{elf.EM_AARCH64, le, "800020d4", "e9031eaa", PokeDisarmed, true},
		{elf.EM_AARCH64, le, "1f2003d5", "000020d4", PokeBatch, false}, // BRK by itself: the trap is the new bytes
		{elf.EM_AARCH64, le, "000020d4", "0e000014", PokeBatch, true},
		{elf.EM_AARCH64, le, "800020d4", "800020d4", PokeBatch, false},
		{elf.EM_AARCH64, le, "", "800020d4", PokeCreated, false},

		{elf.EM_PPC64, be, "60000000", "4ba97de5", PokeBatch, false}, // nop -> bl
		{elf.EM_PPC64, le, "00000060", "e57da94b", PokeBatch, false},
		{elf.EM_PPC64, be, "fbe1fff8", "7fe00008", PokeArmed, true},
		{elf.EM_PPC64, le, "f8ffe1fb", "0800e07f", PokeArmed, true},
		{elf.EM_PPC64, be, "0610000039e00001", "7fe0000839e00001", PokeArmed, true}, // a prefixed instruction
		{elf.EM_PPC64, le, "0800e07f", "f8ffe1fb", PokeDisarmed, true},
		{elf.EM_PPC64, be, "7fe00008", "48001234", PokeBatch, false}, // optimised: b to its slot
		{elf.EM_PPC64, be, "48001234", "7fe00008", PokeUnoptimised, true},
		{elf.EM_PPC64, be, "", "48001234", PokeCreated, false},

		{elf.EM_S390, be, "c004003b8834", "c0f4003b8834", PokeBatch, false}, // brcl 0 -> brcl 15
		{elf.EM_S390, be, "eb6ff0480024", "0002f0480024", PokeArmed, true},
		{elf.EM_S390, be, "eb6f", "0002", PokeArmed, true},
		{elf.EM_S390, be, "0002", "eb6f", PokeDisarmed, true},
	} {
		got := KindOfPoke(tt.machine, tt.order, unhex(tt.old), unhex(tt.new))
		if got != tt.want {
			t.Errorf("%v %s -> %s: %v, want %v", tt.machine, tt.old, tt.new, got, tt.want)
		}
		if traps := canTrap(tt.machine, got, unhex(tt.old), unhex(tt.new)); traps != tt.traps {
			t.Errorf("%v %s -> %s: a trap may stand there: %v, want %v", tt.machine, tt.old, tt.new, traps, tt.traps)
		}
	}
}

// TestWindows: a batch of three by task 1, a single poke by the same task at a
// lower address, then one by another task.
func TestWindows(t *testing.T) {
	const batch = PokeBatch
	w := newWindows([]placed{
		{1000, 0x500, 9, 5, batch},
		{2000, 0x100, 1, 5, batch},
		{2010, 0x200, 1, 5, batch},
		{2020, 0x300, 1, 5, batch},
		{900_000, 0x400, 1, 5, batch}, // could be of the same batch, but comes late
		{900_100, 0x080, 1, 5, batch}, // cannot: lower address
		{900_200, 0x600, 2, 5, batch},
		{900_300, 0x700, 2, 1, PokeArmed},
		{900_400, 0x700, 2, 1, PokeDisarmed},
		{900_500, 0x700, 2, 5, PokeUnoptimised},
		{900_600, 0x800, 2, 5, batch},
	})
	for _, tt := range []struct {
		name    string
		addr, t uint64
		want    []Window
	}{
		{"inside a batch", 0x200, 2010, []Window{{
			Addr: 0x200, Len: 5, Switch: 2010, Kind: batch,
			Proven: Interval{1000, 900_100}, Estimate: Interval{2000, 2020}}}},
		{"its last bytes, long before", 0x204, 1000, []Window{{
			Addr: 0x200, Len: 5, Switch: 2010, Kind: batch,
			Proven: Interval{1000, 900_100}, Estimate: Interval{2000, 2020}}}},
		{"before the proven window", 0x200, 999, nil},
		{"behind it", 0x200, 900_100, nil},
		{"the first poke: nothing bounds its start", 0x500, 0, []Window{{
			Addr: 0x500, Len: 5, Switch: 1000, Kind: batch,
			Proven: Interval{0, 2000}, Estimate: Interval{1000, 1000}}}},
		{"a kprobe armed: the trap is the new bytes from its time on", 0x700, 900_250, []Window{{
			Addr: 0x700, Len: 1, Switch: 900_300, Kind: PokeArmed,
			Proven: Interval{900_200, 900_300}, Estimate: Interval{900_300, 900_300}}}},
		{"a kprobe disarmed: the trap was the old bytes until its time; its undoing comes next", 0x700, 900_450, []Window{
			{Addr: 0x700, Len: 1, Switch: 900_400, Kind: PokeDisarmed,
				Proven: Interval{900_400, 900_500}, Estimate: Interval{900_400, 900_400}},
			{Addr: 0x700, Len: 5, Switch: 900_500, Kind: PokeUnoptimised,
				Proven: Interval{900_400, 900_500}, Estimate: Interval{900_500, 900_500}}}},
		{"never poked", 0x208, 2010, nil},
	} {
		if d := cmp.Diff(tt.want, w.At(tt.addr, 1, tt.t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestBatchOf256(t *testing.T) {
	var pokes []placed
	for i := range uint64(1000) {
		pokes = append(pokes, placed{1000 + i, 0x1000 + 16*i, 1, 5, PokeBatch})
	}
	w := newWindows(pokes)
	got := w.At(0x1000+16*500, 5, 1500)
	if len(got) != 1 || got[0].Proven != (Interval{1000 + 500 - batchMax, 1000 + 500 + batchMax}) {
		t.Errorf("a batch of %d reaches no further than that to either side: %+v", batchMax, got)
	}
}

func TestEmulate(t *testing.T) {
	const addr = 0x1000
	for _, tt := range []struct {
		machine elf.Machine
		insn    string
		want    TrapEffect
	}{
		{elf.EM_X86_64, "0f1f440000", TrapEffect{Kind: TrapNop}},
		{elf.EM_X86_64, "6690", TrapEffect{Kind: TrapNop}},
		{elf.EM_X86_64, "e9fb0f0000", TrapEffect{Kind: TrapJump, Target: 0x2000}},
		{elf.EM_X86_64, "ebfe", TrapEffect{Kind: TrapJump, Target: addr}},
		{elf.EM_X86_64, "740e", TrapEffect{Kind: TrapBranch, Target: 0x1010}},
		{elf.EM_X86_64, "0f84fa0f0000", TrapEffect{Kind: TrapBranch, Target: 0x2000}},
		{elf.EM_X86_64, "e8fb0f0000", TrapEffect{Kind: TrapCall, Target: 0x2000, Return: 0x1005}},
		{elf.EM_X86_64, "c3cccccccc", TrapEffect{Kind: TrapReturn}},
		{elf.EM_X86_64, "cc", TrapEffect{Kind: TrapProbe}},
		{elf.EM_X86_64, "4889e5", TrapEffect{}},
		{elf.EM_AARCH64, "1f2003d5", TrapEffect{Kind: TrapNop}},
		{elf.EM_AARCH64, "00040014", TrapEffect{Kind: TrapJump, Target: 0x2000}},
		{elf.EM_AARCH64, "ffffff97", TrapEffect{Kind: TrapCall, Target: 0xffc, Return: 0x1004, Links: true}},
		{elf.EM_AARCH64, "800020d4", TrapEffect{Kind: TrapProbe}},
		{elf.EM_AARCH64, "fd7bbfa9", TrapEffect{}},
		{elf.EM_PPC64, "7fe00008", TrapEffect{Kind: TrapProbe}},
		{elf.EM_S390, "0002", TrapEffect{Kind: TrapProbe}},
		{elf.EM_RISCV, "00000000", TrapEffect{}},
	} {
		if got := Emulate(tt.machine, addr, unhex(tt.insn)); got != tt.want {
			t.Errorf("%v %s: %+v, want %+v", tt.machine, tt.insn, got, tt.want)
		}
	}
}

func TestTrapOf(t *testing.T) {
	for _, tt := range []struct {
		machine elf.Machine
		order   binary.ByteOrder
		code    string
		n       int
		ok      bool
	}{
		{elf.EM_X86_64, binary.LittleEndian, "cc89f455", 1, true},
		{elf.EM_X86_64, binary.LittleEndian, "90", 1, false},
		{elf.EM_X86_64, binary.LittleEndian, "", 1, false},
		{elf.EM_AARCH64, binary.LittleEndian, "000020d4", 4, true}, // brk #0
		{elf.EM_AARCH64, binary.LittleEndian, "800020d4", 4, true}, // brk #4: a kprobe
		{elf.EM_AARCH64, binary.BigEndian, "800020d4", 4, true},    // of a big-endian kernel
		{elf.EM_AARCH64, binary.LittleEndian, "1f2003d5", 4, false},
		{elf.EM_PPC64, binary.LittleEndian, "0800e07f", 4, true},
		{elf.EM_PPC64, binary.BigEndian, "7fe00008", 4, true},
		{elf.EM_PPC64, binary.BigEndian, "60000000", 4, false},
		{elf.EM_S390, binary.BigEndian, "0002f0480024", 2, true},
		{elf.EM_S390, binary.BigEndian, "eb6ff0480024", 2, false},
		{elf.EM_RISCV, binary.LittleEndian, "73001000", 0, false},
	} {
		if n, ok := TrapOf(tt.machine, tt.order, unhex(tt.code)); n != tt.n || ok != tt.ok {
			t.Errorf("%v %s: %d %v, want %d %v", tt.machine, tt.code, n, ok, tt.n, tt.ok)
		}
	}
}

// TestWindowsUncertain: by how much clocks may differ, windows are longer at
// both ends.
func TestWindowsUncertain(t *testing.T) {
	w := newWindows([]placed{{400, 0x300, 1, 5, PokeBatch}, {500, 0x200, 1, 5, PokeBatch}, {600, 0x100, 1, 5, PokeBatch}})
	w.skew = 7
	for _, at := range []uint64{392, 393, 606, 607} {
		got := w.At(0x200, 1, at)
		if open := 393 <= at && at < 607; open != (len(got) == 1) || open && got[0].Proven != (Interval{393, 607}) {
			t.Errorf("at %d: %+v", at, got)
		}
	}
}

// TestWindowRows: each shape of record, made by another task than the batches
// around it: what bounds its window, and what it bounds.
func TestWindowRows(t *testing.T) {
	for _, tt := range []struct {
		name     string
		old, new string
		own      *Interval // the proven window of the poke at 500; nil: it has none
		before   uint64    // until when a trap may stand at the site poked at 400
	}{
		{"batch", "9090909090", "e911223344", &Interval{400, 600}, 500},
		{"kprobe armed: the trap stood already", "90", "cc", &Interval{400, 500}, 500},
		{"kprobe disarmed: the trap stands still", "cc", "90", &Interval{500, 600}, 500},
		{"kprobe unoptimised: both writes are done", "e911223344", "cc90909090", &Interval{400, 500}, 500},
		{"created: made outside of text_mutex, bounds nothing", "", "9090909090", nil, 600},
		{"removed: bounds nothing", "9090909090", "", nil, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.ticks(100, 300)
			w.poke(10, 400, 0x1100, "0f1f440000", "e811223344")
			w.poke(10, 500, 0x1080, tt.old, tt.new) // a lower address: of no batch with the others
			w.poke(10, 600, 0x1000, "0f1f440000", "e811223344")
			w.ticks(700, 1000)
			windows := w.replay().Windows()
			for _, at := range []uint64{399, 400, 499, 500, 599, 600} {
				got := windows.At(0x1080, 1, at)
				if open := tt.own != nil && tt.own.From <= at && at < tt.own.To; open != (len(got) == 1) {
					t.Errorf("at %d: %+v, want a window that is open in %v", at, got, tt.own)
				} else if open && got[0].Proven != *tt.own {
					t.Errorf("proven %v, want %v", got[0].Proven, *tt.own)
				}
			}
			if got := windows.At(0x1100, 1, 400); len(got) != 1 || got[0].Proven.To != tt.before {
				t.Errorf("the site poked before: %+v, want it open until %d", got, tt.before)
			}
		})
	}
}

// TestBatchOfOneTask: who could have been in a batch with the poke at 500.
func TestBatchOfOneTask(t *testing.T) {
	const batch = PokeBatch
	for _, tt := range []struct {
		name          string
		before, after placed
		want          Interval
	}{
		{"both neighbours", placed{400, 0x100, 1, 5, batch}, placed{600, 0x300, 1, 5, batch}, Interval{300, 700}},
		{"another task before", placed{400, 0x100, 2, 5, batch}, placed{600, 0x300, 1, 5, batch}, Interval{400, 700}},
		{"another task after", placed{400, 0x100, 1, 5, batch}, placed{600, 0x300, 2, 5, batch}, Interval{300, 600}},
		{"a higher address before", placed{400, 0x201, 1, 5, batch}, placed{600, 0x300, 1, 5, batch}, Interval{400, 700}},
		{"a lower address after", placed{400, 0x100, 1, 5, batch}, placed{600, 0x1ff, 1, 5, batch}, Interval{300, 600}},
		{"the same address is not descending", placed{400, 0x200, 1, 5, batch}, placed{600, 0x200, 1, 5, batch}, Interval{300, 700}},
		{"a kprobe is no batch", placed{400, 0x100, 1, 1, PokeArmed}, placed{600, 0x300, 1, 1, PokeDisarmed}, Interval{400, 600}},
	} {
		w := newWindows([]placed{{300, 0x400, 9, 5, batch}, tt.before, {500, 0x200, 1, 5, batch}, tt.after, {700, 0x050, 9, 5, batch}})
		var got []Interval
		for _, win := range w.At(0x200, 1, 500) {
			if win.Switch == 500 {
				got = append(got, win.Proven)
			}
		}
		if d := cmp.Diff([]Interval{tt.want}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// TestWordWindows: two tasks change words of an arm64 kernel at the same time.
func TestWordWindows(t *testing.T) {
	s := &scan{isa: elf.EM_AARCH64}
	w := s.newWindows([]placed{
		{1000, 0x100, 1, 4, PokeBatch},
		{1010, 0x200, 2, 4, PokeBatch},
		{1020, 0x0f8, 1, 0, PokeBatch}, // a literal
		{1030, 0x200, 2, 4, PokeArmed},
		{1040, 0x100, 1, 4, PokeBatch},
		{1050, 0x200, 1, 4, PokeDisarmed},
	})
	for _, tt := range []struct {
		name    string
		addr, t uint64
		want    []Window
	}{
		{"bounded by the task's next", 0x100, 1019, []Window{{
			Addr: 0x100, Len: 4, Switch: 1000, Kind: PokeBatch,
			Proven: Interval{0, 1020}, Estimate: Interval{1000, 1000}}}},
		{"behind it", 0x100, 1020, []Window{{
			Addr: 0x100, Len: 4, Switch: 1040, Kind: PokeBatch,
			Proven: Interval{1020, 1050}, Estimate: Interval{1040, 1040}}}},
		{"no trap stands at a literal", 0x0f8, 1020, nil},
		{"between two of one task", 0x203, 1015, []Window{
			{Addr: 0x200, Len: 4, Switch: 1010, Kind: PokeBatch,
				Proven: Interval{0, 1030}, Estimate: Interval{1010, 1010}},
			{Addr: 0x200, Len: 4, Switch: 1030, Kind: PokeArmed,
				Proven: Interval{1010, 1030}, Estimate: Interval{1030, 1030}}}},
		{"armed: the trap is the bytes", 0x200, 1035, nil},
		{"disarmed: the trap was the bytes until then", 0x200, 2000, []Window{{
			Addr: 0x200, Len: 4, Switch: 1050, Kind: PokeDisarmed,
			Proven: Interval{1050, MaxTime}, Estimate: Interval{1050, 1050}}}},
	} {
		if d := cmp.Diff(tt.want, w.At(tt.addr, 1, tt.t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	if got := w.At(0x0f0, 16, 1020); got != nil {
		t.Errorf("a literal among other words: %+v", got)
	}
}
