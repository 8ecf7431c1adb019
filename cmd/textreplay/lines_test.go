// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestAlertsAndLongLines: a log may have a line of any length between those of LKRG.
func TestAlertsAndLongLines(t *testing.T) {
	const line = "copy[0xf] vs now[0xffffffe9] offset[9060663 | 0x8a4137] symbol[vfs_read]\n"
	in := newLineReader(strings.NewReader(line+strings.Repeat("a", 2*maxLine)+"\n"+strings.Replace(line, "4137", "4138", 1)), "a log",
		bufio.NewWriter(io.Discard), func() error { return nil })
	got, err := readAlerts(in)
	if err != nil || len(got) != 1 || got[0].offset != 0x8a4137 || !bytes.Equal(got[0].now, []byte{0xe9, 0xe9}) {
		t.Errorf("%x, %v", got, err)
	}
}
