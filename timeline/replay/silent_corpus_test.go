// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func small(name string) func(*testing.T) string {
	return func(*testing.T) string { return filepath.Join(corpus.Root(), "testdata", name) }
}

func large(name string) func(*testing.T) string {
	return func(t *testing.T) string { return corpus.Large(t, name) }
}

// TestUnconfirmedIsTheCopy: if no pokes are recorded, text has the bytes that perf copied.
// The first oracle is from before anything was patched. It has the same bytes, in all of
// kernel text and of the module.
func TestUnconfirmedIsTheCopy(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dir     func(t *testing.T) string
		text    uint64 // bytes kept at least
		modules bool
	}{
		{"arm64", small("arm64"), 8192, false},
		{"ppc64le", small("ppc64le"), 12288, false},
		{"s390x", small("s390x"), 8192, false},
		{"arm64/rich", large("arm64/rich"), 10 << 20, true},
		{"arm64/local", large("arm64/local"), 10 << 20, true},
		{"ppc64le/rich", large("ppc64le/rich"), 10 << 20, true},
		{"s390x/rich", large("s390x/rich"), 10 << 20, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tt.dir(t)
			r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			oracles, err := corpus.Oracles(dir)
			if err != nil {
				t.Fatal(err)
			}
			v := r.Image.At(oracles[0].Time())
			lo, hi := r.Image.Text()
			var text, kernel, module uint64 // bytes of kernel text, those equal to the copy, and bytes of modules
			for s, want := range v.Against(segments(t, oracles[0].Path)) {
				inKernel := lo <= s.Addr && s.Addr < hi
				if inKernel {
					text += s.Len
				}
				if s.Standing != timeline.Unconfirmed || s.Source != timeline.SourceSnapshot {
					continue
				}
				if !bytes.Equal(s.Bytes, want) {
					t.Errorf("%d bytes at %#x differ from the oracle", s.Len, s.Addr)
				}
				if inKernel {
					kernel += s.Len
				} else {
					module += s.Len
				}
			}
			if kernel != text || text < tt.text {
				t.Errorf("%d of %d bytes of kernel text are as in the copy, want all", kernel, text)
			}
			if (module != 0) != tt.modules {
				t.Errorf("%d bytes of module text compared", module)
			}
			t.Logf("%d bytes of kernel text, %d of modules", kernel, module)
		})
	}
}

// TestOpsLiterals: OpsLiteral finds the literal of every function that ftrace can trace, and
// no other literal.
func TestOpsLiterals(t *testing.T) {
	dir := corpus.Large(t, "arm64/rich")
	r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := r.Image.At(r.Report.Horizon)
	lo, hi := r.Image.Text()
	found := make(map[uint64]replay.OpsLiteral)
	for addr := lo; addr < hi; addr += 8 {
		if l, ok := r.OpsLiteral(v, addr); ok {
			found[l.Addr] = l
		}
	}
	// While all functions were traced, each had a bl as its second word and another
	// pointer before it.
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		t.Fatal(err)
	}
	const label = "17-ft-all"
	for _, o := range oracles {
		if o.Label != label {
			continue
		}
		traced := 0
		for _, seg := range segments(t, o.Path) {
			word := func(addr uint64) uint32 { return binary.LittleEndian.Uint32(seg.Data[addr-seg.Addr:]) }
			var was [4]byte
			for addr := max(lo, seg.Addr) + 12; addr+4 <= min(hi, seg.Addr+uint64(len(seg.Data))); addr += 4 {
				const nop, saves = 0xd503201f, 0xaa1e03e9
				if word(addr)>>26 != 0b100101 || word(addr-4) != saves {
					continue
				}
				if v.Read(addr, was[:]); binary.LittleEndian.Uint32(was[:]) != nop {
					continue
				}
				traced++
				l, ok := found[addr-12]
				if !ok {
					t.Errorf("no literal for the site at %#x", addr)
				} else if l.Func != addr-4 || binary.LittleEndian.Uint64(seg.Data[l.Addr-seg.Addr:]) == l.Ops {
					t.Errorf("%+v: not what ftrace changed for the site at %#x", l, addr)
				}
			}
		}
		if traced != len(found) || traced < 40_000 {
			t.Errorf("%d functions were traced, %d literals found", traced, len(found))
		}
		return
	}
	t.Errorf("no oracle %s", label)
}
