// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "testing"

// TestTruthOfCopies is TestTruth, TestTruthOfSkewedText and TestTruthOnAnyClock with further copies.
func TestTruthOfCopies(t *testing.T) {
	checkTiny(t, []uint64{9000317, 9000466, 9000695, 9001102, 9002350, 9006490, 9007805, 9012842}, func(seed uint64) tinyHistory {
		w := newTinyWorld(seed)
		w.copies = 1 + w.IntN(3)
		if seed%2 == 0 {
			w.more, w.anyClock = []string{"skew-at-least 50000000"}, true
			w.losesText = seed%8 == 0
		}
		if seed%3 == 0 {
			w.run()
		} else {
			w.runText()
		}
		return w
	})
}
