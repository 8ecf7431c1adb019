// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/textreplay/textreplay/recorder/journal"
)

// A recorder writes a line whenever something happens, and a reader reads all of them, even
// if the recorder was killed.
func Example() {
	var file bytes.Buffer
	for _, e := range []journal.Entry{
		{Start: &journal.Start{Version: journal.Version, Program: "example", Clock: "CLOCK_MONOTONIC", Time: 1000}},
		{Gap: &journal.Gap{CPU: 1, From: 2000, To: 2500}},
	} {
		if err := journal.Append(&file, &e); err != nil {
			log.Fatal(err)
		}
	}
	file.WriteString(`{"end":{"ti`) // the recorder was killed while it wrote this

	entries, err := journal.Read(&file)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		if e.Gap != nil {
			fmt.Printf("CPU %d was not recorded from %d to %d\n", e.Gap.CPU, e.Gap.From, e.Gap.To)
		}
	}
	// Output:
	// CPU 1 was not recorded from 2000 to 2500
}
