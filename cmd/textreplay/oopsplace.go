// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// An oopsAnswer is an item with the text at its time.
type oopsAnswer struct {
	*oopsItem
	times    replay.Times
	how      string // how the time was found; "" if it is that of the whole recording
	addr     uint64
	err      error // why the place has no address, or another one
	finding  bool  // err contradicts the recording
	view     timeline.View
	first    version // of the instruction there, at the start of the interval
	versions int     // how many the interval has
	cut      bool    // it has more, which were not looked at
	inst     string
	compared *comparedCode
}

// maxVersions is how many versions of a place are looked at. A recording without usable
// times can have more of a busy place.
var maxVersions = 1 << 14

// answer finds the text of an item at its time. It returns nil for user space, and for
// code whose place is unknown.
func (o *oops) answer(item *oopsItem) *oopsAnswer {
	a := &oopsAnswer{oopsItem: item}
	a.times, a.how = o.clock.times(&item.logLine)
	a.view = o.r.Image.At(a.times.From)
	switch item.kind {
	case oopsReport:
		if want := o.r.Report.Kernel; item.known != "" && want != "" && item.known != want {
			a.err, a.finding = fmt.Errorf("this is kernel %s, the recording is of %s", item.known, want), true
			o.found.findings++
		}
		return a
	case oopsCode:
		ip := o.ip
		if ip == nil && item.addr == 0 {
			return nil // of user space
		}
		o.found.places++
		o.compare(a, ip)
		return a
	}
	where := item.kind == oopsIP && !item.nested
	if where {
		o.ip = nil
	}
	if item.user {
		return nil
	}
	o.found.places++
	if where {
		o.ip = a
	}
	a.err = o.resolve(a)
	if a.err != nil {
		if a.finding {
			o.found.findings++
		} else {
			o.found.unknown++
		}
		if a.addr == 0 {
			return a
		}
	}
	o.look(a)
	return a
}

// resolve finds the address of a place. If it is printed with a name, both must agree.
func (o *oops) resolve(a *oopsAnswer) error {
	a.addr = a.oopsItem.addr
	if a.place == "" {
		return nil
	}
	if isBeyond(a.place) {
		a.finding = true
		return fmt.Errorf("the offset in %s is beyond the function's size, which no kernel prints: the line is damaged", a.place)
	}
	addr, err := o.r.ParseAddr(a.place, a.times.From)
	if err != nil && a.how == "" {
		// A name of code that came later.
		for s := range o.r.Image.Symbols {
			if name, _, _ := strings.Cut(a.place, "+"); s.Name == name {
				addr, err = o.r.ParseAddr(a.place, s.From)
				break
			}
		}
	}
	if q, ok := err.(*replay.QuestionError); ok && a.addr == 0 && len(q.Candidates) > 1 && a.kind != oopsIP && !a.unsure {
		if at, ok := o.afterCall(a, q.Candidates); ok {
			addr, err = at, nil
		}
	}
	switch {
	case err != nil:
		var q *replay.QuestionError
		if errors.As(err, &q) && q.Candidates == nil {
			a.finding = errors.Is(err, replay.ErrOtherKernel)
			if m := moduleOf(a.place); m != "" && q.Err == nil {
				// Similar names are of other code. Often no name of the module is known.
				return fmt.Errorf("no symbol of this name in module %s is in the recording", m)
			}
			err = errors.New(strings.TrimPrefix(q.Error(), strconv.Quote(q.Text)+": "))
		}
		return err
	case a.addr == 0:
		a.addr = addr
	case a.addr != addr:
		a.finding = true
		return fmt.Errorf("%s is at %#x in the recording, not at %#x: the oops is of another boot or kernel", a.place, addr, a.addr)
	}
	return nil
}

// isBeyond reports whether the offset of a place is beyond its size: "f+0x500/0x40". A return address may
// be just behind the function, if the function ends with a call that does not return (sprint_backtrace of
// kernel/kallsyms.c).
func isBeyond(place string) bool {
	_, rest, _ := strings.Cut(place, "+")
	offset, size, _ := strings.Cut(rest, "/")
	size, _, _ = strings.Cut(size, " ") // of "f+0x1/0x2 [ext4]"
	at, err := numbers.Parse(offset, 64)
	n, err2 := numbers.Parse(size, 64)
	return err == nil && err2 == nil && n > 0 && at > n
}

// afterCall returns the address of a place in the only one of several functions in which a call
// ends there: the kernel prints return addresses. The text of all of them must be given.
func (o *oops) afterCall(a *oopsAnswer, candidates []timeline.Symbol) (addr uint64, ok bool) {
	_, rest, _ := strings.Cut(a.place, "+")
	text, _, _ := strings.Cut(rest, "/")
	offset, err := numbers.Parse(text, 64)
	if err != nil || offset == 0 || o.c.dis == nil {
		return 0, false
	}
	for _, s := range candidates {
		at := s.Addr + offset
		before := make([]byte, offset)
		if uint64(a.view.Read(s.Addr, before).Given) < offset {
			return 0, false
		}
		if b := a.view.Read(at-min(offset, maxInsn), make([]byte, min(offset, maxInsn))); endsBy(b.Until, a.times.To) {
			return 0, false // it may be another instruction
		}
		in, found := o.c.containing(a.view, s.Addr, at-1, before)
		if !found || in.Addr+uint64(len(in.Bytes)) != at || in.Class != disasm.Call && in.Class != disasm.IndirectCall {
			continue
		}
		if ok {
			return 0, false
		}
		addr, ok = at, true
	}
	return addr, ok
}

// moduleOf returns the module of a place: "ext4" of "f+0x1/0x2 [ext4]"; "" if it has none.
func moduleOf(place string) string {
	_, m, _ := strings.Cut(place, " [")
	m, _, _ = strings.Cut(strings.TrimSuffix(m, "]"), " ") // a build id may follow
	return m
}

// look finds the instruction at a place; for a return address, the call before it.
func (o *oops) look(a *oopsAnswer) {
	addr, n := a.addr, uint64(1)
	var in disasm.Inst
	if o.c.dis != nil {
		// The start of a function is on the stack for other reasons.
		calls := a.kind != oopsIP && !strings.Contains(a.place, "+0x0/")
		if calls && addr > 0 {
			var ok bool
			if in, ok = o.c.around(a.view, addr-1); !ok || in.Addr+uint64(len(in.Bytes)) != addr {
				in = disasm.Inst{}
			}
		}
		if in.Bytes == nil {
			if insts := o.c.instsAt(a.view, addr, 1, nil); len(insts) > 0 {
				in = insts[0]
			}
		}
		if in.Bytes != nil {
			addr, n = in.Addr, uint64(len(in.Bytes))
			a.inst = instsText([]disasm.Inst{in}, len(in.Bytes))
		}
	}
	a.cut = o.eachVersion(addr, n, a.times, func(v *version) bool {
		if a.versions++; a.versions == 1 {
			a.first = *v
		}
		return true
	})
	if !o.meets(a.first.standing, "any") {
		o.found.below++
	}
}

// eachVersion calls f with each version of [addr, addr+n) in the interval, until it
// returns false. It reports whether there are more than maxVersions.
func (o *oops) eachVersion(addr, n uint64, times replay.Times, f func(v *version) bool) (cut bool) {
	if addr+n < addr {
		n = -addr
	}
	t := times.From
	for range maxVersions {
		v := o.c.version(o.r.Image.At(t), addr, n)
		if !f(&v) || !endsBy(v.until, times.To) {
			return false
		}
		t = v.until
	}
	return true
}
