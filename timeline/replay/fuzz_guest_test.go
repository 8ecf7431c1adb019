// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"testing"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// FuzzMachines makes images of every machine in arbitrary bytes, and follows the bytes as
// a stream. There is no panic, no hang, and no horizon beyond the newest record.
func FuzzMachines(f *testing.F) {
	f.Add(seed(f, testdata("guest", "merged.data")))
	f.Add(seed(f, testdata("lossy", "rec.data")))
	kcoreDir := testdata("storm", "rec.data", "kcore_dir")
	snap, err := kcore.Open(kcoreDir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { snap.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		if rec, err := perfdata.New(data); err == nil {
			host, err := replay.New(rec, snap, replay.Options{})
			if err != nil {
				return
			}
			for i, g := range host.Report.Guests {
				if i == 3 {
					break
				}
				r, err := replay.New(rec, snap, replay.Options{Guest: g.PID})
				if err != nil {
					t.Fatalf("guest %d is one of the recording: %v", g.PID, err)
				}
				if r.Report.Guest != g.PID || r.Report.Clean && g.PID > 0 && r.Report.Pokes.Total > 0 {
					t.Fatalf("guest %d: %+v", g.PID, r.Report)
				}
			}
		}
		fo, err := replay.Follow(bytes.NewReader(data), replay.Options{KCore: kcoreDir, CPUs: 2})
		if err != nil {
			return
		}
		defer fo.Close()
		for more, n := true, 0; more && n < 5; n++ {
			more = fo.Next()
			if _, err := fo.Image(); err != nil {
				return
			}
			if rep := fo.Report(); rep.Horizon > rep.Last {
				t.Fatalf("the horizon %d is beyond the newest record, of %d", rep.Horizon, rep.Last)
			}
		}
	})
}
