// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import "github.com/textreplay/textreplay/internal/mapfile"

// A ChangedError is returned for a file that changed while it was in use. What
// was read from it may be wrong.
type ChangedError = mapfile.ChangedError

// Guard calls f and returns its error. Inside of f, on the goroutine that
// called Guard, an access to a part of a mapped file that was cut off after the
// file was opened ends f, and Guard returns a *[ChangedError]. Without Guard it
// ends the program, with the signal SIGBUS. [Open] and [OpenCore] use a Guard
// themselves; reading Segments does not, because that would slow it down.
func Guard(f func() error) error { return mapfile.Guard(f) }
