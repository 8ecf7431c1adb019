// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "encoding/binary"

// A record is plain if all events of its recording have the thread, the time, the id and the
// CPU at the same offsets, and the byte order is little-endian. Nearly all records of a long
// recording are plain. Decoding one takes a few loads, in any goroutine.

// fieldPlaces are the offsets of a SampleID's fields, from the beginning of a SAMPLE record or
// of a trailer. size is where they end, and 0 if no record is plain.
type fieldPlaces struct{ tid, time, id, cpu, size int }

// placesIn returns the offsets of the fields, which begin at from, if there is one layout and
// it has all of them.
func (r *Recording) placesIn(layouts []*layout, from int) fieldPlaces {
	if r.endian == big || len(layouts) != 1 || r.noIDs {
		return fieldPlaces{}
	}
	l := layouts[0]
	if l.tid < 0 || l.id < 0 || l.time < 0 || l.cpu < 0 {
		return fieldPlaces{}
	}
	return fieldPlaces{from + l.tid, from + l.time, from + l.id, from + l.cpu, from + l.size}
}

// HasPlain reports whether text pokes or samples of the recording can be plain.
func (r *Recording) HasPlain() bool { return r.plainPokes.size != 0 || r.plainSamples.size != 0 }

// PlainTextPoke is [Recording.TextPoke] for a plain record that is exactly as long as its
// content. It reports whether raw, a TEXT_POKE record, is one; if not, p is as it was. It
// sets Addr, Old, New, PID, TID, Time, ID and CPU, and leaves the other fields of p alone.
// It is safe for concurrent use.
func (r *Recording) PlainTextPoke(raw []byte, p *TextPoke) bool {
	at := &r.plainPokes
	if at.size == 0 || len(raw) < textPokeBytes {
		return false
	}
	lens := binary.LittleEndian.Uint32(raw[16:])
	newAt := textPokeBytes + int(lens&0xffff)
	end := newAt + int(lens>>16)
	trailer := align8(end)
	if len(raw) != trailer+at.size {
		return false
	}
	p.Addr = binary.LittleEndian.Uint64(raw[8:])
	p.Old, p.New = raw[textPokeBytes:newAt:newAt], raw[newAt:end:end]
	at.decode(raw[trailer:], &p.SampleID)
	return true
}

// PlainSample is [Recording.SampleID] for a plain record. It reports whether raw, a SAMPLE
// record, is one; if not, id is as it was. It sets PID, TID, Time, ID and CPU, and leaves the
// other fields of id alone. It is safe for concurrent use.
func (r *Recording) PlainSample(raw []byte, id *SampleID) bool {
	at := &r.plainSamples
	if at.size == 0 || len(raw) < at.size {
		return false
	}
	at.decode(raw, id)
	return true
}

// decode decodes the fields in b into id.
func (at *fieldPlaces) decode(b []byte, id *SampleID) {
	b = b[:at.size]
	task := binary.LittleEndian.Uint64(b[at.tid:])
	id.PID, id.TID = uint32(task), uint32(task>>32)
	id.Time = binary.LittleEndian.Uint64(b[at.time:])
	id.ID = binary.LittleEndian.Uint64(b[at.id:])
	id.CPU = binary.LittleEndian.Uint32(b[at.cpu:])
}

// A ShortPoke is what a poke has of its own in a [PokeRun]: its address, its time, and its old and
// new bytes as little-endian numbers.
type ShortPoke = struct{ Addr, Time, Old, New uint64 }

// A PokeRun recognizes the plain TEXT_POKE records that have the same size, lengths, thread, id and
// CPU as one of them. Only address, time and bytes differ. Most pokes follow such a one. The zero
// PokeRun recognizes none.
type PokeRun struct {
	// Size is the size of a record. It has OldLen old bytes and NewLen new ones, 1 to 8 each.
	Size, OldLen, NewLen int

	at               fieldPlaces // in a record
	header, task, id uint64
	lens, cpu        uint32
	old, new         uint64 // masks of the bytes
}

// PokeRun returns the run of raw, a TEXT_POKE record. ok is false if raw is not plain, or has no
// bytes or too many.
func (r *Recording) PokeRun(raw []byte) (run PokeRun, ok bool) {
	var p TextPoke
	if !r.PlainTextPoke(raw, &p) || len(p.Old) == 0 || len(p.Old) > 8 || len(p.New) == 0 || len(p.New) > 8 {
		return PokeRun{}, false
	}
	at, trailer := r.plainPokes, len(raw)-r.plainPokes.size
	run = PokeRun{Size: len(raw), OldLen: len(p.Old), NewLen: len(p.New),
		at:     fieldPlaces{trailer + at.tid, trailer + at.time, trailer + at.id, trailer + at.cpu, len(raw)},
		header: binary.LittleEndian.Uint64(raw), task: uint64(p.PID) | uint64(p.TID)<<32, id: p.ID,
		lens: binary.LittleEndian.Uint32(raw[16:]), cpu: p.CPU,
		old: 1<<(8*len(p.Old)) - 1, new: 1<<(8*len(p.New)) - 1}
	return run, true
}

// Next decodes the record at the beginning of data, if it is of the run. It is safe for concurrent
// use.
func (r *PokeRun) Next(data []byte) (p ShortPoke, ok bool) {
	var one [1]ShortPoke
	n, _ := r.Decode(data, 0, one[:])
	return one[0], n == 1
}

// Decode decodes the records at the beginning of data into pokes, until one is not of the run, or is
// older than the one before it; the first one must not be older than last. It returns how many it has
// decoded, and the shortest and the longest time from one to the next, from last on. It is safe for
// concurrent use.
func (r *PokeRun) Decode(data []byte, last uint64, pokes []ShortPoke) (n int, steps Steps) {
	steps.Shortest = ^uint64(0)
	size, at, newAt := r.Size, r.at, textPokeBytes+r.OldLen
	switch size {
	case 0:
		return 0, steps
	case usualPoke:
		return r.decodeUsual(data, last, pokes)
	}
	for off := 0; n < len(pokes) && len(data)-off >= size; n, off = n+1, off+size {
		if word64(data, off) != r.header || word32(data, off+16) != r.lens || word64(data, off+at.tid) != r.task ||
			word64(data, off+at.id) != r.id || word32(data, off+at.cpu) != r.cpu {
			break
		}
		t := word64(data, off+at.time)
		if t < last {
			break
		}
		steps.Shortest, steps.Longest = min(steps.Shortest, t-last), max(steps.Longest, t-last)
		last = t
		p := &pokes[n]
		p.Addr, p.Time = word64(data, off+8), t
		p.Old, p.New = word64(data, off+textPokeBytes)&r.old, word64(data, off+newAt)&r.new
	}
	return n, steps
}

// usualPoke is the size of the records of five old and five new bytes, as nearly all of x86 have, with the
// sample_id fields that perf asks for.
const usualPoke = 64

// decodeUsual is Decode for records of this size. All places of fields are multiples of 8. With that, the
// compiler knows that no load is out of bounds, which saves a third of the time.
func (r *PokeRun) decodeUsual(data []byte, last uint64, pokes []ShortPoke) (n int, steps Steps) {
	const places = usualPoke - 8
	steps.Shortest = ^uint64(0)
	tid, time, id, cpu, newAt := r.at.tid&places, r.at.time&places, r.at.id&places, r.at.cpu&places, (textPokeBytes+r.OldLen)&31
	for ; n < len(pokes) && len(data) >= usualPoke; n, data = n+1, data[usualPoke:] {
		raw := (*[usualPoke]byte)(data)
		if binary.LittleEndian.Uint64(raw[:]) != r.header || binary.LittleEndian.Uint32(raw[16:]) != r.lens || binary.LittleEndian.Uint64(raw[tid:tid+8]) != r.task ||
			binary.LittleEndian.Uint64(raw[id:id+8]) != r.id || binary.LittleEndian.Uint32(raw[cpu:cpu+4]) != r.cpu {
			break
		}
		t := binary.LittleEndian.Uint64(raw[time : time+8])
		if t < last {
			break
		}
		steps.Shortest, steps.Longest = min(steps.Shortest, t-last), max(steps.Longest, t-last)
		last = t
		p := &pokes[n]
		p.Addr, p.Time = binary.LittleEndian.Uint64(raw[8:]), t
		p.Old, p.New = binary.LittleEndian.Uint64(raw[textPokeBytes:])&r.old, binary.LittleEndian.Uint64(raw[newAt:newAt+8])&r.new
	}
	return n, steps
}

// Steps are times between successive records, in nanoseconds. Shortest is the greatest uint64 if there
// are none.
type Steps struct{ Shortest, Longest uint64 }

// word64 returns the 8 bytes of data at off as a little-endian number. The compiler checks less where it knows
// the capacity of a slice.
func word64(data []byte, off int) uint64 {
	return binary.LittleEndian.Uint64(data[off : off+8 : off+8])
}

// word32 is word64 for 4 bytes.
func word32(data []byte, off int) uint32 {
	return binary.LittleEndian.Uint32(data[off : off+4 : off+4])
}

// A ShortSample is what a sample has of its own in a [SampleRun], as far as the order of time and of
// threads needs it.
type ShortSample struct {
	Time uint64
	TID  uint32
	Size uint32 // of the record, in bytes
}

// A SampleRun recognizes the plain SAMPLE records that have the same id and CPU as one of them, and for
// which [Recording.IsExact] returns true. The zero SampleRun recognizes none.
type SampleRun struct {
	ID  uint64
	CPU uint32

	at    fieldPlaces // in a record
	fixed int         // where the fields end, in bytes from the beginning of the record
	chain bool        // a call chain follows them
}

// SampleRun returns the run of raw, a plain SAMPLE record for which [Recording.IsExact] returns true. ok is
// false if samples of its event have more than fields and call chains.
func (r *Recording) SampleRun(raw []byte) (run SampleRun, ok bool) {
	var id SampleID
	if !r.quickFit.ok || !r.PlainSample(raw, &id) {
		return SampleRun{}, false
	}
	i := id.ID - r.ids.base
	if i >= uint64(len(r.ids.dense)) || r.ids.dense[i] == nil {
		return SampleRun{}, false
	}
	ev := r.ids.dense[i]
	if ev.shape == shapeOther || ev.fixed < r.plainSamples.size {
		return SampleRun{}, false
	}
	return SampleRun{ID: id.ID, CPU: id.CPU, at: r.plainSamples, fixed: ev.fixed, chain: ev.shape == shapeChain}, true
}

// Decode decodes the records at the beginning of data into samples, until one is not of the run, is of a
// guest, or is older than the one before it; the first one must not be older than last. It returns how
// many it has decoded. It is safe for concurrent use.
func (r *SampleRun) Decode(data []byte, last uint64, samples []ShortSample) (n int) {
	at, least := r.at, r.fixed
	if r.chain {
		least += 8
	}
	if r.fixed == 0 {
		return 0
	}
	off := 0
	for ; n < len(samples) && len(data)-off >= least; n++ {
		h := word64(data, off)
		size, mode := int(h>>48), uint16(h>>32)&MiscCPUModeMask
		if uint32(h) != uint32(RecordSample) || mode == MiscGuestKernel || mode == MiscGuestUser ||
			size < least || size > len(data)-off || size&7 != 0 {
			break
		}
		if word64(data, off+at.id) != r.ID || word32(data, off+at.cpu) != r.CPU {
			break
		}
		if words := uint64(size-least) / 8; r.chain && word64(data, off+r.fixed) != words || !r.chain && words != 0 {
			break
		}
		t := word64(data, off+at.time)
		if t < last {
			break
		}
		last = t
		samples[n] = ShortSample{t, word32(data, off+at.tid+4), uint32(size)}
		off += size
	}
	return n
}
