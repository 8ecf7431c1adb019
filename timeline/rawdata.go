// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"math/bits"

	"github.com/textreplay/textreplay/perfdata"
)

// rawOf returns the raw data of a tracepoint's sample (PERF_SAMPLE_RAW), which
// aliases the record. The fields before it are passed over in the order of
// perf_output_sample in kernel/events/core.c.
func rawOf(rec *perfdata.Record, attr *perfdata.Attr, order binary.ByteOrder) ([]byte, bool) {
	const single = perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime |
		perfdata.SampleAddr | perfdata.SampleEventID | perfdata.SampleStreamID | perfdata.SampleCPU | perfdata.SamplePeriod
	if attr.SampleType&perfdata.SampleRaw == 0 {
		return nil, false
	}
	body := rec.Body()
	at := uint64(8 * bits.OnesCount64(uint64(attr.SampleType&single)))
	word := func() (uint64, bool) {
		if at+8 > uint64(len(body)) {
			return 0, false
		}
		w := order.Uint64(body[at:])
		at += 8
		return w, true
	}
	if attr.SampleType&perfdata.SampleRead != 0 {
		f := attr.ReadFormat
		each := uint64(8)
		for _, bit := range []perfdata.ReadFormat{perfdata.ReadFormatID, perfdata.ReadFormatLost} {
			if f&bit != 0 {
				each += 8
			}
		}
		n := uint64(1)
		if f&perfdata.ReadFormatGroup != 0 {
			var ok bool
			if n, ok = word(); !ok || n > uint64(len(body)) {
				return nil, false
			}
		}
		for _, bit := range []perfdata.ReadFormat{perfdata.ReadFormatTotalTimeEnabled, perfdata.ReadFormatTotalTimeRunning} {
			if f&bit != 0 {
				at += 8
			}
		}
		at += n * each
	}
	if attr.SampleType&perfdata.SampleCallchain != 0 {
		n, ok := word()
		if !ok || n > uint64(len(body)) {
			return nil, false
		}
		at += 8 * n
	}
	if at+4 > uint64(len(body)) {
		return nil, false
	}
	size := uint64(order.Uint32(body[at:]))
	if at+4+size > uint64(len(body)) {
		return nil, false
	}
	return body[at+4:][:size], true
}
