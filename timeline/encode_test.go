// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"errors"
	"testing"
)

// encodedImage is an image with versions of every kind, as plain memory that can be
// changed, and the snapshot that it needs.
func encodedImage(t *testing.T) (*Encoded, []Segment) {
	t.Helper()
	b := kernel()
	b.Poke(pokeAt(0x1102, 300, "9090", "eb02"))
	b.Poke(pokeAt(0x1102, 600, "eb04", "9090")) // contradicts the one before
	b.Symbol(SymbolEvent{Addr: 0x8000, Len: 0x10, Time: 400, Kind: SymbolOutOfLine, Name: "slot"})
	im := mustBuild(t, b)
	e := im.Encode()
	for i := range e.Tables {
		e.Tables[i].Data = bytes.Clone(e.Tables[i].Data)
	}
	return &e, im.segments
}

// elements returns a table of an encoded image.
func elements[T any](t *testing.T, e *Encoded, i int) []T {
	t.Helper()
	out, err := cast[T](e.Tables[i].Data)
	if err != nil || len(out) == 0 {
		t.Fatalf("table %d: %d elements, %v", i, len(out), err)
	}
	return out
}

// TestDecodeInvalid: tables that lead nowhere make no image, whatever answer would
// get there.
func TestDecodeInvalid(t *testing.T) {
	stateOf := func(t *testing.T, e *Encoded, standing Standing) *state {
		for i := range elements[storedState](t, e, tableStates) {
			if s := &elements[storedState](t, e, tableStates)[i].state; s.standing == standing {
				return s
			}
		}
		t.Fatalf("no state is %v", standing)
		return nil
	}
	for name, change := range map[string]func(t *testing.T, e *Encoded){
		"standing":            func(t *testing.T, e *Encoded) { stateOf(t, e, Known).standing = Known + 1 },
		"reason":              func(t *testing.T, e *Encoded) { stateOf(t, e, Known).reason = Reason(len(reasons)) },
		"source":              func(t *testing.T, e *Encoded) { stateOf(t, e, Known).source = Source(len(sourceNames)) },
		"known, but no bytes": func(t *testing.T, e *Encoded) { stateOf(t, e, Known).content = noContent },
		"bytes beyond the arena": func(t *testing.T, e *Encoded) {
			stateOf(t, e, Known).content = uint32(len(e.Tables[tableArena].Data))
		},
		"no states": func(t *testing.T, e *Encoded) {
			elements[storedState](t, e, tableStates)[elements[fragment](t, e, tableFragments)[0].states].states = 0
		},
		"no conflict": func(t *testing.T, e *Encoded) { stateOf(t, e, Conflicting).content = 1000 },
		"a candidate without bytes": func(t *testing.T, e *Encoded) {
			elements[claim](t, e, tableClaims)[0].content = noContent
		},
		"a candidate beyond the arena": func(t *testing.T, e *Encoded) {
			elements[claim](t, e, tableClaims)[0].content = maxContent
		},
		"no candidates":           func(t *testing.T, e *Encoded) { elements[conflict](t, e, tableConflicts)[0].count = 0 },
		"conflict of no fragment": func(t *testing.T, e *Encoded) { elements[conflict](t, e, tableConflicts)[0].fragment = 1000 },
		"fragments out of order":  func(t *testing.T, e *Encoded) { elements[fragment](t, e, tableFragments)[1].addr = 0 },
		"a fragment behind the last address": func(t *testing.T, e *Encoded) {
			f := elements[fragment](t, e, tableFragments)
			f[0].addr, f[0].size, f[0].seg = MaxTime-1, 2, -1
		},
		"an empty fragment":        func(t *testing.T, e *Encoded) { elements[fragment](t, e, tableFragments)[0].size = 0 },
		"a fragment of no segment": func(t *testing.T, e *Encoded) { elements[fragment](t, e, tableFragments)[0].seg = 100 },
		"no versions":              func(t *testing.T, e *Encoded) { elements[fragment](t, e, tableFragments)[0].count = 0 },
		"versions beyond the leaves": func(t *testing.T, e *Encoded) {
			elements[fragment](t, e, tableFragments)[0].leaf = 1 << 30
		},
		"unpatched versions of no state": func(_ *testing.T, e *Encoded) { e.Meta.Unpatched[3] = 1 << 30 },
		"unpatched bytes that conflict": func(t *testing.T, e *Encoded) {
			elements[storedState](t, e, tableStates)[e.Meta.Unpatched[3]].standing = Conflicting
		},
		"unpatched bytes of no snapshot": func(t *testing.T, e *Encoded) {
			elements[storedState](t, e, tableStates)[e.Meta.Unpatched[3]].content = 0
		},
		"a page of no fragment":     func(t *testing.T, e *Encoded) { elements[uint32](t, e, tablePages)[0] = 1000 },
		"a symbol that ends early":  func(t *testing.T, e *Encoded) { elements[savedLife](t, e, tableLives)[0].hi = 0 },
		"a symbol without its name": func(t *testing.T, e *Encoded) { elements[savedLife](t, e, tableLives)[0].nameLen = 1 << 20 },
		"a symbol of no kind":       func(t *testing.T, e *Encoded) { elements[savedLife](t, e, tableLives)[0].kind = OutOfLine + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			e, segments := encodedImage(t)
			if _, err := DecodeImage(*e, segments, nil); err != nil {
				t.Fatalf("unchanged: %v", err)
			}
			change(t, e)
			if _, err := DecodeImage(*e, segments, nil); !errors.Is(err, ErrInvalid) {
				t.Errorf("%v, want ErrInvalid", err)
			}
		})
	}
}

// TestDecodeUnordered: times of versions are not looked at; where they are in no order
// an interval has an end all the same.
func TestDecodeUnordered(t *testing.T) {
	e, segments := encodedImage(t)
	for i := range elements[leaf](t, e, tableLeaves) {
		l := &elements[leaf](t, e, tableLeaves)[i]
		for k := range l.since {
			l.since[k] = 500 - 100*uint64(k)
		}
	}
	im, err := DecodeImage(*e, segments, nil)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	n := 0
	for range im.Versions(0x1100, buf, 0, 1000) {
		if n++; n > 100 {
			t.Fatal("no end")
		}
	}
}
