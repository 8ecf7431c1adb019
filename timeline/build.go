// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"maps"
	"math/bits"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"sync"

	"github.com/textreplay/textreplay/internal/memory"
)

// Build makes an image of all facts that were added so far. Facts may be added
// afterwards; they do not change the image. The image reads the snapshot's bytes in
// place. The only error is [ErrTooLarge].
func (b *Builder) Build() (*Image, error) { return b.build(false) }

// Finish is [Builder.Build] for the last image, and takes less memory: the builder, its clones and
// those that it was cloned from must not be used any more.
func (b *Builder) Finish() (*Image, error) { return b.build(true) }

// build makes an image. consume says that the log is not needed any more.
func (b *Builder) build(consume bool) (*Image, error) {
	b.settle()
	b = b.withWindows()
	consume = consume && b.added >= b.limits.consume
	switch {
	case consume && b.added >= veryManyPokes:
		b.queue.current, b.queue.empty = nil, nil
		debug.FreeOSMemory()
	case consume, b.added >= manyPokes:
		b.queue.current, b.queue.empty = nil, nil
		runtime.GC()
	}
	index := b.index()
	d := newBuild(b, index)
	d.pairs = b.pairing()
	d.consume = consume && d.pairs == nil
	im := d.image()
	if d.pairs != nil && (d.textCrowded || im.contradicted()) {
		d = newBuild(b, index)
		im = d.image()
	}
	if d.tooLarge {
		return nil, ErrTooLarge
	}
	return im, nil
}

// manyPokes is from how many pokes on Build has the garbage collected first: what reading
// them has left is then a small part of what the image takes, and is used for it.
const manyPokes = 1 << 20

// veryManyPokes is from how many pokes on the system gets back what reading them has left. A million leaves 20
// MB, and the image needs as much at once: a virtual machine may take longer to get it again than for all else.
const veryManyPokes = 1 << 22

// manyLives is from how many lifetimes on the memory that it took to derive them is worth collecting.
const manyLives = 1 << 14

// build is the working state of one Build.
type build struct {
	*Builder
	index     siteIndex
	consume   bool    // parts of the log are given up when the histories of their sites are there
	only      []Range // the addresses that the image has, see widened; nil: all
	codeFacts int     // how many symbols and modules there are
	arena     []byte  // the builder's, and behind it the code of programs and copies
	tooLarge  bool
	// textCrowded is set if a piece of core text has too many facts to find out
	// whether they contradict one another.
	textCrowded bool

	orders     []pokeOrder       // by site
	irregular  map[uint32][]poke // the pokes of sites that were examined, by time, without duplicates
	order      []uint32          // sites by address
	gaps       [gapClasses]gaps  // by gapClass
	pairs      *gaps             // those of core text that count between two pokes too; nil: all of them
	im         *Image
	changes    []change    // scratch
	confirming []change    // scratch of alive
	longer     []change    // scratch of hasMore
	misfits    []change    // scratch of history
	former     [2][]change // scratch of leave
	times      []uint64    // scratch of hadBrief
	firstEarly [1]change   // scratch of outOfOrder
	reader     *reader
	readers    *readerPool
	cluster    []poke    // scratch
	out        []version // scratch
	codeOff    map[*Lifetime]uint32
	readOf     map[*Lifetime]readCode // of BPF images
	liveSet    *liveSet               // all lifetimes
	foundAgain map[uint64]SymbolEvent // births that perf announced too, by address
	unsure     map[unsureKey]gaps     // of lifetimes that are unsure: the gaps of their bytes

	lifetimes livesByPlace // of all code that comes and goes
	brief     livesByPlace // of code that came and went at one time, as a coarse clock shows it

	skew      uint64            // by how much the CPUs' clocks differ, as far as the records show; at last see SkewAtLeast
	moved     map[uint32]uint64 // the times of pokes that were recorded in the wrong order, by their order of arrival
	rivals    rivalSet          // those that may have come in another order
	perSite   *siteRivals       // what a worker of eachSite has found of these; nil: it is no worker
	different []poke            // scratch of differentOf
	claimed   []claim           // scratch of unsettled and blur
	// exchanged has the CPUs of pokes of one time that are not in the order of their arrival, by the
	// order that they have.
	exchanged map[uint32]uint16
	copied    []furtherSnapshot // further snapshots of text, by time
	traps     []Range           // places where the snapshot may have a trap, see findTraps

	possible  []*orderSet // see findOrders
	openSites []siteDoubt // see textMemory.round
	allCPUs   bool        // it is known which CPU recorded each poke, see knowsCPUs

	afterCopy Reason // why a module may have gone right after the snapshot was taken; none: it cannot have

	explicit windowsByPlace // of windows

	segments []Segment // of the snapshot and of the seed, by address
	isSeed   []bool    // whether each is the seed's
}

func newBuild(b *Builder, index siteIndex) *build {
	return &build{Builder: b, index: index, codeFacts: len(b.symbols) + len(b.modules), arena: slices.Clip(b.arena), reader: new(reader), readers: new(readerPool), only: b.imaged(),
		explicit: windowsByPlaceOf(b.windows)}
}

// A gapClass is a kind of memory, by which unrecorded changes can hit it.
type gapClass uint8

const (
	gapsOfText   gapClass = iota // pokes
	gapsOfCode                   // pokes, births and deaths: BPF programs, out-of-line code
	gapsOfSlots                  // the same, where the kernel records no pokes
	gapsOfModule                 // pokes, and unloads of modules
	gapsOfStayed                 // the same for a module that is certain to have stayed at first
	gapsOfThunk                  // all time
	gapClasses
)

// image makes the image, in the steps that the comment of package timeline shows.
func (d *build) image() *Image {
	d.segments, d.isSeed = d.snapshot.Segments, nil
	if len(d.seed) > 0 {
		d.segments, d.isSeed = d.seeded()
	}
	d.im = &Image{first: d.first, horizon: d.horizon, segments: d.segments,
		textLo: d.textLo, textHi: d.textHi}
	bounds := d.bounds()
	d.gaps[gapsOfText] = flatten(append(slices.Clone(d.Builder.gaps[GapPokes]), bounds...))
	d.gaps[gapsOfCode] = flatten(append(slices.Clone(d.Builder.gaps[GapSymbols]), bounds...)).union(d.births())
	d.gaps[gapsOfSlots] = d.gaps[gapsOfText].union(d.gaps[gapsOfCode])
	if !d.silentPokes {
		d.gaps[gapsOfCode] = d.gaps[gapsOfSlots]
	}
	d.gaps[gapsOfStayed] = d.gaps[gapsOfText].union(flatten(d.Builder.gaps[GapModules]))
	d.gaps[gapsOfModule] = d.gaps[gapsOfStayed].union(flatten(d.Builder.gaps[GapModuleStart]))
	d.gaps[gapsOfThunk] = always(ThunkPadding)
	if start := d.Builder.gaps[GapModuleStart]; len(start) > 0 {
		d.afterCopy = start[0].reason
	}

	d.skew, d.moved = d.Builder.skew, maps.Clone(d.delayed)
	lives := d.findLifetimes()
	d.lifetimes = byPlace(lives)
	d.sortPokes()
	byLo := d.lifetimes.lives
	if d.clocksDiffer() {
		d.skew = max(d.skew, d.minSkew)
	}
	if d.skew > 0 {
		lives = d.findLifetimes() // by wider gaps
		byLo = sortedByLo(lives)
	}
	for class := range d.gaps {
		d.gaps[class] = d.gaps[class].widen(d.skew)
	}
	if d.pairs != nil {
		*d.pairs = d.pairs.widen(d.skew)
	}
	d.doubtModules(lives)
	d.codeOff = make(map[*Lifetime]uint32)
	for _, l := range lives {
		if l.code == nil {
			continue
		}
		if !d.limits.hold(d.arena, len(l.code.data)) {
			continue // as if the recording had no info of it
		}
		d.codeOff[l] = uint32(len(d.arena))
		d.arena = append(d.arena, l.code.data...)
	}
	d.joinCodeReads(lives)
	d.compareSnapshots(lives)
	var code []*cluster
	if d.looksForOrders() {
		code = d.clusters()
	}
	d.only = d.widened(lives, code)
	d.im.only = d.only
	d.possible = d.findOrders(code)
	if d.consume && len(lives) >= manyLives {
		d.Builder.symbols = nil // the lifetimes have all of them
		debug.FreeOSMemory()
	}
	d.im.arena = d.arena
	var padding, written []Range
	allInParallel(
		func() { d.traps = d.findTraps(d.snapshot.Segments, byLo) },
		func() { padding, written = d.thunkPadding() })
	d.unloadCopy() // nearly all of the text was looked at

	// Room for about as many as there will be: these tables are most of the memory.
	d.im.fragments = make([]fragment, 0, 2*len(d.sites)+1<<10) // each place, what is between two, and some code that comes and goes
	d.im.leaves = roomFor[leaf](d, int(d.added)/d.likelyPerLeaf()+2*len(d.sites)+64)
	if leaves := int(d.added) / d.likelyPerLeaf(); leaves > len(d.sites)*sideBySide {
		d.im.nodes = roomFor[node](d, nodesFor(leaves, len(d.sites)))
	}
	d.im.states = make([]storedState, 0, (2*len(d.sites)+16)*stateLine)
	d.fragments(byLo, padding, written)
	d.im.indexPages()
	d.im.indexLives(byLo)
	d.im.names = d.Builder.names
	return d.im
}

// roomFor returns room for n rows of a table that an assembly fills.
func roomFor[T any](d *build, n int) []T {
	if d.consume {
		return memory.Unasked[T](n) // see provide
	}
	return memory.Uncleared[T](n)
}

// bounds returns the gaps before the first record, beyond the horizon, and around the
// pokes that were beyond the limits.
func (b *Builder) bounds() []gap {
	out := []gap{{0, b.first, OutsideRecording}}
	if b.horizon != MaxTime {
		out = append(out, gap{b.horizon + 1, MaxTime, BeyondHorizon})
	}
	if b.dropped.to > 0 {
		out = append(out, b.dropped)
	}
	return out
}

// A pokeOrder says how the pokes of a site get into the order of time.
type pokeOrder uint8

const (
	asAdded   pokeOrder = iota // they are in it
	onceTimed                  // sorting them by time is enough
	examined                   // build.irregular has them
)

// A siteDoubt says whether the pokes of a site may have begun with any of them, see textMemory.round.
type siteDoubt uint8

const (
	closedSite siteDoubt = iota // no: the copy shows what was there first, or the times of the first ones
	openIfSeen                  // only where clocks are seen to differ
	openSite                    // yes: no copy shows what was there first, or something is lost
)

// sortPokes sorts the sites by address. It finds the sites whose pokes were not added in
// the order of time, drops the pokes that perf wrote twice (rule duplicates), and compares
// the CPUs' clocks (rule clocks).
func (d *build) sortPokes() {
	b := d.Builder
	type place struct {
		addr uint64
		site uint32
	}
	places := make([]place, len(b.sites))
	for i := range places {
		places[i] = place{b.sites[i].addr, uint32(i)}
	}
	slices.SortFunc(places, func(x, y place) int { return cmp.Compare(x.addr, y.addr) })
	d.order = make([]uint32, len(places))
	for i := range places {
		d.order[i] = places[i].site
	}

	d.orders, d.openSites = make([]pokeOrder, len(b.sites)), make([]siteDoubt, len(b.sites))
	d.eachSite(func(w *build, i uint32) {
		s, r := &b.sites[i], w.reader
		first := d.index.firstPoke(b, i)
		switch {
		case s.irregular && d.moved == nil:
			r.list = r.pokes(b, &d.index, i, r.list[:0])
			sortByTime(r.list)
			d.orders[i], first = onceTimed, r.list[0]
			if !d.isPlain(s, r.list) {
				d.orders[i] = examined
			} else if !d.continues && !d.firstGoesRound(r.list, d.apartUnseen()) {
				d.openSites[i] = openIfSeen
			}
		case s.irregular || d.found(nil, 0, &first, int(b.edits[first.edit].olen)) == linkBroken:
			d.orders[i] = examined
		}
		if d.openSites[i] == closedSite && d.copiedText(&first, int(b.edits[first.edit].olen)) == nil {
			d.openSites[i] = openSite
		}
	})

	d.irregular = make(map[uint32][]poke)
	for i, order := range d.orders {
		switch {
		case order == examined:
			d.irregular[uint32(i)] = d.sorted(d.reader.pokes(b, &d.index, uint32(i), make([]poke, 0, b.sites[i].pokes)))
		case d.twice != nil:
			d.unordered(d.of(d.reader, uint32(i)))
		}
	}
	seen := d.clocksDiffer()
	if !seen && !d.differ {
		return
	}
	apart := d.apart()
	several := slices.ContainsFunc(b.cpus, func(r cpuRun) bool { return r.cpu != b.cpus[0].cpu })
	calm := len(d.gaps[gapsOfText].between(b.first, Later(b.horizon, 1))) == 0
	d.eachSite(func(w *build, i uint32) {
		s, order := &b.sites[i], d.orders[i]
		// Of more than two changes of kernel text each of which finds what the one before it left,
		// with no gap between, no two are undecided.
		fits := calm && order != examined && !w.hasRivals(i) && s.pokes > 2 && d.textLo <= s.addr && s.addr+uint64(s.longest) <= d.textHi
		if seen && order == examined {
			w.jumble(d.irregular[i], true)
		}
		if open := &d.openSites[i]; s.pokes < 2 || !several {
			*open = closedSite
		} else if !calm || seen && *open == openIfSeen {
			*open = openSite
		}
		if s.pokes > 1 && !fits {
			if list := w.of(w.reader, i); order == examined || w.mayBeUndecided(list, apart) {
				w.undecided(list, apart)
			}
		}
	})
}

// eachSite calls f with each site, on all CPUs. w is the goroutine's: what it finds out of rivals, which are of one
// site, d knows afterwards.
func (d *build) eachSite(f func(w *build, i uint32)) {
	const most, enough = 256, 1 << 13 // sites, and pokes, that a worker takes at once
	var lock sync.Mutex
	next := 0
	take := func() (from, to int) {
		lock.Lock()
		defer lock.Unlock()
		from = next
		for pokes := 0; next < len(d.sites) && next < from+most && pokes < enough; next++ {
			pokes += int(d.sites[next].pokes)
		}
		return from, next
	}
	var all []*siteRivals
	inParallel(min(runtime.GOMAXPROCS(0), len(d.sites)/most+1), func() {
		w := *d
		w.reader, w.perSite, w.different = d.readers.get(), new(siteRivals), nil
		defer d.readers.put(w.reader)
		for from, to := take(); from < to; from, to = take() {
			for i := from; i < to; i++ {
				w.perSite.next()
				f(&w, uint32(i))
			}
		}
		lock.Lock()
		defer lock.Unlock()
		all = append(all, w.perSite)
	})
	for _, s := range all {
		d.rivals.take(s, len(d.sites))
	}
}

// isPlain reports whether the pokes of a site, sorted by time, have different times, and
// each finds what the one before it left.
func (d *build) isPlain(s *site, list []poke) bool {
	if s.shortest != s.longest || d.found(list, 0, &list[0], int(s.longest)) != linkFits {
		return false
	}
	for i := range list[1:] {
		if list[i].time == list[i+1].time || !d.follows(&list[i], &list[i+1]) {
			return false
		}
	}
	return true
}

// sortByTime sorts pokes by the time of their records. Those of equal time keep their
// order. It is fast if each is close to its place, or if there are few runs of
// ascending times, as in a recording, where each part has the pokes of one CPU after those of another.
func sortByTime(list []poke) {
	moves := 4 * len(list)
	for i := 1; i < len(list); i++ {
		if list[i].time >= list[i-1].time {
			continue
		}
		p, k := list[i], i
		for ; k > 0 && p.time < list[k-1].time; k-- {
			list[k] = list[k-1]
		}
		list[k] = p
		if moves -= i - k; moves < 0 {
			mergeRuns(list)
			return
		}
	}
}

// mergeRuns sorts pokes by time, as sortByTime does: it merges neighbours among the runs of ascending
// times until one is left.
//
//	times   5 6 9 │ 2 7 │ 8 8 │ 3
//	        2 5 6 7 9   │ 3 8 8
//	        2 3 5 6 7 8 8 9
//
// Of two neighbours only the part in which their times overlap is moved. In a recording that is
// short, for all but the runs of one part. So this takes less time than [InTimeOrder], which compares
// the runs of all parts with one another.
func mergeRuns(list []poke) {
	starts := []int{0}
	for i := 1; i < len(list); i++ {
		if list[i].time < list[i-1].time {
			starts = append(starts, i)
		}
	}
	var first []poke // the part of the first run
	for len(starts) > 1 {
		left := starts[:0]
		for i := 0; i < len(starts); i += 2 {
			lo, hi := starts[i], len(list)
			left = append(left, lo)
			if i+1 == len(starts) {
				break
			}
			mid := starts[i+1]
			if i+2 < len(starts) {
				hi = starts[i+2]
			}
			lo += sort.Search(mid-lo, func(k int) bool { return list[lo+k].time > list[mid].time })
			first = append(first[:0], list[lo:mid]...)
			mergeTwo(list[lo:hi], first, list[mid:hi])
		}
		starts = left
	}
}

// mergeTwo merges a and b into to, which is as long as both and ends with b. Nobody can foresee which of two pokes is
// the next one, so no branch depends on it.
func mergeTwo(to, a, b []poke) {
	n, m := 0, 0 // how many of a and b are merged
	for n < len(a) && m < len(b) {
		p, q, next := &a[n], &b[m], &to[n+m]
		_, later := bits.Sub64(q.time, p.time, 0) // 1 if q comes first
		mask := -uint32(later)
		next.time, next.edit, next.order = min(p.time, q.time), p.edit^(p.edit^q.edit)&mask, p.order^(p.order^q.order)&mask
		n, m = n+1-int(later), m+int(later)
	}
	copy(to[n+m:], a[n:])
}

// sorted returns a site's pokes in the order of time, without duplicates. It reuses list.
//
// If another CPU undid a poke at the same time, an equal record behind that is either the same poke
// again or its duplicate. Then it is not known which was the last, whichever order the file has:
//
//	CPU 3: A > B   CPU 0: B > A   CPU 3: A > B      B, or A
//	CPU 3: A > B   CPU 3: A > B   CPU 0: B > A      A, or B
func (d *build) sorted(list []poke) []poke {
	sortedByTime(list, func(p poke) uint64 { return d.timeOf(&p) })
	s := &d.sites[d.edits[list[0].edit].site]
	n, plain := 1, s.shortest == s.longest && d.found(list, 0, &list[0], int(s.longest)) == linkFits
	var now written  // the pokes of the newest time, where there are several
	since := 0       // the first of them
	dropped := false // one of them may be a duplicate
	var open []int   // pairs: the pokes of a time, from the first to the last, of which one may be a duplicate
	end := func() {
		if dropped && slices.ContainsFunc(list[since:n], func(p poke) bool { return d.cpuOf(&p) != d.cpuOf(&list[since]) }) {
			open = append(open, since, n)
		}
		now, since, dropped = nil, n, false
	}
	for i := range list[1:] {
		p, last := &list[1:][i], &list[n-1]
		if p.time != last.time {
			end()
		} else {
			if now == nil {
				now = written{d.writeOf(last): true}
			}
			w := d.writeOf(p)
			if now[w] && (w == d.writeOf(last) || !d.follows(last, p)) {
				d.im.duplicates++
				dropped = true
				continue
			}
			dropped = dropped || now[w] && w.cpu != d.cpuOf(last)
			now[w] = true
			plain = plain && w.cpu == d.cpuOf(last)
		}
		plain = plain && d.follows(last, p)
		list[n] = *p
		n++
	}
	end()
	list = list[:n]
	for ; len(open) > 0; open = open[2:] {
		d.rival(list[open[0]:open[1]]...)
	}
	d.unordered(list)
	if !plain {
		d.unskew(list)
		d.jumble(list, false)
	}
	return list
}

// A write is an edit that a CPU made, of bytes of a site. If a CPU makes the same edit twice at one
// time, perf wrote its record twice, unless the bytes were changed back between. A site with many
// edits may have one of them twice.
type write struct {
	old, new string
	cpu      uint16
}

// written is the set of writes of one site at one time. A damaged recording can have
// very many of one time.
type written map[write]bool

func (d *build) writeOf(p *poke) write {
	return write{string(d.oldOf(p)), string(d.newOf(p)), d.cpuOf(p)}
}

// of returns the pokes of a site by time. They are valid until r is used again.
func (d *build) of(r *reader, site uint32) []poke {
	order := d.orders[site]
	if order == examined {
		return d.irregular[site]
	}
	r.list = r.pokes(d.Builder, &d.index, site, r.list[:0])
	if order == onceTimed {
		sortByTime(r.list)
	}
	return r.list
}

// gather puts the pokes of several sites into d.cluster, by time.
func (d *build) gather(sites []uint32) {
	d.cluster = d.cluster[:0]
	for _, s := range sites {
		d.cluster = append(d.cluster, d.of(d.reader, s)...)
	}
	if len(sites) > 1 {
		slices.SortFunc(d.cluster, func(x, y poke) int {
			return cmp.Or(cmp.Compare(d.timeOf(&x), d.timeOf(&y)), cmp.Compare(x.order, y.order))
		})
	}
}

// isUnpatched reports whether a fragment is core text that only the snapshot says
// anything of. All such fragments share their versions.
func (d *build) isUnpatched(p *piece, f *fragment) bool {
	return p.text && len(p.sites) == 0 && !p.padding && !p.thunk && f.seg >= 0 && !d.fromSeed(f) && d.likeSnapshot(f) && len(d.gapsAt(p.lo)) == 0 && !d.copiedTrap(p.lo) &&
		len(d.windowsAt(p.lo)) == 0
}

// copiedTrap reports whether a copy of text may have been made while a trap was at addr.
func (d *build) copiedTrap(addr uint64) bool {
	return inRanges(d.traps, addr) || slices.ContainsFunc(d.copied, func(c furtherSnapshot) bool { return inRanges(c.traps, addr) })
}

// changesOf returns what pokes do to a fragment. It is valid until the next call.
func (d *build) changesOf(f *fragment, pokes []poke) []change {
	d.changes = d.appendChanges(d.changes[:0], f, pokes)
	return d.changes
}

// appendChanges appends what pokes do to a fragment.
func (d *build) appendChanges(changes []change, f *fragment, pokes []poke) []change {
	changes = slices.Grow(changes, len(pokes)) // at once: of some places there are very many
	for i := range pokes {
		p := &pokes[i]
		e := &d.edits[p.edit]
		addr := d.sites[e.site].addr
		if f.addr < addr {
			continue
		}
		k := f.addr - addr
		hasOld, hasNew := k < uint64(e.olen), k < uint64(e.nlen)
		if !hasOld && !hasNew {
			continue
		}
		// In place and field by field: there are very many.
		changes = append(changes, change{})
		c := &changes[len(changes)-1]
		c.time, c.recorded, c.order, c.offset = d.timeOf(p), p.time, p.order, uint32(k)
		c.old, c.new, c.hasOld, c.hasNew = noContent, noContent, hasOld, hasNew
		if hasOld {
			c.old = e.old + uint32(k)
		}
		if hasNew {
			c.new = e.new + uint32(k)
		}
		c.first, c.birth, c.death = k == 0, e.olen == 0, e.nlen == 0
		if p.order < uint32(len(d.began)) {
			c.began = d.began[p.order]
		}
		c.calls = e.olen == 5 && e.nlen == 5 && byte(e.oldWord) == opCALL && byte(e.newWord) == opCALL && f.size == 5
	}
	return changes
}
