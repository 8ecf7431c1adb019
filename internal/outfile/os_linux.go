// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// toDefault lets the system do what it does with a signal by default. signal.Reset lets the Go
// runtime do what it does, which for SIGQUIT is a trace of all goroutines and exit code 2. A core
// file, which would have what the inputs have, is not written.
func toDefault(s syscall.Signal) {
	const setSize = 8  // sizeof(sigset_t) in the kernel
	var zero [8]uint64 // struct sigaction with SIG_DFL, which has up to 32 bytes
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&zero)), 0, setSize, 0, 0)
}
