// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import "github.com/textreplay/textreplay/perfdata"

// scanStep is the number of bytes of records between two calls of progress.
const scanStep = 16 << 20

// scan calls visit for each record, which is valid during that call only. progress may be
// nil. The error is that of the Scanner.
func scan(r *perfdata.Recording, progress func(done, total int64), visit func(*perfdata.Record), opts ...perfdata.ScanOption) error {
	total, done, next := r.Size(), int64(0), int64(scanStep)
	sc := r.Scan(append(opts, perfdata.Unmapped())...)
	for sc.Next() {
		rec := sc.Record()
		visit(rec)
		if done += int64(len(rec.Raw)); done >= next && progress != nil {
			progress(min(done, total), total)
			next += scanStep
		}
	}
	if progress != nil {
		progress(total, total)
	}
	return sc.Err()
}
