// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tables

// adviseHuge does nothing.
func adviseHuge[T any]([]T) {}
