// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package checks has tests of the source itself: which package imports which,
// whether all that others can use has a comment and an example, and how the prose reads.
//
//	go test ./internal/checks
//	go test ./internal/checks -run TestProse -v -lines    # with each line that counts
package checks
