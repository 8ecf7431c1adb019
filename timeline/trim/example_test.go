// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

// The part of a recording that answers questions about its first ten seconds.
func ExampleWrite() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	temp, err := os.MkdirTemp("", "trim")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(temp)

	dir := filepath.Join(temp, "perf.data")
	if _, err := trim.Write(dir, r, trim.Options{To: 10_000_000_000}); err != nil {
		log.Fatal(err)
	}
	small, err := replay.Load(dir, replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer small.Close()
	const site = 0xffffffffaecdbcb1 // of the static key sched_schedstats
	for _, r := range []*replay.Replay{r, small} {
		var insn [5]byte
		b := r.Image.At(9_000_000_000).Read(site, insn[:])
		fmt.Printf("%v: % x\n", b.Standing, insn)
	}
	// Output:
	// known: 0f 1f 44 00 00
	// known: 0f 1f 44 00 00
}
