// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A dataPart is a symbol that is not code, such as a static key.
type dataPart struct {
	Name, Addr string
	Users      []foundRow
	Times      []dataTime // by static keys, if there are any, else all
	Others     []dataTime
	MoreTimes  int
	Blind      bool // which functions use it cannot be found out
}

// A dataTime is a run of changes by one writer in functions that use the symbol.
type dataTime struct {
	Time, To, Writer, Where, Href, LogHref, Kind string
	Switched                                     string // "on", "off", "" if the sites do not agree
	N                                            int
}

// dataOf returns which functions use a symbol that is not code at time t, and when they changed. Links
// to the functions lead to the time when. So somebody who knows the name of a static key finds the
// changes that it causes: a function that uses the key's address often also tests the key.
func (s *session) dataOf(name string, addr, t uint64, when string) *dataPart {
	const most = 100
	d := &dataPart{Name: name, Addr: hexAddr(addr), Blind: !s.canRefer()}
	v := s.r.Image.At(t)
	var users []uint64 // their addresses
	var all []logEntry
	for _, at := range s.references(v, addr) {
		sym, ok := v.Symbol(at)
		if !ok || sym.Size == 0 || slices.Contains(users, sym.Addr) {
			continue
		}
		users = append(users, sym.Addr)
		changes := s.trail.changesIn(sym.Addr, sym.Addr+sym.Size)
		all = append(all, changes...)
		d.Users = append(d.Users, foundRow{Name: placeName(v, sym.Addr), Href: linkAt(sym.Addr, when), Addr: hexAddr(sym.Addr), Changes: len(changes)})
	}
	slices.Sort(all)
	slices.SortStableFunc(d.Users, func(a, b foundRow) int { return cmp.Compare(b.Changes, a.Changes) })
	// What one thread writes within 100 ms counts as one switch, with all that it writes
	// elsewhere meanwhile.
	const pause = 100e6
	tr := s.trail
	rd := tr.reader()
	defer rd.close()
	for i := 0; i < len(all); {
		first, from := int(all[i]), i
		last := first
		for i < len(all) && tr.writer[all[i]] == tr.writer[first] && tr.time[all[i]]-tr.time[last] < pause {
			last = int(all[i])
			i++
		}
		list := &d.Others
		if classNames[tr.class[first]] == mechanism.StaticKey.String() {
			list = &d.Times
		}
		if len(*list) == most {
			d.MoreTimes++
			continue
		}
		near := func(k int) bool {
			return tr.writer[k] == tr.writer[first] && max(tr.time[k], tr.time[first])-min(tr.time[k], tr.time[first]) < pause
		}
		lo, hi := first, last+1
		for lo > 0 && near(lo-1) {
			lo--
		}
		for hi < len(tr.time) && near(hi) {
			hi++
		}
		switched := s.switched(rd, all[from:i])
		if switched == "" && list == &d.Times {
			// In these functions, as many sites jump as do not. Elsewhere most are of one kind.
			var run []logEntry
			for k := lo; k < min(hi, lo+100); k++ {
				run = append(run, logEntry(k))
			}
			switched = s.switched(rd, run)
		}
		w := tr.writerOf(tr.writer[first]).String()
		a := tr.sites[tr.site[first]].addr
		*list = append(*list, dataTime{Time: replay.Seconds(tr.time[lo]), To: replay.Seconds(tr.time[hi-1]), Writer: orUnknown(w), N: hi - lo,
			Switched: switched, Where: placeName(v, a), Href: addrLink(a, tr.time[first]), Kind: classNames[s.trail.class[first]],
			LogHref: "/log?" + url.Values{"from": {replay.Seconds(tr.time[lo])}, "to": {replay.Seconds(tr.time[hi-1] + 1)}, "by": {w}, "t": {replay.Seconds(tr.time[first])}}.Encode()})
	}
	if len(d.Times) == 0 {
		d.Times, d.Others = d.Others, nil
	}
	return d
}

// switched returns "on" or "off" if most of the changes, which are at sites of a static key,
// switch the key so; "" if they do not agree. See isNOP.
func (s *session) switched(rd *pokeReader, changes []logEntry) string {
	const most = 64
	jumps, nops := 0, 0
	for _, e := range changes[:min(len(changes), most)] {
		if classNames[s.trail.class[e]] != mechanism.StaticKey.String() {
			continue
		}
		switch p := rd.poke(int(e)); {
		case len(p.new) == 0:
		case isNOP(s.side(s.r.Image.At(p.time), p.addr, p.new)):
			nops++
		default:
			jumps++
		}
	}
	switch {
	case jumps > nops:
		return "on"
	case nops > jumps:
		return "off"
	}
	return ""
}
