// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// TestUnloadRange: what was unloaded can be read while it is unloaded and later, does not stay
// in memory, and leaves a single mapping.
func TestUnloadRange(t *testing.T) {
	const size = 9*hugePage + 12345
	path := filepath.Join(t.TempDir(), "file")
	text := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := OpenRegular(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Sparse(hugePage, 3*hugePage+1)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for range 10 {
				if !bytes.Equal(m.Data, text) {
					t.Error("the file has other bytes")
				}
			}
		})
	}
	unload := func() {
		at := 0
		for _, to := range []int{100, hugePage + 5, 3 * hugePage, 3*hugePage + 1, 8*hugePage - 1, size, size + 100} {
			m.UnloadRange(at, to)
			at = to
		}
	}
	for range 20 {
		unload()
	}
	group.Wait()
	unload()
	areas, resident := areasOf(t, m.Data)
	// Less than a huge page is left at each end.
	if areas != 1 || resident > 2*hugePage {
		t.Errorf("%d mappings with %d bytes in memory, want 1 with little", areas, resident)
	}
	if !bytes.Equal(m.Data, text) {
		t.Error("the file has other bytes")
	}
}

// areasOf returns how many mappings data has, and how much of them is in memory.
func areasOf(t *testing.T, data []byte) (areas, resident int) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	begin := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
	inside := false
	for line := range strings.Lines(string(smaps)) {
		var lo, hi uint64
		var kb int
		if n, _ := fmt.Sscanf(line, "%x-%x ", &lo, &hi); n == 2 {
			if inside = hi > begin && lo < begin+uint64(len(data)); inside {
				areas++
			}
		} else if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kb); n == 1 && inside {
			resident += kb << 10
		}
	}
	return areas, resident
}
