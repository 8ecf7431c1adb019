// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package outfile

import "syscall"

// toDefault does nothing: SIGQUIT prints a trace of all goroutines here.
func toDefault(syscall.Signal) {}
