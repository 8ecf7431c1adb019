// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Report describes a recording and how far it can be trusted. Times are in
// nanoseconds of the recording's clock.
type Report struct {
	Trusted  Trust
	Producer string // perf's version and command line
	Kernel   string // release, as uname -r
	Arch     string // as uname -m; "" if unknown
	Host     string
	// BuildID is the build id of the image's kernel, in hex; "" if the recording does not
	// have it.
	BuildID string
	// Guest is the guest of the image, 0 for the host. Guests are all guests that the
	// recording has records of.
	Guest  int
	Guests []Guest
	// CPUsAvailable is the number of CPUs of the machine. CPUsOnline is how many were
	// online at the end. Both are 0 if unknown.
	CPUsAvailable, CPUsOnline int

	Clock    Clock
	Coverage struct{ Pokes, KSymbols, BPF, Modules Coverage }

	First   uint64 // time of the first record
	Begin   uint64 // time from which every CPU was recorded
	Last    uint64 // time of the newest record
	Horizon uint64 // time up to which nothing earlier can be missing
	Clean   bool   // the recording ends as a finished one does
	Damaged bool   // a record does not fit its place in the file: no byte is more than unconfirmed
	// HotplugRecorded is set if no CPU can have gone offline and come back without a
	// record: cpuhp:cpuhp_enter was recorded on all CPUs.
	HotplugRecorded bool
	// Copied is the time in which perf copied kernel text, at some moment. It is nil if
	// there is no copy.
	Copied *Times
	// Undated is set if it is unknown when the copy of kernel text was made, because the
	// copy was not in the recording's directory.
	Undated bool
	// Misfit is why the recording's own copy of kernel text is left out: it is of another
	// kernel or of another boot. It is "" if the copy is used.
	Misfit string

	Records       map[perfdata.RecordType]uint64 // number of records by type
	Segments      []timeline.Range               // of the snapshot
	SnapshotBytes uint64                         // in all segments
	Copies        []CopyReport                   // of Options.Copies
	Modules       int                            // number of modules that the snapshot lists
	Pokes         PokeCounts
	// Probes says what probes on text writers recorded, in place of TEXT_POKE records. It
	// is nil if the kernel records these, or if no event is such a probe.
	Probes *Probes
	// BPF counts the loads of BPF programs and the births of BPF images, and of both those whose code an
	// info, a reading, or samples of a probe on its writer have. Interpreted are the programs that
	// have no code, since the kernel interprets them.
	BPF       struct{ Programs, WithBytes, Interpreted, Images, ImagesWithBytes int }
	Symbols   struct{ Births, Deaths int }
	Losses    []Loss
	Conflicts int // number of the image's conflicts
	// Skews are pairs of records that CPUs with differing clocks wrote in the wrong
	// order, by address and time. ClockUncertainty is the most by which the clock was set
	// back, in nanoseconds, or if there are Skews, by how much clocks may differ then: the
	// largest skew, or 50 ms ([timeline.AssumedSkew]) if that is more, 10 ms on a clock of the
	// kernel's timekeeping. A time that is closer than that to a change may be on either side
	// of the change.
	Skews            []timeline.Skew
	ClockUncertainty uint64
	// ClocksMayDiffer is set if each CPU has its own clock, and the recording does not say that they
	// agree. If there are no Skews either, a time of one CPU that is closer to a change by another one
	// than their clocks differ may be on either side of it.
	ClocksMayDiffer bool
	Warnings        []error
}

// Trust is the time [From, To) over which all kernel text is known, except for places that
// contradict themselves. It ends at the horizon or at the first gap in coverage. After
// the gap, only text that changes again is known. From and To are 0 if there is no such
// time.
type Trust struct {
	From, To uint64
	Because  []string
}

// PokeCounts counts text pokes by the shape of their records. Total and the shapes count those
// written twice too, which [Replay.Changes] yields once; they do not count Duplicates.
type PokeCounts struct {
	Total       uint64
	InPlace     uint64 // old and new bytes, neither a trap: static keys and calls, ftrace, BPF, optimised probes
	Armed       uint64 // one byte to INT3: a kprobe
	Disarmed    uint64 // INT3 to one byte
	Unoptimised uint64 // several bytes, the first of the new ones INT3: an optimised kprobe undone
	Created     uint64 // no old bytes: out-of-line code
	Removed     uint64 // no new bytes
	// WrittenTwice are those of one place, time and CPU that have the bytes of an earlier one which
	// nothing undid between: perf wrote it twice. Where a clock counts ticks, another thread may have made
	// the same change on this CPU at this time; Changes yields both.
	WrittenTwice uint64
	Duplicates   uint64 // of other events of the same CPU
}

// inPlace returns the number of pokes that changed existing code.
func (c *PokeCounts) inPlace() uint64 { return c.InPlace + c.Armed + c.Disarmed + c.Unoptimised }

// count counts n pokes.
func (c *PokeCounts) count(kind timeline.PokeKind, n uint64) {
	c.Total += n
	switch kind {
	case timeline.PokeBatch:
		c.InPlace += n
	case timeline.PokeArmed:
		c.Armed += n
	case timeline.PokeDisarmed:
		c.Disarmed += n
	case timeline.PokeUnoptimised:
		c.Unoptimised += n
	case timeline.PokeCreated:
		c.Created += n
	case timeline.PokeRemoved:
		c.Removed += n
	}
}

// finish adds what only the image shows: conflicts, skews, pokes that perf wrote twice. Then
// it sets Trusted.
func (r *Report) finish(im *timeline.Image) {
	st := im.Stats()
	r.Conflicts = st.Conflicts
	r.Pokes.WrittenTwice = uint64(st.Duplicates)
	r.Skews = im.Skews()
	for l := range im.Lifetimes {
		if l.Kind == timeline.BPFImage {
			r.BPF.Images++
		}
	}
	if st.Crowded > 0 {
		r.Warnings = append(r.Warnings, fmt.Errorf("%d bytes are unknown: more symbols and changes overlap there than any kernel makes", st.Crowded))
	}
	// Contradictions in kernel text that nothing else explains prove that some writer is
	// not recorded.
	n := 0
	lo, hi := im.Text()
	for c := range im.Conflicts() {
		if c.Addr >= lo && c.Addr < hi && len(r.Losses) == 0 && !c.Excused {
			n++
		}
	}
	if n > 0 && r.Coverage.Pokes.Verdict == Complete {
		r.Coverage.Pokes.limit(timeline.OldBytesMismatch, r.First, r.Horizon,
			"%s of kernel text changed without a record", plural(n, "place"))
	}
	r.trust()
}

// whatFollows explains what the answers depend on if the architecture does not record
// its pokes.
func (r *Report) whatFollows() []string {
	if !r.architecture().silent() {
		return nil
	}
	if r.Probes != nil {
		return r.Probes.whatFollows()
	}
	var out []string
	switch {
	case r.SnapshotBytes == 0 && r.Pokes.inPlace() == 0:
		out = append(out, "without a copy of kernel text (kcore_dir) there are no answers about it")
	case r.SnapshotBytes == 0:
		out = append(out, "without a copy of kernel text (kcore_dir) only poked places have answers")
	case r.Copied != nil:
		out = append(out, fmt.Sprintf("answers give the text that perf copied by %s as unconfirmed: later changes were not recorded", Seconds(r.Copied.To)))
	}
	if r.Pokes.inPlace() > 0 {
		out = append(out, "a place is known only between two pokes of it, if the later one's old bytes are the earlier one's new bytes")
	}
	if r.BPF.WithBytes > 0 {
		out = append(out, fmt.Sprintf("BPF programs do not depend on this: %d of %d have bytes, which are known while the program is loaded, except where this kernel patches them",
			r.BPF.WithBytes, r.BPF.Programs))
	}
	return out
}
