// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfetto_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/textreplay/textreplay/timeline/perfetto"
	"github.com/textreplay/textreplay/timeline/replay"
)

func ExampleWrite() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	var trace bytes.Buffer // a file that ui.perfetto.dev opens
	stats, err := perfetto.Write(&trace, r, perfetto.Options{Sites: 3})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d changes on %d tracks, %d left out\n", stats.Changes, stats.Tracks, len(stats.Truncated))
	// Output:
	// 548 changes on 29 tracks, 0 left out
}
