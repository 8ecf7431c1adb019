// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/cputime"
)

// TestManyModules: very many modules, which are listed again and freed one after the other, do not take the
// square of their number.
func TestManyModules(t *testing.T) {
	const n = 50_000
	b := NewBuilder()
	b.Extent(100, 1<<30)
	b.Text(0x1000, 0x2000)
	start := cputime.Start()
	module := func(i int) Module {
		addr := uint64(0x100000 + 0x3000*i)
		return Module{Name: fmt.Sprintf("m%d", i), Addr: addr, TextEnd: addr + 0x1000, End: addr + 0x2000, Freed: uint64(200 + 2*i)}
	}
	for i := range n {
		b.Module(module(i))
		b.Symbol(SymbolEvent{Time: uint64(201 + 2*i), Addr: module(i).Addr, Len: 64, Kind: SymbolBPF, Name: fmt.Sprintf("bpf_prog_%d", i)})
	}
	for i := range n {
		m := module(i)
		m.Listed = []Interval{{110, 120}}
		b.LaterModule(m)
	}
	if len(b.modules) != n {
		t.Errorf("%d modules", len(b.modules))
	}
	d := &build{Builder: b, im: &Image{}}
	lives := d.findLifetimes()
	start.AtMost(t, 10*time.Second)
	if len(lives) != 3*n {
		t.Errorf("%d lifetimes", len(lives))
	}
	for _, l := range lives {
		switch {
		case l.Kind == ModuleText && (l.Ended != Unregistered || len(l.seen) != 2):
			t.Fatalf("the text of module %s ended as %v, and was seen %v", l.Name, l.Ended, l.seen)
		case l.Kind == BPFProgram && l.To != MaxTime:
			t.Fatalf("program %s ended at %d", l.Name, l.To)
		}
	}
}
