// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline/replay"
)

// oops is the state of the command oops.
type oops struct {
	*app
	r *replay.Replay
	c *coder

	at     string
	offset time.Duration
	given  bool // --offset is given

	clock   printkClock
	ip      *oopsAnswer // the last place where a CPU was, nil if none or in user space
	written bool        // something was printed
	begun   bool        // a report has begun, and has shown no place yet
	found   struct{ places, findings, unknown, below int }
}

func (a *app) oopsCmd() *cobra.Command {
	o := &oops{app: a}
	cmd := &cobra.Command{
		Use:   "oops [flags] [FILE]",
		Short: "Compare an oops with kernel text at its time",
		Long: `oops reads the kernel's log from FILE (default: standard input) and finds what
oopses, BUGs, warnings, lockups and sysrq-t print of kernel text: RIP, pc, NIP, PSW
and the link register, call traces, and the Code: line. It answers each place with
the instruction that was there, of a call trace with the call, and compares the Code:
line with the text:

  equal     the text had these bytes
  trap      they differ as during a change that is in flight: a CPU that ran there
            could meet the trap, or half of the change
  differs   a finding: known bytes were others
  unknown   no known byte differs, but not all are known

It reads what dmesg, journalctl (any -o), syslog and serial consoles print. Times are
printk's. On perf's own clock the recording has the same times. Otherwise printk's
clock is only near the recording's: less than a second at boot, and then NTP slews
one of them, by at most 500 ppm. All versions of the text in that interval are
compared. --offset gives the difference of the clocks, --at the time of the first
report. A log without usable times is compared with the text of all times.

Sizes of functions (+0x10/0x20), addresses and the kernel's release show whether the
oops is of the recorded kernel and of its boot.

The exit code is 1 for a finding, for a place that the recording does not have, for
bytes that do not meet --require, and if the log has no such report.`,
		Example: `  dmesg | textreplay oops
  journalctl -k -o export | textreplay oops -i run7.data
  textreplay oops --at end-2s console.log --json | jq 'select(.kind == "code").verdict'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("want one file, got %s", count(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = cmd.Flags().Changed("offset")
			file := "-"
			if len(args) == 1 {
				file = args[0]
			}
			return o.run(file)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.at, "at", "", "the `TIME` of the first report, on the recording's clock")
	f.DurationVar(&o.offset, "offset", 0, "the recording's clock minus printk's, as a `DURATION` (-11ms)")
	cmd.MarkFlagsMutuallyExclusive("at", "offset")
	return cmd
}

func (o *oops) run(file string) (err error) {
	if file == "-" && o.input == "-" {
		return usagef("the oops and the recording cannot both come from standard input")
	}
	in, name := io.Reader(o.stdin), standardInput
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return inputError(err)
		}
		defer f.Close()
		in, name = f, file
	}
	if err := o.reads(file); err != nil {
		return err
	}
	if o.r, err = o.loadAndWarn(); err != nil {
		return err
	}
	if o.c, err = newCoder(o.r); err != nil {
		return err
	}
	o.clock = printkClock{r: o.r}
	if o.at != "" {
		if o.clock.at, err = o.r.ParseTime(o.at); err != nil {
			return err
		}
		o.clock.atGiven = true
	}
	if o.given {
		o.clock.offset, o.clock.offsetGiven = int64(o.offset), true
	}
	items, lines, err := o.readLog(in, name)
	if err != nil {
		return err
	}
	for i := range items {
		if t := items[i].printk; o.given && t != noTime && !o.clock.reaches(t) {
			return usagef("--offset %v: line %d has the time %s, which would be before the clock's zero or after its last time", o.offset, items[i].line, replay.Seconds(t))
		}
	}
	enc := encoder(o.out)
	for i := range items {
		a := o.answer(&items[i])
		if a == nil {
			continue
		}
		if o.json {
			err = enc.Encode(o.oopsJSON(a))
		} else {
			err = o.writeItem(a)
		}
		if err != nil {
			return outputError(err)
		}
	}
	f := &o.found
	switch {
	case f.places == 0:
		return belowf("no oops or call trace in %s", count(lines, "line"))
	case !o.json:
		if err := o.summary(); err != nil {
			return outputError(err)
		}
	}
	if f.findings+f.unknown+f.below > 0 {
		return errBelow
	}
	return nil
}

// readLog returns what the log of this name has about kernel text, and its number of lines.
func (o *oops) readLog(in io.Reader, name string) (items []oopsItem, n int, err error) {
	lines := newLineReader(in, name, o.out, o.unchanged)
	near := time.Now()
	if t, err := o.r.Report.Clock.ToWall(o.r.Report.First); err == nil {
		near = t
	}
	log := logReader{zone: time.Local, near: near}
	var parser oopsParser
	add := func(read []logLine) {
		for i := range read {
			l := &read[i]
			o.clock.see(l)
			items = append(items, parser.parse(l)...)
		}
	}
	for lines.next() {
		add(log.read(&lines.text))
	}
	add(log.read(nil))
	items = append(items, parser.parse(nil)...)
	for i := range items {
		if items[i].printk != noTime {
			o.clock.first, o.clock.hasFirst = items[i].printk, true
			break
		}
	}
	return items, lines.line, lines.err
}
