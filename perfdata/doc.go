// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package perfdata reads recordings that Linux perf record made: perf.data
// files of either byte order, what perf wrote to a pipe, and perf.data
// directories. It knows the container and the records, and nothing of what
// they mean for kernel text.
//
// [Open] maps a recording. [Recording.Scan] goes through its records, as they
// stand, without copying or allocating; methods of [Recording] such as
// [Recording.TextPoke] decode those that one wants, into a struct of the
// caller's. Records of types that have no decoder, and of types that this
// package does not know, are handed over like all others. What stands beside
// the records, such as the machine's architecture and the code of BPF programs,
// is read by [Recording.Arch], [Recording.BPFProgs] and so on, and any section
// as it stands by [Recording.Feature]. A [Writer] writes recordings that perf
// and this package read.
//
// Damage is never passed over and never stops what can still be read: a cut
// file gives all its whole records, and then an error that names the offset;
// a record whose content contradicts itself gives an error when it is decoded,
// and the next one follows. No size in a file leads to an allocation larger
// than the bytes that are there, save that compressed data may ask for a window
// of at most 128 MiB.
//
// The format is what tools/perf in the Linux source does, above all header.c,
// session.c and evsel.c in tools/perf/util; it is described, not always up to
// date, in tools/perf/Documentation/perf.data-file-format.txt. The records of
// the kernel are those of enum perf_event_type in
// include/uapi/linux/perf_event.h.
package perfdata
