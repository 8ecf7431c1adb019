// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// The records of a cluster, as its possible orders need them (orders.go).

// A cluster is code that shares addresses, with the symbols and sites that name them.
type cluster struct {
	lo, hi  uint64
	symbols []int // of Builder.symbols
	sites   []uint32
}

// clusters returns the clusters in which code comes or goes, by address.
func (d *build) clusters() []*cluster {
	// What has one address is found first, since code comes and goes at few addresses again and again.
	at := make(map[uint64]int)
	var all []*cluster
	here := func(lo, n uint64) *cluster {
		k, ok := at[lo]
		if !ok {
			k = len(all)
			at[lo] = k
			all = append(all, &cluster{lo: lo})
		}
		all[k].hi = max(all[k].hi, lo+n)
		return all[k]
	}
	for i := range d.symbols {
		if e := &d.symbols[i]; e.Len > 0 && e.Addr+uint64(e.Len) > e.Addr {
			c := here(e.Addr, uint64(e.Len))
			c.symbols = append(c.symbols, i)
		}
	}
	if len(all) == 0 {
		return nil
	}
	for i := range d.sites {
		if s := &d.sites[i]; s.addr < d.textLo || d.textHi <= s.addr {
			c := here(s.addr, uint64(s.longest))
			c.sites = append(c.sites, uint32(i))
		}
	}
	slices.SortFunc(all, func(a, b *cluster) int { return cmp.Compare(a.lo, b.lo) })
	out := all[:0]
	for _, c := range all {
		if n := len(out); n > 0 && c.lo < out[n-1].hi {
			o := out[n-1]
			o.hi = max(o.hi, c.hi)
			o.symbols, o.sites = append(o.symbols, c.symbols...), append(o.sites, c.sites...)
			continue
		}
		out = append(out, c)
	}
	out = slices.DeleteFunc(out, func(c *cluster) bool { return len(c.symbols) == 0 })
	for _, c := range out {
		slices.Sort(c.symbols)
	}
	return out
}

// A patch is the bytes of a poke.
type patch struct {
	addr     uint64
	old, new []byte
}

// records returns the records of a cluster in no order, and the bytes of those that are pokes; nil if they
// are more than mostRecords, or not all of their CPUs are known.
func (c *cluster) records(d *build) (all []orderedRecord, patches []patch) {
	if len(c.symbols)+c.count(d) > mostRecords {
		return nil, nil
	}
	for k, i := range c.symbols {
		e := &d.symbols[i]
		if e.Time == 0 {
			continue // it was there before all records
		}
		if e.CPU < 0 || e.kindOf(false) == BPFImage { // an image has no certain length
			return nil, nil
		}
		all = append(all, orderedRecord{time: e.Time, cpu: e.CPU, arrival: uint32(i), symbol: e,
			double: slices.ContainsFunc(c.symbols[:k], func(o int) bool { return d.symbols[o] == *e })})
	}
	pokes := c.pokes(d, nil)
	if !d.knowsCPUs(pokes) {
		return nil, nil
	}
	return d.recordsOf(pokes, all, nil)
}

// count returns how many pokes a cluster has.
func (c *cluster) count(d *build) (n int) {
	for _, s := range c.sites {
		n += int(d.sites[s].pokes)
	}
	return n
}

// pokes appends the pokes of a cluster to a list that is empty, by time, and those of one time as they arrived. Here are also
// those that perf wrote twice, which build.of has not.
func (c *cluster) pokes(d *build, to []poke) []poke {
	for _, s := range c.sites {
		to = d.reader.pokes(d.Builder, &d.index, s, to)
	}
	if len(c.sites) == 1 {
		sortByTime(to)
	} else {
		slices.SortFunc(to, func(p, q poke) int { return cmp.Or(cmp.Compare(p.time, q.time), cmp.Compare(p.order, q.order)) })
	}
	return to
}

// knowsCPUs reports whether it is known which CPU recorded each of some pokes.
func (d *build) knowsCPUs(pokes []poke) bool {
	return d.allCPUs || !slices.ContainsFunc(pokes, func(p poke) bool { return d.Builder.cpuOf(&p) == unknownCPU })
}

// recordsOf appends the records of pokes, which are sorted as cluster.pokes does, and their bytes.
func (d *build) recordsOf(pokes []poke, all []orderedRecord, patches []patch) ([]orderedRecord, []patch) {
	for i := range pokes {
		p := &pokes[i]
		r := orderedRecord{time: p.time, cpu: int(d.Builder.cpuOf(p)), arrival: p.order, first: len(patches)}
		for k := i - 1; k >= 0 && pokes[k].time == p.time; k-- {
			r.double = r.double || pokes[k].edit == p.edit && int(d.Builder.cpuOf(&pokes[k])) == r.cpu
		}
		all, patches = append(all, r), append(patches, d.patchOf(p))
	}
	return all, patches
}

// patchOf returns what a poke changes.
func (d *build) patchOf(p *poke) patch {
	return patch{d.sites[d.edits[p.edit].site].addr, d.oldOf(p), d.newOf(p)}
}

// An orderedRecord is a poke, a birth or a death.
type orderedRecord struct {
	time        uint64
	cpu         int
	arrival     uint32       // among those of its kind
	symbol      *SymbolEvent // nil: it is a poke
	id          uint8        // of a birth, or a death
	first, last int          // its parts
	old, new    []uint8      // of a poke: the values of its parts
	double      bool         // perf may have written an earlier one twice
}

// An orderedProgram is the code that perf read of a program.
type orderedProgram struct {
	first  int
	values []uint8        // of its parts; otherValue: it may be part of a change
	own    *orderedRecord // the birth before its LOAD
	births uint64         // ids of those that it may be of, as a set
}

// An ordering has the records of an orderSet.
type ordering struct {
	orderSet
	lanes    [][]*orderedRecord
	symbols  []*orderedRecord // births and deaths, by id
	programs []orderedProgram
	apart    uint64 // by how much clocks may differ
	differ   bool   // they are seen to differ
	off      uint64 // how far a time that is asked may be from that of the CPU that made a record
	budget   int    // states that may be looked at; less than 0: there are more
	looked   int    // states that were looked at
	start    orderState
	since    []uint64    // times before all records
	before   *textMemory // of kernel text: what is there before all records
	behind   []uint8     // of each part: the value that the next poke finds, 0: that is not known
	outcomes map[orderState]*orderOutcome
	steps    []orderState // scratch of follow
	numbers  []uint8      // memory of valuesOf
}

// spanOf returns the times of the first record and of the last one.
func spanOf(records []orderedRecord) (first, last uint64) {
	first = MaxTime
	for i := range records {
		first, last = min(first, records[i].time), max(last, records[i].time)
	}
	return first, last
}

// lane returns 0 for births and deaths, 1 for pokes.
func (r *orderedRecord) lane() int {
	if r.symbol != nil {
		return 0
	}
	return 1
}

// inLanes compares two records by CPU and lane, and then by when they came.
func (r orderedRecord) inLanes(o orderedRecord) int {
	return cmp.Or(cmp.Compare(r.cpu, o.cpu), cmp.Compare(r.lane(), o.lane()), cmp.Compare(r.time, o.time), cmp.Compare(r.arrival, o.arrival))
}

// take takes the records of [from, to), which are in the order of inLanes and are its own from then on. It reports whether
// they are few enough. Of text, it leaves no states to look at if they are too many for search.
func (o *ordering) take(records []orderedRecord, patches []patch) bool {
	edges := []uint64{o.lo, o.hi}
	edge := func(addr uint64) {
		if !slices.Contains(edges[:min(len(edges), 8)], addr) { // most are of few addresses
			edges = append(edges, addr)
		}
	}
	all := make([]*orderedRecord, 0, len(records))
	o.times = make([]uint64, 0, len(records)+len(o.since))
	for i := range records {
		r := &records[i]
		if r.time < o.from || o.to <= r.time {
			continue
		}
		all = append(all, r)
		if r.symbol != nil {
			edge(r.symbol.Addr)
			edge(r.symbol.Addr + uint64(r.symbol.Len))
			r.id = uint8(len(o.symbols))
			o.symbols = append(o.symbols, r)
		} else {
			p := &patches[r.first]
			edge(p.addr)
			edge(p.addr + uint64(len(p.old)))
			edge(p.addr + uint64(len(p.new)))
		}
		o.times = append(o.times, r.time)
	}
	o.times = append(o.times, o.since...)
	slices.Sort(o.times)
	o.times = slices.Compact(o.times)
	slices.Sort(edges)
	o.edges = slices.Compact(edges)
	if len(o.symbols) == 0 && o.before == nil || len(o.symbols) > mostSymbols || len(o.edges)-1 > mostParts {
		return false
	}
	many := len(all) > mostOrdered
	o.values, o.numbers = make([][][]byte, len(o.edges)-1), make([]uint8, 0, 2*len(all))
	for i, r := range all {
		if n := len(o.lanes); i == 0 || all[i-1].cpu != r.cpu || all[i-1].lane() != r.lane() {
			o.lanes = append(o.lanes, all[i:i+1])
		} else {
			o.lanes[n-1] = append(o.lanes[n-1], r)
		}
		if r.symbol != nil {
			r.first, r.last = o.part(r.symbol.Addr), o.part(r.symbol.Addr+uint64(r.symbol.Len))
			continue
		}
		p := &patches[r.first]
		r.first, r.last = o.part(p.addr), o.part(p.addr+uint64(max(len(p.old), len(p.new))))
		r.old, r.new = o.valuesOf(p.addr, p.old), o.valuesOf(p.addr, p.new)
	}
	if many = many || len(o.lanes) > mostLanes; many {
		o.budget = 0
	}
	return !many || o.before != nil
}

// mayCross reports whether two records of different CPUs may be in the wrong order, a program's LOAD may be of another
// birth, or a record may be a duplicate.
func (o *ordering) mayCross() bool {
	if slices.ContainsFunc(o.programs, func(p orderedProgram) bool { return bits.OnesCount64(p.births) > 1 }) {
		return true
	}
	for i, a := range o.lanes {
		if slices.ContainsFunc(a, func(r *orderedRecord) bool { return r.double }) {
			return true
		}
		for _, b := range o.lanes[:i] {
			if a[0].cpu == b[0].cpu {
				continue
			}
			for _, r := range a {
				k := sort.Search(len(b), func(k int) bool { return Later(b[k].time, o.apart) >= r.time })
				if k < len(b) && b[k].time <= Later(r.time, o.apart) {
					return true
				}
			}
		}
	}
	return false
}

// part returns the part that begins at an edge.
func (o *ordering) part(edge uint64) int {
	k, _ := slices.BinarySearch(o.edges, edge)
	return k
}

// valuesOf returns the values of the parts that b, which begins at an edge, covers.
func (o *ordering) valuesOf(addr uint64, b []byte) []uint8 {
	first := len(o.numbers)
	for k := o.part(addr); len(b) > 0; k++ {
		n := min(o.edges[k+1]-o.edges[k], uint64(len(b)))
		o.numbers = append(o.numbers, o.valueOf(k, b[:n]))
		b = b[n:]
	}
	return o.numbers[first:len(o.numbers):len(o.numbers)]
}

// valueOf returns the value that a part has with the bytes b.
func (o *ordering) valueOf(k int, b []byte) uint8 {
	i := slices.IndexFunc(o.values[k], func(v []byte) bool { return bytes.Equal(v, b) })
	if i < 0 && len(o.values[k]) <= mostValues {
		i, o.values[k] = len(o.values[k]), append(o.values[k], b)
	}
	return uint8(i + 1)
}

// muchNearer is how many times as far from the LOAD of a program as the birth before it another one must be, so that it
// cannot be the program's.
const muchNearer = 64

// A readProgram is a function of a program as perf read it.
type readProgram struct {
	*Segment
	loaded, unloaded uint64 // its LOAD and its UNLOAD; 0: that is not recorded
}

// programsByAddr returns the code that perf read while the recording was made.
func (d *build) programsByAddr() (out []readProgram) {
	for i := range d.programs {
		p := &d.programs[i]
		if p.LoadTime == 0 || p.Late || p.Undated {
			continue
		}
		for k := range p.Funcs {
			out = append(out, readProgram{&p.Funcs[k], p.LoadTime, p.Unloaded})
		}
	}
	slices.SortStableFunc(out, func(a, b readProgram) int { return cmp.Compare(a.Addr, b.Addr) })
	return out
}

// takePrograms takes the code in the cluster, out of all that perf read, and finds out which births it may be of. A
// LOAD is recorded right behind its birth; the task may have moved to another CPU between the two. It reports
// whether programs and values are few enough.
func (o *ordering) takePrograms(programs []readProgram, patches []patch) bool {
	i := sort.Search(len(programs), func(i int) bool { return programs[i].Addr >= o.lo })
	for ; i < len(programs) && programs[i].Addr < o.hi; i++ {
		f := programs[i]
		if f.loaded < o.from || o.to <= f.loaded {
			continue
		}
		var x orderedProgram
		deaths := 0 // until the UNLOAD, which is recorded right behind a death
		for _, r := range o.symbols {
			switch {
			case !r.isOf(f.Segment):
			case r.symbol.Unregister && f.loaded < r.time && (r.time <= f.unloaded || f.unloaded == 0):
				deaths++
			case !r.symbol.Unregister && r.time <= f.loaded && (x.own == nil || r.time >= x.own.time):
				x.own = r
			}
		}
		for _, r := range o.symbols {
			if r.symbol.Unregister || !r.isOf(f.Segment) {
				continue
			}
			away := max(r.time, f.loaded) - min(r.time, f.loaded)
			near := x.own == nil || o.differ || deaths > 1 || deaths > 0 && f.unloaded == 0 || away/muchNearer < f.loaded-x.own.time
			if near && away <= o.apart || x.own != nil && r.time == x.own.time {
				x.births |= 1 << r.id
			}
		}
		if x.births == 0 {
			continue
		}
		x.first, x.values = o.part(f.Addr), o.valuesOf(f.Addr, f.Data)
		for k := range x.values {
			lo, hi := o.edges[x.first+k], o.edges[x.first+k+1]
			if slices.ContainsFunc(patches, func(p patch) bool { return lo <= p.addr && p.addr < hi && f.Data[p.addr-f.Addr] == int3 }) {
				x.values[k] = otherValue // part of a change, which has a trap there
			}
		}
		if o.programs = append(o.programs, x); len(o.programs) > mostPrograms {
			return false
		}
	}
	// The birth before the LOAD of a program is of no other program.
	for i := range o.programs {
		x := &o.programs[i]
		for k := range o.programs {
			if own := o.programs[k].own; own != nil && own != x.own {
				x.births &^= 1 << own.id
			}
		}
	}
	return !slices.ContainsFunc(o.values, func(v [][]byte) bool { return len(v) > mostValues })
}

// isOf reports whether r is the birth or the death of a program's function.
func (r *orderedRecord) isOf(f *Segment) bool {
	s := r.symbol
	return s.Kind == SymbolBPF && s.Addr == f.Addr && uint64(s.Len) == uint64(len(f.Data))
}
