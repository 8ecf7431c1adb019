// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// someBTF returns BTF with a type of each kind, and a function behind them.
func someBTF(t *testing.T, order binary.ByteOrder) []byte {
	t.Helper()
	number := &btf.Int{Name: "int", Size: 4}
	member := []btf.Member{{Name: "a", Type: number}, {Name: "b", Type: number, Offset: 32}}
	value := []btf.EnumValue{{Name: "x", Value: 1}, {Name: "y", Value: 2}}
	proto := &btf.FuncProto{Return: number, Params: []btf.FuncParam{{Name: "p", Type: number}, {Name: "q", Type: number}}}
	variable := &btf.Var{Name: "v", Type: number, Linkage: btf.GlobalVar}
	b, err := btf.NewBuilder([]btf.Type{
		number, &btf.Pointer{Target: number}, &btf.Array{Index: number, Type: number, Nelems: 3},
		&btf.Struct{Name: "s", Size: 8, Members: member}, &btf.Union{Name: "u", Size: 8, Members: member},
		&btf.Enum{Name: "e", Size: 4, Values: value}, &btf.Enum{Name: "e64", Size: 8, Values: value},
		&btf.Fwd{Name: "f"}, &btf.Typedef{Name: "t", Type: number}, &btf.Volatile{Type: number}, &btf.Const{Type: number},
		&btf.Restrict{Type: &btf.Pointer{Target: number}}, proto, variable,
		&btf.Datasec{Name: ".data", Size: 8, Vars: []btf.VarSecinfo{{Type: variable, Size: 4}}}, &btf.Float{Name: "double", Size: 8},
		&btf.TypeTag{Type: number, Value: "tag"}, &btf.Func{Name: "last_function", Type: proto, Linkage: btf.GlobalFunc, Tags: []string{"declared"}},
		&btf.Func{Name: "other", Type: proto, Linkage: btf.StaticFunc},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, &btf.MarshalOptions{Order: order})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestBTF: the names of functions are those that cilium/ebpf reads, whatever comes before them.
func TestBTF(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		raw := someBTF(t, order)
		types, err := parseBTF(raw)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		functions := 0
		for id := range uint32(len(types.starts) + 3) {
			want := ""
			if typ, err := spec.TypeByID(btf.TypeID(id)); err == nil {
				if f, ok := typ.(*btf.Func); ok {
					want = f.Name
					functions++
				}
			}
			if got, err := types.function(id); got != want || (err == nil) != (want != "") {
				t.Errorf("type %d: %q, %v, want %q", id, got, err, want)
			}
		}
		if functions != 2 {
			t.Errorf("%d functions", functions)
		}
	}
}

// TestBTFDamaged: of damaged BTF no more is read than there is.
func TestBTFDamaged(t *testing.T) {
	raw := someBTF(t, binary.LittleEndian)
	rnd := rand.New(rand.NewPCG(9, 1))
	for range 20_000 {
		bad := slices.Clone(raw)
		for range 1 + rnd.IntN(3) {
			bad[rnd.IntN(len(bad))] = byte(rnd.Uint32())
		}
		types, err := parseBTF(bad[:len(bad)-rnd.IntN(2)*rnd.IntN(len(bad))])
		if err != nil {
			continue
		}
		for id := range uint32(len(types.starts) + 2) {
			types.function(id)
			types.text(id * uint32(rnd.IntN(1<<20)))
		}
	}
}
