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

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The limits of a page of code.
const (
	mostCode     = 2048 // bytes
	mostMoments  = 2000
	mostRows     = 60 // changes in the table
	mostVersions = 8
	// mostSamples is up to how many samples of a recording are counted without being asked.
	mostSamples = 2_000_000
)

// A codePage is the page of a function, or of an address without a name.
type codePage struct {
	Heading, Name string
	Addr          string
	Size          uint64
	T             string // the time that is shown
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
	Href     string
	Samples  int
}

// A sitePart is what the page says about one place.
type sitePart struct {
	Name, Addr string
	Versions   []siteVersion
	Total      int // versions
	Contents   []siteContent
	Before     *changeRow // the change that made what is there
	After      *changeRow // the next one
	Key        string     // what a static key does here at the time
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
	Content                                           int
	Now                                               bool
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
	from, to := q.extent()
	t := from
	if s := strings.TrimSpace(q.FormValue("t")); s != "" {
		x, err := q.r.ParseTime(s)
		if err != nil {
			return err
		}
		t = x.From
	}
	if ns := q.FormValue("ns"); ns != "" {
		x, err := q.r.ParseTime(ns + "ns")
		if err != nil {
			return err
		}
		t = x.From
	}
	addr, err := q.r.ParseAddr(asked, t)
	if err != nil {
		return err
	}
	p := q.session.codeOf(addr, min(max(t, from), to), true)
	return q.page("code", p.Name, p)
}

// codeOf makes the page of the function around an address at a time.
func (s *session) codeOf(addr, t uint64, samples bool) *codePage {
	im := s.r.Image
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
	s.moments(p, lo, hi, t)

	// A part of a large function, which begins at an instruction if that can be found.
	partLo, partHi := lo, hi
	if hi-lo > mostCode {
		partLo = lo + (addr-lo)/mostCode*mostCode
		partHi = min(partLo+mostCode, hi)
		p.Part = fmt.Sprintf("bytes %s to %s of %s", hexAddr(partLo-lo), hexAddr(partHi-lo), thousands(hi-lo))
		if partLo > lo {
			p.Earlier = addrLink(partLo-1, t)
		}
		if partHi < hi {
			p.Later = addrLink(partHi, t)
		}
	}
	s.codeRows(p, v, lo, partLo, partHi, addr)
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

// isSite reports whether pokes change the address.
func (s *session) isSite(addr uint64) bool {
	lo, hi := s.trail.sitesIn(addr, addr+1)
	return lo < hi
}

// moments lists the times at which the function changes.
func (s *session) moments(p *codePage, lo, hi, t uint64) {
	tr := s.trail
	s0, s1 := tr.sitesIn(lo, hi)
	var times []uint64
	for k := s0; k < s1; k++ {
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

// codeRows decodes [lo, hi) of the function that begins at base.
func (s *session) codeRows(p *codePage, v timeline.View, base, lo, hi, asked uint64) {
	t := v.Time()
	var spans []timeline.Span
	least := timeline.Known
	since, until := uint64(0), timeline.MaxTime
	for sp := range v.Spans(lo, hi-lo) {
		spans = append(spans, sp)
		if sp.Standing < least || p.Standing == "" {
			p.Standing, p.Reason = sp.Standing.String(), sp.Reason.Text()
			least = min(least, sp.Standing)
		}
		since, until = max(since, sp.Since), min(until, sp.Until)
	}
	switch a, b := seconds(since), seconds(until); {
	case a != "" && b != "":
		p.Dated = "from " + a + " until " + b
	case a != "":
		p.Dated = "from " + a + " on"
	case b != "":
		p.Dated = "until " + b
	default:
		p.Dated = "all the time"
	}
	changes := s.changeCounts(lo, hi)
	spanAt := func(addr uint64) *timeline.Span {
		i := sort.Search(len(spans), func(i int) bool { return spans[i].Addr+spans[i].Len > addr })
		if i == len(spans) {
			return nil
		}
		return &spans[i]
	}
	windows := s.windows(lo, hi, t)
	for at := lo; at < hi; {
		sp := spanAt(at)
		if sp == nil {
			break
		}
		// A run of spans that have bytes.
		end := at
		for i := sort.Search(len(spans), func(i int) bool { return spans[i].Addr+spans[i].Len > at }); i < len(spans) && spans[i].Bytes != nil; i++ {
			end = spans[i].Addr + spans[i].Len
		}
		if end == at {
			end = sp.Addr + sp.Len
			row := codeRow{Addr: hexAddr(at), Offset: "+" + hexAddr(at-base), Text: count(end-at, "byte", "bytes") + ": " + sp.Standing.String(),
				Standing: sp.Standing.String(), Reason: sp.Reason.Text(), Here: at <= asked && asked < end}
			for _, c := range sp.Candidates {
				row.Text += "; " + spaced(c.Bytes, 8)
			}
			p.Rows = append(p.Rows, row)
			at = end
			continue
		}
		code := make([]byte, end-at)
		v.Read(at, code)
		for _, in := range s.text.Insts(v, at, uint64(len(code)), nil) {
			n := uint64(len(in.Bytes))
			if in.Addr >= hi || n == 0 {
				break
			}
			row := codeRow{ID: fmt.Sprintf("i%x", in.Addr), Addr: fmt.Sprintf("%016x", in.Addr), Offset: "+" + hexAddr(in.Addr-base), Bytes: spaced(in.Bytes, 16), Text: in.Text,
				Here: in.Addr <= asked && asked-in.Addr < n, Href: addrLink(in.Addr, t)}
			if in.HasTarget && !(lo <= in.Target && in.Target < hi) {
				row.Target = addrLink(in.Target, t)
			}
			for a := in.Addr; a < in.Addr+n; {
				sp := spanAt(a)
				if sp == nil {
					break
				}
				if sp.Standing != timeline.Known {
					row.Standing, row.Reason = sp.Standing.String(), sp.Reason.Text()
				}
				row.Now = row.Now || sp.Since == t && s.changedAt(sp, t)
				a = max(sp.Addr+sp.Len, a+1)
			}
			for a := in.Addr; a < in.Addr+n; a++ {
				row.Changed += changes[a]
			}
			for _, w := range windows {
				if w.Addr < in.Addr+n && in.Addr < w.Addr+uint64(w.Len) {
					row.Window = s.windowText(&w)
				}
			}
			p.Rows = append(p.Rows, row)
			end = in.Addr + n
		}
		at = max(end, at+1)
	}
}

// changeCounts returns how many changes each site in [lo, hi) has.
func (s *session) changeCounts(lo, hi uint64) map[uint64]int {
	out := make(map[uint64]int)
	s0, s1 := s.trail.sitesIn(lo, hi)
	for k := s0; k < s1; k++ {
		out[s.trail.sites[k].addr] = int(s.trail.first[k+1] - s.trail.first[k])
	}
	return out
}

// windows returns the windows that are open at a time.
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
	s0, s1 := tr.sitesIn(lo, hi)
	var all []logEntry
	for k := s0; k < s1; k++ {
		for _, i := range tr.ofSite(k, 0, timeline.MaxTime) {
			all = append(all, logEntry(i))
		}
	}
	slices.Sort(all)
	p.ChangesTotal = len(all)
	at := sort.Search(len(all), func(i int) bool { return tr.time[all[i]] > t })
	a := min(max(at-mostRows/2, 0), max(len(all)-mostRows, 0))
	p.Changes = s.rowsOf(all[a:min(a+mostRows, len(all))])
	p.LogLink = "/log?" + url.Values{"place": {s.placeText(p.Name, lo, hi)}}.Encode()
	y0, y1 := s.axis.pos(lo), s.axis.pos(hi-1)
	p.MapLink = fmt.Sprintf("/map?t=%s&y0=%d&y1=%d", p.T, y0, max(y1, y0+16))
}

// siteOf describes the place of an instruction.
func (s *session) siteOf(v timeline.View, addr uint64) *sitePart {
	t := v.Time()
	n := uint64(1)
	for k, to := s.trail.sitesIn(addr, addr+1); k < to; k++ {
		if site := &s.trail.sites[k]; site.addr <= addr {
			addr, n = site.addr, max(n, min(uint64(site.size), 16))
		}
	}
	if insts := s.text.Insts(v, addr, 1, nil); len(insts) > 0 {
		n = max(n, uint64(len(insts[0].Bytes)))
	}
	p := &sitePart{Name: placeName(v, addr), Addr: hexAddr(addr)}
	buf := make([]byte, n)
	type content struct {
		siteContent
		bytes []byte
		ns    uint64
	}
	var contents []*content
	from, to := s.extent()
	for b := range s.r.Image.Versions(addr, buf, 0, timeline.MaxTime) {
		p.Total++
		if p.Total > 100_000 {
			break
		}
		bytesNow := buf[:b.Given]
		k := slices.IndexFunc(contents, func(c *content) bool { return bytes.Equal(c.bytes, bytesNow) })
		if k < 0 {
			if len(contents) == mostVersions {
				continue
			}
			k = len(contents)
			c := &content{bytes: bytes.Clone(bytesNow)}
			c.Bytes = cmp.Or(spaced(bytesNow, 16), "not given")
			c.Text = s.side(s.r.Image.At(max(b.Since, from)), addr, bytesNow)
			contents = append(contents, c)
		}
		c := contents[k]
		c.N++
		if a, z := max(b.Since, from), min(b.Until, to); a < z {
			c.ns += z - a
		}
		now := b.Since <= t && (t < b.Until || b.Until == timeline.MaxTime)
		c.Now = c.Now || now
		sv := siteVersion{Since: seconds(b.Since), Until: seconds(b.Until), Bytes: c.Bytes, Text: c.Text, Standing: b.Standing.String(), Reason: b.Reason.Text(),
			Href: addrLink(addr, max(b.Since, from)), Content: k, Now: now}
		// The versions around the time.
		p.Versions = append(p.Versions, sv)
		const around = 12
		if i := slices.IndexFunc(p.Versions, func(v siteVersion) bool { return v.Now }); i > around {
			p.Versions = p.Versions[i-around:]
		} else if i >= 0 && len(p.Versions) > i+around+1 {
			p.Versions = p.Versions[:i+around+1]
		} else if i < 0 && len(p.Versions) > around+1 {
			p.Versions = p.Versions[1:]
		}
	}
	for _, c := range contents {
		c.Time = span(c.ns)
		p.Contents = append(p.Contents, c.siteContent)
	}
	tr := s.trail
	var before, after = -1, -1
	for k, end := tr.sitesIn(addr, addr+n); k < end; k++ {
		all := tr.ofSite(k, 0, timeline.MaxTime)
		i := sort.Search(len(all), func(i int) bool { return tr.time[all[i]] > t })
		if i > 0 && int(all[i-1]) > before {
			before = int(all[i-1])
		}
		if i < len(all) && (after < 0 || int(all[i]) < after) {
			after = int(all[i])
		}
	}
	one := func(i int) *changeRow {
		if i < 0 {
			return nil
		}
		return &s.rowsOf([]logEntry{logEntry(i)})[0]
	}
	p.Before, p.After = one(before), one(after)
	if k := slices.IndexFunc(contents, func(c *content) bool { return c.Now }); k >= 0 && (before >= 0 || after >= 0) {
		i := before
		if i < 0 {
			i = after
		}
		if classNames[tr.class[i]] == mechanism.StaticKey.String() {
			p.Key = "jumps here. The key is on, if the code tests it with static_branch_unlikely() as most code does"
			if isNOP(contents[k].Text) {
				p.Key = "goes straight on here, with a NOP. The key is off, if the code tests it with static_branch_unlikely() as most code does"
			}
		}
	}
	return p
}

// isNOP reports whether the instruction at a site of a static key is a NOP; else it jumps.
// Whether a site jumps while its key is on depends on how the code tests it, which only the
// kernel's __jump_table says. Most sites are static_branch_unlikely(): they jump while the
// key is on.
func isNOP(inst string) bool {
	return strings.HasPrefix(inst, "nop") || strings.HasPrefix(inst, "xchg")
}

// countSamples counts the samples of the kernel that hit the rows.
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
		var at uint64
		if fmt.Sscanf(strings.TrimPrefix(p.Rows[i].Addr, "0x"), "%x", &at); at != 0 {
			p.Rows[i].Samples = hits[at]
		}
	}
}

// LastMoment is the index of the last moment, for the slider.
func (p *codePage) LastMoment() int { return len(p.Moments) - 1 }
