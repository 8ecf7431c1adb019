// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package trim cuts a recording down to what questions about kernel text need:
// side-band records, program infos, and those pages of the snapshot that
// changed. If the cut recording says that a byte is known, so does the whole
// one, with two exceptions. For the other bytes it says that they are not known.
//
// The first one: a recording that is cut at [Options.To] is like one that ended there. It
// does not have later changes that find other bytes than the facts before gave, or that show
// that clocks differ. The whole recording does not know such a byte, and the cut one may.
//
// The second one: with [Options.Ranges], all changes of out-of-line code are kept, but no copy of it.
// Where the whole recording doubts what its copy has of a slot, the cut one goes by the changes
// alone, and may know what they say.
package trim

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

const (
	pageSize        = 4096
	longestFunction = 1 << 20 // more than any function of the kernel has, in bytes
)

// Options say what is kept.
type Options struct {
	// Records from To on are dropped, 0 keeps all, with two exceptions. The changes that are being made
	// at To are kept up to the last one, with what else changes text up to there: a CPU may meet their
	// traps before To. And if perf may have copied kernel text at To or later, all records of text are
	// kept up to [replay.Replay.ReadyBy], if the recording is complete up to there. If it is not, the
	// copy may be left out, with its names. Of probes whose hit counters "textreplay record" read, all
	// is kept up to the next reading.
	//
	// A recording of several files (perf record --threads) has no clean end, and what is cut out of it has.
	// So has what is cut out of one that was cut off, if its events have names (formats of probes were
	// given). So of such a recording nothing is kept behind its horizon. Times are in nanoseconds of the
	// records' clock.
	To uint64
	// Samples before From are dropped. Other records before From are kept, because
	// the answers after From depend on them.
	From uint64
	// Ranges are the addresses of kernel and module text whose snapshot and
	// pokes are kept, in whole pages. If it is empty, every page that a poke
	// changed is kept, and those of kept samples. Pokes of out-of-line code and BPF
	// are always kept.
	Ranges []timeline.Range
	// Samples keeps samples, and the records that say where they were taken:
	// processes' maps, and names of functions. Those of the module tracepoints
	// are always kept, and one that shows when perf had copied kernel text, if nothing else does.
	Samples bool
	// Aux keeps hardware trace (Intel PT, Arm ETM), all of it, and the records
	// that a decoder of it needs: context switches, tasks and their memory maps. The records that describe
	// parts of the trace (AUX) are all kept. Those from To on get the time of the last record that is kept.
	// A section of trace is held in memory while it is written.
	Aux bool
}

// A Result says what is known in the recording that was written: all of its kernel text from From to To,
// as [replay.Trust] has it, and nothing after Horizon.
type Result struct {
	From, To, Horizon uint64
}

// ErrHides is returned if the cut recording would claim more than the whole
// one, because a dropped record shows that changes were not recorded.
var ErrHides = errors.New("trim: what would be left hides that changes went unrecorded")

// ErrGuest is returned for the image of a guest: trim writes only the records
// of the host.
var ErrGuest = errors.New("trim: only the host's part of a recording can be cut out")

// Write cuts r down into a new perf.data directory at dir, which must not
// exist, and returns what is known in it. The directory appears when it is complete. The group and
// others can read it only if they can read all inputs.
//
// A copy of kernel text with an unknown time is left out: in the new directory
// it would look like perf's own. What [replay.Options] gave to r is left out too: explicit windows,
// further copies of text, symbols, modules, a vmlinux file. Give it to [replay.Load] once more.
//
// Where records that are dropped show until when a CPU was recorded, a COMM record of the idle task,
// which always has this name, stands for them.
//
// From a damaged recording, records that cannot be read are left out, and a
// record at the end shows the damage. So the new recording's answers are at
// most unconfirmed, too.
//
// Errors are [ErrGuest], wrap [ErrHides], or are those of the recording and of the file system. No
// directory is left then.
func Write(dir string, r *replay.Replay, opts Options) (Result, error) {
	if r.Report.Guest != 0 {
		return Result{}, ErrGuest
	}
	if opts.To == 0 {
		opts.To = timeline.MaxTime
	}
	if !r.Report.Clean && !staysOpen(r) {
		// A recording without a clean end is complete only up to its horizon.
		// The new recording ends cleanly, so it must end there.
		opts.To = min(opts.To-1, r.Report.Horizon) + 1
	}
	var out outfile.Outputs
	for _, name := range r.Files() {
		out.Reads(name)
	}
	d, err := out.NewDir(dir)
	if err != nil {
		return Result{}, err
	}
	defer d.Discard()
	var result Result
	err = replay.Guard(func() (err error) {
		result, err = write(d, r, opts)
		return err
	})
	if err == nil {
		err = r.Check()
	}
	if err == nil {
		err = d.Commit()
	}
	return result, err
}

// write writes the files of the directory, and returns what is known in the recording there.
func write(d *outfile.Dir, r *replay.Replay, opts Options) (Result, error) {
	c := &cut{r: r, rec: r.Recording, opts: opts, open: staysOpen(r), ops: make(map[uint64]bool), loaded: make(map[uint32]bool)}
	c.reachStart()
	c.reachReading()
	c.choosePages()
	c.chooseThunk()
	c.choosePrecedingCalls()
	c.findBounds()
	_, twice := r.UncertaintyBefore(c.opts.To)
	c.setBack = len(twice) > 0
	c.chooseChanged()
	if err := c.writeData(d); err != nil {
		return Result{}, err
	}
	if c.keepsSnapshot() {
		if err := c.writeSnapshot(d); err != nil {
			return Result{}, err
		}
	}
	if err := c.writeCounters(d); err != nil {
		return Result{}, err
	}
	if err := c.writeJournal(d); err != nil {
		return Result{}, err
	}
	return c.check(d.Path())
}

// cut is one Write.
type cut struct {
	r     *replay.Replay
	rec   *perfdata.Recording
	opts  Options
	pages map[uint64]bool // addresses of pages whose contents are kept
	text  [][]byte        // contents of pokes that are kept, for their branches' names
	at    []uint64        // and their addresses

	asked  uint64                        // Options.To, which reachStart and findBounds move
	wanted uint64                        // Options.To, which findBounds moves
	ready  uint64                        // see [replay.Replay.ReadyBy]
	last   uint64                        // up to where that may be moved
	starts func(*perfdata.SampleID) bool // see [replay.Replay.StartsWith]
	came   map[uint32]uint64             // see programsCame
	ranges []timeline.Range              // Options.Ranges, and what probes ran
	others map[uint64]bool               // addresses of pages that are kept although nobody asked for them
	idle   []timeline.IdleMoment         // when tasks that change text did something else
	ops    map[uint64]bool               // the structs ftrace_ops that kept trampolines hand over

	open    bool               // see staysOpen
	losses  map[lossStart]bool // where losses begin
	setBack bool               // the clock was set back before the end
	loaded  map[uint32]bool    // ids of BPF programs whose load is kept, and the info
}

// keepsSnapshot reports whether the first copy of text is kept. One with an unknown time would
// be taken for one that perf made. One that perf may have completed after the end of what is kept would be
// taken for one of before.
func (c *cut) keepsSnapshot() bool {
	// Nor does the part show when the copy was made, or all of it is spoiled.
	never := c.ready == timeline.MaxTime && c.open || c.r.Report.Damaged
	return c.r.Snapshot != nil && !c.r.Report.Undated && (c.ready < c.opts.To || never)
}

func page(addr uint64) uint64 { return addr &^ (pageSize - 1) }

// pagesOf yields the addresses of the pages with one of the n bytes at addr, which may reach to the end
// of the address space. What is behind that counts as not there.
func pagesOf(addr, n uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if n == 0 {
			return
		}
		last := page(addr + min(n-1, math.MaxUint64-addr))
		for p := page(addr); yield(p) && p < last; p += pageSize {
		}
	}
}

// changed returns how many bytes a change of text has, at least one.
func changed(p *perfdata.TextPoke) uint64 { return uint64(max(len(p.Old), len(p.New), 1)) }

// pagesOfCopy yields the addresses of the pages that a copy has bytes from.
func pagesOfCopy(copied *kcore.Snapshot) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if copied == nil || copied.Core == nil {
			return
		}
		for _, s := range copied.Core.Segments {
			for p := range pagesOf(s.Addr, uint64(len(s.Data))) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// inSnapshot reports whether the snapshot holds the address, or a later copy that the recorder
// made.
func (c *cut) inSnapshot(addr uint64) bool {
	if c.r.Snapshot != nil && c.r.Snapshot.Core != nil && c.r.Snapshot.Core.Bytes(addr, 1) != nil {
		return true
	}
	for _, snap := range c.r.JournaledCopies() {
		if snap.Core != nil && snap.Core.Bytes(addr, 1) != nil {
			return true
		}
	}
	return false
}

// choosePages finds the pages whose contents in the copies of text are kept, whatever changed there.
func (c *cut) choosePages() {
	c.pages = make(map[uint64]bool)
	code, _ := c.r.ProbedCode()
	c.ranges = slices.Concat(code, c.opts.Ranges)
	choose := func(p uint64) {
		// Not page by page of the ranges: one may be the whole address space.
		if c.inSnapshot(p) && c.isAskedFor(p) {
			c.pages[p] = true
		}
	}
	for p := range pagesOfCopy(c.r.Snapshot) {
		choose(p)
	}
	for _, snap := range c.r.JournaledCopies() {
		for p := range pagesOfCopy(snap) {
			if choose(p); len(c.opts.Ranges) == 0 {
				c.pages[p] = true // it differs from the first copy, perhaps without a poke
			}
		}
	}
}

// chooseThunk finds the page of a call thunk, if the copy of text has one. Without it, a large part of text would show that
// this kernel writes none (rule coverage of docs/truth.md).
func (c *cut) chooseThunk() {
	if c.r.Snapshot == nil || c.r.Snapshot.Core == nil || c.r.Machine() != elf.EM_X86_64 {
		return
	}
	lo, hi := c.r.Image.Text()
	for _, s := range c.r.Snapshot.Core.Segments {
		if s.Addr >= hi || s.Addr+uint64(len(s.Data)) <= lo {
			continue
		}
		for at, n := range timeline.CallThunks(s.Data) {
			for p := range pagesOf(s.Addr+uint64(at), uint64(n)) {
				c.pages[p] = true
			}
			return
		}
	}
}

// choosePrecedingCalls finds the pages by which a sample's return address is named that is where a function begins: either
// a call comes before it, or an interrupt came there.
func (c *cut) choosePrecedingCalls() {
	k := c.r.Kallsyms()
	if !c.opts.Samples || len(c.opts.Ranges) == 0 || k == nil || c.r.Machine() != elf.EM_X86_64 {
		return
	}
	c.sampled(func(addr uint64) {
		if s, _, ok := k.Find(addr); ok && s.Addr == addr {
			for p := range pagesOf(addr-replay.LongestCall, replay.LongestCall) {
				if c.inSnapshot(p) {
					c.pages[p] = true
				}
			}
		}
	})
}

// chooseChanged finds the pages that are kept because something changed there, or ran there.
func (c *cut) chooseChanged() {
	sc := c.rec.Scan(perfdata.Only(perfdata.RecordTextPoke))
	seen := make(map[string]bool)
	var p perfdata.TextPoke
	for sc.Next() {
		if c.rec.TextPoke(sc.Record(), &p) != nil {
			continue // it is left out
		}
		if c.r.MachineOf(sc.Record(), &p.SampleID) == 0 {
			c.choosePagesOf(&p, seen)
		}
	}
	for p := range c.r.ProbedChanges() {
		c.choosePagesOf(p, seen)
	}
	if c.opts.Samples && len(c.opts.Ranges) == 0 {
		// perf names an address only if kcore has the function up to there.
		c.sampled(func(addr uint64) {
			from := page(addr)
			if k := c.r.Kallsyms(); k != nil {
				if s, size, ok := k.Find(addr); ok && size <= longestFunction {
					from = page(s.Addr)
				}
			}
			for n := uint64(0); n <= page(addr)-from; n += pageSize {
				if c.inSnapshot(from + n) {
					c.pages[from+n] = true
				}
			}
		})
	}
}

// choosePagesOf finds the pages that are kept because of a change of text. seen has the
// contents of other changes.
func (c *cut) choosePagesOf(p *perfdata.TextPoke, seen map[string]bool) {
	if p.Time >= c.opts.To {
		return
	}
	if !c.fixed(p.Addr) {
		if s, ok := c.r.TrampolineAt(p.Addr, p.Time); ok && s.Ops != 0 {
			c.ops[s.Ops] = true
		}
	}
	if len(c.opts.Ranges) == 0 || c.r.ShowsCopy(&p.SampleID) {
		for a := range pagesOf(p.Addr, changed(p)) {
			if c.inSnapshot(a) {
				c.pages[a] = true
			}
		}
	} else if !c.keepsPoke(p) {
		return
	}
	for _, b := range [][]byte{p.Old, p.New} {
		if k := fmt.Sprintf("%x %s", p.Addr, b); len(b) > 0 && !seen[k] {
			seen[k] = true
			c.text, c.at = append(c.text, slices.Clone(b)), append(c.at, p.Addr)
		}
	}
}

// fixed reports whether the address is of kernel or module text, and never was of dynamic code. That
// may well lie in a hole of the snapshot's module area. Since Linux 6.4 it may lie behind a module's
// text within the module's size, which counts data that are elsewhere.
func (c *cut) fixed(addr uint64) bool {
	if lo, hi := c.r.Image.Text(); lo <= addr && addr < hi {
		return true
	}
	if c.r.Snapshot == nil {
		return false
	}
	for l := range c.r.Image.LifetimesAt(addr) {
		if !l.IsModule() {
			return false
		}
	}
	return slices.ContainsFunc(c.r.Snapshot.Modules, func(m kcore.Module) bool {
		return m.Addr <= addr && addr-m.Addr < m.Size
	})
}

// keepsPoke is keepsAt for a poke.
func (c *cut) keepsPoke(p *perfdata.TextPoke) bool { return c.keepsAt(p.Addr, changed(p)) }

// keeps reports whether a record is kept, whose trailer is id. unread is why the trailer cannot be
// read; keeps returns it if it needs the trailer. Records that perf itself wrote have none.
func (c *cut) keeps(rec *perfdata.Record, id *perfdata.SampleID, unread error) (bool, error) {
	if rec.Type >= firstOfTool {
		return c.keepsOfTool(rec)
	}
	if isMap := rec.Type == perfdata.RecordMMAP || rec.Type == perfdata.RecordMMAP2; isMap && unread == nil && c.r.ShowsCopy(id) {
		return id.Time < c.opts.To, nil
	}
	switch rec.Type {
	case perfdata.RecordSample, perfdata.RecordTextPoke: // some are not kept if others of their places are not
	case perfdata.RecordAux, perfdata.RecordAuxOutputHWID: // they describe trace
	default:
		if unread == nil && c.starts(id) {
			return id.Time < c.opts.To, nil
		}
	}
	hotplug, hasGuests := c.r.ShowsHotplug(rec), len(c.r.Report.Guests) > 0
	keep, decided := c.byType(rec)
	if c.setBack && rec.Type != perfdata.RecordSample {
		decided = false // any record of a task may show since when the clock was set back
	}
	if decided && unread == nil && id.Time >= c.opts.To && !isAux(rec) {
		keep = false
	}
	bounds := unread == nil && c.isBound(rec, id)
	if decided && !hotplug && !hasGuests && !bounds {
		return keep, nil
	}
	if unread != nil {
		return false, unread
	}
	// Guests' samples on the host's own events are records of the host's.
	if hasGuests && rec.Type != perfdata.RecordSample && c.r.MachineOf(rec, id) != 0 {
		return false, nil
	}
	switch {
	case hotplug, bounds:
		return id.Time < c.opts.To, nil
	case decided:
		return keep, nil
	case (rec.Type == perfdata.RecordComm || rec.Type == perfdata.RecordFork) && !c.setBack:
		return id.Time < c.wanted, nil
	case rec.Type == perfdata.RecordSample:
		return c.keepsSample(rec, id), nil
	case rec.Type == perfdata.RecordTextPoke:
		var p perfdata.TextPoke
		if err := c.rec.TextPoke(rec, &p); err != nil {
			return false, err
		}
		return p.Time < c.opts.To && c.keepsPoke(&p), nil
	case id.Time == 0 && (rec.Type == perfdata.RecordKSymbol || rec.Type == perfdata.RecordBPFEvent):
		return c.keepsAnnounced(rec)
	}
	return id.Time < c.opts.To, nil // 0: perf made the record, of what was there before
}

// keepsAnnounced is keeps for what perf announced: code that was there when it began, or at its end. What came after
// the end of what is kept would seem to have been there all the time, as its birth is not kept.
func (c *cut) keepsAnnounced(rec *perfdata.Record) (bool, error) {
	if c.ready < c.opts.To && (!c.r.AnnouncesLate() || c.opts.To == timeline.MaxTime) {
		return true, nil
	}
	if rec.Type == perfdata.RecordBPFEvent {
		var e perfdata.BPFEvent
		if err := c.rec.BPFEvent(rec, &e); err != nil {
			return false, err
		}
		came, known := c.programsCame()[e.ID]
		return !known || came < c.opts.To, nil
	}
	var k perfdata.KSymbol
	if err := c.rec.KSymbol(rec, &k); err != nil {
		return false, err
	}
	for l := range c.r.Image.LifetimesAt(k.Addr) {
		if l.Lo == k.Addr && l.Name == string(k.Name) && l.From < c.opts.To {
			return true, nil
		}
	}
	return false, nil
}

// programsCame returns when the BPF programs came whose code is known, by id.
func (c *cut) programsCame() map[uint32]uint64 {
	if c.came == nil {
		c.came = make(map[uint32]uint64)
		for l := range c.r.Image.Lifetimes {
			if t, met := c.came[l.Program]; !met || l.From < t {
				c.came[l.Program] = l.From
			}
		}
	}
	return c.came
}

// isAux reports whether a record describes a part of the hardware trace, which may reach from before the end of what is
// kept to after it.
func isAux(rec *perfdata.Record) bool {
	return rec.Type == perfdata.RecordAux || rec.Type == perfdata.RecordAuxOutputHWID
}

// atTime returns a copy of a record that is no sample, with this time in its trailer, which is id. A record of a later
// time would show that the CPU was recorded until then, with all changes of text.
func atTime(order binary.ByteOrder, raw []byte, id *perfdata.SampleID, t uint64) []byte {
	raw = slices.Clone(raw)
	at := len(raw) - 8 // of the time: ids and the CPU follow it
	for _, field := range [...]perfdata.SampleType{perfdata.SampleEventID, perfdata.SampleStreamID, perfdata.SampleCPU, perfdata.SampleIdentifier} {
		if id.Has&field != 0 {
			at -= 8
		}
	}
	order.PutUint64(raw[at:], t)
	return raw
}

const firstOfTool = perfdata.RecordHeaderAttr // perf itself writes the records from here on

// keepsOfTool is keeps for a record that perf itself wrote.
func (c *cut) keepsOfTool(rec *perfdata.Record) (bool, error) {
	switch rec.Type {
	case perfdata.RecordAuxtraceInfo, perfdata.RecordAuxtrace, perfdata.RecordAuxtraceError:
		return c.opts.Aux, nil
	case perfdata.RecordCompressed, perfdata.RecordCompressed2:
		return false, nil // the records inside follow, and are written as they are
	case perfdata.RecordHeaderAttr, perfdata.RecordHeaderEventType, perfdata.RecordHeaderTracingData,
		perfdata.RecordHeaderBuildID, perfdata.RecordHeaderFeature:
		return false, nil // a file has these in its header
	case perfdata.RecordEventUpdate:
		// A file also has the names in its header, but not the CPUs of an event.
		var u perfdata.EventUpdate
		err := c.rec.EventUpdate(rec, &u)
		return err == nil && u.Kind == perfdata.EventUpdateCPUs, nil
	}
	return true, nil
}

// byType reports whether a record of the kernel is kept, if its type and what is asked
// for decide that.
func (c *cut) byType(rec *perfdata.Record) (keep, decided bool) {
	switch rec.Type {
	case perfdata.RecordMMAP, perfdata.RecordMMAP2:
		return false, rec.CPUMode() == perfdata.MiscUser && !c.opts.Aux && !c.opts.Samples
	case perfdata.RecordExit:
		// Where there are probes, it may be of the process that read the hit counters.
		return c.opts.Aux, c.r.Report.Probes == nil
	case perfdata.RecordCallchainDeferred:
		return false, !c.opts.Samples
	case perfdata.RecordSwitch, perfdata.RecordSwitchCPUWide,
		perfdata.RecordAux, perfdata.RecordItraceStart, perfdata.RecordAuxOutputHWID:
		// Trace has no times that would say which of it a window needs.
		return c.opts.Aux, true
	case perfdata.RecordThrottle, perfdata.RecordUnthrottle,
		perfdata.RecordRead, perfdata.RecordNamespaces, perfdata.RecordCgroup:
		return false, true
	}
	return false, false
}

// keepsSample is keeps for a sample.
func (c *cut) keepsSample(rec *perfdata.Record, id *perfdata.SampleID) bool {
	at, isWrite := c.r.SampledWrite(rec, id)
	switch {
	case isWrite:
		p := perfdata.TextPoke{Addr: at.Lo, New: make([]byte, min(at.Hi-at.Lo, 1<<12))}
		return id.Time < c.opts.To && c.keepsPoke(&p)
	case c.r.IsProbe(id.Event):
		return id.Time < c.opts.To // the hit counters count all samples, whatever they are of
	case id.Event != nil && strings.HasPrefix(id.Event.Name, "module:"):
		return id.Time < c.opts.To // without these, modules that have gone would seem to be still there
	}
	return c.opts.Samples && (id.Time == 0 || id.Time >= c.opts.From && id.Time < c.asked) || id.Time < c.opts.To && c.starts(id)
}

// writeCounters copies the readings of probes' hit counters, and the formats of tracepoints
// that the recording does not have itself.
func (c *cut) writeCounters(d *outfile.Dir) error {
	if name, text := c.r.Formats(); text != nil {
		if err := writeText(d, name, text); err != nil {
			return err
		}
	}
	for name, text := range c.r.ProbeCounters() {
		if err := writeText(d, name, text); err != nil {
			return err
		}
	}
	return nil
}

func writeText(d *outfile.Dir, name string, text []byte) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Commit()
	}
	if err != nil {
		f.Discard()
	}
	return err
}

// writeData writes the perf.data file.
func (c *cut) writeData(d *outfile.Dir) error {
	f, err := d.Create("data")
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := c.writeRecords(perfdata.NewWriter(f, c.rec.ByteOrder())); err != nil {
		return err
	}
	return f.Commit()
}

// writeRecords writes the records that are kept, and the features.
func (c *cut) writeRecords(w *perfdata.Writer) error {
	if err := w.SetEvents(c.rec.Events()); err != nil {
		return err
	}
	ends := c.findWitnesses()
	c.findLosses()
	rounds := timeline.MaxTime // rounds of what is older are kept
	if c.open {
		// Two rounds show that all is recorded up to lateRecord before the newest record of the first one, unless ring
		// buffers were full of what is dropped here. So those behind the horizon are left out.
		rounds = timeline.Later(max(c.r.Report.Horizon, c.r.Report.First), lateRecord)
	}
	newest := uint64(0)
	sc := c.rec.Scan(perfdata.Rejoin())
	for sc.Next() {
		rec := sc.Record()
		var id perfdata.SampleID
		var unread error
		if rec.Type < firstOfTool {
			if unread = c.rec.SampleID(rec, &id); unread == nil {
				newest = max(newest, id.Time)
			}
		} else if rec.Type == perfdata.RecordFinishedRound && newest > rounds {
			continue
		}
		isSide := rec.Type < firstOfTool && rec.Type != perfdata.RecordSample && unread == nil
		if isSide {
			if err := ends.before(&id, w); err != nil {
				return err
			}
		}
		ok, err := c.keeps(rec, &id, unread)
		if ok && rec.Type == perfdata.RecordBPFEvent {
			var e perfdata.BPFEvent
			if err = c.rec.BPFEvent(rec, &e); err == nil && e.Kind == perfdata.BPFLoad {
				c.loaded[e.ID] = true
			}
		}
		if !ok && err == nil && isSide && c.beginsLoss(&id) {
			if err := writeWitness(w, &id); err != nil {
				return err
			}
			ends.keep(&id)
		}
		if !ok || err != nil {
			continue // records that cannot be read are the damage
		}
		if isSide {
			ends.keep(&id)
		}
		raw := rec.Raw
		if isAux(rec) && unread == nil && id.Time > ends.time {
			raw = atTime(c.rec.ByteOrder(), raw, &id, ends.time)
		}
		if trace := sc.Payload(); trace != nil {
			raw = slices.Concat(raw, trace)
		}
		if err := w.WriteRecord(raw); err != nil {
			return err
		}
	}
	if err := ends.rest(w); err != nil {
		return err
	}
	if c.r.Report.Damaged {
		if err := w.WriteRecord(damageSign(c.rec.ByteOrder())); err != nil {
			return err
		}
	}
	for _, feature := range c.rec.Features() {
		switch feature {
		case perfdata.FeatureCompressed, perfdata.FeatureAuxtrace, perfdata.FeatureDirFormat:
			continue // the new file is not compressed, and is one file
		}
		data, err := c.rec.Feature(feature)
		if err != nil {
			return err
		}
		if feature == perfdata.FeatureBPFProgInfo {
			for id := range c.r.InfosAfter(c.opts.To) {
				delete(c.loaded, id) // it may have changes that are dropped
			}
			data = programs(data, c.rec.ByteOrder(), c.loaded)
		}
		if err := w.WriteFeature(feature, data); err != nil {
			return err
		}
	}
	return w.Close()
}

// damageSign returns a record that shows that a recording is damaged: a FINISHED_ROUND that
// has swallowed another one. perf reads it as any other FINISHED_ROUND.
func damageSign(order binary.ByteOrder) []byte {
	const size = 8
	rec := make([]byte, 2*size)
	for _, at := range []int{0, size} {
		order.PutUint32(rec[at:], uint32(perfdata.RecordFinishedRound))
		order.PutUint16(rec[at+6:], uint16(len(rec)-at))
	}
	return rec
}

// writeSnapshot writes kcore, kallsyms and modules.
func (c *cut) writeSnapshot(d *outfile.Dir) error {
	snap := c.r.Snapshot
	if core := snap.Core; core != nil {
		if err := d.WriteFile("kcore_dir/kcore", func(w io.Writer) error {
			return kcore.WriteCore(w, core.Machine, core.Class, core.Data, c.ownSegments(), nil)
		}); err != nil {
			return err
		}
	}
	// Not one that was made at another time: what it lists would seem to be there when text was copied.
	if k := snap.Kallsyms; k != nil {
		if err := d.WriteFile("kcore_dir/kallsyms", func(w io.Writer) error {
			return c.writeKallsyms(bufio.NewWriter(w), k)
		}); err != nil {
			return err
		}
	}
	if snap.Modules == nil {
		return nil
	}
	return d.WriteFile("kcore_dir/modules", func(w io.Writer) error { return kcore.WriteModules(w, snap.Modules) })
}

// ownSegments returns the kept pages of the snapshot, or nil if it has only symbols.
func (c *cut) ownSegments() []kcore.Segment {
	if c.r.Snapshot.Core == nil {
		return nil
	}
	return c.segments(c.r.Snapshot.Core)
}

// segments returns the kept pages of a copy, with adjacent pages joined.
func (c *cut) segments(core *kcore.Core) []kcore.Segment {
	var out []kcore.Segment
	for _, s := range core.Segments {
		end := s.Addr + uint64(len(s.Data))
		for a := s.Addr; a < end; {
			next := min(page(a)+pageSize-1, end-1) + 1 // the sum of the last page wraps
			if c.pages[page(a)] {
				part := s.Data[a-s.Addr : next-s.Addr]
				if n := len(out); n > 0 && out[n-1].Addr+uint64(len(out[n-1].Data)) == a && a != s.Addr {
					last := &out[n-1]
					last.Data = s.Data[last.Addr-s.Addr : next-s.Addr]
				} else {
					out = append(out, kcore.Segment{Addr: a, Data: part})
				}
			}
			a = next
		}
	}
	return out
}

// missedUnchecked reports whether the whole recording has a reading of a probe's hit counters that
// shows missing samples, and the new one ends before it. Then nothing checks the samples.
func missedUnchecked(whole, part timeline.Reason) bool {
	return whole == timeline.ProbeMissed && part == timeline.ProbeUnchecked
}

// check loads the new recording and makes sure that it claims no more than the
// whole one: it must have every limit of the coverage. If the recording is
// damaged, nothing is known, so it is enough that the new one is damaged. It returns what is
// known in the new one.
func (c *cut) check(dir string) (result Result, err error) {
	after, err := replay.Load(dir, replay.Options{})
	if err != nil {
		return result, err
	}
	defer after.Close()
	result = Result{after.Report.Trusted.From, after.Report.Trusted.To, after.Report.Horizon}
	if after.Report.Damaged {
		return result, nil
	}
	if c.r.Report.Damaged {
		return result, fmt.Errorf("%w: damage of the recording", ErrHides)
	}
	if !c.r.Report.Clean && after.Report.Horizon > c.r.Report.Horizon {
		return result, fmt.Errorf("%w: the end of the recording", ErrHides)
	}
	if by, _ := c.r.UncertaintyBefore(c.opts.To); after.Report.ClockUncertainty < by {
		return result, fmt.Errorf("%w: times are uncertain by %d ns", ErrHides, by)
	}
	end := c.opts.To
	if c.open { // nothing is known behind the horizon
		end = min(end, timeline.Later(c.r.Report.Horizon, 1))
	}
	pairs := [][2]replay.Coverage{
		{c.r.Report.Coverage.Pokes, after.Report.Coverage.Pokes},
		{c.r.Report.Coverage.KSymbols, after.Report.Coverage.KSymbols},
		{c.r.Report.Coverage.Modules, after.Report.Coverage.Modules},
	}
	for _, p := range pairs {
		for _, l := range p[0].Limits {
			if l.From >= end || l.Reason == timeline.OldBytesMismatch {
				continue
			}
			if !slices.ContainsFunc(p[1].Limits, func(o replay.Limit) bool {
				return (o.Reason == l.Reason || missedUnchecked(l.Reason, o.Reason)) && o.From <= l.From && o.To >= min(l.To, end)
			}) {
				return result, fmt.Errorf("%w: %s (keeping samples may help)", ErrHides, l.Text)
			}
		}
	}
	return result, nil
}
