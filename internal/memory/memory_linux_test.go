// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestDiscard: whole pages are returned, and nothing around them changes.
func TestDiscard(t *testing.T) {
	page := os.Getpagesize()
	resident := func() int {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skip(err)
		}
		_, rest, _ := strings.Cut(string(status), "RssAnon:")
		kib := 0
		for _, c := range strings.Fields(rest)[0] {
			kib = 10*kib + int(c-'0')
		}
		return kib << 10
	}
	const pages = 4096
	all := bytes.Repeat([]byte{1}, (pages+2)*page)
	before := resident()
	Discard(all[page/2 : (pages+1)*page+page/2])
	if freed := before - resident(); freed < pages*page*9/10 {
		t.Errorf("%d bytes were returned of %d", freed, pages*page)
	}
	// What is not a whole page stays, wherever all begins.
	if head, tail := all[:page/2], all[len(all)-page/2:]; bytes.IndexByte(head, 0) >= 0 || bytes.IndexByte(tail, 0) >= 0 {
		t.Error("bytes outside were changed")
	}
	for i := range all {
		all[i] = 2
	}
	Discard(all[:0])
	Discard(all[1:2])
	if all[1] != 2 {
		t.Error("a part of a page was discarded")
	}
}
