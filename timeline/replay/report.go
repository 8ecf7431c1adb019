// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Report says what a recording is and how far it can be trusted.
type Report struct {
	Trusted  Trust
	Producer string // perf's version and command line
	Kernel   string // release, as uname -r
	Arch     string // as uname -m; "" where nothing says so
	Host     string
	// Guest is the guest that the image is of, 0 for the host; Guests are all
	// of which the recording tells.
	Guest  int
	Guests []Guest
	// CPUs that the machine has, and those that were online at the end; 0
	// where the recording does not say.
	CPUsAvailable, CPUsOnline int

	Clock    Clock
	Coverage struct{ Pokes, KSymbols, BPF, Modules Coverage }

	First   uint64 // time of the first record
	Begin   uint64 // time from which every CPU was recorded
	Last    uint64 // time of the newest record
	Horizon uint64 // time up to which nothing earlier can be missing
	Clean   bool   // the recording ends as a finished one does
	Damaged bool   // a record that does not fit its place in the file: nothing is more than unconfirmed
	// HotplugRecorded says that no CPU can have gone offline and come back without a
	// record: cpuhp:cpuhp_enter was recorded on all of them.
	HotplugRecorded bool
	// Copied is when perf copied kernel text: at some time from From to To; nil if
	// there is no copy.
	Copied *Times
	// Undated says that nothing says when the copy of kernel text was made: it was not
	// found beside the recording.
	Undated bool
	// Misfit says why the copy of kernel text beside the recording is left out: it is of
	// another kernel, or of another boot. "" if it is not.
	Misfit string

	Records       map[perfdata.RecordType]uint64
	Segments      []timeline.Range // of the snapshot
	SnapshotBytes uint64
	Copies        []CopyReport // further ones, as Options.Copies names them
	Modules       int
	Pokes         PokeCounts
	BPF           struct{ Programs, WithBytes, Images int }
	Symbols       struct{ Births, Deaths int }
	Losses        []Loss
	Conflicts     int
	// Skews are records that CPUs with differing clocks made in the wrong
	// order, by address and time. The largest is the ClockUncertainty, in
	// nanoseconds: within it of a change, which side a time belongs to is not
	// known.
	Skews            []timeline.Skew
	ClockUncertainty uint64
	Warnings         []error
}

// Trust is the time over which kernel text is known, all of it but places that
// contradict themselves: up to the horizon, or to the first gap in the
// coverage, behind which only what is changed is known again. From and To are 0
// where no time is.
type Trust struct {
	From, To uint64
	Because  []string
}

// PokeCounts counts text pokes by the shape of their records.
type PokeCounts struct {
	Total       uint64
	InPlace     uint64 // old and new bytes, neither a trap: static keys and calls, ftrace, BPF, optimised probes
	Armed       uint64 // one byte to INT3: a kprobe
	Disarmed    uint64 // INT3 to one byte
	Unoptimised uint64 // several bytes, the first of the new ones INT3: an optimised kprobe undone
	Created     uint64 // no old bytes: out-of-line code
	Removed     uint64 // no new bytes
	Doubles     uint64 // exact copies of others
	Copies      uint64 // of other events of the same CPU
}

// inPlace is how many pokes changed code that was there.
func (c *PokeCounts) inPlace() uint64 { return c.InPlace + c.Armed + c.Disarmed + c.Unoptimised }

func (c *PokeCounts) count(kind timeline.PokeKind) {
	c.Total++
	switch kind {
	case timeline.PokeBatch:
		c.InPlace++
	case timeline.PokeArmed:
		c.Armed++
	case timeline.PokeDisarmed:
		c.Disarmed++
	case timeline.PokeUnoptimised:
		c.Unoptimised++
	case timeline.PokeCreated:
		c.Created++
	case timeline.PokeRemoved:
		c.Removed++
	}
}

func (r *Report) finish(im *timeline.Image) {
	st := im.Stats()
	r.Conflicts = st.Conflicts
	r.Pokes.Doubles = uint64(st.Duplicates)
	r.Skews = im.Skews()
	for i := range r.Skews {
		r.ClockUncertainty = max(r.ClockUncertainty, r.Skews[i].By())
	}
	for l := range im.Lifetimes {
		if l.Kind == timeline.BPFImage {
			r.BPF.Images++
		}
	}
	if st.Crowded > 0 {
		r.Warnings = append(r.Warnings, fmt.Errorf("%d bytes are unknown: more symbols and changes overlap there than any kernel makes", st.Crowded))
	}
	// Contradictions in kernel text that no loss explains prove that something
	// wrote unrecorded.
	n := 0
	lo, hi := im.Text()
	for c := range im.Conflicts() {
		if c.Addr >= lo && c.Addr < hi && len(r.Losses) == 0 {
			n++
		}
	}
	if n > 0 && r.Coverage.Pokes.Verdict == Complete {
		r.Coverage.Pokes.limit(timeline.OldBytesMismatch, r.First, r.Horizon,
			"%d places of kernel text changed without a record", n)
	}
	r.trust()
}
