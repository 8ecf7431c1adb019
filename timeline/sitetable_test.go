// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/rand/v2"
	"testing"
)

// TestSiteTable: whatever the random factor, a search passes few slots. The sites that a tracer changes are often the
// same step apart.
func TestSiteTable(t *testing.T) {
	const sites = 5000
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, step := range []uint64{1, 16, 64, 397, 4096, 1 << 20} {
		for range 200 {
			table := siteTable{make([]uint64, 1<<10), 64 - 10, rnd.Uint64() | 1}
			list := make([]site, 0, sites)
			for i := range uint64(sites) {
				list = append(list, site{addr: 0xffffffff81000000 + i*step})
				table.insert(list)
			}
			mask, passed := uint64(len(table.slots)-1), uint64(0)
			for i := range list {
				k, ok := table.find(list, list[i].addr)
				if !ok || k != uint32(i) {
					t.Fatalf("site %d of step %d is found as %d, %v", i, step, k, ok)
				}
				at := table.home(list[i].addr)
				for uint32(table.slots[at&mask]) != k+1 {
					at++
					passed++
				}
			}
			if passed > 4*sites {
				t.Errorf("step %d, factor %#x: %d slots are passed for %d sites", step, table.factor, passed, sites)
			}
		}
	}
}
