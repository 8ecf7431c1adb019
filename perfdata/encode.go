// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "slices"

// An encoder makes one record at a time, in b. It writes each field where the typed
// decoder reads it.
type encoder struct {
	endian
	b []byte
}

// begin starts a record with a body of n zero bytes, not counting the header. It returns
// the whole record, for the caller to fill in.
func (c *encoder) begin(typ RecordType, misc uint16, n int) []byte {
	c.b = append(c.b[:0], make([]byte, headerSize+n)...)
	c.put32(c.b, uint32(typ))
	c.put16(c.b[4:], misc)
	return c.b
}

// trailer appends the trailer that id.Event has by its attr, none if id.Event is nil.
func (c *encoder) trailer(id *SampleID) {
	if id.Event == nil {
		return
	}
	l := trailerLayout(&id.Event.Attr)
	at := len(c.b)
	c.b = append(c.b, make([]byte, l.size)...)
	b := c.b[at:]
	if l.tid >= 0 {
		c.put32(b[l.tid:], id.PID)
		c.put32(b[l.tid+4:], id.TID)
	}
	if l.time >= 0 {
		c.put64(b[l.time:], id.Time)
	}
	if l.has&SampleEventID != 0 {
		c.put64(b[l.eventID():], id.ID)
	}
	if l.has&SampleIdentifier != 0 {
		c.put64(b[l.id:], id.ID)
	}
	if l.strm >= 0 {
		c.put64(b[l.strm:], id.StreamID)
	}
	if l.cpu >= 0 {
		c.put32(b[l.cpu:], id.CPU)
	}
}

// eventID returns where ID is in a trailer, which is not l.id if there is
// an IDENTIFIER too.
func (l *layout) eventID() int {
	at := 0
	for _, bit := range [...]SampleType{SampleTID, SampleTime} {
		if l.has&bit != 0 {
			at += 8
		}
	}
	return at
}

// end writes the size into the header and returns the record, valid until the next begin.
func (c *encoder) end() []byte {
	c.put16(c.b[6:], uint16(len(c.b)))
	return c.b
}

func (c *encoder) textPoke(p *TextPoke) []byte {
	b := c.begin(RecordTextPoke, MiscKernel, align8(textPokeBytes+len(p.Old)+len(p.New))-headerSize)
	c.put64(b[8:], p.Addr)
	c.put16(b[16:], uint16(len(p.Old)))
	c.put16(b[18:], uint16(len(p.New)))
	n := copy(b[textPokeBytes:], p.Old)
	copy(b[textPokeBytes+n:], p.New)
	return c.endExcess(&p.SampleID, p.Excess)
}

func (c *encoder) kSymbol(k *KSymbol) []byte {
	b := c.begin(RecordKSymbol, 0, align8(ksymbolName+len(k.Name)+1)-headerSize)
	c.put64(b[8:], k.Addr)
	c.put32(b[16:], k.Len)
	c.put16(b[20:], uint16(k.Kind))
	c.put16(b[22:], k.Flags)
	copy(b[ksymbolName:], k.Name)
	return c.endExcess(&k.SampleID, k.Excess)
}

func (c *encoder) bpfEvent(v *BPFEvent) []byte {
	b := c.begin(RecordBPFEvent, 0, bpfEventBody-headerSize)
	c.put16(b[8:], v.Kind)
	c.put16(b[10:], v.Flags)
	c.put32(b[12:], v.ID)
	copy(b[16:], v.Tag[:])
	return c.endExcess(&v.SampleID, v.Excess)
}

// endExcess appends the trailer and then excess zero bytes, rounded up to a multiple of 8,
// and ends the record. The kernel writes such bytes for several listeners.
func (c *encoder) endExcess(id *SampleID, excess int) []byte {
	c.trailer(id)
	c.b = append(c.b, make([]byte, align8(max(excess, 0)))...)
	return c.end()
}

func (c *encoder) mmap(typ RecordType, misc uint16, m *Mmap) []byte {
	name := mmapName
	if typ == RecordMMAP2 {
		name = mmap2Name
	}
	b := c.begin(typ, misc, align8(name+len(m.Filename)+1)-headerSize)
	c.put32(b[8:], m.PID)
	c.put32(b[12:], m.TID)
	c.put64(b[16:], m.Addr)
	c.put64(b[24:], m.Len)
	c.put64(b[32:], m.Pgoff)
	if typ == RecordMMAP2 {
		if misc&MiscMmapBuildID != 0 {
			b[40] = byte(copy(b[44:44+maxBuildID], m.BuildID))
		} else {
			c.put32(b[40:], m.Major)
			c.put32(b[44:], m.Minor)
			c.put64(b[48:], m.Ino)
			c.put64(b[56:], m.InoGeneration)
		}
		c.put32(b[mmap2Prot:], m.Prot)
		c.put32(b[mmap2Prot+4:], m.Flags)
	}
	copy(b[name:], m.Filename)
	c.trailer(&m.SampleID)
	return c.end()
}

func (c *encoder) comm(misc uint16, v *Comm) []byte {
	b := c.begin(RecordComm, misc, align8(commName+len(v.Comm)+1)-headerSize)
	c.put32(b[8:], v.PID)
	c.put32(b[12:], v.TID)
	copy(b[commName:], v.Comm)
	c.trailer(&v.SampleID)
	return c.end()
}

func (c *encoder) lost(l *Lost) []byte {
	b := c.begin(RecordLost, 0, lostBody-headerSize)
	c.put64(b[8:], l.ID)
	c.put64(b[16:], l.Lost)
	c.trailer(&l.SampleID)
	return c.end()
}

func (c *encoder) lostSamples(l *LostSamples) []byte {
	b := c.begin(RecordLostSamples, 0, lostSamplesBody-headerSize)
	c.put64(b[8:], l.Lost)
	c.trailer(&l.SampleID)
	return c.end()
}

func (c *encoder) finishedRound() []byte {
	c.begin(RecordFinishedRound, 0, 0)
	return c.end()
}

func (c *encoder) idIndex(x *IDIndex) []byte {
	nr := len(x.Entries)
	guest := slices.ContainsFunc(x.Entries, func(en IDIndexEntry) bool { return en.MachinePID != 0 })
	n := nr * idIndexEntry
	if guest {
		n += nr * idIndexGuest
	}
	b := c.begin(RecordIDIndex, 0, 8+n)
	c.put64(b[8:], uint64(nr))
	for i, en := range x.Entries {
		b := b[idIndexEntries+i*idIndexEntry:]
		c.put64(b, en.ID)
		c.put64(b[8:], en.Idx)
		c.put64(b[16:], uint64(en.CPU))
		c.put64(b[24:], uint64(en.TID))
	}
	if guest {
		for i, en := range x.Entries {
			b := b[idIndexEntries+nr*idIndexEntry+i*idIndexGuest:]
			c.put64(b, uint64(en.MachinePID))
			c.put64(b[8:], uint64(en.VCPU))
		}
	}
	return c.end()
}
