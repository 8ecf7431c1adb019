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
// The package knows no file format, and nothing of the rest of this project but how it asks
// the system for memory. Package timeline/replay reads a recording and makes an image of it.
//
// # Words
//
// A fact is something that was recorded: a [Poke], a [Snapshot], a [SymbolEvent], a
// [Program], a [CodeRead], a [Module], an [ExplicitWindow].
//
// A fragment is a range of addresses that every fact covers as a whole or not at all, so
// all its bytes have one history.
//
// A lifetime is the time during which one piece of code, such as a BPF program, is at
// its addresses; see [Lifetime].
//
// A version is an interval of time in which a fragment has the same bytes, the same
// standing and the same reason.
//
// A gap is an interval of time in which a change may have gone unrecorded; see
// [Builder.Gap].
//
// A window is the time around a poke in which a CPU may meet a trap in place of the old
// or the new bytes; see [Window].
//
// A standing says how far an answer can be trusted; see [Standing].
//
// One fragment through time. The snapshot S was taken at some moment of [s0, s1], the poke
// P has old bytes 0f1f and new bytes e9.., the poke Q old bytes e9.. and new bytes 0f1f,
// and records were lost in [g0, g1):
//
//	facts             ├── S ─┤        P         ▒▒ gap ▒▒       Q
//	time      ──┼─────┼──────┼────────┼─────────┼───────┼───────┼───────────┼───────►
//	          first   s0     s1       p         g0      g1      q         horizon
//	bytes     0f1f from S             │ e9.. from P     │ e9.. Q│ 0f1f from Q
//	standing  unconf. │ known         │ known   │ unc.  │ known │ known     │ unconf.
//
// Q's old bytes prove e9.. back to g1, P's new bytes prove it up to g0. Between g0 and g1
// the place may have been changed and changed back.
//
// # How an image is made
//
//	Builder              takes facts in any order                      builder.go
//	    add              a poke to its site, packed                    queue.go, site.go, pack.go, passes.go
//	  Build
//	    flatten          the gaps of each kind of memory               gap.go
//	    findLifetimes    what code was where, and when                 lifetimes.go, unsure.go
//	      fitModules       modules of later lists, where other code is laterlists.go
//	    sortPokes        pokes by address and time                     build.go
//	      unskew           those of CPUs whose clocks differ           skew.go, tied.go, rivals.go
//	    doubtModules     contradictions inside of modules              doubt.go
//	    compareSnapshots where further snapshots differ                snapshots.go
//	    findOrders       all orders that records may have come in      orders.go
//	    fragments        of each piece of the address space:           parallel.go
//	      next             its range, and the facts that cover it      fragmenter.go
//	      history          its epochs                                  epochs.go
//	        alive            from fact to fact                         history.go
//	        forward, ...     the versions between two facts            between.go, emit.go
//	        doubtOrder       what another order would give             orders.go
//	      store            the versions as tables of numbers           store.go
//	    indexPages       from an address to its fragment               page.go
//	Image
//	  At(t).Read(addr)   the fragment, its version at t, the answer    image.go
//	  Encode             the tables, for a file                        encode.go
//
// # Truth
//
// The worst that this package could do is to answer with wrong bytes. So each answer has
// a [Standing], and only [Known] is a promise: a fact gives the bytes, and every change
// between that fact and the asked time would have been recorded. All other answers have a
// [Reason]. Each answer also has a [Validity], the time during which the same bytes have
// the same standing, so a decoder can cache what it decoded until then. docs/truth.md of
// this project has the rules.
//
// # Times and addresses
//
// Times are nanoseconds of the recording's clock, which is that of perf unless the
// recording names another one (perf record -k). Addresses are virtual addresses of the
// running kernel. An interval [Since, Until) is half-open; 0 and [MaxTime] mean that
// nothing bounds it.
//
// # Names
//
// Names have lifetimes as bytes have: [View.Symbol] returns the name of an address at a
// time, [View.Lookup] finds a name, [View.Aliases] returns the other names of a function.
//
// # Concurrent use
//
// An [Image], its views and [Windows] are immutable and safe for concurrent use. A
// [Cursor], a [Builder] and a [Pokes] must not be used by several goroutines at once.
package timeline
