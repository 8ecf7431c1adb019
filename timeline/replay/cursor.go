// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
)

// A Cursor is what a decoder of a trace reads kernel text with: a [timeline.Cursor] that
// knows the windows of the recording, so that [timeline.Block.NoTrap] of its answers is set.
// Inside a window, [Cursor.Alternatives] returns what a CPU may execute. Each goroutine
// needs a cursor of its own. Any number of cursors may be used at once; they share no lock.
type Cursor struct {
	*timeline.Cursor
	replay      *Replay
	image       *timeline.Image
	machine     elf.Machine
	decoder     *disasm.Disassembler // nil if there is none for the architecture
	trap        []byte               // the trap instruction
	uncertainty uint64               // of the clocks
	return0     uint64               // the address of __static_call_return0, 0 if it is not known

	answers [answerSets]answer // by address, modulo their number
	*answer                    // the one that is being made
	windows []timeline.Window
}

// An answer is what Alternatives returns for an address, during a time.
type answer struct {
	addr         uint64
	same         timeline.Validity // empty if the answer cannot be used again
	alternatives []Alternative
	bytes        []byte // of alternatives
}

const answerSets = 256

// Cursor returns a new cursor of the recording's image and windows. If Options.Windows did
// not ask for windows, the first call reads the recording once more. The first call also
// makes an index of the windows, which takes about 0.2 s and 30 MB for a million pokes.
func (r *Replay) Cursor() *Cursor {
	order := r.Recording.ByteOrder()
	c := &Cursor{
		Cursor: r.Windows().Cursor(r.Image), replay: r, image: r.Image, machine: r.arch.machine,
		trap: patching.TrapCode(r.arch.machine, order), uncertainty: r.Report.ClockUncertainty,
		return0: r.staticCallReturn0(),
	}
	c.decoder, _ = disasm.New(c.machine, order)
	return c
}
