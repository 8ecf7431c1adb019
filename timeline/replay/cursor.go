// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"

	"github.com/textreplay/textreplay/timeline"
)

// A Cursor is what a decoder of a trace reads kernel text with: a [timeline.Cursor] that
// knows the windows of the recording, so that [timeline.Block.NoTrap] of its answers is set.
// Each goroutine needs a cursor of its own. Any number of cursors may be used at once; they
// share no lock.
type Cursor struct {
	*timeline.Cursor
	im      *timeline.Image
	machine elf.Machine
}

// Cursor returns a new cursor of the recording's image and windows. If Options.Windows did
// not ask for windows, the first call reads the recording once more.
func (r *Replay) Cursor() *Cursor {
	return &Cursor{Cursor: r.Windows().Cursor(r.Image), im: r.Image, machine: r.arch.machine}
}
