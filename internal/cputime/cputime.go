// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package cputime is for tests of what must not take long: what takes the square of a number of records, or goes
// through all of them for each question. It measures the CPU time of the process, as time(1) does, see getrusage(2).
// How long a test waits for other programs on a busy machine says nothing of it.
package cputime

import (
	"testing"
	"time"
)

// A Clock is the CPU time that the process, with all its threads, had used at one moment. What tests do that run at the
// same time counts too.
type Clock time.Duration

// Start returns a clock that begins now.
func Start() Clock { return Clock(used()) }

// Took returns the CPU time that was used since the clock began.
func (c Clock) Took() time.Duration { return used() - time.Duration(c) }

// underRace is how many times as long the race detector may take.
const underRace = 20

// AtMost fails the test if more CPU time was used since the clock began than a limit. The limit is one for the slowest
// machine without the race detector. It should be many times what the test takes, and a fraction of what it takes where
// the test must fail.
func (c Clock) AtMost(t testing.TB, limit time.Duration) {
	t.Helper()
	if race {
		limit *= underRace
	}
	if took := c.Took(); took > limit {
		t.Errorf("took %v of CPU time, want %v at most", took, limit)
	}
}
