// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
)

// TestWebCut: pages of a recording whose files are cut short, or gone, while it is shown are
// errors. The server goes on.
func TestWebCut(t *testing.T) {
	pages := []string{"/", "/state", "/map", "/map/tile?zx=2&zy=2&x=1&y=1", "/at?addr=vfs_read&t=50%25", "/at?addr=do_sys_openat2&t=50%25", "/functions",
		"/diff?from=20%25&to=80%25", "/log", "/log?sort=place", "/search?q=read", "/suggest?q=read", "/profile/flamegraph", "/profile/source?f=vfs_read", "/profile/disasm?f=read"}
	for _, name := range []string{"data", "kcore_dir/kcore", "kcore_dir/kallsyms", "all"} {
		for _, first := range []bool{true, false} {
			what := name + " before the first page"
			if !first {
				what = name + " after all pages"
			}
			t.Run(what, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "rec.data")
				if err := os.CopyFS(dir, os.DirFS(filepath.Join(corpus.Root(), "testdata/callgraph/rec.data"))); err != nil {
					t.Fatal(err)
				}
				base := served(t, dir)
				get := func(path string) int {
					t.Helper()
					answer, err := http.Get(base + path)
					if err != nil {
						t.Fatal(err)
					}
					defer answer.Body.Close()
					if _, err := io.ReadAll(answer.Body); err != nil {
						t.Fatal(err)
					}
					return answer.StatusCode
				}
				if !first {
					for _, path := range pages {
						get(path)
					}
				}
				names := []string{name}
				if name == "all" {
					names = []string{"data", "kcore_dir/kcore", "kcore_dir/kallsyms"}
				}
				for _, name := range names {
					if err := os.Truncate(filepath.Join(dir, name), 0); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					for _, path := range pages {
						get(path)
					}
				}
				if code := get("/nosuch"); code != http.StatusNotFound {
					t.Errorf("/nosuch: %d", code)
				}
			})
		}
	}
}
