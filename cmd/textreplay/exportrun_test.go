// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline/tables"
)

// asProcess returns a command that runs textreplay as a process of its own. TestMain makes a
// test that is called textreplay be it.
func asProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "textreplay"
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	return cmd
}

// tablesIn returns the files of tables with their contents. Temporary files of programs
// that were killed are none.
func tablesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".textreplay-") {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var exportKills = flag.Int("kills", 40, "how many times TestExportKilled kills an export, and starts it again")

// TestExportKilled: export that is killed at any moment, and started again, leaves the same
// tables as one that is not. Whatever is there meanwhile is a part of them.
func TestExportKilled(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	recordings := []string{filepath.Join(data, "small/rec.data"), filepath.Join(data, "hotplug/rec.data"), filepath.Join(data, "lossy/rec.data")}
	t.Chdir(t.TempDir())
	export := func(dir string) *exec.Cmd {
		return asProcess(t, append([]string{"export", "-o", dir, "-j", "1"}, recordings...)...)
	}
	began := time.Now()
	if out, err := export("whole").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	took := time.Since(began)
	whole := tablesIn(t, "whole")
	moments := *exportKills
	if testing.Short() {
		moments = min(moments, 8)
	}
	killed := 0
	for i := range moments {
		dir := fmt.Sprint("killed", i)
		// Twice, at different moments, with the signal that cannot be caught and the one that is.
		for k, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			cmd := export(dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(took * time.Duration(i+k*moments/3) / time.Duration(moments))
			cmd.Process.Signal(signal)
			if cmd.Wait() != nil {
				killed++
			} else {
				took -= took / 8 // the machine was busier when the whole one was made
			}
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			for name, text := range tablesIn(t, dir) {
				if whole[name] != text {
					t.Fatalf("moment %d: %s is not as it will be", i, name)
				}
			}
		}
		if out, err := export(dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*/*/*/.textreplay-*")); len(left) > 0 {
			t.Fatalf("moment %d: %v were left", i, left)
		}
		again := tablesIn(t, dir)
		if len(again) != len(whole) {
			t.Fatalf("moment %d: %d files, want %d", i, len(again), len(whole))
		}
		for name, text := range whole {
			if again[name] != text {
				t.Fatalf("moment %d: %s differs", i, name)
			}
		}
		os.RemoveAll(dir)
	}
	if killed < moments/2 {
		t.Errorf("only %d of %d were killed", killed, 2*moments)
	}
}

// TestExportTogether: two programs that export the same recordings into one directory at the
// same time write no page twice.
func TestExportTogether(t *testing.T) {
	recordings, err := filepath.Glob("../../testdata/*/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	for i := range recordings {
		recordings[i], _ = filepath.Abs(recordings[i])
	}
	t.Chdir(t.TempDir())
	args := append([]string{"export", "-o", "tables", "-j", "3"}, recordings...)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if out, err := asProcess(t, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	both.Wait()
	type hash struct {
		Hash [16]byte `parquet:"page_hash"`
	}
	files, err := filepath.Glob("tables/text/*/*.parquet")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	seen := make(map[string]bool)
	for _, name := range files {
		rows, err := parquet.ReadFile[hash](name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			key := filepath.Dir(name) + string(r.Hash[:])
			if seen[key] {
				t.Fatalf("%s has page %x, which another file has", name, r.Hash)
			}
			seen[key] = true
		}
	}
	manifests, _ := filepath.Glob("tables/manifest/*.json")
	if len(manifests) != len(recordings) {
		t.Errorf("%d manifests of %d recordings", len(manifests), len(recordings))
	}
}

// A lockedBuffer is a buffer that is read while a process writes it. It has no other method of
// a buffer, since package io would call those without the lock.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// withSignals skips a test where there are no signals. It changes to a new directory, and returns
// the directory of the recordings.
func withSignals(t *testing.T) (data string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	return data
}

// A watching is an export that goes on until it is told to end.
type watching struct {
	*exec.Cmd
	t              *testing.T
	stdout, stderr lockedBuffer
}

func newWatching(t *testing.T, args ...string) *watching {
	w := &watching{Cmd: asProcess(t, args...), t: t}
	w.Stdout, w.Stderr = &w.stdout, &w.stderr
	return w
}

// wait waits until the export has printed a text.
func (w *watching) wait(what string) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(w.stdout.text(), what); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.Process.Kill()
			w.t.Fatalf("no %q in\n%s%s", what, w.stdout.text(), w.stderr.text())
		}
	}
}

// TestExportWatch: export --watch takes what is finished, and only that, and ends when it is
// told to.
func TestExportWatch(t *testing.T) {
	data := withSignals(t)
	// piece makes a piece as a whole: the export may look at any moment.
	piece := func(from, to string, prepare func(dir string)) {
		t.Helper()
		if err := os.CopyFS("new", os.DirFS(filepath.Join(data, from, "rec.data"))); err != nil {
			t.Fatal(err)
		}
		if prepare != nil {
			prepare("new")
		}
		if err := os.Rename("new", filepath.Join("pieces", to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("pieces", 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := newWatching(t, "export", "-o", "tables", "--watch", "pieces", "--every", "20ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	piece("small", "000001", nil)
	cmd.wait("pieces/000001: 542 changes")
	// perf has not finished this one: its header has no size of the data.
	piece("hotplug", "000002", func(dir string) {
		unfinished := filepath.Join(dir, "data")
		whole, err := os.ReadFile(unfinished)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(unfinished, whole[:len(whole)-200], 0o666); err != nil {
			t.Fatal(err)
		}
		beginJournal(t, dir)
	})
	time.Sleep(200 * time.Millisecond)
	done := strings.Contains(cmd.stdout.text(), "000002")
	piece("lossy", "000003", nil)
	time.Sleep(100 * time.Millisecond)
	done = done || strings.Contains(cmd.stdout.text(), "000002") // 000003 is not the recorder's
	beginJournal(t, filepath.Join("pieces", "000003"))           // the recorder has gone on: 000002 will not change any more
	cmd.wait("pieces/000002: ")
	cmd.wait("pieces/000003: ")
	if done {
		t.Error("000002 was exported before it was finished")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, cmd.stderr.text())
	}
}

// TestExportWatchReplaced: a recording that takes the place of another one is exported too. perf record
// renames perf.data to perf.data.old, and writes perf.data anew.
func TestExportWatchReplaced(t *testing.T) {
	data := withSignals(t)
	if err := os.Mkdir("pieces", 0o777); err != nil {
		t.Fatal(err)
	}
	place := func(from string) {
		t.Helper()
		whole, err := os.ReadFile(filepath.Join(data, from, "rec.data", "data"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("new", whole, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename("pieces/perf.data", "pieces/perf.data.old"); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := os.Rename("new", "pieces/perf.data"); err != nil {
			t.Fatal(err)
		}
	}
	cmd := newWatching(t, "export", "-o", "tables", "--watch", "pieces", "--every", "20ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	place("small")
	cmd.wait("pieces/perf.data: 542 changes")
	place("hotplug")
	cmd.wait("pieces/perf.data: 196 changes")
	place("lossy")
	cmd.wait("pieces/perf.data: 537 changes")
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, cmd.stderr.text())
	}
	// What is unchanged is not looked at again: each is there once by its first name, and the two that
	// were renamed once by the second one.
	if n := strings.Count(cmd.stdout.text(), "\n"); n > 5 {
		t.Errorf("%d lines:\n%s", n, cmd.stdout.text())
	}
}

// TestExportWatchTriesAgain: export --watch tries again to write what could not be written, complains
// once, and ends with exit code 0 if all was written at last.
func TestExportWatchTriesAgain(t *testing.T) {
	data := withSignals(t)
	// Each is in the way until it is removed.
	for name, obstacle := range map[string]func() error{
		"tables/changes": func() error {
			return errors.Join(os.Mkdir("tables", 0o777), os.WriteFile("tables/changes", nil, 0o666))
		},
		"tables": func() error { return os.Symlink("nowhere", "tables") },
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := errors.Join(obstacle(), os.CopyFS("pieces/one", os.DirFS(filepath.Join(data, "small/rec.data")))); err != nil {
				t.Fatal(err)
			}
			cmd := newWatching(t, "export", "-o", "tables", "--watch", "pieces", "--every", "20ms")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); cmd.stderr.text() == "" && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(200 * time.Millisecond)
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			cmd.wait("pieces/one: 542 changes")
			cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if text := cmd.stderr.text(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "pieces/one: ") {
				t.Errorf("not one complaint: %s", text)
			}
		})
	}
}

// TestExportWatchRenamed: what could not be written, and is in the tables at last by another name, is no
// failure.
func TestExportWatchRenamed(t *testing.T) {
	data := withSignals(t)
	if err := errors.Join(os.Mkdir("tables", 0o777), os.WriteFile("tables/changes", nil, 0o666),
		os.CopyFS("pieces/one", os.DirFS(filepath.Join(data, "small/rec.data")))); err != nil {
		t.Fatal(err)
	}
	cmd := newWatching(t, "export", "-o", "tables", "--watch", "pieces", "--every", "20ms")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(cmd.stderr.text(), "pieces/one: ") && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := errors.Join(os.Rename("pieces/one", "other"), os.Remove("tables/changes"), os.Rename("other", "pieces/two")); err != nil {
		t.Fatal(err)
	}
	cmd.wait("pieces/two: ")
	cmd.Process.Signal(syscall.SIGTERM)
	// While it was renamed, it could not be read either, if it was tried just then.
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != exitInput {
		t.Errorf("%v\n%s", err, cmd.stderr.text())
	}
}

// beginJournal makes a directory one that a recorder has begun.
func beginJournal(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, journal.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := &journal.Start{Version: journal.Version, Program: "test", Clock: "CLOCK_MONOTONIC", Time: 1, Wall: 2}
	if err := journal.Append(f, &journal.Entry{Start: start}); err != nil {
		t.Fatal(err)
	}
}

// TestFinishedPieces: a piece is finished if the same recorder has begun a later one. Other
// directories whose names are numbers say nothing of each other, nor of pieces.
func TestFinishedPieces(t *testing.T) {
	whole, err := os.ReadFile("../../testdata/hotplug/rec.data/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		pieces, others []string // none has ended
		want           []string
	}{
		{[]string{"000009", "000010"}, nil, []string{"000009"}},
		{[]string{"999999", "1000000"}, nil, []string{"999999"}},
		{[]string{"000001", "000002", "000003"}, nil, []string{"000001", "000002"}},
		{nil, []string{"000001", "000002"}, nil},
		{nil, []string{"9", "10", "20261120"}, nil},
		{[]string{"000001"}, []string{"000002", "20261120"}, nil},
		{[]string{"000002"}, []string{"000001", "1"}, nil},
		{[]string{"9", "10"}, nil, nil}, // a recorder does not write them so
	} {
		dir := t.TempDir()
		for _, name := range slices.Concat(test.pieces, test.others) {
			if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, "data"), whole[:len(whole)-200], 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range test.pieces {
			beginJournal(t, filepath.Join(dir, name))
		}
		var got []string
		for _, path := range finishedRecordings(dir) {
			got = append(got, filepath.Base(path))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("pieces %v and others %v: %v are finished, want %v", test.pieces, test.others, got, test.want)
		}
	}
}

// TestFinishedBelow: recordings below the directory are found at any depth and through symbolic links,
// each once. A link shows pieces of another directory, but not that they are finished.
func TestFinishedBelow(t *testing.T) {
	whole, err := os.ReadFile("../../testdata/hotplug/rec.data/data")
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	if top, err = filepath.EvalSymlinks(top); err != nil {
		t.Fatal(err)
	}
	write := func(name string, cut int) {
		t.Helper()
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole[:len(whole)-cut], 0o666); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Skip(err) // Windows needs a privilege
		}
	}
	piece := func(name string) {
		t.Helper()
		write(name+"/data", 200)
		beginJournal(t, filepath.Join(top, name))
	}
	write("watched/data/perf.data", 0) // a directory of this name is no recording
	write("watched/data/half", 200)
	write("watched/data/rec.data/data", 0)
	write("watched/data/.textreplay-0123456789abcdef/data", 0)
	piece("watched/host/day/000001")
	piece("watched/host/day/000002")
	write("elsewhere/perf.data", 0)
	write("elsewhere/deep/er/rec.data/data", 0)
	piece("one/000001") // of a recorder that goes on
	piece("another/000002")
	piece("another/000003")
	link("watched/loop", ".")
	link("watched/host/up", filepath.Join(top, "watched"))
	link("watched/circle", "circle")
	link("watched/nowhere", "gone")
	link("watched/0file", "../elsewhere/perf.data")
	link("watched/today", "host/day")
	link("watched/far", "../elsewhere/deep")
	link("watched/000001", "../one/000001")
	link("watched/000002", "../another/000002")
	link("watched/000003", "../another/000003")
	link("link", "watched")
	want := []string{"another/000002", "elsewhere/deep/er/rec.data", "elsewhere/perf.data", "watched/data/perf.data",
		"watched/data/rec.data", "watched/host/day/000001"}
	for _, dir := range []string{"watched", "link", "watched/host/up"} {
		var got []string
		for _, path := range finishedRecordings(filepath.Join(top, dir)) {
			rel, err := filepath.Rel(top, path)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, filepath.ToSlash(rel))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q are finished, want %q", dir, got, want)
		}
	}
}

// TestFinishedFiles: a file of perf is finished once it is whole, of either byte order.
func TestFinishedFiles(t *testing.T) {
	for _, name := range []string{"small", "s390x"} {
		whole, err := os.ReadFile(filepath.Join("../../testdata", name, "rec.data/data"))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "perf.data")
		for _, test := range []struct{ size, want int }{{4, 0}, {100, 0}, {len(whole) / 2, 0}, {len(whole) - 1, 0}, {len(whole), 1}} {
			if err := os.WriteFile(path, whole[:test.size], 0o666); err != nil {
				t.Fatal(err)
			}
			if got := finishedRecordings(dir); len(got) != test.want {
				t.Errorf("%s: %d of %d bytes: %q are finished", name, test.size, len(whole), got)
			}
		}
	}
}

// record places a recording as the recorder makes it: the data grows, the journal says that it has
// ended, and then the files that were needed until then are removed.
func record(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(from, "data"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(to, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(to, 0o777); err != nil {
		t.Fatal(err)
	}
	write(perfdata.EarlyFeatures, nil)
	f, err := os.Create(filepath.Join(to, journal.Name)) // before there is any data
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	said := func(e journal.Entry) {
		t.Helper()
		if err := journal.Append(f, &e); err != nil {
			t.Fatal(err)
		}
	}
	said(journal.Entry{Start: &journal.Start{Version: journal.Version, Program: "test", Clock: "CLOCK_MONOTONIC", Time: 1, Wall: 2}})
	write("data", data[:len(data)-200])
	if err := os.CopyFS(filepath.Join(to, "kcore_dir"), os.DirFS(filepath.Join(from, "kcore_dir"))); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	write("data", data)
	said(journal.Entry{End: &journal.End{Time: 1 << 60}})
	time.Sleep(20 * time.Millisecond)
	if err := os.Remove(filepath.Join(to, perfdata.EarlyFeatures)); err != nil {
		t.Fatal(err)
	}
}

// TestExportWatchNames: export --watch that still waits for names on standard input ends at the
// first signal.
func TestExportWatchNames(t *testing.T) {
	data := withSignals(t)
	if err := os.Mkdir("pieces", 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := newWatching(t, "export", "-o", "tables", "--watch", "pieces", "--files-from", "-")
	names, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(names, filepath.Join(data, "small/rec.data"))
	cmd.wait("542 changes")
	cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, cmd.stderr.text())
	}
}

// TestExportWatchKilled: export --watch that is killed and started again while a recorder makes
// pieces, at any moments, leaves the same tables as an export of all pieces.
func TestExportWatchKilled(t *testing.T) {
	data := withSignals(t)
	kinds := []string{"small", "hotplug", "lossy", "modfull", "uponline"}
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	var whole map[string]string
	rnd := rand.New(rand.NewPCG(20, 4))
	for round := range rounds {
		in, out := fmt.Sprint("pieces", round), fmt.Sprint("tables", round)
		if err := os.Mkdir(in, 0o777); err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		ended := make(chan error, 1)
		go func() { ended <- watchAndKill(t, &stop, in, out, rnd) }()
		for n, kind := range kinds {
			record(t, filepath.Join(data, kind, "rec.data"), filepath.Join(in, fmt.Sprintf("%06d", n+1)))
		}
		time.Sleep(200 * time.Millisecond)
		stop.Store(true)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		names, _ := filepath.Glob(filepath.Join(in, "*"))
		if text, err := asProcess(t, append([]string{"export", "-o", out, "-j", "1"}, names...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if whole == nil {
			if text, err := asProcess(t, append([]string{"export", "-o", "whole", "-j", "1"}, names...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			whole = tablesIn(t, "whole")
		}
		again := tablesIn(t, out)
		for name := range again {
			if _, ok := whole[name]; !ok {
				t.Errorf("round %d: %s is one too many", round, name)
			}
		}
		for name, text := range whole {
			if again[name] != text {
				t.Errorf("round %d: %s differs", round, name)
			}
		}
	}
}

// watchAndKill runs export --watch, and kills it at random moments, until stop is set. SIGTERM
// ends it with exit code 0.
func watchAndKill(t *testing.T, stop *atomic.Bool, in, out string, rnd *rand.Rand) error {
	for i := 0; !stop.Load(); i++ {
		cmd := asProcess(t, "export", "-o", out, "-j", "1", "--watch", in, "--every", "3ms")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(rnd.IntN(250)) * time.Millisecond)
		signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[i%2]
		cmd.Process.Signal(signal)
		if err := cmd.Wait(); signal == syscall.SIGTERM && err != nil && cmd.ProcessState.ExitCode() >= 0 {
			return fmt.Errorf("%w\n%s", err, &stderr)
		}
	}
	return nil
}

// TestExportTwins: of two recordings of one content, the second one waits for the first, and is tried if
// that one could not be added, such as one that was renamed while it was read.
func TestExportTwins(t *testing.T) {
	e := &export{app: &app{}, dir: tables.Open(t.TempDir()), adds: make(map[string]chan struct{}), names: make(map[string]string)}
	end, done, err := e.begin("one", "0123")
	if done || err != nil {
		t.Fatalf("%v, %v", done, err)
	}
	tried := make(chan error)
	go func() {
		end, done, err := e.begin("two", "0123")
		if end(); done {
			err = errors.New("it was not added, and is not tried")
		}
		tried <- err
	}()
	select {
	case <-tried:
		t.Error("the second one does not wait")
	case <-time.After(50 * time.Millisecond):
		end()
		if err := <-tried; err != nil {
			t.Error(err)
		}
	}
}

// TestExportParallel: the tables of a recording do not depend on how many CPUs make them.
func TestExportParallel(t *testing.T) {
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"small", "rich", "lossy"} {
		var of []map[string]string
		for _, jobs := range []string{"1", "2"} {
			out := name + jobs
			if code := run([]string{"export", "-o", out, "-j", jobs, filepath.Join(data, name, "rec.data")}, nil, io.Discard, io.Discard); code != exitAnswered {
				t.Fatalf("exit code %d", code)
			}
			of = append(of, tablesIn(t, out))
		}
		if !maps.Equal(of[0], of[1]) || len(of[0]) < 8 {
			t.Errorf("%s: the tables differ", name)
		}
	}
}

// TestExportFails: a recording that cannot be added leaves none of its own files, and changes nothing
// of what was there.
func TestExportFails(t *testing.T) {
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	export := func(out, name string) (code int) {
		return run([]string{"export", "-o", out, filepath.Join(data, name, "rec.data")}, nil, io.Discard, io.Discard)
	}
	if export("tables", "small") != exitAnswered || export("whole", "small") != exitAnswered || export("whole", "hotplug") != exitAnswered {
		t.Fatal("export has failed")
	}
	before, whole := tablesIn(t, "tables"), tablesIn(t, "whole")
	var own, row string // of hotplug: its gaps, and its row in recordings
	for name := range whole {
		switch table, _, _ := strings.Cut(filepath.ToSlash(name), "/"); {
		case before[name] != "":
		case table == "gaps":
			own = name
		case table == "recordings":
			row = name
		}
	}
	// The row is the last file of a recording. It cannot be written where a file has the name of its
	// directory.
	inTheWay := filepath.Join("tables", filepath.Dir(row))
	place := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, left string }{
		{"nothing was there", ""},
		{"a program that was killed has left a file", own},
	} {
		if place(inTheWay, ""); test.left != "" {
			place(filepath.Join("tables", test.left), "of other rules")
		}
		if code := export("tables", "hotplug"); code != exitOutput {
			t.Fatalf("%s: exit code %d", test.name, code)
		}
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		after := tablesIn(t, "tables")
		for name := range after {
			table, _, _ := strings.Cut(filepath.ToSlash(name), "/")
			shared := table == "text" || table == "pages" || table == "symbols" && !strings.Contains(row, filepath.Base(name))
			if before[name] == "" && !shared {
				t.Errorf("%s: %s is left", test.name, name)
			}
		}
		for name, text := range before {
			if after[name] != text {
				t.Errorf("%s: %s has changed", test.name, name)
			}
		}
	}
	if code := export("tables", "hotplug"); code != exitAnswered || !maps.Equal(tablesIn(t, "tables"), whole) {
		t.Errorf("exit code %d when it can be added, or other tables than without an error", code)
	}
}

// TestExportReplaced: a recording that is replaced by another one, after its name in the tables was
// derived from its content and before it is loaded, is not exported under that name.
func TestExportReplaced(t *testing.T) {
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, from := range map[string]string{"rec.data": "small", "other.data": "smalldup"} {
		b, err := os.ReadFile(filepath.Join(data, from, "rec.data", "data"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The windows are read between the two. So this waits in the middle.
	if err := exec.Command("mkfifo", "windows").Run(); err != nil {
		t.Skipf("skipped: no FIFO: %v", err)
	}
	replaced := make(chan error)
	go func() {
		f, err := os.OpenFile("windows", os.O_WRONLY, 0) // waits for the reader
		if err == nil {
			err = os.Rename("other.data", "rec.data")
			f.Close()
		}
		replaced <- err
	}()
	var stderr bytes.Buffer
	code := run([]string{"export", "-o", "tables", "-j", "1", "--windows", "windows", "rec.data"}, nil, io.Discard, &stderr)
	if err := <-replaced; err != nil {
		t.Fatal(err)
	}
	if code != exitInput || stderr.String() != "textreplay: rec.data changed while it was read\n" {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat("tables"); err == nil {
		t.Error("tables were written")
	}
}
