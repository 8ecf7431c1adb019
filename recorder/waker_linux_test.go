// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
)

// TestWaker: a BPF program that is loaded wakes the recorder, and its record is there then. Tasks
// wake it only if there is no room for the waker. Other processes of this machine load programs and
// make tasks, too.
func TestWaker(t *testing.T) {
	t.Cleanup(func() { openEvent = open })
	for _, full := range []bool{false, true} {
		openEvent = func(e *perfdata.Event, on int) (int, error) {
			if waker := e.Attr.Flags&perfdata.FlagTask == 0 && e.Attr.Type == unix.PERF_TYPE_SOFTWARE; waker && full {
				return -1, unix.EMFILE
			}
			return open(e, on)
		}
		r := started(t, Options{Dir: filepath.Join(t.TempDir(), "rec"), Pages: 1024})
		for _, g := range r.rings {
			if (g.waker == nil) != full {
				t.Errorf("full %v: CPU %d has a waker: %v", full, g.cpu, g.waker != nil)
			}
		}
		// count returns how often f wakes the recorder within some milliseconds, and how often that
		// finds records, of 50 times.
		count := func(f func()) (woken, found int) {
			for range 50 {
				if err := r.round(); err != nil {
					t.Fatal(err)
				}
				f()
				var ready [1]unix.EpollEvent
				n, err := unix.EpollWait(r.poll, ready[:], 20)
				if err != nil && err != unix.EINTR {
					t.Fatal(err)
				}
				before := r.stats.Records
				if err := r.round(); err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					woken++
				}
				if r.stats.Records > before {
					found++
				}
			}
			return woken, found
		}
		if woken, found := count(func() { loadProgram(t, 3).Close() }); woken < 45 || found < 45 {
			t.Errorf("full %v: of 50 programs %d wake the recorder, %d are found then", full, woken, found)
		}
		woken, found := count(func() { exec.Command("true").Run() })
		if found < 45 || full && woken < 45 || !full && woken > 40 {
			t.Errorf("full %v: of 50 tasks %d wake the recorder, %d are found", full, woken, found)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
