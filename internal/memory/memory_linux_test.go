// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestDiscard: whole pages are returned, and nothing around them changes.
func TestDiscard(t *testing.T) {
	page := os.Getpagesize()
	resident := func() int { return kib(t, "/proc/self/status", "RssAnon:") << 10 }
	const pages = 4096
	all := bytes.Repeat([]byte{1}, (pages+2)*page)
	before := resident()
	Discard(all[page/2 : (pages+1)*page+page/2])
	if freed := before - resident(); freed < pages*page*3/4 {
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

// TestHuge: what is in memory stays, whichever pages are cheaper, and all of it can be used.
func TestHuge(t *testing.T) {
	was := paid.huge
	defer func() { paid.huge = was }()
	for _, took := range []time.Duration{0, time.Hour} {
		paid.huge = took
		all := Unasked[byte](6 * HugePage)[:6*HugePage]
		want := make([]byte, len(all))
		for i := range all[:HugePage+1] {
			all[i], want[i] = byte(i%251), byte(i%251)
		}
		Huge(all)
		if !bytes.Equal(all[:HugePage+1], want[:HugePage+1]) {
			t.Error("what was there has changed")
		}
		clear(all)
	}
}

// TestReserve: what is allocated afterwards is in huge pages, also in small pieces. It is tested in a process
// that has allocated nothing else.
func TestReserve(t *testing.T) {
	const inside = "TEXTREPLAY_TEST_RESERVE"
	if os.Getenv(inside) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestReserve$")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	huge := func() int { return kib(t, "/proc/self/smaps_rollup", "AnonHugePages:") << 10 }
	Reserve(64 << 20)
	pieces := make([][]byte, 512)
	for i := range pieces {
		pieces[i] = bytes.Repeat([]byte{1}, 64<<10)
	}
	n, all := huge(), len(pieces)*len(pieces[0])
	large := Zeroed[byte](2 * HugePage)
	switch {
	case huge() == n:
		t.Skip("this system has no huge pages")
	case n < all*3/4:
		t.Errorf("%d bytes of %d are in huge pages", n, all)
	}
	runtime.KeepAlive(large)
	runtime.KeepAlive(pieces)
}

// kib returns a number of a file of /proc. Without the file, or the number, the test is skipped.
func kib(t *testing.T, file, name string) (n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Skip(err)
	}
	_, rest, found := strings.Cut(string(text), name)
	if !found {
		t.Skipf("%s has no %s", file, name)
	}
	for _, c := range strings.Fields(rest)[0] {
		n = 10*n + int(c-'0')
	}
	return n
}

// TestMove: the content and the pages are at the other place, and the first place is zero and can be used.
func TestMove(t *testing.T) {
	if !canMove() {
		t.Skip("this system cannot move pages")
	}
	from, to := Make[byte](2 * HugePage)[:2*HugePage], Make[byte](2 * HugePage)[:2*HugePage]
	for i := range from {
		from[i] = byte(i % 251)
	}
	want := bytes.Clone(from[:HugePage])
	if !Move(to[HugePage:], from[:HugePage]) {
		t.Fatal("nothing was moved")
	}
	if !bytes.Equal(to[HugePage:], want) {
		t.Error("what was moved is something else")
	}
	zeros := make([]byte, HugePage)
	if !bytes.Equal(from[:HugePage], zeros) || !bytes.Equal(to[:HugePage], zeros) {
		t.Error("what was not moved to has something in it")
	}
	if from[HugePage] != byte(HugePage%251) {
		t.Error("what was not moved has changed")
	}
	clear(from) // and can be used, as far as an emulator knows too
}

// TestMoveFails: where the pages cannot be moved, all memory stays as it was.
func TestMoveFails(t *testing.T) {
	all := Make[byte](2 * HugePage)[:2*HugePage]
	page := os.Getpagesize()
	for i := range all {
		all[i] = byte(i % 251)
	}
	want := bytes.Clone(all)
	for name, failed := range map[string]bool{
		"they overlap":       !Move(all[:2*page], all[page:3*page]),
		"not whole pages":    !Move(all[1:page+1], all[HugePage+1:HugePage+page+1]),
		"a part of a page":   !Move(all[:page-1], all[HugePage:HugePage+page-1]),
		"different lengths":  !Move(all[:page], all[HugePage:HugePage+2*page]),
		"nothing is to move": !Move(all[:0], all[HugePage:HugePage]),
	} {
		if !failed {
			t.Errorf("%s: the pages were moved", name)
		}
	}
	if !bytes.Equal(all, want) {
		t.Error("the memory has changed")
	}
	clear(all) // and can be used
}

// TestFillsHugePage: only pieces that follow each other and are all of a huge page do.
func TestFillsHugePage(t *testing.T) {
	all := Make[byte](2 * HugePage)[:2*HugePage]
	half := HugePage / 2
	for name, tt := range map[string]struct {
		pieces [][]byte
		want   bool
	}{
		"whole":       {[][]byte{all[:half], all[half:HugePage]}, true},
		"too short":   {[][]byte{all[:half]}, false},
		"too long":    {[][]byte{all[:half], all[half:]}, false},
		"a hole":      {[][]byte{all[:half], all[HugePage : HugePage+half]}, false},
		"not aligned": {[][]byte{all[half:HugePage], all[HugePage : HugePage+half]}, false},
	} {
		if got := FillsHugePage(tt.pieces); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
