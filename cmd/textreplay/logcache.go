// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A site flips between the same instructions again and again, so log keeps what it has
// printed of a poke: a rendering. It depends on the bytes of the poke and on the names of
// addresses in it. Addresses in core text have their names at all times. The names of others,
// such as an ftrace trampoline, are looked up anew, and if they are the same, so is the
// rendering.
type rendering struct {
	// The poke: its place, and its old and new bytes.
	addr   uint64
	oldLen int
	code   string
	// next is the rendering that came after this one the last time. The kernel changes the
	// same sites in the same order again and again, so it is likely to be the next one.
	next *rendering

	old, new, label string
	// json are the fields of a jsonPoke that depend on nothing else, without the braces;
	// nil if they are not made yet.
	json []byte
	// csv are the columns logTextColumns of the same poke, likewise.
	csv []byte
	// The names in old and new that may be others at another time.
	oldNames, newNames []naming
	lasts              bool // it may be used again
	// mechanism is the mechanism that makes such a poke, as long as the names are of the same
	// code; "" if it is not known yet.
	mechanism string
}

// is reports whether r has the place and the bytes of a poke.
func (r *rendering) is(p *logPoke) bool {
	return r.addr == p.Addr && r.oldLen == len(p.Old) &&
		r.code[:r.oldLen] == string(p.Old) && r.code[r.oldLen:] == string(p.New)
}

// A naming is an address with the name that it had when it was last looked up.
type naming struct {
	addr uint64
	*passingName
}

// mostRenderings is how many renderings are kept, of a few hundred bytes each. A test that
// sets it to 0 has each poke printed anew.
var mostRenderings = 1 << 18

// render returns the instructions before and after a poke, and the label of its place.
func (l *log) render(p *logPoke) *rendering {
	if last := l.last; last != nil && last.next != nil && last.next.is(p) && l.holds(p, last.next) {
		l.last = last.next
		return l.last
	}
	r := l.renderingOf(p)
	if !r.lasts {
		return r
	}
	if l.last != nil {
		l.last.next = r
	}
	l.last = r
	return r
}

// holds reports whether r, which is of the bytes of a poke, is of the names at its time too.
func (l *log) holds(p *logPoke, r *rendering) bool {
	return l.c.named(p.before, r, r.oldNames) && l.c.named(p.after, r, r.newNames)
}

// forget drops all renderings: there are too many, or the image is another one.
func (l *log) forget() {
	clear(l.renderings)
	l.last = nil // its next leads to the dropped ones
}

// renderingOf looks a rendering up, or makes it.
func (l *log) renderingOf(p *logPoke) *rendering {
	const head = 10
	if r := l.renderings[string(l.keyOf(p.Addr, p.Old, p.New))]; r != nil && l.holds(p, r) {
		return r
	}
	r := l.turned(p)
	if r == nil {
		r = &rendering{addr: p.Addr, oldLen: len(p.Old), lasts: true}
		r.old = l.side(p.before, p.Addr, p.Old, &r.oldNames, &r.lasts)
		r.new = l.side(p.after, p.Addr, p.New, &r.newNames, &r.lasts)
		v, names := p.after, &r.newNames
		if p.c != nil && p.kind() == timeline.PokeRemoved { // a step of a sequence has no change
			v, names = p.before, &r.oldNames
		}
		r.label = l.c.label(v, p.Addr)
		l.c.note(v, p.Addr, names, &r.lasts)
	}
	if r.lasts = r.lasts && mostRenderings > 0; r.lasts {
		if len(l.renderings) >= mostRenderings {
			l.forget()
		}
		key := string(l.keyOf(p.Addr, p.Old, p.New))
		r.code = key[head:]
		l.renderings[key] = r
	}
	return r
}

// keyOf returns the key of a poke among the renderings, which is valid until the next call.
func (l *log) keyOf(addr uint64, old, new []byte) []byte {
	key := append(l.key[:0], byte(addr), byte(addr>>8), byte(addr>>16), byte(addr>>24),
		byte(addr>>32), byte(addr>>40), byte(addr>>48), byte(addr>>56), byte(len(old)), byte(len(old)>>8))
	l.key = append(append(key, old...), new...)
	return l.key
}

// turned makes the rendering of a poke that undoes one which has a rendering: the same code
// with the sides exchanged. It returns nil if there is none.
func (l *log) turned(p *logPoke) *rendering {
	if len(p.Old) == 0 || len(p.New) == 0 || !l.c.isCoreText(p.Addr) {
		return nil
	}
	o := l.renderings[string(l.keyOf(p.Addr, p.New, p.Old))]
	if o == nil {
		return nil
	}
	r := &rendering{addr: p.Addr, oldLen: len(p.Old), lasts: true, old: o.new, new: o.old, label: o.label,
		oldNames: slices.Clone(o.newNames), newNames: slices.Clone(o.oldNames)}
	if !l.holds(p, r) {
		return nil
	}
	return r
}

// mechanismOf returns the mechanism of a poke that is rendered as r. It follows from the bytes,
// the place, and what code is where the instructions lead. This is the same as long as r holds
// and its names are of the same code; see coder.named.
func (j *logJSON) mechanismOf(p *logPoke, r *rendering) string {
	if r.mechanism != "" {
		return r.mechanism
	}
	m := j.mechanism(p.c)
	// The classifier asks what the old code leads to after the poke.
	left := slices.ContainsFunc(r.oldNames, func(n naming) bool { return !n.valid.has(p.Time) })
	if r.lasts && !left && j.c.isCoreText(p.Addr) {
		r.mechanism = m
	}
	return m
}

// side prints the instructions of code, which is at addr at v's time. It appends to names
// those that may change, and sets lasts to false if anything else may.
func (l *log) side(v timeline.View, addr uint64, code []byte, names *[]naming, lasts *bool) string {
	n := len(code)
	if n == 0 {
		return ""
	}
	l.c.asking, l.c.asked = true, l.c.asked[:0]
	insts := l.c.shown(v, addr, code)
	l.c.asking = false
	for _, a := range l.c.asked {
		l.c.note(v, a, names, lasts)
	}
	size := 0
	for i := range insts {
		size += len(insts[i].Bytes)
		*lasts = *lasts && !insts[i].Data
	}
	// If the last instruction is longer, the rest of it is the image's.
	*lasts = *lasts && size == n && l.c.dis != nil && l.c.literals == nil
	return instsText(insts, n)
}

// note appends the name of addr at v's time to names, if it may be another one at another
// time. It sets lasts to false if it cannot be looked up again.
func (c *coder) note(v timeline.View, addr uint64, names *[]naming, lasts *bool) {
	if c.isCoreText(addr) {
		return
	}
	if p := c.passingName(v, addr); p != nil {
		*names = append(*names, naming{addr, p})
	} else {
		*lasts = false
	}
}

// named reports whether the addresses of r have these names at v's time. The mechanism depends
// on the kind of the code there, and on whether the old code is still there after the poke.
func (c *coder) named(v timeline.View, r *rendering, names []naming) bool {
	for i := range names {
		n := &names[i]
		if !n.valid.has(v.Time()) {
			now := c.passingName(v, n.addr)
			if now == nil || now.name != n.name {
				return false
			}
			if now.of != n.of {
				r.mechanism = ""
			}
			n.passingName = now
		}
		if v.Time() == n.valid.to-1 {
			r.mechanism = "" // the old code leads to what ends with the poke
		}
	}
	return true
}

// A passingName is a name that an address has for some time.
type passingName struct {
	name  string
	valid interval
	of    timeline.LifetimeKind // of the code there, whose name is the same as long as name is
}

// passingName returns nameOf(v, addr) for an address outside of core text; nil if it is not
// known for how long the address has the name.
func (c *coder) passingName(v timeline.View, addr uint64) *passingName {
	if p := c.passing[addr]; p != nil && p.valid.has(v.Time()) {
		return p
	}
	valid, of, ok := c.nameLasts(v, addr)
	if !ok {
		return nil
	}
	if c.passing == nil || len(c.passing) >= mostRenderings {
		c.passing = make(map[uint64]*passingName)
	}
	p := &passingName{c.nameOf(v, addr), valid, of}
	c.passing[addr] = p
	return p
}

// isCoreText reports whether addr is in core kernel text, where names do not change.
func (c *coder) isCoreText(addr uint64) bool {
	lo, hi := c.r.Image.Text()
	return lo <= addr && addr < hi
}

// nameLasts returns a time, around v's, in which an address outside of core text has the
// same name, and the kind of the code there. It returns false if no such time is known.
func (c *coder) nameLasts(v timeline.View, addr uint64) (valid interval, of timeline.LifetimeKind, ok bool) {
	alive, _ := v.LifetimeAt(addr)
	if alive == nil {
		same, of := v.SameNames(addr), timeline.Nothing
		if v.InModule(addr) {
			of = timeline.ModuleText
		}
		return interval{same.From, same.To}, of, true
	}
	valid, of = interval{alive.From, alive.To}, alive.Kind
	if alive.Kind != timeline.OutOfLine && alive.Kind != timeline.BPFImage {
		return valid, of, true
	}
	s, _ := c.trampoline(v, addr)
	if s.To == 0 || s.Func != 0 && !c.isCoreText(s.Func) || slices.ContainsFunc(s.Places, func(p uint64) bool { return !c.isCoreText(p) }) {
		return interval{}, 0, false
	}
	return interval{max(valid.from, s.From), min(valid.to, s.To)}, of, true
}

// marshal returns v as JSON, as encoder prints it, without the newline.
func marshal(v any) []byte {
	var b bytes.Buffer
	if err := encoder(&b).Encode(v); err != nil {
		panic(err) // strings and numbers have a form in JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// appendQuoted appends a string as JSON, as marshal prints it.
func appendQuoted(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return append(b, marshal(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendFields appends the fields of a poke, as marshal prints them, without the braces.
func (t *jsonPokeText) appendFields(b []byte) []byte {
	b = appendQuoted(append(b, `"poke":`...), t.Poke)
	b = appendQuoted(append(b, `,"shape":`...), t.Shape)
	b = appendQuoted(append(b, `,"addr":`...), t.Addr)
	b = append(b, `,"symbol":`...)
	switch s := t.Symbol; {
	case s == nil:
		b = append(b, "null"...)
	case s.Module != nil || s.Aliases != nil || s.Serves != nil || s.Source != nil:
		b = append(b, marshal(s)...)
	default:
		b = appendQuoted(append(b, `{"name":`...), s.Name)
		b = append(strconv.AppendUint(append(b, `,"offset":`...), s.Offset, 10), `,"module":null}`...)
	}
	b = appendQuoted(append(b, `,"old":`...), t.Old)
	b = appendQuoted(append(b, `,"new":`...), t.New)
	b = appendQuoted(append(b, `,"old_text":`...), t.OldText)
	return appendQuoted(append(b, `,"new_text":`...), t.NewText)
}

// write prints a poke whose other fields are made: those of a jsonPokeText.
func (j *logJSON) write(p *logPoke, r *rendering, fields []byte) error {
	id, mechanism := p.c.SampleID(), j.mechanismOf(p, r)
	b := append(j.out.AvailableBuffer(), `{"time":"`...)
	b = strconv.AppendUint(b, p.c.Time, 10)
	b = append(b, `","kind":"poke"`...)
	if id.Has&perfdata.SampleCPU != 0 {
		b = strconv.AppendUint(append(b, `,"cpu":`...), uint64(id.CPU), 10)
	}
	if id.Has&perfdata.SampleTID != 0 {
		if replay.IsTaskID(id.PID) {
			b = strconv.AppendUint(append(b, `,"pid":`...), uint64(id.PID), 10)
		}
		if replay.IsTaskID(id.TID) {
			b = strconv.AppendUint(append(b, `,"tid":`...), uint64(id.TID), 10)
		}
		if p.c.Comm != "" {
			b = appendQuoted(append(b, `,"comm":`...), p.c.Comm)
		}
	}
	b = append(append(b, ','), fields...)
	if p.c.Batch != nil {
		b = strconv.AppendInt(append(b, `,"batch":`...), int64(p.c.Batch.Number), 10)
	}
	b = appendQuoted(append(b, `,"mechanism":`...), mechanism)
	_, err := j.out.Write(append(b, '}', '\n'))
	return err
}
