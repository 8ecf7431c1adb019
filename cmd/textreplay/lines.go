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

// maxLine is how many bytes of a line are read. perf script prints long call chains on
// several lines; a branch stack of 1,024 entries has less than 100 kB.
const maxLine = 1 << 20

// A lineReader reads lines. Before it waits for the next line it flushes the answers,
// because another program may be waiting for them.
type lineReader struct {
	r     *bufio.Reader
	name  string // of the input
	out   *bufio.Writer
	valid func() error // why the answers must not be flushed
	text  string       // the line, without its end
	long  bool         // the line has more than maxLine bytes; text has the first
	line  int          // its number, from 1
	err   error        // why there are no more lines, nil at the end
}

// newLineReader returns a reader of the lines of r, which errors call name.
func newLineReader(r io.Reader, name string, out *bufio.Writer, valid func() error) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 1<<16), name: name, out: out, valid: valid}
}

// next reads the next line.
func (l *lineReader) next() bool {
	if l.r.Buffered() == 0 {
		if l.err = l.valid(); l.err != nil {
			return false
		}
		// The writer keeps its error for the next write.
		l.out.Flush()
	}
	var b strings.Builder
	l.long = false
	for {
		part, err := l.r.ReadSlice('\n')
		if keep := maxLine - b.Len(); len(part) > keep {
			l.long = true
			b.Write(part[:keep])
		} else {
			b.Write(part)
		}
		if err == nil || errors.Is(err, io.EOF) && b.Len() > 0 {
			break
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !errors.Is(err, io.EOF) {
			l.err = inputError(fmt.Errorf("reading %s: %w", l.name, err))
		}
		return false
	}
	l.line++
	l.text = strings.TrimRight(b.String(), "\r\n")
	return true
}
