// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package spread gives numbers places in a hash table.
package spread

// Key returns a hash of a key, of which the upper half is for use. factor is random and odd, so that no recording can be
// made whose keys collide. It multiplies twice: alone, one of some hundred factors gives keys that are the same step
// apart, as the sites of a tracer often are, places close to one another.
func Key(key, factor uint64) uint64 {
	h := key * factor
	return (h ^ h>>32) * golden
}

// golden is 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15
