// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
)

// TestSweep: a few variants of recordings of testdata are answered. For all of
// them, and for others: go run ./internal/sweep
func TestSweep(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sweep")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args := []string{"-n", "3"}
	for _, name := range []string{"lossy", "guest"} {
		args = append(args, filepath.Join(corpus.Root(), "testdata", name))
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// TestSweepFails: what must not happen is noticed.
func TestSweepFails(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
	}{
		{"panic", `echo "goroutine 1 [running]:" >&2; exit 2`, "panic"},
		{"hang", "exec sleep 60", "still running"},
		{"killed", "kill -9 $$", "killed"},
		{"refused", "exit 3", "exit code 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// It answers for the whole recording only.
			whole := filepath.Join(corpus.Root(), "testdata", "small", "rec.data")
			script := "#!/bin/sh\n[ \"$2\" = " + whole + " ] && exit 0\n" + tt.script + "\n"
			program := filepath.Join(t.TempDir(), "textreplay")
			if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			o := options{n: 1, binary: program, limit: 500e6}
			err := run(&o, "cut", "^info$", []string{filepath.Dir(whole)})
			if err == nil || !strings.Contains(err.Error(), "1 failures") {
				t.Errorf("got %v, want one failure", err)
			}
			s := &subject{options: &o, usual: map[string]result{"info": {}}}
			c := command{name: "info", args: []string{"-i", "IN"}}
			r := s.ask(&c, "elsewhere")
			if what := s.wrong(&c, &r, true); !strings.Contains(what, tt.want) {
				t.Errorf("got %q, want %q", what, tt.want)
			}
		})
	}
}

// TestDamageKinds: all kinds of damage come up, and nearly all of it changes
// something.
func TestDamageKinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kinds := make(map[string]bool)
	same := 0
	for range 2000 {
		data := make([]byte, 4096)
		for i := range data {
			data[i] = byte(i*7 + i>>8)
		}
		what, out := damage(r, bytes.Clone(data), 1024)
		for _, word := range []string{"byte ", "bytes of the first", "the word", "zeros", "random", "without", "twice"} {
			kinds[word] = kinds[word] || strings.Contains(what, word)
		}
		if bytes.Equal(out, data) {
			same++
		}
	}
	if same > 100 {
		t.Errorf("%d times of 2,000 nothing was changed", same)
	}
	for word, met := range kinds {
		if !met {
			t.Errorf("no damage of the kind %q in 2,000", word)
		}
	}
}
