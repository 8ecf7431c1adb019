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

func outputsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "outputs",
		Short: "How files are written, and who can read them",
		Long: `An output (-o FILE, --unknown FILE, --kcore-dir DIR, --index FILE, man DIR) is
refused, with exit code 2, if it is an input of the same command or is inside an
input directory, by whatever name.

It is written to a temporary file in the same directory, which gets the output's
name when it is complete. If that fails, or a signal ends the program, nothing is
left, and what had the name before stays. Pipes, devices and standard output
(- or /dev/stdout) are written in place.

The group and others can read an output only if they can read every input. A
recording that only its owner can read, by its own mode or by that of its
directory, makes outputs that only their owner can read. Man pages are for all.`,
	}
}
