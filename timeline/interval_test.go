// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "testing"

// TestLater: sums of times do not wrap.
func TestLater(t *testing.T) {
	for _, tt := range []struct{ t, by, want uint64 }{
		{0, 0, 0},
		{5, 1, 6},
		{MaxTime - 2, 1, MaxTime - 1},
		{MaxTime - 1, 1, MaxTime},
		{MaxTime - 1, 2, MaxTime},
		{MaxTime, 1, MaxTime},
		{1, MaxTime, MaxTime},
	} {
		if got := Later(tt.t, tt.by); got != tt.want {
			t.Errorf("%d after %d: %d, want %d", tt.by, tt.t, got, tt.want)
		}
	}
}
