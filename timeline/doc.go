// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline answers which bytes of kernel text stood at an address at a
// time.
//
// Linux changes its text while it runs: static keys, static calls, ftrace,
// kprobes, BPF. It writes the changes down as side-band records of perf:
// PERF_RECORD_TEXT_POKE, PERF_RECORD_KSYMBOL, PERF_RECORD_BPF_EVENT
// (include/uapi/linux/perf_event.h). A [Builder] takes these facts, and the copy of
// kernel text that `perf record --kcore` makes, and builds an [Image] of them. A
// [View] is an image at one time. [Load] does all of it for a recording.
//
//	r, err := timeline.Load("perf.data", timeline.Options{})
//	...
//	var insn [16]byte
//	b := r.Image.At(t).Read(addr, insn[:])
//	if b.Standing == timeline.Known {
//		// insn stands at addr from b.Since until b.Until
//	}
//
// # Truth
//
// The worst that this package could do is to answer with wrong bytes. So each
// answer has a [Standing], and only [Known] is a promise: a fact gives the
// bytes, and every change between that fact and the asked time would have been
// recorded. Everything else names its [Reason]. Each answer also has its
// validity, the time during which the same bytes have the same standing, so
// that a decoder can keep what it decoded until then. The rules are written
// down in docs/truth.md of this project.
//
// # Guests, and recordings that go on
//
// A recording may tell of virtual machines too (perf inject --guest-data). Each
// has a kernel of its own, and an image of its own: Options.Guest. [Follow] makes
// images while perf is still recording.
//
// # Times and addresses
//
// Times are nanoseconds of the recording's clock, addresses those of the
// running kernel. An interval [Since, Until) is half-open; 0 and [MaxTime] stand
// where nothing bounds it.
//
// # Names
//
// Names have lifetimes as bytes have: [View.Symbol] names an address as of a
// time, [View.Lookup] finds a name, [View.Aliases] tells what else a function is
// called; [Replay.TableSymbols] lists them. A module's are those of the copy of the
// kernel that has it. [Replay.Serves] tells what slots and trampolines are there for, and
// [Replay.SourceLine] the source of a BPF program. [Replay.Changes] is the audit
// trail: who changed what, and when.
//
// # Architectures
//
// Only x86 kernels record what they patch. Of the others an image has the copy,
// as unconfirmed, and BPF programs, which do not depend on pokes. What pokes of
// such a kernel would mean is known all the same: [KindOfPoke], [TrapOf] and
// [Emulate] are each architecture's own, [Replay.Sequences] pairs powerpc's
// changes in two steps, and [Replay.OpsLiteral] tells data in arm64's text.
package timeline
