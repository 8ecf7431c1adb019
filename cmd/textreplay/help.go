// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// A command without a Run is a topic of its own under "textreplay help".

func timesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "times",
		Short: "How times are written",
		Long: `Times are of the recording's clock ("textreplay info" names it), with nine digits
after the point:

  12.345678901          seconds, as perf script --ns prints them
  12.345678             fewer digits mean the whole interval of that width: where a
                        change lies in it, both sides are shown
  12345678901ns         nanoseconds
  +1.5s                 since the first record
  50%                   between the first record and the newest one
  start, end            the first record; the time up to which nothing is missing
  tsc:0x1a2b3c4d5e      a counter value (TSC, CNTVCT), where the recording is on
                        perf's own clock and has a TIME_CONV record
  wall:2026-01-02T15:04:05.123Z
                        wall-clock time, where the recording has CLOCK_DATA
                        (perf record -k CLOCK_MONOTONIC)
  A..B                  from A to B

At the very time of a change the new bytes stand. Options that take A,B mean the
half-open interval from A up to but not including B; either end may be empty.`,
	}
}

func addressesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "addresses",
		Short: "How addresses are written",
		Long: `Addresses are those of the running kernel:

  0xffffffff81000000    hexadecimal; with sixteen digits the 0x may be left out
  vfs_read              a symbol, as of the asked time
  vfs_read+0x10         with an offset, decimal or 0x
  virtio_blk:virtblk_done
                        a symbol of one module
  bpf_prog_0123456789abcdef_name
                        a BPF program; also trampolines and out-of-line pages

A name that stands for several addresses is an error that lists them: ask again
with the module's name or with the address. Names come from kcore_dir's kallsyms
(or --kallsyms) and from the recording's KSYMBOL records, which give BPF programs
and out-of-line code their lifetimes.`,
	}
}
