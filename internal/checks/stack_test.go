// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOnStack: what derives a fragment's history is on the stack. There are as many as fragments: on the heap they
// take 20 MB of an image of 50,000 places, and a tenth of its time. A pointer to it that outlives a call is enough
// to put it there.
func TestOnStack(t *testing.T) {
	cmd := exec.Command("go", "build", "-gcflags=-m", "./timeline")
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "epochs.go") {
		t.Fatal("the compiler says nothing of epochs.go")
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "epochs.go") && strings.Contains(line, "moved to heap") {
			t.Error(line)
		}
	}
}
