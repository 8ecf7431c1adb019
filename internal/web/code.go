// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The limits of a page of code.
const (
	mostCode     = 2048 // bytes
	mostMoments  = 2000
	mostRows     = 60      // changes in the table
	mostVersions = 8       // contents of a place
	mostInterval = 60      // versions of an interval
	mostLooked   = 100_000 // versions of a place
	// If a recording has more samples than this, a page does not count those of its function.
	mostSamples = 2_000_000
)

// A codePage is the page of a function, or of an address without a name.
type codePage struct {
	Heading, Name string
	Addr          string
	Size          uint64
	T             string // the time that is shown
	When          string // the same as links have it: the interval that was asked for, or T
	Kept          string // the time that the page keeps, "" if the request has none
	Interval      *intervalPart
	Absent        string // why it is not the time that was asked for
	TimeNS        string
	Dated         string // what is there at the time: from when to when
	Standing      string
	Reason        string
	Rows          []codeRow
	Part          string // which part of a large function is shown
	Earlier       string // links to the neighbouring parts
	Later         string
	Moments       []string // of changes in the function, in nanoseconds
	Moment        int      // the last one that is not after the time, -1: none
	MomentsLeft   int      // that are not listed
	First, Last   string   // of the recording
	FirstNS       string   // the same, in nanoseconds
	LastNS        string
	PrevT, NextT  string // links
	Changes       []changeRow
	ChangesTotal  int
	LogLink       string
	MapLink       string
	Site          *sitePart
	Lives         []ganttRow
	Samples       int // that hit the function
	SamplesNote   string
}

// A codeRow is an instruction, or a run of bytes that are not given.
type codeRow struct {
	addr     uint64
	next     uint64 // Next in ns
	ID       string
	Addr     string
	Offset   string
	Bytes    string
	Text     string
	Target   string // where a jump or call leads: a link
	Standing string // if not known
	Reason   string
	Now      bool // changed at the time that is shown
	Changed  int  // how often it changes in the recording
	Here     bool // what was asked for
	Window   string
	Next     string // when it changes within the interval that was asked for
	NextHref string
	Href     string
	Samples  int
}

// An intervalPart says what changes in the interval of a page's time: what the page shows is as of
// the interval's start.
type intervalPart struct {
	From, To string // the first and the last time
	Versions []intervalVersion
	More     bool // there are versions that are not listed
}

// An intervalVersion is a time during which nothing that is shown changes.
type intervalVersion struct{ From, Until, Standing, Reason, Href string }

// Changes returns how often what is shown changes.
func (p *intervalPart) Changes() int { return len(p.Versions) - 1 }

// A sitePart is what the page says about one place.
type sitePart struct {
	Name, Addr string
	Versions   []siteVersion
	Total      int // versions
	Contents   []siteContent
	Others     siteContent // all contents that are not in Contents, which has at most mostVersions
	More       bool        // there are versions that were not looked at
	Before     *changeRow  // the change that made what is there
	After      *changeRow  // the next one
	Key        string      // what a static key does here at the time
}

// A siteContent is one content of a place, with all times at which it was there.
type siteContent struct {
	Bytes, Text string
	N           int
	Time        string // in total
	Now         bool
}

type siteVersion struct {
	Since, Until, Bytes, Text, Standing, Reason, Href string
	Now                                               bool

	since uint64
	other []byte // its bytes, if they are of no siteContent
}

// changedAt reports whether the bytes of a span that begins at time t were others, or were not
// there, just before. A span also begins where something is known from then on.
func (s *session) changedAt(sp *timeline.Span, t uint64) bool {
	if t == 0 || sp.Bytes == nil {
		return false
	}
	before := make([]byte, sp.Len)
	b := s.r.Image.At(t-1).Read(sp.Addr, before)
	switch b.Standing {
	case timeline.Unmapped, timeline.Retired:
		return true
	}
	return uint64(b.Given) == sp.Len && !bytes.Equal(before, sp.Bytes)
}

func (q *request) code() error {
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	asked := strings.TrimSpace(q.FormValue("addr"))
	if q.kept.err != nil {
		return q.kept.err
	}
	first, _ := q.extent()
	times := q.kept.or(first)
	if asked == "" {
		return &RequestError{"addr: want the name of a function or an address"}
	}
	addr, err := q.r.ParseAddr(asked, times.From)
	if isOfSeveral(err) {
		q.to = keep("/search?q="+url.QueryEscape(asked), q.kept.text) // which lists them
		return nil
	}
	if err != nil {
		return err
	}
	absent := strings.TrimSpace(q.FormValue("absent")) // the time that a search asked for
	if q.kept.text == "" {
		absent = "start"
		if l := q.lifeNear(asked, addr, times); l != nil {
			near := timeIn(l.From, l.To, times)
			times = replay.Times{From: near, To: near}
		}
	}
	p := q.session.codeOf(addr, times, q.kept.text, true)
	p.Kept = q.kept.text
	if absent != "" {
		then, err := q.r.ParseTime(absent)
		if err != nil {
			return err
		}
		if l := q.lifeNear(asked, addr, times); l != nil {
			p.Absent = absence(p.Name, l.From, l.To, then, absent, times.From)
		}
	}
	return q.page("code", p.Name, p)
}

// codeOf returns the page of the function around an address, as of the start of times; text is how
// links have times, if it is an interval. samples says that the samples that hit it are counted.
func (s *session) codeOf(addr uint64, times replay.Times, text string, samples bool) *codePage {
	im, t := s.r.Image, times.From
	v := im.At(t)
	lo, hi := addr&^15, addr&^15+256
	sym, named := v.Symbol(addr)
	if named && sym.Size > 0 && addr-sym.Addr < sym.Size {
		lo, hi = sym.Addr, sym.Addr+sym.Size
	}
	if hi < lo {
		hi = ^uint64(0)
	}
	from, to := s.extent()
	p := &codePage{Name: placeName(v, lo), Heading: cmp.Or(s.text.Heading(v, lo), hexAddr(lo)), Addr: hexAddr(lo), Size: hi - lo,
		T: replay.Seconds(t), TimeNS: dec(t), First: replay.Seconds(from), Last: replay.Seconds(to), FirstNS: dec(from), LastNS: dec(to), Moment: -1}
	p.When = p.T
	if !times.Exact() {
		p.When = text
	}
	s.moments(p, lo, hi, t)

	partLo, partHi := lo, hi
	if hi-lo > mostCode {
		partLo, partHi = s.partOf(v, lo, hi, addr)
		p.Part = fmt.Sprintf("bytes %s to %s of %s", hexAddr(partLo-lo), hexAddr(partHi-lo), thousands(hi-lo))
		if partLo > lo {
			p.Earlier = linkAt(partLo-1, p.When)
		}
		if partHi < hi {
			p.Later = linkAt(partHi, p.When)
		}
	}
	s.addRows(p, v, times.To, lo, partLo, partHi, addr)
	if !times.Exact() {
		p.Interval = s.intervalOf(partLo, partHi, times)
	}
	s.changesIn(p, lo, hi, t)
	if addr != lo || s.isSite(addr) {
		p.Site = s.siteOf(v, addr)
	}
	for i := range s.spans {
		if l := &s.spans[i]; l.Lo <= addr && addr < l.Hi && len(p.Lives) < 20 {
			p.Lives = append(p.Lives, ganttRow{Name: cmp.Or(l.Name, l.Kind), Kind: l.Kind, From: seconds(l.From), To: seconds(l.To), Href: addrLink(l.Lo, max(l.From, from))})
		}
	}
	if n := s.r.Report.Records[recordSample]; samples && n > 0 {
		if n > mostSamples {
			p.SamplesNote = fmt.Sprintf("The recording has %s samples, too many to count here; see Profile.", thousands(n))
		} else {
			s.countSamples(p, lo, hi)
		}
	}
	return p
}

// partOf returns the part with addr of the large function [lo, hi). Parts have about mostCode
// bytes: each begins at the first instruction that begins at a multiple of mostCode or behind it.
func (s *session) partOf(v timeline.View, lo, hi, addr uint64) (from, to uint64) {
	k := (addr - lo) / mostCode
	from = s.instAt(v, lo, lo+k*mostCode)
	if addr < from { // in the last instruction of the part before
		k--
		return s.instAt(v, lo, lo+k*mostCode), from
	}
	if hi-lo-k*mostCode <= mostCode {
		return from, hi
	}
	return from, min(s.instAt(v, from, lo+(k+1)*mostCode), hi)
}

// instAt returns where the first instruction begins at addr or behind it, if one begins at lo. It
// returns addr where bytes are not given.
func (s *session) instAt(v timeline.View, lo, addr uint64) uint64 {
	const (
		most = 1 << 18 // how far it goes back
		step = 1 << 12
	)
	lo = max(lo, addr-min(addr, most))
	for lo < addr {
		n := min(step, addr-lo)
		insts := s.text.Insts(v, lo, n, nil)
		if len(insts) == 0 {
			// A byte is not given: instructions begin anew behind it.
			for sp := range v.Spans(lo, n) {
				if n = sp.Len; sp.Bytes != nil {
					insts = s.text.Insts(v, lo, n, nil)
				}
				break
			}
		}
		if len(insts) > 0 {
			last := &insts[len(insts)-1]
			n = last.Addr + uint64(len(last.Bytes)) - lo
		}
		lo += max(n, 1)
	}
	return lo
}

// isSite reports whether pokes change the address.
func (s *session) isSite(addr uint64) bool {
	for range s.trail.sitesIn(addr, addr+1) {
		return true
	}
	return false
}

// moments sets the times at which the code in [lo, hi) changes or is loaded or unloaded, and the
// links to those before and after t.
func (s *session) moments(p *codePage, lo, hi, t uint64) {
	tr := s.trail
	var times []uint64
	for k := range tr.sitesIn(lo, hi) {
		for _, i := range tr.ofSite(k, 0, timeline.MaxTime) {
			times = append(times, tr.time[i])
		}
	}
	for i := range s.spans {
		if l := &s.spans[i]; l.Lo < hi && lo < l.Hi {
			for _, x := range []uint64{l.From, l.To} {
				if x != 0 && x != timeline.MaxTime {
					times = append(times, x)
				}
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	at := sort.Search(len(times), func(i int) bool { return times[i] > t })
	link := func(t uint64) string { return addrLink(lo, t) }
	if at > 0 {
		p.Moment = at - 1
		if before := at - 1; times[before] == t && before > 0 {
			p.PrevT = link(times[before-1])
		} else if times[before] < t {
			p.PrevT = link(times[before])
		}
	}
	if at < len(times) {
		p.NextT = link(times[at])
	}
	if len(times) > mostMoments {
		a := min(max(at-mostMoments/2, 0), len(times)-mostMoments)
		p.MomentsLeft = len(times) - mostMoments
		times = times[a : a+mostMoments]
		p.Moment -= a
	}
	for _, x := range times {
		p.Moments = append(p.Moments, dec(x))
	}
}

// A codeRows decodes the text of a function at a time.
type codeRows struct {
	*session
	v                   timeline.View
	last                uint64 // the last time of the interval that begins at v's
	when                string // v's time or the interval, for links
	base, lo, hi, asked uint64 // the function's begin, what is shown of it, and the address asked for
	spans               []timeline.Span
	changes             map[uint64]int
	windows             []timeline.Window
}

// addRows adds the rows of [lo, hi), of the function that begins at base, and sets the page's
// standing: the lowest of all the bytes. The rows are as of v's time, and say what changes from then
// on until the time last.
func (s *session) addRows(p *codePage, v timeline.View, last, base, lo, hi, asked uint64) {
	x := &codeRows{session: s, v: v, last: last, when: p.When, base: base, lo: lo, hi: hi, asked: asked,
		changes: s.changeCounts(lo, hi), windows: s.windows(lo, hi, v.Time())}
	least := timeline.Known
	since, until := uint64(0), timeline.MaxTime
	for sp := range v.Spans(lo, hi-lo) {
		x.spans = append(x.spans, sp)
		if sp.Standing < least || p.Standing == "" {
			p.Standing, p.Reason = sp.Standing.String(), sp.Reason.Text()
			least = min(least, sp.Standing)
		}
		since, until = max(since, sp.Since), min(until, sp.Until)
	}
	p.Dated = dated(seconds(since), seconds(until))
	for at := lo; at < hi; {
		i := x.spanAt(at)
		if i == len(x.spans) {
			break
		}
		end := at
		for ; i < len(x.spans) && x.spans[i].Bytes != nil; i++ {
			end = x.spans[i].Addr + x.spans[i].Len
		}
		if end == at {
			sp := &x.spans[i]
			end = sp.Addr + sp.Len
			p.Rows = append(p.Rows, x.withoutBytes(sp, at, end))
			at = end
			continue
		}
		rows, decoded := x.decode(at, end)
		p.Rows = append(p.Rows, rows...)
		at = max(decoded, at+1)
	}
}

// dated returns the words for an interval; either end may be empty.
func dated(since, until string) string {
	switch {
	case since != "" && until != "":
		return "from " + since + " until " + until
	case since != "":
		return "from " + since + " on"
	case until != "":
		return "until " + until
	}
	return "all the time"
}

// spanAt returns the index of the first span that ends behind addr.
func (x *codeRows) spanAt(addr uint64) int {
	return sort.Search(len(x.spans), func(i int) bool { return x.spans[i].Addr+x.spans[i].Len > addr })
}

// withoutBytes returns the row of [at, end), which is in a span without bytes.
func (x *codeRows) withoutBytes(sp *timeline.Span, at, end uint64) codeRow {
	row := codeRow{addr: at, Addr: hexAddr(at), Offset: "+" + hexAddr(at-x.base), Text: count(end-at, "byte", "bytes") + ": " + sp.Standing.String(),
		Standing: sp.Standing.String(), Reason: sp.Reason.Text(), Here: at <= x.asked && x.asked < end}
	for _, c := range sp.Candidates {
		row.Text += "; " + spaced(c.Bytes, 8)
	}
	x.addNext(&row, sp)
	return row
}

// decode returns the rows of [at, end), and where the last instruction ends.
func (x *codeRows) decode(at, end uint64) (rows []codeRow, decoded uint64) {
	code := make([]byte, end-at)
	x.v.Read(at, code)
	decoded = end
	for _, in := range x.text.Insts(x.v, at, uint64(len(code)), nil) {
		n := uint64(len(in.Bytes))
		if in.Addr >= x.hi || n == 0 {
			break
		}
		rows = append(rows, x.row(&in))
		decoded = in.Addr + n
	}
	return rows, decoded
}

// row returns the row of an instruction.
func (x *codeRows) row(in *disasm.Inst) codeRow {
	t, end := x.v.Time(), in.Addr+uint64(len(in.Bytes))
	row := codeRow{addr: in.Addr, ID: fmt.Sprintf("i%x", in.Addr), Addr: fmt.Sprintf("%016x", in.Addr), Offset: "+" + hexAddr(in.Addr-x.base), Bytes: spaced(in.Bytes, 16), Text: in.Text,
		Here: in.Addr <= x.asked && x.asked < end, Href: linkAt(in.Addr, x.when)}
	if in.HasTarget && !(x.lo <= in.Target && in.Target < x.hi) {
		row.Target = linkAt(in.Target, x.when)
	}
	for i := x.spanAt(in.Addr); i < len(x.spans) && x.spans[i].Addr < end; i++ {
		sp := &x.spans[i]
		if sp.Standing != timeline.Known {
			row.Standing, row.Reason = sp.Standing.String(), sp.Reason.Text()
		}
		row.Now = row.Now || sp.Since == t && x.changedAt(sp, t)
		x.addNext(&row, sp)
	}
	for a := in.Addr; a < end; a++ {
		row.Changed += x.changes[a]
	}
	for _, w := range x.windows {
		if w.Addr < end && in.Addr < w.Addr+uint64(w.Len) {
			row.Window = x.windowText(&w)
		}
	}
	return row
}

// addNext notes in a row that a span of it changes within the interval.
func (x *codeRows) addNext(row *codeRow, sp *timeline.Span) {
	if endsBy(sp.Until, x.last) && (row.Next == "" || sp.Until < row.next) {
		row.next, row.Next, row.NextHref = sp.Until, replay.Seconds(sp.Until), addrLink(row.addr, sp.Until)
	}
}

// endsBy reports whether what holds until a time has ended at time t.
func endsBy(until, t uint64) bool { return until != timeline.MaxTime && until <= t }

// intervalOf returns what changes in the text [lo, hi) during an interval.
func (s *session) intervalOf(lo, hi uint64, times replay.Times) *intervalPart {
	p := &intervalPart{From: replay.Seconds(times.From), To: replay.Seconds(times.To)}
	for t := times.From; ; {
		if len(p.Versions) > mostInterval {
			p.More = true
			return p
		}
		until, least := timeline.MaxTime, timeline.Known
		x := intervalVersion{From: replay.Seconds(t), Href: addrLink(lo, t), Standing: least.String()}
		for sp := range s.r.Image.At(t).Spans(lo, hi-lo) {
			if until = min(until, sp.Until); sp.Standing < least {
				least, x.Standing, x.Reason = sp.Standing, sp.Standing.String(), sp.Reason.Text()
			}
		}
		x.Until = seconds(until)
		p.Versions = append(p.Versions, x)
		if !endsBy(until, times.To) {
			return p
		}
		t = until
	}
}

// changeCounts returns how many changes each site in [lo, hi) has, by address.
func (s *session) changeCounts(lo, hi uint64) map[uint64]int {
	out := make(map[uint64]int)
	for k := range s.trail.sitesIn(lo, hi) {
		out[s.trail.sites[k].addr] = int(s.trail.first[k+1] - s.trail.first[k])
	}
	return out
}

// windows returns the trap windows in [lo, hi) that are open at time t.
func (s *session) windows(lo, hi, t uint64) []timeline.Window {
	if s.plane.windows == nil {
		return nil
	}
	return s.plane.windows.At(lo, hi-lo, t)
}

func (s *session) windowText(w *timeline.Window) string {
	text := fmt.Sprintf("may trap: a CPU may run a trap here instead, at most from %s to %s, probably %s to %s",
		cmp.Or(seconds(w.Proven.From), "the start"), cmp.Or(seconds(w.Proven.To), "the end"), replay.Seconds(w.Estimate.From), replay.Seconds(w.Estimate.To))
	if does := s.text.Trap(s.r.Image.At(w.Switch), w); does != "" {
		text += "; " + does
	}
	return text
}

// changesIn lists the changes of the function around the time.
func (s *session) changesIn(p *codePage, lo, hi, t uint64) {
	tr := s.trail
	all := tr.changesIn(lo, hi)
	p.ChangesTotal = len(all)
	at := sort.Search(len(all), func(i int) bool { return tr.time[all[i]] > t })
	a := min(max(at-mostRows/2, 0), max(len(all)-mostRows, 0))
	p.Changes = s.rowsOf(all[a:min(a+mostRows, len(all))])
	p.LogLink = "/log?" + url.Values{"place": {s.placeText(p.Name, lo, hi)}}.Encode()
	y0, y1 := s.axis.pos(lo), s.axis.pos(hi-1)
	p.MapLink = fmt.Sprintf("/map?t=%s&y0=%d&y1=%d", url.QueryEscape(p.When), y0, max(y1, y0+16))
}

// siteOf describes the place of an instruction, or of the poke that covers addr, at v's time.
func (s *session) siteOf(v timeline.View, addr uint64) *sitePart {
	n := uint64(1)
	for k := range s.trail.sitesIn(addr, addr+1) {
		if site := &s.trail.sites[k]; site.addr <= addr {
			addr, n = site.addr, max(n, min(uint64(site.size), 16))
		}
	}
	if insts := s.text.Insts(v, addr, 1, nil); len(insts) > 0 {
		n = max(n, uint64(len(insts[0].Bytes)))
	}
	p := &sitePart{Name: placeName(v, addr), Addr: hexAddr(addr)}
	s.addVersions(p, addr, make([]byte, n), v.Time())

	before, after := s.changesAround(addr, n, v.Time())
	if before >= 0 && s.isOfWindow(v, addr, n, s.trail.time[before]) {
		before = -1
	}
	one := func(i int) *changeRow {
		if i < 0 {
			return nil
		}
		return &s.rowsOf([]logEntry{logEntry(i)})[0]
	}
	p.Before, p.After = one(before), one(after)
	change := before
	if change < 0 {
		change = after
	}
	if change >= 0 && classNames[s.trail.class[change]] == mechanism.StaticKey.String() {
		k := slices.IndexFunc(p.Contents, func(c siteContent) bool { return c.Now })
		if k >= 0 && v.Read(addr, make([]byte, n)).Standing == timeline.Known {
			p.Key = keyText(p.Contents[k].Text)
		}
	}
	return p
}

// keyText returns what an instruction at a site of a static key means, in words; "" if it is neither a NOP nor a jump.
func keyText(inst string) string {
	switch {
	case isNOP(inst):
		return "goes straight on here, with a NOP. The key is off, if the code tests it with static_branch_unlikely() as most code does"
	case strings.HasPrefix(inst, "j"), strings.HasPrefix(inst, "b "):
		return "jumps here. The key is on, if the code tests it with static_branch_unlikely() as most code does"
	}
	return ""
}

// addVersions adds the contents that len(buf) bytes at addr had in the recording, and the
// versions around time t. It overwrites buf. It adds at most mostVersions contents, and the one
// that is there at t.
func (s *session) addVersions(p *sitePart, addr uint64, buf []byte, t uint64) {
	from, to := s.extent()
	var contents [][]byte
	var lasted []uint64 // each content, in ns
	var others uint64   // all other contents, in ns
	describe := func(b []byte, since uint64) (spacedBytes, text string) {
		return cmp.Or(spaced(b, 16), "not given"), s.side(s.r.Image.At(max(since, from)), addr, b)
	}
	add := func(b *timeline.Block) {
		given, now := buf[:b.Given], b.Since <= t && (t < b.Until || b.Until == timeline.MaxTime)
		v := siteVersion{Since: seconds(b.Since), Until: seconds(b.Until), Standing: b.Standing.String(), Reason: b.Reason.Text(),
			Href: addrLink(addr, max(b.Since, from)), Now: now, since: b.Since}
		k := slices.IndexFunc(contents, func(c []byte) bool { return bytes.Equal(c, given) })
		if k < 0 && (len(contents) < mostVersions || now) {
			k = len(contents)
			contents, lasted = append(contents, bytes.Clone(given)), append(lasted, 0)
			c := siteContent{}
			c.Bytes, c.Text = describe(given, b.Since)
			p.Contents = append(p.Contents, c)
		}
		c, ns := &p.Others, &others
		if k >= 0 {
			c, ns = &p.Contents[k], &lasted[k]
			v.Bytes, v.Text = c.Bytes, c.Text
		} else {
			v.other = bytes.Clone(given)
		}
		c.N++
		if a, z := max(b.Since, from), min(b.Until, to); a < z {
			*ns += z - a
		}
		c.Now = c.Now || now
		p.Versions = append(p.Versions, v)
		p.keepAround()
	}
	for b := range s.r.Image.Versions(addr, buf, 0, timeline.MaxTime) {
		if p.Total == mostLooked {
			p.More = true
			break
		}
		p.Total++
		add(&b)
	}
	if p.More && !slices.ContainsFunc(p.Versions, func(v siteVersion) bool { return v.Now }) {
		for b := range s.r.Image.Versions(addr, buf, t, t+1) {
			add(&b)
		}
	}
	for i := range p.Versions {
		if v := &p.Versions[i]; v.other != nil {
			v.Bytes, v.Text = describe(v.other, v.since)
		}
	}
	for k, ns := range lasted {
		p.Contents[k].Time = span(ns)
	}
	p.Others.Time = span(others)
}

// keepAround drops the versions that are far from the one at the page's time, or from the newest
// one if that one was not added yet.
func (p *sitePart) keepAround() {
	const around = 12
	i := slices.IndexFunc(p.Versions, func(v siteVersion) bool { return v.Now })
	switch {
	case i > around:
		p.Versions = p.Versions[i-around:]
	case i >= 0 && len(p.Versions) > i+around+1:
		p.Versions = p.Versions[:i+around+1]
	case i < 0 && len(p.Versions) > around+1:
		p.Versions = p.Versions[1:]
	}
}

// changesAround returns the last poke of [addr, addr+n) until time t, and the first one after
// it, as indices of the columns; -1 if there is none.
func (s *session) changesAround(addr, n, t uint64) (before, after int) {
	before, after = -1, -1
	for k := range s.trail.sitesIn(addr, addr+n) {
		all := s.trail.ofSite(k, 0, timeline.MaxTime)
		i := sort.Search(len(all), func(i int) bool { return s.trail.time[all[i]] > t })
		if i > 0 {
			before = max(before, int(all[i-1]))
		}
		if i < len(all) && (after < 0 || int(all[i]) < after) {
			after = int(all[i])
		}
	}
	return before, after
}

// isOfWindow reports whether an explicit window, which is no recorded change, made some of what is in [addr, addr+n)
// at v's time, after time t.
func (s *session) isOfWindow(v timeline.View, addr, n, t uint64) bool {
	for sp := range v.Spans(addr, n) {
		if sp.Since <= t {
			continue
		}
		var b [1]byte
		if sp.Reason == timeline.InExplicitWindow || s.r.Image.At(sp.Since-1).Read(sp.Addr, b[:]).Reason == timeline.InExplicitWindow {
			return true
		}
	}
	return false
}

// isNOP reports whether the instruction at a site of a static key is a NOP; else it jumps.
// Whether a site jumps while its key is on depends on how the code tests it, which only the
// kernel's __jump_table says. Most sites are static_branch_unlikely(): they jump while the
// key is on.
func isNOP(inst string) bool {
	return strings.HasPrefix(inst, "nop") || strings.HasPrefix(inst, "xchg")
}

// countSamples counts the samples of the kernel in [lo, hi), and those at each row's address.
func (s *session) countSamples(p *codePage, lo, hi uint64) {
	hits := make(map[uint64]int)
	rec := s.r.Recording
	sc := rec.Scan(perfdata.Unmapped(), perfdata.Only(perfdata.RecordSample))
	var x perfdata.Sample
	for sc.Next() {
		if rec.Sample(sc.Record(), &x) != nil || x.Type&perfdata.SampleIP == 0 || x.IP < lo || x.IP >= hi {
			continue
		}
		if s.r.MachineOf(sc.Record(), &x.SampleID) == s.r.Report.Guest {
			hits[x.IP]++
			p.Samples++
		}
	}
	for i := range p.Rows {
		p.Rows[i].Samples = hits[p.Rows[i].addr]
	}
}

// LastMoment is the index of the last moment, for the slider.
func (p *codePage) LastMoment() int { return len(p.Moments) - 1 }
