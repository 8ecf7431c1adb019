// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package pprofexport makes a profile that pprof reads out of a recording's
// samples: a profile.proto, as
// https://github.com/google/pprof/blob/main/proto/profile.proto describes it.
//
//	r, err := replay.Load("perf.data", replay.Options{})
//	...
//	stats, err := pprofexport.Write(w, r, pprofexport.Options{Labels: pprofexport.AllLabels})
//
// Every address of the kernel is named as of the sample's time, by the
// image: where a BPF program was unloaded and another one took its place, each
// keeps its samples. Two lives of one address are two Locations and two Functions.
//
// # What is in a profile
//
// Each event that has samples gives two values: how many samples there are,
// "samples", and what their periods add up to, by the event's name; of several
// events, the first is NAME_samples. The unit of cpu-clock and task-clock is
// nanoseconds, that of all others count. A sample that holds the values of a
// group of counters counts for each of its events. Samples of equal stacks and
// labels are one.
//
// Stacks are the recorded call chains; that of a sample without one is its own
// address. Markers such as PERF_CONTEXT_USER (enum perf_callchain_context of
// include/uapi/linux/perf_event.h) say whose code the addresses that follow lie
// in. An address that a call returns to is given as the one before it, in
// the call: what follows the call of a function that does not return belongs to
// another function.
//
// The kernel is the first Mapping. Others are modules, each BPF program,
// trampoline or out-of-line page as long as it was there ("[bpf]", "[out-of-line]"),
// and the files that processes had mapped by the MMAP records of the recording,
// with build ids, each by its own process and time. Addresses in files are not
// named: that is left to pprof, which finds the files by build id. Addresses of
// virtual machines, which are none of this kernel's, lie in "[guest.kernel]" or
// "[guest.user]".
//
// Values that a branch stack holds, and stacks that were recorded as memory
// (perf record --call-graph dwarf), are not looked at.
package pprofexport
