// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// How the samples of probes become pairs: one BEFORE and one AFTER on the same CPU are one
// change of text.

// A probeCPU pairs the samples of one CPU. perf writes the records of a CPU in order.
type probeCPU struct {
	open   bool
	write  probeWrite
	mm     uint64 // powerpc
	newest uint64
	recent []probeSeen // of the last samples, for those that perf writes twice
	copyOf probeCall
}

// A probeSeen is the time of a sample and a checksum of its fields.
type probeSeen struct {
	time uint64
	sum  uint32
}

// pairedBy is what a sample must have to be paired.
const pairedBy = perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleTID

// probeSample handles a sample of a probe on a text writer. Before it, its ring buffer had lost so many
// records.
func (s *scan) probeSample(rec *perfdata.Record, e *probeEvent, id *perfdata.SampleID, raw []byte, lost uint64) {
	if len(raw) < e.size {
		s.broken(rec, "%d bytes of raw data, the event's fields take %d", len(raw), e.size)
		return
	}
	if id.Has&pairedBy != pairedBy {
		return // coverProbes says so
	}
	s.probes.sample(s.rec.ByteOrder(), e, id, raw, lost)
}

// sample handles a sample that has all the fields of its event.
func (p *probeLog) sample(order binary.ByteOrder, e *probeEvent, id *perfdata.SampleID, raw []byte, lost uint64) {
	c := p.cpus[int64(id.CPU)]
	if c == nil {
		c = &probeCPU{}
		p.cpus[int64(id.CPU)] = c
	}
	if !p.see(c, id.Time, raw[:e.size], e) {
		return
	}
	e.times = append(e.times, id.Time)
	x := probeSample{e, id, raw, order, lost}
	if ip := x.u64(e.ip); e.where != ip {
		e.moved = e.moved || e.where != 0
		e.where = ip
	}
	switch e.role {
	case probeARM64:
		p.fixmap(c, &x)
	case probeCopy:
		p.textPoke(c, &x)
	case probeBefore:
		p.ppc64Before(c, &x)
	case probeAfter:
		p.ppc64After(c, &x)
	case probeWrites:
		p.store(&x)
	}
}

// A probeSample is a sample of a probe, with its fields.
type probeSample struct {
	*probeEvent
	id    *perfdata.SampleID
	raw   []byte
	order binary.ByteOrder
	lost  uint64 // the records that its ring buffer had lost before it
}

// u64 returns the field at an offset.
func (x *probeSample) u64(at int) uint64 { return x.order.Uint64(x.raw[at:]) }

// fixmap handles a call of arm64's __set_fixmap: a BEFORE if it maps a page, an AFTER if it
// unmaps one.
func (p *probeLog) fixmap(c *probeCPU, x *probeSample) {
	if phys := x.u64(x.phys); phys != 0 {
		p.abandon(c, x.id)
		c.begin(x)
		w := &c.write
		w.phys, w.mapLR, w.caller, w.index = phys, x.u64(x.lr), withoutPAC(x.u64(x.stack+8)), x.u64(x.idx)
		for i, word := range x.words[:min(len(x.words), len(w.words))] {
			w.words[i].reg, w.words[i].addr = word.reg, x.u64(word.addr)
			copy(w.words[i].at[:], x.raw[word.at:])
		}
		p.beginPart(c, x)
		return
	}
	w := &c.write
	if !c.open || w.tid != x.id.TID || w.index != x.u64(x.idx) {
		p.addLoose(c, x.id)
		return
	}
	w.lr = x.u64(x.lr)
	if code := p.writer.arm64(w.lr); code.ok && code.w.Index == w.index && code.w.Offset+code.w.Len <= x.stackLen {
		w.len = uint8(code.w.Len)
		copy(w.new[:code.w.Len], x.raw[x.stack+code.w.Offset:])
	} else {
		p.endPart(c, x)
	}
	p.complete(c, x)
}

// ppc64Before handles a call of get_locked_pte: a BEFORE, unless it is not a writer of text
// that calls.
func (p *probeLog) ppc64Before(c *probeCPU, x *probeSample) {
	lr := x.u64(x.lr)
	code, ok := p.writer.ppc64(lr)
	if c.open {
		if c.write.len != 0 {
			p.abandon(c, x.id)
		} else {
			p.other(c)
		}
	}
	c.begin(x)
	c.mm, c.write.mapLR = x.u64(x.mm), lr
	if !ok {
		return // not a writer
	}
	p.mms[c.mm] = true
	place, value, long := x.registers[code.Addr], x.registers[code.Value], x.registers[code.Doubleword]
	i := slices.IndexFunc(x.words, func(word probeWord) bool { return word.addr == place })
	if i < 0 || value == 0 || long == 0 {
		return // it keeps these in registers that the event does not have
	}
	w := &c.write
	w.addr, w.len, w.hasOld = x.u64(x.words[i].addr), 4, true
	if byte(x.u64(long)) != 0 {
		w.len = 8
		x.order.PutUint64(w.new[:], x.u64(value))
	} else {
		x.order.PutUint32(w.new[:], uint32(x.u64(value)))
	}
	copy(w.old[:w.len], x.raw[x.words[i].at:])
}

// ppc64After handles a call of radix__local_flush_tlb_page_psize: an AFTER, if the writer of
// the last BEFORE calls.
func (p *probeLog) ppc64After(c *probeCPU, x *probeSample) {
	w, lr := &c.write, x.u64(x.lr)
	code, writes := p.writer.ppc64(w.mapLR)
	switch {
	case !c.open || w.tid != x.id.TID || c.mm != x.u64(x.mm) || !p.writer.sameFunction(w.mapLR, lr):
		if p.mms[x.u64(x.mm)] {
			p.addLoose(c, x.id)
		}
		return
	case !writes && !p.mms[c.mm]:
		p.other(c)
		c.open = false
		return
	}
	at := x.registers[code.Value]
	if at == 0 || w.len == 4 && x.order.Uint32(w.new[:]) != uint32(x.u64(at)) || w.len == 8 && x.order.Uint64(w.new[:]) != x.u64(at) {
		w.len = 0 // the registers do not hold what they seem to
	}
	w.lr = lr
	p.complete(c, x)
}

// store keeps a call of x86-64's __text_poke.
func (p *probeLog) store(x *probeSample) {
	w := sampledWrite{time: x.id.Time, addr: x.u64(x.addr), len: x.u64(x.length)}
	copy(w.bytes[:], x.raw[x.bytes:])
	copy(w.now[:], x.raw[x.now:])
	if w.addr+w.len >= w.addr && w.len > 0 {
		p.stores = append(p.stores, w)
	}
}

// complete closes the open pair with an AFTER.
func (p *probeLog) complete(c *probeCPU, x *probeSample) {
	c.write.ended, c.write.lost, c.open = x.id.Time, x.lost-c.write.lost, false
	p.writes = append(p.writes, c.write)
}

// begin opens a pair with a BEFORE.
func (c *probeCPU) begin(x *probeSample) {
	c.open = true
	c.write = probeWrite{began: x.id.Time, pid: x.id.PID, tid: x.id.TID, cpu: int32(x.id.CPU), lost: x.lost}
}

// unpair is for a BEFORE and an AFTER between which two records or more were lost: the AFTER of
// this change and the BEFORE of a later one may be among them.
func (p *probeLog) unpair(w *probeWrite) {
	w.index = notText
	p.loose = append(p.loose,
		looseSample{time: w.began, previous: w.began, next: w.ended, phys: w.phys, addr: w.addr, cpu: int64(w.cpu)},
		looseSample{time: w.ended, previous: w.began, next: timeline.MaxTime, cpu: int64(w.cpu), after: true})
}

// abandon notes that the BEFORE that is open has no AFTER.
func (p *probeLog) abandon(c *probeCPU, id *perfdata.SampleID) {
	w := &c.write
	_, writes := p.writer.ppc64(w.mapLR)
	switch {
	case !c.open:
	case w.len == 0 && w.phys == 0 && !writes:
		p.other(c)
	default:
		p.loose = append(p.loose, looseSample{time: w.began, previous: w.began, next: id.Time, phys: w.phys, addr: w.addr, cpu: int64(w.cpu)})
	}
	c.open = false
}

// addLoose notes an AFTER without a BEFORE.
func (p *probeLog) addLoose(c *probeCPU, id *perfdata.SampleID) {
	previous := uint64(0)
	if n := len(c.recent); n > 1 {
		previous = c.recent[n-2].time
	}
	p.abandon(c, id)
	p.loose = append(p.loose, looseSample{time: id.Time, previous: previous, next: timeline.MaxTime, cpu: int64(id.CPU), after: true})
}

// other keeps a call of the mapping function that no decoded writer made.
func (p *probeLog) other(c *probeCPU) {
	if len(p.others) >= maxOthers {
		p.unkept = cmp.Or(min(p.unkept, c.write.began), c.write.began)
		return
	}
	p.others = append(p.others, probeOther{c.write.began, c.mm, c.write.mapLR, c.write.cpu})
}

// keptSamples is how many of a CPU's newest samples are compared with one that perf may
// have written twice.
const keptSamples = 1 << 12

// see notes a sample. It returns false if perf has written the sample twice: the CPU has
// an equal one of the same time.
func (p *probeLog) see(c *probeCPU, t uint64, raw []byte, e *probeEvent) bool {
	sum := crc32.Update(uint32(e.role), crc32.IEEETable, raw)
	if t <= c.newest {
		for i := len(c.recent) - 1; i >= 0; i-- {
			if x := c.recent[i]; x.time == t && x.sum == sum {
				p.doubles++
				return false
			}
		}
		if t < c.newest {
			p.back = append(p.back, timeline.Interval{From: t, To: timeline.Later(c.newest, 1)})
		}
	}
	c.newest = max(c.newest, t)
	if len(c.recent) >= 2*keptSamples {
		c.recent = append(c.recent[:0], c.recent[keptSamples:]...)
	}
	c.recent = append(c.recent, probeSeen{t, sum})
	return true
}

// withoutPAC returns a return address of the kernel without the authentication code that
// arm64 keeps in its upper bits.
func withoutPAC(addr uint64) uint64 {
	if addr>>55&1 == 1 {
		return addr | 0xffff<<48
	}
	return addr
}
