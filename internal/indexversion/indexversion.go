// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package indexversion has the version of the index format, for those that must not wait until
// timeline/replay is initialized. Programs use replay.IndexVersion.
package indexversion

// Number changes with the meaning of anything in an index, and with every answer that the same recording
// gives differently.
const Number = 113
