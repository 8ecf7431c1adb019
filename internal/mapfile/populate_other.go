// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mapfile

// Populate does nothing here: pages are mapped as they are touched.
func Populate([]byte) {}
