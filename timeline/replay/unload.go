// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "github.com/textreplay/textreplay/perfdata"

// unloadAbove is the size in bytes above which recordings do not stay in memory after they
// were read. Below it, a second read costs more than the memory.
const unloadAbove = 128 << 20

// unloading returns a progress function that releases the memory of a large recording
// and calls progress.
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
