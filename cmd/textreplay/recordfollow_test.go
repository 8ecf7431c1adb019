// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline/replay"
)

// followed returns the lines that --follow prints of a recording that "textreplay record" has
// made on arm64.
func followed(t *testing.T, follow func(f *recordFollower) error) (lines []string, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	var ended atomic.Bool
	ended.Store(true)
	a := &app{out: bufio.NewWriter(&out), stderr: &complaints}
	f := a.newRecordFollower(elf.EM_AARCH64, binary.LittleEndian, &ended)
	snap, err := kcore.Open(filepath.Join("testdata", "recorded612", replay.OwnCopy))
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	f.names = snap.Kallsyms
	if err := follow(f); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), complaints.String()
}

// TestRecordFollowProbes: where probes record the changes, --follow prints what log prints.
// Without a copy of text it says why it prints none.
func TestRecordFollowProbes(t *testing.T) {
	const path = "testdata/recorded612"
	var log, complaints bytes.Buffer
	if code := run([]string{"-i", path, "log"}, nil, &log, &complaints); code != 0 {
		t.Fatalf("exit code %d: %s", code, complaints.String())
	}
	want := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	// log has the writer in front of a batch, --follow in each line. log also names slots that
	// no record registers.
	form := regexp.MustCompile(`^ *([0-9.]+) .*?([0-9a-f]{16})(?: <[^>]*>)?(: .*->.*)$`)
	pokes := func(lines []string) (out []string) {
		for _, l := range lines {
			if m := form.FindStringSubmatch(l); m != nil {
				out = append(out, m[1]+" "+m[2]+m[3])
			}
		}
		return out
	}
	one, _ := followed(t, func(f *recordFollower) error {
		return f.piece(filepath.Join(path, "data"), func() bool { return false })
	})
	if n := len(pokes(want)); n < 400 {
		t.Fatalf("log prints %d changes", n)
	}
	if d := cmp.Diff(pokes(want), pokes(one)); d != "" {
		t.Errorf("-log +follow:\n%s", d)
	}
	first := t.TempDir()
	if err := os.CopyFS(first, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(first, replay.OwnCopy)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(first, "textreplay.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none, stderr := followed(t, func(f *recordFollower) error {
		return f.piece(filepath.Join(first, "data"), func() bool { return false })
	})
	if len(pokes(none)) != 0 || !strings.Contains(stderr, "no copy of kernel text") {
		t.Errorf("%d changes without a copy of text: %s", len(pokes(none)), stderr)
	}
}
