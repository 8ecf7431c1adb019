// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// A command without a Run is a help topic: "textreplay help TOPIC" prints it.

func timesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "times",
		Short: "How times are written",
		Long: `Times are those of the recording's clock, which "textreplay info" names:

  12.345678901          seconds, as perf script --ns prints them
  12.345678             fewer than nine digits mean the whole interval of that width;
                        if a change is in it, both sides are shown
  12345678901ns         nanoseconds
  +1.5s                 since the first record
  50%                   between the first record and the newest one
  start                 the first record
  end                   the horizon: the recording is complete up to this time
  tsc:0x1a2b3c4d5e      a counter value (TSC, CNTVCT), if the recording uses perf's
                        own clock and has a TIME_CONV record
  wall:2026-01-02T15:04:05.123Z
                        wall-clock time, if the recording has CLOCK_DATA
                        (perf record -k CLOCK_MONOTONIC)
  A..B                  from A to B

At the exact time of a change, the answer has the new bytes. Options that take A,B
mean the half-open interval from A up to but not including B; either may be empty.`,
	}
}

func addressesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "addresses",
		Short: "How addresses are written",
		Long: `Addresses are those of the running kernel:

  0xffffffff81000000    hexadecimal; with sixteen digits the 0x is optional
  vfs_read              a symbol, as it is at the asked time
  vfs_read+0x10         with an offset, decimal or 0x
  virtio_blk:virtblk_done
                        a symbol of one module
  bpf_prog_0123456789abcdef_name
                        a BPF program; also trampolines and out-of-line pages

If a name has several addresses, the error lists them: ask again with the module's
name or with the address. Names come from kcore_dir's kallsyms (or --kallsyms) and
from the recording's KSYMBOL records, which also say when BPF programs and
out-of-line code existed.`,
	}
}

func outputsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "outputs",
		Short: "How files are written, and who can read them",
		Long: `An output (-o FILE, --unknown FILE, --kcore-dir DIR, --index FILE, man DIR) is
refused, with exit code 2, if it is an input of the same command or is inside an
input directory, under any name.

textreplay writes a temporary file in the same directory and renames it when it is
complete. If writing fails or a signal ends the program, the temporary file is
removed and an existing file stays as it was. Pipes, devices and standard output
(- or /dev/stdout) are written directly.

The group and others can read an output only if they can read every input. A
recording that only its owner can read, by its own mode or by that of its
directory, makes outputs that only their owner can read. Everyone can read man pages.`,
	}
}
