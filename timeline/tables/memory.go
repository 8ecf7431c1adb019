// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

// room returns an empty slice with room for n elements, nearly all of which will be used.
func room[T any](n int) []T {
	s := make([]T, 0, n)
	adviseHuge(s)
	return s
}
