// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import "encoding/binary"

// programs cuts a BPF_PROG_INFO section down to the programs whose ids are
// given: an info without its load looks like a loss. If the section does not
// have the format of write_bpf_prog_info() in tools/perf/util/header.c, it is
// returned as it is. Otherwise the result is a new slice.
func programs(section []byte, order binary.ByteOrder, loaded map[uint32]bool) []byte {
	const (
		head = 4 + 4 + 8 // length of struct bpf_prog_info, of its data, and which arrays there are
		id   = 4         // in struct bpf_prog_info, behind its type
	)
	if len(section) < 4 {
		return section
	}
	n := uint32(0)
	out := make([]byte, 4, len(section))
	rest := section[4:]
	for range order.Uint32(section) {
		if len(rest) < head {
			return section
		}
		info := uint64(order.Uint32(rest))
		size := head + info + uint64(order.Uint32(rest[4:]))
		if info < id+4 || size > uint64(len(rest)) {
			return section
		}
		if loaded[order.Uint32(rest[head+id:])] {
			out = append(out, rest[:size]...)
			n++
		}
		rest = rest[size:]
	}
	order.PutUint32(out, n)
	return out
}
