// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cputime

import "time"

var began = time.Now()

// used returns the time since the process began: it is at least that of one CPU that has nothing else to do.
func used() time.Duration { return time.Since(began) }
