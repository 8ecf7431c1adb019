// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Package memory says to the system how large pieces of memory that Go allocated are used.
package memory

// Discard does nothing here: the memory stays until it is collected.
func Discard(data []byte) {}

// hasHugePages reports whether [Huge] does anything.
const hasHugePages = false

// Huge does nothing here.
func Huge(data []byte) {}

// Move does nothing here.
func Move(to, from []byte) bool { return false }
