// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// A package with functions that have no body (go:linkname) needs an assembly file.
