// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/rle"
)

// TestIndices: parquet-go reads the indices of a page, for dictionaries of any size and rows with
// and without runs.
func TestIndices(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 3))
	for range 2000 {
		count := 1 + rnd.IntN(1<<rnd.IntN(20))
		things := 1 + rnd.IntN(300)
		index := make([]uint32, things)
		for i := range index {
			index[i] = rnd.Uint32N(uint32(count))
		}
		rows := make([]uint32, 1+rnd.IntN(10_000))
		run := 1 + rnd.IntN(40)
		for i := range rows {
			if rows[i] = rnd.Uint32N(uint32(things)); i > 0 && rnd.IntN(run) > 0 {
				rows[i] = rows[i-1]
			}
		}
		var want []int32
		for _, r := range rows {
			want = append(want, int32(index[r]))
		}
		var d rle.DictionaryEncoding
		all := &dictRows{n: len(rows), rows: rows, of: things}
		page := appendIndices(nil, all.indices(0, len(rows), index), count)
		if got, err := d.DecodeInt32(nil, page); err != nil || !slices.Equal(got[:min(len(got), len(want))], want) {
			t.Fatalf("%d rows, %d things, dictionary of %d: %v", len(rows), things, count, err)
		}
		var runs []writerRun
		for i, r := range rows {
			if i == 0 || r != rows[i-1] {
				runs = append(runs, writerRun{uint32(i), r})
			}
		}
		lo := rnd.IntN(len(rows))
		hi := lo + 1 + rnd.IntN(len(rows)-lo)
		group := newRunRows(runs, lo, hi, things)
		from := rnd.IntN(group.n)
		if got := appendIndices(nil, group.indices(from, group.n, index), count); !bytes.Equal(got, appendIndices(nil, all.indices(lo+from, hi, index), count)) {
			t.Fatalf("rows [%d, %d) of %d, as %d runs: other indices", lo+from, hi, len(rows), len(runs))
		}
		if met := newDictRows(rows[lo:hi], things, func(uint32) int { return 0 }); !slices.Equal(group.used, met.used) {
			t.Fatalf("rows [%d, %d) of %d, as %d runs: things %d, want %d", lo, hi, len(rows), len(runs), group.used, met.used)
		}
		if got, err := d.DecodeInt32(nil, sameIndex(len(rows))); err != nil || !slices.Equal(got, make([]int32, len(rows))) {
			t.Fatalf("%d equal rows: %v", len(rows), err)
		}
	}
}
