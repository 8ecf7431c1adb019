// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// formatFlag adds --format to a command that prints a table.
func (a *app) formatFlag(cmd *cobra.Command, format *choice) {
	a.choice(cmd, format, "format", "output format", "text", "text", "json", "csv")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case a.json && format.value == "csv":
			return usagef("--json and --format csv exclude each other")
		case format.value == "json":
			a.json = true
		case format.value == "csv":
			a.csv = true
		}
		return run(cmd, args)
	}
}

// A rowEncoder writes JSON objects as lines, or the columns of a table.
type rowEncoder interface{ Encode(v any) error }

// rows returns an encoder for the chosen format, JSON or CSV. columns name the fields of
// the objects, as "symbol.name".
func (a *app) rows(columns ...string) rowEncoder {
	if a.csv {
		return &csvEncoder{w: a.out, columns: columns}
	}
	return encoder(a.out)
}

// A csvEncoder writes fields of JSON objects as a table (RFC 4180), the names of the
// fields first. Fields that are null are empty; of instructions it writes the text.
type csvEncoder struct {
	w       *bufio.Writer
	columns []string
	begun   bool
}

// begin writes the names of the columns.
func (e *csvEncoder) begin() error {
	if e.begun {
		return nil
	}
	e.begun = true
	return e.write(e.columns)
}

func (e *csvEncoder) write(row []string) error {
	b := e.w.AvailableBuffer()
	for i, cell := range row {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCell(b, cell)
	}
	_, err := e.w.Write(append(b, '\n'))
	return err
}

// appendCell appends a string as a cell of a table, as csv.Writer does. Bytes that are not UTF-8, as in a
// thread's name that was cut within a letter, are U+FFFD, as they are in JSON.
func appendCell(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.Map(func(r rune) rune { return r }, s)
	}
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

func (e *csvEncoder) Encode(v any) error {
	if err := e.begin(); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // as they are
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		return err
	}
	row := make([]string, len(e.columns))
	for i, c := range e.columns {
		var field any = object
		for name := range strings.SplitSeq(c, ".") {
			m, _ := field.(map[string]any)
			field = m[name]
		}
		row[i] = csvText(field)
	}
	return e.write(row)
}

func csvText(field any) string {
	switch x := field.(type) {
	case string:
		return x
	case json.Number:
		return x.String()
	case bool:
		if x {
			return "true"
		}
		return "false"
	case map[string]any:
		return csvText(x["text"])
	case []any:
		parts := make([]string, len(x))
		for i := range x {
			parts[i] = csvText(x[i])
		}
		return strings.Join(parts, "; ")
	}
	return ""
}
