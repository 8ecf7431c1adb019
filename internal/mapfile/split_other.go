// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package mapfile

func split([]byte) {}
