// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package cputime

import (
	"testing"
	"time"
)

// failed is a test that may fail.
type failed struct {
	testing.TB
	is bool
}

func (f *failed) Helper()               {}
func (f *failed) Errorf(string, ...any) { f.is = true }

// TestAtMost: what works fails the test, and what waits does not.
func TestAtMost(t *testing.T) {
	const limit = 20 * time.Millisecond
	most := limit
	if race {
		most *= underRace
	}
	waits, works := &failed{TB: t}, &failed{TB: t}
	c := Start()
	for began := time.Now(); time.Since(began) < 2*most; time.Sleep(most / 10) {
	}
	if c.AtMost(waits, limit); waits.is {
		t.Errorf("%v of CPU time for waiting", c.Took())
	}
	c = Start()
	for began := time.Now(); c.Took() <= most; {
		if time.Since(began) > time.Minute {
			t.Fatalf("%v of CPU time in a minute", c.Took())
		}
	}
	if c.AtMost(works, limit); !works.is {
		t.Errorf("%v of CPU time are within %v", c.Took(), limit)
	}
}
