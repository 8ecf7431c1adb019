// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A Follower makes images of a recording that is still being made, for a decoder
// that runs beside perf.
//
//	f, err := replay.Follow(os.Stdin, replay.Options{KCore: dir})
//	...
//	for f.Next() {
//		if f.Horizon() < wanted {
//			continue
//		}
//		im, err := f.Image()
//		...
//	}
//	if err := f.Err(); err != nil { ... }
//
// Each image holds what has been read so far and is valid up to its own horizon:
// nothing of it is known later. Images that were made before stay as they are,
// and what they call known stays right. What only the whole recording tells is
// unconfirmed, or unknown, in them:
//
//   - In file form, how many CPUs the machine has; see Options.CPUs.
//   - BPF programs whose infos have not come yet: perf writes those of the programs
//     that it met at the end.
//   - When the copy of kernel text was made, until perf started its workload or
//     has drained the ring buffers a second time. Before, the copy proves nothing.
//   - After a first LOST record, the time after each CPU's newest record.
//   - Text pokes of a CPU on which several events take them, as long as the one
//     that is read has none while another has.
//
// An image can only tell what the records tell up to its horizon, as that of a
// recording that ends there. Later ones may show that a change went unrecorded,
// by old bytes that do not fit; then later images call known less than earlier
// ones did. Report.Coverage says on which assumptions it all rests.
//
// A Follower serves one goroutine, its images any number.
type Follower struct {
	rd        *perfdata.Reader
	opts      Options
	r         *Replay // what images are made with
	s         *scan
	described bool
	ended     bool
	report    *Report
	windows   *timeline.Windows
}

// Follow reads the beginning of a recording from src, which is in pipe form, as
// perf record -o - writes it, or in file form, as [perfdata.Tail] reads it while it
// grows. Options.KCore names the kcore_dir that this perf made when it began to record.
// Options.Guest, Only and Copies are for complete recordings.
//
// The errors are those of [perfdata.NewReader] and of kcore_dir.
func Follow(src io.Reader, opts Options) (*Follower, error) {
	switch {
	case opts.Guest != 0:
		return nil, errors.New("timeline: guests are merged into a recording when it is complete, and cannot be followed")
	case opts.Only != nil || len(opts.Copies) > 0:
		return nil, errors.New("timeline: Options.Only and Options.Copies need a complete recording")
	}
	rd, err := perfdata.NewReader(src)
	if err != nil {
		return nil, err
	}
	f := &Follower{rd: rd, opts: opts, r: &Replay{Recording: rd.Recording(), explicit: opts.Explicit}, s: newScan(rd.Recording(), nil)}
	f.s.follows, f.s.cpus, f.s.keepPlaced = true, opts.CPUs, opts.Windows
	if opts.KCore != "" {
		if f.r.Snapshot, err = kcore.Open(opts.KCore); err != nil {
			return nil, err
		}
	}
	if err := f.r.readSymbols(opts); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.s.callees.k = f.r.kallsyms
	f.r.listModules(f.s)
	return f, nil
}

// Next reads on to the end of perf's next round over the ring buffers (a
// FINISHED_ROUND record), and waits for it if it has not arrived. It reports
// whether there is one; at the end of the recording, or where it cannot be read
// further, it returns false, having read what there was.
func (f *Follower) Next() bool {
	for !f.ended && f.rd.Next() {
		rec := f.rd.Record()
		if len(f.rd.Recording().Events()) != f.s.listening {
			f.s.listen()
		}
		if !f.described && rec.Type == perfdata.RecordTextPoke {
			f.s.describe(f.r) // the architecture tells how to read pokes
			f.described = true
		}
		f.s.step(rec)
		if rec.Type == perfdata.RecordFinishedRound {
			return true
		}
	}
	f.ended = true
	return false
}

// Horizon returns the time up to which an image made now is valid: nothing
// earlier can still arrive.
func (f *Follower) Horizon() uint64 { return f.s.fork().sum().horizon() }

// Image makes an image of all that has been read so far. That takes as long as
// it would for a recording that ends here, so it pays to wait until a time
// beyond the horizon of the last image is needed. It can be called at any time,
// and after the end.
//
// The error is ErrTooLarge, see [Builder.Build], that of Options.Vmlinux, a
// *[ChangedError] if the copy of kernel text has changed, or at the end one that
// wraps [perfdata.ErrNothing] if no record could be read.
func (f *Follower) Image() (im *timeline.Image, err error) {
	err = Guard(func() (err error) {
		im, err = f.image()
		return err
	})
	if err == nil && f.r.Snapshot != nil {
		err = f.r.Snapshot.Check()
	}
	if err != nil {
		return nil, err
	}
	return im, nil
}

func (f *Follower) image() (*timeline.Image, error) {
	s := f.s.fork()
	s.describe(f.r)
	s.b.SilentPokes(s.arch.silent())
	s.b.CallThunks(s.arch.hasCallThunks())
	s.skip(f.rd.Damage())
	if f.ended {
		if err := s.nothing(f.rd.Err()); err != nil {
			return nil, err
		}
		s.end(f.rd.Err())
	}
	s.sum()
	s.conclude()
	if err := s.checkCopies(f.r, &f.opts); err != nil {
		return nil, err
	}
	if err := s.facts(f.r, f.opts); err != nil {
		return nil, err
	}
	im, err := s.b.Build()
	if err != nil {
		return nil, err
	}
	s.report.finish(im)
	f.report = s.report
	if s.keepPlaced {
		s.placed, s.writers.idle = slices.Clone(s.placed), slices.Clone(s.writers.idle)
		f.windows = s.newWindows()
	}
	return im, nil
}

// Report returns the report on what the last image was made of; nil before the
// first. Report.Clean is never set.
func (f *Follower) Report() *Report { return f.report }

// Windows returns the windows of all in-place pokes of the last image; nil
// before the first, and without Options.Windows. Windows that no later poke
// bounds yet are wider than they will be.
func (f *Follower) Windows() *timeline.Windows { return f.windows }

// Err returns the error that ended the recording early; nil while it has not
// ended, and where it ended as it should. What was read before stays.
func (f *Follower) Err() error {
	if !f.ended {
		return nil
	}
	return f.rd.Err()
}

// Close unmaps the copy of kernel text, which images read in place: none of them
// must be used afterwards.
func (f *Follower) Close() error {
	if f.r.Snapshot == nil {
		return nil
	}
	return f.r.Snapshot.Close()
}

// fork returns a scan of what has been read so far. It shares with s what is only
// added to, and can be summed up without a trace in s.
func (s *scan) fork() *scan {
	c := *s
	report := *s.report
	report.Warnings = slices.Clip(report.Warnings)
	c.report = &report
	c.b = s.b.Clone()
	c.damage = slices.Clip(s.damage)
	c.modules = slices.Clip(s.modules)
	c.guests.byPID = maps.Clone(s.guests.byPID)
	c.files = slices.Clone(s.files)
	c.buffers, c.byCPU = make([]*ringBuffer, len(s.buffers)), make(map[bufferKey]*ringBuffer)
	for i, b := range s.buffers {
		n := *b
		c.buffers[i], c.byCPU[b.bufferKey] = &n, &n
	}
	c.channels = channels{base: s.channels.base}
	copied := func(ch *channel) *channel {
		n := *ch
		if n.buffer != nil {
			n.buffer = c.byCPU[n.buffer.bufferKey]
		}
		return &n
	}
	for id, ch := range s.channels.all {
		c.channels.set(id, copied(ch))
	}
	c.nameless = make(map[*perfdata.Event]*channel)
	for e, ch := range s.nameless {
		c.nameless[e] = copied(ch)
	}
	c.place(false)
	return &c
}
