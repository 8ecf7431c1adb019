// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestProvenOf: the windows of the pokes among the changes are those of the recording.
func TestProvenOf(t *testing.T) {
	var recordings []string
	root := filepath.Join(corpus.Root(), "testdata")
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "rec.data" || !d.IsDir() && filepath.Ext(path) == ".data" && filepath.Base(filepath.Dir(path)) != "rec.data":
			recordings = append(recordings, path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range corpus.All() {
		recordings = append(recordings, filepath.Join(dir, "rec.data"))
	}
	compared, windows := 0, 0
	for _, path := range recordings {
		if read, n := compareWindows(t, path); read {
			compared++
			windows += n
		}
	}
	if compared < 10 || windows < 10_000 {
		t.Errorf("%d recordings with %d windows were compared", compared, windows)
	}
}

// compareWindows compares the windows of a recording. It reports whether the recording can be read,
// and how many pokes in place it has.
func compareWindows(t *testing.T, path string) (read bool, n int) {
	load := func() *replay.Replay {
		r, err := replay.Load(path, replay.Options{Windows: true})
		if err != nil {
			return nil
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	whole, changes := load(), load()
	if whole == nil {
		return false, 0
	}
	var pokes []timeline.InPlacePoke
	var times []uint64
	var inPlace []bool
	for c := range changes.ChangesAlone() {
		if c.Poke != nil {
			p, ok := changes.InPlace(c)
			pokes, inPlace, times = append(pokes, p), append(inPlace, ok), append(times, c.Time)
		}
	}
	type window struct {
		timeline.InPlacePoke
		proven timeline.Interval
	}
	var want, got []window
	for p, proven := range whole.Windows().Proven() {
		is := window{*p, proven}
		is.Flags &= timeline.PokeAlone // and not that it begins a batch
		want = append(want, is)
	}
	plain := &timeline.PlainPokes{Times: times, Forms: pokes, Task: func(k int) (uint32, int) { return pokes[k].TID, k + 1 }}
	for k := range pokes {
		plain.Form = append(plain.Form, uint32(k))
	}
	next := changes.ProvenOf(plain)
	for lo := 0; lo < len(pokes); {
		some := make([]timeline.Interval, min(len(pokes)-lo, 1+lo%1000))
		next(some)
		for i, proven := range some {
			if proven == (timeline.Interval{}) {
				continue
			}
			if !inPlace[lo+i] {
				t.Errorf("%s: poke %d is not in place and has the window %v", path, lo+i, proven)
			}
			got = append(got, window{pokes[lo+i], proven})
		}
		lo += len(some)
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("%s: window %d is %+v, want %+v", path, i, got[i], want[i])
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%s: %d windows, want %d", path, len(got), len(want))
	}
	return true, len(want)
}
