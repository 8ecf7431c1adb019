// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

// A fault is why no mechanism explains a change; 0 if one does.
type fault uint8

const (
	_ fault = iota
	noShape
	codeOutside
	probeOutside
	slotChanged
	programChanged
	notInTable
	ambiguous
)
