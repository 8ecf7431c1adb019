// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism_test

import (
	"fmt"
	"log"

	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// How many changes each part of the kernel made.
func ExampleClassifier() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()

	c := mechanism.NewClassifier(r, nil)
	count := make(map[mechanism.Mechanism]int)
	for change := range r.Changes() {
		if change.Poke != nil {
			count[c.Of(change)]++
		}
	}
	for _, m := range mechanism.All() {
		if count[m] > 0 {
			fmt.Printf("%v: %d\n", m, count[m])
		}
	}
	// Output:
	// static-key: 464
	// static-call: 14
	// kprobe: 32
	// optimised-kprobe: 32
}
