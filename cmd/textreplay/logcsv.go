// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strconv"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
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
	if p.c.Sequence != nil || p.c.Time == 0 {
		return t.encode(p, t.text(p, r))
	}
	columns := r.csv
	switch {
	case columns != nil:
	case r.lasts && t.c.isCoreText(p.Addr):
		r.csv = t.appendColumns(nil, p, r)
		columns = r.csv
	default: // the symbol says more, for some time
		t.line = t.appendColumns(t.line[:0], p, r)
		columns = t.line
	}
	if err := t.table.begin(); err != nil {
		return err
	}
	b := t.appendHead(kindPoke, p.c, t.mechanismOf(p, r))
	b = append(append(append(b, ','), columns...), ',')
	if p.c.Batch != nil {
		b = strconv.AppendInt(b, int64(p.c.Batch.Number), 10)
	}
	for range logLastColumns[1:] {
		b = append(b, ',')
	}
	_, err := t.out.Write(append(b, '\n'))
	return err
}

// appendHead returns the columns logHeadColumns of a change, in the buffer of the output.
func (t *logCSV) appendHead(kind string, c *replay.Change, mechanism string) []byte {
	id := c.SampleID()
	b := append(strconv.AppendUint(t.out.AvailableBuffer(), c.Time, 10), ',')
	b = append(append(b, kind...), ',')
	if id.Has&perfdata.SampleCPU != 0 {
		b = strconv.AppendUint(b, uint64(id.CPU), 10)
	}
	b = append(b, ',')
	if id.Has&perfdata.SampleTID != 0 {
		for _, n := range []uint32{id.PID, id.TID} {
			if replay.IsTaskID(n) {
				b = strconv.AppendUint(b, uint64(n), 10)
			}
			b = append(b, ',')
		}
		b = appendCell(b, c.Comm)
	} else {
		b = append(b, ',', ',')
	}
	return append(append(b, ','), mechanism...)
}

func (t *logCSV) ksymbol(c *replay.Change) error {
	if c.Time == 0 {
		return t.logJSON.ksymbol(c)
	}
	if err := t.table.begin(); err != nil {
		return err
	}
	k := c.KSymbol
	b := append(t.appendHead(kindKSymbol, c, t.mechanism(c)), ",,0x"...) // it is no poke
	b = strconv.AppendUint(b, k.Addr, 16)
	for range logTextColumns[2:] {
		b = append(b, ',')
	}
	b = append(strconv.AppendUint(append(b, ",,"...), uint64(k.Len), 10), ',') // nor has it a batch
	b = append(append(appendCell(b, string(k.Name)), ','), ksymbolType(k)...)
	b = strconv.AppendBool(append(b, ','), k.Flags&perfdata.KSymbolUnregister != 0)
	for range logLastColumns[5:] {
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
