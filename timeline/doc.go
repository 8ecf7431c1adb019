// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline answers which bytes of kernel text are at an address at a
// time.
//
// Linux changes its text while it runs: static keys, static calls, ftrace,
// kprobes, BPF. It records the changes as side-band records of perf:
// PERF_RECORD_TEXT_POKE, PERF_RECORD_KSYMBOL, PERF_RECORD_BPF_EVENT
// (include/uapi/linux/perf_event.h). A [Builder] takes such facts, and copies of
// kernel text, and builds an [Image]. A [View] is an image at one time.
//
//	im, err := b.Build()
//	...
//	var insn [16]byte
//	block := im.At(t).Read(addr, insn[:])
//	if block.Standing == timeline.Known {
//		// insn is at addr from block.Since until block.Until
//	}
//
// The package knows no file format and imports nothing of this project. Package
// timeline/replay reads a recording and makes an image of it.
//
// # Words
//
// A fact is something that was recorded: a [Poke], a [Snapshot], a
// [SymbolEvent], a [Program], a [Module], an [ExplicitWindow].
//
// A fragment is a range of addresses over which every fact is uniform, so that
// all its bytes share one history.
//
// A lifetime is the time during which one piece of code, such as a BPF program,
// is at its addresses; see [Lifetime].
//
// A version is an interval of time in which a fragment has the same bytes, the
// same standing and the same reason.
//
// A gap is an interval of time in which a change may have gone unrecorded.
//
// A window is the time around a poke in which a CPU may meet a trap in place of
// the old or the new bytes; see [Window].
//
// A standing says how far an answer can be trusted; see [Standing].
//
// One fragment through time, with a snapshot S, two pokes P and Q, and one gap:
//
//	facts             S            P  old 0f1f.. new e9..         Q  old e9.. new 0f1f..
//	                  |            |                              |
//	time   ---+-------+------------+-------------+====gap====+----+-----------+--->
//	        first                                                           horizon
//	bytes     [ 0f 1f ..  from S   | e9 ..  from P           | e9 ..  | 0f 1f ..  ]
//	standing  [ known              | known       | unconfirmed    | known         ]
//	                                                         ^
//	                                      Q's old bytes reach back to here
//
// # Truth
//
// The worst that this package could do is to answer with wrong bytes. So each
// answer has a [Standing], and only [Known] is a promise: a fact gives the
// bytes, and every change between that fact and the asked time would have been
// recorded. Everything else names its [Reason]. Each answer also has its
// validity, the time during which the same bytes have the same standing, so
// that a decoder can keep what it decoded until then. docs/truth.md of this
// project has the rules.
//
// # Times and addresses
//
// Times are nanoseconds of the recording's clock, addresses those of the
// running kernel. An interval [Since, Until) is half-open; 0 and [MaxTime] mean
// that nothing bounds it.
//
// # Names
//
// Names have lifetimes as bytes have: [View.Symbol] names an address as of a
// time, [View.Lookup] finds a name, [View.Aliases] returns the other names of a
// function.
//
// # Concurrent use
//
// An [Image], its views and its [Windows] are immutable and safe for concurrent
// use. A [Cursor] is for one goroutine. A [Builder] is not safe for concurrent
// use.
package timeline
