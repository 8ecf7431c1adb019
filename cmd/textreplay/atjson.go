// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// jsonError is the answer to a question that cannot be answered. Addr and Time are as
// they were written if they cannot be converted, null if they are missing.
type jsonError struct {
	Error string  `json:"error"`
	Line  int     `json:"line"`
	Addr  *string `json:"addr"`
	Time  *string `json:"time"`
}

// jsonForeign is the answer for an address that is not of the recorded kernel.
type jsonForeign struct {
	Addr string `json:"addr"`
	Time string `json:"time"`
	Line int    `json:"line"`
	Not  string `json:"not_kernel_text"` // whose address it is
	// As in jsonAnswer, always empty.
	Bytes        *string    `json:"bytes"`
	Spans        []jsonSpan `json:"spans"`
	Instructions []jsonInst `json:"instructions"`
}

type jsonAnswer struct {
	Addr     string        `json:"addr"`
	Time     string        `json:"time"`
	Line     int           `json:"line,omitempty"`     // of standard input
	Interval *jsonInterval `json:"interval,omitempty"` // if the asked time is one; the answer is as of time, its beginning
	Symbol   *jsonSymbol   `json:"symbol"`
	State    *jsonState    `json:"state,omitempty"` // if the site is changed in several steps
	jsonView
	Versions []jsonVersion `json:"versions,omitempty"` // if it changes within the interval: all contents, the first one is the answer's
}

// jsonView has the contents of the range at one time.
type jsonView struct {
	Bytes        *string    `json:"bytes"` // null unless all are known
	Spans        []jsonSpan `json:"spans"`
	Instructions []jsonInst `json:"instructions"`
}

type jsonVersion struct {
	Since *string `json:"since"`
	Until *string `json:"until"`
	jsonView
}

type jsonInterval struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

// jsonPiece describes a range of addresses with one standing.
type jsonPiece struct {
	Addr       string          `json:"addr"`
	Len        uint64          `json:"len"`
	Standing   string          `json:"standing"`
	Bytes      *string         `json:"bytes"`
	Candidates []jsonCandidate `json:"candidates,omitempty"`
	Since      *string         `json:"since"`
	Until      *string         `json:"until"`
	Source     *string         `json:"source"`
	Reason     *jsonReason     `json:"reason"`
}

func pieceJSON(s *timeline.Span) jsonPiece {
	return jsonPiece{hexAddr(s.Addr), s.Len, s.Standing.String(), hexBytes(s.Bytes), candidatesJSON(s.Candidates),
		since(s.Since), until(s.Until), nonEmpty(s.Source.String()), reasonJSON(s.Reason)}
}

type jsonSpan struct {
	jsonPiece
	MayTrap bool `json:"may_trap"`
	// The change that is nearest in time, if both sides have bytes.
	Before *string `json:"before,omitempty"`
	After  *string `json:"after,omitempty"`
	Switch *string `json:"switch,omitempty"`
	// The window in which a CPU may meet a trap instead.
	Trap     *jsonTrap     `json:"trap,omitempty"`
	Proven   *jsonInterval `json:"proven,omitempty"`
	Estimate *jsonInterval `json:"estimate,omitempty"`
}

// jsonTrap says what the trap does instead of the instruction.
type jsonTrap struct {
	Poke   string  `json:"poke"` // the kind of poke: batch, kprobe-armed, ...
	Kind   string  `json:"kind"`
	Target *string `json:"target,omitempty"`
	Pushes *string `json:"pushes,omitempty"`
	Links  *string `json:"links,omitempty"`
}

type jsonInst struct {
	Addr   string  `json:"addr"`
	Bytes  string  `json:"bytes"`
	Text   string  `json:"text"`
	Target *string `json:"target,omitempty"`
}

func (q *at) jsonAnswer(x *answer) *jsonAnswer {
	first := &x.versions[0]
	out := &jsonAnswer{
		Addr:     hexAddr(x.addr),
		Time:     decTime(x.times.From),
		Symbol:   q.c.symbolJSON(first.view, x.addr),
		State:    stateJSON(q.r, first.view, x.asked),
		jsonView: q.viewJSON(first),
	}
	if !x.times.Exact() {
		from, to := decTime(x.times.From), decTime(x.times.To)
		out.Interval = &jsonInterval{&from, &to}
	}
	if len(x.versions) > 1 {
		for i := range x.versions {
			v := &x.versions[i]
			out.Versions = append(out.Versions, jsonVersion{since(v.since), until(v.until), q.viewJSON(v)})
		}
	}
	return out
}

func (q *at) viewJSON(v *version) jsonView {
	out := jsonView{Spans: make([]jsonSpan, 0, len(v.spans))}
	var all []byte
	for i := range v.spans {
		s := &v.spans[i]
		out.Spans = append(out.Spans, q.spanJSON(v, s))
		all = append(all, s.Bytes...)
	}
	if v.standing == timeline.Known {
		out.Bytes = hexBytes(all)
	}
	out.Instructions = instsJSON(instsOf(v.rows))
	return out
}

// instsJSON lists instructions; never nil.
func instsJSON(insts []disasm.Inst) []jsonInst {
	out := make([]jsonInst, 0, len(insts))
	for i := range insts {
		in := &insts[i]
		j := jsonInst{Addr: hexAddr(in.Addr), Bytes: hex.EncodeToString(in.Bytes), Text: in.Text}
		if in.HasTarget {
			t := hexAddr(in.Target)
			j.Target = &t
		}
		out = append(out, j)
	}
	return out
}

func (q *at) spanJSON(v *version, s *timeline.Span) jsonSpan {
	out := jsonSpan{jsonPiece: pieceJSON(s)}
	if s.Bytes == nil {
		return out
	}
	t := v.view.Time()
	if w, trap, ok := q.window(v.view, s.Addr, s.Len); ok {
		out.MayTrap = true
		out.Trap = &jsonTrap{Poke: w.Kind.String(), Kind: trap.Kind.String()}
		hex := func(addr uint64) *string { h := hexAddr(addr); return &h }
		switch trap.Kind {
		case replay.EffectJump, replay.EffectBranch:
			out.Trap.Target = hex(trap.Target)
		case replay.EffectCall:
			out.Trap.Target = hex(trap.Target)
			if trap.Links {
				out.Trap.Links = hex(trap.Next)
			} else {
				out.Trap.Pushes = hex(trap.Next)
			}
		}
		out.Proven = &jsonInterval{since(w.Proven.From), until(w.Proven.To)}
		out.Estimate = &jsonInterval{since(w.Estimate.From), until(w.Estimate.To)}
	}
	last := s.Since != 0
	next := s.Until != timeline.MaxTime
	if last && next {
		last = t-s.Since < s.Until-t
		next = !last
	}
	other := make([]byte, s.Len)
	switch im := v.view.Image(); {
	case s.Standing == timeline.InFlight:
		out.Before, out.After = hexBytes(s.Candidates[0].Bytes), hexBytes(s.Candidates[len(s.Candidates)-1].Bytes)
	case last:
		if im.At(s.Since-1).Read(s.Addr, other).Given == len(other) && !bytes.Equal(other, s.Bytes) {
			out.Before, out.After, out.Switch = hexBytes(other), out.Bytes, out.Since
		}
	case next:
		if im.At(s.Until).Read(s.Addr, other).Given == len(other) && !bytes.Equal(other, s.Bytes) {
			out.Before, out.After, out.Switch = out.Bytes, hexBytes(other), out.Until
		}
	}
	return out
}

// writeCSV prints a row for each instruction, and for each span that has no bytes, of
// each version.
func (q *at) writeCSV(x *answer) error {
	enc := &csvEncoder{w: q.out, columns: []string{"since", "until", "addr", "len", "standing", "reason", "bytes", "text", "target", "symbol.name", "symbol.offset", "symbol.module"}}
	if err := enc.begin(); err != nil {
		return err
	}
	for i := range x.versions {
		v := &x.versions[i]
		for k := range v.rows {
			r := &v.rows[k]
			row := struct {
				jsonInst
				Since    *string     `json:"since"`
				Until    *string     `json:"until"`
				Len      uint64      `json:"len"`
				Standing string      `json:"standing"`
				Reason   string      `json:"reason"`
				Symbol   *jsonSymbol `json:"symbol"`
			}{Since: since(v.since), Until: until(v.until), Symbol: placeOf(v.view, r.addr()).json()}
			worst := timeline.Known
			if r.hole != nil {
				row.Addr, row.Len, worst = hexAddr(r.hole.Addr), r.hole.Len, r.hole.Standing
				row.Reason = r.hole.Reason.String()
			} else {
				row.jsonInst = instsJSON([]disasm.Inst{r.inst})[0]
				row.Len = uint64(len(r.inst.Bytes))
				for _, s := range v.spans {
					if s.Standing < worst && s.Addr < r.inst.Addr+row.Len && r.inst.Addr < s.Addr+s.Len {
						worst, row.Reason = s.Standing, s.Reason.String()
					}
				}
			}
			row.Standing = worst.String()
			if err := enc.Encode(row); err != nil {
				return err
			}
		}
	}
	return nil
}
