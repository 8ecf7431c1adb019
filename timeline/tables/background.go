// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import "runtime/debug"

// background runs f in another goroutine. The function that it returns waits for f, and returns
// what f has. If f panics, for example since a mapped file was cut off meanwhile, that function
// panics with the same value, as f would have done where it is called.
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

// settle waits for what runs in the background, whatever becomes of it.
func settle[T any](wait func() T) {
	defer func() { recover() }()
	wait()
}
