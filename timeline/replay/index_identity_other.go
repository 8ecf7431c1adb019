// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix || aix

package replay

import (
	"fmt"
	"io/fs"
	"time"
)

// identityOf returns what the system says about a file. exact is set if every change of
// the content changes id.
func identityOf(info fs.FileInfo) (id string, exact bool) {
	return fmt.Sprintf("%d bytes %d", info.Size(), info.ModTime().UnixNano()), false
}

// changedAt returns when a file last changed.
func changedAt(info fs.FileInfo) time.Time { return info.ModTime() }
