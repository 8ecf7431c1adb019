// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "github.com/textreplay/textreplay/internal/mapfile"

// A ChangedError is returned for a file that changed while it was in use, so that
// answers may be wrong.
type ChangedError = mapfile.ChangedError

// Guard calls f and returns its error. Inside of f, on the goroutine that called
// Guard, an access to a part of a recording, a copy of text or an index that was cut
// off after the file was opened ends f, and Guard returns a *[ChangedError]. Without
// Guard it ends the program, with the signal SIGBUS. Functions of this package that
// return an error have a Guard of their own. Those that answer questions have none,
// as it would slow them down.
//
// A Replay whose Guard has ended f this way can only be closed.
func Guard(f func() error) error { return mapfile.Guard(f) }

// Check returns a *[ChangedError] if a file that the image rests on has changed since
// it was opened. Answers that were given until now may then be wrong: what was cut
// off the last page of a file reads as zeros, and a file that was overwritten has
// other bytes. A recording that perf is still writing may grow. Check costs a system
// call for each file. Programs that run for long call it from time to time, and after
// the last question.
func (r *Replay) Check() error {
	if err := r.Recording.Check(); err != nil {
		return err
	}
	if r.indexFile != nil {
		if err := r.indexFile.Check(false); err != nil {
			return err
		}
	}
	if r.Snapshot != nil {
		if err := r.Snapshot.Check(); err != nil {
			return err
		}
	}
	for _, c := range r.copies {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}
