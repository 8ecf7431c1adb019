// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "github.com/textreplay/textreplay/perfdata"

// unloadAbove is the size of recordings that are not left in memory as they are
// read: below it, reading them once more costs more than the memory is worth.
const unloadAbove = 128 << 20

// unloading returns a function to be told of progress, which lets go of the
// recording's memory on the way if the recording is large, and tells progress.
func unloading(rec *perfdata.Recording, progress func(done, total int64)) func(done, total int64) {
	if rec.Size() <= unloadAbove {
		return progress
	}
	return func(done, total int64) {
		rec.Unload()
		if progress != nil {
			progress(done, total)
		}
	}
}
