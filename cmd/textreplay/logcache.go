// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A site flips between the same instructions again and again, so log keeps what it has
// printed of a poke: a rendering. It depends on the bytes of the poke and on the names of
// addresses in it. Addresses in core text have their names at all times. The names of others,
// such as an ftrace trampoline, are looked up anew, and if they are the same, so is the
// rendering.
type rendering struct {
	old, new, label string
	// json are the fields of a jsonPoke that depend on nothing else, without the braces;
	// nil if they are not made yet.
	json []byte
	// csv are the columns logTextColumns of the same poke, likewise.
	csv []byte
	// The names in old and new that may be others at another time.
	oldNames, newNames []naming
	lasts              bool // it may be used again
	// mechanism is by what such a poke of kind is made, "" if that may be another one at
	// another time.
	mechanism string
	kind      timeline.PokeKind
}

// A naming is an address with its name, see coder.nameOf.
type naming struct {
	addr uint64
	name string
}

// mostRenderings is how many renderings are kept, of a few hundred bytes each.
const mostRenderings = 1 << 18

// render returns the instructions before and after a poke, and the label of its place.
func (l *log) render(p *logPoke) *rendering {
	key := append(l.key[:0], byte(p.Addr), byte(p.Addr>>8), byte(p.Addr>>16), byte(p.Addr>>24),
		byte(p.Addr>>32), byte(p.Addr>>40), byte(p.Addr>>48), byte(p.Addr>>56), byte(len(p.Old)), byte(len(p.Old)>>8))
	key = append(append(key, p.Old...), p.New...)
	l.key = key
	if r := l.renderings[string(key)]; r != nil && l.c.named(p.before, r.oldNames) && l.c.named(p.after, r.newNames) {
		return r
	}
	r := &rendering{lasts: true}
	r.old = l.side(p.before, p.Addr, p.Old, &r.oldNames, &r.lasts)
	r.new = l.side(p.after, p.Addr, p.New, &r.newNames, &r.lasts)
	v, names := p.after, &r.newNames
	if p.c != nil && p.kind() == timeline.PokeRemoved { // a step of a sequence has no change
		v, names = p.before, &r.oldNames
	}
	r.label = l.c.label(v, p.Addr)
	l.c.note(v, p.Addr, names, &r.lasts)
	if r.lasts {
		if len(l.renderings) >= mostRenderings {
			clear(l.renderings)
		}
		l.renderings[string(key)] = r
	}
	return r
}

// mechanismOf returns the mechanism of a poke that is rendered as r. It follows from the bytes,
// the place, and where the instructions lead. These are the same at all times if all is core text.
func (j *logJSON) mechanismOf(p *logPoke, r *rendering) string {
	kind := p.kind()
	if r.mechanism != "" && r.kind == kind {
		return r.mechanism
	}
	m := j.mechanism(p.c)
	if r.lasts && len(r.oldNames) == 0 && len(r.newNames) == 0 && j.c.isCoreText(p.Addr) {
		r.mechanism, r.kind = m, kind
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
	insts := l.c.instsAt(v, addr, uint64(n), code)
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
	name, ok := c.passingName(v, addr)
	*lasts = *lasts && ok
	*names = append(*names, naming{addr, name})
}

// named reports whether addresses have these names at v's time.
func (c *coder) named(v timeline.View, names []naming) bool {
	for i := range names {
		if name, ok := c.passingName(v, names[i].addr); !ok || name != names[i].name {
			return false
		}
	}
	return true
}

// A passingName is a name that an address has for some time.
type passingName struct {
	name  string
	valid interval
}

// passingName returns nameOf(v, addr) for an address outside of core text. ok is false if
// it is not known for how long the address has the name.
func (c *coder) passingName(v timeline.View, addr uint64) (name string, ok bool) {
	if p, ok := c.passing[addr]; ok && p.valid.has(v.Time()) {
		return p.name, true
	}
	valid, ok := c.nameLasts(v, addr)
	if !ok {
		return "", false
	}
	if c.passing == nil || len(c.passing) >= mostRenderings {
		c.passing = make(map[uint64]passingName)
	}
	name = c.nameOf(v, addr)
	c.passing[addr] = passingName{name, valid}
	return name, true
}

// isCoreText reports whether addr is in core kernel text, where names do not change.
func (c *coder) isCoreText(addr uint64) bool {
	lo, hi := c.r.Image.Text()
	return lo <= addr && addr < hi
}

// nameLasts returns a time, around v's, in which an address outside of core text has the
// same name. It returns false if no such time is known.
func (c *coder) nameLasts(v timeline.View, addr uint64) (valid interval, ok bool) {
	alive, _ := v.LifetimeAt(addr)
	if alive == nil {
		return interval{}, false
	}
	valid = interval{alive.From, alive.To}
	if alive.Kind != timeline.OutOfLine && alive.Kind != timeline.BPFImage {
		return valid, true
	}
	s, ok := c.trampoline(v, addr)
	if !ok || s.Func != 0 && !c.isCoreText(s.Func) || slices.ContainsFunc(s.Places, func(p uint64) bool { return !c.isCoreText(p) }) {
		return interval{}, false
	}
	return interval{max(valid.from, s.From), min(valid.to, s.To)}, true
}

// marshal returns v as JSON, as encoder prints it, without the newline.
func marshal(v any) []byte {
	var b bytes.Buffer
	if err := encoder(&b).Encode(v); err != nil {
		panic(err) // strings and numbers have a form in JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// quoted returns a string as JSON. There are as many as names of threads.
func (j *logJSON) quoted(s string) []byte {
	q, ok := j.quotes[s]
	if !ok {
		if q = marshal(s); len(j.quotes) >= mostRenderings {
			clear(j.quotes)
		}
		j.quotes[s] = q
	}
	return q
}

// write prints a poke of which most has been printed before, as r.
func (j *logJSON) write(p *logPoke, r *rendering) error {
	id := p.c.SampleID()
	b := append(j.line[:0], `{"time":"`...)
	b = strconv.AppendUint(b, p.c.Time, 10)
	b = append(b, `","kind":"poke"`...)
	if id.Has&perfdata.SampleCPU != 0 {
		b = strconv.AppendUint(append(b, `,"cpu":`...), uint64(id.CPU), 10)
	}
	if id.Has&perfdata.SampleTID != 0 {
		b = strconv.AppendUint(append(b, `,"pid":`...), uint64(id.PID), 10)
		b = strconv.AppendUint(append(b, `,"tid":`...), uint64(id.TID), 10)
		if p.c.Comm != "" {
			b = append(append(b, `,"comm":`...), j.quoted(p.c.Comm)...)
		}
	}
	b = append(append(b, ','), r.json...)
	if p.c.Batch != nil {
		b = strconv.AppendInt(append(b, `,"batch":`...), int64(p.c.Batch.Number), 10)
	}
	b = append(append(b, `,"mechanism":`...), j.quoted(j.mechanismOf(p, r))...)
	b = append(b, '}', '\n')
	j.line = b
	_, err := j.out.Write(b)
	return err
}
