// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package patching says what a change of instruction bytes means on each
// architecture: which kind of writer made it, which trap can be in its place
// during the change, what the trap's handler does, which bytes are data, and
// which places a kernel changes without a record.
//
// All functions depend on bytes and addresses alone. The kernel's own code is
// in arch/x86/kernel/alternative.c, arch/arm64/kernel/patching.c,
// arch/powerpc/lib/code-patching.c and arch/s390/kernel/text-patch.c.
package patching
