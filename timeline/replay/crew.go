// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// A crew is the goroutines that work ahead of a scan, one for each CPU but the scan's own, and the lock of
// what they share with it.
type crew struct {
	width   int  // how many there are
	onFault bool // the scan's debug.SetPanicOnFault, which is theirs too
	group   sync.WaitGroup

	lock    sync.Mutex
	changed sync.Cond // signals that something under the lock has changed
	ended   bool      // no more work is needed
}

// init makes a crew of none.
func (c *crew) init() {
	c.changed.L = &c.lock
	c.onFault = debug.SetPanicOnFault(false)
	debug.SetPanicOnFault(c.onFault)
}

// start starts the goroutines. Each calls work, with the lock held.
func (c *crew) start(work func()) {
	c.width = runtime.GOMAXPROCS(0) - 1
	for range c.width {
		c.group.Go(func() {
			debug.SetPanicOnFault(c.onFault)
			c.lock.Lock()
			defer c.lock.Unlock()
			work()
		})
	}
}

// stop ends the work, and returns when no goroutine uses the recording.
func (c *crew) stop() {
	c.lock.Lock()
	c.ended = true
	c.changed.Broadcast()
	c.lock.Unlock()
	c.group.Wait()
}

// isFarAhead reports whether so many pieces of work are done, and not used yet, that no more should be.
func (c *crew) isFarAhead(done int) bool { return done > 3*c.width+1 }
