// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/timeline/replay"
)

// TestFollowNoTrace: making images does not change later images. The last image is the
// same as that of a follower that made no other.
func TestFollowNoTrace(t *testing.T) {
	for _, name := range []string{"lossy", "smalldup", "modfull"} {
		t.Run(name, func(t *testing.T) {
			f := follow(t, testdata(name), 2)
			often, once := f.begin(t), f.begin(t)
			for i := 0; often.Next() && once.Next(); i++ {
				if i%16 != 0 {
					continue
				}
				if _, err := often.Image(); err != nil {
					t.Fatal(err)
				}
			}
			once.Next()
			got, err := often.Image()
			if err != nil {
				t.Fatal(err)
			}
			want, err := once.Image()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(counted(once.Report()), counted(often.Report())); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
			for _, addr := range f.places(200) {
				if d := cmp.Diff(want.Dump(addr, 5), got.Dump(addr, 5)); d != "" {
					t.Errorf("%#x (-want +got):\n%s", addr, d)
				}
			}
			if w, g := want.Stats(), got.Stats(); w != g {
				t.Errorf("%+v, want %+v", g, w)
			}
		})
	}
}

// counted returns the counts in a report.
func counted(r *replay.Report) []any {
	return []any{r.Coverage, r.Records, r.Pokes, r.BPF, r.Symbols, r.Losses, r.Modules, len(r.Warnings), r.Horizon}
}
