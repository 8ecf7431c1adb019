// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"

	"github.com/textreplay/textreplay/timeline"
)

// encoder returns an encoder that writes one JSON object a line.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // "<" is common in disassembly
	return e
}

// hexAddr returns an address for JSON: a string, because JavaScript's numbers
// end at 2^53.
func hexAddr(addr uint64) string { return "0x" + strconv.FormatUint(addr, 16) }

// decTime returns a time for JSON: decimal nanoseconds.
func decTime(t uint64) string { return strconv.FormatUint(t, 10) }

// since and until are decTime for the ends of an interval, nil if it has no
// such end.
func since(t uint64) *string {
	if t == 0 {
		return nil
	}
	s := decTime(t)
	return &s
}

func until(t uint64) *string {
	if t == timeline.MaxTime {
		return nil
	}
	s := decTime(t)
	return &s
}

// hexBytes returns bytes for JSON, nil if there are none.
func hexBytes(b []byte) *string {
	if b == nil {
		return nil
	}
	s := hex.EncodeToString(b)
	return &s
}

// nonEmpty returns nil for "".
func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type jsonSymbol struct {
	Name   string  `json:"name"`
	Offset uint64  `json:"offset"`
	Module *string `json:"module"`
	// Other names of the same function.
	Aliases []string        `json:"aliases,omitempty"`
	Serves  *jsonTrampoline `json:"serves,omitempty"`
	Source  *jsonSource     `json:"source,omitempty"` // of a BPF program's code
}

func (p place) json() *jsonSymbol {
	if p.name == "" {
		return nil
	}
	return &jsonSymbol{Name: p.name, Offset: p.offset, Module: nonEmpty(p.module)}
}

type jsonReason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

func reasonJSON(r timeline.Reason) *jsonReason {
	if r == timeline.ReasonNone {
		return nil
	}
	return &jsonReason{r.String(), r.Text()}
}

type jsonFact struct {
	Source string  `json:"source"`
	Time   *string `json:"time"`
	Old    bool    `json:"old"`
}

type jsonCandidate struct {
	Bytes *string  `json:"bytes"`
	Fact  jsonFact `json:"fact"`
}

func candidatesJSON(cs []timeline.Candidate) []jsonCandidate {
	var out []jsonCandidate
	for _, c := range cs {
		out = append(out, jsonCandidate{hexBytes(c.Bytes), jsonFact{c.Fact.Source.String(), since(c.Fact.Time), c.Fact.Old}})
	}
	return out
}
