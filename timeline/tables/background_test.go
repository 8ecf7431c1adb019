// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"testing"
)

// TestBackground: what fails in the background fails where it is waited for, once or often.
func TestBackground(t *testing.T) {
	if got := background(func() int { return 7 })(); got != 7 {
		t.Errorf("got %d", got)
	}
	fault := errors.New("fault")
	wait := background(func() int { panic(fault) })
	settle(wait)
	defer func() {
		if got := recover(); got != fault {
			t.Errorf("recovered %v", got)
		}
	}()
	wait()
	t.Error("it did not panic")
}
