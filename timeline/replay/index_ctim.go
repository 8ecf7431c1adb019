// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build dragonfly || linux || openbsd || solaris

package replay

import (
	"syscall"
	"time"
)

// statusChange returns when anything about a file last changed, which only the
// system's clock decides.
func statusChange(st *syscall.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }
