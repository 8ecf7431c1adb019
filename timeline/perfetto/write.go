// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// Options select what is written. The zero value writes the whole recording.
type Options struct {
	// From and To select the time [From, To), in nanoseconds of the recording's
	// clock. A To of 0 means the end.
	From, To uint64
	// Sites is how many of the busiest sites get a track each, at most 200; 0: 50. A negative
	// number means none.
	Sites int
	// Tables are the kernel's tables, which distinguish mechanisms; may be nil.
	Tables *mechanism.Tables
	// Disassemble returns code as instructions. code is at addr at the view's time. If
	// it is nil, sites show bytes.
	Disassemble func(v timeline.View, addr uint64, code []byte) string
}

// Stats counts what was written, and what was left out because there was too much.
type Stats struct {
	Bytes     int64
	Tracks    int
	Slices    int
	Counters  int // values of counters
	Changes   uint64
	Truncated []string // what was left out, in words; nil if nothing
}

// The most that is written of each kind. Together they bound the size of a trace to some
// 60 MB.
const (
	mostRuns      = 50000
	mostLifetimes = 20000
	mostLosses    = 10000
	mostStates    = 1000 // of a site
	mostSites     = 200
	mostBins      = 2000
	mostText      = 400 // bytes of a name or an argument
)

// Write writes a recording's changes as a trace to w. It reads the recording twice.
// Errors are those of w.
func Write(w io.Writer, r *replay.Replay, opts Options) (*Stats, error) {
	from, to := max(opts.From, r.Report.First), timeline.Later(r.Report.Last, 1)
	if opts.To != 0 {
		to = min(to, opts.To)
	}
	t := &trace{writer: writer{out: w}, r: r, opts: opts, from: from, to: max(from, to), stats: &Stats{}}
	t.collect()
	t.write()
	t.stats.Bytes = t.bytes
	return t.stats, t.err
}

// A trace is being written.
type trace struct {
	writer
	r        *replay.Replay
	opts     Options
	from, to uint64
	stats    *Stats

	summary *mechanism.Summary
	sites   []site
	uuid    uint64 // of the newest track
	lanes   []lane // all tracks of slices, whose slices follow
	cut     int    // sites whose later states are left out
}

// A site is one of the busiest, with its changes.
type site struct {
	mechanism.SiteCount
	changes []change
	end     uint64 // the time of the first change that was left out; 0 if none was
}

type change struct {
	time           uint64
	old, new       []byte
	cpu, tid       uint32
	hasCPU, hasTID bool
	comm           string
}

// A slice is a time with a name, on a lane.
type slice struct {
	from, to uint64
	name     string
	notes    []note
}

// A lane is a track whose slices do not overlap.
type lane struct {
	track  uint64
	slices []slice
}

// bins returns how many bins of counters there are: of a second each, or longer.
func (t *trace) bins() int { return int(min((t.to-t.from)/1e9+1, mostBins)) }

func (t *trace) within(time uint64) bool { return t.from <= time && time < t.to }

// collect counts all changes, and then keeps those of the busiest sites.
func (t *trace) collect() {
	t.summary = mechanism.NewSummary(t.from, t.to, t.bins())
	c := mechanism.NewClassifier(t.r, t.opts.Tables)
	for ch := range t.r.Changes() {
		if t.within(ch.Time) {
			t.summary.Add(ch, c.Of(ch))
		}
	}
	t.stats.Changes = t.summary.Changes
	n := cmp.Or(t.opts.Sites, 50)
	if n < 0 {
		return
	}
	sites := t.summary.Sites(n)
	if n := len(sites); n > mostSites {
		t.truncated("%d of %d sites", n-mostSites, n)
		sites = sites[:mostSites]
	}
	index := make(map[uint64]int)
	for _, s := range sites {
		if _, ok := index[s.Addr]; !ok { // another mechanism has changed it, too
			index[s.Addr] = len(t.sites)
			t.sites = append(t.sites, site{SiteCount: s})
		}
	}
	if len(t.sites) == 0 {
		return
	}
	left := uint64(0)
	for ch := range t.r.Changes() {
		if ch.Poke == nil || !t.within(ch.Time) {
			continue
		}
		i, ok := index[ch.Poke.Addr]
		if !ok {
			continue
		}
		if x := &t.sites[i]; len(x.changes) == mostStates {
			x.end = cmp.Or(x.end, ch.Time)
			left++
			continue
		}
		x := change{time: ch.Time, old: bytes.Clone(ch.Poke.Old), new: bytes.Clone(ch.Poke.New), comm: ch.Comm}
		if x.hasTID = ch.Poke.Has&perfdata.SampleTID != 0; x.hasTID {
			x.tid = ch.Poke.TID
		}
		if x.hasCPU = ch.Poke.Has&perfdata.SampleCPU != 0; x.hasCPU {
			x.cpu = ch.Poke.CPU
		}
		t.sites[i].changes = append(t.sites[i].changes, x)
	}
	if left > 0 {
		t.truncated("%d changes of single sites", left)
	}
}

func (t *trace) truncated(format string, args ...any) {
	t.stats.Truncated = append(t.stats.Truncated, fmt.Sprintf(format, args...))
}

// newTrack writes the descriptor of a new track.
func (t *trace) newTrack(parent uint64, name string, rank int, isCounter bool) uint64 {
	t.uuid++
	t.track(t.uuid, parent, name, rank, isCounter)
	t.stats.Tracks++
	return t.uuid
}

func (t *trace) write() {
	if wall, err := t.r.Report.Clock.ToWall(t.from); err == nil && wall.UnixNano() > 0 {
		t.clocks(t.from, uint64(wall.UnixNano()))
	}
	root := t.newTrack(0, strings.TrimSpace("kernel text "+t.r.Report.Kernel), 0, false)
	t.mechanisms(root)
	t.busy(root)
	t.lifetimes(root)
	t.losses(root)
	for i := range t.lanes {
		t.writeLane(&t.lanes[i])
	}
}

// add puts slices on as many tracks of one name as are needed so that no two of a track
// overlap: Perfetto nests slices, and cuts those that do not.
func (t *trace) add(parent uint64, name string, rank int, slices_ []slice) {
	slices.SortStableFunc(slices_, func(a, b slice) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	first, left := len(t.lanes), 0
	for _, s := range slices_ {
		s.from, s.to = max(s.from, t.from), min(s.to, t.to)
		if s.to < s.from || s.from >= t.to {
			continue
		}
		i := first
		for i < len(t.lanes) {
			last := t.lanes[i].slices[len(t.lanes[i].slices)-1]
			if last.to <= s.from && last.from < s.from {
				break
			}
			i++
		}
		if i-first >= mostLanes {
			left++
			continue
		}
		if i == len(t.lanes) {
			t.lanes = append(t.lanes, lane{track: t.newTrack(parent, name, rank, false)})
		}
		t.lanes[i].slices = append(t.lanes[i].slices, s)
	}
	if left > 0 {
		t.truncated("%d of %d slices of %s, which overlap more than %d others", left, len(slices_), name, mostLanes-1)
	}
}

// mostLanes is how many slices of one name may overlap.
const mostLanes = 512

func (t *trace) writeLane(l *lane) {
	for i := range l.slices {
		s := &l.slices[i]
		t.begin(s.from, l.track, s.name, s.notes)
		t.end(s.to, l.track)
		t.stats.Slices++
	}
}

// mechanisms writes a track and a counter for each mechanism.
func (t *trace) mechanisms(root uint64) {
	runs := t.summary.Runs()
	if len(runs) > mostRuns {
		t.truncated("the %d smallest runs of %d", len(runs)-mostRuns, len(runs))
		slices.SortStableFunc(runs, func(a, b mechanism.Run) int { return cmp.Compare(b.Changes, a.Changes) })
		runs = runs[:mostRuns]
	}
	group := t.newTrack(root, "mechanisms", 0, false)
	for rank, m := range t.summary.Mechanisms() {
		t.counter(group, m.Mechanism.String()+" changes/s", rank, func(b *mechanism.Bin) uint64 { return b.By[m.Mechanism] })
		var out []slice
		for i := range runs {
			if r := &runs[i]; r.Mechanism == m.Mechanism {
				out = append(out, t.run(r))
			}
		}
		t.add(group, m.Mechanism.String(), rank, out)
	}
}

func (t *trace) run(r *mechanism.Run) slice {
	s := slice{from: r.First, to: timeline.Later(r.Last, 1), name: fmt.Sprintf("%d by %s", r.Changes, cmp.Or(r.Comm, "?"))}
	s.notes = []note{{name: "changes", number: r.Changes}, {name: "batches", number: r.Batches}, {name: "pid", number: uint64(r.PID)},
		{name: "tid", number: uint64(r.TID)}, {name: "comm", text: cmp.Or(r.Comm, "?")}}
	if r.Addr != 0 {
		s.notes = append(s.notes, note{name: "first site", text: t.name(r.Addr, r.First)})
	}
	return s
}

// counter writes a counter of changes per second. A value that stays the same is not
// written again.
func (t *trace) counter(parent uint64, name string, rank int, value func(*mechanism.Bin) uint64) {
	track := t.newTrack(parent, name, rank, true)
	before := uint64(1)<<63 - 1
	bins := t.summary.Bins()
	for i := range bins {
		b := &bins[i]
		// At least 1, so that a bin with changes is never 0.
		v := value(b)
		if v > 0 {
			v = max(v*1e9/max(b.To-b.From, 1), 1)
		}
		if v != before {
			t.count(b.From, track, v)
			t.stats.Counters++
			before = v
		}
	}
}

// busy writes a track for each of the busiest sites, with the code that was there, and one
// with the times when a CPU may have met a trap.
func (t *trace) busy(root uint64) {
	if len(t.sites) == 0 {
		return
	}
	group := t.newTrack(root, "busiest sites", 1, false)
	for rank := range t.sites {
		s := &t.sites[rank]
		name := fmt.Sprintf("%s (%v)", t.name(s.Addr, s.changes[0].time), s.Mechanism)
		var windows []slice
		for i := range s.changes {
			windows = t.window(windows, s.Addr, &s.changes[i])
		}
		t.add(group, name, rank, t.states(s))
		if len(windows) > 0 {
			t.add(group, name+" may trap", rank, windows)
		}
	}
	if t.cut > 0 {
		t.truncated("the later states of %d sites", t.cut)
	}
}

// states returns the contents of a site: what each change left there, as long as that is known.
// Where it is not known, because records were lost for example, the slice says so. Where other bytes are
// known, because a change was lost or other code came to this address, they are shown. Of a wide
// change, only the bytes that are shown count.
func (t *trace) states(s *site) (out []slice) {
	n, until := 1, cmp.Or(s.end, t.to)
	for i := range s.changes {
		n = max(n, len(s.changes[i].old), len(s.changes[i].new))
	}
	text := make([]byte, min(n, mostText))
	k := -1 // the newest change
	var last struct {
		k     int
		doubt string
		text  []byte // an instruction of the slice may end behind the change
	}
	put := func(from, to uint64, b *timeline.Block) {
		doubt := ""
		if b.Standing != timeline.Known && b.Standing != timeline.InFlight {
			doubt = b.Standing.String() + ": "
		}
		n := len(out)
		follows := n > 0 && out[n-1].to == from && k == last.k
		if follows && doubt == last.doubt && bytes.Equal(text[:b.Given], last.text) {
			out[n-1].to = to
			return
		}
		last.k, last.doubt, last.text = k, doubt, append(last.text[:0], text[:b.Given]...)
		code, by := s.changes[0].old, (*change)(nil)
		if k >= 0 {
			by = &s.changes[k]
			code = by.new
		}
		others := other(b, text, code)
		if others != nil {
			code, by = others, nil
		}
		x := t.state(s.Addr, from, to, code, by)
		x.name = doubt + x.name
		if others != nil {
			x.notes = append(x.notes, note{name: "change", text: "none was recorded at this site"})
		}
		if text := b.Reason.Text(); doubt != "" && text != "" {
			x.notes = append(x.notes, note{name: "reason", text: text})
		}
		if follows && out[n-1].name == x.name {
			out[n-1].to = to
			return
		}
		out = append(out, x)
	}
	// The bytes of the newest change, all that any change has if it left none.
	size := func(k int) int {
		code := s.changes[0].old
		if k >= 0 {
			code = s.changes[k].new
		}
		return min(cmp.Or(len(code), n), mostText)
	}
	for first := -1; first < len(s.changes); {
		// The changes from first up to after are of one size.
		after := first + 1
		for after < len(s.changes) && size(after) == size(first) {
			after++
		}
		begin, end := t.from, until
		if first >= 0 {
			begin = max(begin, s.changes[first].time)
		}
		if after < len(s.changes) {
			end = min(end, s.changes[after].time)
		}
		text = text[:size(first)]
		for b := range t.r.Image.Versions(s.Addr, text, begin, end) {
			from, to := max(b.Since, begin), min(b.Until, end)
			for from < to {
				for k+1 < len(s.changes) && s.changes[k+1].time <= from {
					k++
				}
				next := to
				if k+1 < len(s.changes) {
					next = min(next, s.changes[k+1].time)
				}
				put(from, next, &b)
				from = next
			}
			if len(out) > 2*mostStates {
				t.cut++
				return out
			}
		}
		first = after
	}
	return out
}

// other returns the bytes that the image has at a site, in text, if they are not those that the newest
// change left, code. It returns nil if they are, or if the image has no single answer.
func other(b *timeline.Block, text, code []byte) []byte {
	if b.Standing != timeline.Known && b.Standing != timeline.Unconfirmed {
		return nil
	}
	if text = text[:b.Given]; len(text) == 0 {
		return nil
	}
	if len(code) == 0 {
		return text
	}
	if n := min(len(code), len(text)); !bytes.Equal(text[:n], code[:n]) {
		return text[:n]
	}
	return nil
}

func (t *trace) state(addr, from, to uint64, code []byte, by *change) slice {
	s := slice{from: from, to: to, name: "nothing"}
	if len(code) > 0 {
		s.name = t.instructions(addr, from, code)
		s.notes = append(s.notes, note{name: "bytes", text: hex.EncodeToString(code)})
	}
	if by == nil {
		return s
	}
	if len(by.old) > 0 {
		s.notes = append(s.notes, note{name: "before", text: t.instructions(addr, max(from, 1)-1, by.old)})
	}
	if by.hasTID {
		s.notes = append(s.notes, note{name: "writer", text: fmt.Sprintf("%s[%d]", cmp.Or(by.comm, "?"), by.tid)})
	}
	if by.hasCPU {
		s.notes = append(s.notes, note{name: "cpu", number: uint64(by.cpu)})
	}
	return s
}

// window appends the window of a change. Windows of one site that overlap are joined.
func (t *trace) window(out []slice, addr uint64, c *change) []slice {
	// The window of a probe that is armed ends when the change is recorded.
	for _, at := range [...]uint64{c.time, max(c.time, 1) - 1} {
		for _, w := range t.r.Windows().At(addr, uint64(max(len(c.new), 1)), at) {
			if w.Switch != c.time || w.Addr != addr {
				continue
			}
			s := slice{from: w.Proven.From, to: w.Proven.To, name: "may trap", notes: []note{{name: "probably from", number: w.Estimate.From},
				{name: "probably until", number: w.Estimate.To}}}
			if n := len(out); n > 0 && s.from <= out[n-1].to {
				last := &out[n-1]
				last.from, last.to = min(last.from, s.from), max(last.to, s.to)
				last.notes[0].number = min(last.notes[0].number, w.Estimate.From)
				last.notes[1].number = max(last.notes[1].number, w.Estimate.To)
				return out
			}
			return append(out, s)
		}
	}
	return out
}

// lifetimes writes the lifetimes of modules, BPF programs and images, and out-of-line code.
func (t *trace) lifetimes(root uint64) {
	kinds := [...]struct {
		name   string
		slices []slice
	}{{name: "BPF programs"}, {name: "BPF trampolines and images"}, {name: "out-of-line code"}, {name: "modules"}}
	n, left := 0, 0
	for l := range t.r.Image.Lifetimes {
		k := 0
		switch l.Kind {
		case timeline.BPFProgram:
		case timeline.BPFImage:
			k = 1
		case timeline.OutOfLine:
			k = 2
		case timeline.ModuleText:
			k = 3
		default:
			continue
		}
		if l.From >= t.to || l.To <= t.from {
			continue
		}
		if n++; n > mostLifetimes {
			left++
			continue
		}
		s := slice{from: l.From, to: l.To, name: cmp.Or(l.Name, "?"), notes: []note{
			{name: "addr", text: fmt.Sprintf("%#x", l.Lo)}, {name: "end", text: fmt.Sprintf("%#x", l.Hi)}}}
		if l.Program != 0 {
			s.notes = append(s.notes, note{name: "program id", number: uint64(l.Program)})
		}
		if l.From == 0 {
			s.notes = append(s.notes, note{name: "began", text: "before the recording"})
		}
		if l.To == timeline.MaxTime {
			s.notes = append(s.notes, note{name: "ended", text: "after the recording, or without a record"})
		}
		kinds[k].slices = append(kinds[k].slices, s)
	}
	if left > 0 {
		t.truncated("%d lifetimes", left)
	}
	group := uint64(0)
	for rank, k := range kinds {
		if len(k.slices) == 0 {
			continue
		}
		if group == 0 {
			group = t.newTrack(root, "lifetimes", 2, false)
		}
		t.add(group, k.name, rank, k.slices)
	}
}

// losses writes when records were lost, and a counter of them.
func (t *trace) losses(root uint64) {
	var out []slice
	left := 0
	for i := range t.r.Report.Losses {
		l := &t.r.Report.Losses[i]
		if l.From >= t.to || l.To < t.from {
			continue
		}
		if len(out) == mostLosses {
			left++
			continue
		}
		out = append(out, slice{from: l.From, to: l.To, name: fmt.Sprintf("%d records lost", l.Records),
			notes: []note{{name: "records", number: l.Records}, {name: "where", text: l.Where()}}})
	}
	if left > 0 {
		t.truncated("%d losses", left)
	}
	if len(out) == 0 {
		return
	}
	group := t.newTrack(root, "lost records", 3, false)
	t.counter(group, "losses/s", 0, func(b *mechanism.Bin) uint64 { return b.Losses })
	t.add(group, "lost", 1, out)
}

// name returns the name of an address: "vfs_read+0x5 [module]".
func (t *trace) name(addr, time uint64) string {
	s, ok := t.r.Image.At(time).Symbol(addr)
	if !ok {
		return fmt.Sprintf("%#x", addr)
	}
	name := s.Name
	if addr != s.Addr {
		name += fmt.Sprintf("+%#x", addr-s.Addr)
	}
	if s.Module != "" && !s.Dynamic {
		name += " [" + s.Module + "]"
	}
	return name
}

func (t *trace) instructions(addr, time uint64, code []byte) string {
	if t.opts.Disassemble == nil {
		return hex.EncodeToString(code[:min(len(code), mostText/2)])
	}
	// The text has more than two characters for each byte, and is cut to mostText.
	return t.opts.Disassemble(t.r.Image.At(time), addr, code[:min(len(code), mostText)])
}

// valid returns s as valid UTF-8, which protobuf needs, cut to about mostText bytes.
func valid(s string) string {
	if len(s) > mostText {
		s = s[:mostText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
