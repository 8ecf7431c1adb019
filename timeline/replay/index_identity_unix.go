// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !aix

package replay

import (
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// identityOf returns what stat says about a file. exact is set if every change of the
// content changes id: programs cannot set the inode and the change time.
func identityOf(info fs.FileInfo) (id string, exact bool) {
	id = fmt.Sprintf("%d bytes %d", info.Size(), info.ModTime().UnixNano())
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, false
	}
	return fmt.Sprintf("%s inode %d %d", id, st.Ino, statusChange(st).UnixNano()), true
}

// changedAt returns when a file last changed.
func changedAt(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return statusChange(st)
	}
	return info.ModTime()
}
