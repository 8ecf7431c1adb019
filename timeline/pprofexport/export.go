// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// Labels is a set of labels that samples get.
type Labels uint8

// The labels. What an event did not record is left out.
const (
	LabelCPU  Labels = 1 << iota // "cpu", a number
	LabelPID                     // "pid", a number
	LabelTID                     // "tid", a number
	LabelComm                    // "comm", the name of the thread at the time of the sample

	AllLabels = LabelCPU | LabelPID | LabelTID | LabelComm
)

// Options select the samples of a profile and their labels. The zero value selects all
// samples, without labels.
type Options struct {
	// Events are names of events as in [perfdata.Event]; none: all that sample.
	Events []string
	// From and To are times in nanoseconds of the recording's clock: only samples
	// of From <= t < To. If To is 0, there is no bound. Samples without a time, and those of a
	// time that no clock shows (2^64-2 or 2^64-1), are in no interval.
	From, To uint64
	// PIDs and Comms select samples by process and by name of thread. A sample needs
	// to match only one of them. If both are empty, all samples match.
	PIDs   []uint32
	Comms  []string
	Labels Labels
	// Silent gives events without samples values too, which are 0. A [Merger] then knows that they
	// were recorded.
	Silent bool
	// Source, if set, returns the places in the source of the code at an address of core
	// kernel text: the innermost first, then the functions that it is inlined into.
	// Nil means that they are not known. The package timeline/kernelsource has them.
	Source func(addr uint64) []SourceFrame
	// Progress, where set, is called from time to time with how many bytes of the
	// recording have been read.
	Progress func(done, total int64)
}

// A SourceFrame is a place in the source. Line counts from 1; 0 means unknown.
type SourceFrame struct {
	Func, File string
	Line       int
}

// ErrNoSamples: the recording has no sample, or none that was asked for.
var ErrNoSamples = errors.New("pprofexport: no samples")

// An EventError says that no event has a name that [Options] asks for.
type EventError struct {
	Name string
	Have []string // the names of the events that there are
}

func (e *EventError) Error() string {
	return fmt.Sprintf("no event is named %q; there are: %s", e.Name, strings.Join(e.Have, ", "))
}

// Stats counts the contents of a profile.
type Stats struct {
	Events    []EventStats
	Samples   uint64 // of all events
	Rows      uint64 // samples of the profile: those of equal stacks and labels are one
	Stacks    int    // different ones
	Locations int
	Functions int // of the kernel; those of programs are left to pprof
	Mappings  int
	// Lost counts records that the kernel could not keep: samples may be among
	// them. The profile has a comment that says so.
	Lost uint64
	// Damaged counts samples that cannot be decoded, or whose period makes the sum of an event
	// exceed 2^63-1; they are left out.
	Damaged  uint64
	Warnings []error // what is damaged; the first few
}

// EventStats has the sums of one event's samples.
type EventStats struct {
	Name    string
	Unit    string // "nanoseconds" or "count"
	Samples uint64
	Total   uint64 // of their periods, in units
}

const maxWarnings = 20

// miscDroppedByFilter marks LOST_SAMPLES of samples that a filter dropped on purpose
// (PERF_RECORD_MISC_LOST_SAMPLES_BPF of tools/perf/util/event.h).
const miscDroppedByFilter = 1 << 15

// Profile makes a profile of the recording's samples. It holds the whole
// profile in memory, several hundred bytes a sample if labels differ; [Write]
// does not.
func Profile(r *replay.Replay, opts Options) (*profile.Profile, *Stats, error) {
	var b bytes.Buffer
	e, err := newExport(r, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := e.write(&b); err != nil {
		return nil, nil, err
	}
	p, err := profile.ParseUncompressed(b.Bytes())
	return p, &e.stats, err
}

// Write writes a profile of the recording's samples, compressed as pprof wants
// it. Without samples, it writes nothing and returns [ErrNoSamples]; with a name
// that no event has, an [*EventError]. Damage among the samples is in
// Stats.Warnings, and what can be read is written. Other errors are w's.
//
// Memory grows with the number of different stacks, about 50 bytes each, and of
// different rows of stack and labels, about ten bytes each. It does not grow
// with the number of samples.
func Write(w io.Writer, r *replay.Replay, opts Options) (stats *Stats, err error) {
	err = replay.Guard(func() (err error) {
		stats, err = write(w, r, opts)
		return err
	})
	if err == nil {
		err = r.Check()
	}
	return stats, err
}

func write(w io.Writer, r *replay.Replay, opts Options) (*Stats, error) {
	e, err := newExport(r, opts)
	if err != nil {
		return nil, err
	}
	// Rows are sorted, so most of each repeats the one before: a higher level
	// saves little.
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := e.write(z); err != nil {
		return nil, err
	}
	return &e.stats, z.Close()
}

// An export is the state of making one profile.
type export struct {
	r       *replay.Replay
	rec     *perfdata.Recording
	opts    Options
	tasks   *tasks
	namer   *namer
	cache   *stackCache
	stacks  *stackTable
	labels  labelTable
	tally   tally
	columns []*column
	byEvent []*column // by Event.Index; nil: not asked for
	pids    map[uint32]bool
	comms   map[string]bool // nil, as pids: no selection
	stats   Stats
	counted map[counterKey]uint64 // the last values of counters in groups
	lost    uint64                // what LOST_SAMPLES records count

	// Of the current sample:
	shares    []share
	fromGuest bool // it was taken in a guest
	ofGuest   bool // the image is a guest's
	words     []uint64
	stack     []byte
}

// A column is the values of the events of one name.
type column struct {
	index uint32 // by the order of the events' first samples
	first int    // index of the first event of this name
	stats EventStats
	attr  *perfdata.Attr // of the first event
}

// A counterKey names a counter: by the id of its event, and of an event that tasks inherit by the
// task's tid too.
type counterKey struct {
	id  uint64
	tid uint32
}

func newExport(r *replay.Replay, opts Options) (*export, error) {
	e := &export{
		r: r, rec: r.Recording, opts: opts,
		cache: newStackCache(), stacks: newStackTable(), labels: newLabelTable(opts.Labels), tally: newTally(tallyMost),
		counted: make(map[counterKey]uint64),
	}
	if e.opts.To == 0 {
		e.opts.To = timeline.MaxTime
	}
	if err := e.chooseEvents(); err != nil {
		return nil, err
	}
	if len(opts.PIDs) > 0 || len(opts.Comms) > 0 {
		e.pids, e.comms = make(map[uint32]bool), make(map[string]bool)
		for _, pid := range opts.PIDs {
			e.pids[pid] = true
		}
		for _, comm := range opts.Comms {
			e.comms[comm] = true
		}
	}
	e.tasks = readTasks(r, e.warn)
	e.namer = newNamer(r, e.tasks)
	e.namer.source = opts.Source
	e.read()
	if e.stats.Samples == 0 {
		return nil, ErrNoSamples
	}
	told := uint64(0) // by LOST records
	for _, l := range r.Report.Losses {
		told += l.Records
		if l.To >= e.opts.From && l.From < e.opts.To {
			e.stats.Lost += l.Records
		}
	}
	// What LOST_SAMPLES records count beyond that was lost after the last record that found room, or by
	// the hardware; or while perf wrote an earlier file.
	if e.lost > told && e.opts.To > r.Report.Last && !r.MayBeLater() {
		e.stats.Lost += e.lost - told
	}
	return e, nil
}

func (e *export) warn(err error) {
	if len(e.stats.Warnings) < maxWarnings {
		e.stats.Warnings = append(e.stats.Warnings, err)
	}
}

// chooseEvents makes the columns. Events of one name, as a hybrid machine has
// them, share one.
func (e *export) chooseEvents() error {
	events := e.rec.Events()
	e.byEvent = make([]*column, len(events))
	byName := make(map[string]*column)
	var have []string
	names := EventNames(e.rec)
	for i, ev := range events {
		name := names[i]
		if !slices.Contains(have, name) {
			have = append(have, name)
		}
		if len(e.opts.Events) > 0 && !slices.Contains(e.opts.Events, name) {
			continue
		}
		c := byName[name]
		if c == nil {
			c = &column{first: i, stats: EventStats{Name: name, Unit: eventUnit(&ev.Attr)}, attr: &ev.Attr}
			byName[name] = c
		}
		e.byEvent[i] = c
	}
	for _, name := range e.opts.Events {
		if byName[name] == nil {
			return &EventError{name, have}
		}
	}
	return nil
}

// read reads the samples.
func (e *export) read() {
	var s perfdata.Sample
	err := scan(e.rec, e.opts.Progress, func(rec *perfdata.Record) {
		switch rec.Type {
		case perfdata.RecordSample:
		case perfdata.RecordLostSamples:
			// The image's scan reports what is damaged.
			if l := (perfdata.LostSamples{}); rec.Misc&miscDroppedByFilter == 0 && e.rec.LostSamples(rec, &l) == nil {
				e.lost += min(l.Lost, math.MaxUint64-e.lost)
			}
			return
		default:
			return
		}
		err := e.rec.Sample(rec, &s)
		if err == nil {
			err = e.sample(rec, &s)
		}
		if err != nil {
			e.damaged(err)
		}
	})
	if err != nil {
		e.warn(err)
	}
}

func (e *export) damaged(err error) {
	e.stats.Damaged++
	e.warn(err)
}

// sample counts one sample.
func (e *export) sample(rec *perfdata.Record, s *perfdata.Sample) error {
	shares, err := e.sharesOf(s)
	if err != nil || len(shares) == 0 {
		return err
	}
	machine, ofTask, guest := 0, 0, e.r.Report.Guest
	if len(e.r.Report.Guests) > 0 {
		machine, ofTask = e.r.MachineOf(rec, &s.SampleID), e.r.TaskMachineOf(&s.SampleID)
	}
	if guest != 0 && machine != guest {
		return nil // a guest's profile has only samples that were taken in it
	}
	e.fromGuest, e.ofGuest = machine != 0, guest != 0
	t := s.Time
	if s.Has&perfdata.SampleTime == 0 || t >= timeless {
		t = timeless
		if e.opts.From != 0 || e.opts.To != timeline.MaxTime {
			return nil
		}
	} else if t < e.opts.From || t >= e.opts.To {
		return nil
	}
	comm := ""
	if e.opts.Labels&LabelComm != 0 || len(e.comms) > 0 {
		if s.Has&perfdata.SampleTID != 0 {
			comm = e.tasks.comm(ofTask, s.PID, s.TID, t)
		}
	}
	if e.pids != nil && !e.comms[comm] && (s.Has&perfdata.SampleTID == 0 || !e.pids[s.PID]) {
		return nil
	}
	if shares = e.fitting(shares); len(shares) == 0 {
		return nil
	}
	stack, err := e.stackOf(rec, s, t)
	if err != nil {
		return err
	}
	labels := e.labels.id(&s.SampleID, comm)
	for _, x := range shares {
		c := x.of
		if c.stats.Samples == 0 {
			c.index = uint32(len(e.columns))
			e.columns = append(e.columns, c)
		}
		e.tally.add(stack, labels, c.index, x.period)
		c.stats.Samples++
		c.stats.Total += x.period
		e.stats.Samples++
	}
	return nil
}

// A share is the amount that a sample adds to a column.
type share struct {
	of     *column
	period uint64
}

// fitting leaves out shares that the sum of their column has no room for: a profile's values are
// signed. No machine counts that far, so the period is damaged.
func (e *export) fitting(shares []share) []share {
	return slices.DeleteFunc(shares, func(x share) bool {
		name, total := x.of.stats.Name, x.of.stats.Total
		if x.period <= math.MaxInt64-total {
			return false
		}
		e.damaged(fmt.Errorf("%s: the period %d of a sample does not fit into a sum of at most 2^63-1", name, x.period))
		return true
	})
}

// sharesOf returns what the sample adds to the selected events, valid until the next
// call. If the sample holds the values of a group of counters, it is a sample of each
// counter that has increased (deliver_sample_group of tools/perf/util/session.c).
func (e *export) sharesOf(s *perfdata.Sample) ([]share, error) {
	e.shares = e.shares[:0]
	if s.Type&perfdata.SampleRead != 0 && s.Event.Attr.ReadFormat&perfdata.ReadFormatID != 0 {
		values, err := s.Read()
		if err != nil {
			return nil, err
		}
		key := counterKey{}
		if s.Event.Attr.Flags&perfdata.FlagInherit != 0 && s.Type&perfdata.SampleTID != 0 {
			// Each task that inherited the counters has its own, under the same ids
			// (perf_event_count of kernel/events/core.c).
			key.tid = s.TID
		}
		for _, v := range values.All() {
			ev := e.rec.EventByID(v.ID)
			if ev == nil {
				continue
			}
			key.id = v.ID
			before := e.counted[key]
			e.counted[key] = v.Value
			if key.tid != 0 && v.Value < before {
				before = 0 // no counter goes back: another task has this tid now
			}
			if c := e.byEvent[ev.Index]; c != nil && v.Value > before {
				e.shares = append(e.shares, share{c, v.Value - before})
			}
		}
		return e.shares, nil
	}
	c := e.byEvent[s.Event.Index]
	if c == nil {
		return nil, nil
	}
	period := s.Period
	if s.Type&perfdata.SamplePeriod == 0 {
		period = 1
		if attr := &s.Event.Attr; attr.Flags&perfdata.FlagFreq == 0 && attr.SamplePeriod > 0 {
			period = attr.SamplePeriod
		}
	}
	e.shares = append(e.shares, share{c, period})
	return e.shares, nil
}

// stackOf returns the number of the sample's stack.
func (e *export) stackOf(rec *perfdata.Record, s *perfdata.Sample, t uint64) (uint32, error) {
	mode := contextOfMode(rec.CPUMode()).seen(e.fromGuest, e.ofGuest)
	user := mode == contextUser
	words := append(e.words[:0], s.IP, uint64(mode))
	if s.Type&perfdata.SampleCallchain != 0 {
		if e.tasks.isDefer {
			var err error
			if words, _, err = e.tasks.deferred.Join(words, s); err != nil {
				return 0, err
			}
		} else {
			ips, err := s.Callchain()
			if err != nil {
				return 0, err
			}
			words = ips.AppendTo(words)
		}
		user = user || slices.Contains(words[2:], perfdata.CallchainUser)
	}
	e.words = words
	if e.fromGuest {
		words[1] |= 1 << 62
	}
	if user {
		// The same address is something else in another process.
		words[1] |= 1<<63 | uint64(s.PID)<<8
	}
	hash := e.cache.hash(words)
	if stack, ok := e.cache.find(hash, words, t); ok {
		return stack, nil
	}
	stack, from, to := e.newStack(words[2:], s, mode, t)
	if t == timeless {
		from, to = timeless, timeline.MaxTime
	}
	e.cache.add(hash, words, from, to, stack)
	return stack, nil
}

// newStack returns the stack of a call chain: the locations of the addresses, the
// innermost first, and the interval [from, to) in which they are the same. If the
// sample has no chain, its own address is the stack.
func (e *export) newStack(chain []uint64, s *perfdata.Sample, mode context, t uint64) (stack uint32, from, to uint64) {
	to = timeline.MaxTime
	ctx, caller := mode, false
	e.stack = e.stack[:0]
	push := func(ctx context, addr uint64, caller bool) {
		id, f, u := e.namer.at(ctx, s.PID, addr, t, caller)
		from, to = max(from, f), min(to, u)
		e.stack = appendUvarint(e.stack, id)
	}
	ownIP := s.Type&perfdata.SampleIP != 0
	for i := 0; i < len(chain); i++ {
		w := chain[i]
		if w == perfdata.CallchainUserDeferred {
			break // what follows is the cookie of a part that was not recorded
		}
		if w >= perfdata.CallchainContextMax {
			ctx, caller = contextOfMarker(w).seen(e.fromGuest, e.ofGuest), false
			continue
		}
		if len(e.stack) == 0 && ownIP {
			// The sample's own address is exact. The first one of the chain may be
			// some instructions later, and the chain may leave out the kernel.
			push(mode, s.IP, false)
			if ctx == mode {
				caller = true
				continue
			}
		}
		if w != 0 { // where a chain of frame pointers ends
			push(ctx, w, caller)
		}
		caller = true
	}
	if len(e.stack) == 0 && ownIP {
		push(mode, s.IP, false)
	}
	return e.stacks.id(e.stack), from, to
}
