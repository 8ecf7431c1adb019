// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "os"

// peakMemory returns 0: it is not known here.
func peakMemory(*os.ProcessState) int64 { return 0 }
