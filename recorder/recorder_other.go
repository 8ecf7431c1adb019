// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package recorder

import (
	"context"
	"errors"
	"fmt"
)

// A Recorder records the running kernel.
type Recorder struct{}

// Start returns an error that wraps [errors.ErrUnsupported].
func Start(Options) (*Recorder, error) {
	return nil, fmt.Errorf("recording needs Linux: %w", errors.ErrUnsupported)
}

// Run does nothing.
func (r *Recorder) Run(context.Context) error { return nil }

// Dir returns nothing.
func (r *Recorder) Dir() string { return "" }

// Stats returns nothing.
func (r *Recorder) Stats() Stats { return Stats{} }

// Close does nothing.
func (r *Recorder) Close() error { return nil }

// Discard does nothing.
func (r *Recorder) Discard() error { return nil }
