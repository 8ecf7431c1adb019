// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"io/fs"

	"github.com/textreplay/textreplay/internal/mapfile"
)

// A ChangedError is returned if a file changed while it was in use. Answers may
// then be wrong.
type ChangedError = mapfile.ChangedError

// Guard calls f and returns its error. It protects f from files that were cut short
// after they were opened: the recording, a copy of text, an index. If f accesses the missing
// part on the goroutine that called Guard, f ends and Guard returns a *[ChangedError].
// Without Guard, SIGBUS ends the program.
//
// Functions of this package that return an error use Guard themselves. Functions that
// answer questions do not, because it would slow them down.
//
// After Guard has ended f this way, the Replay can only be closed.
func Guard(f func() error) error { return mapfile.Guard(f) }

// Check returns a *[ChangedError] if a file that the image uses has changed since it
// was opened. Answers given so far may then be wrong: the missing part of a file's last
// page reads as zeros, and an overwritten file has other bytes. A recording that
// perf is still writing may grow. Check costs one system call per file. A program that
// runs for long calls Check from time to time, and after its last question.
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

// CheckSame returns a *[ChangedError] if the image uses another file, or other content of it, than
// was read elsewhere: files has what Stat said of each file of the recording that was read, by name.
func (r *Replay) CheckSame(files map[string]fs.FileInfo) error {
	for _, f := range r.stampedFiles() {
		if info := files[f.path]; info != nil && f.info != nil && f.same(info, nil) != nil {
			return &ChangedError{Path: f.path}
		}
	}
	return nil
}
