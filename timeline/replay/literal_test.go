// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"testing"

	"github.com/textreplay/textreplay/timeline/replay"
)

// TestOpsLiteral: the pointer before a function that is traced, then gets other ops, and
// then is no longer traced. Kernels of both byte orders.
func TestOpsLiteral(t *testing.T) {
	const (
		base     = 0xffff800080010000
		vfsRead  = base + 0x108
		vfsWrite = base + 0x208 // begins with a bti
		schedule = base + 0x400
		pool     = base + 0x900
		nopOps   = 0xffff800081c00000
		global   = 0xffff800081c00100
		list     = 0xffff800081c00200
		heap     = 0xfff00000c1fe0c00
	)
	for _, name := range []string{"arm64", "arm64be"} {
		r := patched(t, name)
		for _, tt := range []struct {
			addr, time uint64
			fn, ops    uint64 // 0: none
		}{
			{vfsRead - 8, 1_999_999_999, vfsRead, nopOps},
			{vfsRead - 1, 1_999_999_999, vfsRead, nopOps}, // its last byte
			{vfsRead - 8, 2_000_000_500, vfsRead, global}, // before the branch
			{vfsRead - 8, 2_400_000_000, vfsRead, global},
			{vfsRead - 8, 2_500_000_000, vfsRead, list},
			{vfsRead - 8, 2_600_000_000, vfsRead, heap},
			{vfsRead - 8, 3_000_001_000, vfsRead, nopOps},
			{vfsWrite - 4, 3_000_000_000, vfsWrite, nopOps},
			{vfsRead, 2_000_000_000, 0, 0},
			{vfsRead - 16, 2_000_000_000, 0, 0},
			{schedule - 8, 2_000_000_000, 0, 0}, // code
			{pool + 8, 2_000_000_000, 0, 0},     // no function follows
		} {
			want := replay.OpsLiteral{Addr: tt.addr &^ 7, Func: tt.fn, Ops: tt.ops}
			l, ok := r.OpsLiteral(r.Image.At(tt.time), tt.addr)
			if ok != (tt.fn != 0) || ok && l != want {
				t.Errorf("%s: %#x at %d: %#x, %v, want %#x", name, tt.addr, tt.time, l, ok, want)
			}
		}
	}
	// On another architecture, words of the same value are code.
	r := patched(t, "ppc64le")
	lo, hi := r.Image.Text()
	for addr := lo; addr < hi; addr += 8 {
		if l, ok := r.OpsLiteral(r.Image.At(r.Report.First), addr); ok {
			t.Errorf("powerpc: %+v", l)
		}
	}
}
