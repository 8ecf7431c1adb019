// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"errors"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// FuzzProfile: whatever the recording holds, there is a valid profile with as
// many samples as were counted, or an error.
func FuzzProfile(f *testing.F) {
	for _, chain := range [][]uint64{nil, kernelChain(leaf, entry+8), {perfdata.CallchainUser, 0x401010}} {
		tp := newTape(f, "cpu-clock", "page-faults")
		tp.comm(0, 7, 7, "prog", false)
		tp.mmap(0, 7, 0x400000, 0x10000, 0, "/bin/prog")
		tp.mmap(0, kernelPID, leaf, 0x1000, 0, "[module]")
		tp.bpf(50, 150, packed, 64, "bpf_prog_0000000000000001_first")
		tp.fork(60, 8, 8, 7, 7, 0)
		tp.comm(70, 8, 8, "tool", true)
		tp.sample(taken{time: 100, pid: 7, ip: packed, chain: chain})
		tp.sample(taken{event: 1, time: 200, pid: 8, ip: leaf, chain: chain})
		tp.check(tp.w.Close())
		f.Add(tp.out.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := perfdata.New(data)
		if err != nil {
			return
		}
		r, err := replay.New(rec, nil, replay.Options{})
		if err != nil {
			rec.Close()
			return
		}
		defer r.Close()
		p, stats, err := Profile(r, Options{Labels: AllLabels})
		if errors.Is(err, ErrNoSamples) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckValid(); err != nil {
			t.Fatal(err)
		}
		if uint64(len(p.Sample)) != stats.Rows {
			t.Errorf("%d samples in the profile, %d were written", len(p.Sample), stats.Rows)
		}
	})
}
