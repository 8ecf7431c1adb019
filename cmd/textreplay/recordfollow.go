// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A recordFollower prints the changes of a recording that this process makes, as log does.
// It reads the files of the recorder. It keeps the names that addresses have now, and
// nothing of the past.
type recordFollower struct {
	*logText
	machine elf.Machine
	names   *kcore.Kallsyms
	symbols map[uint64]timeline.SymbolEvent // that are alive, by address
	comms   map[uint32]string               // of the threads that are alive
	stale   bool                            // the view lacks a symbol, or has one that is gone
	round   []*replay.Change                // by arrival
	ready   []*replay.Change                // of the round before, which this one may have earlier records than
	ended   *atomic.Bool                    // the recorder has ended
	probes  *replay.ProbeReader             // nil if the kernel records text pokes
	idle    int                             // how often the file had nothing new since the last record
	later   bool                            // this is not the first piece
	loaded  map[uint32]bool                 // ids of the BPF programs that are loaded
}

// followRecord prints what is recorded into dir until ended is set and all is printed.
// In a recording in pieces, dir is the first one.
func (a *app) followRecord(dir string, pieces bool, ended *atomic.Bool) error {
	f := a.newRecordFollower(thisMachine(), hostOrder(), ended)
	if text, err := os.ReadFile("/proc/kallsyms"); err == nil {
		if k, err := kcore.ParseKallsyms(text); err == nil && !k.Restricted() {
			f.names = k
		}
	}
	if !pieces {
		return f.piece(filepath.Join(dir, "data"), func() bool { return false })
	}
	return f.pieces(dir)
}

// newRecordFollower returns a follower that knows no names yet.
func (a *app) newRecordFollower(machine elf.Machine, order binary.ByteOrder, ended *atomic.Bool) *recordFollower {
	l := &log{app: a, shown: make(map[*replay.Sequence]bool), renderings: make(map[string]*rendering)}
	l.times, l.addrs = interval{0, timeline.MaxTime}, interval{0, timeline.MaxTime}
	f := &recordFollower{logText: &logText{log: l}, symbols: make(map[uint64]timeline.SymbolEvent),
		comms: make(map[uint32]string), loaded: make(map[uint32]bool), stale: true, ended: ended, machine: machine}
	l.c = &coder{order: order}
	if dis, err := disasm.New(machine, order); err == nil {
		l.c.dis = dis
	}
	return f
}

// pieces prints the changes of all pieces from the one in dir on.
func (f *recordFollower) pieces(dir string) error {
	all := filepath.Dir(dir)
	n, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return err
	}
	for {
		over := func() bool { _, ok := pieceAfter(all, n); return ok }
		err := f.piece(filepath.Join(all, recorder.PieceName(n), "data"), over)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was removed already
			return err
		}
		// The recorder ends a piece before it begins the next one. It begins none after it has
		// ended, so that is asked first.
		for ended := false; ; time.Sleep(followPause) {
			next, ok := pieceAfter(all, n)
			if ok {
				n = next
				break
			}
			if ended {
				return nil
			}
			ended = f.ended.Load()
		}
		f.later = true
	}
}

// pieceAfter returns the number of the piece in dir that follows piece n, if its data is there. The
// recorder may have removed some between them.
func pieceAfter(dir string, n int) (next int, ok bool) {
	entries, _ := os.ReadDir(dir) // sorted by name, which is of six digits or more
	for _, e := range entries {
		i, err := strconv.Atoi(e.Name())
		if err != nil || e.Name() != recorder.PieceName(i) || i <= n || ok && i > next {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "data")); err == nil {
			next, ok = i, true
		}
	}
	return next, ok
}

// piece prints the changes of one file. It ends when the recorder has ended, or when over
// returns true: another file has begun.
func (f *recordFollower) piece(path string, over func() bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	last := false // the recorder wrote nothing since it ended
	tail := perfdata.NewTail(file, func() error {
		if f.idle++; f.idle == idleRounds {
			// The recorder drains all ring buffers more often than that.
			if err := errors.Join(f.finishRound(), f.finishRound()); err != nil {
				return err
			}
		}
		f.out.Flush()
		if last {
			return io.EOF
		}
		if last = f.ended.Load() || over(); !last {
			time.Sleep(followPause)
		}
		return nil
	})
	rd, err := perfdata.NewReader(tail)
	if err != nil {
		return err
	}
	rec := rd.Recording()
	if err := f.openProbes(filepath.Dir(path), rec); err != nil {
		return err
	}
	for rd.Next() {
		f.idle = 0
		if err := f.record(rec, rd.Record()); err != nil {
			return err
		}
	}
	// What is left is all there is.
	if err := errors.Join(f.finishRound(), f.finishRound()); err != nil {
		return err
	}
	return cmp.Or(outputError(f.out.Flush()), inputError(rd.Err()))
}

// openProbes prepares to read the samples of probes, if the recording in dir has any. The code
// that they need is in the first copy of text, which the recorder makes at once.
func (f *recordFollower) openProbes(dir string, rec *perfdata.Recording) error {
	if !slices.ContainsFunc(rec.Events(), replay.MayBeProbe) {
		return nil
	}
	whole, err := perfdata.Open(dir)
	if err != nil {
		return inputError(err)
	}
	defer whole.Close()
	formats, err := whole.Feature(perfdata.FeatureTracingData)
	if err != nil {
		return nil // it has no tracepoints
	}
	if f.probes != nil {
		f.probes.Begin(rec, formats)
		return nil
	}
	if !replay.NewProbeReader(nil, nil).Begin(rec, formats) {
		return nil
	}
	copied := filepath.Join(dir, replay.OwnCopy)
	for !hasCopy(dir) {
		if f.ended.Load() {
			f.warnf("no changes are printed: there is no copy of kernel text, whose code says what the samples of probes mean")
			return nil
		}
		time.Sleep(followPause)
	}
	snap, err := kcore.Open(copied)
	if err != nil {
		return inputError(err)
	}
	f.probes = replay.NewProbeReader(snap.Core, snap.Kallsyms)
	f.probes.Begin(rec, formats)
	return nil
}

// hasCopy reports whether the first copy of text is complete: the journal has it then.
func hasCopy(dir string) bool {
	file, err := os.Open(filepath.Join(dir, journal.Name))
	if err != nil {
		return false
	}
	defer file.Close()
	entries, err := journal.Read(file)
	return err == nil && slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Copy != nil && e.Copy.Dir == replay.OwnCopy })
}

const (
	followPause = 100 * time.Millisecond // before the file is read again
	idleRounds  = 5                      // pauses without a record after which all is printed
)

// hostOrder returns the byte order of this machine.
func hostOrder() binary.ByteOrder {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// thisMachine returns the architecture of this machine.
func thisMachine() elf.Machine {
	switch runtime.GOARCH {
	case "arm64":
		return elf.EM_AARCH64
	case "ppc64", "ppc64le":
		return elf.EM_PPC64
	case "s390x":
		return elf.EM_S390
	}
	return elf.EM_X86_64
}

// record takes a record. It keeps a copy of what it prints later: a round has the records
// of one CPU after those of another.
func (f *recordFollower) record(rec *perfdata.Recording, x *perfdata.Record) error {
	c := &replay.Change{}
	switch x.Type {
	case perfdata.RecordFinishedRound:
		return f.finishRound()
	case perfdata.RecordComm:
		var m perfdata.Comm
		if rec.Comm(x, &m) == nil {
			f.comms[m.TID] = string(m.Comm)
		}
		return nil
	case perfdata.RecordExit:
		var t perfdata.Task
		if rec.Task(x, &t) == nil {
			delete(f.comms, t.TID)
		}
		return nil
	case perfdata.RecordFork:
		var t perfdata.Task
		if rec.Task(x, &t) == nil {
			f.comms[t.TID] = f.comms[t.PTID]
		}
		return nil
	case perfdata.RecordSample:
		if f.probes == nil {
			return nil
		}
		if c.Poke = f.probes.Change(x); c.Poke == nil {
			return nil
		}
		c.Kind = patching.KindOfPoke(f.machine, rec.ByteOrder(), c.Poke.Old, c.Poke.New)
	case perfdata.RecordTextPoke:
		c.Poke = new(perfdata.TextPoke)
		if rec.TextPoke(x, c.Poke) != nil {
			return nil
		}
		c.Poke.Old, c.Poke.New = bytes.Clone(c.Poke.Old), bytes.Clone(c.Poke.New)
		c.Kind = patching.KindOfPoke(f.machine, rec.ByteOrder(), c.Poke.Old, c.Poke.New)
	case perfdata.RecordKSymbol:
		c.KSymbol = new(perfdata.KSymbol)
		if rec.KSymbol(x, c.KSymbol) != nil {
			return nil
		}
		c.KSymbol.Name = bytes.Clone(c.KSymbol.Name)
	case perfdata.RecordBPFEvent:
		c.BPF = new(perfdata.BPFEvent)
		if rec.BPFEvent(x, c.BPF) != nil {
			return nil
		}
	case perfdata.RecordLost:
		if f.probes != nil {
			f.probes.Change(x)
		}
		var l perfdata.Lost
		var id perfdata.SampleID
		if rec.Lost(x, &l) != nil || rec.SampleID(x, &id) != nil {
			return nil
		}
		_, err := fmt.Fprintf(f.out, "%-16s  cpu %d  %s LOST: their changes are not known\n", replay.Seconds(id.Time), id.CPU, count(int(l.Lost), "record"))
		return outputError(err)
	default:
		return nil
	}
	id := c.SampleID()
	c.Time, c.Comm = id.Time, f.comms[id.TID]
	f.round = append(f.round, c)
	return nil
}

// finishRound prints the changes of the round before, in the order of time: none of a later
// round is older (FINISHED_ROUND).
func (f *recordFollower) finishRound() error {
	all := append(f.ready, f.round...)
	slices.SortStableFunc(all, func(a, b *replay.Change) int { return cmp.Compare(a.Time, b.Time) })
	limit := uint64(timeline.MaxTime)
	if len(f.round) > 0 {
		// Those up to the newest one of the round before are complete.
		limit = 0
		for _, c := range f.ready {
			limit = max(limit, c.Time)
		}
	}
	n := 0
	for ; n < len(all) && all[n].Time <= limit; n++ {
		if err := f.print(all[n]); err != nil {
			return outputError(err)
		}
	}
	f.ready, f.round = slices.Clone(all[n:]), f.round[:0]
	return nil
}

// print prints a change, with the names that addresses have after it.
func (f *recordFollower) print(c *replay.Change) error {
	switch {
	case c.KSymbol != nil:
		k := c.KSymbol
		if s, ok := f.symbols[k.Addr]; ok && s.Name == string(k.Name) && f.isRepeated(c) {
			return nil
		}
		e := timeline.SymbolEvent{Addr: k.Addr, Len: k.Len, Kind: timeline.SymbolBPF, Name: string(k.Name), CPU: -1}
		if k.Kind == perfdata.KSymbolOOL {
			e.Kind = timeline.SymbolOutOfLine
		}
		if f.stale = true; k.Flags&perfdata.KSymbolUnregister != 0 {
			delete(f.symbols, k.Addr)
		} else {
			f.symbols[k.Addr] = e
		}
		return f.ksymbol(c)
	case c.BPF != nil:
		if f.loaded[c.BPF.ID] && f.isRepeated(c) {
			return nil
		}
		if c.BPF.Kind == perfdata.BPFUnload {
			delete(f.loaded, c.BPF.ID)
		} else {
			f.loaded[c.BPF.ID] = true
		}
		return f.bpf(c)
	}
	v, err := f.view()
	if err != nil {
		return err
	}
	return f.poke(&logPoke{c.Poke, c, v, v})
}

// isRepeated reports whether a later piece begins with what may have been printed: the recorder
// lists what is there, without a time.
func (f *recordFollower) isRepeated(c *replay.Change) bool { return f.later && c.Time == 0 }

// view returns an image of nothing but names.
func (f *recordFollower) view() (timeline.View, error) {
	if f.stale {
		f.stale = false
		b := timeline.NewBuilder()
		b.Extent(1, 1)
		if f.names != nil {
			if lo, hi, ok := f.names.Text(); ok {
				b.Text(lo, hi)
			}
			b.Names(replay.Names(f.names))
		}
		for _, e := range f.symbols {
			b.Symbol(e)
		}
		im, err := b.Build()
		if err != nil {
			return timeline.View{}, err
		}
		f.c.r = &replay.Replay{Image: im}
		f.c.passing = nil
		f.forget()
	}
	return f.c.r.Image.At(1), nil
}
