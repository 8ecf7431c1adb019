// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// Interval is a closed interval of time. A nil *Interval is none; From 0 means
// that nothing bounds it.
type Interval struct{ From, To uint64 }

// Range is a half-open range of addresses.
type Range struct{ Lo, Hi uint64 }
