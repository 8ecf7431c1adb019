// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "os"

// memoryOf returns 0: systems count it in other units.
func memoryOf(*os.ProcessState) int64 { return 0 }
