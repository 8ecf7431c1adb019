// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package perfdata reads recordings that Linux perf record made: perf.data
// files of either byte order, what perf wrote to a pipe, and perf.data
// directories. It knows the container and the records, and nothing of what
// they mean for kernel text.
//
// [Open] maps a recording; a [Reader] takes it from a stream. Then
//
//   - [Recording.Scan] goes through the records as they are, without copying
//     or allocating, [Only] those of some types; [Recording.Ordered] goes
//     through them in the order of time;
//   - methods of [Recording] such as [Recording.TextPoke] decode a record into
//     a struct of the caller's. Each of the kernel's and perf's types has one;
//     [Recording.Decode] picks it. Types that this package does not know are
//     handed over raw like all others;
//   - [Recording.SampleID] says when, where and for which event a record was
//     written, whatever its type;
//   - [Recording.Sample] decodes the fields of a sample that are at fixed
//     places; methods of [Sample] find its other parts when they are asked for;
//   - what is not a record is read by a method for each feature:
//     [Recording.Arch], [Recording.PMUMappings], [Recording.BPFProgs] and so on,
//     and any section, undecoded, by [Recording.Feature]. A [BPFSource] names
//     the functions and source lines of BPF programs;
//   - [Recording.AuxtraceQueues] gives hardware trace by ring buffer, and
//     [AuxtraceInfo] and [TimeConv] what a decoder needs to know about it;
//   - [Recording.Anomalies] counts unusual records: those whose size is too large,
//     that are duplicates, or that perf synthesized.
//
// A [Writer] writes recordings that perf and this package read.
//
// # Memory
//
// Decoded structs hold slices of Record.Raw, which is the mapped file itself:
// they are read-only, and valid until [Recording.Close]. Those out of
// compressed records and out of streams are valid until the next record only.
// Decoders allocate nothing, except to grow the lists in a struct. A struct
// that is used again keeps its lists.
//
// # Damage
//
// Damage is never passed over and never stops what can still be read: a cut
// file gives all its whole records, and then an error that names the offset; a
// record whose content contradicts itself gives an error when it is decoded,
// and the next one follows. No size in a file leads to an allocation larger
// than the bytes that are there, save that compressed data may ask for a window
// of at most 128 MiB, and that a CPU_MAP of 16 bytes can describe 65,536 CPUs.
//
// # The format
//
// The format is what tools/perf in the Linux source does, above all header.c,
// session.c and evsel.c in tools/perf/util; it is described, not always up to
// date, in tools/perf/Documentation/perf.data-file-format.txt. The records of
// the kernel are those of enum perf_event_type in
// include/uapi/linux/perf_event.h. docs/format.md of this module says how it is
// read here, with the source of each rule.
package perfdata
