// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package recorder records how a running Linux kernel changes its text: what
// "perf record -a --kcore" records of it, and what perf omits.
//
// A recording is a perf.data directory that perf reads as well:
//
//	DIR/data              records: TEXT_POKE, KSYMBOL, BPF_EVENT, COMM, FORK, EXIT of all CPUs,
//	                      and the tracepoints module_load, module_free and cpuhp_enter
//	DIR/kcore_dir/        kernel text at the beginning, with kallsyms and modules
//	DIR/textreplay.jsonl  the journal: when each copy of text was made, when a CPU was not
//	                      recorded, the code of BPF trampolines, the hit counters of probes
//	                      (package recorder/journal)
//	DIR/copies/N/         copies of text that were made later
//	DIR/bpf_prog_info     the BPF programs so far, as in perf's section of that name
//	DIR/bpf_btf           their types so far (BTF), as in perf's section BPF_BTF
//	DIR/features          the other feature sections, until the recording has ended
//
// The recorder opens its events with perf_event_open(2). One dummy event on each CPU has
// attr.text_poke, ksymbol, bpf_event, comm and task; its ring buffer also receives the
// CPU's tracepoints. The kernel records that a BPF program was loaded, and not its code.
// So the recorder fetches the code at once (BPF_OBJ_GET_INFO_BY_FD), while perf does so
// in a thread of its own, and loses it when it is killed.
//
// The events of a CPU that goes offline do not come back with it. The recorder opens
// new ones, and notes the time between in the journal as a gap.
//
// Only Linux has what the package needs. On other systems [Start] returns an error that wraps
// [errors.ErrUnsupported].
package recorder
