// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package replay makes an image of kernel text from a recording of perf.
//
// Call [Load] first. It reads a perf.data file or directory and the kcore_dir in it,
// and returns a [Replay] with the [timeline.Image].
//
//	r, err := replay.Load("perf.data", replay.Options{})
//	...
//	defer r.Close()
//	var insn [16]byte
//	b := r.Image.At(t).Read(addr, insn[:])
//	if b.Standing == timeline.Known {
//		// insn is at addr from b.Since until b.Until
//	}
//
// A decoder of a trace reads with a [Cursor], which also says when a CPU may meet a trap
// in place of the bytes, and what it may execute then. Its example is a decode loop with a
// cache.
//
// [Follow] makes images while perf is still recording. [Options.Guest] selects
// the kernel of a virtual machine, if `perf inject --guest-data` merged its records
// into the recording.
//
// A Replay also answers other questions:
//
//   - [Replay.Report] says how far the recording can be trusted.
//   - [Replay.ParseTime] and [Replay.ParseAddr] read times and addresses as people
//     write them.
//   - [Replay.Changes] is the audit trail: who changed what, and when.
//   - [Replay.Windows] returns the times during which a CPU may meet a trap.
//   - [Replay.Findings] lists records that contradict one another.
//   - [Replay.TableSymbols] lists the names of the kernel and its modules.
//   - [Replay.TrampolineAt] says what a slot or trampoline is for.
//   - [Replay.SourceLine] returns the source of a BPF program's code.
//
// Times are in nanoseconds of the recording's clock ([Clock]). Addresses are kernel
// addresses.
//
// docs/truth.md of this project has the rules, and names the function that decides each.
package replay
