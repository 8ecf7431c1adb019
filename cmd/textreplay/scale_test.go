// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

var (
	scaleRun   = flag.Bool("scale", false, "run TestScales, which takes long")
	scaleAll   = flag.Bool("scale.all", false, "TestScales runs all commands, over mixtures too")
	scaleFirst = flag.Uint64("scale.first", 0, "the first random mixture of TestScales")
	scaleSeeds = flag.Int("scale.seeds", 0, "how many random mixtures TestScales tries, instead of each kind of record")
	scaleOnly  = flag.String("scale.only", "", "a regular expression: only mixtures whose names it matches")
	scaleN     = flag.Int("scale.n", 5_000, "how many records the smaller recordings of TestScales have")
)

// A mixture is what the records of a made-up recording are: of these kinds, by chance, with these
// times. No kernel makes most of them.
type mixture struct {
	kinds []string
	times string
	cpus  int
}

func (m *mixture) String() string {
	return fmt.Sprintf("%s, times %s, %d CPUs", strings.Join(m.kinds, "+"), m.times, m.cpus)
}

// A mixer makes the records of a mixture.
type mixer struct {
	*mixture
	rng  *rand.Rand
	n, i int // how many records there will be, and the number of this one
	now  uint64
	id   uint64          // of the event, on the CPU of this record
	on   map[uint64]bool // by address: what is born, or patched
	raw  []byte
}

const (
	scaleCPUs    = 64
	scaleText    = 0xffffffff81000000
	scaleSize    = 1 << 20
	scaleModules = 0xffffffffc0000000
)

// recordKinds append the type and the body of a record each.
var recordKinds = map[string]func(m *mixer){
	"poke":          func(m *mixer) { m.poke(m.site(0), 5) },
	"poke sites":    func(m *mixer) { m.poke(m.site(m.rng.IntN(1000)), 5) },
	"poke all":      func(m *mixer) { m.poke(scaleText+uint64(m.i)*8%scaleSize, 5) },
	"poke overlaps": func(m *mixer) { m.pokeAny(m.site(0)+m.rng.Uint64N(64), m.rng.IntN(16), m.rng.IntN(16)) },
	"poke wide":     func(m *mixer) { m.pokeAny(m.site(0)+m.rng.Uint64N(1<<16), 4096, 4096) },
	"poke widening": func(m *mixer) { m.pokeAny(m.site(0), m.i%4096, m.i%4096) },
	"poke sliding":  func(m *mixer) { m.pokeAny(m.site(0)+uint64(m.i)%scaleSize/2, 4096, 4096) },
	"poke apart":    func(m *mixer) { m.pokeAny(scaleText+uint64(m.i)*4%(scaleSize-64), m.rng.IntN(16), m.rng.IntN(16)) },
	"poke nothing":  func(m *mixer) { m.pokeAny(m.site(m.rng.IntN(1000)), 0, 0) },
	"poke trap":     func(m *mixer) { m.textPoke(m.site(m.rng.IntN(8)), []byte{0x0f}, []byte{0xcc}) },
	"poke other":    func(m *mixer) { m.pokeAny(m.site(m.rng.IntN(16)), 5, 5) },
	"poke byte":     func(m *mixer) { m.pokeAny(m.site(0), 1, 1) },
	"poke gone":     func(m *mixer) { m.pokeAny(m.site(0), 5, 0) },
	"poke new":      func(m *mixer) { m.pokeAny(m.site(0), 0, 5) },
	"poke nowhere":  func(m *mixer) { m.poke(scaleModules+m.rng.Uint64N(1<<20), 5) },
	"slot":          func(m *mixer) { m.slot(scaleModules) },
	"slots":         func(m *mixer) { m.slot(scaleModules + 16*m.rng.Uint64N(1000)) },
	"slots new":     func(m *mixer) { m.slot(scaleModules + 16*uint64(m.i)) },
	"slots wide":    func(m *mixer) { m.pokeAny(scaleModules+m.rng.Uint64N(1<<16), 4096*m.rng.IntN(2), 4096) },
	"lives wide":    func(m *mixer) { m.life(scaleModules+m.rng.Uint64N(1<<16), 1<<16, perfdata.KSymbolOOL) },
	"slots overlap": func(m *mixer) { m.slot(scaleModules + m.rng.Uint64N(64)) },
	"births":        func(m *mixer) { m.ksymbol(scaleModules, 4096, perfdata.KSymbolBPF, false, m.name("bpf_prog_")) },
	"births new": func(m *mixer) {
		m.ksymbol(scaleModules+4096*uint64(m.i), 4096, perfdata.KSymbolBPF, false, m.name("bpf_prog_"))
	},
	"births nested": func(m *mixer) {
		m.ksymbol(scaleModules+uint64(m.i), uint32(2*(m.n-m.i)), perfdata.KSymbolBPF, false, "bpf_prog_nested")
	},
	"births widen": func(m *mixer) {
		m.ksymbol(scaleModules, uint32(m.i+1), perfdata.KSymbolBPF, false, "bpf_prog_wide")
	},
	"births overlap": func(m *mixer) {
		m.ksymbol(scaleModules+64*uint64(m.i), 1<<16, perfdata.KSymbolBPF, false, "bpf_prog_overlap")
	},
	"deaths": func(m *mixer) {
		m.ksymbol(scaleModules+4096*m.rng.Uint64N(4), 4096, perfdata.KSymbolBPF, true, "bpf_prog_")
	},
	"deaths new": func(m *mixer) {
		m.ksymbol(scaleModules+4096*uint64(m.i), 4096, perfdata.KSymbolBPF, true, m.name("bpf_prog_"))
	},
	"programs": func(m *mixer) { m.life(scaleModules+4096*m.rng.Uint64N(256), 4096, perfdata.KSymbolBPF) },
	"program":  func(m *mixer) { m.life(scaleModules, 4096, perfdata.KSymbolBPF) },
	"lives":    func(m *mixer) { m.life(scaleModules+m.rng.Uint64N(4096), 1+m.rng.Uint32N(4096), perfdata.KSymbolBPF) },
	"pages":    func(m *mixer) { m.life(scaleModules+4096*m.rng.Uint64N(16), 4096, perfdata.KSymbolOOL) },
	"symbols in text": func(m *mixer) {
		m.life(m.site(m.rng.IntN(1000)), 64, perfdata.KSymbolBPF)
	},
	"loads":      func(m *mixer) { m.bpf(perfdata.BPFLoad, uint32(m.i)) },
	"loads same": func(m *mixer) { m.bpf(perfdata.BPFLoad, 1) },
	"loads and unloads": func(m *mixer) {
		m.bpf(perfdata.BPFLoad+uint16(m.rng.IntN(2)), m.rng.Uint32N(64))
	},
	"unloads":    func(m *mixer) { m.bpf(perfdata.BPFUnload, uint32(m.i)) },
	"comm":       func(m *mixer) { m.comm(1, m.name("task")) },
	"comm new":   func(m *mixer) { m.comm(uint32(m.i), m.name("task")) },
	"fork":       func(m *mixer) { m.task(perfdata.RecordFork, uint32(m.i), uint32(m.i/2)) },
	"fork chain": func(m *mixer) { m.task(perfdata.RecordFork, uint32(m.i+1), uint32(m.i)) },
	"exit":       func(m *mixer) { m.task(perfdata.RecordExit, m.rng.Uint32N(uint32(m.n)), 1) },
	"mmap": func(m *mixer) {
		m.mmap(0, m.rng.Uint32N(64), 0x400000+m.rng.Uint64N(64)<<12, 1<<12, "/usr/bin/"+m.name("x"))
	},
	"mmap new": func(m *mixer) { m.mmap(0, uint32(m.i), 0x400000, 1<<20, "/usr/bin/true") },
	"modules": func(m *mixer) {
		m.mmap(uint16(perfdata.MiscKernel), ^uint32(0), scaleModules+uint64(m.i)<<14, 1<<14, "["+m.name("mod")+"]")
	},
	"modules overlap": func(m *mixer) {
		m.mmap(uint16(perfdata.MiscKernel), ^uint32(0), scaleModules+uint64(m.i)<<8, 1<<16, "["+m.name("mod")+"]")
	},
	"module": func(m *mixer) { m.mmap(uint16(perfdata.MiscKernel), ^uint32(0), scaleModules, 1<<16, "[mod]") },
	"kernels": func(m *mixer) {
		m.mmap(uint16(perfdata.MiscKernel), ^uint32(0), scaleText, scaleSize, "[kernel.kallsyms]_stext")
	},
	"lost": func(m *mixer) {
		m.begin(perfdata.RecordLost, 0)
		m.u64(m.id)
		m.u64(1 + m.rng.Uint64N(3))
	},
	"lost samples": func(m *mixer) {
		m.begin(perfdata.RecordLostSamples, 0)
		m.u64(1)
	},
	"switch": func(m *mixer) { m.begin(perfdata.RecordSwitch, uint16(m.rng.IntN(2))<<13) },
	"switch wide": func(m *mixer) {
		m.begin(perfdata.RecordSwitchCPUWide, uint16(m.rng.IntN(2))<<13)
		m.u32(m.rng.Uint32N(1000), m.rng.Uint32N(1000))
	},
	"aux": func(m *mixer) {
		m.begin(perfdata.RecordAux, 0)
		m.u64(uint64(m.i) * 4096)
		m.u64(4096)
		m.u64(m.rng.Uint64N(16))
	},
	"aux start": func(m *mixer) {
		m.begin(perfdata.RecordItraceStart, 0)
		m.u32(uint32(m.i), uint32(m.i))
	},
	"throttle": func(m *mixer) {
		m.begin(perfdata.RecordThrottle, 0)
		m.u64(m.now)
		m.u64(100)
		m.u64(100)
	},
	"cgroup": func(m *mixer) {
		m.begin(perfdata.RecordCgroup, 0)
		m.u64(uint64(m.i))
		m.text("/" + m.name("group"))
	},
	"namespaces": func(m *mixer) {
		m.begin(perfdata.RecordNamespaces, 0)
		m.u32(uint32(m.i), uint32(m.i))
		m.u64(0)
	},
}

// poke changes n bytes of NOPs to others, or back.
func (m *mixer) poke(addr uint64, n int) {
	old, new := []byte{0x0f, 0x1f, 0x44, 0, 0}[:n], []byte{0xe8, 1, 2, 3, 4}[:n]
	if m.on[addr] {
		old, new = new, old
	}
	m.on[addr] = !m.on[addr]
	m.textPoke(addr, old, new)
}

// pokeAny changes what does not follow from the change before it.
func (m *mixer) pokeAny(addr uint64, before, after int) {
	m.textPoke(addr, m.some(before), m.some(after))
}

func (m *mixer) some(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	return b
}

// slot is a birth of out-of-line code, or its death.
func (m *mixer) slot(addr uint64) {
	code := []byte{0x55, 0x48, 0x89, 0xe5, 0xe9, 1, 2, 3, 4}
	if m.on[addr] {
		m.textPoke(addr, code, nil)
	} else {
		m.textPoke(addr, nil, code)
	}
	m.on[addr] = !m.on[addr]
}

func (m *mixer) textPoke(addr uint64, old, new []byte) {
	m.begin(perfdata.RecordTextPoke, uint16(perfdata.MiscKernel))
	m.u64(addr)
	m.raw = binary.LittleEndian.AppendUint16(m.raw, uint16(len(old)))
	m.raw = binary.LittleEndian.AppendUint16(m.raw, uint16(len(new)))
	m.raw = append(append(m.raw, old...), new...)
}

// life is a birth of code, or its death.
func (m *mixer) life(addr uint64, size uint32, kind perfdata.KSymbolKind) {
	m.ksymbol(addr, size, kind, m.on[addr], fmt.Sprintf("code_%x", addr))
	m.on[addr] = !m.on[addr]
}

func (m *mixer) ksymbol(addr uint64, size uint32, kind perfdata.KSymbolKind, gone bool, name string) {
	m.begin(perfdata.RecordKSymbol, uint16(perfdata.MiscKernel))
	m.u64(addr)
	flags := uint32(0)
	if gone {
		flags = perfdata.KSymbolUnregister
	}
	m.u32(size, uint32(kind)|flags<<16)
	m.text(name)
}

func (m *mixer) bpf(kind uint16, id uint32) {
	m.begin(perfdata.RecordBPFEvent, 0)
	m.u32(uint32(kind), id)
	m.u64(uint64(id))
}

func (m *mixer) comm(tid uint32, name string) {
	m.begin(perfdata.RecordComm, 0)
	m.u32(tid, tid)
	m.text(name)
}

func (m *mixer) task(typ perfdata.RecordType, tid, parent uint32) {
	m.begin(typ, 0)
	m.u32(tid, parent, tid, parent)
	m.u64(m.now)
}

func (m *mixer) mmap(misc uint16, pid uint32, addr, size uint64, name string) {
	m.begin(perfdata.RecordMMAP, misc)
	m.u32(pid, pid)
	m.u64(addr)
	m.u64(size)
	m.u64(0)
	m.text(name)
}

// name returns a name that no other record has.
func (m *mixer) name(of string) string { return fmt.Sprint(of, m.i) }

func (m *mixer) site(i int) uint64 { return scaleText + uint64(i)*64 }

func (m *mixer) begin(typ perfdata.RecordType, misc uint16) {
	m.raw = m.raw[:0]
	m.u32(uint32(typ), uint32(misc))
}

func (m *mixer) u64(v uint64) { m.raw = binary.LittleEndian.AppendUint64(m.raw, v) }
func (m *mixer) u32(all ...uint32) {
	for _, v := range all {
		m.raw = binary.LittleEndian.AppendUint32(m.raw, v)
	}
}
func (m *mixer) text(s string) { m.raw = append(append(m.raw, s...), 0) }

// scaleTimes are how the times of the records go on.
var scaleTimes = map[string]func(m *mixer, cpu uint32) uint64{
	"forward":  func(m *mixer, cpu uint32) uint64 { m.now += 1 + m.rng.Uint64N(2000); return m.now },
	"equal":    func(m *mixer, cpu uint32) uint64 { return m.now },
	"ticks":    func(m *mixer, cpu uint32) uint64 { m.now += 10_000; return m.now / 4_000_000 * 4_000_000 },
	"shuffled": func(m *mixer, cpu uint32) uint64 { m.now += 1000; return m.now - m.rng.Uint64N(100_000) },
	"random":   func(m *mixer, cpu uint32) uint64 { return m.now + m.rng.Uint64N(1e9) },
	"backward": func(m *mixer, cpu uint32) uint64 { m.now -= 1000; return m.now },
	"to and fro": func(m *mixer, cpu uint32) uint64 {
		m.now += 1000
		return m.now - uint64(m.i%2)*1500
	},
	"repeated": func(m *mixer, cpu uint32) uint64 { return m.now + uint64(m.i%100)*1000 },
	"skewed":   func(m *mixer, cpu uint32) uint64 { m.now += 1000; return m.now + uint64(cpu)*300_000 },
	"slow":     func(m *mixer, cpu uint32) uint64 { m.now += 50_000_000; return m.now },
}

// write writes a recording of n records of the mixture.
func (m *mixture) write(t *testing.T, dir string, n int) {
	t.Helper()
	w, err := m.kernel().Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	x := &mixer{mixture: m, rng: rand.New(rand.NewPCG(1, 1)), n: n, now: 1e12, on: make(map[uint64]bool)}
	for x.i = range n {
		cpu, tid := x.rng.Uint32N(uint32(m.cpus)), x.rng.Uint32N(100)
		at := scaleTimes[m.times](x, cpu)
		id := w.ID(at, cpu, tid)
		x.id = id.ID
		recordKinds[m.kinds[x.rng.IntN(len(m.kinds))]](x)
		for len(x.raw)%8 != 0 {
			x.raw = append(x.raw, 0)
		}
		x.u32(tid, tid)
		x.u64(at)
		x.u64(uint64(cpu))
		x.u64(id.ID)
		binary.LittleEndian.PutUint16(x.raw[6:], uint16(len(x.raw)))
		if err := w.WriteRecord(x.raw); err != nil {
			t.Fatal(err)
		}
		if x.i%1000 == 999 {
			w.FinishedRound()
		}
	}
	w.FinishedRound()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// kernel returns the kernel that records: NOPs, and a function for each 1 KiB.
func (m *mixture) kernel() *genperf.Kernel {
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: scaleText, CPUs: m.cpus,
		Text: bytes.Repeat([]byte{0x0f, 0x1f, 0x44, 0, 0, 0x66, 0x90, 0xc3}, scaleSize/8)}
	for at := uint64(scaleText); at < scaleText+scaleSize; at += 1 << 10 {
		k.Symbols = append(k.Symbols, kcore.ELFSymbol{Name: fmt.Sprintf("function_%x", at), Addr: at})
	}
	return k
}

// TestScales: no recording keeps a command busy without end, or takes memory out of proportion, whatever
// its records are. One that has four times as many takes about four times as long: sorting takes a little
// more.
func TestScales(t *testing.T) {
	if !*scaleRun {
		t.Skip("compares times, so .ci/long runs it alone: -run TestScales -args -scale")
	}
	kinds, times := slices.Sorted(maps.Keys(recordKinds)), slices.Sorted(maps.Keys(scaleTimes))
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return slices.Contains(slowKinds, kind) })
	var all []*mixture
	if *scaleSeeds == 0 {
		for i, kind := range kinds {
			all = append(all, &mixture{[]string{kind}, "forward", 1 + i%4})
			if *scaleAll {
				all = append(all, &mixture{[]string{kind, kinds[i*7%len(kinds)]}, times[i%len(times)], 1 + i%4})
			}
		}
	}
	if *scaleOnly != "" {
		for _, kind := range slowKinds {
			all = append(all, &mixture{[]string{kind}, "forward", 2})
		}
	}
	for seed := range uint64(*scaleSeeds) {
		rng := rand.New(rand.NewPCG(*scaleFirst+seed, 2))
		m := &mixture{nil, times[rng.IntN(len(times))], []int{1, 2, 4, scaleCPUs}[rng.IntN(4)]}
		for range 1 + rng.IntN(3) {
			m.kinds = append(m.kinds, kinds[rng.IntN(len(kinds))])
		}
		all = append(all, m)
	}
	only := regexp.MustCompile(*scaleOnly)
	for _, m := range all {
		if only.MatchString(m.String()) {
			t.Run(m.String(), func(t *testing.T) { m.measure(t) })
		}
	}
}

// slowKinds overlap one another so much that what is kept of them is limited: up to that limit they take
// long and much memory, then not much more. Some have much code, which log prints. They are tried if
// -scale.only is given.
var slowKinds = []string{"lives wide", "poke sliding", "poke wide", "poke widening", "slots wide"}

// scaleCommands are those that go through a whole recording; moreCommands do with scale.all.
var (
	scaleCommands = [][]string{{"info"}, {"symbols"}, {"audit"}, {"log"}}
	moreCommands  = [][]string{
		{"verify"}, {"log", "--summary"}, {"log", "--json"}, {"diff", "start", "end"},
		{"pprof", "-o", "profile"}, {"perfetto", "-o", "trace"}, {"report", "-o", "report"},
		{"export", "--table", "changes", "-o", "-"}, {"export", "--table", "gaps", "-o", "-"}, {"export", "--table", "symbols", "-o", "-"},
		{"at", "0xffffffff81000000", "start..end"}, {"history", "0xffffffff81000000", "-n", "64"},
	}
)

// measure compares what commands take for recordings of n and of 4n records.
func (m *mixture) measure(t *testing.T) {
	t.Chdir(t.TempDir())
	commands := scaleCommands
	if *scaleAll {
		commands = slices.Concat(scaleCommands, moreCommands)
	}
	suspects := func(n int) (slow [][]string) {
		few, many := m.take(t, n, commands), m.take(t, 4*n, commands)
		var longest time.Duration
		var most int64
		for k, args := range commands {
			// What a recording without records takes is in both.
			if a, b := few[k].time, many[k].time; b > 7*a && b > 500*time.Millisecond {
				t.Logf("%v: %v with %d records, %v with four times as many", args, a, n, b)
				slow = append(slow, args)
			}
			longest, most = max(longest, many[k].time), max(most, many[k].memory)
		}
		t.Logf("of %d records, %d bytes, the longest command takes %v, the largest one %d MiB", 4*n, many[0].size, longest, most>>20)
		return slow
	}
	// What has a limit takes the square up to there.
	if commands = suspects(*scaleN); len(commands) > 0 {
		if commands = suspects(4 * *scaleN); len(commands) > 0 {
			t.Errorf("%v take the square of the number of records", commands)
		}
	}
}

// A command may take so much memory, and so much more for each byte of the recording: the room that there is for
// facts that overlap (spareBytes of package timeline), with what the collector leaves.
const (
	mostMemory        = 640 << 20
	mostMemoryPerByte = 40
)

// A cost is what a command takes for a recording of a size.
type cost struct {
	time         time.Duration // of the CPUs
	memory, size int64         // bytes
}

// take returns what each command takes for a recording of n records.
func (m *mixture) take(t *testing.T, n int, commands [][]string) (took []cost) {
	m.write(t, "rec", n)
	defer os.RemoveAll("rec")
	st, err := os.Stat(filepath.Join("rec", "data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		cmd := asProcess(t, append(args, "-i", "rec", "--index", "never")...)
		memory, _ := runForMemory(cmd) // to whatever end
		x := cost{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), memory, st.Size()}
		if most := mostMemory + mostMemoryPerByte*x.size; x.memory > most {
			t.Errorf("%v takes %d MiB of memory for %d records, %d MiB", args, x.memory>>20, n, x.size>>20)
		}
		took = append(took, x)
	}
	return took
}
