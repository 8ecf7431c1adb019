// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"strconv"
	"strings"
)

// Since reports whether a kernel of this release can have what came with
// Linux major.minor. A release that does not parse may have everything.
func Since(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	second := rest
	if i := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' }); i >= 0 {
		second = rest[:i]
	}
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil {
		return true
	}
	return a > major || a == major && b >= minor
}
