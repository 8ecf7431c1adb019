// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

// For tests that use package timeline/replay, which imports this one.
const MaxInst = maxInst

var (
	NewX86     = newX86
	CompareX86 = compareX86
)
