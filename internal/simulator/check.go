// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/timeline"
)

// A Fault is an answer that the truth contradicts.
type Fault struct {
	How    string // the recording was read
	Kind   string
	Addr   uint64
	Span   timeline.Span
	At     uint64 // true time
	Detail string
}

// String returns the fault with the byte's history.
func (f *Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.How, f.Kind)
	if f.Addr != 0 {
		fmt.Fprintf(&b, " at %#x", f.Addr)
	}
	if s := &f.Span; s.Len > 0 {
		fmt.Fprintf(&b, " in %#x+%d: %v %v %v since %d until %d, at true time %d", s.Addr, s.Len, s.Standing, s.Reason, s.Source, s.Since, s.Until, f.At)
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, ": %s", f.Detail)
	}
	return b.String()
}

// A checker compares an image with the truth.
type checker struct {
	run    *Run
	truth  *truth
	image  *timeline.Image
	faults []Fault
	tally  *tally
	core   float64 // bytes times nanoseconds of kernel text that are known
	must   []must
	rand   *rand.Rand
}

// A tally counts the bytes of all versions that were compared, and those of them that
// are known.
type tally struct{ compared, known uint64 }

// must is a range that is to be known during a true time.
type must struct {
	addr, len uint64
	from, to  uint64
	why       string
}

const maxFaults = 5

func (c *checker) fault(f Fault) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, f)
	}
}

// pages returns all pages at which the simulated kernel ever has anything, or the copy of
// another one.
func (c *checker) pages() []uint64 {
	var pages []uint64
	for n := range c.truth.pages {
		pages = append(pages, n*kernel.PageSize)
	}
	if c.run.Config.Foreign != NotForeign {
		for _, r := range c.run.Recording.Copy.Ranges {
			for a := r[0]; a < r[1]; a += kernel.PageSize {
				if c.truth.pages[a/kernel.PageSize] == nil {
					pages = append(pages, a)
				}
			}
		}
	}
	return pages
}

// all checks every byte at every time.
func (c *checker) all() {
	for _, page := range c.pages() {
		for part := uint64(0); part < kernel.PageSize; part += partSize {
			c.part(page + part)
		}
	}
}

// partSize is how many bytes are asked for at once: few enough that little else changes
// between two changes of one of them.
const partSize = 128

func (c *checker) part(addr uint64) {
	for t := uint64(0); ; {
		next := uint64(timeline.MaxTime)
		for s := range c.image.At(t).Spans(addr, partSize) {
			if t < s.Since || t >= s.Until {
				c.fault(Fault{Kind: "outside of its validity", Addr: s.Addr, Span: s, At: t})
			}
			if s.Since == t || t == 0 {
				c.span(&s)
			}
			next = min(next, s.Until)
		}
		if next == timeline.MaxTime || next <= t {
			return
		}
		t = next
	}
}

func (c *checker) span(s *timeline.Span) {
	c.tally.compared += s.Len
	if s.Standing != timeline.Known {
		c.missing(s)
		return
	}
	c.tally.known += s.Len
	time := c.truth.span(s.Since, s.Until)
	if at, ok := c.truth.dead(s.Addr, s.Len, time); ok && !c.behindText(at) {
		c.fault(Fault{Kind: "nothing alive", Addr: at, Span: *s, Detail: c.facts(at)})
	}
	for i, b := range s.Bytes {
		addr := s.Addr + uint64(i)
		at, was, ok := c.truth.contradicts(addr, b, time)
		if !ok || s.Source == timeline.SourceSnapshot && c.inTrap(addr) {
			continue
		}
		c.fault(Fault{Kind: "wrong byte", Addr: addr, Span: *s, At: at, Detail: fmt.Sprintf("%02x instead of %02x%s", b, was, c.facts(addr))})
		break
	}
	if text := c.run.Kernel.Text; text.Lo <= s.Addr && s.Addr < text.Hi {
		lo, hi := max(s.Since, c.image.First()), min(s.Until, c.image.Horizon())
		if lo < hi {
			c.core += float64(s.Len) * float64(hi-lo)
		}
	}
}

// inTrap reports whether perf's copy has a byte of a change that was being made, of which no ring
// buffer has the record, and that no rule can recognise by its trap: that of a static key (docs/truth.md,
// snapshot). known assumes that there is none.
func (c *checker) inTrap(addr uint64) bool {
	made, text := c.run.Recording.Copy, c.run.Kernel.Text
	if made == nil || addr < text.Lo || text.Hi <= addr {
		return false
	}
	return slices.ContainsFunc(c.run.Kernel.Truth.Traps, func(t kernel.Trap) bool {
		if t.Kept || addr < t.Addr || t.Addr+t.Len <= addr || t.From > made.To || t.To < made.From {
			return false
		}
		code := made.KCore[kernel.PageSize+t.Addr-text.Lo:][:t.Len]
		return code[0] == 0xcc && text.IsKey(t.Addr) && !bytes.Equal(code[1:], []byte{0x1f, 0x44, 0, 0})
	})
}

// behindText reports whether an address is in the rest of the last page of kernel text.
// Nothing ever changes there, and without kallsyms nothing says that text ends before.
func (c *checker) behindText(addr uint64) bool {
	hi := c.run.Kernel.Text.Hi
	return c.run.Config.NoKallsyms && hi <= addr && addr < (hi+kernel.PageSize-1)&^(kernel.PageSize-1)
}

// symbols checks what is known to be named: the kernel's functions, if there is a
// table of symbols, and BPF programs.
func (c *checker) symbols(table bool) {
	clock := c.truth.clock
	check := func(addr uint64, name string, from, to uint64) {
		moment := from + c.rand.Uint64N(to-from)
		if !c.truth.looksAt(moment) {
			return
		}
		at := clock.Read(0, moment)
		v := c.image.At(at)
		var b [1]byte
		block := v.Read(addr, b[:])
		if block.Standing != timeline.Known {
			return
		}
		s, ok := v.Symbol(addr)
		if ok && s.Name == name {
			return
		}
		// The clock of another CPU may show another time than that of CPU 0, as for bytes.
		since, until := block.Since, block.Until
		if ok && s.From <= at && at < s.To {
			since, until = max(since, s.From), min(until, s.To)
		}
		if slices.ContainsFunc(clock.Surely(since, until), func(iv kernel.Interval) bool { return iv.From <= moment && moment < iv.To }) {
			c.fault(Fault{Kind: "wrong symbol", Addr: addr, Detail: fmt.Sprintf("at %d it is %q instead of %q", at, s.Name, name)})
		}
	}
	end := c.run.Recording.Closed
	if table {
		for _, f := range c.run.Kernel.Text.Funcs {
			check(f.Addr, f.Name, 0, end)
		}
	}
	for _, l := range c.run.Kernel.Truth.Lives {
		if to := min(l.To, end); l.Kind == kernel.LifeBPF && l.From < to && len(clock.Surely(clock.Read(0, l.From), clock.Read(0, to))) > 0 {
			check(l.Addr, l.Name, l.From, to)
		}
	}
}

// traps checks that what is known may trap whenever memory holds INT3 for a change that
// was recorded, and that no cursor says of such a time that there is no trap.
func (c *checker) traps(w *timeline.Windows) {
	rec, clock := c.run.Recording, c.truth.clock
	cursor := w.Cursor(c.image)
	if clock.Offset != nil || clock.Resolution > 1 || clock.Steps != nil {
		return // true times are not those of the records
	}
	for i, trap := range c.run.Kernel.Truth.Traps {
		if !trap.Kept || trap.From == trap.To || trap.Poked < rec.Opened || trap.Poked >= rec.Ended ||
			clock.Read(0, trap.Poked) > c.image.Horizon() || clock.Read(0, trap.Poked) < c.image.First() {
			continue // a file of --switch-output may begin in the middle of a batch
		}
		moments := [...]uint64{trap.From, trap.From + c.rand.Uint64N(trap.To-trap.From), trap.To - 1}
		at := clock.Read(0, moments[i%len(moments)]) // other runs look at the others
		var b [1]byte
		if c.image.At(at).Read(trap.Addr, b[:]).Standing != timeline.Known {
			continue
		}
		if len(w.At(trap.Addr, trap.Len, at)) == 0 {
			c.fault(Fault{Kind: "no window", Addr: trap.Addr, Detail: fmt.Sprintf("at %d; the poke is of %d, the trap from %d to %d", at, clock.Read(0, trap.Poked), clock.Read(0, trap.From), clock.Read(0, trap.To))})
		}
		var code [16]byte
		if b := cursor.Read(trap.Addr, at, code[:]); b.NoTrap.At(at) {
			c.fault(Fault{Kind: "no trap", Addr: trap.Addr, Detail: fmt.Sprintf("at %d; the cursor says none from %d to %d", at, b.NoTrap.Since, b.NoTrap.Until)})
		}
	}
}

// missing checks that a span that is not known is not one that could be.
func (c *checker) missing(s *timeline.Span) {
	for i := range c.must {
		m := &c.must[i]
		if s.Addr+s.Len <= m.addr || m.addr+m.len <= s.Addr {
			continue
		}
		for _, iv := range c.truth.clock.Surely(s.Since, s.Until) {
			if lo, hi := max(iv.From, m.from), min(iv.To, m.to); lo < hi {
				c.fault(Fault{Kind: "not known", Addr: max(s.Addr, m.addr), Span: *s, At: lo, Detail: m.why + c.facts(max(s.Addr, m.addr))})
				return
			}
		}
	}
}

// facts lists what happened to a byte.
func (c *checker) facts(addr uint64) string {
	var b strings.Builder
	p := c.truth.pages[addr/kernel.PageSize]
	if p == nil {
		return ""
	}
	for _, h := range p.of(int(addr % kernel.PageSize)) {
		from := c.truth.times[h.store].From
		fmt.Fprintf(&b, "\n\t%02x from %d (clock %d)", h.value, from, c.truth.clock.Read(0, from))
	}
	for _, l := range p.lives {
		if l.Addr <= addr && addr < l.Addr+l.Len {
			fmt.Fprintf(&b, "\n\t%s kind %d at %#x+%d from %d to %d", l.Name, l.Kind, l.Addr, l.Len, l.From, l.To)
		}
	}
	return b.String()
}
