// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

var execution = flag.String("execution", "", "TestExecution: decode the execution in `DIR`, which has the form of x86_64/exec/pt; missing traces are made from its log")

// TestExecution: decoding through the adapter returns exactly the executed instructions, and
// every trap, with both decoders of libipt. testdata/pt is small, so that this is tested
// without the large recordings; internal/ptwalk decodes it, too.
//
//	go test ./examples -run TestExecution -execution DIR -v
func TestExecution(t *testing.T) {
	dir, rec := filepath.Join("..", "testdata", "pt"), "cut.data"
	if *execution != "" {
		dir, rec = *execution, "rec.data"
	}
	exe := ptdecode(t)
	insns, cpus := readExecution(t, dir)
	var traces []string
	executed, traps := 0, 0 // INT3 of probes that are armed for long, too
	for cpu, steps := range cpus {
		trace := filepath.Join(dir, fmt.Sprintf("cpu%d.pt", cpu))
		if _, err := os.Stat(trace); err != nil && *execution != "" {
			if err := os.WriteFile(trace, encodeTrace(insns, steps, traceForm{1, 0, 1 << 16}), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		traces = append(traces, trace)
		for _, s := range steps {
			executed++
			if insns[s.id].bytes[0] == 0xcc {
				traps++
			}
		}
	}
	// Another execution may have met no INT3, or only those of probes that are armed for long:
	// then there is nothing to find, and the instructions are compared all the same.
	if *execution == "" && traps == 0 {
		t.Fatal("the log has no trap")
	}
	for _, mode := range [][]string{nil, {"-b"}} {
		n, int3, found := decode(t, exe, filepath.Join(dir, rec), traces, insns, cpus, mode...)
		t.Logf("decoder %v: %d of %d instructions, %d of %d INT3, %d of them met while text was changed", mode, n, executed, int3, traps, found)
		if int3 != traps || found == 0 && *execution == "" {
			t.Errorf("decoder %v: %d INT3 decoded, %d executed, %d while text was changed", mode, int3, traps, found)
		}
	}
}
