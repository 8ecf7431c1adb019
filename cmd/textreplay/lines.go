// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A lineReader reads lines of fields. Before it waits for the next question it
// flushes the answers, because another program may be waiting for them.
type lineReader struct {
	r      *bufio.Reader
	out    *bufio.Writer
	valid  func() error // why the answers must not be flushed
	fields []string     // of the line, never empty
	line   int          // its number, from 1
	err    error        // why there are no more lines, nil at the end
}

func newLineReader(r io.Reader, out *bufio.Writer, valid func() error) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 1<<16), out: out, valid: valid}
}

// next reads the next line that is neither empty nor a comment (#).
func (l *lineReader) next() bool {
	for {
		if l.r.Buffered() == 0 {
			if l.err = l.valid(); l.err != nil {
				return false
			}
			// The writer keeps its error for the next write.
			l.out.Flush()
		}
		text, err := l.r.ReadString('\n')
		if text == "" && err != nil {
			if !errors.Is(err, io.EOF) {
				l.err = inputError(fmt.Errorf("reading %s: %w", standardInput, err))
			}
			return false
		}
		l.line++
		if l.fields = strings.Fields(text); len(l.fields) > 0 && l.fields[0][0] != '#' {
			return true
		}
	}
}
