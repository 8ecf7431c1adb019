// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "fmt"

// Probes is what probes on the functions that map text recorded. Times are in nanoseconds
// of the recording's clock.
type Probes struct {
	Events []ProbeEvent
	// Writes are the changes of text with a sample before and one after the store.
	// Unknown is how many of them have an unknown address, or unknown bytes.
	Writes, Unknown int
	// Unpaired samples have no partner. Duplicates are samples that perf wrote twice.
	Unpaired, Duplicates int
	// Accounted is set if each hit between perf's copy of text and the first sample is
	// one that perf made itself.
	Accounted bool
	Readings  []ProbeReading // of the hit counters, by time: those with a time inside the recording
}

// ProbeEvent is an event on such a function.
type ProbeEvent struct {
	Name     string // as in perf record -e
	Function string // that it is on; "" if unknown
	Samples  uint64
}

// ProbeReading is a reading of the hit counters (kprobe_profile), made at some moment of
// [From, To].
type ProbeReading struct {
	Source   string // the name of the file
	From, To uint64
	// Hits and Missed are the counters of each event, in the order of Probes.Events.
	Hits, Missed []uint64
}

// report describes what was found.
func (p *probeLog) report() *Probes {
	r := &Probes{Writes: len(p.writes) - p.fixmaps, Unknown: p.undecoded, Unpaired: len(p.loose), Duplicates: p.doubles, Accounted: p.accounted}
	for _, e := range p.events {
		x := ProbeEvent{Name: e.label(), Samples: uint64(len(e.times))}
		if sym, _, ok := p.symbol(e.where); ok {
			x.Function = sym
		}
		r.Events = append(r.Events, x)
	}
	for i := range p.readings {
		x := &p.readings[i]
		y := ProbeReading{Source: x.source, From: x.from, To: x.to}
		for _, e := range p.events {
			y.Hits, y.Missed = append(y.Hits, x.hits[e.name].hits), append(y.Missed, x.hits[e.name].missed)
		}
		r.Readings = append(r.Readings, y)
	}
	return r
}

// symbol returns the name of the function at an address.
func (p *probeLog) symbol(addr uint64) (name string, size uint64, ok bool) {
	if p.writer.k == nil || addr == 0 {
		return "", 0, false
	}
	sym, size, ok := p.writer.k.Find(addr)
	return sym.Name, size, ok
}

// whatFollows explains what the answers depend on.
func (p *Probes) whatFollows() []string {
	out := []string{fmt.Sprintf("a probe's samples enclose each of %d changes", p.Writes)}
	if p.Unknown > 0 {
		out = append(out, fmt.Sprintf("the bytes or the address of %d are unknown", p.Unknown))
	}
	return out
}
