// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "testing"

// TestCloneModules: what later lists say of modules does not get into a clone, nor out of it.
func TestCloneModules(t *testing.T) {
	for _, cloned := range []bool{false, true} {
		b := NewBuilder()
		b.Extent(100, 1000)
		b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000})
		b.Module(Module{Name: "n", Addr: 0xc000, TextEnd: 0xd000, End: 0xe000})
		changed, other := b, b.Clone()
		if cloned {
			changed, other = other, changed
		}
		changed.ModulesListed(500, 510, func(m *Module) bool { return m.Name == "n" })
		changed.LaterModule(Module{Name: "n", Addr: 0xc000, TextEnd: 0xd000, Listed: []Interval{{500, 511}}})
		if changed.modules[0].Freed != 500 || len(changed.modules[1].again) != 1 {
			t.Errorf("cloned %v: the list is not noted: %+v", cloned, changed.modules)
		}
		if m := other.modules; m[0].Freed != 0 || m[1].Seen != 0 || len(m[1].again) != 0 {
			t.Errorf("cloned %v: the other one has changed: %+v", cloned, m)
		}
	}
}
