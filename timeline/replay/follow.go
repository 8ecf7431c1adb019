// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A Follower makes images of a recording that perf is still writing, for a decoder
// that runs at the same time.
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
// Each image holds what was read before it was made, and is valid up to its own
// horizon. Nothing is known after that. Earlier images do not change, and what they
// call known stays right. Some facts need the whole recording. Until it ends,
// what depends on them is unconfirmed or unknown:
//
//   - In file form, the number of CPUs of the machine; see Options.CPUs.
//   - BPF programs whose infos perf has not written yet. perf writes the infos of
//     programs that were loaded while it recorded at the end.
//   - The time of the copy of kernel text, until perf has started its workload or
//     drained the ring buffers a second time. Before that, the copy proves nothing.
//   - After a first LOST record, the time after each CPU's newest record.
//   - On kernels that record no pokes, if probes record the changes: what is after the last
//     reading of the hit counters. Each image reads the files again that
//     Options.ProbeCounters names; they may come later. In file form perf writes last what
//     the samples hold, so that everything is unconfirmed unless Options.Formats names a
//     file with it, or there is one; it may come later, too.
//   - Text pokes of a CPU whose pokes several events record. They are unknown
//     while the chosen event has none but another one has some.
//
// An image knows what the records up to its horizon show, like the image of a
// recording that ends there. Later records may show that a change was not recorded,
// because their old bytes do not fit. Then later images call less known than earlier
// ones. Report.Coverage has the assumptions that all images need.
//
// A Follower is for one goroutine. Its images are safe for concurrent use.
type Follower struct {
	rd        *perfdata.Reader
	opts      Options
	r         *Replay // holds the inputs of the images
	s         *scan
	described bool
	ended     bool
	err       error // other than one of rd
	report    *Report
	windows   *timeline.Windows
}

// Follow reads the beginning of a recording from src. The recording is in pipe form, as
// perf record -o - writes it, or in file form, if src is a [perfdata.Tail].
// Options.KCore names the kcore_dir that this perf made when it began to record.
// Options.Guest, Only and Copies are for complete recordings.
//
// The errors are those of [perfdata.NewReader], of [kcore.Open] and of reading
// Options.Kallsyms and Options.Modules, or say which option needs a complete recording. The
// caller closes the Follower, but not before its last image is unused.
func Follow(src io.Reader, opts Options) (*Follower, error) {
	switch {
	case opts.Guest != 0:
		return nil, errors.New("replay: guests are merged into a recording when it is complete, and cannot be followed")
	case opts.Only != nil || len(opts.Copies) > 0:
		return nil, errors.New("replay: Options.Only and Options.Copies need a complete recording")
	}
	rd, err := perfdata.NewReader(src)
	if err != nil {
		return nil, err
	}
	f := &Follower{rd: rd, opts: opts, r: &Replay{Recording: rd.Recording(), explicit: opts.Explicit}, s: newScan(rd.Recording(), nil, nil)}
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
	if f.r.Snapshot != nil {
		f.s.maybeProbed = !architectureOf(f.r.Snapshot.Core, "").recordsPokes()
	}
	return f, nil
}

// Next reads on to the next FINISHED_ROUND record, which ends perf's next round over
// the ring buffers. It waits if that record has not arrived. It reports whether there
// is one. At the end of the recording, or where the recording cannot be read further,
// Next returns false.
func (f *Follower) Next() bool {
	if f.ended {
		return false
	}
	for f.rd.Next() {
		rec := f.rd.Record()
		if len(f.rd.Recording().Events()) != f.s.listening {
			f.s.listen()
		}
		if rec.Type == perfdata.RecordHeaderTracingData {
			f.s.formatted(f.r)
		}
		if rec.Type == perfdata.RecordFinishedRound && f.s.maybeProbed && !f.s.formats {
			if err := f.lateFormats(); err != nil {
				f.err, f.ended = err, true
				return false
			}
		}
		if !f.described && rec.Type == perfdata.RecordTextPoke {
			f.s.describe(f.r) // pokes cannot be read without the architecture
			f.described = true
		}
		f.s.step(rec)
		if rec.Type == perfdata.RecordFinishedRound {
			return true
		}
	}
	f.ended = true
	if f.s.maybeProbed && !f.s.formats {
		f.err = f.lateFormats()
	}
	f.s.formatted(f.r)
	f.s.name()
	return false
}

// lateFormats reads the file with the formats of tracepoints, which may come after the
// beginning of the recording.
func (f *Follower) lateFormats() error {
	err := f.r.readFormats(&f.opts)
	if f.opts.Formats != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errFormats)) {
		err = nil // it may come later
	}
	if f.s.formatFile = f.r.formats; err == nil && f.s.formatFile != nil {
		f.s.formatted(f.r)
		f.s.name() // the file has names too
	}
	return err
}

// Horizon returns the time, in nanoseconds of the recording's clock, up to which an image made
// now is valid. Records of earlier times cannot arrive any more.
func (f *Follower) Horizon() uint64 { return f.s.fork().sum().horizon() }

// Image makes an image of all that was read so far. That takes as long as for a
// recording that ends here. To save time, call it only when Horizon has passed the
// time that is needed. Image can be called at any time, and after the end.
//
// The error is [timeline.ErrTooLarge], see [timeline.Builder.Build], or one of reading
// Options.Vmlinux or Options.ProbeCounters. It is a *[MisfitError] if the copy or a list is
// of another kernel or another boot, a *[CPUsError] if Options.CPUs contradicts the recording,
// and a *[ChangedError] if the copy of kernel text has changed. At the end, it wraps
// [perfdata.ErrNothing] if no record could be read.
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

// image is Image without protection from files that are cut short.
func (f *Follower) image() (*timeline.Image, error) {
	if err := f.r.readCounters(&f.opts, !f.ended); err != nil {
		return nil, err
	}
	s := f.s.fork()
	s.probes = s.probes.clone()
	s.describe(f.r)
	s.tellArchitecture()
	s.skip(f.rd.Damage())
	if f.ended {
		if err := s.nothing(f.rd.Err()); err != nil {
			return nil, err
		}
		s.end(f.rd.Err())
	}
	s.addProbed()
	s.sum()
	if err := s.checkCPUs(f.opts.CPUs); err != nil {
		return nil, err
	}
	s.conclude()
	if err := s.facts(f.r, f.opts); err != nil {
		return nil, err
	}
	im, err := s.b.Build()
	if err != nil {
		return nil, err
	}
	s.finishReport(im)
	f.report = s.report
	if s.keepPlaced {
		s.placed.pokes, s.writers.idle = slices.Clone(s.placed.pokes), slices.Clone(s.writers.idle)
		f.windows = s.newWindows()
	}
	return im, nil
}

// Report returns the report on the last image, or nil before the first. Report.Clean is
// never set.
func (f *Follower) Report() *Report { return f.report }

// Windows returns the windows of all in-place pokes of the last image. It returns nil
// before the first image and without Options.Windows. A window that no later poke bounds
// yet is wider than it will be.
func (f *Follower) Windows() *timeline.Windows { return f.windows }

// Err returns the error that ended the recording early. It returns nil before the end
// and at a regular end. What was read before the error stays valid.
func (f *Follower) Err() error {
	if !f.ended {
		return nil
	}
	return cmp.Or(f.err, f.rd.Err())
}

// Close unmaps the copy of kernel text. Images read it in place, so none of them may be
// used afterwards.
func (f *Follower) Close() error {
	if f.r.Snapshot == nil {
		return nil
	}
	return f.r.Snapshot.Close()
}

// fork returns a scan of what was read so far. It shares with s only what is appended
// to. Summing it up does not change s.
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
	c.endings = s.forkedEndings()
	c.buffers, c.byCPU = make([]*ringBuffer, len(s.buffers)), make(map[bufferKey]*ringBuffer)
	for i, b := range s.buffers {
		n := *b
		n.tasks.forget() // the map is the other scan's
		n.losses, n.sorted, n.tasks.steps = slices.Clip(b.losses), slices.Clip(b.sorted), slices.Clip(b.tasks.steps)
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
