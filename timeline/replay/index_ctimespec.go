// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd || netbsd

package replay

import (
	"syscall"
	"time"
)

// statusChange returns when anything about a file last changed, which only the
// system's clock decides.
func statusChange(st *syscall.Stat_t) time.Time { return time.Unix(st.Ctimespec.Unix()) }
