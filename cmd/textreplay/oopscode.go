// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The verdicts on a Code: line.
const (
	codeEqual   = "equal"
	codeTrap    = "trap"
	codeDiffers = "differs"
	codeUnknown = "unknown"
)

// A comparedCode is a Code: line, compared with the text.
type comparedCode struct {
	verdict      string
	code         []byte
	gaps         []bool
	since, until uint64 // of the version that is most like it
	view         timeline.View
	equal        int // bytes that are known and equal
	notKnown     int
	likely, odd  int          // of these, given bytes that are equal, and that differ
	differ       int          // bytes that are known and differ
	differences  []difference // these
	rows         []row
	trap         string // the kind of the change that is in flight
}

// compare compares a Code: line with the text around ip.
func (o *oops) compare(a *oopsAnswer, ip *oopsAnswer) {
	order := binary.ByteOrder(binary.LittleEndian)
	if o.r.Machine() != elf.EM_AARCH64 {
		order = o.c.order
	}
	c := &comparedCode{}
	unit := 1
	if a.wide {
		unit = 4
	}
	for i, v := range a.code {
		if unit == 1 {
			c.code = append(c.code, byte(v))
		} else {
			c.code = appendWord(order, c.code, uint32(v))
		}
		for range unit {
			c.gaps = append(c.gaps, a.gaps[i])
		}
	}
	switch {
	case a.odd != "":
		a.err = errors.New(a.odd)
		o.found.unknown++
		return
	case !slices.Contains(a.gaps, false):
		a.err = errors.New("the kernel could not read the code")
		o.found.unknown++
		return
	case a.oopsItem.addr != 0:
		a.addr = a.oopsItem.addr
	case a.mark < 0:
		a.err = fmt.Errorf("no byte is marked, so the address of this code is unknown")
		o.found.unknown++
		return
	case ip.addr == 0:
		a.err = errors.New("its address is unknown")
		o.found.unknown++
		return
	default:
		a.addr = ip.addr - uint64(a.mark*unit)
	}
	// The kernel reads the code when it prints this line, after the CPU was there.
	if ip != nil && ip.how != "" && ip.how == a.how {
		a.times.From = min(a.times.From, ip.times.From)
	}
	a.compared = c
	a.cut = o.eachVersion(a.addr, uint64(len(c.code)), a.times, func(v *version) bool {
		a.versions++
		x := o.against(a.addr, c, v, a.times)
		if c.verdict == "" || verdictRank(x.verdict) < verdictRank(c.verdict) ||
			x.verdict == c.verdict && x.differ+x.odd < c.differ+c.odd {
			*c = x
		}
		return c.verdict != codeEqual
	})
	if c.verdict == codeDiffers && a.cut {
		c.verdict = codeUnknown // a later version may be equal
		o.found.unknown++
	}
	if c.verdict == codeDiffers {
		a.finding = true
		o.found.findings++
	}
	if c.notKnown > 0 && !o.meets(timeline.Unknown, "any") {
		o.found.below++
	}
}

// appendWord appends a word in a byte order.
func appendWord(order binary.ByteOrder, b []byte, v uint32) []byte {
	var w [4]byte
	order.PutUint32(w[:], v)
	return append(b, w[:]...)
}

func verdictRank(v string) int {
	return slices.Index([]string{codeEqual, codeTrap, codeUnknown, codeDiffers}, v)
}

// against compares code with one version of the text.
func (o *oops) against(addr uint64, c *comparedCode, v *version, times replay.Times) comparedCode {
	x := comparedCode{code: c.code, gaps: c.gaps, since: v.since, until: v.until, view: v.view, rows: v.rows}
	trapped := true
	for i := range v.spans {
		s := &v.spans[i]
		for j := range s.Len {
			k := int(s.Addr - addr + j)
			switch {
			case c.gaps[k]:
			case s.Standing != timeline.Known:
				x.notKnown++
				switch {
				case s.Bytes == nil:
				case s.Bytes[j] == c.code[k]:
					x.likely++
				default:
					x.odd++
				}
			case s.Bytes[j] == c.code[k]:
				x.equal++
			default:
				x.differ++
				at := addr + uint64(k)
				if n := len(x.differences); n > 0 && x.differences[n-1].addr+uint64(len(x.differences[n-1].got)) == at {
					d := &x.differences[n-1]
					d.have, d.got = append(d.have, s.Bytes[j]), append(d.got, c.code[k])
				} else {
					x.differences = append(x.differences, difference{at, []byte{s.Bytes[j]}, []byte{c.code[k]}})
				}
				kind, ok := o.inFlight(addr, c.code, k, v, times)
				if trapped = trapped && ok; ok {
					x.trap = kind
				}
			}
		}
	}
	switch {
	case len(x.differences) == 0 && x.notKnown == 0:
		x.verdict = codeEqual
	case len(x.differences) == 0:
		x.verdict = codeUnknown
	case trapped:
		x.verdict = codeTrap
	default:
		x.verdict = codeDiffers
	}
	return x
}

// inFlight reports whether a change that was in flight in this version's time explains
// the k-th byte of the code at addr.
func (o *oops) inFlight(addr uint64, code []byte, k int, v *version, times replay.Times) (kind string, ok bool) {
	from, to := max(times.From, v.since), times.To
	if v.until != timeline.MaxTime {
		to = min(to, v.until-1)
	}
	at, im := addr+uint64(k), o.r.Image
	for _, t := range []uint64{from, to} {
		for _, w := range o.r.Windows().At(at, 1, t) {
			old, new := make([]byte, w.Len), make([]byte, w.Len)
			if w.Switch == 0 || im.At(w.Switch-1).Read(w.Addr, old).Given < w.Len || im.At(w.Switch).Read(w.Addr, new).Given < w.Len {
				continue
			}
			if o.isHalfWritten(w.Addr, old, new, addr, code) {
				return w.Kind.String(), true
			}
		}
	}
	return "", false
}

// isHalfWritten reports whether the code at addr has a state of a site that its change
// goes through: on x86 INT3 as the first byte, and after it bytes of either side;
// elsewhere a trap in place of the instruction.
func (o *oops) isHalfWritten(site uint64, old, new []byte, addr uint64, code []byte) bool {
	seen := func(i int) (byte, bool) {
		k := int64(site - addr + uint64(i))
		if k < 0 || k >= int64(len(code)) {
			return 0, false // outside of what the oops shows
		}
		return code[k], true
	}
	trap := []byte{0xcc}
	switch o.r.Machine() {
	case elf.EM_X86_64:
	case elf.EM_AARCH64, elf.EM_PPC64:
		var word [4]byte
		for i := range word {
			b, ok := seen(i)
			if !ok {
				return false
			}
			word[i] = b
		}
		if o.r.Machine() == elf.EM_AARCH64 {
			return binary.LittleEndian.Uint32(word[:])&0xffe0001f == 0xd4200000 // BRK
		}
		return o.c.order.Uint32(word[:]) == 0x7fe00008 // trap
	case elf.EM_S390:
		trap = []byte{0, 2}
	default:
		return false
	}
	for i := range old {
		b, ok := seen(i)
		switch {
		case !ok:
		case i < len(trap):
			if b != trap[i] {
				return false
			}
		case b != old[i] && b != new[i]:
			return false
		}
	}
	return true
}
