// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables_test

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/tables"
)

// A recording becomes files in a directory that databases read.
func ExampleDir_Add() {
	const recording = "../../testdata/small/rec.data"
	r, err := replay.Load(recording, replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	temp, err := os.MkdirTemp("", "tables")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(temp)

	id, err := tables.ID([]string{recording + "/data"}, 0)
	if err != nil {
		log.Fatal(err)
	}
	dir := tables.Open(temp)
	defer dir.Close()
	m, err := dir.Add(r, id, tables.Options{Inputs: []string{recording}})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range m.Files {
		table, _, _ := strings.Cut(f.Path, "/")
		fmt.Printf("%s: %d rows\n", table, f.Rows)
	}
	// Output:
	// changes: 542 rows
	// gaps: 125 rows
	// pages: 33 rows
	// programs: 1 rows
	// recordings: 1 rows
	// symbols: 2131 rows
	// symbols: 217 rows
	// text: 32 rows
}
