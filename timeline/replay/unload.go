// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

// unloadAbove is the size in bytes above which recordings do not stay in memory after they
// were read. Below it, a second read costs more than the memory.
const unloadAbove = 128 << 20

// unloadStep is after how many bytes that is done again.
const unloadStep = 1 << 24
