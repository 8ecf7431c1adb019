// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A diffPage is what differs between two times.
type diffPage struct {
	From, To, Symbol string
	Asked            bool
	Summary          string
	Places           []diffRow
	More             int
	First, Last      string
}

type diffRow struct {
	DiffPlace
	Hex        string
	HrefBefore string
	HrefAfter  string
	Word       string
}

// mostDiff is how many places a page of differences lists.
const mostDiff = 400

func (q *request) diff() error {
	from, to := q.extent()
	p := &diffPage{From: strings.TrimSpace(q.FormValue("from")), To: strings.TrimSpace(q.FormValue("to")), Symbol: strings.TrimSpace(q.FormValue("symbol")),
		First: replay.Seconds(from), Last: replay.Seconds(to)}
	if p.From == "" && p.To == "" {
		p.From, p.To = "start", "end"
		if p.Symbol == "" && !q.Form.Has("from") {
			return q.page("diff", "Diff", p)
		}
	}
	if err := q.session.diffOf(p, cmp.Or(p.From, "start"), cmp.Or(p.To, "end"), mostDiff); err != nil {
		return err
	}
	return q.page("diff", "Diff", p)
}

func (s *session) diffOf(p *diffPage, from, to string, most int) error {
	a, err := s.r.ParseTime(from)
	if err != nil {
		return err
	}
	b, err := s.r.ParseTime(to)
	if err != nil {
		return err
	}
	d, err := s.text.Diff(a, b, p.Symbol, most)
	if err != nil {
		return err
	}
	words := map[string]string{"bytes": "changed", "gone": "only at the first time", "came": "only at the second time"}
	p.Asked, p.Summary, p.More = true, d.Summary, d.More
	for _, x := range d.Places {
		p.Places = append(p.Places, diffRow{DiffPlace: x, Hex: hexAddr(x.Addr), Word: words[x.Change], HrefBefore: addrLink(x.Addr, a.From), HrefAfter: addrLink(x.Addr, b.From)})
	}
	return nil
}

// A searchPage lists what a search found.
type searchPage struct {
	Query, T string
	Found    []foundRow
	More     int
	// Near is the part of Query that the names of Found have, if none has all of it.
	Near string
	Data *dataPart
}

type foundRow struct {
	Name, Href, Addr, Kind string
	Changes                int
	Last                   string
}

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

func (q *request) search() error {
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	text := strings.TrimSpace(q.FormValue("q"))
	if text == "" {
		q.to = "/"
		return nil
	}
	t, err := q.timeOr(q.r.Report.First)
	if err != nil {
		return err
	}
	when := "&t=" + replay.Seconds(t)
	if q.FormValue("t") == "" {
		when = ""
	}
	p := &searchPage{Query: text, T: q.FormValue("t")}
	addr, addrErr := q.r.ParseAddr(text, t)
	if addrErr == nil && q.isCode(addr) {
		q.to = "/at?addr=" + url.QueryEscape(text) + when
		return nil
	}
	if tt, err := q.r.ParseTime(text); err == nil && strings.ContainsAny(text, ".%+") {
		q.to = "/map?t=" + replay.Seconds(tt.From)
		return nil
	}
	var n int
	p.Found, n = q.session.find(text, t, 100)
	if n == 0 && addrErr != nil {
		p.Near, p.Found, n = q.session.near(text, t)
	}
	p.More = n - len(p.Found)
	if addrErr == nil {
		p.Data = q.session.dataOf(text, addr, t)
	} else if k := q.r.Kallsyms(); k != nil {
		for s := range q.r.TableSymbols {
			if s.Name == text {
				p.Data = q.session.dataOf(text, s.Addr, t)
				break
			}
		}
	}
	return q.page("search", text, p)
}

// timeOr returns the time that a page keeps.
func (q *request) timeOr(t uint64) (uint64, error) {
	s := strings.TrimSpace(q.FormValue("t"))
	if s == "" {
		return t, nil
	}
	x, err := q.r.ParseTime(s)
	return x.From, err
}

// isCode reports whether the image says anything about an address.
func (s *session) isCode(addr uint64) bool {
	for i := range s.axis.areas {
		if a := &s.axis.areas[i]; a.lo <= addr && addr < a.hi {
			return true
		}
	}
	return false
}

// indexFold is strings.Index for a name in which upper case does not matter. lower is in
// lower case.
func indexFold(name, lower string) int {
	for i := 0; i+len(lower) <= len(name); i++ {
		if strings.EqualFold(name[i:i+len(lower)], lower) {
			return i
		}
	}
	return -1
}

// find returns the symbols with the text in their name, those that change first: at most
// so many, and how many there are.
func (s *session) find(text string, t uint64, most int) (found []foundRow, n int) {
	type hit struct {
		name   string
		addr   uint64
		size   uint64
		kind   string
		n      int
		last   uint64
		rank   int
		module string
	}
	var hits []hit
	lower := strings.ToLower(text)
	seen := make(map[uint64]bool) // hashes, because there can be 100,000 names
	seed := maphash.MakeSeed()
	better := func(a, b hit) int {
		changes := func(h *hit) int { return min(h.n, 1) }
		return cmp.Or(cmp.Compare(min(a.rank, 1), min(b.rank, 1)), changes(&b)-changes(&a), cmp.Compare(a.rank, b.rank), cmp.Compare(len(a.name), len(b.name)), strings.Compare(a.name, b.name))
	}
	add := func(name, module string, addr, size uint64, kind string) {
		at := indexFold(name, lower)
		if at < 0 {
			return
		}
		key := maphash.Comparable(seed, struct {
			module, name string
			addr         uint64
		}{module, name, addr})
		if seen[key] {
			return
		}
		seen[key] = true
		h := hit{name: name, addr: addr, size: size, kind: kind, module: module}
		h.rank = 2
		if at == 0 {
			h.rank = 1
		}
		if len(name) == len(text) {
			h.rank = 0
		}
		if size > 0 {
			s0, s1 := s.trail.sitesIn(addr, addr+size)
			h.n = int(s.trail.first[s1] - s.trail.first[s0])
			for k := s0; k < s1; k++ {
				if of := s.trail.ofSite(k, 0, timeline.MaxTime); len(of) > 0 {
					h.last = max(h.last, s.trail.time[of[len(of)-1]])
				}
			}
		}
		if hits = append(hits, h); len(hits) == 8*most {
			slices.SortStableFunc(hits, better)
			hits = hits[:most]
		}
	}
	for x := range s.r.TableSymbols {
		if indexFold(x.Name, lower) < 0 {
			continue
		}
		kind := "function"
		if x.Size == 0 {
			kind = "data"
		}
		if x.Module != "" {
			kind += " of " + x.Module
		}
		add(x.Name, x.Module, x.Addr, x.Size, kind)
	}
	for x := range s.r.Image.Symbols {
		kind := "out-of-line code"
		if x.Module == "bpf" {
			kind = "BPF"
		}
		add(x.Name, x.Module, x.Addr, x.Size, kind)
	}
	slices.SortStableFunc(hits, better)
	hits = hits[:min(most, len(hits))]
	out := make([]foundRow, 0, len(hits))
	for _, h := range hits {
		row := foundRow{Name: h.name, Addr: hexAddr(h.addr), Kind: h.kind, Changes: h.n, Last: seconds(h.last), Href: addrLink(h.addr, t)}
		if h.size == 0 {
			row.Href = "/search?" + url.Values{"q": {h.name}}.Encode()
		}
		out = append(out, row)
	}
	return out, len(seen)
}

// near returns the longest word of a name that some symbol has in its own, and these
// symbols.
func (s *session) near(text string, t uint64) (word string, found []foundRow, n int) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	slices.SortStableFunc(words, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, word := range words[:min(4, len(words))] {
		if len(word) < 4 {
			break
		}
		if found, n = s.find(word, t, 100); n > 0 {
			return word, found, n
		}
	}
	return "", nil, 0
}

// suggest completes a name.
func (q *request) suggest() error {
	q.typ = "application/json"
	text := strings.TrimSpace(q.FormValue("q"))
	names := []map[string]any{}
	if len(text) >= 2 && q.wait(q.Context(), time.Second) {
		found, _ := q.session.find(text, q.r.Report.First, 12)
		for _, f := range found {
			names = append(names, map[string]any{"name": f.Name, "changes": f.Changes, "kind": f.Kind})
		}
	}
	return q.json(names)
}

// dataOf says which functions use a symbol that is not code, and when they changed. So
// somebody who knows the name of a static key finds the changes that it causes: the
// functions that switch the key use its address, and they test it too.
func (s *session) dataOf(name string, addr, t uint64) *dataPart {
	const most = 100
	d := &dataPart{Name: name, Addr: hexAddr(addr), Blind: !s.canRefer()}
	v := s.r.Image.At(t)
	type user struct{ lo, hi uint64 }
	var users []user
	for _, at := range s.references(v, addr) {
		sym, ok := v.Symbol(at)
		if !ok || sym.Size == 0 || slices.ContainsFunc(users, func(u user) bool { return u.lo == sym.Addr }) {
			continue
		}
		users = append(users, user{sym.Addr, sym.Addr + sym.Size})
		s0, s1 := s.trail.sitesIn(sym.Addr, sym.Addr+sym.Size)
		d.Users = append(d.Users, foundRow{Name: placeName(v, sym.Addr), Href: addrLink(sym.Addr, t), Addr: hexAddr(sym.Addr), Changes: int(s.trail.first[s1] - s.trail.first[s0])})
	}
	var all []logEntry
	for _, u := range users {
		s0, s1 := s.trail.sitesIn(u.lo, u.hi)
		for k := s0; k < s1; k++ {
			for _, i := range s.trail.ofSite(k, 0, timeline.MaxTime) {
				all = append(all, logEntry(i))
			}
		}
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
		if last == first && i < len(all) && int(all[i]) == first {
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
			// Sites of both kinds are in the functions that use it. Most others are of one.
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

// switched says whether changes of a static key's sites switch it on or off: see isNOP.
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

// mostReferences is up to how many places that have an address are looked for.
const mostReferences = 200

// canRefer reports whether references can read the kernel's code.
func (s *session) canRefer() bool {
	lo, hi := s.r.Image.Text()
	return (s.r.Machine() == elf.EM_X86_64 || s.r.Machine() == elf.EM_AARCH64) && hi-lo <= 1<<28
}

// references returns the places in kernel text that have an address in an instruction.
func (s *session) references(v timeline.View, addr uint64) (found []uint64) {
	if !s.canRefer() {
		return nil
	}
	// An instruction, or two that belong together, may be at the end of a piece.
	const piece, more = 1 << 16, 64
	lo, hi := s.r.Image.Text()
	buf := make([]byte, piece+more)
	for at := lo; at < hi && len(found) < mostReferences; at += piece {
		if at&(1<<20-1) == 0 && s.large {
			s.r.Unload() // all of kernel text is read
		}
		n := min(uint64(len(buf)), hi-at)
		b := buf[:n]
		if v.Read(at, b).Given < int(n) {
			clear(b)
			for sp := range v.Spans(at, n) {
				copy(b[sp.Addr-at:], sp.Bytes)
			}
		}
		if s.r.Machine() == elf.EM_X86_64 {
			found = s.referencesX86(found, v, b, min(piece, len(b)), at, addr)
		} else {
			found = referencesARM64(found, b, min(piece, len(b)), at, addr)
		}
	}
	return found
}

// referencesX86 adds the places in the first n bytes of b, which is at an address: as 32 bits,
// sign-extended or relative to the end of the instruction.
func (s *session) referencesX86(found []uint64, v timeline.View, b []byte, n int, at, addr uint64) []uint64 {
	absolute := uint32(addr)
	if uint64(int64(int32(absolute))) != addr {
		absolute = 0
	}
	want := uint32(addr - at) // relative to the begin of b
	for i := 0; i+4 <= len(b) && i < n && len(found) < mostReferences; i++ {
		x := binary.LittleEndian.Uint32(b[i:])
		// An instruction ends at most 4 bytes behind its displacement.
		if gap := want - x - uint32(i); x != absolute && (gap < 4 || gap > 8) || x == 0 {
			continue
		}
		if pos := at + uint64(i); s.refersTo(v, pos, addr) {
			found = append(found, pos)
		}
	}
	return found
}

// referencesARM64 adds the ADRP instructions in the first n bytes of b after which one of the
// next instructions has the address: ADRP makes a page, and ADD, once or twice, or the offset
// of a load or store the rest.
func referencesARM64(found []uint64, b []byte, n int, at, addr uint64) []uint64 {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	for i := 0; i+4 <= n && len(found) < mostReferences; i += 4 {
		w := word(i)
		if w&0x9f000000 != 0x90000000 {
			continue
		}
		pages := int64(int32(w>>5&0x7ffff<<13|w>>29&3<<11) >> 11) // 21 bits, with a sign
		page := (at+uint64(i))&^0xfff + uint64(pages<<12)
		if addr-page >= 2<<12 {
			continue // two ADDs reach the next page
		}
		var value [32]uint64 // of registers, 0: not known
		value[w&31] = page
		for j := i + 4; j+4 <= len(b) && j < i+64; j += 4 {
			x := word(j)
			from, imm := value[x>>5&31], uint64(x>>10&0xfff)
			if from == 0 {
				continue
			}
			if x&0xffc00000 == 0x91000000 { // ADD Xd, Xn, #imm
				from += imm
				value[x&31] = from
			} else if x&0x3b000000 == 0x39000000 { // LDR, STR [Xn, #imm]
				from += imm << (x >> 30)
			} else {
				continue
			}
			if from == addr {
				found = append(found, at+uint64(i))
				break
			}
		}
	}
	return found
}

// refersTo reports whether the instruction that has the bytes at pos refers to addr.
func (s *session) refersTo(v timeline.View, pos, addr uint64) bool {
	sym, ok := v.Symbol(pos)
	if !ok || sym.Size == 0 || pos-sym.Addr >= sym.Size || sym.Size > 1<<16 {
		return false
	}
	for _, in := range s.text.Insts(v, sym.Addr, sym.Size, nil) {
		if n := uint64(len(in.Bytes)); in.Addr < pos && pos < in.Addr+n && !in.Data {
			off := pos - in.Addr
			x := binary.LittleEndian.Uint32(append(slices.Clone(in.Bytes[off:]), 0, 0, 0, 0))
			absolute := uint64(int64(int32(x)))
			return off+4 <= n && (absolute == addr || in.Addr+n+absolute == addr)
		}
	}
	return false
}

// A mapData is what the map's script needs to begin.
type mapData struct {
	From   string    `json:"from"` // of the plane, in nanoseconds
	To     string    `json:"to"`
	Height uint64    `json:"height"`
	Cells  int       `json:"cells"`
	Areas  []mapArea `json:"areas"`
	Spans  []mapSpan `json:"spans"`
	Names  []string  `json:"classes"`
	Gaps   []mapGap  `json:"gaps"`
	// What is shown first.
	T0 string `json:"t0"`
	T1 string `json:"t1"`
	Y0 uint64 `json:"y0"`
	Y1 uint64 `json:"y1"`
	// Tiles are embedded in a report.
	Tiles map[string]*tile `json:"tiles,omitempty"`
}

type mapArea struct {
	Pos  uint64 `json:"p"`
	Size uint64 `json:"n"`
	Addr string `json:"a"`
	Kind string `json:"k"`
	Name string `json:"name"`
}

type mapSpan struct {
	Pos  uint64 `json:"p"`
	Size uint64 `json:"n"`
	From string `json:"f"`
	To   string `json:"u"`
	Kind string `json:"k"`
	Name string `json:"name"`
}

type mapGap struct {
	From string `json:"f"`
	To   string `json:"u"`
	Text string `json:"text"`
}

type mapPage struct {
	Data    *mapData
	Classes []classCount
	Table   []mapTableRow
	From    string
	To      string
	Total   string
}

// A mapTableRow is a band of the map in the table for those who cannot see the picture.
type mapTableRow struct {
	Name, Kind, Range string
	Sites, Changes    int
	Href              string
}

// The most of each that is sent to the map.
const (
	mostSpans = 2000
	mostGaps  = 1000
)

func (q *request) mapPage() error {
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	d := q.session.mapOf(q.plane)
	from, to, err := q.window()
	if err != nil {
		return err
	}
	d.T0, d.T1 = dec(from), dec(to)
	if s := strings.TrimSpace(q.FormValue("t")); s != "" {
		t, err := q.r.ParseTime(s)
		if err != nil {
			return err
		}
		if q.isWhole() && q.Form.Has("y0") {
			// A function: a tenth of the recording around the time.
			n := (q.plane.to - q.plane.from) / 20
			d.T0, d.T1 = dec(max(t.From, q.plane.from+n)-n), dec(min(t.From+n, q.plane.to))
		}
	}
	for _, y := range []struct {
		name string
		to   *uint64
	}{{"y0", &d.Y0}, {"y1", &d.Y1}} {
		if x := q.FormValue(y.name); x != "" {
			if *y.to, err = strconv.ParseUint(x, 10, 64); err != nil {
				return &RequestError{y.name + ": want a number"}
			}
		}
	}
	if a := q.FormValue("addr"); a != "" {
		addr, err := q.r.ParseAddr(a, from)
		if err != nil {
			return err
		}
		y := q.axis.pos(addr)
		d.Y0, d.Y1 = y-min(y, 2048), y+2048
	}
	d.Y1 = min(d.Y1, q.axis.height)
	if d.Y0 >= d.Y1 {
		d.Y0, d.Y1 = 0, q.axis.height
	}
	return q.page("map", "Map", q.session.mapPageOf(d))
}

func (s *session) mapPageOf(d *mapData) *mapPage {
	p := &mapPage{Data: d, From: replay.Seconds(s.plane.from), To: replay.Seconds(s.plane.to), Total: thousands(len(s.trail.time))}
	var n [256]int
	for _, c := range s.trail.class {
		n[c]++
	}
	for k, name := range classNames {
		if n[k] > 0 {
			p.Classes = append(p.Classes, classCount{Class: k, Name: name})
		}
	}
	for i := range s.axis.areas {
		a := &s.axis.areas[i]
		s0, s1 := s.trail.sitesIn(a.lo, a.hi)
		p.Table = append(p.Table, mapTableRow{a.name, a.kind, fmt.Sprintf("%x..%x", a.lo, a.hi), s1 - s0, int(s.trail.first[s1] - s.trail.first[s0]),
			fmt.Sprintf("/map?y0=%d&y1=%d", a.pos, a.pos+a.hi-a.lo)})
	}
	return p
}

func (s *session) mapOf(p *plane) *mapData {
	d := &mapData{From: dec(p.from), To: dec(p.to), Height: s.axis.height, Cells: tileCells, Names: classNames, Areas: []mapArea{}, Spans: []mapSpan{}, Gaps: []mapGap{}, T0: dec(p.from), T1: dec(p.to), Y1: s.axis.height}
	for i := range s.axis.areas {
		a := &s.axis.areas[i]
		d.Areas = append(d.Areas, mapArea{a.pos, a.hi - a.lo, hexAddr(a.lo), a.kind, a.name})
	}
	for i := range s.spans {
		l := &s.spans[i]
		if len(d.Spans) == mostSpans || l.To < p.from || l.From > p.to {
			continue
		}
		pos, end := s.axis.pos(l.Lo), s.axis.pos(l.Hi-1)
		if end < pos {
			continue
		}
		d.Spans = append(d.Spans, mapSpan{pos, end + 1 - pos, dec(max(l.From, p.from)), dec(min(l.To, p.to)), l.Kind, cmp.Or(l.Name, l.Kind)})
	}
	d.Gaps = append(d.Gaps, gapsOf(s.r.Report.Coverage.Pokes.Limits, p.from, p.to)...)
	return d
}

// gapsOf returns the times in which changes may be missing, without overlaps. If there are
// too many, the closest are joined.
func gapsOf(limits []replay.Limit, from, to uint64) []mapGap {
	type gap struct {
		timeline.Interval
		text string
		more int
	}
	var all []gap
	for i := range limits {
		if x := &limits[i]; x.To > from && x.From < to {
			all = append(all, gap{timeline.Interval{From: max(x.From, from), To: min(x.To, to)}, x.Text, 0})
		}
	}
	slices.SortFunc(all, func(a, b gap) int { return cmp.Compare(a.From, b.From) })
	for between := uint64(0); ; between = 2*between + 1000 {
		joined := all[:0:0]
		for _, g := range all {
			if n := len(joined); n > 0 && g.From <= joined[n-1].To+between {
				last := &joined[n-1]
				last.To, last.more = max(last.To, g.To), last.more+1+g.more
				continue
			}
			joined = append(joined, g)
		}
		if all = joined; len(all) <= mostGaps {
			break
		}
	}
	var out []mapGap
	for _, g := range all {
		if g.more > 0 {
			g.text += fmt.Sprintf(", and %d more here", g.more)
		}
		out = append(out, mapGap{dec(g.From), dec(g.To), g.text})
	}
	return out
}

func (q *request) mapTile() error {
	q.typ = "application/json"
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	var n [4]uint64
	for i, name := range []string{"zx", "zy", "x", "y"} {
		var err error
		if n[i], err = strconv.ParseUint(q.FormValue(name), 10, 63); err != nil {
			return &RequestError{name + ": want a number"}
		}
	}
	k := tileKey{uint8(min(n[0], 255)), uint8(min(n[1], 255)), n[2], n[3]}
	if !k.valid() {
		return &RequestError{"there is no such tile"}
	}
	return q.json(q.plane.tile(k))
}

// mapNames names positions of the axis: those of a list, at a time.
func (q *request) mapNames() error {
	q.typ = "application/json"
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	t, err := q.timeOr(q.r.Report.First)
	if err != nil {
		return err
	}
	v := q.r.Image.At(t)
	out := []map[string]string{}
	for _, p := range strings.Split(q.FormValue("p"), ",") {
		pos, err := strconv.ParseUint(p, 10, 64)
		if err != nil || len(out) == 64 {
			return &RequestError{"p: want up to 64 positions"}
		}
		addr := q.axis.addr(pos)
		x := map[string]string{"addr": hexAddr(addr), "name": placeName(v, addr)}
		if s, ok := v.Symbol(addr); ok {
			x["symbol"] = s.Name
		}
		out = append(out, x)
	}
	return q.json(out)
}

// mapPick finds the change that is nearest to a point of the map, and names the point.
func (q *request) mapPick() error {
	q.typ = "application/json"
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	var n [6]uint64
	for i, name := range []string{"t", "y", "t0", "t1", "y0", "y1"} {
		var err error
		if n[i], err = strconv.ParseUint(q.FormValue(name), 10, 64); err != nil {
			return &RequestError{name + ": want a number"}
		}
	}
	if n[2] >= n[3] || n[4] >= n[5] {
		return &RequestError{"the rectangle is empty"}
	}
	addr := q.axis.addr(n[1])
	v := q.r.Image.At(n[0])
	out := map[string]any{"addr": hexAddr(addr), "name": placeName(v, addr), "time": replay.Seconds(n[0]), "href": addrLink(addr, n[0])}
	if i, ok := q.plane.nearest(n[0], n[1], n[2], n[3], n[4], n[5]); ok {
		rd := q.trail.reader()
		defer rd.close()
		row := q.pokeRow(rd.poke(i))
		out["change"] = map[string]string{"time": row.Time, "place": row.Place, "writer": row.Writer, "kind": row.Kind, "old": row.Old, "new": row.New, "href": row.Href, "window": row.Window}
	}
	return q.json(out)
}
