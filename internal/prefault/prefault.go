// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package prefault maps memory that a program is about to use in two calls, instead of by hundreds of page
// faults. It imports so little that it can be used before most packages are initialized.
package prefault
