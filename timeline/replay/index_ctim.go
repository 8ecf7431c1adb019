// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build dragonfly || linux || openbsd || solaris

package replay

import (
	"syscall"
	"time"
)

// statusChange returns when a file's content or status last changed. Programs cannot set
// this time.
func statusChange(st *syscall.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }
