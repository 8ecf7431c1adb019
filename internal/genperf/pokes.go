// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// A History is a recording of kernel text that changes as it does when the
// function tracer is switched on and off again and again.
type History struct {
	Pokes   int // TEXT_POKE records
	Sites   int // places that they change, spread over the text
	Samples int // samples between them, as those of Samples
	// Order is the order in which the sites are changed.
	Order Order
	// CPUs is how many CPUs change text at the same time; 0 and 1 are one after the
	// other. Their records are interleaved in time, and in the file one ring buffer
	// follows the other. There is no effect where there are Samples.
	CPUs int
	// Short leaves the call chains out of the samples: each has 56 bytes then.
	Short bool
	// Births is how many of 100 records are births and deaths of BPF programs and of
	// out-of-line code, instead of pokes of the sites. There is no effect where there
	// are Samples.
	Births int
	// Compress compresses the records, as perf record -z does.
	Compress bool
	// Lossy makes each ring buffer lose records in every round. There is no effect where the
	// pokes are of one CPU.
	Lossy bool
}

// An Order is the order in which a History changes its sites.
type Order uint8

const (
	ByAddress Order = iota // all sites by address, again and again, as the function tracer does
	Random                 // each poke is of a random site
	Zipf                   // the same, but the k-th most frequent site has a weight of 1/k
)

// The text that a History changes: as large as that of a distribution's kernel.
const (
	TextAddr = 0xffffffff81000000
	TextSize = 16 << 20
)

const (
	pokeBatch   = 256    // pokes that text_poke_bp_batch makes at once
	pokeStep    = 1_500  // nanoseconds between two pokes of a batch
	batchStep   = 60_000 // and between two batches, which take three rounds of IPIs
	togglePause = 2_000_000
)

var (
	nop5    = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}
	release = "6.1.0-generated"
)

// Addr returns the address of site i.
func (h *History) Addr(i int) uint64 {
	step := uint64(TextSize / h.Sites)
	r := random(i)
	return TextAddr + uint64(i)*step + r.next()%max(1, step-16)
}

// call is the CALL at site i to the tracer's trampoline.
func (h *History) call(i int) (insn [5]byte) {
	const trampoline = 0xffffffffc0200000
	to := uint64(trampoline)
	insn[0] = 0xe8
	binary.LittleEndian.PutUint32(insn[1:], uint32(to-h.Addr(i)-5))
	return insn
}

// Write makes a directory as perf record --kcore does: the file data and a copy
// of the text and its symbols.
func (h *History) Write(dir string) error {
	var opts []perfdata.WriterOption
	if h.Compress {
		opts = append(opts, perfdata.Compress(perfdata.RecordCompressed))
	}
	w, err := perfdata.CreateDir(dir, 0, binary.LittleEndian, opts...)
	if err != nil {
		return err
	}
	return errors.Join(h.records(w), h.kcoreDir(filepath.Join(dir, "kcore_dir")))
}

// Stream writes what perf record -o - does.
func (h *History) Stream(out io.Writer) error {
	return h.records(perfdata.NewPipeWriter(out, binary.LittleEndian))
}

// Copy makes a kcore_dir, the copy of the text and its symbols.
func (h *History) Copy(dir string) error { return h.kcoreDir(dir) }

// events are a sampled one, and the one that takes side-band.
func (h *History) events() (cycles, dummy *perfdata.Event) {
	cycles = event()
	dummy = &perfdata.Event{Name: "dummy:u", Attr: cycles.Attr}
	dummy.Attr.Type, dummy.Attr.Config = 1, 9 // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
	dummy.Attr.Flags |= perfdata.FlagTextPoke | perfdata.FlagKSymbol | perfdata.FlagBPFEvent
	if h.Short {
		cycles.Attr.SampleType &^= perfdata.SampleCallchain
		dummy.Attr.SampleType &^= perfdata.SampleCallchain
	}
	for cpu := range cpus {
		dummy.IDs = append(dummy.IDs, uint64(100+cpus+cpu))
	}
	return cycles, dummy
}

func (h *History) records(w *perfdata.Writer) error {
	le := binary.LittleEndian
	cycles, dummy := h.events()
	w.SetEvents([]*perfdata.Event{cycles, dummy})
	for _, s := range []struct {
		f    perfdata.Feature
		text string
	}{{perfdata.FeatureOSRelease, release}, {perfdata.FeatureArch, "x86_64"}, {perfdata.FeatureVersion, "6.1"}} {
		b := append([]byte(s.text), make([]byte, 64-len(s.text)%64)...)
		w.WriteFeature(s.f, append(le.AppendUint32(nil, uint32(len(b))), b...))
	}
	w.WriteFeature(perfdata.FeatureNRCPUs, le.AppendUint32(le.AppendUint32(nil, cpus), cpus))
	var ix perfdata.IDIndex
	for _, ev := range []*perfdata.Event{cycles, dummy} {
		for cpu, id := range ev.IDs {
			ix.Entries = append(ix.Entries, perfdata.IDIndexEntry{ID: id, Idx: uint64(cpu), CPU: int64(cpu), TID: -1, VCPU: -1})
		}
	}
	w.IDIndex(&ix)
	w.Mmap(perfdata.RecordMMAP, perfdata.MiscKernel, &perfdata.Mmap{PID: ^uint32(0), Addr: TextAddr, Len: TextSize,
		Filename: []byte("[kernel.kallsyms]_stext"), SampleID: perfdata.SampleID{Event: cycles}})

	var rnd random
	start := uint64(1_000_000_000_000)
	pokes := newPokeStream(h, dummy, start)
	samples := h.Samples
	var now [cpus]uint64
	for cpu := range now {
		now[cpu] = start + rnd.next()%50_000
	}
	pause := 0 // records of samples between two pokes
	if h.Pokes > 0 {
		pause = h.Samples / h.Pokes
	}
	var raw []byte
	for end := start; samples > 0 || pokes.done < h.Pokes; {
		end += round
		for cpu := range uint64(cpus) {
			drained := end + cpu*round/16
			for now[cpu] < drained && samples > 0 {
				samples--
				raw = sampleOf(raw[:0], &rnd, cpu, &now[cpu], h.Short)
				if err := w.WriteRecord(raw); err != nil {
					return err
				}
				if cpu == 0 && pokes.done < h.Pokes && samples%max(1, pause/cpus) == 0 {
					pokes.now = now[cpu]
					if err := w.WriteRecord(pokes.next()); err != nil {
						return err
					}
				}
			}
			// Where there are samples, the pokes are spread among them.
			for h.Samples == 0 && h.CPUs <= 1 && cpu == 0 && pokes.now < drained && pokes.done < h.Pokes {
				if err := w.WriteRecord(pokes.next()); err != nil {
					return err
				}
			}
		}
		if h.Samples == 0 && h.CPUs > 1 {
			if err := pokes.round(w, end); err != nil {
				return err
			}
		}
		if samples == 0 && h.Samples > 0 {
			for pokes.now = now[0]; pokes.done < h.Pokes; {
				if err := w.WriteRecord(pokes.next()); err != nil {
					return err
				}
			}
		}
		w.FinishedRound()
	}
	return w.Close()
}

// A pokeStream makes pokes. In the order ByAddress it changes all sites to CALL and back
// to NOP, each time on another CPU; on the first only where samples come between.
type pokeStream struct {
	h     *History
	event *perfdata.Event
	cpu   uint64 // of the next poke
	wrote uint64 // of the last one
	now   uint64
	site  int
	on    []bool // by site: it is a CALL
	addrs []uint64
	done  int
	bytes []byte

	rnd   random
	zipf  []float64 // the sum of the weights up to each site
	lives lives
}

func newPokeStream(h *History, event *perfdata.Event, now uint64) *pokeStream {
	p := &pokeStream{h: h, event: event, now: now, on: make([]bool, h.Sites), addrs: make([]uint64, h.Sites)}
	sum := 0.0
	for i := range p.addrs {
		p.addrs[i] = h.Addr(i)
		if h.Order == Zipf {
			sum += 1 / float64(i+1)
			p.zipf = append(p.zipf, sum)
		}
	}
	return p
}

// next returns the next record as perf writes it: a poke, or the birth or death of code.
// It is valid until the next call.
func (p *pokeStream) next() []byte {
	if p.h.Births > 0 && p.h.Samples == 0 && p.rnd.next()%100 < uint64(p.h.Births) {
		p.done++
		p.now += pokeStep
		p.bytes = p.lives.next(p.bytes[:0], &p.rnd, p)
		return p.bytes
	}
	if p.h.Order != ByAddress {
		p.site = p.random()
		if p.h.Samples == 0 {
			p.cpu = p.rnd.next() % uint64(max(p.h.CPUs, 1))
		}
	}
	addr := p.addrs[p.site]
	call := p.h.call(p.site)
	old, new := nop5, call[:]
	if p.on[p.site] {
		old, new = new, old
	}
	p.on[p.site] = !p.on[p.site]
	p.bytes = p.poke(p.bytes[:0], addr, old, new)

	p.done++
	p.now += pokeStep
	if p.h.Order != ByAddress {
		return p.bytes
	}
	if p.site++; p.site%pokeBatch == 0 {
		p.now += batchStep
		if p.h.CPUs > 1 {
			p.cpu = p.rnd.next() % uint64(p.h.CPUs)
		}
	}
	if p.site == p.h.Sites {
		p.site = 0
		p.now += togglePause
		if p.h.Samples == 0 && p.h.CPUs <= 1 {
			p.cpu = (p.cpu + 1) % cpus
		}
	}
	return p.bytes
}

// random returns the site that is changed next. Frequent sites of Zipf are spread over
// the text.
func (p *pokeStream) random() int {
	r := p.rnd.next()
	if p.h.Order == Random {
		return int(r % uint64(p.h.Sites))
	}
	k := sort.SearchFloat64s(p.zipf, p.zipf[len(p.zipf)-1]*float64(r>>11)/(1<<53))
	return int(uint64(min(k, p.h.Sites-1)) * 7919 % uint64(p.h.Sites))
}

// round writes the pokes of a round, up to the time end: first all of CPU 0, then all of
// CPU 1, and so on, as perf drains one ring buffer after the other.
func (p *pokeStream) round(w *perfdata.Writer, end uint64) error {
	var buffers [cpus][]byte
	for p.now < end && p.done < p.h.Pokes {
		raw := p.next()
		buffers[p.wrote] = append(buffers[p.wrote], raw...)
	}
	for cpu, b := range buffers {
		for len(b) > 0 {
			n := binary.LittleEndian.Uint16(b[6:])
			if err := w.WriteRecord(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
		// One that changes nothing must not look as if it were offline.
		id := perfdata.SampleID{Event: p.event, ID: p.event.IDs[cpu], PID: uint32(cpu), TID: uint32(cpu), CPU: uint32(cpu), Time: p.now}
		if err := w.Comm(0, &perfdata.Comm{PID: uint32(cpu), TID: uint32(cpu), Comm: []byte("swapper"), SampleID: id}); err != nil {
			return err
		}
		if p.h.Lossy {
			if err := w.Lost(&perfdata.Lost{ID: id.ID, Lost: 1, SampleID: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// poke appends a TEXT_POKE record.
func (p *pokeStream) poke(raw []byte, addr uint64, old, new []byte) []byte {
	le := binary.LittleEndian
	at := len(raw)
	raw = p.header(raw, perfdata.RecordTextPoke)
	raw = le.AppendUint64(raw, addr)
	raw = le.AppendUint16(raw, uint16(len(old)))
	raw = le.AppendUint16(raw, uint16(len(new)))
	raw = append(raw, old...)
	raw = append(raw, new...)
	return p.trailer(raw, at)
}

// header appends the header of a record.
func (p *pokeStream) header(raw []byte, typ perfdata.RecordType) []byte {
	le := binary.LittleEndian
	raw = le.AppendUint32(raw, uint32(typ))
	return le.AppendUint32(raw, uint32(perfdata.MiscKernel)) // the size follows
}

// trailer ends the record that begins at raw[at:].
func (p *pokeStream) trailer(raw []byte, at int) []byte {
	p.wrote = p.cpu
	le := binary.LittleEndian
	for (len(raw)-at)%8 != 0 {
		raw = append(raw, 0)
	}
	const pid = 4711
	raw = le.AppendUint32(raw, pid)
	raw = le.AppendUint32(raw, pid)
	raw = le.AppendUint64(raw, p.now)
	raw = le.AppendUint64(raw, p.cpu)
	raw = le.AppendUint64(raw, p.event.IDs[p.cpu])
	le.PutUint16(raw[at+6:], uint16(len(raw)-at))
	return raw
}

// lives are the programs and slots that come and go.
type lives struct {
	there [2 * livesAtOnce]bool // those that are there: programs, then slots
	made  bool                  // the page of slots is there
}

// The code that comes and goes: so many programs of one page each, and slots of a page
// of out-of-line code.
const (
	livesAtOnce = 256
	livesAddr   = 0xffffffffc0300000
	slotsAddr   = 0xffffffffc0200000
	slotSize    = 16
)

// next appends the birth of a program or slot that is not there, or the death of one that
// is.
func (l *lives) next(raw []byte, rnd *random, p *pokeStream) []byte {
	if !l.made {
		l.made = true
		return p.ksymbol(raw, slotsAddr, 4096, perfdata.KSymbolOOL, false, "kprobe_insn_page")
	}
	i := rnd.next() % (2 * livesAtOnce)
	l.there[i] = !l.there[i]
	if i < livesAtOnce {
		return p.ksymbol(raw, livesAddr+i*4096, uint32(64+i*8), perfdata.KSymbolBPF, !l.there[i], fmt.Sprintf("bpf_prog_%016x_made_up", i))
	}
	addr := slotsAddr + (i-livesAtOnce)*slotSize
	code := []byte{0x55, 0x48, 0x89, 0xe5, 0xe9, byte(i), byte(i >> 8), 0, 0}
	if l.there[i] {
		return p.poke(raw, addr, nil, code)
	}
	return p.poke(raw, addr, code, nil)
}

// ksymbol appends a KSYMBOL record.
func (p *pokeStream) ksymbol(raw []byte, addr uint64, size uint32, kind perfdata.KSymbolKind, gone bool, name string) []byte {
	le := binary.LittleEndian
	at := len(raw)
	raw = p.header(raw, perfdata.RecordKSymbol)
	raw = le.AppendUint64(raw, addr)
	raw = le.AppendUint32(raw, size)
	raw = le.AppendUint16(raw, uint16(kind))
	flags := uint16(0)
	if gone {
		flags = perfdata.KSymbolUnregister
	}
	raw = le.AppendUint16(raw, flags)
	raw = append(append(raw, name...), 0)
	return p.trailer(raw, at)
}

// kcoreDir writes the copy of the text: random bytes, NOPs at the sites, and a
// function at each of them.
func (h *History) kcoreDir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	text := make([]byte, TextSize)
	var rnd random
	for i := 0; i < len(text); i += 8 {
		binary.LittleEndian.PutUint64(text[i:], rnd.next())
	}
	for i := range h.Sites {
		copy(text[h.Addr(i)-TextAddr:], nop5)
	}
	core, err := os.Create(filepath.Join(dir, "kcore"))
	if err != nil {
		return err
	}
	err = kcore.WriteCore(core, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, []kcore.Segment{{Addr: TextAddr, Data: text}}, nil)
	if err := errors.Join(err, core.Close()); err != nil {
		return err
	}
	syms, err := os.Create(filepath.Join(dir, "kallsyms"))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(syms)
	fmt.Fprintf(out, "%016x T _stext\n", uint64(TextAddr))
	for i := range h.Sites {
		fmt.Fprintf(out, "%016x t made_up_%d\n", h.Addr(i), i)
	}
	fmt.Fprintf(out, "%016x T _etext\n", uint64(TextAddr+TextSize))
	return errors.Join(out.Flush(), syms.Close(), os.WriteFile(filepath.Join(dir, "modules"), nil, 0o644))
}
