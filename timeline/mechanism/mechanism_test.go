// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func load(t *testing.T, dir string) *replay.Replay {
	t.Helper()
	r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range All() {
		if name := m.String(); name == "" || seen[name] {
			t.Errorf("two mechanisms, or none, are named %q", name)
		}
		seen[m.String()] = true
	}
	if s := numMechanisms.String(); s != "Mechanism(11)" {
		t.Errorf("an unknown mechanism is %q", s)
	}
}

// TestRecordings: what changed the text of the recordings in testdata, whose READMEs say
// what happened in them.
func TestRecordings(t *testing.T) {
	for name, want := range map[string]string{
		"small": "bpf-program:4 kprobe:33 optimised-kprobe:33 static-call:14 static-key:464",
		"storm": "ftrace:625 static-call:32 static-key:32",
		// The tracepoint of kvm's module load has static calls in a module without names.
		"rich":     "bpf-program:338 bpf-trampoline:35 ftrace:2330 kprobe:365 optimised-kprobe:261 other:291 static-call:819 static-key:396",
		"modfull":  "ftrace:126 static-call:1 static-key:42",
		"z72":      "bpf-program:60 bpf-trampoline:8 ftrace:140 static-key:2",
		"uponline": "static-key:80",
		"arm64":    "",
		"ppc64le":  "",
		"s390x":    "bpf-program:80 kprobe:1", // its BPF programs are interpreted
	} {
		r := load(t, filepath.Join(corpus.Root(), "testdata", name))
		c := NewClassifier(r, nil)
		n := make(map[Mechanism]int)
		for change := range r.Changes() {
			if change.Loss == nil {
				n[c.Of(change)]++
			}
		}
		var got []string
		for m, k := range n {
			got = append(got, fmt.Sprintf("%v:%d", m, k))
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); want != "" && s != want {
			t.Errorf("%s: %s, want %s", name, s, want)
		} else if want == "" && n[Other] > 0 {
			t.Errorf("%s: %s", name, s)
		}
	}
}

// steps are what the scenario of x86_64/rich did, by the beginning of the line in its
// log, and the mechanisms that may change text then: first the one that must. Tracers
// set the tracepoints of the scheduler. Each has a static key and static calls.
var steps = []struct {
	step string
	may  []Mechanism
}{
	{"== static keys", []Mechanism{StaticKey, StaticCall}},
	{"== static calls", []Mechanism{StaticCall}},
	{"== all events", []Mechanism{StaticKey, StaticCall}},
	{"== function tracer", []Mechanism{Ftrace, StaticKey, StaticCall}},
	{"== function_graph", []Mechanism{Ftrace, StaticKey, StaticCall}},
	{"== single-function filter", []Mechanism{Ftrace, StaticKey, StaticCall, BPFProgram, BPFTrampoline}},
	{"== kprobes", []Mechanism{Kprobe, OptimisedKprobe, StaticKey, StaticCall, Ftrace}}, // some probes use ftrace
	{"== bpftrace", []Mechanism{BPFProgram, StaticKey, StaticCall, Ftrace}},
}

// TestScenario compares the mechanisms with what the scenario of a large recording did
// when.
func TestScenario(t *testing.T) {
	dir := corpus.Large(t, "x86_64/rich")
	f, err := os.Open(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type section struct {
		name string
		from uint64
	}
	var sections []section
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s, ns uint64
		when, what, _ := strings.Cut(lines.Text(), " ")
		if n, _ := fmt.Sscanf(when, "%d.%09d", &s, &ns); n == 2 && strings.HasPrefix(what, "== ") {
			sections = append(sections, section{what, s*1e9 + ns})
		}
	}
	r := load(t, dir)
	c := NewClassifier(r, nil)
	met := make(map[string]map[Mechanism]int)
	for change := range r.Changes() {
		i := len(sections) - 1
		for i >= 0 && sections[i].from > change.Time {
			i--
		}
		if i < 0 || change.Time == 0 || change.Loss != nil {
			continue
		}
		n := met[sections[i].name]
		if n == nil {
			n = make(map[Mechanism]int)
			met[sections[i].name] = n
		}
		n[c.Of(change)]++
	}
	checked := 0
	for name, n := range met {
		for _, s := range steps {
			if !strings.HasPrefix(name, s.step) {
				continue
			}
			checked++
			for m, k := range n {
				if !slices.Contains(s.may, m) {
					t.Errorf("%s: %d changes by %v", name, k, m)
				}
			}
			if n[s.may[0]] == 0 {
				t.Errorf("%s: no change by %v", name, s.may[0])
			}
		}
		t.Log(name, n)
	}
	if checked < len(steps) {
		t.Errorf("only %d sections checked, of %v", checked, slices.Collect(maps.Keys(met)))
	}
}

// TestPokes: pokes of every form, at places of real kernels.
func TestPokes(t *testing.T) {
	for _, tt := range []struct {
		recording, what string
		addr            string
		kind            timeline.PokeKind
		old, new        string // may end in a symbol, to which the instruction leads
		want            Mechanism
		why             Fault
	}{
		{"small", "a jump label", "do_sys_openat2+0x41", timeline.PokeBatch, "0f1f440000", "e900010000", StaticKey, 0},
		{"small", "a short jump label", "do_sys_openat2+0x41", timeline.PokeBatch, "eb10", "6690", StaticKey, 0},
		{"small", "a NOP for a NOP", "do_sys_openat2+0x41", timeline.PokeBatch, "6690", "0f1f440000", Other, NoForm},
		{"small", "bytes that nothing writes", "do_sys_openat2+0x41", timeline.PokeBatch, "0f1f440000", "b801000000", Other, NoForm},
		{"small", "a short jump changed", "do_sys_openat2+0x41", timeline.PokeBatch, "eb10", "eb20", Other, NoForm},
		{"small", "a static call", "do_sys_openat2+0x41", timeline.PokeBatch, "0f1f440000", "e8 do_sys_openat2", StaticCall, 0},
		{"small", "that returns 0", "do_sys_openat2+0x41", timeline.PokeBatch, "2e2e2e31c0", "e8 do_sys_openat2", StaticCall, 0},
		{"small", "or warns", "do_sys_openat2+0x41", timeline.PokeBatch, "e8 do_sys_openat2", "67480fb93a", StaticCall, 0},
		{"small", "a conditional one", "do_sys_openat2+0x41", timeline.PokeBatch, "0f8400010000", "0f8400020000", StaticCall, 0},
		{"small", "a tail call", "do_sys_openat2+0x41", timeline.PokeBatch, "c3cccccccc", "e900010000", StaticCall, 0},
		{"small", "a kprobe", "do_sys_openat2+7", timeline.PokeArmed, "49", "cc", Kprobe, 0},
		{"small", "an optimised one", "do_sys_openat2+7", timeline.PokeBatch, "cc89f45589", "e91cf73211", OptimisedKprobe, 0},
		{"small", "that is not a jump", "do_sys_openat2+7", timeline.PokeBatch, "cc89f45589", "0f1f440000", Other, NoForm},
		{"small", "and undone", "do_sys_openat2+7", timeline.PokeUnoptimised, "e91cf73211", "cc89f45589", OptimisedKprobe, 0},
		{"small", "a slot changed in place", "0xffffffffc02936c8", timeline.PokeBatch, "0f1f440000", "e900010000", Other, SlotChanged},
		{"small", "a probe in a slot", "0xffffffffc02936c8", timeline.PokeArmed, "0f", "cc", Other, ProbeOutside},
		{"small", "code in kernel text", "do_sys_openat2+7", timeline.PokeCreated, "", "e91cf73211", Other, CodeOutside},
		{"small", "a slot", "0xffffffffc02936c8", timeline.PokeCreated, "", "e91cf73211", OptimisedKprobe, 0},
		{"small", "a function's entry that calls a module", "do_sys_openat2", timeline.PokeBatch, "0f1f440000", "e8 0xffffffffc0800000", Other, UnknownCallee},
		{"small", "and no longer calls it", "do_sys_openat2", timeline.PokeBatch, "e8 0xffffffffc0800000", "0f1f440000", Other, Ambiguous},
		{"small", "a function's entry that jumps to a module", "do_sys_openat2", timeline.PokeBatch, "0f1f440000", "e9 0xffffffffc0800000", Other, UnknownCallee},
		{"small", "that jumps elsewhere in it", "do_sys_openat2", timeline.PokeBatch, "e9 0xffffffffc0800000", "e9 0xffffffffc0800100", Other, UnknownCallee},
		{"small", "that calls it instead", "do_sys_openat2", timeline.PokeBatch, "e9 0xffffffffc0800000", "e8 0xffffffffc0800100", Other, UnknownCallee},
		{"small", "and no longer jumps to it", "do_sys_openat2", timeline.PokeBatch, "e9 0xffffffffc0800000", "0f1f440000", Other, Ambiguous},
		{"small", "a jump label at the entry", "do_sys_openat2", timeline.PokeBatch, "0f1f440000", "e900010000", StaticKey, 0},
		{"small", "a jump label that leads away", "do_sys_openat2+0x41", timeline.PokeBatch, "0f1f440000", "e9 0xffffffffc0800000", StaticKey, 0},
		{"small", "a tail call of a module", "do_sys_openat2+0x41", timeline.PokeBatch, "e900010000", "e9 0xffffffffc0800000", StaticCall, 0},
		{"small", "a BPF program changed", "0xffffffffc0083680", timeline.PokeBatch, "0f1f440000", "e8 do_sys_openat2", Other, ProgramChanged},
		{"rich", "a traced function", "do_sys_openat2", timeline.PokeBatch, "0f1f440000", "e8 ftrace_caller", Ftrace, 0},
		{"arm64", "a jump label", "vfs_read+0x40", timeline.PokeBatch, "1f2003d5", "04000014", StaticKey, 0},
		{"arm64", "a traced function", "vfs_read+0x8", timeline.PokeBatch, "1f2003d5", "04000094", Ftrace, 0},
		{"arm64", "a kprobe", "vfs_read+0x40", timeline.PokeArmed, "1f2003d5", "800020d4", Kprobe, 0},
		{"arm64", "other words", "vfs_read+0x40", timeline.PokeBatch, "1f2003d5", "e9031eaa", Other, NoForm},
		{"arm64", "the pointer before a function of a module that is being loaded", "max_loop_param_set_int+0x38", timeline.PokeBatch, "1f2003d51f2003d5", "3081d9ea2faaffff", Ftrace, 0},
		{"arm64", "a pointer over other words", "max_loop_param_set_int+0x38", timeline.PokeBatch, "1f2003d5e9031eaa", "3081d9ea2faaffff", Other, NoForm},
		{"arm64", "no pointer", "max_loop_param_set_int+0x38", timeline.PokeBatch, "1f2003d51f2003d5", "3081d9ea2faa0000", Other, NoForm},
		{"arm64", "the entry of such a function", "loop_set_hw_queue_depth", timeline.PokeBatch, "1f2003d5", "e9031eaa", Ftrace, 0},
		{"ppc64le", "a jump label", "vfs_read+0x40", timeline.PokeBatch, "00000060", "10000048", StaticKey, 0},
		{"ppc64le", "a traced function", "vfs_read+0x8", timeline.PokeBatch, "00000060", "11000048", Ftrace, 0},
		{"ppc64le", "and its mflr", "vfs_read+0x4", timeline.PokeBatch, "00000060", "a602087c", Ftrace, 0},
		{"ppc64le", "an optimised kprobe", "vfs_read+0x40", timeline.PokeBatch, "0800e07f", "10000048", OptimisedKprobe, 0},
		{"ppc64le", "other words", "vfs_read+0x40", timeline.PokeBatch, "00000060", "f8ffe1fb", Other, NoForm},
		{"s390x", "a jump label", "vfs_read+0x40", timeline.PokeBatch, "c00400000008", "c0f400000008", StaticKey, 0},
		{"s390x", "other bytes", "vfs_read+0x40", timeline.PokeBatch, "c00400000008", "eb6ff0480024", Other, NoForm},
	} {
		r := load(t, filepath.Join(corpus.Root(), "testdata", tt.recording))
		c := NewClassifier(r, nil)
		time := r.Report.First + (r.Report.Last-r.Report.First)*9/10
		if tt.recording == "small" {
			time = 19e9 // the slot is gone then, the program is there
		}
		p := &perfdata.TextPoke{Addr: c.parse(t, tt.addr, time)}
		p.Time = time
		p.Old, p.New = c.code(t, p.Addr, tt.old, time), c.code(t, p.Addr, tt.new, time)
		if m, why := c.poke(p, tt.kind); m != tt.want || why != tt.why {
			t.Errorf("%s: %s: %v %d, want %v %d", tt.recording, tt.what, m, why, tt.want, tt.why)
		}
	}
}

// TestDirectJump: a jump of a function's entry into a module is ftrace's, if ftrace has the
// place in its table.
func TestDirectJump(t *testing.T) {
	r := load(t, filepath.Join(corpus.Root(), "testdata", "small"))
	const time = 19e9
	addr := NewClassifier(r, nil).parse(t, "do_sys_openat2", time)
	c := NewClassifier(r, &Tables{JumpLabels: map[uint64]uint64{}, Functions: map[uint64]bool{addr: true}})
	p := &perfdata.TextPoke{Addr: addr}
	p.Time = time
	for _, codes := range [][2]string{{"0f1f440000", "e9 0xffffffffc0800000"}, {"e9 0xffffffffc0800000", "e9 0xffffffffc0800100"},
		{"e9 0xffffffffc0800100", "e8 0xffffffffc0800000"}, {"e9 0xffffffffc0800000", "0f1f440000"}} {
		p.Old, p.New = c.code(t, addr, codes[0], time), c.code(t, addr, codes[1], time)
		if m, why := c.poke(p, timeline.PokeBatch); m != Ftrace || why != 0 {
			t.Errorf("%s to %s: %v %d, want ftrace", codes[0], codes[1], m, why)
		}
	}
}

func (c *Classifier) parse(t *testing.T, s string, time uint64) uint64 {
	t.Helper()
	addr, err := c.r.ParseAddr(s, time)
	if err != nil {
		// Cut recordings have few names. Any function will do.
		lo, hi := c.r.Image.Text()
		for addr := lo; addr < hi; addr += 4096 {
			if s, ok := c.r.Image.At(time).Symbol(addr); ok && s.Module == "" && s.Size > 0x100 && !strings.Contains(s.Name, "ftrace") {
				return s.Addr + 0x40
			}
		}
		t.Fatal(err)
	}
	return addr
}

// code returns bytes that are given in hexadecimal: "e8 NAME" is a call of a symbol.
func (c *Classifier) code(t *testing.T, addr uint64, s string, time uint64) []byte {
	t.Helper()
	op, name, leads := strings.Cut(s, " ")
	b, err := hex.DecodeString(op)
	if err != nil {
		t.Fatal(err)
	}
	if leads {
		rel := uint32(c.parse(t, name, time) - addr - 5)
		b = append(b, byte(rel), byte(rel>>8), byte(rel>>16), byte(rel>>24))
	}
	return b
}

// TestLasting: the mechanism that Lasting returns is that of Of, also for other changes of the same
// bytes at the same address in the interval that it returns.
func TestLasting(t *testing.T) {
	type edit struct {
		addr     uint64
		old, new string
	}
	type answer struct {
		is    Mechanism
		lasts timeline.Interval
	}
	again := 0
	for _, name := range []string{"small", "rich", "storm", "arm64"} {
		r := load(t, filepath.Join(corpus.Root(), "testdata", name))
		c, once := NewClassifier(r, nil), NewClassifier(r, nil)
		known := make(map[edit]answer)
		for change := range r.Changes() {
			p := change.Poke
			if p == nil {
				continue
			}
			clear(once.places) // so that it derives each answer anew
			clear(once.latest[:])
			want := once.Of(change)
			got, lasts := c.Lasting(change)
			if got != want || p.Time < lasts.From || p.Time >= lasts.To {
				t.Errorf("%s: poke of %#x at %d: %v for %v, want %v", name, p.Addr, p.Time, got, lasts, want)
			}
			e := edit{p.Addr, string(p.Old), string(p.New)}
			if was, ok := known[e]; ok && was.lasts.From <= p.Time && p.Time < was.lasts.To {
				again++
				if was.is != want {
					t.Errorf("%s: poke of %#x at %d: %v, but was %v for %v", name, p.Addr, p.Time, want, was.is, was.lasts)
				}
			}
			known[e] = answer{got, lasts}
		}
	}
	if again == 0 {
		t.Error("no change is one that was made before")
	}
}

// TestEntryOfLaterModule: a function of a module that was loaded while it was recorded begins with
// the ENDBR64 that it has then.
func TestEntryOfLaterModule(t *testing.T) {
	const at, time = 0xffffffffc0900000, 20.5e9
	dir, own := t.TempDir(), filepath.Join(corpus.Root(), "testdata", "modfull", "rec.data", "kcore_dir")
	write := func(name, text string) {
		b, err := os.ReadFile(filepath.Join(own, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), append(b, text...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("kallsyms", "ffffffffc0900000 t m_begin\t[m]\nffffffffc0900010 t m_work\t[m]\n")
	write("modules", "m 4096 0 - Live 0xffffffffc0900000\n")
	code := bytes.Repeat([]byte{0x90}, 0x1000)
	copy(code[0x10:], "\xf3\x0f\x1e\xfa\x0f\x1f\x44\x00\x00")
	f, err := os.Create(filepath.Join(dir, "kcore"))
	if err == nil {
		err = errors.Join(kcore.WriteCore(f, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, []kcore.Segment{{Addr: at, Data: code}}, nil), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(filepath.Dir(own), replay.Options{Copies: []replay.Copy{{KCore: dir, Made: replay.Times{From: time - 1e9, To: time - 9e8}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := NewClassifier(r, nil)
	p := &perfdata.TextPoke{Addr: c.parse(t, "m:m_work+4", time)}
	p.Time = time
	p.Old, p.New = code[0x14:0x19], c.code(t, p.Addr, "e9 0xffffffffc0800000", time)
	if m, why := c.poke(p, timeline.PokeBatch); p.Addr != at+0x14 || m != Other || why != Ambiguous {
		t.Errorf("at %#x: %v %d", p.Addr, m, why)
	}
}
