// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"strings"
)

// Dump returns every version of [addr, addr+n), each in a line: validity, standing,
// reason, bytes. It is for tests and for debugging; its form may change.
func (im *Image) Dump(addr, n uint64) string {
	var out strings.Builder
	buf := make([]byte, n)
	for b := range im.Versions(addr, buf, 0, MaxTime) {
		fmt.Fprintf(&out, "%s %v", interval(b.Since, b.Until), b.Standing)
		if b.Reason != ReasonNone {
			fmt.Fprintf(&out, " %v", b.Reason)
		}
		if b.Given == len(buf) {
			fmt.Fprintf(&out, " %x", buf)
		}
		if b.Standing == Conflicting {
			for s := range im.At(b.Since).Spans(addr, n) {
				for _, c := range s.Candidates {
					fmt.Fprintf(&out, " %x", c.Bytes)
				}
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func interval(since, until uint64) string {
	if until == MaxTime {
		return fmt.Sprintf("%d..", since)
	}
	return fmt.Sprintf("%d..%d", since, until)
}
