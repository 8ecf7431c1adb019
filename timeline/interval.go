// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// Interval is the half-open interval of time [From, To), in nanoseconds of the
// recording's clock. From 0 and To [MaxTime] mean that nothing bounds it.
type Interval struct{ From, To uint64 }

// Range is the half-open range of addresses [Lo, Hi).
type Range struct{ Lo, Hi uint64 }

// Later returns the time that is by nanoseconds after t, at most [MaxTime].
func Later(t, by uint64) uint64 { return t + min(MaxTime-t, by) }
