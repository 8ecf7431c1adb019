// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package genperf writes recordings of made-up content, shaped as perf record
// shapes them: large ones for measuring readers, and small ones for what no
// recording of the corpus has.
package genperf

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/textreplay/textreplay/perfdata"
)

// The shape of what Samples writes.
const (
	cpus       = 8
	round      = 50_000_000 // nanoseconds, in which a CPU takes a thousand samples or 180 KB
	leastDepth = 4          // frames of a call chain
	mostDepth  = 25
)

// A random is a generator of reproducible numbers (splitmix64).
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	x := uint64(*r)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// event is one event on all CPUs, sampled with call chains as by perf record -a -g.
func event() *perfdata.Event {
	ev := &perfdata.Event{Name: "cycles", Attr: perfdata.Attr{
		SamplePeriod: 4000,
		SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCallchain |
			perfdata.SampleCPU | perfdata.SamplePeriod | perfdata.SampleIdentifier,
		ReadFormat: perfdata.ReadFormatID | perfdata.ReadFormatLost,
		Flags:      perfdata.FlagSampleIDAll | perfdata.FlagFreq | perfdata.FlagMmap | perfdata.FlagComm,
	}}
	for cpu := range cpus {
		ev.IDs = append(ev.IDs, uint64(100+cpu))
	}
	return ev
}

// Samples writes a recording of n samples with call chains, 180 bytes each on
// average, in rounds of 8 ring buffers whose times overlap those of the round before.
// Equal arguments give equal bytes.
func Samples(out io.WriteSeeker, n int, opts ...perfdata.WriterOption) error {
	le := binary.LittleEndian
	ev := event()
	w := perfdata.NewWriter(out, le, opts...)
	w.SetEvents([]*perfdata.Event{ev})
	for pid := range uint32(100) {
		w.Comm(0, &perfdata.Comm{PID: pid, TID: pid, Comm: []byte("made-up"), SampleID: perfdata.SampleID{Event: ev}})
	}
	var rnd random
	var now [cpus]uint64
	for cpu := range now {
		now[cpu] = 1_000_000_000_000 + rnd.next()%50_000
	}
	raw := make([]byte, 0, 512)
	for end := now[0]; n > 0; {
		end += round
		for cpu := range uint64(cpus) {
			// One buffer is drained after the other, the later ones up to a later time.
			for drained := end + cpu*round/16; now[cpu] < drained && n > 0; n-- {
				raw = sample(raw[:0], &rnd, cpu, &now[cpu])
				if err := w.WriteRecord(raw); err != nil {
					return err
				}
			}
		}
		w.FinishedRound()
	}
	return w.Close()
}

// sampleOf is sample, without the call chain if short.
func sampleOf(raw []byte, rnd *random, cpu uint64, now *uint64, short bool) []byte {
	raw = sample(raw, rnd, cpu, now)
	if short {
		raw = raw[:shortSample]
		binary.LittleEndian.PutUint16(raw[6:], shortSample)
	}
	return raw
}

// shortSample is the size of a sample up to its call chain.
const shortSample = 56

// sample appends the next sample of a CPU to raw, and advances now, the CPU's time.
func sample(raw []byte, rnd *random, cpu uint64, now *uint64) []byte {
	le := binary.LittleEndian
	r := rnd.next()
	*now += 17_000 + r>>48
	depth := leastDepth + r%(mostDepth-leastDepth+1)
	pid := r >> 16 % 100
	raw = le.AppendUint32(raw, uint32(perfdata.RecordSample))
	raw = le.AppendUint16(raw, perfdata.MiscKernel)
	raw = le.AppendUint16(raw, uint16(8*(8+depth)))
	raw = le.AppendUint64(raw, 100+cpu)
	raw = le.AppendUint64(raw, address(r))
	raw = le.AppendUint64(raw, pid<<32|pid)
	raw = le.AppendUint64(raw, *now)
	raw = le.AppendUint64(raw, cpu)
	raw = le.AppendUint64(raw, 4000+r%1000)
	raw = le.AppendUint64(raw, depth)
	for frame := range depth {
		raw = le.AppendUint64(raw, address(r>>(frame/8)))
	}
	return raw
}

// address picks one of 4,096 places in kernel text.
func address(r uint64) uint64 { return 0xffffffff81000000 + r%4096*1031 }

// AUX writes a recording of size bytes of AUX payload, all zero, in AUXTRACE
// records of a megabyte as those of a busy trace are. Writes of zeros are left
// out of the file where out can seek past them.
func AUX(out io.WriteSeeker, size int64) error {
	le := binary.LittleEndian
	const piece = 1 << 20
	w := perfdata.NewWriter(&sparse{out: out}, le)
	w.SetEvents([]*perfdata.Event{event()})
	raw := make([]byte, 48+piece)
	for at := int64(0); at < size; at += piece {
		le.PutUint32(raw, uint32(perfdata.RecordAuxtrace))
		le.PutUint16(raw[6:], 48)
		le.PutUint64(raw[8:], piece)
		le.PutUint64(raw[16:], uint64(at))
		le.PutUint32(raw[40:], uint32(at/piece%cpus))
		if err := w.WriteRecord(raw); err != nil {
			return err
		}
	}
	w.FinishedRound()
	return w.Close()
}

// A sparse file has holes where hole zeros or more are written at once.
type sparse struct {
	out  io.WriteSeeker
	skip int64 // zeros that were not written
}

// hole is the size of the pieces that are left out, in bytes.
const hole = 4 << 10

func (f *sparse) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n := min(hole, len(b)-done)
		if part := b[done : done+n]; n == hole && zero(part) {
			f.skip += hole
		} else if err := f.leaveOut(); err != nil {
			return done, err
		} else if _, err := f.out.Write(part); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// leaveOut seeks past the zeros that were not written.
func (f *sparse) leaveOut() error {
	n := f.skip
	if f.skip = 0; n == 0 {
		return nil
	}
	_, err := f.out.Seek(n, io.SeekCurrent)
	return err
}

func (f *sparse) Seek(offset int64, whence int) (int64, error) {
	if err := f.leaveOut(); err != nil {
		return 0, err
	}
	return f.out.Seek(offset, whence)
}

var zeros [hole]byte

func zero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
