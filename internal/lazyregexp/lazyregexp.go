// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package lazyregexp compiles regular expressions when they are first used. A program that has
// many of them starts faster, since most of its commands use none.
//
// The syntax is that of [regexp/syntax].
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled expression. It panics when it is first
// called if the expression is not valid, as [regexp.MustCompile] does. It may be called by
// several goroutines.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
