// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import "runtime/debug"

// background runs f in another goroutine. The returned function waits for f, and returns its
// result. If f panics, for example because a mapped file was cut short, that function panics
// with the same value.
func background[T any](f func() T) (wait func() T) {
	var v T
	var failed any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { failed = recover() }()
		v = f()
	}()
	return func() T {
		<-done
		if failed != nil {
			panic(failed)
		}
		return v
	}
}

// settle waits until f of [background] has ended, and ignores a panic.
func settle[T any](wait func() T) {
	defer func() { recover() }()
	wait()
}
