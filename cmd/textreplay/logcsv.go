// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strconv"

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
	cells map[string][]byte // strings as cells of the table
}

func (l *log) newCSV() *logCSV {
	table := &csvEncoder{w: l.out, columns: slices.Concat(logHeadColumns, logTextColumns, logLastColumns)}
	return &logCSV{&logJSON{log: l, enc: table}, table, make(map[string][]byte)}
}

func (t *logCSV) poke(p *logPoke) error {
	r := t.render(p)
	if p.c.Sequence != nil || p.c.Time == 0 || !r.lasts || !t.c.isCoreText(p.Addr) {
		return t.encode(p, t.text(p, r))
	}
	if r.csv == nil {
		r.csv = t.columns(p, r)
	}
	if err := t.table.begin(); err != nil {
		return err
	}
	id := p.c.SampleID()
	b := append(strconv.AppendUint(t.line[:0], p.c.Time, 10), ",poke,"...)
	if id.Has&perfdata.SampleCPU != 0 {
		b = strconv.AppendUint(b, uint64(id.CPU), 10)
	}
	b = append(b, ',')
	if id.Has&perfdata.SampleTID != 0 {
		b = append(strconv.AppendUint(b, uint64(id.PID), 10), ',')
		b = append(strconv.AppendUint(b, uint64(id.TID), 10), ',')
		b = append(b, t.cell(p.c.Comm)...)
	} else {
		b = append(b, ',', ',')
	}
	b = append(append(b, ','), t.mechanismOf(p, r)...)
	b = append(append(append(b, ','), r.csv...), ',')
	if p.c.Batch != nil {
		b = strconv.AppendInt(b, int64(p.c.Batch.Number), 10)
	}
	for range logLastColumns[1:] {
		b = append(b, ',')
	}
	t.line = append(b, '\n')
	_, err := t.out.Write(t.line)
	return err
}

// columns returns the columns logTextColumns of a poke.
func (t *logCSV) columns(p *logPoke, r *rendering) []byte {
	text := t.text(p, r)
	var name, offset, module string
	if s := text.Symbol; s != nil {
		name, offset = s.Name, strconv.FormatUint(s.Offset, 10)
		if s.Module != nil {
			module = *s.Module
		}
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write([]string{text.Poke, text.Addr, name, offset, module, text.Old, text.New, text.OldText, text.NewText})
	w.Flush() // a buffer takes everything
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// cell returns a string as a cell of the table. There are as many as names of threads.
func (t *logCSV) cell(s string) []byte {
	c, ok := t.cells[s]
	if !ok {
		var b bytes.Buffer
		one := csvEncoder{w: &b}
		one.write([]string{s, ""}) // a lone empty cell would be quoted
		if c = bytes.TrimSuffix(b.Bytes(), []byte(",\n")); len(t.cells) >= mostRenderings {
			clear(t.cells)
		}
		t.cells[s] = c
	}
	return c
}
