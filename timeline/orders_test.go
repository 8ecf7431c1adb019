// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "testing"

// TestOrderResult: what the orders say does not keep what it took to find them, a hundred times as much.
func TestOrderResult(t *testing.T) {
	o := &ordering{orderSet: orderSet{lo: 1, hi: 2}}
	if got := o.result(); got == &o.orderSet || got.lo != 1 || got.hi != 2 {
		t.Errorf("%+v is part of the ordering, or has not its range", got)
	}
}
