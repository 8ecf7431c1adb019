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
	"strings"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// A Kernel is a made-up kernel that records its changes of text, even if no
// real kernel of its architecture does.
type Kernel struct {
	Machine elf.Machine
	Arch    string // as uname -m
	Release string // as uname -r
	// Order is that of the file and of the kernel's data.
	Order ByteOrder
	Addr  uint64 // of Text, the core text
	Text  []byte
	// Symbols are the functions in Text, and data anywhere else, by address.
	Symbols []kcore.ELFSymbol
	// Beside has the bytes of other places in the copy of kernel text, by
	// address.
	Beside []kcore.Segment
	CPUs   int
	// Without are fields that records do not have.
	Without perfdata.SampleType
	// NoExec is set if there is no record of the workload's exec.
	NoExec bool
}

// Workload is the process that executes the workload.
const Workload = 100

// A ByteOrder is binary.LittleEndian or binary.BigEndian.
type ByteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// Start is when a made-up recording has its first record, Copied when the copy
// of kernel text is complete, in nanoseconds.
const (
	Start  = 1_000_000_000
	Copied = 1_500_000_000
)

// A Recorder writes the recording of a Kernel.
type Recorder struct {
	*perfdata.Writer
	k     *Kernel
	event *perfdata.Event
}

// Record begins a recording of k in the directory dir, as perf record --kcore
// makes it: what perf says about itself, the copy of kernel text, the kernel's
// names. All CPUs take pokes and symbols, and no record is lost.
func (k *Kernel) Record(dir string) (*Recorder, error) {
	w, err := perfdata.CreateDir(dir, 0, k.Order)
	if err != nil {
		return nil, err
	}
	r := &Recorder{Writer: w, k: k, event: &perfdata.Event{Name: "dummy:u", Attr: perfdata.Attr{
		SampleType: (perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleIdentifier) &^ k.Without,
		ReadFormat: perfdata.ReadFormatID | perfdata.ReadFormatLost,
		Flags: perfdata.FlagSampleIDAll | perfdata.FlagMmap | perfdata.FlagComm | perfdata.FlagCommExec | perfdata.FlagTask |
			perfdata.FlagKSymbol | perfdata.FlagBPFEvent | perfdata.FlagTextPoke,
	}}}
	var index perfdata.IDIndex
	for cpu := range k.CPUs {
		id := uint64(10 + cpu)
		r.event.IDs = append(r.event.IDs, id)
		index.Entries = append(index.Entries, perfdata.IDIndexEntry{ID: id, Idx: uint64(cpu), CPU: int64(cpu), TID: -1, VCPU: -1})
	}
	w.SetEvents([]*perfdata.Event{r.event})
	w.WriteFeature(perfdata.FeatureOSRelease, r.text(k.Release))
	w.WriteFeature(perfdata.FeatureArch, r.text(k.Arch))
	w.WriteFeature(perfdata.FeatureVersion, r.text("6.12"))
	cpus := k.Order.AppendUint32(nil, uint32(k.CPUs))
	w.WriteFeature(perfdata.FeatureNRCPUs, k.Order.AppendUint32(cpus, uint32(k.CPUs)))
	w.IDIndex(&index)
	const pid = Workload // before its exec still perf's child
	w.Comm(0, &perfdata.Comm{PID: pid, TID: pid, Comm: []byte("perf-exec"), SampleID: perfdata.SampleID{Event: r.event}})
	for cpu := range uint32(k.CPUs) {
		w.Comm(0, &perfdata.Comm{PID: cpu, TID: cpu, Comm: []byte("swapper"), SampleID: r.ID(Start, cpu, cpu)})
	}
	if !k.NoExec {
		w.Comm(perfdata.MiscCommExec, &perfdata.Comm{PID: pid, TID: pid, Comm: []byte("patcher"), SampleID: r.ID(Copied, 0, pid)})
	}
	return r, errors.Join(k.writeKCore(filepath.Join(dir, "kcore_dir")), w.FinishedRound())
}

// text is the section of a feature that is a string.
func (r *Recorder) text(s string) []byte {
	const align = 64
	n := (len(s)/align + 1) * align
	return append(r.k.Order.AppendUint32(nil, uint32(n)), s+strings.Repeat("\x00", n-len(s))...)
}

// ID is what a record of this time, by this thread on this CPU, ends with.
func (r *Recorder) ID(time uint64, cpu, tid uint32) perfdata.SampleID {
	return perfdata.SampleID{Event: r.event, ID: r.event.IDs[cpu], PID: tid, TID: tid, CPU: cpu, Time: time}
}

// Poke records a change of text by thread 100 on CPU 0.
func (r *Recorder) Poke(time, addr uint64, old, new []byte) error {
	return r.TextPoke(&perfdata.TextPoke{Addr: addr, Old: old, New: new, SampleID: r.ID(time, 0, 100)})
}

// End ends the recording: every CPU has a last record at this time.
func (r *Recorder) End(time uint64) error {
	for cpu := range uint32(r.k.CPUs) {
		r.Comm(0, &perfdata.Comm{PID: cpu, TID: cpu, Comm: []byte("swapper"), SampleID: r.ID(time, cpu, cpu)})
	}
	r.FinishedRound()
	return r.Close()
}

func (k *Kernel) writeKCore(dir string) (err error) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	create := func(name string, write func(w *bufio.Writer) error) {
		if err != nil {
			return
		}
		var f *os.File
		if f, err = os.Create(filepath.Join(dir, name)); err != nil {
			return
		}
		w := bufio.NewWriter(f)
		err = errors.Join(write(w), w.Flush(), f.Close())
	}
	data := elf.ELFDATA2LSB
	if k.Order == ByteOrder(binary.BigEndian) {
		data = elf.ELFDATA2MSB
	}
	create("kcore", func(w *bufio.Writer) error {
		return kcore.WriteCore(w, k.Machine, elf.ELFCLASS64, data, append([]kcore.Segment{{Addr: k.Addr, Data: k.Text}}, k.Beside...), nil)
	})
	create("kallsyms", func(w *bufio.Writer) error {
		end := k.Addr + uint64(len(k.Text))
		fmt.Fprintf(w, "%016x T _stext\n%016x T _etext\n", k.Addr, end)
		for _, s := range k.Symbols {
			typ := 'd'
			if s.Addr >= k.Addr && s.Addr < end {
				typ = 't'
			}
			fmt.Fprintf(w, "%016x %c %s\n", s.Addr, typ, s.Name)
		}
		return nil
	})
	create("modules", func(*bufio.Writer) error { return nil })
	return err
}
