// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Loss is one PERF_RECORD_LOST: records that one ring buffer lost between From and To.
// From is the time of the last record before it in that buffer that is not a sample.
// To is the time of the LOST record. If that has no time, To is the time of the buffer's
// next record; without such a record there is no Loss. From is 0 if the records of several
// ring buffers cannot be separated. Times are in nanoseconds of the recording's clock.
type Loss struct {
	CPU      int64 // below 0: unknown, or a thread's, on any CPU
	From, To uint64
	Records  uint64
}

// Where returns the CPU of the loss, for messages.
func (l *Loss) Where() string { return whereOf(l.CPU) }

func (r *ringBuffer) where() string { return whereOf(r.cpu) }

func whereOf(cpu int64) string {
	if cpu < 0 {
		return "an unknown CPU"
	}
	return fmt.Sprintf("CPU %d", cpu)
}

// A lossTally holds the counts in the LOST and LOST_SAMPLES records of a ring buffer.
//
// The kernel counts a lost record twice. The count of the ring buffer comes with the
// next record that finds room (LOST). perf reads the count of the event
// (PERF_FORMAT_LOST) when it ends (LOST_SAMPLES). So the second sum is at least the
// first, if perf has read it.
type lossTally struct {
	lost        uint64 // sum of its LOST records
	lostSamples uint64 // sum of its events' LOST_SAMPLES
	lostKinds   kinds  // what the events with LOST_SAMPLES take
	uncounted   bool   // some of its events do not count their losses
	uncountedBy kinds  // what those events take
	unreadBy    kinds  // what the events take whose counts perf may not have read
}

// count adds the known losses of an event.
func (t *lossTally) count(ch *channel) {
	t.lostSamples += ch.lostSamples
	if ch.lostSamples > 0 {
		t.lostKinds |= ch.kinds
	}
	if ch.event.Attr.ReadFormat&perfdata.ReadFormatLost == 0 {
		t.uncounted = true
		t.uncountedBy |= ch.kinds
	}
}

// add adds the counts of another ring buffer.
func (t *lossTally) add(o *lossTally) {
	t.lost += o.lost
	t.lostSamples += o.lostSamples
	t.lostKinds |= o.lostKinds
	t.uncounted = t.uncounted || o.uncounted
	t.uncountedBy |= o.uncountedBy
	t.unreadBy |= o.unreadBy
}

// markUnread marks the events after the last one that has LOST_SAMPLES: if perf stopped
// reading the counts, theirs may be missing. perf reads them event by event, and the ids of
// each event in their order (record__read_lost_samples() in tools/perf/builtin-record.c).
func (s *scan) markUnread() {
	var behind []*channel
	for _, e := range s.rec.Events() {
		for _, id := range e.IDs {
			ch := s.channels.get(id)
			if ch == nil || ch.buffer == nil {
				continue
			}
			if behind = append(behind, ch); ch.lostSamples > 0 {
				behind = behind[:0]
			}
		}
	}
	for _, ch := range behind {
		ch.buffer.unreadBy |= ch.kinds
	}
}

// denies reports whether the LOST records contradict the LOST_SAMPLES records.
func (t *lossTally) denies() bool { return t.lost > t.lostSamples }

// lost handles a LOST record. The id in its body is of the event that found room
// again. So is the id in its trailer, which may have none.
func (s *scan) lost(rec *perfdata.Record) {
	var l perfdata.Lost
	if err := s.rec.Lost(rec, &l); err != nil {
		s.broken(rec, "%v", err)
		return
	}
	e := s.enter(rec, &l.SampleID)
	if e.recorded(&l.SampleID) {
		s.fits(rec, &l.SampleID, 8+16)
	}
	ch := e.ch
	if ch == nil && l.Time == 0 && !e.foreign {
		ch = s.channels.get(l.ID)
		if ch == nil {
			s.broken(rec, "event id %d is not one of the recording", l.ID)
			return
		}
	}
	if ch == nil || ch.machine != s.listens {
		return
	}
	ch.buffer = s.bufferOf(ch, l.ID)
	b := ch.buffer
	if l.Time != 0 && b.reported(l.Time, l.Lost) {
		return // perf wrote the record twice
	}
	b.lost += l.Lost
	if l.Time == 0 {
		b.untimed += l.Lost
		return
	}
	b.addLoss(b.sideBefore, l.Time, l.Lost)
	b.sorted[len(b.sorted)-1].From = b.older[mostInterrupted-1]
}

// reported reports whether an earlier LOST record has the same time t and count n. Such
// a record is the newest one or not much older.
func (r *ringBuffer) reported(t, n uint64) bool {
	for i := len(r.losses) - 1; i >= 0 && i >= len(r.losses)-maxDoubles; i-- {
		if l := &r.losses[i]; l.To == t && l.Records == n {
			return true
		}
	}
	return false
}

// maxDoubles is the largest number of LOST records of one ring buffer that perf writes
// twice at once.
const maxDoubles = 64

// addLoss adds a loss since from, the time of the record before it. If the buffer mixes
// the records of several ring buffers, it is unknown which record that is.
func (r *ringBuffer) addLoss(from, to, n uint64) {
	if r.mixed {
		from = 0
	}
	from, to = min(from, to), max(from, to) // the clock may have been set back
	r.losses = append(r.losses, Loss{CPU: max(r.cpu, noCPU), From: from, To: to, Records: n})
	r.sorted = append(r.sorted, timeline.Interval{From: from, To: to})
}

// lossTimes are when ring buffers may have lost records. There may be very many losses, and as many
// questions.
type lossTimes struct {
	ends   []uint64 // of the losses, ascending
	begins []uint64 // the least beginning of those that end at ends[i] or later
	since  uint64   // from then on more may be lost; MaxTime: none
}

// lossTimesOf returns the times of the losses of ring buffers.
func lossTimesOf(buffers ...*ringBuffer) *lossTimes {
	x := &lossTimes{since: timeline.MaxTime}
	var all []Loss
	for _, b := range buffers {
		all = append(all, b.losses...)
		if (b.lost > 0 || b.lostSamples > 0) && (b.uncounted || b.lost != b.lostSamples) {
			x.since = min(x.since, b.side)
		}
	}
	slices.SortFunc(all, func(a, b Loss) int { return cmp.Compare(a.To, b.To) })
	x.ends, x.begins = make([]uint64, len(all)), make([]uint64, len(all))
	least := timeline.MaxTime
	for i := len(all) - 1; i >= 0; i-- {
		least = min(least, all[i].From)
		x.ends[i], x.begins[i] = all[i].To, least
	}
	return x
}

// between reports whether records may be lost between two times.
func (x *lossTimes) between(from, to uint64) bool {
	i := sort.Search(len(x.ends), func(i int) bool { return x.ends[i] > from })
	return i < len(x.ends) && x.begins[i] < to || x.since < to
}

// around returns the time from the beginning of the first loss that has a moment from one time to another
// one, both included, to the end of the last one. one says that there is only one; ok is false if there is none.
func (x *lossTimes) around(from, to uint64) (v timeline.Interval, one, ok bool) {
	i, _ := slices.BinarySearch(x.ends, from)
	k := sort.Search(len(x.begins), func(k int) bool { return x.begins[k] > to }) - 1
	if i > k {
		return timeline.Interval{}, false, false
	}
	return timeline.Interval{From: x.begins[i], To: x.ends[k]}, i == k, true
}

// widenLosses is for records that perf inject put into the order of time. An interrupt may have
// written a LOST record before a record that has an earlier time. That is not the record before the
// loss then:
//
//	ring buffer   p 5     LOST 12  sample 12  p 10
//	in order      p 5  p 10  LOST 12  sample 12      lost since 5
func (r *ringBuffer) widenLosses() {
	r.losses = slices.Clone(r.losses) // forked scans may share the array
	for i := range r.losses {
		l := &r.losses[i]
		l.From, l.To = min(l.From, r.sorted[i].From), r.sorted[i].To
	}
}

// sorted reports whether perf inject may have put the records into the order of time. perf record
// writes one ring buffer after the other, but those of a single CPU are in that order too. In a file,
// perf inject replaces the command line of perf record by its own. Newer perfs put their path before
// it; of perf record itself they have nothing but the path.
func (s *scan) sorted() bool {
	args, err := s.rec.Cmdline()
	return !s.byBuffer && (s.rec.Pipe() || err == nil && (len(args) < 2 || args[1] != "record"))
}

// endUntimed ends the losses that LOST records without a time began. The kernel writes
// a LOST record together with the next record that finds room.
func (r *ringBuffer) endUntimed(t uint64) {
	if r.untimed > 0 {
		r.addLoss(r.side, t, r.untimed)
		// perf inject does not wait for the time of a record that has none.
		r.sorted[len(r.sorted)-1] = timeline.Interval{To: timeline.MaxTime}
		r.untimed = 0
	}
}

// lostSamples handles a LOST_SAMPLES record: the count that perf read of one event id.
func (s *scan) lostSamples(rec *perfdata.Record) {
	// PERF_RECORD_MISC_LOST_SAMPLES_BPF: a filter dropped samples on purpose.
	const droppedByFilter = 1 << 15
	if rec.Misc&droppedByFilter != 0 {
		return
	}
	var l perfdata.LostSamples
	if err := s.rec.LostSamples(rec, &l); err != nil {
		s.broken(rec, "%v", err)
		return
	}
	switch ch := s.channels.get(l.SampleID.ID); {
	case ch != nil:
		ch.lostSamples += l.Lost
	case l.SampleID.ID == 0:
		s.unnamed += l.Lost // a recording of one event
	default:
		s.broken(rec, "event id %d is not one of the recording", l.SampleID.ID)
	}
}

// coverLosses adds a limit for each interval in which a record of this kind may
// have been lost (rule losses).
func (s *scan) coverLosses(c *Coverage, kind kinds) {
	var all lossTally
	texts := make(lossTexts)
	lossy := s.unnamed > 0 // records of this kind may be lost
	denied := false        // LOST_SAMPLES are missing
	later, size, fill := s.mayBeLater(), s.ringSize(), s.roundsFill()
	for _, b := range s.buffers {
		all.add(&b.lossTally)
		lossy = lossy || b.lost > 0 && (b.takes&kind != 0 || b.cpu < 0)
		denied = denied || b.denies()
	}
	for _, b := range s.buffers {
		if b.takes&kind == 0 && b.cpu >= 0 {
			continue
		}
		t := &b.lossTally
		if b.cpu < 0 {
			t = &all // a thread's buffer may be the one that an event of the CPU writes to
		}
		// perf reads the counts one after the other, and stops silently when a read
		// fails. So a buffer without LOST_SAMPLES may still have losses, and so may an
		// event after the last one that has some, or any event if none has. If no LOST record
		// contradicts the counts, it can only have lost records at the end, from a full ring
		// buffer. textreplay record says when it cannot read a count.
		// A later file of --switch-output has the counts of what all files lost, and its own
		// LOST records only. So they cannot contradict the counts.
		unread := (denied || later && t.lost > 0) && t.unreadBy&kind != 0
		ended := s.clean && (fill && b.endedFull(size, max(recordRoom, s.widest)) || !fill && b.mayBeFull(size))
		full := ended && b.side < s.report.Horizon
		stopped := s.journal == nil && b.takes&t.unreadBy&kind != 0
		// What it lost at the end may be of the events that were read. Then the LOST records may
		// have losses of the others.
		hidden := stopped && t.lost > 0 && (ended || t.lostSamples > t.lost)
		counted := s.clean && s.unnamed == 0 && t.uncountedBy&kind == 0 && !t.denies() && !unread && !hidden
		if counted && full && stopped {
			c.limit(timeline.AfterLoss, b.side, timeline.MaxTime, "the ring buffer of %s may have been full after its last record, and perf may not have read the count of what it lost at the end", b.where())
		}
		if counted && t.lostKinds&kind == 0 {
			continue
		}
		c.Limits = slices.Grow(c.Limits, len(b.losses))
		for i := range b.losses {
			l := &b.losses[i]
			c.limitTo(timeline.AfterLoss, l.From, l.To, texts.of(l))
		}
		switch {
		case b.takes&kind == 0:
		case counted && !t.uncounted && t.lostSamples == t.lost:
		case counted:
			c.limit(timeline.AfterLoss, b.side, timeline.MaxTime, "%s lost %s but its LOST records report only %d; some may be missing at the end", b.where(), plural(t.lostSamples, "record"), t.lost)
		case lossy:
			c.limit(timeline.AfterLoss, b.side, timeline.MaxTime, "records were lost, and more may have been lost after the last one of %s", b.where())
		case full:
			c.limit(timeline.AfterLoss, b.side, timeline.MaxTime, "the ring buffer of %s may have been full after its last record, and the recording does not count what it lost at the end", b.where())
		}
	}
}

// roundsFill reports whether a round has what perf read of each ring buffer at once, no less and no
// more: not of threads' files, nor if perf inject put the records into another order, nor if it is
// unknown which ring buffer some are of.
func (s *scan) roundsFill() bool {
	return s.byBuffer && len(s.files) == 1 && s.counts[perfdata.RecordFinishedRound] > 0 &&
		!slices.ContainsFunc(s.buffers, func(b *ringBuffer) bool { return b.unplaced || b.mixed })
}

// ringSize returns how many bytes each ring buffer has at least. All of a recording have one
// size, a power of two. perf reads each of them once in a round, so no round has more bytes of
// one. If perf inject put the records into the order of time, a round may have the bytes of two.
func (s *scan) ringSize() uint64 {
	size := uint64(ringPage)
	for _, b := range s.buffers {
		if b.cpu < 0 || b.unplaced || b.mixed || len(s.files) != 1 {
			continue
		}
		most := b.fullest
		if !s.byBuffer {
			most /= 2
		}
		for size < most {
			size *= 2
		}
	}
	return size
}

// lossTexts are descriptions of losses. Equal ones are one string, since there may be very many.
type lossTexts map[Loss]string

// of returns the description of a loss.
func (x lossTexts) of(l *Loss) string {
	key := Loss{CPU: l.CPU, Records: l.Records}
	text, ok := x[key]
	if !ok {
		text = fmt.Sprintf("%s lost on %s", plural(l.Records, "record"), l.Where())
		x[key] = text
	}
	return text
}
