// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package perfetto writes the changes of kernel text in a recording as a trace for
// Perfetto (https://ui.perfetto.dev): when which mechanism changed text, the states of
// the sites that changed most often, the lifetimes of BPF programs, trampolines and
// modules, and counters of changes and of lost records.
//
//	stats, err := perfetto.Write(w, r, perfetto.Options{})
//
// The trace is a sequence of TracePacket messages (protos/perfetto/trace/trace.proto).
// It uses track descriptors, slices, counters and debug annotations, which every version
// of Perfetto since 2020 reads. Its size is bounded, whatever the recording has; [Stats]
// says what was left out.
//
// Times are those of the recording's clock, in nanoseconds, whatever clock that is. If
// the clock converts to wall-clock time, the trace has one conversion.
package perfetto
