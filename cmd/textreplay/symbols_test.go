// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/textreplay/textreplay/timeline/replay"
)

// TestSymbolKinds: the symbols of some kinds are those of all kinds without the others, and kallsyms is not
// read for symbols that it does not have.
func TestSymbolKinds(t *testing.T) {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list := func(kinds ...string) []listedSymbol {
		out, err := symbolList(r, "", words{given: kinds})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := list()
	for _, kinds := range [][]string{{symKernel}, {symModule}, {symBPF}, {symOOL}, {symBPF, symOOL}, {symModule, symBPF}} {
		want := slices.DeleteFunc(slices.Clone(all), func(s listedSymbol) bool { return !slices.Contains(kinds, s.kind) })
		if got := list(kinds...); !slices.Equal(got, want) {
			t.Errorf("%v: %d symbols, want %d", kinds, len(got), len(want))
		}
	}
	if few, many := testing.AllocsPerRun(3, func() { list(symBPF, symOOL) }), testing.AllocsPerRun(3, func() { list(symKernel) }); few >= many/2 {
		t.Errorf("%v allocations for code that comes and goes, %v for the kernel's", few, many)
	}
}
