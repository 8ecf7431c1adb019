// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// naive is a replay without the rules: it writes all pokes, in order of time, over the
// snapshot.
type naive struct {
	text  []timeline.Segment // the snapshot with pokes written over it
	other map[uint64]byte    // bytes written elsewhere
}

// of returns the index of the segment that holds addr, or of the next one.
func (n *naive) of(addr uint64) int {
	return sort.Search(len(n.text), func(i int) bool { return n.text[i].Addr+uint64(len(n.text[i].Data)) > addr })
}

func (n *naive) poke(addr uint64, data []byte) {
	for i, b := range data {
		a := addr + uint64(i)
		if k := n.of(a); k < len(n.text) && n.text[k].Addr <= a {
			n.text[k].Data[a-n.text[k].Addr] = b
		} else {
			n.other[a] = b
		}
	}
}

// differences yields the addresses in a copy of text at which the replay has other
// bytes.
func (n *naive) differences(seg timeline.Segment, yield func(addr uint64)) {
	end := seg.Addr + uint64(len(seg.Data))
	for a, b := range n.other {
		if a >= seg.Addr && a < end && seg.Data[a-seg.Addr] != b {
			yield(a)
		}
	}
	for k := n.of(seg.Addr); k < len(n.text) && n.text[k].Addr < end; k++ {
		s := n.text[k]
		lo, hi := max(seg.Addr, s.Addr), min(end, s.Addr+uint64(len(s.Data)))
		for a := lo; a < hi; {
			m := min(hi-a, 256)
			got, want := s.Data[a-s.Addr:][:m], seg.Data[a-seg.Addr:][:m]
			if !bytes.Equal(got, want) {
				for i := range got {
					if got[i] != want[i] {
						yield(a + uint64(i))
					}
				}
			}
			a += m
		}
	}
}

// TestNaive: wherever a naive replay of a real recording is wrong, the image is right, or
// gives the reason why it does not know.
func TestNaive(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string // differing bytes in all oracles, by kind of memory, standing and reason
	}{
		{"small", "\n"},
		{"rich", `
113 bpf image unknown bpf-trampoline
20 bpf known
2530 kprobe unknown out-of-line-gap
245 other retired nothing-alive
217 other retired unregistered
800 other unknown not-text
65739 other unknown unregistered
`},
		{"storm", "\n"},
		{"task", `
660 kprobe unknown out-of-line-gap
`},
		{"lossy", `
48832 kernel conflicting old-bytes-mismatch
3807 kernel conflicting snapshot-mismatch
120 kernel known
63242 kernel unconfirmed after-loss
299 module conflicting module-contradicted
50 module conflicting old-bytes-mismatch
`},
		{"uponline", `
33995 kernel unconfirmed partial-coverage
2244 other unknown hole-in-snapshot
84 other unknown not-text
`},
		{"smalldup", "\n"},
		{"nokcore", `
18 bpf known
355 other retired nothing-alive
121 other retired unregistered
18 other unknown unregistered
`},
		{"threads", `
10 bpf known
1320 kprobe unknown out-of-line-gap
302 other retired nothing-alive
95 other retired unregistered
298 other unknown not-text
27658 other unknown unregistered
`},
		{"local", `
113 bpf image unknown bpf-trampoline
10 bpf known
1320 kprobe unknown out-of-line-gap
328 other retired nothing-alive
86 other retired unregistered
444 other unknown not-text
27656 other unknown unregistered
`},
		{"modfull", `
65 other retired nothing-alive
10639 other retired unregistered
101 other unknown not-text
17451 other unknown unregistered
`},
		{"hotplug", `
603 kernel conflicting old-bytes-mismatch
376535 kernel unconfirmed cpu-silent
1612 module unconfirmed cpu-silent
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := corpus.Large(t, "x86_64/"+tt.name)
			if d := gocmp.Diff(tt.want, "\n"+naiveDifferences(t, dir)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func naiveDifferences(t *testing.T, dir string) string {
	t.Helper()
	r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		t.Fatal(err)
	}
	type written struct {
		time, addr uint64
		data       []byte
	}
	var pokes []written
	sc := r.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	var p perfdata.TextPoke
	for sc.Next() {
		if err := r.Recording.TextPoke(sc.Record(), &p); err != nil {
			t.Fatal(err)
		}
		pokes = append(pokes, written{p.Time, p.Addr, slices.Clone(p.New)})
	}
	slices.SortStableFunc(pokes, func(a, b written) int { return cmp.Compare(a.time, b.time) })

	n := naive{other: make(map[uint64]byte)}
	if r.Snapshot != nil && r.Snapshot.Core != nil {
		for _, s := range r.Snapshot.Core.Segments {
			n.text = append(n.text, timeline.Segment{Addr: s.Addr, Data: slices.Clone(s.Data)})
		}
	}
	differ := make(map[string]int)
	done := 0
	for _, o := range oracles {
		for ; done < len(pokes) && pokes[done].time <= o.Time(); done++ {
			n.poke(pokes[done].addr, pokes[done].data)
		}
		if o.Outside() {
			continue
		}
		v := r.Image.At(o.Time())
		for _, seg := range segments(t, o.Path) {
			n.differences(seg, func(addr uint64) {
				for s := range v.Spans(addr, 1) {
					if want := seg.Data[addr-seg.Addr]; s.Standing == timeline.Known && s.Bytes[0] != want {
						t.Errorf("%s: %#x is called known, %#x, and was %#x", o.Label, addr, s.Bytes[0], want)
					}
					differ[strings.TrimSpace(fmt.Sprintf("%s %v %v", kindOf(v, addr), s.Standing, s.Reason))]++
				}
			})
		}
	}
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(differ)) {
		fmt.Fprintf(&out, "%d %s\n", differ[k], k)
	}
	return out.String()
}
