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
// Every kernel address is named by the image as of the sample's time. If a BPF
// program was unloaded and another one used its address, each keeps its
// samples. Two lifetimes of one address are two Locations and two Functions.
//
// # What is in a profile
//
// Each event with samples has two values: the number of samples, called
// "samples", and the sum of their periods, with the event's name. If there are
// several events, the first value is called NAME_samples. An underscore follows
// such a name if it is that of another value. The unit of cpu-clock and
// task-clock is nanoseconds, that of all others count. A sample that holds
// the values of a group of counters counts for each of its events. Samples of
// equal stacks and labels are one.
//
// Stacks are the recorded call chains. The stack of a sample without one is its
// address. Markers such as PERF_CONTEXT_USER (enum perf_callchain_context of
// include/uapi/linux/perf_event.h) say whose code the addresses that follow lie
// in. The byte before it, in the call, replaces a return address. After the
// call of a function that does not return, the return address belongs to
// another function.
//
// The kernel is the first Mapping. Others are modules, each BPF program,
// trampoline or out-of-line page as long as it was there ("[bpf]",
// "[out-of-line]"), and the files that processes had mapped by the MMAP records
// of the recording, with build ids, each by its own process and time. Addresses
// in files have no names; pprof finds the files by build ID. Addresses of
// virtual machines are not this kernel's; they are in "[guest.kernel]" or
// "[guest.user]".
//
// Branch stacks, and stacks that were recorded as memory (perf record
// --call-graph dwarf), are ignored.
package pprofexport
