// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package journal is the file textreplay.jsonl in a recording that "textreplay record"
// made. It has what perf.data has no record for: when each copy of kernel text was made,
// when a CPU was not recorded, and what the hit counters of probes were.
//
// The file has one JSON object on each line. It only grows. The line of a gap is written before
// any record of the CPU's new events, and the line of a reading of counters after the samples
// that it counts. A line that is not written yet only makes less known. So the file is right at
// any moment, even if the recorder is killed; then its last line may be cut off. perf ignores
// it. docs/record.md describes the lines.
package journal

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
)

// Name is the file's name in the directory of a recording.
const Name = "textreplay.jsonl"

// Version is the version of the format. A reader refuses a higher one. Version 1 had no
// Counters, version 2 no Disarmed.
const Version = 3

// An Entry is a line. Exactly one of its pointers is set.
type Entry struct {
	Start *Start `json:"start,omitempty"` // the first line
	Ready *Ready `json:"ready,omitempty"`
	Copy  *Copy  `json:"copy,omitempty"`
	Gap   *Gap   `json:"gap,omitempty"`
	Bytes *Bytes `json:"bytes,omitempty"`
	// Counters are those of probes that record the changes of text.
	Counters *Counters `json:"counters,omitempty"`
	Disarmed *Disarmed `json:"disarmed,omitempty"`
	End      *End      `json:"end,omitempty"` // the recorder ended by itself
}

// Start says who recorded, and where. All times of the journal are in nanoseconds of the
// clock that it names, which is that of the records.
type Start struct {
	Version int    `json:"version"`
	Program string `json:"program"` // the recorder and its version
	Clock   string `json:"clock"`   // CLOCK_MONOTONIC
	// Wall is the wall-clock time when Clock showed Time, in nanoseconds since 1970 (UTC).
	Time   uint64 `json:"time"`
	Wall   int64  `json:"wall"`
	Host   string `json:"host,omitempty"`
	BootID string `json:"boot_id,omitempty"` // /proc/sys/kernel/random/boot_id
	// FollowsCPUs is set if the recorder learns of each CPU that comes online, opens its
	// events, and writes a Gap. Without it, a CPU may be gone unnoticed.
	FollowsCPUs bool `json:"follows_cpus"`
	// Open is the time from which on all events recorded.
	Open uint64 `json:"open"`
}

// Ready says that by Time all BPF programs and tasks that were there before had their
// records.
type Ready struct {
	Time uint64 `json:"time"`
}

// A Copy is a directory with kernel text, read at some moment of [From, To].
type Copy struct {
	Dir  string `json:"dir"` // in the directory of the recording
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Base is the directory of an earlier copy. A page of Read that this copy lacks was
	// read, and is the same in Base. "" is none: this copy has all that was read.
	Base string `json:"base,omitempty"`
	// Read has the addresses that were read, ascending, in whole pages.
	Read []Range `json:"read,omitempty"`
}

// A Range is a range of addresses [Lo, Hi).
type Range struct {
	Lo Addr `json:"lo"`
	Hi Addr `json:"hi"`
}

// An Addr is an address. In JSON it is a string, "0x...", because not every reader of JSON
// has integers of 64 bits.
type Addr uint64

// MarshalText implements [encoding.TextMarshaler].
func (a Addr) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%#x", uint64(a)), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (a *Addr) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 0, 64)
	*a = Addr(v)
	return err
}

// A Gap is a time in which a CPU was not recorded, although it may have been online.
type Gap struct {
	CPU  int    `json:"cpu"`
	From uint64 `json:"from"` // the last time at which it was recorded for certain
	To   uint64 `json:"to"`   // from here on it is recorded again; 1<<64 - 1: never
}

// Bytes is kernel memory that was read at some moment of [From, To]: the code of a BPF
// trampoline, which no record has.
type Bytes struct {
	Addr Addr   `json:"addr"`
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	Data Hex    `json:"data"`
}

// Hex is bytes. In JSON they are a string of hexadecimal digits.
type Hex []byte

// MarshalText implements [encoding.TextMarshaler].
func (h Hex) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (h *Hex) UnmarshalText(b []byte) (err error) {
	*h, err = hex.AppendDecode(nil, b)
	return err
}

// Counters is a reading of the hit counters of probes (kprobe_profile of tracefs), made at
// some moment of [From, To].
type Counters struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// Data is how many bytes of the file data have all samples up to To.
	Data   int64           `json:"data"`
	Probes map[string]Hits `json:"probes"` // by the name of the event, without its group
}

// Hits is how often a probe was hit, and how often the kernel could not run it.
type Hits struct {
	Hits   uint64 `json:"hits"`
	Missed uint64 `json:"missed"`
}

// Disarmed is a time in which all kprobes were disarmed, so that the probes had no hits. A line
// with the same From and with To replaces the one without, when they are armed again.
type Disarmed struct {
	From uint64 `json:"from"`         // the last time at which they were armed for certain
	Seen uint64 `json:"seen"`         // when the recorder noticed
	To   uint64 `json:"to,omitempty"` // from here on they are armed again; 0: not yet
}

// An End is the clean end of a recording: all records up to Time were taken.
type End struct {
	Time uint64 `json:"time"`
}

// A FormatError is a line that is not an entry.
type FormatError struct {
	Line int // from 1
	Err  error
}

func (e *FormatError) Error() string { return fmt.Sprintf("%s:%d: %v", Name, e.Line, e.Err) }
func (e *FormatError) Unwrap() error { return e.Err }

// Append writes an entry as one line, in one call of Write. It does not check the entry.
func Append(w io.Writer, e *Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

var (
	errEntry   = errors.New("not one entry")
	errNoStart = errors.New("the first line must say who recorded")
	errDir     = errors.New("a copy is outside the recording's directory")
	errOrder   = errors.New("the end is before the beginning")
)

// maxLine bounds a line, in bytes. A line can have 16 KiB of code in hexadecimal digits, or
// MaxRanges ranges of a copy. A longer line is an error.
const maxLine = 1 << 20

// MaxRanges is how many ranges a copy may have, so that its line can be read: each takes 55 bytes
// at most.
const MaxRanges = 1 << 14

// Read returns the entries of a journal. The error is a [*FormatError]; the entries
// before it are returned with it. A last line without a newline is ignored: the recorder
// was killed while it wrote it.
func Read(r io.Reader) ([]Entry, error) {
	var entries []Entry
	in := bufio.NewReaderSize(r, 1<<16)
	var long []byte // the beginning of a line that is longer than the buffer
	for line := 1; ; line++ {
		b, err := in.ReadSlice('\n')
		for long = long[:0]; err == bufio.ErrBufferFull && len(long) < maxLine; b, err = in.ReadSlice('\n') {
			long = append(long, b...)
		}
		if len(long) > 0 {
			b = append(long, b...)
		}
		if err == io.EOF {
			if line == 1 {
				return nil, &FormatError{line, errNoStart}
			}
			return entries, nil
		}
		var e Entry
		if err == nil {
			err = parse(b, &e, line == 1)
		}
		if err != nil {
			return entries, &FormatError{line, err}
		}
		entries = append(entries, e)
	}
}

func parse(line []byte, e *Entry, first bool) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	if err := dec.Decode(e); err != nil {
		return err
	}
	n := 0
	for _, set := range []bool{e.Start != nil, e.Ready != nil, e.Copy != nil, e.Gap != nil, e.Bytes != nil, e.Counters != nil, e.Disarmed != nil, e.End != nil} {
		if set {
			n++
		}
	}
	switch {
	// A later version may have other lines, but says so in its first.
	case n != 1:
		return errEntry
	case first != (e.Start != nil):
		return errNoStart
	case e.Start != nil && (e.Start.Version < 1 || e.Start.Version > Version):
		return fmt.Errorf("version %d; this program reads up to %d", e.Start.Version, Version)
	case e.Copy != nil && (!filepath.IsLocal(e.Copy.Dir) || e.Copy.Base != "" && !filepath.IsLocal(e.Copy.Base)):
		return errDir
	case e.Copy != nil && slices.ContainsFunc(e.Copy.Read, func(r Range) bool { return r.Lo > r.Hi }),
		e.Copy != nil && e.Copy.From > e.Copy.To, e.Gap != nil && e.Gap.From > e.Gap.To,
		e.Bytes != nil && e.Bytes.From > e.Bytes.To, e.Counters != nil && e.Counters.From > e.Counters.To,
		e.Disarmed != nil && (e.Disarmed.From > e.Disarmed.Seen || e.Disarmed.To != 0 && e.Disarmed.To < e.Disarmed.Seen):
		return errOrder
	}
	return nil
}
