// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDamagedBases: a stored page whose addresses cannot be right is an error that names its
// file.
func TestDamagedBases(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at, to []int32
		ok     bool
	}{
		{"as it should be", []int32{8, 4092}, []int32{1, 2}, true},
		{"an address without its value", []int32{8, 16}, []int32{1}, false},
		{"a value without its address", []int32{8}, []int32{1, 2}, false},
		{"behind the page", []int32{4093}, []int32{1}, false},
		{"before it", []int32{-4}, []int32{1}, false},
		{"one inside the other", []int32{8, 10}, []int32{1, 2}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "pages.parquet")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := writeRows(f, []textRow{{Page: make([]byte, pageSize), RelocAt: tt.at, RelocTo: tt.to}}); err != nil {
				t.Fatal(err)
			}
			a := &addition{Dir: Open(dir)}
			a.seen[path] = true
			if err := a.readBases(dir); (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
		})
	}
}
