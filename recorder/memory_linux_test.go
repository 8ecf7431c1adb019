// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestUnchangedCode: only mappings whose pages are all those of the program's file are released.
func TestUnchangedCode(t *testing.T) {
	const smaps = `00400000-01009000 r-xp 00000000 fe:00 131 /usr/bin/textreplay
Size:              12324 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
01009000-01cf4000 r--p 00c09000 fe:00 131 /usr/bin/textreplay
Anonymous:             0 kB
01cf4000-01e4a000 rw-p 018f4000 fe:00 131 /usr/bin/textreplay
Anonymous:             0 kB
01e4a000-01e5a000 r--p 01a4a000 fe:00 131 /usr/bin/textreplay
Anonymous:             4 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 7 /opt/usr/bin/textreplay
Anonymous:             0 kB
7f0000002000-7f0000003000 r-xp 00000000 fe:00 8 /usr/lib/libc.so.6
Anonymous:             0 kB
7f0000004000-7f0000005000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	want := []span{{0x400000, 0x1009000}, {0x1009000, 0x1cf4000}}
	if got := unchangedCode(strings.NewReader(smaps), "/usr/bin/textreplay"); !slices.Equal(got, want) {
		t.Errorf("%#x, want %#x", got, want)
	}
}

// TestReleaseMemory: the program goes on with the same constants, and fewer pages are resident.
func TestReleaseMemory(t *testing.T) {
	resident := func() (kb string) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := bytes.Cut(status, []byte("RssFile:"))
		return string(bytes.Fields(rest)[0])
	}
	before := resident()
	releaseMemory()
	after := resident()
	t.Logf("RssFile: %s kB, then %s kB", before, after)
	if len(after) > len(before) || len(after) == len(before) && after >= before {
		t.Errorf("RssFile: %s kB, then %s kB", before, after)
	}
	TestUnchangedCode(t)
}
