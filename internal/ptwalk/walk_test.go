// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package ptwalk

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A logged is an instruction of the log.
type logged struct {
	ip  uint64
	raw []byte
}

// readLog reads trace.bin and insns.txt of a directory, see the README there: what each
// CPU executed and completed.
func readLog(t *testing.T, dir string) map[int][]logged {
	t.Helper()
	entries := make(map[uint64]string)
	var insns []logged
	list, err := os.Open(filepath.Join(dir, "insns.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for sc := bufio.NewScanner(list); sc.Scan(); {
		f := strings.Fields(sc.Text())
		addr := func(s string) uint64 {
			v, err := strconv.ParseUint(s, 16, 64)
			if err != nil {
				t.Fatalf("insns.txt: %q: %v", sc.Text(), err)
			}
			return v
		}
		switch f[0] {
		case "I":
			raw, err := hex.DecodeString(f[4])
			if err != nil {
				t.Fatal(err)
			}
			insns = append(insns, logged{addr(f[2]), raw})
		case "E":
			entries[addr(f[1])] = f[2]
		}
	}
	file, err := os.Open(filepath.Join(dir, "trace.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	// An instruction that an exception interrupted is begun again later: it was not
	// completed. The frames that the CPU pushes say where the exception came.
	type begun struct {
		id    uint32
		frame [4]uint64
		n     int
		ok    bool
	}
	type cpu struct {
		out   []uint32
		event bool // an event came after the last instruction
		next  begun
	}
	all := make(map[int]*cpu)
	rep := func(raw []byte) bool {
		i := 0
		for i < len(raw)-1 && (raw[i] == 0xf2 || raw[i] == 0xf3 || raw[i] == 0x66 || raw[i]&0xf0 == 0x40 || raw[i] == 0x65) {
			i++
		}
		op := raw[i]
		return (raw[0] == 0xf3 || raw[0] == 0xf2) && (op >= 0x6c && op <= 0x6f || op >= 0xa4 && op <= 0xa7 || op >= 0xaa && op <= 0xaf)
	}
	d, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	flush := func(c *cpu) {
		q := &c.next
		if !q.ok {
			return
		}
		q.ok = false
		x := insns[q.id]
		name, entry := entries[x.ip]
		entry = entry || q.n > 0
		if len(c.out) == 0 {
			c.out = append(c.out, q.id)
			return
		}
		last := insns[c.out[len(c.out)-1]]
		in := d.Decode(last.raw, last.ip)
		if (in.Class == disasm.Call || in.Class == disasm.Jump || in.Class == disasm.CondJump) && in.Target == x.ip {
			entry = false
		}
		switch {
		case entry && name == "entry_SYSCALL_64":
		case entry:
			frame := q.frame[:]
			switch name {
			case "asm_exc_page_fault", "asm_exc_general_protection", "asm_exc_invalid_tss", "asm_exc_segment_not_present",
				"asm_exc_stack_segment", "asm_exc_alignment_check", "asm_exc_double_fault", "asm_exc_control_protection":
				frame = frame[1:] // the error code
			}
			rip, fromUser := frame[0], frame[1]&3 == 3
			if fromUser || last.raw[0] == 0xcc && rip == last.ip+1 && name == "asm_exc_int3" {
				c.event = fromUser
				break
			}
			if rip == last.ip && (name == "asm_exc_page_fault" || name == "asm_exc_general_protection" || name == "asm_exc_invalid_op" || rep(last.raw)) {
				c.out = c.out[:len(c.out)-1]
			}
			c.event = true
			c.out = append(c.out, q.id)
			return
		case x.ip == last.ip && !c.event && rep(last.raw):
			return // a further round of the same instruction
		}
		c.event = false
		c.out = append(c.out, q.id)
	}
	r := bufio.NewReaderSize(file, 1<<20)
	for {
		var b [16]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			break
		}
		tsc, id, what := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
		c := all[int(what&0xff)]
		if c == nil {
			c = &cpu{}
			all[int(what&0xff)] = c
		}
		if what>>8&0xff == 1 { // a word of the frame
			c.next.frame[what>>16&3] = tsc
			c.next.n++
			continue
		}
		flush(c)
		c.next = begun{id: id, ok: true}
	}
	cpus := make(map[int][]logged)
	for n, c := range all {
		flush(c)
		for _, id := range c.out {
			cpus[n] = append(cpus[n], insns[id])
		}
	}
	return cpus
}

// A comparison counts how a walk differs from the log.
type comparison struct {
	equal, other, missing, errors, int3, traps, emulated, logged int
}

func (c *comparison) add(o comparison) {
	c.equal, c.other, c.missing = c.equal+o.equal, c.other+o.other, c.missing+o.missing
	c.errors, c.int3, c.traps, c.emulated, c.logged = c.errors+o.errors, c.int3+o.int3, c.traps+o.traps, c.emulated+o.emulated, c.logged+o.logged
}

// compare walks the trace of a CPU, and compares each instruction with the log. Times are
// made less exact by some ticks of the TSC on either side.
func compare(t *testing.T, text Text, r *replay.Replay, trace []byte, inexact uint64, want []logged) (c comparison) {
	events, err := Events(trace)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		events[i].First -= inexact
		events[i].Last += inexact
	}
	d, err := disasm.New(r.Machine(), binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	handler := r.Image.At(r.Image.Horizon()).Lookup("asm_exc_int3")
	if len(handler) != 1 {
		t.Fatal("asm_exc_int3 is not known")
	}
	k, shown := 0, 0
	clock := &r.Report.Clock
	w := &Walker{Text: text, Decoder: d, Handler: handler[0].Addr,
		Time: func(tsc uint64) uint64 {
			ns, err := clock.TSC(tsc)
			if err != nil {
				t.Fatal(err)
			}
			return ns
		},
		Emit: func(x Executed) {
			if k < len(want) && want[k].ip == x.IP && string(want[k].raw) == string(x.Raw[:x.Len]) {
				if x.Raw[0] == 0xcc {
					c.int3++
				}
				c.equal++
				k++
				return
			}
			c.other++
			if shown++; shown <= 5 && k < len(want) {
				t.Logf("instruction %d: decoded %#x % x, executed %#x % x", k, x.IP, x.Raw[:x.Len], want[k].ip, want[k].raw)
			}
			// Find the place again.
			for j := k; j < min(k+20000, len(want)); j++ {
				if want[j].ip == x.IP {
					k = j
					if string(want[j].raw) == string(x.Raw[:x.Len]) || want[j].raw[0] == 0xcc {
						k++
					}
					break
				}
			}
		}}
	begin := time.Now()
	w.Walk(events)
	for i, err := range w.Errors {
		if i < 3 {
			t.Log(err)
		}
	}
	c.errors, c.traps, c.emulated, c.logged = len(w.Errors), w.Traps, w.Emulated, len(want)
	c.missing = len(want) - c.equal
	took := time.Since(begin)
	t.Logf("%+v, %d wrong tries, %v, %d ns an instruction", c, w.Tries, took, int(took)/max(c.equal+c.other, 1))
	return c
}

// plainText is perf's copy of kernel text, as if it never changed.
type plainText struct{ core *kcore.Core }

func (p plainText) Read(addr, t uint64, buf []byte) timeline.Block {
	all := timeline.Validity{Until: timeline.MaxTime}
	for n := len(buf); n > 0; n-- {
		if b := p.core.Bytes(addr, n); b != nil {
			return timeline.Block{Standing: timeline.Known, Given: copy(buf, b), Validity: all, NoTrap: all}
		}
	}
	return timeline.Block{}
}

func (plainText) Alternatives(addr, first, last uint64) []replay.Alternative { return nil }
func (plainText) ProbeMayResumeAt(probe, addr, t uint64) bool                { return true }

// TestWalk decodes the Intel PT traces of three CPUs, made of a log of all that they
// executed while kernel text changed. Without a look at the log, every instruction comes
// back, and every trap is found.
func TestWalk(t *testing.T) {
	if testing.Short() {
		t.Skip("reads large traces")
	}
	dir := filepath.Join(corpus.Large(t, "x86_64/exec"), "pt")
	r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	log := readLog(t, dir)
	var sum, inexact, plain comparison
	const ticks = 100_000_000 // 40 ms, of windows that are seconds wide in an emulator
	traps := 0
	for cpu := range 3 {
		trace, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("cpu%d.pt", cpu)))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range log[cpu] {
			if x.raw[0] == 0xcc {
				traps++
			}
		}
		sum.add(compare(t, r.Cursor(), r, trace, 0, log[cpu]))
		inexact.add(compare(t, r.Cursor(), r, trace, ticks, log[cpu]))
		plain.add(compare(t, plainText{r.Snapshot.Core}, r, trace, 0, log[cpu]))
	}
	t.Logf("over the text of each time: %+v; the log has %d INT3", sum, traps)
	t.Logf("with times that are exact to %d ticks: %+v", ticks, inexact)
	t.Logf("over perf's copy of kernel text: %+v", plain)
	// What CPUs executed after their last packet is not in a trace.
	want := comparison{equal: 5687716, missing: 29, int3: traps, traps: traps, emulated: traps, logged: 5687745}
	if sum != want || inexact != want || traps != 1177 {
		t.Errorf("want %+v", want)
	}
	if plain.errors < 100 || plain.missing < 1_000_000 {
		t.Error("text that never changes is no worse: the comparison shows nothing")
	}
}

var execution = flag.String("execution", "", "TestExecution: walk the execution in `DIR`, which has the form of x86_64/exec/pt")

// TestExecution is TestWalk with testdata/pt, which is small, or with another execution
// whose traces "go test ./examples -run TestExecution -execution DIR" has made.
func TestExecution(t *testing.T) {
	dir, rec := filepath.Join("..", "..", "testdata", "pt"), "cut.data"
	if *execution != "" {
		dir, rec = *execution, "rec.data"
	}
	r, err := replay.Load(filepath.Join(dir, rec), replay.Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var sum comparison
	traps := 0
	for cpu, steps := range readLog(t, dir) {
		trace, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("cpu%d.pt", cpu)))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range steps {
			if x.raw[0] == 0xcc {
				traps++
			}
		}
		c := compare(t, r.Cursor(), r, trace, 0, steps)
		if c.missing > 100 { // after the last packet
			t.Errorf("CPU %d: %d of %d instructions are missing", cpu, c.missing, c.logged)
		}
		sum.add(c)
	}
	t.Logf("%+v, %d INT3 in the log", sum, traps)
	// The INT3 of a probe that is armed for long is in the text: traps has only those that
	// CPUs met while text was changed. Another execution may have none of them.
	if sum.other != 0 || sum.errors != 0 || sum.int3 != traps || sum.traps == 0 && *execution == "" {
		t.Errorf("%+v, want %d INT3, nothing else than in the log, no errors", sum, traps)
	}
}

// code is text for tests of single decisions, with alternatives at some places.
type code struct {
	text map[uint64]string // by address
	alts map[uint64][]replay.Alternative
	// slots are addresses in slots, and the probes that they serve.
	slots map[uint64]uint64
}

func (c code) Read(addr, t uint64, buf []byte) timeline.Block {
	all := timeline.Validity{Until: timeline.MaxTime}
	b := timeline.Block{Validity: all}
	if s, ok := c.text[addr]; ok {
		b.Standing, b.Given = timeline.Known, copy(buf, s)
	}
	if b.Given = min(b.Given, len(buf)); c.alts[addr] == nil {
		b.NoTrap = all
	}
	return b
}

func (c code) Alternatives(addr, first, last uint64) []replay.Alternative { return c.alts[addr] }
func (c code) ProbeMayResumeAt(probe, addr, t uint64) bool {
	return c.slots[addr] == 0 || c.slots[addr] == probe
}

// TestDecisions: two places of the same straight code are changed at the same time, each
// from a NOP to a jump. Only where the handler of INT3 returns to shows which of them
// trapped.
func TestDecisions(t *testing.T) {
	const (
		first, second, end = 0x1000, 0x1002, 0x1004
		handler, inner     = 0x9000, 0x9100
		away1, away2       = 0x2000, 0x3000
		probe1, probe2     = 0x7000, 0x7002
		slot1, slot2       = 0x8000, 0x8100
	)
	int3 := disasm.Inst{Class: disasm.Trap, Bytes: []byte{0xcc}}
	at := func(addr, target uint64) []replay.Alternative {
		trap := int3
		trap.Addr = addr
		all := timeline.Validity{Until: timeline.MaxTime}
		return []replay.Alternative{
			{Inst: disasm.Inst{Addr: addr, Bytes: []byte{0x66, 0x90}}, Standing: timeline.Known, Validity: all, Possible: true},
			{Inst: disasm.Inst{Addr: addr, Bytes: []byte{0xeb, 0x00}, Class: disasm.Jump, Target: target, HasTarget: true}, Standing: timeline.Known, Validity: all, Possible: true},
			{Inst: trap, Trap: true, Effect: replay.Effect{Kind: replay.EffectJump, Target: target, Next: addr + 2}, Standing: timeline.Known, Validity: all, Possible: true},
		}
	}
	text := code{
		text: map[uint64]string{
			first: "\x66\x90", second: "\x66\x90", end: "\xc3", // ret
			handler: "\x90", handler + 1: "\x48\xcf", // nop, iretq
			inner: "\x48\xcf",
			away1: "\xff\xe0", away2: "\xff\xe0", // jmp *%rax
			0x4000: "\xff\xe0", 0x6000: "\xeb\xfe", // jmp .
		},
		alts: map[uint64][]replay.Alternative{first: at(first, away1), second: at(second, away2)},
	}
	probe := func(addr uint64) []replay.Alternative {
		alts := at(addr, 0)[:1]
		return append(alts, replay.Alternative{Inst: disasm.Inst{Addr: addr, Class: disasm.Trap, Bytes: []byte{0xcc}}, Trap: true,
			Effect: replay.Effect{Kind: replay.EffectProbe}, Standing: timeline.Known, Possible: true})
	}
	text.text[probe1], text.text[probe2], text.text[probe2+2] = "\x66\x90", "\x66\x90", "\xc3"
	text.text[slot1], text.text[slot2] = "\xff\xe0", "\xff\xe0"
	text.alts[probe1], text.alts[probe2] = probe(probe1), probe(probe2)
	text.slots = map[uint64]uint64{slot1: probe1, slot2: probe2}
	start := Event{Kind: Sync, IP: first}
	to := func(ip uint64) Event { return Event{Kind: Target, IP: ip} }
	interrupt := Event{Kind: Async, IP: handler + 1}
	for _, tt := range []struct {
		name   string
		events []Event
		want   []uint64
		traps  int
		tries  int
		errors int
	}{
		{"nothing traps, and nothing jumps", []Event{start, to(0x4000), to(0x4000)}, []uint64{first, second, end, 0x4000}, 0, 0, 0},
		{"the first traps", []Event{start, to(handler), to(away1), to(0x4000)}, []uint64{first, handler, handler + 1, away1}, 1, 0, 0},
		{"the second traps: the first would return to another place", []Event{start, to(handler), to(away2), to(0x4000)},
			[]uint64{first, second, handler, handler + 1, away2}, 1, 1, 0},
		{"an interrupt inside of the handler returns by itself", []Event{start, to(handler), interrupt, to(inner), to(handler + 1), to(away2), to(0x4000)},
			[]uint64{first, second, handler, inner, handler + 1, away2}, 1, 1, 0},
		{"the second of two probes traps: the handler returns to its slot", []Event{{Kind: Sync, IP: probe1}, to(handler), to(slot2), to(0x4000)},
			[]uint64{probe1, probe2, handler, handler + 1, slot2}, 1, 1, 0},
		{"the first of them does", []Event{{Kind: Sync, IP: probe1}, to(handler), to(slot1), to(0x4000)},
			[]uint64{probe1, handler, handler + 1, slot1}, 1, 0, 0},
		{"an endless loop", []Event{{Kind: Sync, IP: 0x6000}, to(0x4000), start, to(0x4000), to(0x4000)}, []uint64{first, second, end, 0x4000}, 0, 0, 1},
		{"it returns to nowhere", []Event{start, to(handler), to(0x5000), start, to(0x4000), to(0x4000)}, []uint64{first, second, end, 0x4000}, 0, 0, 1},
	} {
		d, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		w := &Walker{Text: text, Decoder: d, Handler: handler, Time: func(t uint64) uint64 { return t }, Emit: func(x Executed) { got = append(got, x.IP) }}
		w.Walk(tt.events)
		if tt.errors > 0 { // what was decoded until then may be wrong
			got = got[max(len(got)-len(tt.want), 0):]
		}
		if !slices.Equal(got, tt.want) || w.Traps != tt.traps || len(w.Errors) != tt.errors || tt.errors == 0 && w.Tries != tt.tries {
			t.Errorf("%s: executed %#x, want %#x; %d traps, %d tries, errors %v", tt.name, got, tt.want, w.Traps, w.Tries, w.Errors)
		}
	}
}

func TestEvents(t *testing.T) {
	packet := func(s string) []byte {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sync := strings.Repeat("0282", 8)
	for _, tt := range []struct {
		name, trace string
		want        []Event
		fails       bool
	}{
		{"no PSB", "0000", nil, true},
		{"the IP at a PSB, and an outcome of its own time", sync + "19 64000000000000 9901 7d 102030818fff 0223 19 65000000000000 06",
			[]Event{{Kind: Sync, IP: 0xffffff8f81302010, First: 100, Last: 100}, {Kind: Branch, Taken: true, First: 101, Last: 101}}, false},
		{"outcomes of one packet are before its time", sync + "19 64000000000000 7d 102030818fff 0223 19 65000000000000 1a",
			[]Event{{Kind: Sync, IP: 0xffffff8f81302010, First: 100, Last: 100}, {Kind: Branch, Taken: true, First: 100, Last: 101},
				{Kind: Branch, First: 100, Last: 101}, {Kind: Branch, Taken: true, First: 101, Last: 101}}, false},
		{"without a time, until the next", sync + "19 64000000000000 0223 6d 102030818fff 2d 3040 19 66000000000000 01",
			[]Event{{Kind: Target, IP: 0xffffff8f81302010, First: 100, Last: 100}, {Kind: Target, IP: 0xffffff8f81304030, First: 100, Last: 102},
				{Kind: Disable, First: 102, Last: 102}}, false},
		{"cut in a packet", sync + "19 6400", nil, false},
		{"unknown", sync + "02ff", nil, true},
		{"lost", sync + "02f3", []Event{{Kind: Lost, Last: 1<<64 - 1}}, false},
	} {
		got, err := Events(packet(tt.trace))
		for i := range got {
			got[i].Offset = 0
		}
		if !slices.Equal(got, tt.want) || (err != nil) != tt.fails {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add(append(slices.Clone(psb), 0x19, 1, 2, 3, 4, 5, 6, 7, 0x1a, 0x6d, 1, 2, 3, 4, 5, 6, 0x02, 0xa3, 1, 2, 3, 4, 5, 6))
	f.Add(append(slices.Clone(psb), 0x07, 0x01, 0x02, 0x23, 0x71, 1, 2, 3, 4, 5, 6, 0x01))
	f.Fuzz(func(t *testing.T, trace []byte) {
		events, _ := Events(trace)
		if len(events) > 48*len(trace) {
			t.Fatalf("%d events of %d bytes", len(events), len(trace))
		}
		d, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
		if err != nil {
			t.Fatal(err)
		}
		w := &Walker{Text: code{text: map[uint64]string{0: "\x90\xc3", 1: "\xc3"}}, Decoder: d, Time: func(t uint64) uint64 { return t }, Emit: func(Executed) {}}
		w.Walk(events)
	})
}
