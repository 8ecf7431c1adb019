// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

// TestSplit: after Split no area of the mapping has a whole huge page, so that the kernel
// cannot map one, and the file reads as before.
func TestSplit(t *testing.T) {
	for _, size := range []int{1, 5000, hugePage, 3*hugePage + 1, 8 * hugePage, 9*hugePage + hugePage/2 + 77} {
		path := filepath.Join(t.TempDir(), "file")
		text := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := OpenRegular(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Split()
		m.Split()
		begin := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(m.Data))))
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		areas := 0
		for line := range strings.Lines(string(maps)) {
			var lo, hi uint64
			if _, err := fmt.Sscanf(line, "%x-%x", &lo, &hi); err != nil {
				t.Fatal(err)
			}
			if hi <= begin || lo >= begin+uint64(size) {
				continue
			}
			areas++
			if whole := (lo + hugePage - 1) &^ (hugePage - 1); whole+hugePage <= hi {
				t.Errorf("%d bytes at %#x: the area %#x to %#x has a whole huge page", size, begin, lo, hi)
			}
		}
		if areas == 0 {
			t.Error("the mapping is not in /proc/self/maps")
		}
		if !bytes.Equal(m.Data, text) {
			t.Error("the file has other bytes")
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
