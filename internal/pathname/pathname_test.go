// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pathname

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPlain: a plain name is of the file that the system opens by the name that was given.
func TestPlain(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	for _, dir := range []string{"a/b", "deep/in/side"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"note", "a/note", "deep/note", "deep/in/note"} {
		if err := os.WriteFile(file, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"a/link": "../deep/in", "a/again": "link/../in/side", "round": "round"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, want string }{
		{"note", "note"},
		{"a/../note", "a/../note"},
		{"../" + filepath.Base(root) + "/note", "../" + filepath.Base(root) + "/note"},
		{"a/link/note", "a/link/note"},
		{"a/link/../note", "deep/note"},
		{"./a//link/..//note", "deep//note"},
		{root + "/a/link/../note", root + "/deep/note"},
		{"a/again/../note", "deep/in/note"},
		{"a/again/../../note", "deep/note"},
		{"a/link/../in/../../note", "a/link/../in/../../note"},
		{"a/link/..", "deep"},
		{"a/link/../in/", "deep/in/"},
		{"a/link/../none@1..2", "deep/none@1..2"},
		{"a/link/../none/file", "deep/none/file"},
		{"none/../note", "none/../note"},
		{"round/../note", "round/../note"},
		{"..note", "..note"},
		{"-", "-"},
		{"", ""},
	} {
		got := Plain(tt.name)
		if got != tt.want {
			t.Errorf("Plain(%q) = %q, want %q", tt.name, got, tt.want)
		}
		given, err := os.Stat(tt.name)
		if err != nil {
			continue
		}
		if plain, err := os.Stat(filepath.Clean(got)); err != nil || !os.SameFile(given, plain) {
			t.Errorf("Plain(%q) = %q is another file", tt.name, got)
		}
	}
}
