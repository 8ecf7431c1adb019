// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// TestWithoutIDIndex removes the ID_INDEX from a recording of a real kernel, as if perf
// before 6.0 had written it. The image is the same at every place and time: bytes,
// standing and reason. The verdicts are the same too. So is the image of a part of the
// recording, as perf would have written it until then.
func TestWithoutIDIndex(t *testing.T) {
	var paths []string
	for _, dir := range corpus.Small(t) {
		paths = append(paths, filepath.Join(dir, "rec.data"))
	}
	if root := os.Getenv(corpus.Env); root != "" {
		for _, pattern := range []string{"*/*/rec.data", "*/*/*/rec.data", "*/*/pipe.data"} {
			more, _ := filepath.Glob(filepath.Join(root, pattern))
			paths = append(paths, more...)
		}
	}
	for _, path := range paths {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			was := load(t, path)
			now := load(t, corpus.Stripped(t, path, corpus.IDIndex))
			if was.Report.Records[perfdata.RecordIDIndex] == 0 {
				t.Skip("perf wrote no ID_INDEX")
			}
			if n := now.Report.Records[perfdata.RecordIDIndex]; n != 0 {
				t.Fatalf("%d ID_INDEX records are left", n)
			}
			sameImage(t, was, now)
		})
	}
}

// load loads a recording with its windows.
func load(t *testing.T, path string) *Replay {
	t.Helper()
	r, err := Load(path, Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// sameImage compares all answers of two images of a recording. It also compares the
// reports, except for their counts.
func sameImage(t *testing.T, was, now *Replay) {
	t.Helper()
	if !equalImages(was.Image, now.Image) {
		t.Error("the images differ")
	}
	if !reflect.DeepEqual(was.windows, now.windows) {
		t.Error("the windows differ")
	}
	if d := cmp.Diff(was.Report.Coverage, now.Report.Coverage); d != "" {
		t.Errorf("coverage (-with +without):\n%s", d)
	}
	if d := cmp.Diff(was.Report.Losses, now.Report.Losses); d != "" {
		t.Errorf("losses (-with +without):\n%s", d)
	}
	if d := cmp.Diff(was.Report.Trusted, now.Report.Trusted); d != "" {
		t.Errorf("time that is known (-with +without):\n%s", d)
	}
}

// TestFollowWithoutIDIndex: images made while the recording is read are the same too.
func TestFollowWithoutIDIndex(t *testing.T) {
	for _, dir := range corpus.Small(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			path := filepath.Join(dir, "rec.data")
			was := follower(t, path)
			now := follower(t, corpus.Stripped(t, path, corpus.IDIndex))
			for n := 0; was.Next(); n++ {
				if !now.Next() {
					t.Fatalf("round %d is missing", n)
				}
				if h := was.Horizon(); now.Horizon() != h {
					t.Fatalf("round %d: horizon %d, want %d", n, now.Horizon(), h)
				}
				if n%20 == 0 {
					sameFollowed(t, was, now)
				}
			}
			if now.Next() {
				t.Fatal("a round too many")
			}
			sameFollowed(t, was, now)
		})
	}
}

func follower(t *testing.T, path string) *Follower {
	t.Helper()
	file, err := os.Open(filepath.Join(path, "data"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Follow(file, Options{KCore: filepath.Join(path, "kcore_dir"), CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		file.Close()
	})
	return f
}

func sameFollowed(t *testing.T, was, now *Follower) {
	t.Helper()
	var images [2]*timeline.Image
	for i, f := range []*Follower{was, now} {
		var err error
		if images[i], err = f.Image(); err != nil {
			t.Fatal(err)
		}
	}
	if !equalImages(images[0], images[1]) {
		t.Fatal("the images differ")
	}
}

// equalImages reports whether two images with the same copy of text give the same
// answers.
func equalImages(x, y *timeline.Image) bool { return reflect.DeepEqual(x.Encode(), y.Encode()) }
