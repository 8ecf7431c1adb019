// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
)

var (
	fleetSize    = flag.Int("fleet", 40, "how many recordings TestFleetSize makes")
	fleetSeed    = flag.Uint64("fleetseed", 20, "the seed of the random questions of TestFleetAnswers")
	fleetChanges = flag.Int("fleetchanges", 2000, "how many changes each of them has")
)

// TestFleetSize: many recordings are exported in parallel, in memory that does not grow with
// their number. Pages that all hosts have are stored once, wherever their kernels were
// loaded, and DuckDB counts what was recorded.
func TestFleetSize(t *testing.T) {
	t.Chdir(t.TempDir())
	n := *fleetSize
	var names []string
	size := int64(0)
	for i := range n {
		h := genperf.Host{Number: i, Changes: *fleetChanges}
		names = append(names, h.Name())
		if err := h.Record(h.Name()); err != nil {
			t.Fatal(err)
		}
	}
	cmd := asProcess(t, "export", "-o", "tables", "--files-from", "-")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(strings.Join(names, "\n")), &stderr
	began := time.Now()
	memory, err := runForMemory(cmd)
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	took := time.Since(began)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	perTable := make(map[string]int64)
	for name, text := range tablesIn(t, "tables") {
		table, _, _ := strings.Cut(filepath.ToSlash(name), "/")
		perTable[table] += int64(len(text))
		size += int64(len(text))
	}
	t.Logf("%d recordings: CPU %v, %v in all, %d MB of memory at most; %d bytes, %v", n, cpu, took, memory>>20, size, perTable)
	// A short run is one of the race detector, which needs memory of its own.
	if limit := int64(400 << 20); memory > limit && !testing.Short() {
		t.Errorf("%d bytes of memory, more than %d", memory, limit)
	}
	d := databases[0]
	_, sql := sqlOf(t, d.name)
	queries := []string{
		"SELECT count(*) AS n, count(DISTINCT r.host) AS hosts FROM changes c JOIN recordings r ON r.recording = c.recording",
		"SELECT count(DISTINCT host) AS hosts FROM changes c JOIN recordings r ON r.recording = c.recording WHERE c.mechanism = 'kprobe' AND c.symbol = 'function_007'",
		"SELECT count(*) AS n FROM text",
		"SELECT c.comm, c.mechanism, count(*) AS changes, count(DISTINCT c.text_offset) AS sites FROM changes c GROUP BY c.comm, c.mechanism",
		fmt.Sprintf(`INSERT INTO questions SELECT row_number() OVER (), r.recording, s.text_offset, 1510000000
			FROM recordings r JOIN symbols s ON s.owner = r.names WHERE r.host = '%s' AND s.name = 'function_007'`, names[n/2]),
		"SELECT * FROM answers",
	}
	var all [][]map[string]any
	setup := append(sql["the tables"], sql["answers"]...)
	for i := range queries { // each query's time is that of all before it and its own
		began := time.Now()
		all = d.query(t, append(setup, queries[:i+1]...)...)
		t.Logf("%v  %s", time.Since(began).Round(time.Millisecond), queries[i])
	}
	all = all[len(setup):]
	probed := (n + 9) / 10
	if got, want := fmt.Sprint(all[0]), fmt.Sprint([]map[string]any{{"n": fmt.Sprint(n**fleetChanges + probed), "hosts": fmt.Sprint(n)}}); got != want {
		t.Errorf("changes: %s, want %s", got, want)
	}
	if got := fmt.Sprint(all[1][0]["hosts"]); got != fmt.Sprint(probed) {
		t.Errorf("%s hosts have a kprobe, want %d", got, probed)
	}
	if got := fmt.Sprint(all[2][0]["n"]); got != "64" { // 256 KiB of text
		t.Errorf("%s pages, want 64", got)
	}
	if len(all[5]) != 1 || all[5][0]["standing"] != "known" {
		t.Errorf("answers %v", all[5])
	}
}
