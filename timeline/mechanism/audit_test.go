// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
)

// TestNothingUnaccounted: in recordings of real kernels that nobody tampered with,
// everything is accounted for, apart from what the recordings lack.
func TestNothingUnaccounted(t *testing.T) {
	for _, dir := range corpus.Small(t) {
		audited(t, dir)
	}
}

// TestCorpusUnaccounted is the same for large recordings.
func TestCorpusUnaccounted(t *testing.T) {
	for _, name := range []string{"rich", "storm", "z72", "old510", "local", "threads", "task", "modfull", "exec/dense", "exec/pt"} {
		if a := audited(t, large(t, name)); !a.Complete() {
			t.Errorf("%s: not complete: %v", name, a.Gaps)
		}
	}
	for _, name := range []string{"lossy", "hotplug", "uponline", "exec/lossy", "exec/gone"} {
		if a := audited(t, large(t, name)); a.Complete() {
			t.Errorf("%s: changes are missing, and the audit does not know", name)
		}
	}
}

// large returns the directory of a recording; some are in one of several.
func large(t *testing.T, name string) string {
	all, one, _ := strings.Cut(name, "/")
	return filepath.Join(corpus.Large(t, "x86_64/"+all), one)
}

func audited(t *testing.T, dir string) *Audit {
	t.Helper()
	a := NewClassifier(load(t, dir), nil).Audit(nil)
	if a.Unaccounted != 0 {
		t.Errorf("%s: %d findings", filepath.Base(dir), a.Unaccounted)
	}
	for _, v := range a.Violations {
		if !v.Excused {
			t.Logf("  %v at %d: %x, %x -> %x", v.Fault, v.Time, v.Addr, v.Old, v.New)
		}
	}
	return a
}
