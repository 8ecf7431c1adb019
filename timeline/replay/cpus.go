// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "fmt"

// A CPUsError says that [Options.CPUs] contradicts the recording. errors.As finds a *CPUsError in
// the error of [Load], [New] or [Follower.Image].
type CPUsError struct {
	Given    int
	Recorded int  // the number of CPUs in the recording
	Least    bool // Recorded is how many CPUs have events; the machine may have more
}

func (e *CPUsError) Error() string {
	if e.Least {
		return fmt.Sprintf("the recording has events on %d CPUs, not on %d", e.Recorded, e.Given)
	}
	return fmt.Sprintf("the recording is of a machine with %d CPUs, not %d", e.Recorded, e.Given)
}

// checkCPUs compares a given number of CPUs, 0 if none, with what the recording has.
func (s *scan) checkCPUs(given int) error {
	if given == 0 {
		return nil
	}
	if n := s.report.CPUsAvailable; n != given {
		return &CPUsError{Given: given, Recorded: n}
	}
	cpus := make(map[int64]bool)
	for _, ch := range s.channels.all {
		if ch.event != nil && ch.machine == s.listens && ch.system && ch.cpu >= 0 {
			cpus[ch.cpu] = true
		}
	}
	if len(cpus) > given {
		return &CPUsError{Given: given, Recorded: len(cpus), Least: true}
	}
	return nil
}
