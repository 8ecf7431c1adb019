// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A comparison is of an image at one time with another copy of memory.
type comparison struct {
	view     timeline.View
	kinds    [kindCount]compared
	shared   bool // the copy has bytes where the image has something
	wrong    []difference
	bySymbol map[string]uint64 // bytes of wrong
}

// compare compares the image with another copy.
func (v *verify) compare(r *replay.Replay) error {
	times, err := r.ParseTime(v.at)
	if err != nil {
		return err
	}
	core, err := v.openCore(v.against)
	if err != nil {
		return err
	}
	for _, w := range core.Warnings() {
		v.warnf("%v", w)
	}
	segs := make([]timeline.Segment, len(core.Segments))
	for i, s := range core.Segments {
		segs[i] = timeline.Segment(s)
	}
	c := comparison{view: r.Image.At(times.From), bySymbol: make(map[string]uint64)}
	kinds := kindsOfMemory(r, c.view)
	for s, data := range c.view.Against(segs) {
		c.span(&s, data, kinds.kind(&s), times.To)
	}
	if !c.shared {
		// Nothing was compared. That no byte is wrong would be true, and would mislead.
		return inputError(fmt.Errorf("%s: nothing of it is where the recording has code: it is of another boot or of another kernel", v.against))
	}
	switch {
	case v.csv:
		enc := &csvEncoder{w: v.out, columns: []string{"addr", "len", "symbol.name", "symbol.offset", "symbol.module", "image", "copy"}}
		err = enc.begin()
		for _, d := range c.wrong {
			if err == nil {
				err = enc.Encode(d.json(c.view))
			}
		}
	case v.json:
		out := jsonCompared{OK: len(c.wrong) == 0, Time: decTime(times.From), Kinds: make(map[string]compared),
			BySymbol: mostFirst(c.bySymbol), Wrong: []jsonDifference{}}
		for i, k := range c.kinds {
			out.Kinds[kindNames[i].key] = k
		}
		for _, d := range c.wrong {
			out.Wrong = append(out.Wrong, d.json(c.view))
		}
		err = encoder(v.out).Encode(out)
	default:
		v.writeCompared(&c)
	}
	if err != nil {
		return outputError(err)
	}
	if len(c.wrong) > 0 {
		return errBelow
	}
	return nil
}

// span compares a span of memory of one kind with what the copy has there. The copy is of a
// time up to the given one.
func (c *comparison) span(s *timeline.Span, data []byte, kind int, to uint64) {
	k := &c.kinds[kind]
	n := uint64(len(data))
	c.shared = c.shared || s.Standing != timeline.Unmapped
	if s.Standing != timeline.Known || endsBy(s.Until, to) {
		k.NotKnown += n
		if s.Bytes != nil {
			equal := n - differing(s.Bytes, data)
			k.NotKnownEqual += equal
			k.NotKnownDiffer += n - equal
		}
		return
	}
	if bytes.Equal(s.Bytes, data) {
		k.Equal += n
		return
	}
	for lo := 0; lo < len(data); {
		hi := lo
		for hi < len(data) && data[hi] != s.Bytes[hi] {
			hi++
		}
		if lo < hi {
			addr := s.Addr + uint64(lo)
			c.wrong = append(c.wrong, difference{addr, s.Bytes[lo:hi], data[lo:hi]})
			k.Wrong += uint64(hi - lo)
			c.bySymbol[symbolName(c.view, addr)] += uint64(hi - lo)
		}
		lo = hi
		for lo < len(data) && data[lo] == s.Bytes[lo] {
			lo++
			k.Equal++
		}
	}
}

// differing counts the bytes in which a and b differ.
func differing(a, b []byte) (n uint64) {
	if bytes.Equal(a, b) {
		return 0
	}
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// compared counts the bytes of one kind of memory.
type compared struct {
	Equal    uint64 `json:"equal"`
	Wrong    uint64 `json:"wrong"`
	NotKnown uint64 `json:"not_known"`
	// Bytes that are not known but that the image gives.
	NotKnownEqual  uint64 `json:"not_known_equal"`
	NotKnownDiffer uint64 `json:"not_known_differ"`
}

// A difference is a run of known bytes that differ from another copy.
type difference struct {
	addr      uint64
	have, got []byte // of the image; of the copy, or of an oops
}

func (d *difference) json(view timeline.View) jsonDifference {
	return jsonDifference{hexAddr(d.addr), len(d.have), placeOf(view, d.addr).json(), hexBytes(d.have), hexBytes(d.got)}
}

type jsonDifference struct {
	Addr   string      `json:"addr"`
	Len    int         `json:"len"`
	Symbol *jsonSymbol `json:"symbol"`
	Image  *string     `json:"image"`
	Copy   *string     `json:"copy"`
}

type jsonCompared struct {
	OK       bool                `json:"ok"`
	Time     string              `json:"time"`
	Kinds    map[string]compared `json:"kinds"`
	BySymbol []placeCount        `json:"by_symbol"`
	Wrong    []jsonDifference    `json:"wrong"`
}

// The kinds of memory in a comparison.
const (
	kindText = iota
	kindModule
	kindBPFCode
	kindOutOfLine
	kindOther
	kindCount
)

var kindNames = [kindCount]struct{ key, text string }{
	{"kernel_text", "kernel text"}, {"modules", "modules"}, {"bpf", "BPF"}, {"out_of_line", "out-of-line code"}, {"other", "other"},
}

// memoryKinds says what kind of memory a span is.
type memoryKinds struct {
	view      timeline.View
	outOfLine []timeline.Range // pages of out-of-line code, at whatever time, by address
}

func kindsOfMemory(r *replay.Replay, view timeline.View) *memoryKinds {
	k := &memoryKinds{view: view}
	for s := range r.Image.Symbols { // by address
		if s.Module != "bpf" {
			k.outOfLine = append(k.outOfLine, timeline.Range{Lo: s.Addr, Hi: s.Addr + s.Size})
		}
	}
	return k
}

func (k *memoryKinds) kind(s *timeline.Span) int {
	lo, hi := k.view.Image().Text()
	if lo <= s.Addr && s.Addr < hi {
		return kindText
	}
	switch s.Reason {
	case timeline.ModuleMayHaveGone, timeline.ModuleContradicted, timeline.NotText:
		return kindModule
	}
	sym, ok := k.view.Symbol(s.Addr)
	switch {
	case ok && sym.Module == "bpf":
		return kindBPFCode
	case ok && sym.Module != "":
		return kindModule
	}
	// The last range that begins at or before the address.
	i := sort.Search(len(k.outOfLine), func(i int) bool { return k.outOfLine[i].Lo > s.Addr })
	if i > 0 && s.Addr < k.outOfLine[i-1].Hi {
		return kindOutOfLine
	}
	return kindOther
}

func (v *verify) writeCompared(c *comparison) {
	var total compared
	for _, k := range c.kinds {
		total.Equal += k.Equal
		total.Wrong += k.Wrong
		total.NotKnown += k.NotKnown
	}
	when := replay.Seconds(c.view.Time())
	verdict := v.style.paint(green, "No known byte is wrong at "+when)
	switch {
	case total.Wrong > 0:
		verdict = v.style.paint(red, count(total.Wrong, "known byte")+" wrong at "+when)
	case total.Equal == 0:
		verdict = v.style.paint(yellow, "No byte of the copy is known at "+when)
	}
	fmt.Fprintf(v.out, "%s: %s equal, %s not known\n\n", verdict, thousands(total.Equal), thousands(total.NotKnown))
	fmt.Fprintf(v.out, "%-18s%14s%10s%14s%18s\n", "bytes of", "known, equal", "wrong", "not known", "(equal / differ)")
	for i, k := range c.kinds {
		if k.Equal+k.Wrong+k.NotKnown == 0 {
			continue
		}
		fmt.Fprintf(v.out, "%-18s%14s%10s%14s%18s\n", kindNames[i].text, thousands(k.Equal), thousands(k.Wrong), thousands(k.NotKnown),
			fmt.Sprintf("(%s / %s)", thousands(k.NotKnownEqual), thousands(k.NotKnownDiffer)))
	}
	if len(c.wrong) == 0 {
		return
	}
	fmt.Fprintf(v.out, "\nWrong:\n")
	for _, d := range within(v, c.wrong) {
		n := min(len(d.have), 16)
		more := ""
		if n < len(d.have) {
			more = " ..."
		}
		fmt.Fprintf(v.out, "  %s image %s%s, copy %s%s\n", label(c.view, d.addr), spaced(d.have[:n]), more, spaced(d.got[:n]), more)
	}
	v.writeMore(len(c.wrong))
	v.writeBySymbol("wrong bytes", mostFirst(c.bySymbol))
}
