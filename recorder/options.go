// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// ErrOptions is wrapped by the errors of [Start] about [Options] that are out of bounds.
var ErrOptions = errors.New("invalid options")

// ErrLocked is wrapped by the errors of [Start] about ring buffers that are larger than the user may
// lock in memory.
var ErrLocked = errors.New("more than may be locked in memory")

// check returns an error if an option is out of bounds.
func (o *Options) check() error {
	switch {
	case o.Pages < 0 || o.Pages&(o.Pages-1) != 0:
		return fmt.Errorf("%w: ring buffers of %d pages: must be a power of two", ErrOptions, o.Pages)
	case o.Pages > math.MaxInt/os.Getpagesize()-1: // a page of the kernel's is before them
		return fmt.Errorf("%w: ring buffers of %d pages: no memory is that large", ErrOptions, o.Pages)
	case o.SnapshotEvery != 0 && o.SnapshotEvery < LeastInterval:
		return fmt.Errorf("%w: a copy of text each %v: must be at least %v apart", ErrOptions, o.SnapshotEvery, LeastInterval)
	case o.MaxSize != 0 && o.MaxSize < LeastSize:
		return fmt.Errorf("%w: pieces of %d bytes: must be at least %d", ErrOptions, o.MaxSize, LeastSize)
	case o.MaxPieces < 0:
		return fmt.Errorf("%w: at most %d pieces: must not be negative", ErrOptions, o.MaxPieces)
	}
	return nil
}

// Options say how to record. Only Dir must be set: the zero values of all others are right for most uses.
type Options struct {
	// Dir is the directory to make, which must not exist. With MaxSize, the pieces are made in it, and
	// it may exist.
	Dir string
	// Pages is the size of each CPU's ring buffer in pages, a power of two; 0 is
	// DefaultPages, and at least 4 MB if probes record the changes of text. A loss makes a gap
	// of a few milliseconds, and a new copy of text.
	Pages int
	// SnapshotEvery is how often kernel text is copied again; 0 is never. Only pages
	// that changed since the first copy are stored. The least is LeastInterval.
	SnapshotEvery time.Duration
	// MaxSize is the size in bytes at which a new piece is begun: of the records, the copies of
	// text and the larger lines of the journal. 0 is never. The least is LeastSize. Each piece has
	// a copy of kernel text, and can be read alone.
	MaxSize int64
	// MaxPieces is how many pieces are kept: the oldest is removed. 0 is all. A directory that
	// no recorder made stays, whatever its name.
	MaxPieces int
	// Probes returns the kprobe events that record the changes of text of a kernel that emits
	// no TEXT_POKE records, in the order in which they must be opened. It is called on other
	// architectures than x86, before any probe is defined, so that it may read the kernel's
	// code. nil makes no probes: then all text is unconfirmed there.
	Probes func() ([]Probe, error)
	// Rearm arms kprobes again after somebody disarmed all of them, if these probes record the
	// changes: those of other programs, too.
	Rearm bool
	// Program names the recorder in the recording, as "textreplay v1.2".
	Program string
	// Args is the command line that the recording says it was made with.
	Args []string
	// Warn is called once for each thing that cannot be recorded or goes wrong meanwhile, by
	// the goroutine of Start, or of the method that notices it. nil ignores it.
	Warn func(error)
}

// A Probe is a kprobe event.
type Probe struct {
	Definition string // a line for kprobe_events of tracefs: p:GROUP/EVENT FUNCTION FIELDS
	Each       bool   // each change of text hits it
}

// Limits and defaults of [Options].
const (
	DefaultPages  = 128
	LeastInterval = time.Second
	LeastSize     = 1 << 20
)

// probeBytes is the size of a ring buffer in bytes if probes record the changes of text. A
// change has two samples of some 240 bytes, and ftrace makes tens of thousands at once.
const probeBytes = 4 << 20

// A Limit is an error for [Options.Warn]: it says what cannot be recorded.
type Limit struct {
	What   string // what will be unknown
	Remedy string // what to do about it, or why nothing helps
	Err    error
}

func (l *Limit) Error() string { return l.What + ": " + l.Err.Error() + "; " + l.Remedy }
func (l *Limit) Unwrap() error { return l.Err }

// Stats is what a [Recorder] has done so far.
type Stats struct {
	Records uint64 // that the kernel wrote
	Lost    uint64 // that the kernel had no room for
	Bytes   int64  // of data, in all pieces
	Copies  int    // of kernel text
	// Programs is how many BPF programs were loaded, or were there at the beginning;
	// Fetched is of how many the code was read.
	Programs, Fetched int
	// Images is how many BPF trampolines came into use, or were there at the beginning of a
	// piece; ImagesRead is of how many the code was read.
	Images, ImagesRead int
	Gaps               int // times in which a CPU was not recorded
	Pieces             int
}

// PieceName returns the name of the directory of a recording's n-th piece, from 1 on. Pieces
// sort by name.
func PieceName(n int) string { return fmt.Sprintf("%06d", n) }
