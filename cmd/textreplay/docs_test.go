// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/tables"
)

// docs lists README.md and all of docs.
func docs(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(corpus.Root(), "docs", "*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no docs: %v", err)
	}
	texts := make(map[string]string)
	for _, p := range append(paths, filepath.Join(corpus.Root(), "README.md")) {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(p)] = string(b)
	}
	return texts
}

// TestDocs runs every example of the docs: in blocks marked console, what
// follows "$ textreplay ..." must be the beginning of what it prints. It runs
// where an example may write files. A block marked jsonl is the file
// windows.jsonl of the examples behind it.
func TestDocs(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(corpus.Root(), "testdata"), filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	ran := 0
	for name, text := range docs(t) {
		blocks := strings.Split(text, "```console\n")
		for i, block := range blocks {
			if i == 0 {
				continue
			}
			if _, file, ok := strings.Cut(blocks[i-1], "```jsonl\n"); ok {
				file, _, _ = strings.Cut(file, "```")
				if err := os.WriteFile("windows.jsonl", []byte(file), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			block, _, _ = strings.Cut(block, "```")
			for _, example := range strings.Split("\n"+block, "\n$ textreplay ")[1:] {
				command, want, _ := strings.Cut(example, "\n")
				var stdout, stderr bytes.Buffer
				run(strings.Fields(command), strings.NewReader(""), &stdout, &stderr)
				ran++
				if want = strings.TrimSuffix(want, "\n"); !strings.HasPrefix(stdout.String(), want) {
					t.Errorf("%s: textreplay %s\nprints\n%s%s\nthe text has\n%s", name, command, &stdout, &stderr, want)
				}
			}
		}
	}
	if ran < 5 {
		t.Errorf("only %d examples found", ran)
	}
}

// TestVersionsListed: the docs have the versions of what is written.
func TestVersionsListed(t *testing.T) {
	texts := docs(t)
	for name, want := range map[string]string{
		"fleet.md":  fmt.Sprintf("has the version of the tables, now %d.", tables.Version),
		"record.md": fmt.Sprintf("Readers refuse a higher version than %d;", journal.Version),
	} {
		if !strings.Contains(strings.Join(strings.Fields(texts[name]), " "), want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
}

// TestReasonsListed: docs/truth.md lists every reason code with its text.
func TestReasonsListed(t *testing.T) {
	text := docs(t)["truth.md"]
	for code, what := range timeline.Reasons {
		if line := "| `" + code + "` | " + what + " |"; !strings.Contains(text, line) {
			t.Errorf("docs/truth.md has no line %q", line)
		}
	}
}

// TestFaultsListed: docs/mechanisms.md lists every code of a finding of audit, and every
// mechanism.
func TestFaultsListed(t *testing.T) {
	text := docs(t)["mechanisms.md"]
	for code, what := range mechanism.Faults {
		if line := "| `" + code + "` | " + what + " |"; !strings.Contains(text, line) {
			t.Errorf("docs/mechanisms.md has no line %q", line)
		}
	}
	for _, m := range mechanism.All() {
		if !strings.Contains(text, "| `"+m.String()+"` |") {
			t.Errorf("docs/mechanisms.md has no line for %v", m)
		}
	}
}
