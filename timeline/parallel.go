// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/textreplay/textreplay/internal/memory"
)

// The histories of two fragments do not depend on each other, so all CPUs derive them. The
// address space is cut into shards at places where the pokes of no two sites overlap:
//
//	sites     ├─┤ ├──┤  ├──┤ │ ├─┤ ├──┤   ├─┤ │ ├──┤ ├─┤ ...
//	                ├───┤    │                │
//	shard            0       │       1        │    2
//
// A worker takes the next shard and derives its fragments into tables of their own. These
// are appended to the image's tables when all shards before have been appended; until then
// they wait, and the worker takes another shard. Tables refer to each other by index, so the
// indices are moved by what is there already. Where shards begin depends on the facts only,
// and their order is that of the addresses, so the image is the same, bit by bit, however
// many workers there are.

// shardPokes is how many pokes a shard has, or one cluster of sites with more. Its tables
// then are about as large as the cache of a CPU. See limits.shard.
const shardPokes = 1 << 15

// Few pokes are cut into shards of so many or more, and into this many or fewer: no CPU has to wait long for the
// last shard of another one.
const (
	fewestPokes = 1 << 12
	fewShards   = 32
)

// A shard is the part [lo, hi) of the address space. hi is 0 for the last one.
type shard struct {
	lo, hi uint64
	sites  []uint32 // of build.order
	pokes  int      // of these
	cuts   []uint64
	sweep
}

// shards cuts the address space. lives are in the order of sortedByLo.
func (d *build) shards(lives []*Lifetime, padding, written []Range) []shard {
	cuts := d.cuts(lives, padding, written)
	all := newSweep(lives, d.segments, padding, written)
	last := shard{sites: d.order, cuts: cuts, sweep: all}
	if len(d.windows) > 0 {
		last.pokes = int(d.added)
		return []shard{last} // their bytes are appended to the arena
	}
	var out []shard
	begin, pokes, end := 0, 0, uint64(0)
	enough := min(d.limits.shard, max(fewestPokes, int(d.added)/fewShards))
	for i, k := range d.order {
		s := &d.sites[k]
		if pokes >= enough && s.addr >= end {
			next := last
			last.hi, last.sites, last.pokes = s.addr, d.order[begin:i], pokes
			n, found := slices.BinarySearch(last.cuts, s.addr)
			next.cuts = last.cuts[n:]
			last.cuts = slices.Clip(last.cuts[:n])
			if last.cuts = append(last.cuts, s.addr); found {
				next.cuts = next.cuts[1:]
			}
			out = append(out, last)

			all.moveTo(s.addr-1, s.addr)
			all.active = slices.DeleteFunc(all.active, func(l *Lifetime) bool { return l.Hi <= s.addr })
			next.lo, next.sweep = s.addr, all
			next.active = slices.Clone(all.active)
			last, begin, pokes = next, i, 0
		}
		pokes += int(s.pokes)
		end = max(end, s.addr+uint64(s.longest))
	}
	last.sites, last.pokes = d.order[begin:], pokes
	return append(out, last)
}

// expected returns about how many leaves and nodes a shard will have.
func (d *build) expected(s *shard) (leaves, nodes int) {
	leaves = s.pokes/d.likelyPerLeaf() + 2*len(s.sites) + len(s.cuts) + s.lives()/2
	return leaves, nodesFor(leaves, len(s.sites))
}

// lives returns how many lifetimes the shard has. Each has some four versions.
func (s *shard) lives() int {
	n := len(s.ahead)
	if s.hi != 0 {
		n, _ = slices.BinarySearchFunc(s.ahead, s.hi, func(l *Lifetime, hi uint64) int { return cmp.Compare(l.Lo, hi) })
	}
	return len(s.active) + n
}

// An assembly appends the tables of shards to those of the image.
type assembly struct {
	*build
	room room // that the shards so far have left

	lock   sync.Mutex
	turn   sync.Cond // signals that waiting or failed has changed
	begun  int       // how many shards workers have taken
	done   int       // of how many it is known where they are in the image
	failed bool      // a worker has panicked
	// waiting are the shards that are derived, but not those before them. Most shards take equally
	// long, but a site with very many pokes is one shard.
	waiting   map[int]derived
	waitingOf int      // how many pokes
	free      []tables // that are not in use

	after  [][]slabGroup // if the log is given up: the slabs that are not needed after each shard
	passed passDropper   // the same, of passes
	spare  [][]byte      // huge pages of slabs and of passes that were given up
	leaves backing       // of the image
	nodes  backing

	growing sync.RWMutex // read-locked while tables are written to

	unloading sync.Mutex // Unloads promises one call at a time; it is apart from lock because a call may take long

	unpatchedOnce sync.Once
	unpatched     []version // of unpatched text
}

// A derived is a shard's tables, and what is left of the room that they were given.
type derived struct {
	tables      tables
	left        room
	pokes       int
	textCrowded bool   // see build
	lent        bool   // leaves and nodes are where the image will have them
	leaves      []leaf // if so, what the tables had before
	nodes       []node
}

// mostWaiting is how many pokes wait at most, in shards of usual size; each worker can have one more shard.
const mostWaiting = 24

// unpatchedCount marks the fragments of unpatched text until its versions are stored.
const unpatchedCount = ^uint32(0)

// fragments derives the history of each fragment. lives are in the order of sortedByLo.
func (d *build) fragments(lives []*Lifetime, padding, written []Range) {
	shards := d.shards(lives, padding, written)
	a := &assembly{build: d, room: d.spareRoom(), waiting: make(map[int]derived)}
	a.turn.L = &a.lock
	if d.consume {
		a.planGivingUp(shards)
		a.leaves.table, a.nodes.table = unsafe.SliceData(raw(d.im.leaves)), unsafe.SliceData(raw(d.im.nodes))
	}
	empty, whole := d.fork(), d.spareRoom()
	inParallel(min(runtime.GOMAXPROCS(0), len(shards)), func() {
		w, finished := empty.fork(), false
		w.reader = d.readers.get()
		defer func() {
			if !finished {
				a.fail()
			}
		}()
		for {
			k, t, isNext := a.take()
			if k >= len(shards) {
				break
			}
			x := derived{pokes: shards[k].pokes, lent: isNext, leaves: t.leaves, nodes: t.nodes}
			if isNext {
				t = a.lend(t, &shards[k])
			}
			x.tables, x.left = w.derive(a, &shards[k], whole, t)
			x.textCrowded = w.textCrowded
			a.wait(k, x)
			for {
				x, k, ok := a.next()
				if !ok {
					break
				}
				a.put(w, x, whole, &shards[k])
				if d.consume {
					a.giveUp(k)
				}
			}
		}
		finished = true
	})
	for _, page := range a.spare {
		memory.Discard(page)
	}
	if len(a.unpatched) > 0 {
		d.im.unpatched = d.im.store(fragmentHistory{before: a.unpatched}, nil, 1)
	}
	for i := range d.im.fragments {
		if f := &d.im.fragments[i]; f.count == unpatchedCount {
			f.versions = d.im.unpatched
		}
	}
}

// fork returns the state of a worker: it shares with d what is only read from now on.
func (d *build) fork() *build {
	w := *d
	w.changes, w.confirming, w.longer, w.misfits, w.cluster, w.out, w.reader = nil, nil, nil, nil, nil, nil, nil
	w.former, w.times, w.claimed = [2][]change{}, nil, nil
	w.unsure = make(map[unsureKey]gaps)
	im := *d.im
	im.tables = tables{arena: d.im.arena}
	w.im = &im
	return &w
}

// derive derives the fragments of a shard. It returns their tables, which have the memory of t, and
// what is left of the room.
func (w *build) derive(a *assembly, s *shard, r room, t tables) (tables, room) {
	im := w.im
	im.tables = t
	im.fragments, im.states = im.fragments[:0], im.states[:0]
	im.conflicts, im.claims, im.arena = im.conflicts[:0], im.claims[:0], a.im.arena
	leaves, nodes := w.expected(s)
	im.leaves, im.nodes = emptied(im.leaves, leaves), emptied(im.nodes, nodes)
	w.textCrowded = false
	walk := newFragmenter(w, s, r)
	var f fragment // one for all, since it is on the heap
	for p, ok := walk.next(); ok; p, ok = walk.next() {
		f = fragment{addr: p.lo, size: uint32(min(p.hi-p.lo, math.MaxUint32)), seg: p.seg} // no fact needs more of it

		least := 0 // how many bytes the piece takes of the room, or more
		if n := w.facts(&p); n > fewFacts {
			least = n * bytesOfFact
		}
		fits := walk.room.take(&p, least)
		switch {
		case !fits:
		case w.isUnpatched(&p, &f):
			a.unpatchedOnce.Do(func() { a.unpatched = slices.Clone(w.history(walk, &p, &f).before) })
			f.count = unpatchedCount
		default:
			before := im.sizes()
			if h := w.history(walk, &p, &f); h.len() > 0 {
				f.versions = im.store(h, w.edits, f.size)
			}
			if least > 0 && !walk.room.take(&p, im.sizes().bytes()-before.bytes()-least) {
				im.cut(before)
				fits = false
			}
		}
		if !fits {
			w.textCrowded = w.textCrowded || p.text
			f.versions = im.store(fragmentHistory{before: []version{{0, state{content: noContent, standing: Unknown, reason: TooManyFacts}}}}, nil, f.size)
		}
		if f.count > 0 {
			im.fragments = append(im.fragments, f)
		}
	}
	return im.tables, walk.room
}

// take returns the number of the next shard, when not too many pokes wait, and tables that are not
// in use, or empty ones. isNext says that all shards before it are in the image.
func (a *assembly) take() (k int, t tables, isNext bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for a.waitingOf >= mostWaiting*a.limits.shard && !a.failed {
		a.turn.Wait()
	}
	if a.failed {
		return math.MaxInt, tables{}, false
	}
	if n := len(a.free); n > 0 {
		t, a.free = a.free[n-1], a.free[:n-1]
	}
	a.begun++
	return a.begun - 1, t, a.done == a.begun-1
}

// lend lets t have the memory of the image that the leaves and nodes of the next shard get, so that they
// need not be copied. If there are more than expected, they are elsewhere.
func (a *assembly) lend(t tables, s *shard) tables {
	leaves, nodes := a.expected(s)
	im := a.im
	leaves, nodes = len(im.leaves)+leaves, len(im.nodes)+nodes
	if leaves <= cap(im.leaves) && nodes <= cap(im.nodes) {
		provide(a, &a.leaves, im.leaves, leaves)
		provide(a, &a.nodes, im.nodes, nodes)
		t.leaves, t.nodes = im.leaves[len(im.leaves):len(im.leaves):leaves], im.nodes[len(im.nodes):len(im.nodes):nodes]
	}
	return t
}

// wait lets shard k wait for its turn.
func (a *assembly) wait(k int, x derived) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.waiting[k] = x
	a.waitingOf += x.pokes
}

// next returns the shard whose turn it is, if it is derived and nobody has it.
func (a *assembly) next() (x derived, k int, ok bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if x, ok = a.waiting[a.done]; ok {
		delete(a.waiting, a.done)
		a.waitingOf -= x.pokes
		a.turn.Broadcast()
	}
	return x, a.done, ok
}

// put puts the shard whose turn it is into the image. It was derived as if all of the room
// were left. w is a worker's state.
func (a *assembly) put(w *build, x derived, whole room, s *shard) {
	used := room{text: whole.text - x.left.text, other: whole.other - x.left.other}
	if isWhole := a.room == whole; !isWhole && (x.left.crowded || used.text > a.room.text || used.other > a.room.other) {
		// Which pieces are crowded depends on what the shards before have left.
		x.tables, a.room = w.derive(a, s, a.room, x.tables)
		x.textCrowded = w.textCrowded
	} else {
		a.room.text, a.room.other = a.room.text-used.text, a.room.other-used.other
	}
	a.textCrowded = a.textCrowded || x.textCrowded
	if len(a.windows) > 0 { // the only shard
		a.im.arena, a.tooLarge = x.tables.arena, w.tooLarge
	}
	a.append(&x.tables)
	if x.lent {
		x.tables.leaves, x.tables.nodes = x.leaves[:0], x.nodes[:0]
	}
	if used, usual := raw(x.tables.leaves), a.limits.shard*sizeOf[leaf]()/2; len(used) > usual {
		memory.Discard(used[usual:]) // of a place with very many pokes
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.free = append(a.free, x.tables)
}

// fail lets all workers end that wait.
func (a *assembly) fail() {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.failed = true
	a.turn.Broadcast()
}

// append appends the tables of the shard whose turn it is, and lets the next one have its
// turn as soon as the place is known.
func (a *assembly) append(from *tables) {
	to := a.im
	var pad uint32 // so that states stay in their lines
	if n := uint32(len(to.states)) % stateLine; n > 0 {
		pad = stateLine - n
	}
	provide(a, &a.leaves, to.leaves, len(to.leaves)+len(from.leaves))
	provide(a, &a.nodes, to.nodes, len(to.nodes)+len(from.nodes))
	a.growing.RLock()
	if cap(to.fragments)-len(to.fragments) < len(from.fragments) || cap(to.leaves)-len(to.leaves) < len(from.leaves) ||
		cap(to.nodes)-len(to.nodes) < len(from.nodes) || cap(to.states)-len(to.states) < len(from.states)+int(pad) ||
		cap(to.conflicts)-len(to.conflicts) < len(from.conflicts) || cap(to.claims)-len(to.claims) < len(from.claims) {
		a.growing.RUnlock()
		a.growing.Lock()
		to.fragments = grown(to.fragments, len(from.fragments))
		to.leaves = grown(to.leaves, len(from.leaves))
		to.nodes = grown(to.nodes, len(from.nodes))
		to.states = grown(to.states, len(from.states)+int(pad))
		to.conflicts = grown(to.conflicts, len(from.conflicts))
		to.claims = grown(to.claims, len(from.claims))
		a.growing.Unlock()
		a.growing.RLock()
	}
	for range pad {
		to.states = append(to.states, storedState{})
	}
	fragments, by := lengthen(&to.fragments, len(from.fragments)), offsets{}
	by.fragment = uint32(len(to.fragments) - len(from.fragments))
	leaves := lengthen(&to.leaves, len(from.leaves))
	by.leaf = uint32(len(to.leaves) - len(from.leaves))
	nodes := lengthen(&to.nodes, len(from.nodes))
	by.node = uint32(len(to.nodes) - len(from.nodes))
	states := lengthen(&to.states, len(from.states))
	by.state = uint32(len(to.states) - len(from.states))
	conflicts := lengthen(&to.conflicts, len(from.conflicts))
	by.conflict = uint32(len(to.conflicts) - len(from.conflicts))
	claims := lengthen(&to.claims, len(from.claims))
	by.claim = uint32(len(to.claims) - len(from.claims))
	a.lock.Lock()
	a.done++
	a.lock.Unlock()

	copyTable(leaves, from.leaves)
	copyTable(nodes, from.nodes)
	// Field by field, so that what is between the fields stays zero: a saved index has it.
	for i := range from.claims {
		x, c := &claims[i], &from.claims[i]
		x.time, x.content, x.source, x.old = c.time, c.content, c.source, c.old
	}
	for i, f := range from.fragments {
		if f.count != unpatchedCount {
			f.leaf, f.node, f.states = f.leaf+by.leaf, f.node+by.node, f.states+by.state
		}
		fragments[i] = f
	}
	for i, s := range from.states {
		if s.standing == Conflicting || s.standing == InFlight {
			s.content += by.conflict
		}
		states[i] = s
	}
	for i := range from.conflicts {
		x, c := &conflicts[i], &from.conflicts[i]
		x.addr, x.from, x.to, x.count, x.size, x.reason, x.excused = c.addr, c.from, c.to, c.count, c.size, c.reason, c.excused
		x.claims, x.fragment = c.claims+by.claim, c.fragment+by.fragment
	}
	a.growing.RUnlock()
}

// planGivingUp finds out after which shards the slabs of the log are not read any more. If that
// is the end for most of them, because pokes came in random order, the log is partitioned.
func (a *assembly) planGivingUp(shards []shard) {
	shardOf := make([]uint32, len(a.sites))
	for k := range shards {
		for _, s := range shards[k].sites {
			shardOf[s] = uint32(k)
		}
	}
	a.passed.plan(shards, a.limits.region)
	groups := a.log.groups()
	last, mean := a.log.needs(groups, shardOf)
	if mean > len(shards)*3/5 {
		a.log.partition(&a.index.lineIndex, shardOf, len(shards))
		last, _ = a.log.needs(groups, shardOf)
	}
	a.after = make([][]slabGroup, len(shards))
	end := 0
	for i, k := range last {
		a.after[k] = append(a.after[k], groups[i])
		end = groups[i].end
	}
	clear(a.log.slabs[end:]) // not used
	memory.Discard(raw(a.log.owners))
	a.log.owners = nil
}

// giveUp gives up the slabs that are not needed after a shard, which was appended, as were all
// before it. So the log shrinks while the tables of the image grow: these get its huge pages, which
// costs much less than new ones, which the system must clear.
func (a *assembly) giveUp(k int) {
	if k%unloadEvery == 0 {
		a.unloading.Lock()
		a.unloadCopy()
		a.unloading.Unlock()
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	a.spare = a.passed.after(k, &a.passes, a.spare)
	for _, g := range a.after[k] {
		first := a.log.slabs[g.first]
		if slabs := a.log.slabs[g.first:g.end]; len(slabs) == hugeSlabs {
			a.spare = append(a.spare, raw(unsafe.Slice(unsafe.SliceData(first), hugeSlabs*slabSize)))
		} else {
			memory.Discard(raw(first))
		}
		clear(a.log.slabs[g.first:g.end])
	}
}

// unloadEvery is after how many shards the copy of text is unloaded. They read what is near their
// places.
const unloadEvery = 16

// unloadCopy lets go of the memory of the copy of text, if memory matters.
func (d *build) unloadCopy() {
	if d.consume && d.unload != nil {
		d.unload()
	}
}

// A backing is how far a table of the image has got memory: new pages, or huge pages that were given up,
// which need not be cleared.
type backing struct {
	table *byte
	upTo  int // in bytes
}

// provide gives a table memory for its elements up to the n-th: huge pages that were given up, as long as
// there are any. The table begins at a huge page, and nobody uses what is behind its length yet.
func provide[T any](a *assembly, b *backing, table []T, n int) {
	all := raw(table[:cap(table)])
	if unsafe.SliceData(all) != b.table {
		return // it had no room, and is elsewhere now
	}
	for b.upTo < n*sizeOf[T]() && b.upTo+memory.HugePage <= len(all) {
		next, page := all[b.upTo:][:memory.HugePage], a.sparePage()
		if page == nil || !memory.Move(next, page) {
			memory.Discard(page)
			memory.Huge(next)
		}
		b.upTo += memory.HugePage
	}
}

// sparePage returns a huge page that was given up, nil if there is none.
func (a *assembly) sparePage() (page []byte) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if n := len(a.spare); n > 0 {
		page, a.spare = a.spare[n-1], a.spare[:n-1]
	}
	return page
}

// offsets are where the tables of a shard begin in those of the image.
type offsets struct{ fragment, leaf, node, state, conflict, claim uint32 }

// grown returns a table of the image with room for n more, half as much again as before at least. The memory
// of the table before is given up at once: a recording that lost records makes tables of hundreds of megabytes.
func grown[T any](table []T, n int) []T {
	if cap(table)-len(table) >= n {
		return table
	}
	more := append(memory.Make[T](max(cap(table)+cap(table)/2, len(table)+n)), table...)
	memory.Discard(raw(table[:cap(table)]))
	return more
}

// lengthen makes a table longer by n, for which it has room, and returns that part.
func lengthen[T any](table *[]T, n int) []T {
	old := len(*table)
	*table = (*table)[:old+n]
	return (*table)[old:]
}

// copyTable copies from to to, which is as long, if it is not there already.
func copyTable[T any](to, from []T) {
	if unsafe.SliceData(to) != unsafe.SliceData(from) {
		copy(to, from)
	}
}

// eachInParallel calls f with each number below n, on all CPUs.
func eachInParallel(n int, f func(i int)) {
	var next atomic.Int64
	inParallel(min(runtime.GOMAXPROCS(0), n), func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			f(int(i))
		}
	})
}

// allInParallel calls all functions, at the same time if there are CPUs for it.
func allInParallel(all ...func()) { eachInParallel(len(all), func(i int) { all[i]() }) }

// inParallel runs f in n goroutines, the caller's among them, and returns when all have
// ended. If f panics in any of them, the caller then panics with the first value.
func inParallel(n int, f func()) {
	if n <= 1 {
		f()
		return
	}
	// What the caller wants of faults, in memory that is mapped from a file.
	onFault := debug.SetPanicOnFault(false)
	debug.SetPanicOnFault(onFault)
	var group sync.WaitGroup
	var first sync.Once
	var failed any
	run := func() {
		defer func() {
			if r := recover(); r != nil {
				first.Do(func() { failed = r })
			}
		}()
		f()
	}
	for range n - 1 {
		group.Go(func() {
			debug.SetPanicOnFault(onFault)
			run()
		})
	}
	run()
	group.Wait()
	if failed != nil {
		panic(failed)
	}
}
