// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"iter"
	"runtime"
	"sort"
	"sync"

	"github.com/textreplay/textreplay/internal/memory"
	"github.com/textreplay/textreplay/internal/spread"
)

// Pokes are not added to their sites one by one. Poke appends them to a batch; when it is
// full, all of it is added. There are two reasons:
//
//   - The sites of a recording do not fit into the caches near the CPU. For a batch, the
//     sites are looked up first, with loads that do not wait for one another, and then the
//     pokes are added, while the sites are in the cache.
//   - If there is more than one CPU, another goroutine adds the pokes, while the caller
//     reads the next ones.
//
// The goroutine runs only while there are full batches, so none is left behind if a builder
// is given up. The fields of a Builder that add writes are added's alone until settle
// returns.

// Traits are what a batch's pokes have besides address, time and bytes. Nearly all of them are like the
// one before, so they are stored for runs of pokes.
type traits struct {
	olen, nlen uint16
	cpu        uint16
	is         pokeFlags
}

// A pokeGroup is the pokes [from, to) of a batch, which have the same traits.
type pokeGroup struct {
	from, to int
	traits
}

type pokeFlags uint16

const (
	isLong     pokeFlags = 1 << iota // one of the two is longer than a word
	isDelayed                        // batch.notBefore has its NotBefore
	isEnclosed                       // batch.began has its Began
)

// A batch is pokes in the order of arrival. One CPU writes it and another one reads it, so it is small.
// If a poke is long, bytes has its bytes, the old ones first, from Old on.
type batch struct {
	pokes     []ShortPoke
	groups    []pokeGroup // one behind the other
	bytes     []byte
	notBefore []uint64
	began     []uint64
}

const (
	batchSize = 1 << 12
	// batchBytes is how many bytes of long pokes a batch has at most, or one poke.
	batchBytes = 1 << 18
	// lookAhead is for how many pokes the sites are looked up at once.
	lookAhead = 64
	// queueLength is how many full batches may wait. If so many do, the reader waits until half of them are
	// added: to wake a goroutine takes as long as to add some hundred pokes.
	queueLength = 8
)

// A queue is the batches that wait to be added.
type queue struct {
	current *batch // which Poke fills

	lock    sync.Mutex
	idle    sync.Cond // signals that a batch was added
	full    []*batch
	empty   []*batch
	running bool // a goroutine adds batches
}

func newQueue() *queue {
	q := new(queue)
	q.idle.L = &q.lock
	return q
}

// enqueue adds the current batch, or lets another goroutine do so.
func (b *Builder) enqueue() {
	q := b.queue
	if runtime.GOMAXPROCS(0) == 1 {
		b.addBatch(q.current)
		q.current.reset()
		return
	}
	q.lock.Lock()
	if len(q.full) == queueLength {
		for len(q.full) > queueLength/2 {
			q.idle.Wait()
		}
	}
	q.full = append(q.full, q.current)
	q.current = nil
	if n := len(q.empty); n > 0 {
		q.current, q.empty = q.empty[n-1], q.empty[:n-1]
	}
	if !q.running {
		q.running = true
		go b.drain()
	}
	q.lock.Unlock()
}

// drain adds the full batches.
func (b *Builder) drain() {
	q := b.queue
	q.lock.Lock()
	defer q.lock.Unlock()
	for len(q.full) > 0 {
		next := q.full[0]
		q.lock.Unlock()
		b.addBatch(next)
		next.reset()
		q.lock.Lock()
		q.full = append(q.full[:0], q.full[1:]...)
		q.empty = append(q.empty, next)
		if len(q.full) == queueLength/2 {
			q.idle.Signal()
		}
	}
	q.running = false
	q.idle.Signal()
}

// settle returns when all pokes have been added.
func (b *Builder) settle() {
	q := b.queue
	q.lock.Lock()
	for q.running {
		q.idle.Wait()
	}
	q.lock.Unlock()
	if q.current != nil && len(q.current.pokes) > 0 {
		b.addBatch(q.current)
		q.current.reset()
	}
}

// batch returns the batch to fill.
func (b *Builder) batch() *batch {
	if b.queue.current == nil {
		b.queue.current = newBatch()
	}
	return b.queue.current
}

func newBatch() *batch { return &batch{pokes: make([]ShortPoke, 0, batchSize)} }

// put appends a poke.
func (x *batch) put(addr, time uint64, old, new []byte, cpu int, is pokeFlags) {
	p := ShortPoke{addr, time, word(old), word(new)}
	if max(len(old), len(new)) > 8 {
		is |= isLong
		p.Old = uint64(len(x.bytes))
		x.bytes = append(append(x.bytes, old...), new...)
	}
	x.pokes = append(x.pokes, p)
	x.group(traits{uint16(len(old)), uint16(len(new)), cpuNumber(cpu), is})
}

// group sets the traits of the newest pokes, those that are in no group yet.
func (x *batch) group(t traits) {
	n := len(x.groups)
	if n > 0 && x.groups[n-1].traits == t {
		x.groups[n-1].to = len(x.pokes)
		return
	}
	from := 0
	if n > 0 {
		from = x.groups[n-1].to
	}
	x.groups = append(x.groups, pokeGroup{from, len(x.pokes), t})
}

// groupsOf yields the groups of the pokes [from, to).
func (x *batch) groupsOf(from, to int) iter.Seq[pokeGroup] {
	return func(yield func(pokeGroup) bool) {
		k := sort.Search(len(x.groups), func(k int) bool { return x.groups[k].to > from })
		for ; from < to; k++ {
			g := x.groups[k]
			g.from, g.to = from, min(g.to, to)
			if !yield(g) {
				return
			}
			from = g.to
		}
	}
}

func (x *batch) reset() {
	x.pokes, x.groups, x.bytes, x.notBefore, x.began = x.pokes[:0], x.groups[:0], x.bytes[:0], nil, nil
}

// old and new return the bytes of a long poke.
func (x *batch) old(p *ShortPoke, t *traits) []byte { return x.bytes[p.Old:][:t.olen] }
func (x *batch) new(p *ShortPoke, t *traits) []byte { return x.bytes[p.Old:][t.olen:][:t.nlen] }

// addBatch adds the pokes of a batch.
func (b *Builder) addBatch(x *batch) {
	groups := x.groups
	for from := 0; from < len(x.pokes); {
		if !b.searches {
			g := &groups[0]
			if from += b.addNext(x.pokes[from:g.to], &g.traits); from == g.to {
				groups = groups[1:]
				continue
			}
		}
		to := min(from+lookAhead, len(x.pokes))
		b.lookUp(x.pokes[from:to])
		for found := b.found[:to-from]; from < to; {
			g := &groups[0]
			n := min(to, g.to) - from
			b.addAlike(x, x.pokes[from:][:n], &g.traits, found)
			if from, found = from+n, found[n:]; from == g.to {
				groups = groups[1:]
			}
		}
	}
}

// lookUp finds the sites of up to lookAhead pokes, and touches their lines. found has 1 + the site of
// each, 0 if it is not there yet. In one of 2^32 cases it is another site.
//
// Most recordings change sites in the order in which they changed them before. In these
// the next site is found with no search. Where that fails, it would only load one more
// line for each poke, so the search begins at once as long as it fails.
func (b *Builder) lookUp(pokes []ShortPoke) {
	touched, last, hits := uint64(0), b.last+1, 0
	if b.searches {
		// Each loop's loads do not wait for one another, so they are done before the next
		// loop needs what they loaded.
		for i := range pokes {
			b.found[i] = b.siteAt.likely(pokes[i].Addr)
		}
		for _, k := range b.found[:len(pokes)] {
			if k != 0 {
				s := &b.sites[k-1]
				touched += s.addr + b.words[k-1][0]
			}
			if k == last+1 {
				hits++
			}
			last = k
		}
	} else {
		is := func(k uint32, p *ShortPoke) bool { return k < uint32(len(b.sites)) && b.sites[k].addr == p.Addr }
		// Where something else comes between, such as a slot, the order goes on behind it.
		left, inOrder := last, true
		for i := range pokes {
			p, k := &pokes[i], last
			ok := is(k, p)
			if ok {
				hits++
			} else if inOrder {
				left = last
			} else {
				k, ok = left, is(left, p)
			}
			if inOrder = ok; !ok {
				k, ok = b.siteAt.find(b.sites, p.Addr)
			}
			if b.found[i] = 0; ok {
				b.found[i], last = k+1, k+1
				touched += b.words[k][0]
			}
		}
	}
	b.searches = 2*hits < len(pokes)
	b.touched += touched
}

// A siteTable finds the site of an address: a hash table with open addressing. A slot has
// the low half of an address, so that few sites are looked at which are of other ones, and
// below it the number of the site. factor is that of [spread.Key].
type siteTable struct {
	slots  []uint64 // 0: free; uint32(addr) << 32 | 1 + the site
	shift  uint8
	factor uint64 // odd
}

// home returns the slot at which the search for an address begins.
func (t *siteTable) home(addr uint64) uint64 { return spread.Key(addr, t.factor) >> t.shift }

// likely returns 1 + the site whose address has the low half of addr, 0 if there is none.
func (t *siteTable) likely(addr uint64) uint32 {
	mask := uint64(len(t.slots) - 1)
	for i := t.home(addr); ; i = (i + 1) & mask {
		if v := t.slots[i&mask]; v == 0 || uint32(v>>32) == uint32(addr) {
			return uint32(v)
		}
	}
}

// find returns the site at addr.
func (t *siteTable) find(sites []site, addr uint64) (uint32, bool) {
	mask := uint64(len(t.slots) - 1)
	for i := t.home(addr); ; i = (i + 1) & mask {
		v := t.slots[i]
		if v == 0 {
			return 0, false
		}
		if k := uint32(v) - 1; uint32(v>>32) == uint32(addr) && sites[k].addr == addr {
			return k, true
		}
	}
}

// insert adds the last of sites. At most half of the slots are used.
func (t *siteTable) insert(sites []site) {
	if 2*len(sites) > len(t.slots) {
		t.slots = memory.Zeroed[uint64](2 * len(t.slots))
		t.shift--
		for k := range sites {
			t.place(sites, uint32(k))
		}
		return
	}
	t.place(sites, uint32(len(sites)-1))
}

func (t *siteTable) place(sites []site, k uint32) {
	mask := uint64(len(t.slots) - 1)
	i := t.home(sites[k].addr)
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = uint64(uint32(sites[k].addr))<<32 | uint64(k+1)
}
