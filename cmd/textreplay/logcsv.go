// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/textreplay/textreplay/perfdata"
)

// The columns of log --format csv are fields of the JSON objects of all kinds of entries. A
// field that an entry does not have is empty.
var (
	logHeadColumns = []string{"time", "kind", "cpu", "pid", "tid", "comm", "mechanism"}
	logTextColumns = []string{"poke", "addr", "symbol.name", "symbol.offset", "symbol.module", "old", "new", "old_text", "new_text"}
	logLastColumns = []string{"batch", "len", "name", "type", "unregister", "event", "id", "tag", "since", "records"}
)

// logCSV prints one line of a table for each entry.
type logCSV struct {
	*logJSON
	table *csvEncoder
}

func (l *log) newCSV() *logCSV {
	table := &csvEncoder{w: l.out, columns: slices.Concat(logHeadColumns, logTextColumns, logLastColumns)}
	return &logCSV{&logJSON{log: l, enc: table}, table}
}

func (t *logCSV) poke(p *logPoke) error {
	r := t.render(p)
	if p.c.Sequence != nil || p.c.Time == 0 || !r.lasts || !t.c.isCoreText(p.Addr) {
		return t.encode(p, t.text(p, r))
	}
	if r.csv == nil {
		r.csv = t.appendColumns(nil, p, r)
	}
	if err := t.table.begin(); err != nil {
		return err
	}
	id, mechanism := p.c.SampleID(), t.mechanismOf(p, r)
	b := append(strconv.AppendUint(t.out.AvailableBuffer(), p.c.Time, 10), ",poke,"...)
	if id.Has&perfdata.SampleCPU != 0 {
		b = strconv.AppendUint(b, uint64(id.CPU), 10)
	}
	b = append(b, ',')
	if id.Has&perfdata.SampleTID != 0 {
		b = append(strconv.AppendUint(b, uint64(id.PID), 10), ',')
		b = append(strconv.AppendUint(b, uint64(id.TID), 10), ',')
		b = appendCell(b, p.c.Comm)
	} else {
		b = append(b, ',', ',')
	}
	b = append(append(b, ','), mechanism...)
	b = append(append(append(b, ','), r.csv...), ',')
	if p.c.Batch != nil {
		b = strconv.AppendInt(b, int64(p.c.Batch.Number), 10)
	}
	for range logLastColumns[1:] {
		b = append(b, ',')
	}
	_, err := t.out.Write(append(b, '\n'))
	return err
}

// appendColumns appends the columns logTextColumns of a poke.
func (t *logCSV) appendColumns(b []byte, p *logPoke, r *rendering) []byte {
	text := t.text(p, r)
	b = append(appendCell(append(appendCell(b, text.Poke), ','), text.Addr), ',')
	if s := text.Symbol; s != nil {
		b = strconv.AppendUint(append(appendCell(b, s.Name), ','), s.Offset, 10)
		if b = append(b, ','); s.Module != nil {
			b = appendCell(b, *s.Module)
		}
	} else {
		b = append(b, ',', ',')
	}
	for _, s := range []string{text.Old, text.New, text.OldText, text.NewText} {
		b = appendCell(append(b, ','), s)
	}
	return b
}

// appendCell appends a string as a cell of a table, as csv.Writer does.
func appendCell(b []byte, s string) []byte {
	first, _ := utf8.DecodeRuneInString(s)
	if s != `\.` && !strings.ContainsAny(s, "\",\r\n") && !unicode.IsSpace(first) {
		return append(b, s...)
	}
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}
