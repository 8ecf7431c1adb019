// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mapfile

import "os"

// readCached reads nothing here.
func readCached(f *os.File, b []byte, off int64) int { return 0 }
