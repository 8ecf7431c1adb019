// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// words returns instruction words as bytes, in the kernel's byte order.
func (c *coder) words(w ...uint32) []byte {
	var b []byte
	for _, x := range w {
		b = append(b, 0, 0, 0, 0)
		c.order.PutUint32(b[len(b)-4:], x)
	}
	return b
}

// sequenceHead describes what a sequence does: "enable in 2 steps until 12.5".
func sequenceHead(s *replay.Sequence) string {
	if !s.Complete {
		return fmt.Sprintf("%v, interrupted after %s", s.Kind, count(len(s.Steps), "step"))
	}
	return fmt.Sprintf("%v in %s until %s", s.Kind, count(len(s.Steps), "step"), replay.Seconds(s.End()))
}

// sequenceStates describes the words before and after a sequence.
func sequenceStates(s *replay.Sequence) string {
	before, after := replay.SiteState{Words: s.Before}, replay.SiteState{Words: s.After}
	text := fmt.Sprintf("%v -> %v", &before, &after)
	if !s.Legal {
		text += ", illegal: a branch without mflr before it"
	}
	return text
}

// sequence prints a sequence of several steps as one entry.
func (t *logText) sequence(c *replay.Change) error {
	t.batch = 0
	s := c.Sequence
	fmt.Fprintf(t.out, "%s  %s  %s %s\n", t.head(c), sequenceHead(s), label(t.r.Image.At(s.Begin()), s.Site), sequenceStates(s))
	for i := range s.Steps {
		p := t.step(&s.Steps[i])
		r := t.render(p)
		old, new := r.old, r.new
		if _, err := fmt.Fprintf(t.out, "    %s  %s %s  ->  %s\n", replay.Seconds(p.Time), label(p.after, p.Addr), old, new); err != nil {
			return err
		}
	}
	return nil
}

// step prints one step of a sequence as a poke.
func (l *log) step(s *replay.Step) *logPoke {
	return &logPoke{
		TextPoke: &perfdata.TextPoke{Addr: s.Addr, Old: l.c.words(s.Old), New: l.c.words(s.New), SampleID: perfdata.SampleID{Time: s.Time}},
		before:   l.r.Image.At(max(s.Time, 1) - 1), after: l.r.Image.At(s.Time),
	}
}

// jsonSequence is a sequence of several steps. The entry of its first step has
// all of them.
type jsonSequence struct {
	Kind     string     `json:"kind"`
	Site     string     `json:"site"`
	Begin    string     `json:"begin"`
	End      string     `json:"end"`
	Complete bool       `json:"complete"`
	Legal    bool       `json:"legal"`
	Steps    []jsonStep `json:"steps"`
}

type jsonStep struct {
	Time    string `json:"time"`
	Addr    string `json:"addr"`
	Old     string `json:"old"`
	New     string `json:"new"`
	OldText string `json:"old_text"`
	NewText string `json:"new_text"`
}

func (l *log) sequenceJSON(s *replay.Sequence) *jsonSequence {
	if s == nil {
		return nil
	}
	out := &jsonSequence{s.Kind.String(), hexAddr(s.Site), decTime(s.Begin()), decTime(s.End()), s.Complete, s.Legal, nil}
	for i := range s.Steps {
		p := l.step(&s.Steps[i])
		r := l.render(p)
		old, new := r.old, r.new
		out.Steps = append(out.Steps, jsonStep{decTime(p.Time), hexAddr(p.Addr),
			hex.EncodeToString(p.Old), hex.EncodeToString(p.New), old, new})
	}
	return out
}

// sequence prints a sequence of several steps as one entry.
func (j *logJSON) sequence(c *replay.Change) error {
	s := c.Sequence
	before, after := j.r.Image.At(max(s.Begin(), 1)-1), j.r.Image.At(s.End())
	old, new := j.c.words(s.Before[:]...), j.c.words(s.After[:]...)
	text := func(v timeline.View, code []byte) string {
		return instsText(j.c.shown(v, s.Site, code), len(code))
	}
	return j.enc.Encode(jsonPoke{
		jsonEntry: j.head(kindPoke, c),
		jsonPokeText: jsonPokeText{
			Poke: "sequence", Shape: shapes[timeline.PokeBatch], Addr: hexAddr(s.Site), Symbol: placeOf(after, s.Site).json(),
			Old: hex.EncodeToString(old), New: hex.EncodeToString(new), OldText: text(before, old), NewText: text(after, new),
		},
		Mechanism: j.mechanism(c), Sequence: j.sequenceJSON(s),
	})
}

// siteState describes the state of the site at addr at v's time, if the site is
// in the middle of a sequence or in an illegal state. Otherwise it returns "".
func siteState(r *replay.Replay, v timeline.View, addr uint64) string {
	s, ok := r.Sequences().At(addr, v.Time())
	switch {
	case ok && !s.Legal:
		return fmt.Sprintf("illegal: %v, a branch without mflr before it", &s)
	case ok && s.UnderWay == replay.SequenceEnable:
		return fmt.Sprintf("while the site is being enabled: %v", &s)
	case ok && s.UnderWay == replay.SequenceDisable:
		return fmt.Sprintf("while the site is being disabled: %v", &s)
	}
	return ""
}

// jsonState is the state of a site that is changed in several steps.
type jsonState struct {
	Site     string  `json:"site"`
	Words    string  `json:"words"`
	Legal    bool    `json:"legal"`
	UnderWay *string `json:"under_way"`
	Since    *string `json:"since"`
	Until    *string `json:"until"`
	Standing string  `json:"standing"` // the least of both words
}

func stateJSON(r *replay.Replay, v timeline.View, addr uint64) *jsonState {
	s, ok := r.Sequences().At(addr, v.Time())
	if !ok {
		return nil
	}
	out := stateOf(&s)
	return &out
}

func stateOf(s *replay.SiteState) jsonState {
	return jsonState{hexAddr(s.Site), s.String(), s.Legal, nonEmpty(s.UnderWay.String()), since(s.During.From), until(s.During.To), s.Standing.String()}
}

// writeState prints a state with its interval and standing.
func writeState(w io.Writer, r *replay.Replay, s *replay.SiteState) {
	from, to := "the start", "the end"
	if s.During.From != 0 {
		from = replay.Seconds(s.During.From)
	}
	if s.During.To != timeline.MaxTime {
		to = replay.Seconds(s.During.To)
	}
	fmt.Fprintf(w, "  %s %v %s to %s, %v\n", label(r.Image.At(s.During.From), s.Site), s, from, to, s.Standing)
}
