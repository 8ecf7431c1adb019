// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"fmt"
	"log"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func TestChanges(t *testing.T) {
	// counts counts changes by kind.
	type counts struct{ Pokes, Symbols, BPF, Losses int }
	tests := []struct {
		name    string
		want    counts
		batched int // pokes in batches of more than one
		largest int // batch
	}{
		{"small", counts{542, 4, 2, 0}, 460, 76},
		// Two events of each CPU recorded everything.
		{"smalldup", counts{70, 4, 2, 0}, 0, 1},
		{"lossy", counts{537, 1, 0, 1868}, 511, 99},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := load(t, tt.name)
			var got counts
			batched, largest, last := 0, 0, uint64(0)
			for c := range r.Changes() {
				if c.Time < last {
					t.Fatalf("time %d after %d", c.Time, last)
				}
				last = c.Time
				set := 0
				if c.Poke != nil {
					set++
					got.Pokes++
				}
				if c.KSymbol != nil {
					set++
					got.Symbols++
				}
				if c.BPF != nil {
					set++
					got.BPF++
				}
				if c.Loss != nil {
					set++
					got.Losses++
				}
				if set != 1 {
					t.Fatalf("at %d: %d of the four are set", c.Time, set)
				}
				if id := c.SampleID(); (id == nil) != (c.Loss != nil) || id != nil && id.Time != c.Time {
					t.Fatalf("at %d: the SampleID is %v", c.Time, id)
				}
				if b := c.Batch; b != nil {
					if c.Poke == nil || c.Time < b.From || c.Time > b.To {
						t.Fatalf("at %d: of batch %+v", c.Time, *b)
					}
					if largest = max(largest, b.Sites); b.Sites > 1 {
						batched++
					}
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			if batched != tt.batched || largest != tt.largest {
				t.Errorf("%d pokes in batches of up to %d, want %d of up to %d", batched, largest, tt.batched, tt.largest)
			}
			p := r.Report.Pokes
			if uint64(got.Pokes) != p.Total-p.WrittenTwice {
				t.Errorf("%d pokes, the report has %d, %d of them doubles", got.Pokes, p.Total, p.WrittenTwice)
			}
		})
	}
}

// TestChangesAgreeWithImage: the image has a change's old bytes before its time and the
// new bytes from then on.
func TestChangesAgreeWithImage(t *testing.T) {
	r := load(t, "small")
	n := 0
	for c := range r.Changes() {
		p := c.Poke
		if p == nil || len(p.Old) == 0 || len(p.New) == 0 {
			continue
		}
		n++
		for _, side := range []struct {
			at   uint64
			want []byte
		}{{c.Time - 1, p.Old}, {c.Time, p.New}} {
			got := make([]byte, len(side.want))
			if b := r.Image.At(side.at).Read(p.Addr, got); b.Standing == timeline.Known && !bytes.Equal(got, side.want) {
				t.Errorf("%#x at %d: % x, want % x", p.Addr, side.at, got, side.want)
			}
		}
	}
	if n == 0 {
		t.Error("no poke has old and new bytes")
	}
}

func TestChangesStopEarly(t *testing.T) {
	r := load(t, "small")
	n := 0
	for range r.Changes() {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("the loop ran %d times, want 3", n)
	}
}

// Who armed a kprobe, and when?
func ExampleReplay_Changes() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for c := range r.Changes() {
		if p := c.Poke; p != nil && c.Kind == timeline.PokeArmed {
			fmt.Printf("%s %#x by %s on CPU %d\n", replay.Seconds(c.Time), p.Addr, c.Comm, p.CPU)
		}
	}
	// Output:
	// 14.390316565 0xffffffffaef63fa7 by scenario.sh on CPU 1
}

// TestChangesAlone: the changes are those that Changes yields, without batches and sequences.
func TestChangesAlone(t *testing.T) {
	for _, name := range []string{"small", "smalldup", "lossy", "ppc64le", "rich"} {
		t.Run(name, func(t *testing.T) {
			r := load(t, name)
			text := func(c *replay.Change) string {
				return fmt.Sprintf("%d %v %d %v %v %v %v %q", c.Time, c.Poke, c.Began, c.Kind, c.KSymbol, c.BPF, c.Loss, c.Comm)
			}
			var want, got []string
			for c := range r.Changes() {
				want = append(want, text(c))
			}
			for c := range r.ChangesAlone() {
				if c.Batch != nil || c.Sequence != nil {
					t.Fatalf("at %d: batch %v, sequence %v", c.Time, c.Batch, c.Sequence)
				}
				got = append(got, text(c))
			}
			if diff := cmp.Diff(want, got); diff != "" || len(got) == 0 {
				t.Errorf("%d changes, %s", len(got), diff)
			}
		})
	}
}
