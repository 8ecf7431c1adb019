// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"
	"time"
)

// A huge page is cheaper than the usual pages in its place: the system interrupts the program once instead
// of 512 times. It takes 0.2 ms, most of it to clear the page, and the usual ones take 0.5 to 1 ms.
//
// In a virtual machine it may take 5 ms. Some return free memory to their host in pieces of a huge page and
// more (free page reporting, of virtio-balloon and Hyper-V). The first touch then waits until the host has
// found memory for all of it. Usual pages are often parts of pieces that were not returned. Or they are as
// slow. That depends on what the machine did before, and can only be seen by taking the time.

// prices is what the first touch of pages takes, and which pages are cheaper.
type prices struct {
	lock        sync.Mutex
	huge, usual time.Duration // for HugePage bytes, as it took last; 0 if it was not tried
	since, wait int           // how many times usual pages were taken, and after how many huge ones are tried again
}

const (
	// dear is from what a huge page takes on that usual ones are tried.
	dear = time.Millisecond
	// present is up to how long a touch takes of a page that was there before.
	present = 10 * time.Microsecond
	// firstWait is how many times usual pages are taken before a huge one is tried again. If that one is dear
	// too, it is twice as many the next time, and so on.
	firstWait = 16
	// tried is how many huge pages of a piece are tried at most: the first ones may be those that the system
	// had at hand, and tell nothing of the rest.
	tried = 4
	// usualPart is of which part of HugePage bytes the usual pages are tried.
	usualPart = 1.0 / 16
)

// pages are whole pages of memory that nobody uses yet, which is going to be filled from its begin on.
type pages interface {
	// want says whether the huge pages from the first up to the end are better had as such, or in usual pages.
	want(huge bool, first, end int)
	// touch makes that part of a huge page be there, from its begin on, and returns what it took.
	touch(page int, part float64) time.Duration
}

// choose asks for n huge pages, or for usual pages in their place, as is cheaper. It touches those that
// it tries.
func (p *prices) choose(all pages, n int) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for i := range min(n, tried) {
		if p.hugeAreCheaper() || p.tryAgain() {
			all.want(true, i, i+1)
			if took := all.touch(i, 0); took > present {
				p.huge = took
			}
			if p.huge < dear {
				p.since, p.wait = 0, 0
			}
		} else {
			all.want(false, i, i+1)
			p.usual = time.Duration(float64(all.touch(i, usualPart)) / usualPart)
		}
	}
	if n > tried {
		all.want(p.hugeAreCheaper(), tried, n)
	}
}

// tryAgain reports whether a huge page is tried, though usual ones are cheaper. It is called each time.
func (p *prices) tryAgain() bool {
	wait := max(p.wait, firstWait)
	if p.since++; p.since <= wait {
		return false
	}
	p.since, p.wait = 0, 2*wait
	return true
}

// hugeAreCheaper reports whether huge pages are cheaper than usual ones, as far as is known.
func (p *prices) hugeAreCheaper() bool { return p.huge < dear || p.usual > p.huge }
