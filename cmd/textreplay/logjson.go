// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// logJSON prints one object a line for each entry.
type logJSON struct {
	*log
	enc  rowEncoder
	line []byte // scratch
}

// jsonEntry has the fields of all entries. The time is null if the entry is
// older than the recording.
type jsonEntry struct {
	Time *string `json:"time"`
	Kind string  `json:"kind"`
	CPU  *uint32 `json:"cpu,omitempty"`
	PID  *uint32 `json:"pid,omitempty"`
	TID  *uint32 `json:"tid,omitempty"`
	Comm *string `json:"comm,omitempty"`
}

func (j *logJSON) head(kind string, c *replay.Change) jsonEntry {
	id := c.SampleID()
	e := jsonEntry{Time: since(c.Time), Kind: kind}
	if c.Time == 0 {
		return e // perf synthesized the record: no thread made the change
	}
	if id.Has&perfdata.SampleCPU != 0 {
		e.CPU = &id.CPU
	}
	if id.Has&perfdata.SampleTID != 0 {
		if replay.IsTaskID(id.PID) {
			e.PID = &id.PID
		}
		if replay.IsTaskID(id.TID) {
			e.TID = &id.TID
		}
		e.Comm = nonEmpty(c.Comm)
	}
	return e
}

func (j *logJSON) mechanism(c *replay.Change) string { return j.classifier.Of(c).String() }

// jsonPokeText has the fields of a poke that are the same each time the same code changes.
type jsonPokeText struct {
	Poke    string      `json:"poke"`  // kind of poke: batch, kprobe-armed, ...
	Shape   string      `json:"shape"` // the same as a key of info's "pokes"
	Addr    string      `json:"addr"`
	Symbol  *jsonSymbol `json:"symbol"`
	Old     string      `json:"old"`
	New     string      `json:"new"`
	OldText string      `json:"old_text"`
	NewText string      `json:"new_text"`
}

type jsonPoke struct {
	jsonEntry
	jsonPokeText
	Batch int `json:"batch,omitempty"`
	// Mechanism is the kernel's mechanism that made the change: static-key, ...
	Mechanism string `json:"mechanism"`
	// Sequence is the sequence of several steps that the poke belongs to.
	Sequence *jsonSequence `json:"sequence,omitempty"`
}

func (j *logJSON) poke(p *logPoke) error {
	r := j.render(p)
	if p.c.Sequence != nil || p.c.Time == 0 {
		return j.encode(p, j.text(p, r))
	}
	if r.json != nil {
		return j.write(p, r, r.json)
	}
	text := j.text(p, r)
	if !r.lasts || !j.c.isCoreText(p.Addr) { // the symbol says more, for some time
		j.line = text.appendFields(j.line[:0])
		return j.write(p, r, j.line)
	}
	r.json = text.appendFields(nil)
	return j.write(p, r, r.json)
}

// text returns the fields of a poke that its rendering r has.
func (j *logJSON) text(p *logPoke, r *rendering) jsonPokeText {
	v := p.after
	if len(p.New) == 0 {
		v = p.before
	}
	return jsonPokeText{p.kind().String(), shapes[p.kind()], hexAddr(p.Addr), j.c.symbolJSON(v, p.Addr),
		hex.EncodeToString(p.Old), hex.EncodeToString(p.New), r.old, r.new}
}

// encode prints a poke that has more than most have.
func (j *logJSON) encode(p *logPoke, text jsonPokeText) error {
	batch := 0
	if p.c.Batch != nil {
		batch = p.c.Batch.Number
	}
	return j.enc.Encode(jsonPoke{j.head(kindPoke, p.c), text, batch, j.mechanism(p.c), j.sequenceJSON(p.c.Sequence)})
}

type jsonKSymbol struct {
	jsonEntry
	Addr       string `json:"addr"`
	Len        uint32 `json:"len"`
	Name       string `json:"name"`
	Type       string `json:"type"`
	Unregister bool   `json:"unregister"`
	Mechanism  string `json:"mechanism"`
}

func (j *logJSON) ksymbol(c *replay.Change) error {
	k := c.KSymbol
	return j.enc.Encode(jsonKSymbol{j.head(kindKSymbol, c), hexAddr(k.Addr), k.Len, string(k.Name), ksymbolType(k),
		k.Flags&perfdata.KSymbolUnregister != 0, j.mechanism(c)})
}

func ksymbolType(k *perfdata.KSymbol) string {
	switch k.Kind {
	case perfdata.KSymbolBPF:
		return "bpf"
	case perfdata.KSymbolOOL:
		return "ool"
	}
	return fmt.Sprint(uint16(k.Kind))
}

type jsonBPFEvent struct {
	jsonEntry
	Event string `json:"event"`
	ID    uint32 `json:"id"`
	Tag   string `json:"tag"`

	Mechanism string `json:"mechanism"`
}

func (j *logJSON) bpf(c *replay.Change) error {
	b := c.BPF
	return j.enc.Encode(jsonBPFEvent{j.head(kindBPF, c), bpfWords[b.Kind], b.ID, hex.EncodeToString(b.Tag[:]), j.mechanism(c)})
}

type jsonLost struct {
	Time    string  `json:"time"`
	Kind    string  `json:"kind"`
	CPU     int64   `json:"cpu"`
	Since   *string `json:"since"`
	Records uint64  `json:"records"`
}

func (j *logJSON) lost(l *replay.Loss) error {
	return j.enc.Encode(jsonLost{decTime(l.To), kindLost, l.CPU, since(l.From), l.Records})
}
