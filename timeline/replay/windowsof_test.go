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

// TestWindowsOf: the windows of the pokes among the changes are those of the recording.
func TestWindowsOf(t *testing.T) {
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
	for c := range changes.ChangesAlone() {
		if p, ok := changes.InPlace(c); ok {
			pokes = append(pokes, p)
		}
	}
	type window struct {
		timeline.InPlacePoke
		proven timeline.Interval
	}
	list := func(w *timeline.Windows) (all []window) {
		for p, proven := range w.Proven() {
			all = append(all, window{*p, proven})
		}
		return all
	}
	want, got := list(whole.Windows()), list(changes.WindowsOf(pokes))
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
