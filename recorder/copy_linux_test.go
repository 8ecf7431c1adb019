// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/kcore"
)

// started returns a recorder of this machine, whose methods the test calls.
func started(t *testing.T, opts Options) *Recorder {
	t.Helper()
	if opts.Program == "" {
		opts.Program = "textreplay test"
	}
	r, err := Start(opts)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skipf("this machine allows no recording: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCloseDrains: while the recorder waits for a last copy of text, it takes the records of
// the ring buffers, and no further copy is asked for.
func TestCloseDrains(t *testing.T) {
	r := started(t, Options{Dir: filepath.Join(t.TempDir(), "rec")})
	for r.copying { // the first copy, where kernel memory can be read
		if err := r.turn(); err != nil {
			t.Fatal(err)
		}
	}
	r.copying = true
	pages := make([]*unix.PerfEventMmapPage, len(r.rings))
	for i, g := range r.rings {
		pages[i] = g.page
	}
	taken := make(chan bool, 1)
	go func() {
		time.Sleep(2 * flushInterval) // Close has begun to wait
		heads := make([]uint64, len(pages))
		loadProgram(t, 3).Close()
		for i, p := range pages {
			heads[i] = atomic.LoadUint64(&p.Data_head)
		}
		behind := true
		for until := time.Now().Add(20 * time.Second); behind && time.Now().Before(until); time.Sleep(time.Millisecond) {
			behind = false
			for i, p := range pages {
				behind = behind || atomic.LoadUint64(&p.Data_tail) < heads[i]
			}
		}
		taken <- !behind
		r.done <- copied{err: errors.New("no copy"), of: r.piece}
		r.nudge()
	}()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if !<-taken {
		t.Error("records are in the ring buffers as long as Close waits for a copy")
	}
	r.mem = fakeMemory(t)
	if r.copy(); r.copying || r.again {
		t.Error("a copy is asked for at the end")
	}
}

// TestFirstCopyFails: a later copy takes the place of the first one, and those after it are
// compared with it. Nothing remains of a copy that failed.
func TestFirstCopyFails(t *testing.T) {
	names := readKallsyms()
	if names == nil {
		t.Skip("this machine does not show addresses")
	}
	stext, etext, ok := names.Text()
	if !ok {
		t.Skip("this machine does not show where the kernel's text is")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "kcore"))
	if err != nil {
		t.Fatal(err)
	}
	page := uint64(os.Getpagesize())
	lo := stext &^ (page - 1)
	size := etext - lo + 2*page
	if err := file.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	whole := &memory{file: file, machine: elf.EM_X86_64, class: elf.ELFCLASS64, data: elf.ELFDATA2LSB,
		loads: []elf.ProgHeader{{Vaddr: lo, Filesz: size}}}
	r := started(t, Options{Dir: filepath.Join(t.TempDir(), "rec")})
	for r.copying {
		if err := r.turn(); err != nil {
			t.Fatal(err)
		}
	}
	if r.mem != nil {
		r.mem.close()
	}
	r.piece.based, r.piece.copies = false, 0
	if err := os.RemoveAll(filepath.Join(r.dir, "kcore_dir")); err != nil {
		t.Fatal(err)
	}
	was := retryAfter
	retryAfter = 0
	t.Cleanup(func() { retryAfter = was })
	r.mem = fakeMemory(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*flushInterval)
	defer cancel()
	failures := 0
	r.opts.Warn = func(error) { failures++; r.mem, r.warned = whole, make(map[string]bool) }
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for r.copying {
		if err := r.turn(); err != nil {
			t.Fatal(err)
		}
	}
	if failures == 0 || !r.based {
		t.Errorf("the first copy was not tried again: %d failures", failures)
	}
	r.piece.based = false
	if err := os.RemoveAll(filepath.Join(r.dir, "kcore_dir")); err != nil {
		t.Fatal(err)
	}
	r.opts.Warn = nil
	before := r.stats.Copies
	var dirs []string
	for _, mem := range []*memory{fakeMemory(t), whole, whole, fakeMemory(t), whole} {
		r.mem = mem
		r.copy()
		c := <-r.done
		if err := r.finishCopy(c); err != nil {
			t.Fatal(err)
		}
		if c.err == nil {
			dirs = append(dirs, c.entry.Dir+" on "+c.entry.Base)
			continue
		}
		if _, err := os.Stat(filepath.Join(r.dir, "kcore_dir")); len(dirs) == 0 && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("of the copy that failed: %v", err)
		}
	}
	if want := []string{"kcore_dir on ", "copies/1 on kcore_dir", "copies/3 on kcore_dir"}; !slices.Equal(dirs, want) || r.stats.Copies != before+3 {
		t.Errorf("%q, want %q", dirs, want)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestModuleBelowText: the kernel's own text is not always the lowest: on arm64, modules may be
// below it. A module that is gone is left out, and text that cannot be read fails the copy.
func TestModuleBelowText(t *testing.T) {
	const text, module = 0xffff800080000000, 0xffff80007a000000
	m := fakeMemory(t)
	page := uint64(os.Getpagesize())
	for _, tt := range []struct {
		core  uint64
		spans []span
		want  []span // nil: it fails
	}{
		{text + 16, []span{{module, module + page}, {text, text + page}}, []span{{text, text + page}}},
		{text + 16, []span{{text, text + page}, {text + 1<<20, text + 1<<20 + page}}, []span{{text, text + page}}},
		{module + 16, []span{{module, module + page}, {text, text + page}}, nil},
		{text + 1<<20, []span{{text, text + page}, {text + 1<<20, text + 1<<20 + page}}, nil},
	} {
		c := &textCopy{spans: slices.Clone(tt.spans), core: tt.core}
		err := m.write(filepath.Join(t.TempDir(), "kcore"), c, make(map[uint64]uint64))
		if (err == nil) != (tt.want != nil) || err == nil && !slices.Equal(c.spans, tt.want) {
			t.Errorf("text at %#x in %#x: %v, %#x", tt.core, tt.spans, err, c.spans)
		}
	}
}

// TestNudgeClosed: whoever wakes a recorder that is closed does not write to a file that has got
// the number of its eventfd.
func TestNudgeClosed(t *testing.T) {
	r := started(t, Options{Dir: filepath.Join(t.TempDir(), "rec")})
	wake := r.wake
	var over atomic.Bool
	done := make(chan bool)
	go func() { // the race detector sees it
		for !over.Load() {
			r.nudge()
		}
		close(done)
	}()
	err := r.Close()
	over.Store(true)
	if <-done; err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "other")
	var files []*os.File
	for range wake + 1 { // one of them has the number
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
		if int(f.Fd()) == wake {
			break
		}
	}
	r.nudge()
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("%d files, one has %d bytes, %v", len(files), info.Size(), err)
	}
}

// A sharedPage is a file that several goroutines must not read at the same time, as /proc/kcore.
type sharedPage struct {
	readers, together atomic.Int32
}

func (f *sharedPage) ReadAt(b []byte, _ int64) (int, error) {
	if f.readers.Add(1) > 1 {
		f.together.Add(1)
	}
	time.Sleep(time.Millisecond)
	f.readers.Add(-1)
	return len(b), nil
}

func (f *sharedPage) Close() error { return nil }

// TestOneRead: kernel memory is read by one goroutine at a time.
func TestOneRead(t *testing.T) {
	var f sharedPage
	m := &memory{file: &f, loads: []elf.ProgHeader{{Vaddr: 0x1000, Filesz: 0x1000}}}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 10 {
				if err := m.read(make([]byte, 16), 0x1800); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	if n := f.together.Load(); n > 0 {
		t.Errorf("%d reads began while another was going on", n)
	}
}

// TestCopyAgain: a copy during which modules came or went leaves nothing, and another one is made.
func TestCopyAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		fail  []error // of each copy
		first bool
		want  error
	}{
		"none":           {nil, true, nil},
		"the first one":  {[]error{errModulesChanged}, true, nil},
		"a later copy":   {[]error{errModulesChanged}, false, nil},
		"all":            {[]error{errModulesChanged, errModulesChanged, errModulesChanged}, true, errModulesChanged},
		"another reason": {[]error{os.ErrPermission}, true, os.ErrPermission},
	} {
		path, sums := filepath.Join(t.TempDir(), "copy"), make(map[uint64]uint64)
		if !tt.first {
			sums[0x1000] = 1
		}
		made := 0
		c, err := copyTextUnchanged(path, sums, func(dir string, _ func() uint64, sums map[uint64]uint64) (*textCopy, error) {
			if tt.first != (len(sums) == 0) {
				t.Errorf("%s: copy %d is made with %d sums", name, made, len(sums))
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Errorf("%s: copy %d: %v", name, made, err)
			}
			if made++; tt.first {
				sums[0x2000] = uint64(made)
			}
			if made <= len(tt.fail) {
				return nil, tt.fail[made-1]
			}
			return &textCopy{size: made}, nil
		})
		if !errors.Is(err, tt.want) || err == nil && c.size != made {
			t.Errorf("%s: %v, %v after %d copies", name, c, err, made)
		}
	}
	a := kcore.Module{Name: "a", Addr: 0x1000, Size: 0x2000, State: "Live"}
	for _, b := range []kcore.Module{{Name: "b", Addr: a.Addr, Size: a.Size}, {Name: "a", Addr: 0x5000, Size: a.Size}, {Name: "a", Addr: a.Addr, Size: 0x1000}} {
		if isAt(a, b) {
			t.Errorf("%v is taken for %v", b, a)
		}
	}
	if !isAt(a, kcore.Module{Name: "a", Addr: a.Addr, Size: a.Size, Refs: 3, UsedBy: []string{"b"}, State: "Unloading"}) {
		t.Error("a module that is used otherwise is taken for another one")
	}
}
