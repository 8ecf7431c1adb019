// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
)

// round takes what all ring buffers have, in ascending order of CPUs, as perf does
// (record__mmap_read_evlist() of tools/perf/builtin-record.c). Its mark, FINISHED_ROUND,
// says that each record before the previous mark is older than each one after this one.
// So what is known of the CPUs must be up to date before it.
func (r *Recorder) round() error {
	if err := r.readNews(); err != nil {
		return err
	}
	if err := r.drain(); err != nil {
		return err
	}
	lost := r.lossy
	r.lossy = false
	if r.modified {
		r.modified = false
		if err := r.w.FinishedRound(); err != nil {
			return err
		}
	}
	if err := r.fetchBirths(); err != nil {
		return err
	}
	if err := r.readImages(); err != nil {
		return err
	}
	if lost {
		r.copy() // what was lost may have changed the text
	}
	return nil
}

// drain takes what all ring buffers have.
func (r *Recorder) drain() error {
	for _, g := range r.rings {
		if err := r.drainRing(g); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) drainRing(g *ring) error {
	if g.waker != nil {
		g.waker.empty() // first: a record that comes later wakes again
	}
	return g.take(func(raw []byte) error {
		raw = g.trimmed(raw)
		r.modified = true
		r.stats.Records++
		r.size += int64(len(raw))
		r.stats.Bytes += int64(len(raw))
		if err := r.w.WriteRecord(raw); err != nil {
			return err
		}
		r.look(g, raw)
		return nil
	})
}

// look reacts to a record: a loss, a poke, a symbol, a BPF program, a module, a step of a CPU.
func (r *Recorder) look(g *ring, raw []byte) {
	order := binary.NativeEndian
	typ := perfdata.RecordType(order.Uint32(raw))
	var tid uint32
	var time uint64
	if typ != perfdata.RecordSample {
		tid, time = writerOf(raw)
		g.last = max(g.last, time)
	}
	switch typ {
	case perfdata.RecordLost:
		if len(raw) >= 24 {
			r.stats.Lost += order.Uint64(raw[16:])
		}
		r.lossy, r.missed = true, true
	case perfdata.RecordTextPoke:
		r.images.poke(raw, tid, time)
	case perfdata.RecordKSymbol:
		r.images.symbol(raw, tid, time)
	case perfdata.RecordBPFEvent:
		if len(raw) < 16 {
			break
		}
		switch id := order.Uint32(raw[12:]); order.Uint16(raw[8:]) {
		case bpfEventLoad:
			r.births = append(r.births, id)
		case bpfEventUnload:
			r.forget(id)
		}
	case perfdata.RecordSample:
		// u64 identifier, then TID, TIME, CPU, PERIOD, RAW
		if len(raw) >= 48 {
			tid, time = order.Uint32(raw[20:]), order.Uint64(raw[24:])
			g.last = max(g.last, time)
			switch p := r.pointOf(g, order.Uint64(raw[8:])); {
			case p == nil:
			case p.name == "module:module_load":
				r.copy() // the module's text, before it changes
			case p.name == hotplugPoint && len(raw) > sampleRaw:
				r.step(p, raw[sampleRaw:], time)
			case strings.HasPrefix(p.name, probeGroup+":"):
				r.images.changed(tid, time)
			}
		}
	}
}

const (
	trailerSize    = 32 // pid, tid; time; cpu, res; identifier
	bpfEventLoad   = 1  // PERF_BPF_EVENT_PROG_LOAD
	bpfEventUnload = 2  // PERF_BPF_EVENT_PROG_UNLOAD
)

// sampleRaw is the offset in bytes of the raw data of a tracepoint's sample, after the header,
// identifier, TID, TIME, CPU, PERIOD and the size of the raw data. sampleTime is that of TIME.
const (
	sampleRaw  = 8 + 5*8 + 4
	sampleTime = 8 + 2*8
)

// pointOf returns the tracepoint whose event has an id on a CPU, nil for other events.
func (r *Recorder) pointOf(g *ring, id uint64) *tracepoint {
	for i := range r.points {
		if g.ids[i+1] == id {
			return &r.points[i]
		}
	}
	return nil
}

// fetchBirths reads the code of programs that were loaded.
func (r *Recorder) fetchBirths() error {
	births := r.births
	r.births = r.births[:0]
	for _, id := range births {
		if _, ok := r.fetched[id]; ok {
			continue
		}
		r.stats.Programs++
		if err := r.fetch(id); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads the code of a program, if it is still there.
func (r *Recorder) fetch(id uint32) error {
	p, err := fetchProgram(id)
	if err != nil {
		if !errors.Is(err, unix.ENOENT) { // it has gone already: nothing can show its code
			r.warnCode(err)
		}
		return nil
	}
	r.stats.Fetched++
	return r.addProgram(p)
}

// copy starts a goroutine that copies kernel text, and returns. Run drains the ring buffers
// meanwhile, and calls finishCopy. If a copy is being made, another one follows it. When the
// recording ends, no more are asked for.
func (r *Recorder) copy() {
	switch {
	case r.mem == nil || r.closing:
	case r.copying:
		r.again = true
	default:
		r.startCopy()
	}
}

// startCopy starts a copy. The first one of a piece is kcore_dir, and the others are compared with
// it. If it fails, the next one takes its place.
func (r *Recorder) startCopy() {
	r.copying, r.tried = true, time.Now()
	p, mem := r.piece, r.mem
	dir, base := "kcore_dir", ""
	if p.based {
		p.copies++
		dir, base = filepath.Join("copies", strconv.Itoa(p.copies)), "kcore_dir"
	} else {
		p.pages = make(map[uint64]uint64)
	}
	go func() {
		path := filepath.Join(p.dir, dir)
		c, err := copyTextUnchanged(path, p.pages, mem.copyText)
		x := copied{err: err, of: p}
		if err != nil {
			x.err = errors.Join(err, os.RemoveAll(path))
		} else {
			x.entry, x.bytes = journal.Copy{Dir: dir, From: c.from, To: c.to, Base: base, Read: c.read()}, c.size
		}
		r.done <- x
		r.nudge()
	}()
}

// copiesTried is how many times a copy is made during which modules come and go.
const copiesTried = 3

// copyTextUnchanged makes a copy as makeCopy does, which is [memory.copyText], once more if modules came or went
// meanwhile.
func copyTextUnchanged(path string, sums map[uint64]uint64, makeCopy func(string, func() uint64, map[uint64]uint64) (*textCopy, error)) (c *textCopy, err error) {
	first := len(sums) == 0
	for range copiesTried {
		if c, err = makeCopy(path, now, sums); !errors.Is(err, errModulesChanged) {
			return c, err
		}
		if first {
			clear(sums)
		}
		if gone := os.RemoveAll(path); gone != nil {
			return nil, errors.Join(err, gone)
		}
	}
	return nil, err
}

// finishCopy writes a finished copy to the journal, and starts the next one if one was asked for.
func (r *Recorder) finishCopy(c copied) error {
	r.copying = false
	releaseMemory() // of the lists of names
	if c.err != nil {
		r.warn(fmt.Errorf("a copy of kernel text: %w", c.err))
	} else {
		r.stats.Copies++
		r.size += int64(c.bytes)
		if err := journal.Append(c.of.journal, &journal.Entry{Copy: &c.entry}); err != nil {
			return err
		}
		if c.entry.Base == "" {
			c.of.based = true
			if err := r.readListed(c.entry.Dir); err != nil {
				return err
			}
		}
	}
	if r.again {
		r.again = false
		r.startCopy()
	}
	return nil
}

// announce writes what was there before the recording began, as perf does: the kernel,
// the tasks, the BPF programs.
func (r *Recorder) announce() error {
	if err := r.index(r.rings); err != nil {
		return err
	}
	if err := r.announceTasks(); err != nil {
		return err
	}
	names := readKallsyms()
	if names == nil {
		names = new(kcore.Kallsyms)
	}
	if err := r.announceKernel(names); err != nil {
		return err
	}
	return r.announcePrograms(names)
}
