// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// Standing says how far an answer can be trusted. A greater standing can be trusted
// more. The standing of a block of bytes is the least standing of them.
type Standing uint8

const (
	// Unmapped: no fact says that anything is there.
	Unmapped Standing = iota
	// Unknown: something is there, but its bytes were never recorded.
	Unknown
	// Conflicting: facts disagree; [Span.Candidates] has them all.
	Conflicting
	// Retired: the code was unregistered or poked to nothing, or a poke hit a place
	// where no code is known. The last bytes are given. A preempted task may still run
	// them, or the memory may have other contents by now.
	Retired
	// Unconfirmed: a fact gives the byte, but changes between that fact and the asked
	// time may have gone unrecorded.
	Unconfirmed
	// InFlight: the asked time is inside an explicit window, or between two records that
	// enclose a change, or closer to a change than the CPUs' clocks differ. A CPU may run
	// the old bytes or the new ones.
	InFlight
	// Known: a fact gives the byte, and every change between that fact and
	// the asked time would have been recorded.
	Known
)

var standingNames = [...]string{
	Unmapped:    "unmapped",
	Unknown:     "unknown",
	Conflicting: "conflicting",
	Retired:     "retired",
	Unconfirmed: "unconfirmed",
	InFlight:    "in_flight",
	Known:       "known",
}

// String returns the name that the command line prints: "known", "in_flight", ...
func (s Standing) String() string { return standingNames[s] }

// HasBytes reports whether an answer of this standing has one content. Unmapped and
// unknown answers have none, conflicting ones have several candidates.
func (s Standing) HasBytes() bool { return s >= Retired }

// Source is the kind of fact that gives the bytes.
type Source uint8

const (
	SourceNone     Source = iota // no bytes
	SourceSnapshot               // a copy of kernel text (kcore)
	SourcePoke                   // a PERF_RECORD_TEXT_POKE
	SourceProgInfo               // perf's feature BPF_PROG_INFO, jited_prog_insns
	SourceWindow                 // an explicit window
	SourceVmlinux                // the vmlinux file, as it was linked
)

var sourceNames = [...]string{
	SourceNone:     "",
	SourceSnapshot: "snapshot",
	SourcePoke:     "poke",
	SourceProgInfo: "bpf_prog_info",
	SourceWindow:   "window",
	SourceVmlinux:  "vmlinux",
}

// String returns the name that the command line prints, "" for [SourceNone].
func (s Source) String() string { return sourceNames[s] }

// Reason says why an answer is not [Known]. Scripts depend on the codes, so new ones may
// be added, but none is renamed. [Reason.Text] explains each in one clause, which is also its
// comment here; docs/truth.md of this project has the rules by which they come about.
type Reason uint8

const (
	ReasonNone          Reason = iota // the answer is known, or nothing is to be explained
	NoCoverage                        // text changes were not recorded at all
	PartialCoverage                   // not every CPU that can change text was recorded
	SilentWriters                     // this architecture's kernels are not known to record every change
	CPUCountsMissing                  // the recording does not say how many CPUs there are, so one may have changed text unrecorded
	CPUSilent                         // a CPU stopped recording before the end; it may have been offline
	Damaged                           // the recording is damaged: records of changes may be missing
	AfterLoss                         // records were lost since the last fact; a change may be among them
	OutsideRecording                  // the time is before the first record, or before every CPU was recorded
	BeyondHorizon                     // the time is after the horizon: records may be missing there
	OldBytesMismatch                  // the next change's old bytes differ from the facts before it: a change between them was not recorded
	SnapshotMismatch                  // a change and the copy of text next to it disagree: a change between them was not recorded
	ThunkPadding                      // padding before a function: this kernel writes call thunks there without a record
	ModuleMayHaveGone                 // module loads and unloads were not all recorded, so another module may be here
	ModuleEventsSampled               // the module tracepoints were sampled (perf record -F), so loads and unloads may have been skipped
	ModuleContradicted                // a change inside this module does not fit its bytes: the module was unloaded without a record
	NotText                           // data or padding next to text, which changes without a record
	HoleInSnapshot                    // nothing was here when the snapshot was taken, and what came later was not recorded
	NeverRecorded                     // no snapshot and no change gives these bytes
	BPFTrampoline                     // the kernel records that BPF trampolines and dispatchers exist, not their bytes
	BPFNoInfo                         // the recording has no program info for this life of the BPF program
	OutOfLineGap                      // part of a page of out-of-line code that no record has filled
	Unregistered                      // the code that was here was unregistered
	PokedToNothing                    // a text poke removed the code that was here
	NothingAlive                      // a text poke changed an address where no code was recorded
	OutsideImage                      // the image was made for other addresses only
	InExplicitWindow                  // the change was going on: a CPU may run the old bytes, the new ones, or a trap
	ClockUncertainty                  // the CPUs' clocks differ, and a change is closer than that: the bytes are the old or the new ones
	EqualAtBothEnds                   // two copies of text have the same bytes, but not every change between them would have been recorded
	SnapshotsDiffer                   // two copies of text have different bytes: a change between them was not recorded
	FromVmlinux                       // the bytes are those of the vmlinux file; the kernel patches itself when it boots
	TooManyFacts                      // more facts overlap here, or more changes were recorded, than any kernel makes: some were ignored
	NotListening                      // the event that records such changes was not enabled yet
	SnapshotUndated                   // the time of the copy of text is unknown: changes between it and the recording may be missing in it
	ProbeUnchecked                    // the probe's hit counters were not read then, so its samples may not show every change
	ProbeMissed                       // the probe was hit more often than it has samples: changes are missing
	ProbeEarly                        // the probe was hit between perf's copy of text and its first sample: changes are missing
	ProbeUnpaired                     // a change has only one of its two samples: others may be missing
	ProbeDisarmed                     // all kprobes were disarmed: changes meanwhile were not recorded
	ProbeConfined                     // the probe's event does not have a sample of every hit
	WriterUnknown                     // a change was recorded without its bytes: the code of its writer could not be decoded
	ProbeUnformatted                  // the recording does not say what the fields of its tracepoints are, so its probes cannot be read
)

var reasons = [...]struct{ code, text string }{
	ReasonNone:          {"", ""},
	NoCoverage:          {"no-coverage", "text changes were not recorded at all"},
	PartialCoverage:     {"partial-coverage", "not every CPU that can change text was recorded"},
	SilentWriters:       {"silent-writers", "this architecture's kernels are not known to record every change"},
	CPUCountsMissing:    {"cpu-counts-missing", "the recording does not say how many CPUs there are, so one may have changed text unrecorded"},
	CPUSilent:           {"cpu-silent", "a CPU stopped recording before the end; it may have been offline"},
	Damaged:             {"damaged", "the recording is damaged: records of changes may be missing"},
	AfterLoss:           {"after-loss", "records were lost since the last fact; a change may be among them"},
	OutsideRecording:    {"outside-recording", "the time is before the first record, or before every CPU was recorded"},
	BeyondHorizon:       {"beyond-horizon", "the time is after the horizon: records may be missing there"},
	OldBytesMismatch:    {"old-bytes-mismatch", "the next change's old bytes differ from the facts before it: a change between them was not recorded"},
	SnapshotMismatch:    {"snapshot-mismatch", "a change and the copy of text next to it disagree: a change between them was not recorded"},
	ThunkPadding:        {"thunk-padding", "padding before a function: this kernel writes call thunks there without a record"},
	ModuleMayHaveGone:   {"module-may-have-gone", "module loads and unloads were not all recorded, so another module may be here"},
	ModuleEventsSampled: {"module-events-sampled", "the module tracepoints were sampled (perf record -F), so loads and unloads may have been skipped"},
	ModuleContradicted:  {"module-contradicted", "a change inside this module does not fit its bytes: the module was unloaded without a record"},
	NotText:             {"not-text", "data or padding next to text, which changes without a record"},
	HoleInSnapshot:      {"hole-in-snapshot", "nothing was here when the snapshot was taken, and what came later was not recorded"},
	NeverRecorded:       {"never-recorded", "no snapshot and no change gives these bytes"},
	BPFTrampoline:       {"bpf-trampoline", "the kernel records that BPF trampolines and dispatchers exist, not their bytes"},
	BPFNoInfo:           {"bpf-no-info", "the recording has no program info for this life of the BPF program"},
	OutOfLineGap:        {"out-of-line-gap", "part of a page of out-of-line code that no record has filled"},
	Unregistered:        {"unregistered", "the code that was here was unregistered"},
	PokedToNothing:      {"poked-to-nothing", "a text poke removed the code that was here"},
	NothingAlive:        {"nothing-alive", "a text poke changed an address where no code was recorded"},
	InExplicitWindow:    {"explicit-window", "the change was going on: a CPU may run the old bytes, the new ones, or a trap"},
	ClockUncertainty:    {"clock-uncertainty", "the CPUs' clocks differ, and a change is closer than that: the bytes are the old or the new ones"},
	EqualAtBothEnds:     {"equal-at-both-ends", "two copies of text have the same bytes, but not every change between them would have been recorded"},
	SnapshotsDiffer:     {"snapshots-differ", "two copies of text have different bytes: a change between them was not recorded"},
	FromVmlinux:         {"from-vmlinux", "the bytes are those of the vmlinux file; the kernel patches itself when it boots"},
	TooManyFacts:        {"too-many-facts", "more facts overlap here, or more changes were recorded, than any kernel makes: some were ignored"},
	NotListening:        {"not-listening", "the event that records such changes was not enabled yet"},
	SnapshotUndated:     {"snapshot-undated", "the time of the copy of text is unknown: changes between it and the recording may be missing in it"},
	ProbeUnchecked:      {"probe-unchecked", "the probe's hit counters were not read then, so its samples may not show every change"},
	ProbeMissed:         {"probe-missed", "the probe was hit more often than it has samples: changes are missing"},
	ProbeEarly:          {"probe-early", "the probe was hit between perf's copy of text and its first sample: changes are missing"},
	ProbeUnpaired:       {"probe-unpaired", "a change has only one of its two samples: others may be missing"},
	ProbeDisarmed:       {"probe-disarmed", "all kprobes were disarmed: changes meanwhile were not recorded"},
	ProbeConfined:       {"probe-confined", "the probe's event does not have a sample of every hit"},
	WriterUnknown:       {"writer-unknown", "a change was recorded without its bytes: the code of its writer could not be decoded"},
	ProbeUnformatted:    {"probe-unformatted", "the recording does not say what the fields of its tracepoints are, so its probes cannot be read"},
	OutsideImage:        {"outside-image", "the image was made for other addresses only"},
}

// String returns the code, for example "after-loss". It returns "" for [ReasonNone] and
// for numbers that are not a reason.
func (r Reason) String() string {
	if int(r) >= len(reasons) {
		return ""
	}
	return reasons[r].code
}

// Text explains the reason in one English clause, "" where String returns "".
func (r Reason) Text() string {
	if int(r) >= len(reasons) {
		return ""
	}
	return reasons[r].text
}

// Reasons yields every code with its text, in a fixed order, for listings.
func Reasons(yield func(code, text string) bool) {
	for _, r := range reasons[1:] {
		if !yield(r.code, r.text) {
			return
		}
	}
}
