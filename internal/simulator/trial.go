// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/internal/simulator/rawperf"
	"github.com/textreplay/textreplay/internal/simulator/record"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A trial is one variant with one seed: a simulated recording that is read in several
// ways.
type trial struct {
	variant *Variant
	seed    uint64
	dir     string
	rand    *rand.Rand // chooses how the recording is read
	run     *Run
	truth   *truth
	faults  []Fault
	// known and all count bytes times nanoseconds of kernel text while perf recorded:
	// those that the image of the whole recording knows, and all.
	known, all float64
	tally      tally
}

// config returns what the variant makes of the plainest recording.
func (v *Variant) config(seed uint64) *Config {
	c := baseConfig(seed)
	v.change(c, rand.New(rand.NewPCG(seed, hash(v.Name))))
	return c
}

// try simulates a recording in dir and checks all answers about it.
func try(v *Variant, seed uint64, dir string, c *Config) (*trial, error) {
	run, err := simulate(c)
	if err != nil {
		return nil, err
	}
	t := newTrial(v, seed, dir, run)
	paths, err := run.write(dir)
	if err != nil {
		return nil, err
	}
	for i, path := range paths {
		opts := replay.Options{Windows: true}
		if i > 0 {
			opts.KCore = filepath.Join(paths[0], "kcore_dir")
		}
		all := t.piece(i)
		t.load(path, opts, i == 0)
		all()
	}
	if err := t.copied(paths[0]); err != nil {
		return nil, err
	}
	if run.Recording.Pieces[0].Threads == nil {
		if err := t.prefix(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func newTrial(v *Variant, seed uint64, dir string, run *Run) *trial {
	t := &trial{variant: v, seed: seed, dir: dir, rand: rand.New(rand.NewPCG(seed, 4)), run: run, truth: newTruth(run.Kernel)}
	t.lookAtAll()
	return t
}

// lookAtAll takes limits of the times that are looked at back. If the clock was set back while perf
// opened its events, the recording says nothing of when it showed the same times before.
func (t *trial) lookAtAll() {
	t.truth.from, t.truth.until = 0, 0
	for _, s := range t.run.Kernel.Clock.Steps {
		if s.At < t.run.Recording.Opened {
			t.truth.from = s.At
		}
	}
}

// report notes faults of one way of reading.
func (t *trial) report(how string, faults []Fault) {
	for _, f := range faults {
		f.How = how
		t.faults = append(t.faults, f)
	}
}

// complain notes a fault of one way of reading that is about no byte.
func (t *trial) complain(how, kind, format string, args ...any) {
	t.faults = append(t.faults, Fault{How: how, Kind: kind, Detail: fmt.Sprintf(format, args...)})
}

// load reads a recording that perf has written.
func (t *trial) load(path string, opts replay.Options, whole bool) {
	r, err := replay.Load(path, opts)
	if err != nil {
		if opts.KCore == "" {
			t.complain("load", "error", "%v", err)
		}
		return
	}
	defer r.Close()
	c := t.checker(r.Image)
	open := t.openEnd(r)
	if t.variant.floor == AllKnown && len(r.Report.Losses) > 0 {
		open = true // with two listeners, a ring buffer may be full
	}
	if whole && !open {
		c.must = t.musts()
	}
	c.all()
	c.symbols(r.Kallsyms() != nil)
	c.traps(r.Windows())
	t.report("load", c.faults)
	if whole {
		t.measure(c)
		if t.variant.floor == AllKnown && !open {
			t.tidy(r)
		}
		if t.seed%4 == 0 {
			t.index(path, opts, r.Image)
		}
	}
}

// openEnd reports whether a ring buffer may have lost records at the end and the recording
// cannot say so: perf 5.10 does not count them, of a file of perf 7.2 nothing shows that
// it is the last one, and any perf may have stopped reading the counts. A buffer may have lost
// records only if it may have been full.
func (t *trial) openEnd(r *replay.Replay) bool {
	if t.silentEnd(r) {
		return true
	}
	return t.endsFull() && slices.ContainsFunc(r.Report.Coverage.Pokes.Limits, func(l replay.Limit) bool {
		return l.Reason == timeline.AfterLoss && l.To == timeline.MaxTime
	})
}

// endsFull reports whether what perf read of a ring buffer in its last round, or in that and the
// one before, fills one of some size: there is no room for one more record of a change (docs/truth.md,
// losses).
func (t *trial) endsFull() bool {
	rounds := t.run.Recording.Pieces[0].Rounds
	size := kernel.PageSize // none is smaller, or had less in a round
	for _, r := range rounds {
		for size < slices.Max(r.Rings) {
			size *= 2
		}
	}
	room := max(160, t.run.Kernel.Widest)
	full := func(n int) bool {
		of := size
		for of < n {
			of *= 2
		}
		return n > of-room
	}
	for i := range t.run.Recording.Rings {
		last, before := 0, 0
		for k, r := range rounds {
			if n := r.Rings[i]; n > 0 {
				last, before = n, 0
				if k > 0 {
					before = rounds[k-1].Rings[i]
				}
			}
		}
		if full(last) || full(last+before) {
			return true
		}
	}
	return false
}

// silentEnd reports whether a CPU made no record in the last moments of the recording, for longer
// than ever before. Then it may have been offline (rule coverage).
func (t *trial) silentEnd(r *replay.Replay) bool {
	end := t.run.Kernel.Clock.Read(0, t.run.Recording.Ended-second)
	return slices.ContainsFunc(r.Report.Coverage.Pokes.Limits, func(l replay.Limit) bool {
		return l.Reason == timeline.CPUSilent && l.From > end
	})
}

func (t *trial) checker(image *timeline.Image) *checker {
	return &checker{run: t.run, truth: t.truth, image: image, rand: t.rand, tally: &t.tally}
}

// measure notes how much of kernel text the image knows while perf recorded.
func (t *trial) measure(c *checker) {
	rec, text := t.run.Recording, t.run.Kernel.Text
	t.known = c.core
	t.all = float64(text.Hi-text.Lo) * float64(rec.Closed-rec.Opened)
}

// tidy checks that a clean recording gives no cause for complaint.
func (t *trial) tidy(r *replay.Replay) {
	for _, w := range r.Report.Warnings {
		t.complain("load", "warning", "%v", w)
	}
	if r.Report.Coverage.Pokes.Verdict != replay.Complete {
		t.complain("load", "coverage", "of pokes it is %v: %v", r.Report.Coverage.Pokes.Verdict, r.Report.Coverage.Pokes.Limits)
	}
}

// musts returns what must be known, from the exec of the workload to shortly before the
// end.
func (t *trial) musts() []must {
	switch t.variant.floor {
	case AllKnown:
		return t.alive()
	case KnownBetweenLosses:
		return t.betweenLosses()
	}
	return nil
}

// alive returns kernel text, and code that came to life during the recording.
func (t *trial) alive() (m []must) {
	rec := t.run.Recording
	for _, l := range t.run.Kernel.Truth.Lives {
		from, to := max(l.Born, rec.Exec), min(l.Dying, rec.Ended-second)
		if from >= to {
			continue
		}
		switch {
		case l.Kind == kernel.LifeCore:
			m = append(m, t.provable(must{l.Addr, l.Len, from, to, "kernel text"}, rec.Copy.KCore[kernel.PageSize:], 0)...)
		case (l.Kind == kernel.LifeSlot || l.Kind == kernel.LifeTrampoline) && l.From >= rec.Exec:
			m = append(m, must{l.Addr, l.Len, from, to, l.Name})
		case l.Kind == kernel.LifeBPF && rec.Fetched[l] != nil && !t.pokedAround(l):
			known := must{l.Addr, l.Len, from, to, l.Name}
			switch {
			case l.From >= rec.Exec:
				m = append(m, known)
			case rec.Announced[l]: // else it may have gone on a CPU that did not record yet
				m = append(m, t.provable(known, rec.Fetched[l], l.From)...)
			}
		}
	}
	return m
}

// provable returns what can be proven of m, of which perf has a copy: without each place that
// was changed before perf started its workload, where the copy does not have the change, until
// the next change of each byte. The copy may be of before that change. It may also be of after a
// change back that went unrecorded, made by a CPU whose ring buffer was not mapped yet. What
// was written before the time since is not of m.
func (t *trial) provable(m must, text []byte, since uint64) (out []must) {
	rec := t.run.Recording
	last := make(map[uint64]byte) // what the last change before the workload left, by address
	next := make(map[uint64]uint64)
	var changes []*kernel.Store // those of before perf opened its events are in the copy
	for i := range t.run.Kernel.Truth.Stores {
		s := &t.run.Kernel.Truth.Stores[i]
		if m.addr <= s.Addr && s.Addr+uint64(len(s.Data)) <= m.addr+m.len && s.From >= since && (s.Kept || s.From >= rec.Opened) {
			changes = append(changes, s)
		}
	}
	for _, s := range changes {
		for k, b := range s.Data {
			if addr := s.Addr + uint64(k); s.From < rec.Exec {
				last[addr] = b
			} else if next[addr] == 0 {
				next[addr] = s.From
			}
		}
	}
	open := make(map[uint64]bool)
	for _, s := range changes {
		differs := false
		for a := s.Addr; a < s.Addr+uint64(len(s.Data)); a++ {
			b, ok := last[a]
			differs = differs || ok && text[a-m.addr] != b
		}
		for a := s.Addr; differs && s.From < rec.Exec && a < s.Addr+uint64(len(s.Data)); a++ {
			open[a] = true
		}
	}
	text = text[:m.len]
	for i := 0; i+5 <= len(text); i++ {
		addr := m.addr + uint64(i)
		to := addr + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(text[i+1:]))))
		if text[i] == 0xcc && (to >= kernel.ModuleBase || t.ofOneFunction(addr, to)) {
			for a := addr; a < addr+5; a++ {
				open[a] = true
			}
		}
	}
	at := m.addr
	for _, addr := range slices.Sorted(maps.Keys(open)) {
		if at < addr {
			out = append(out, must{at, addr - at, m.from, m.to, m.why})
		}
		if n := next[addr]; n != 0 && n < m.to {
			out = append(out, must{addr, 1, n, m.to, m.why})
		}
		at = addr + 1
	}
	return append(out, must{at, m.addr + m.len - at, m.from, m.to, m.why})
}

// ofOneFunction reports whether two addresses are of one function: text is random, and an INT3 in it
// may look like the trap of a static key.
func (t *trial) ofOneFunction(a, b uint64) bool {
	return slices.ContainsFunc(t.run.Kernel.Text.Funcs, func(f *kernel.Func) bool { return a-f.Addr < f.Size && b-f.Addr < f.Size })
}

// pokedAround reports whether a change was recorded at the place of a program in the
// second before it came to life, or while clocks may differ after that. If clocks differed, the
// first could be one of the program's tail calls, and the second one of what was there before
// (rule clocks), so the program need not be known.
func (t *trial) pokedAround(l *kernel.Life) bool {
	apart := uint64(10e6)
	if t.run.Config.Record.ClockID < 0 {
		apart = second
	}
	return slices.ContainsFunc(t.run.Kernel.Truth.Stores, func(s kernel.Store) bool {
		return s.Kept && l.Addr <= s.Addr && s.Addr < l.Addr+l.Len && (s.From < l.From && l.From-s.From < second || s.From >= l.From && s.From-l.From < apart)
	})
}

// betweenLosses returns, for each poke of kernel text, the time from the loss before it:
// the poke's old bytes prove what was there. What nothing ever patches must be known
// up to the first loss.
func (t *trial) betweenLosses() (m []must) {
	rec, text := t.run.Recording, t.run.Kernel.Text
	var losses []kernel.Interval
	for _, r := range rec.Rings {
		losses = append(losses, r.Losses...)
	}
	slices.SortFunc(losses, func(a, b kernel.Interval) int { return cmp.Compare(a.From, b.From) })
	end := rec.Ended - second
	if len(losses) > 0 {
		end = min(end, losses[0].From)
	}
	for _, f := range text.Funcs {
		if f.Size > 5 && rec.Exec < end {
			m = append(m, must{f.Addr + f.Size - 1, 1, rec.Exec, end, "never patched"})
		}
	}
	for i := range t.run.Kernel.Truth.Stores {
		s := &t.run.Kernel.Truth.Stores[i]
		if !s.Kept || s.From < rec.Exec || s.From > rec.Ended-second || s.Addr < text.Lo || s.Addr >= text.Hi {
			continue
		}
		from := rec.Exec
		for _, l := range losses {
			if l.From <= s.From {
				from = max(from, l.To)
			}
		}
		if from < s.From {
			m = append(m, must{s.Addr, uint64(len(s.Data)), from, s.From, "a poke's old bytes after a loss"})
		}
	}
	return m
}

// index saves the image and reads it back: it must answer alike.
func (t *trial) index(path string, opts replay.Options, image *timeline.Image) {
	opts.Index, opts.SaveIndex = filepath.Join(t.dir, "index"), true
	for i := range 2 {
		r, err := replay.Load(path, opts)
		if err != nil {
			t.complain("index", "error", "%v", err)
			return
		}
		if state := r.Index(); i == 1 && !state.Used {
			t.complain("index", "not used", "%v", state.Err)
		}
		if i == 1 {
			t.same("index", image, r.Image)
		}
		r.Close()
	}
}

// same checks that two images answer alike at some times.
func (t *trial) same(how string, a, b *timeline.Image) {
	for range 8 {
		at := a.First() + t.rand.Uint64N(max(a.Horizon()-a.First(), 1)+second)
		for n := range t.truth.pages {
			if page := n * kernel.PageSize; !alike(a, b, at, page) {
				t.complain(how, "differs", "page %#x at %d is\n%sinstead of\n%s", page, at, describe(b, at, page), describe(a, at, page))
				return
			}
		}
	}
}

// alike reports whether two images have the same spans of a page.
func alike(a, b *timeline.Image, at, page uint64) bool {
	next, stop := iter.Pull(b.At(at).Spans(page, kernel.PageSize))
	defer stop()
	for x := range a.At(at).Spans(page, kernel.PageSize) {
		y, ok := next()
		if !ok || x.Addr != y.Addr || x.Len != y.Len || x.Standing != y.Standing || x.Reason != y.Reason || x.Source != y.Source ||
			x.Since != y.Since || x.Until != y.Until || !bytes.Equal(x.Bytes, y.Bytes) {
			return false
		}
	}
	_, more := next()
	return !more
}

func describe(im *timeline.Image, at, page uint64) string {
	var b strings.Builder
	for s := range im.At(at).Spans(page, kernel.PageSize) {
		fmt.Fprintf(&b, "%x+%d %v %v %v %d..%d %x\n", s.Addr, s.Len, s.Standing, s.Reason, s.Source, s.Since, s.Until, s.Bytes)
	}
	return b.String()
}

// copied reads the recording with the further snapshots that were made of the kernel.
func (t *trial) copied(path string) error {
	if len(t.run.Copies) == 0 {
		return nil
	}
	opts := replay.Options{Windows: true}
	clock := &t.run.Kernel.Clock
	defer t.piece(0)()
	for i, c := range t.run.Copies {
		if !t.truth.looksAt(c.From) || !t.truth.looksAt(c.To) {
			continue // the file is of before, and the clock may have shown the time then too
		}
		dir := filepath.Join(t.dir, fmt.Sprint("copy", i))
		if err := writeCopy(dir, c); err != nil {
			return err
		}
		opts.Copies = append(opts.Copies, replay.Copy{KCore: dir,
			Made: replay.Times{From: clock.Read(0, c.From), To: clock.Read(0, c.To)}})
	}
	r, err := replay.Load(path, opts)
	if misfit := (*replay.MisfitError)(nil); t.run.Config.Foreign != NotForeign && errors.As(err, &misfit) {
		return nil // nothing shows which of the two is of another kernel
	}
	if err != nil {
		t.complain("copies", "error", "%v", err)
		return nil
	}
	defer r.Close()
	c := t.checker(r.Image)
	c.all()
	t.report("copies", c.faults)
	return nil
}

// prefix reads the first part of the recording, as it is when perf is killed, or while
// it is being written.
func (t *trial) prefix() error {
	if rec := &t.run.Config.Record; rec.Control && rec.Form != record.FormPipe {
		return nil // perf writes the command line last, and nothing else says that there is --control
	}
	data := t.run.Recording.Pieces[0].Live
	if t.rand.IntN(3) > 0 {
		data = data[:t.rand.IntN(len(data)+1)]
	}
	kcore := ""
	if t.run.Recording.Copy != nil {
		kcore = filepath.Join(t.dir, "rec0.data", "kcore_dir")
	}
	opts := replay.Options{Windows: true}
	if t.rand.IntN(3) > 0 {
		opts.CPUs = len(t.run.Kernel.AllCPUs)
	}
	if t.rand.IntN(2) == 0 {
		return t.killed(data, kcore, opts)
	}
	opts.KCore = kcore
	t.follow(data, opts)
	return nil
}

// piece limits what is looked at to the time of which the file of --switch-output with this
// number is: from when perf last drained before it to when perf last drained for it. A clock
// that is set back before or later, or so shortly after the beginning or before the end that
// no CPU has made a record on the other side of the step, shows times again of which the
// file says nothing. It returns what takes the limit back.
func (t *trial) piece(i int) func() {
	pieces, k := t.run.Recording.Pieces, t.run.Kernel
	if k.Clock.Steps == nil || len(pieces) < 2 {
		return t.lookAtAll
	}
	for j := range pieces[:i+1] {
		for _, r := range pieces[j].Rounds {
			if j < i {
				t.truth.from = r.At
			} else if i+1 < len(pieces) {
				t.truth.until = r.At
			}
		}
	}
	for _, s := range k.Clock.Steps {
		if t.truth.from != 0 && t.truth.from <= s.At && s.At < t.truth.from+5*k.Activity.Noise {
			t.truth.from = s.At
		}
		if s.At < t.truth.until && t.truth.until < s.At+5*k.Activity.Noise {
			t.truth.until = s.At
		}
	}
	return t.lookAtAll
}

// upTo limits what is looked at to what perf had drained when it had written the first n
// bytes, and at most so many rounds. A clock that is set back later, or so shortly before
// that no CPU has made a record since, shows times again of which these bytes are right.
// It returns what takes the limit back.
func (t *trial) upTo(n, rounds int) func() {
	if steps := t.run.Kernel.Clock.Steps; steps != nil {
		piece := &t.run.Recording.Pieces[0]
		begin := bytes.Index(piece.Live, piece.Records)
		t.truth.until = t.run.Recording.Opened
		for i, r := range piece.Rounds {
			if begin+r.Size <= n && i < rounds {
				t.truth.until = r.At
			}
		}
		for _, s := range steps {
			if s.At < t.truth.until && t.truth.until < s.At+5*t.run.Kernel.Activity.Noise {
				t.truth.until = s.At
			}
		}
	}
	t.beforeReturn(n, rounds)
	return t.lookAtAll
}

// beforeReturn limits what is looked at to the time before a CPU came back without its
// events, if nothing that perf had drained shows that: the first fork on that CPU takes an
// id, which is missing once another CPU has forked and made further records (rule hotplug).
func (t *trial) beforeReturn(n, rounds int) {
	k := t.run.Kernel
	piece := &t.run.Recording.Pieces[0]
	begin := bytes.Index(piece.Live, piece.Records)
	drained := t.run.Recording.Opened
	for i, r := range piece.Rounds {
		if begin+r.Size <= n && i < rounds {
			drained = r.At
		}
	}
	for _, c := range k.AllCPUs {
		if c.Returned != 0 && (k.UnseenFork == 0 || drained < k.UnseenFork+second) {
			t.truth.until = c.Returned
		}
	}
}

func (t *trial) killed(data []byte, kcore string, opts replay.Options) error {
	path := filepath.Join(t.dir, "killed.data")
	file := path
	if kcore != "" {
		file = filepath.Join(path, "data")
	}
	if err := writeFile(file, data); err != nil {
		return err
	}
	if kcore != "" {
		if err := writeCopy(filepath.Join(path, "kcore_dir"), t.run.Recording.Copy); err != nil {
			return err
		}
	}
	r, err := replay.Load(path, opts)
	if err != nil {
		return nil // too little of it
	}
	defer r.Close()
	defer t.upTo(len(data), math.MaxInt)()
	c := t.checker(r.Image)
	c.all()
	t.report(fmt.Sprintf("first %d bytes, CPUs %d", len(data), opts.CPUs), c.faults)
	return nil
}

// firstRecord returns where the first record of the recording that perf is writing ends.
func (t *trial) firstRecord() int {
	piece := &t.run.Recording.Pieces[0]
	return bytes.Index(piece.Live, piece.Records) + int(t.run.Kernel.Format.Order.Uint16(piece.Records[6:]))
}

func (t *trial) follow(data []byte, opts replay.Options) {
	how := fmt.Sprintf("following %d bytes, CPUs %d", len(data), opts.CPUs)
	f, err := replay.Follow(bytes.NewReader(data), opts)
	if err != nil {
		return // too little of it
	}
	defer f.Close()
	rounds := bytes.Count(data, t.run.Kernel.Format.Header(rawperf.TypeFinishedRound, 0, rawperf.HeaderSize))
	for i := 0; ; i++ {
		more := f.Next()
		if more && t.rand.IntN(max(rounds/2, 1)) > 0 {
			continue
		}
		image, err := f.Image()
		if err != nil && len(data) < t.firstRecord() {
			return // no record
		}
		if misfit := (*replay.MisfitError)(nil); t.run.Config.Foreign != NotForeign && errors.As(err, &misfit) {
			return // as it is with any copy that is named
		}
		if other := (*replay.CPUsError)(nil); t.run.Config.Record.Available != 0 && errors.As(err, &other) {
			return // perf counts CPUs that there are not, and nobody else need know their number
		}
		if err != nil {
			t.complain(fmt.Sprintf("%s, round %d", how, i), "error", "%v", err)
			return
		}
		all := t.upTo(len(data), i+1)
		c := t.checker(image)
		c.all()
		all()
		t.report(fmt.Sprintf("%s, round %d", how, i), c.faults)
		if !more {
			return
		}
	}
}
