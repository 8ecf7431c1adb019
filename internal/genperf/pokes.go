// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// A History is a recording of kernel text that changes as it does when the
// function tracer is switched on and off again and again.
type History struct {
	Pokes   int // TEXT_POKE records
	Sites   int // places that they change, spread over the text
	Samples int // samples between them, as those of Samples
}

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
	w, err := perfdata.CreateDir(dir, 0, binary.LittleEndian)
	if err != nil {
		return err
	}
	return errors.Join(h.records(w), h.kcoreDir(filepath.Join(dir, "kcore_dir")))
}

// events are a sampled one, and the one that takes side-band.
func (h *History) events() (cycles, dummy *perfdata.Event) {
	cycles = event()
	dummy = &perfdata.Event{Name: "dummy:u", Attr: cycles.Attr}
	dummy.Attr.Type, dummy.Attr.Config = 1, 9 // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
	dummy.Attr.Flags |= perfdata.FlagTextPoke | perfdata.FlagKSymbol | perfdata.FlagBPFEvent
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
	pokes := &pokeStream{h: h, ids: dummy.IDs, now: start}
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
				raw = sample(raw[:0], &rnd, cpu, &now[cpu])
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
			for h.Samples == 0 && cpu == 0 && pokes.now < drained && pokes.done < h.Pokes {
				if err := w.WriteRecord(pokes.next()); err != nil {
					return err
				}
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

// A pokeStream makes pokes: all sites by address, to CALL and back to NOP, each
// time on another CPU; on the first only where samples come between.
type pokeStream struct {
	h     *History
	ids   []uint64 // of the event, by CPU
	cpu   uint64
	now   uint64
	site  int
	off   bool // the tracer is being switched off
	done  int
	bytes []byte
}

// next returns the next poke as perf writes it. It is valid until the next call.
func (p *pokeStream) next() []byte {
	le := binary.LittleEndian
	call := p.h.call(p.site)
	old, new := nop5, call[:]
	if p.off {
		old, new = new, old
	}
	const pid = 4711
	raw := p.bytes[:0]
	raw = le.AppendUint32(raw, uint32(perfdata.RecordTextPoke))
	raw = le.AppendUint16(raw, perfdata.MiscKernel)
	raw = le.AppendUint16(raw, 72)
	raw = le.AppendUint64(raw, p.h.Addr(p.site))
	raw = le.AppendUint16(raw, 5)
	raw = le.AppendUint16(raw, 5)
	raw = append(raw, old...)
	raw = append(raw, new...)
	raw = append(raw, 0, 0)
	raw = le.AppendUint32(raw, pid)
	raw = le.AppendUint32(raw, pid)
	raw = le.AppendUint64(raw, p.now)
	raw = le.AppendUint64(raw, p.cpu)
	raw = le.AppendUint64(raw, p.ids[p.cpu])
	le.PutUint16(raw[6:], uint16(len(raw)))
	p.bytes = raw

	p.done++
	p.now += pokeStep
	if p.site++; p.site%pokeBatch == 0 {
		p.now += batchStep
	}
	if p.site == p.h.Sites {
		p.site, p.off = 0, !p.off
		p.now += togglePause
		if p.h.Samples == 0 {
			p.cpu = (p.cpu + 1) % cpus
		}
	}
	return raw
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
