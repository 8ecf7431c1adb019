// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "github.com/textreplay/textreplay/perfdata"

// unloadAbove is the size of recordings that are not left in memory as they are
// read: below it, reading them once more costs more than the memory is worth.
const unloadAbove = 128 << 20

// unloading returns a function to call with progress. It releases the memory of a
// large recording on the way, and calls progress.
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
