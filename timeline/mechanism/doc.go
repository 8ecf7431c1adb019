// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package mechanism says by which of the kernel's mechanisms its text was changed:
// static keys, static calls, ftrace, kprobes, BPF.
//
//	c := mechanism.NewClassifier(r, nil)
//	for change := range r.Changes() {
//		m := c.Of(change)
//		...
//	}
//
// No record names the mechanism. A [Classifier] derives it from the bytes before and
// after, from what is at the changed address and where the instructions lead, and from
// the kernel's own tables, if a vmlinux file or a copy of memory has them; see
// [ReadTables]. If these do not show the mechanism, it is [Other].
//
// docs/mechanisms.md of this project has the rules, with the kernel's sources.
package mechanism
