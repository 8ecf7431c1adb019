// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
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
	moments := 40
	if testing.Short() {
		moments = 8
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

// TestExportWatch: export --watch takes what is finished, and only that, and ends when it is
// told to.
func TestExportWatch(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such signals")
	}
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	piece := func(from, to string) {
		t.Helper()
		if err := os.CopyFS("new", os.DirFS(filepath.Join(data, from, "rec.data"))); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename("new", filepath.Join("pieces", to)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("pieces", 0o777); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr lockedBuffer
	cmd := asProcess(t, "export", "-o", "tables", "--watch", "pieces", "--every", "20ms")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait := func(what string) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !strings.Contains(stdout.text(), what); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				cmd.Process.Kill()
				t.Fatalf("no %q in\n%s%s", what, stdout.text(), stderr.text())
			}
		}
	}
	piece("small", "000001")
	wait("pieces/000001: 542 changes")
	// perf has not finished this one: its header has no size of the data.
	piece("hotplug", "000002")
	unfinished := filepath.Join("pieces", "000002", "data")
	whole, err := os.ReadFile(unfinished)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("cut", whole[:len(whole)-200], 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("cut", unfinished); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	done := strings.Contains(stdout.text(), "000002")
	piece("lossy", "000003") // the recorder has gone on: 000002 will not change any more
	wait("pieces/000002: ")
	wait("pieces/000003: ")
	if done {
		t.Error("000002 was exported before it was finished")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr.text())
	}
}
