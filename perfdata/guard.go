// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"io/fs"

	"github.com/textreplay/textreplay/internal/mapfile"
)

// A ChangedError is returned for a file that changed while it was in use. What
// was read from it may be wrong.
type ChangedError = mapfile.ChangedError

// Guard calls f and returns its error. Inside of f, on the goroutine that
// called Guard, an access to a part of a mapped file that was cut off after the
// file was opened ends f, and Guard returns a *[ChangedError]. Without Guard it
// ends the program, with the signal SIGBUS. [Open] uses a Guard itself. The
// methods of a Recording and of a [Scanner] do not, because that would slow
// them down.
//
//	err := perfdata.Guard(func() error {
//		sc := rec.Scan()
//		for sc.Next() {
//			...
//		}
//		return sc.Err()
//	})
//	if err == nil {
//		err = rec.Check()
//	}
//
// A recording whose Guard has ended f this way can only be closed.
func Guard(f func() error) error { return mapfile.Guard(f) }

// FileInfo returns what stat said of a data file when it was opened, nil for a recording
// in memory. Files are counted as Record.File counts them.
func (r *Recording) FileInfo(file int) fs.FileInfo {
	if r.files[file].file == nil {
		return nil
	}
	return r.files[file].file.Info()
}

// EarlyFiles returns what stat said of the files [EarlyFeatures], [EarlyPrograms] and
// [EarlyTypes] when they were opened. A recording whose recorder has ended has none: they
// are not read.
func (r *Recording) EarlyFiles() []fs.FileInfo {
	var infos []fs.FileInfo
	for _, f := range r.early {
		infos = append(infos, f.Info())
	}
	return infos
}

// Check returns a *[ChangedError] if a file of the recording has become shorter since it was
// opened. If the recording is whole ([Recording.CleanEnd]), it returns one after any change.
// perf may still be writing to other recordings. After an error, what was read until now may
// be wrong. Check makes one system call for each file.
func (r *Recording) Check() error {
	for _, f := range r.files {
		if f.file == nil {
			continue
		}
		if err := f.file.Check(r.clean != nil); err != nil {
			return err
		}
	}
	for _, f := range r.early {
		if err := f.Check(true); err != nil {
			return err
		}
	}
	return nil
}
