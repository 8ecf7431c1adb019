// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the kernel wrote comes back byte for byte.
func TestWriteKallsyms(t *testing.T) {
	text, err := os.ReadFile("testdata/x86_64.kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	k, err := ParseKallsyms(text)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteKallsyms(&out, values(k.All())); err != nil {
		t.Fatal(err)
	}
	// The table is in the order of addresses, the file not quite.
	want, got := strings.SplitAfter(string(text), "\n"), strings.SplitAfter(out.String(), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

func values[K, V any](seq iter.Seq2[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range seq {
			if !yield(v) {
				return
			}
		}
	}
}

func TestWriteKallsymsErrors(t *testing.T) {
	for _, s := range []Symbol{
		{Type: 'T'},
		{Type: 'T', Name: "two\nlines"},
		{Type: 'T', Name: "a\ttab"},
		{Type: 'T', Name: "f", Module: "m]"},
	} {
		if err := WriteKallsyms(new(bytes.Buffer), slices.Values([]Symbol{s})); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if err := WriteKallsyms(failing{}, slices.Values([]Symbol{{Type: 'T', Name: "f"}})); !errors.Is(err, errFailing) {
		t.Errorf("error %v, want that of the writer", err)
	}
	if err := WriteModules(failing{}, []Module{{Name: "m", State: "Live"}}); !errors.Is(err, errFailing) {
		t.Errorf("error %v, want that of the writer", err)
	}
}

var errFailing = errors.New("failing")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFailing }

func TestWriteModules(t *testing.T) {
	const text = "virtio_blk 28672 0 - Live 0xffffffffc02ba000\n" +
		"virtio 20480 2 virtio_blk,virtio_pci, Live 0xffffffffc028d000\n" +
		"fixed 1 1 [permanent], Live 0xffffffffc0000000\n" +
		"zfs 5000000 - - Loading 0xffffffffc0500000 (POE+)\n" +
		"hidden 16384 0 - Unloading 0x0000000000000000\n"
	mods, err := ParseModules([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteModules(&out, mods); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(text, out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
