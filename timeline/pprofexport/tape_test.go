// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The kernel of tapes.
const kallsyms = `ffffffff81000000 T _stext
ffffffff81001000 T entry
ffffffff81002000 T leaf
ffffffff81003000 T dies
ffffffff81003100 T behind
ffffffff81100000 T _etext
ffffffff81200000 B _end
`

// A tape is a recording that a test makes up.
type tape struct {
	tb     testing.TB
	out    bytes.Buffer
	w      *perfdata.Writer
	events []*perfdata.Event
	id     uint64 // of the event that writes records other than samples
}

func newTape(tb testing.TB, names ...string) *tape {
	t := &tape{tb: tb, id: 1}
	t.w = perfdata.NewPipeWriter(&t.out, binary.LittleEndian)
	for i, name := range names {
		t.events = append(t.events, &perfdata.Event{Name: name, IDs: []uint64{uint64(1 + i)}, Attr: perfdata.Attr{
			Type:         1,
			Config:       uint64(2 * i), // cpu-clock, page-faults
			SamplePeriod: 1000,
			SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain |
				perfdata.SampleCPU | perfdata.SamplePeriod | perfdata.SampleIdentifier,
			Flags: perfdata.FlagSampleIDAll | perfdata.FlagMmap | perfdata.FlagComm | perfdata.FlagKSymbol | perfdata.FlagTextPoke,
		}})
	}
	t.check(t.w.SetEvents(t.events))
	return t
}

// restart begins the tape again, with the events as they are now.
func (t *tape) restart() {
	t.out.Reset()
	t.w = perfdata.NewPipeWriter(&t.out, binary.LittleEndian)
	t.check(t.w.SetEvents(t.events))
}

func (t *tape) check(err error) {
	t.tb.Helper()
	if err != nil {
		t.tb.Fatal(err)
	}
}

// at is the trailer of a record that process pid writes.
func (t *tape) at(time uint64, pid uint32) perfdata.SampleID {
	return perfdata.SampleID{PID: pid, TID: pid, Time: time, ID: t.id, Event: t.events[t.id-1]}
}

func (t *tape) comm(time uint64, pid, tid uint32, comm string, exec bool) {
	misc := uint16(0)
	if exec {
		misc = perfdata.MiscCommExec
	}
	t.check(t.w.Comm(misc, &perfdata.Comm{PID: pid, TID: tid, Comm: []byte(comm), SampleID: t.at(time, pid)}))
}

func (t *tape) mmap(time uint64, pid uint32, addr, n, off uint64, file string) {
	misc := uint16(perfdata.MiscUser)
	if pid == kernelPID {
		misc = perfdata.MiscKernel
	}
	t.check(t.w.Mmap(perfdata.RecordMMAP, misc, &perfdata.Mmap{
		PID: pid, TID: pid, Addr: addr, Len: n, Pgoff: off, Filename: []byte(file), SampleID: t.at(time, pid),
	}))
}

func (t *tape) bpf(from, to, addr uint64, n uint32, name string) {
	k := perfdata.KSymbol{Addr: addr, Len: n, Kind: 1, Name: []byte(name), SampleID: t.at(from, 1)}
	t.check(t.w.KSymbol(&k))
	k.Flags, k.SampleID = perfdata.KSymbolUnregister, t.at(to, 1)
	t.check(t.w.KSymbol(&k))
}

func (t *tape) fork(time uint64, pid, tid, ppid, ptid uint32, misc uint16) {
	le := binary.LittleEndian
	var b []byte
	b = le.AppendUint32(b, uint32(perfdata.RecordFork))
	b = le.AppendUint16(b, misc)
	b = le.AppendUint16(b, 64)
	for _, v := range []uint32{pid, ppid, tid, ptid} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint64(b, time)
	b = le.AppendUint64(b, uint64(ptid)<<32|uint64(ppid))
	b = le.AppendUint64(b, time)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, t.id)
	t.check(t.w.WriteRecord(b))
}

// lostSamples writes how many records the event lost, as perf does at the end.
func (t *tape) lostSamples(n uint64, misc uint16) {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(perfdata.RecordLostSamples))
	b = le.AppendUint16(b, misc)
	b = le.AppendUint16(b, 48)
	for _, v := range []uint64{n, 0, 0, 0, 1} {
		b = le.AppendUint64(b, v)
	}
	t.check(t.w.WriteRecord(b))
}

// A taken is a sample to be written.
type taken struct {
	event    int
	time     uint64
	pid, tid uint32
	cpu      uint32
	mode     uint16
	ip       uint64
	period   uint64
	chain    []uint64
	claim    uint64   // more addresses than there are
	read     []uint64 // values of counters and ids, in turn
}

func (t *tape) sample(s taken) {
	le := binary.LittleEndian
	if s.tid == 0 {
		s.tid = s.pid
	}
	if s.mode == 0 {
		s.mode = perfdata.MiscKernel
	}
	if s.period == 0 {
		s.period = 1000
	}
	var b []byte
	b = le.AppendUint32(b, uint32(perfdata.RecordSample))
	b = le.AppendUint16(b, s.mode)
	words := []uint64{uint64(1 + s.event), s.ip, uint64(s.tid)<<32 | uint64(s.pid)}
	if t.events[s.event].Attr.SampleType&perfdata.SampleTime != 0 {
		words = append(words, s.time)
	}
	words = append(words, uint64(s.cpu))
	if t.events[s.event].Attr.SampleType&perfdata.SamplePeriod != 0 {
		words = append(words, s.period)
	}
	if t.events[s.event].Attr.SampleType&perfdata.SampleRead != 0 {
		words = append(append(words, uint64(len(s.read)/2)), s.read...)
	}
	words = append(words, uint64(len(s.chain))+s.claim)
	words = append(words, s.chain...)
	b = le.AppendUint16(b, uint16(8*(1+len(words))))
	for _, v := range words {
		b = le.AppendUint64(b, v)
	}
	t.check(t.w.WriteRecord(b))
}

// load ends the tape.
func (t *tape) load() *replay.Replay {
	t.tb.Helper()
	t.check(t.w.Close())
	rec, err := perfdata.New(t.out.Bytes())
	t.check(err)
	file := filepath.Join(t.tb.TempDir(), "kallsyms")
	t.check(os.WriteFile(file, []byte(kallsyms), 0o666))
	r, err := replay.New(rec, nil, replay.Options{Kallsyms: file})
	t.check(err)
	t.tb.Cleanup(func() { r.Close() })
	return r
}

// print writes a profile down, a line for each sample: values, stack with the
// innermost first, labels.
func print(p *profile.Profile) string {
	var lines []string
	for _, s := range p.Sample {
		var b strings.Builder
		fmt.Fprintf(&b, "%v ", s.Value)
		for i, l := range s.Location {
			if i > 0 {
				b.WriteString(" < ")
			}
			name := fmt.Sprintf("%#x", l.Address)
			if len(l.Line) > 0 {
				name = l.Line[0].Function.Name
			}
			b.WriteString(name)
			if l.Mapping != nil {
				fmt.Fprintf(&b, "(%s)", l.Mapping.File)
			}
		}
		for _, key := range []string{"cpu", "pid", "tid"} {
			if v, ok := s.NumLabel[key]; ok {
				fmt.Fprintf(&b, " %s=%d", key, v[0])
			}
		}
		if v, ok := s.Label["comm"]; ok {
			fmt.Fprintf(&b, " comm=%s", v[0])
		}
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// export makes a profile and checks that it is a valid one.
func exported(tb testing.TB, r *replay.Replay, opts Options) (*profile.Profile, *Stats) {
	tb.Helper()
	p, stats, err := Profile(r, opts)
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		tb.Fatal(err)
	}
	return p, stats
}
