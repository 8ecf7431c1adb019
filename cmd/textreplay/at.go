// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// maxBytes limits how many bytes one question may ask for. The command image
// writes more.
const maxBytes = 64 << 20

// at is the state of the command at.
type at struct {
	*app
	r *replay.Replay
	c *coder

	bytes    uint64
	insns    int
	function bool
	stdin    bool
	format   choice
	fill     fillByte
}

func (a *app) atCmd() *cobra.Command {
	q := &at{app: a}
	cmd := &cobra.Command{
		Use:   "at [flags] ADDR TIME",
		Short: "Print the instructions at an address at a time",
		Long: `at prints the bytes at an address at a time, disassembled. It also prints their
standing (how far they can be trusted), the interval in which they did not change,
and the changes before and after it.

With --stdin it reads questions, and answers each with one line of JSON that has the
number of the input's line. Lines are "ADDR TIME [BYTES]", or what perf script
prints: any fields with a time and addresses, call chains and branch stacks. Each
address is a question. Addresses of user space are answered with not_kernel_text.
If a question cannot be answered, its line has an error.

--format hex and raw print only the bytes, and only those that meet --require
(default known). They stop at the first byte that does not, with exit code 1. With
--fill they print the given byte instead and go on; the exit code is still 1.`,
		Example: `  textreplay at do_sys_openat2+7 12.345678901
  textreplay at 0xffffffff81234560 50% --insns 20
  textreplay at vfs_read start..end --json
  textreplay at vfs_read 12.345678901 --function --format raw > vfs_read.bin
  perf script --ns | textreplay at --stdin`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case q.stdin && len(args) > 0:
				return usagef("--stdin takes addresses and times from standard input, not %q", args[0])
			case !q.stdin && len(args) != 2:
				return usagef("want an address and a time, got %s", count(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(checkBytes(cmd, q.bytes), q.check()); err != nil {
				return err
			}
			return q.run(args)
		},
	}
	f := cmd.Flags()
	f.Uint64VarP(&q.bytes, "bytes", "n", 0, "print this many `BYTES`")
	f.IntVar(&q.insns, "insns", 5, "print `N` instructions")
	f.BoolVar(&q.function, "function", false, "print the whole function that contains the address")
	f.BoolVar(&q.stdin, "stdin", false, "read questions from standard input, lines of \"ADDR TIME [BYTES]\" or of perf script, and answer in JSON")
	a.choice(cmd, &q.format, "format", "output format", "text", "text", "json", "csv", "hex", "raw")
	f.Var(&q.fill, "fill", "print this byte for each byte that does not meet --require (hex and raw)")
	cmd.MarkFlagsMutuallyExclusive("bytes", "insns", "function")
	cmd.MarkFlagsMutuallyExclusive("stdin", "function")
	return cmd
}

// A fillByte is the value of --fill: the byte to print for each that cannot be
// given.
type fillByte struct {
	set   bool
	value byte
}

func (b *fillByte) Type() string { return "BYTE" }

func (b *fillByte) String() string {
	if !b.set {
		return ""
	}
	return fmt.Sprintf("%#02x", b.value)
}

func (b *fillByte) Set(s string) error {
	v, err := numbers.Parse(s, 8)
	if err != nil {
		return errors.New("must be a number from 0 to 255 or 0xff")
	}
	b.set, b.value = true, byte(v)
	return nil
}

// meets reports whether an answer of this standing is enough for --require.
// ifNotGiven is the default, which depends on what is printed.
func (a *app) meets(s timeline.Standing, ifNotGiven string) bool {
	require := a.require.value
	if require == "" {
		require = ifNotGiven
	}
	switch require {
	case "known":
		return s == timeline.Known
	case "unconfirmed":
		return s.HasBytes()
	}
	return true
}

// check rejects flags that exclude each other, and sets the format.
func (q *at) check() error {
	format := q.format.value
	switch {
	case (q.json || q.stdin) && format == "text":
		q.format.value = "json"
	case q.json && format != "json":
		return usagef("--json and --format %s exclude each other", format)
	case q.stdin && format != "json":
		return usagef("--stdin prints JSON only; it does not go with --format %s", format)
	}
	if q.stdin && q.input == "-" {
		return usagef("the questions and the recording cannot both come from standard input")
	}
	if q.fill.set && q.format.value != "hex" && q.format.value != "raw" {
		return usagef("--fill goes with --format hex or raw")
	}
	if q.insns < 1 {
		return usagef("--insns %d: must be at least 1", q.insns)
	}
	if q.bytes > maxBytes || q.insns > maxBytes/maxInsn {
		return usagef("at most %s can be asked for; use \"textreplay image\" for more", count(maxBytes, "byte"))
	}
	return nil
}

func (q *at) run(args []string) (err error) {
	if q.stdin {
		q.r, err = q.loadAndWarn()
	} else {
		q.r, err = q.warned(q.loadFor(args[0], max(q.bytes, uint64(q.insns)*maxInsn)))
	}
	if err != nil {
		return err
	}
	if q.c, err = newCoder(q.r); err != nil {
		return err
	}
	if q.c.debug, err = q.debugInfo(q.r); err != nil {
		return err
	}
	if q.stdin {
		if err := q.reads("-"); err != nil {
			return err
		}
		return q.questions(q.app.stdin)
	}
	x, err := q.ask(args[0], args[1], q.bytes)
	if err != nil {
		return err
	}
	switch q.format.value {
	case "json":
		if err := encoder(q.out).Encode(q.jsonAnswer(x)); err != nil {
			return outputError(err)
		}
	case "csv":
		if err := q.writeCSV(x); err != nil {
			return outputError(err)
		}
	case "hex", "raw":
		return q.writeBytes(x)
	default:
		q.writeText(x)
	}
	if !x.meets(q.app, "any") {
		return errBelow
	}
	return nil
}

// An answer has the contents of a range of addresses during the asked interval:
// one version for each change.
type answer struct {
	asked    uint64 // the address that was asked for, within the range
	addr, n  uint64
	times    replay.Times
	versions []version
}

// A version has the contents of the range at one time.
type version struct {
	view  timeline.View
	n     uint64 // bytes from the answer's address on
	spans []timeline.Span
	rows  []row
	// Over all spans: the least standing with its reason, and the interval in
	// which no span changes.
	standing     timeline.Standing
	reason       timeline.Reason
	since, until uint64
}

// A row is an instruction, or a span that has no bytes.
type row struct {
	inst disasm.Inst
	hole *timeline.Span
}

// instsOf returns the instructions of rows, without the rows that have no
// bytes.
func instsOf(rows []row) []disasm.Inst {
	var insts []disasm.Inst
	for i := range rows {
		if rows[i].hole == nil {
			insts = append(insts, rows[i].inst)
		}
	}
	return insts
}

func (x *answer) meets(a *app, ifNotGiven string) bool {
	for i := range x.versions {
		if !a.meets(x.versions[i].standing, ifNotGiven) {
			return false
		}
	}
	return true
}

// ask answers a question about n bytes; if n is 0, the flags say how many.
// Errors are *replay.QuestionError.
func (q *at) ask(addr, when string, n uint64) (*answer, error) {
	times, err := q.r.ParseTime(when)
	if err != nil {
		return nil, err
	}
	x := &answer{times: times}
	if x.asked, err = q.r.ParseAddr(addr, times.From); err != nil {
		return nil, err
	}
	view := q.r.Image.At(times.From)
	x.addr = x.asked
	switch {
	case n > 0:
		x.n = n
	case q.function:
		s, ok := view.Symbol(x.asked)
		if !ok || s.Size == 0 || s.Size > maxBytes {
			return nil, &replay.QuestionError{Text: addr, Msg: "no function of known size contains this address at this time; use -n BYTES"}
		}
		x.addr, x.n = s.Addr, s.Size
	default:
		x.n = q.insnBytes(view, x.asked)
	}
	if x.addr+x.n < x.addr {
		x.n = -x.addr // up to the end of the address space
	}
	// Bytes are the same range in each version. Instructions are the same
	// number, so the range can differ.
	fixed := n > 0 || q.function || q.format.value == "hex" || q.format.value == "raw"
	for t := times.From; ; {
		view, n := q.r.Image.At(t), x.n
		if !fixed {
			n = q.insnBytes(view, x.addr)
		}
		v := q.c.version(view, x.addr, n)
		x.versions = append(x.versions, v)
		if !endsBy(v.until, times.To) {
			return x, nil
		}
		t = v.until
	}
}

// endsBy reports whether an interval that ends at until ends at time t or
// before.
func endsBy(until, t uint64) bool { return until != timeline.MaxTime && until <= t }

// insnBytes returns how many bytes the asked number of instructions have at
// addr. A span without bytes counts as one instruction.
func (q *at) insnBytes(v timeline.View, addr uint64) uint64 {
	const row = 16
	if q.c.dis == nil {
		return row
	}
	code := make([]byte, q.insns*maxInsn)
	code = code[:v.Read(addr, code).Given]
	if len(code) == 0 {
		for s := range v.Spans(addr, row) {
			return s.Len
		}
	}
	n := 0
	for i := 0; i < q.insns && n < len(code); i++ {
		n += len(q.c.next(code[n:], v, addr+uint64(n)).Bytes)
	}
	return uint64(n)
}

// version returns the contents of the range at one time.
func (c *coder) version(view timeline.View, addr, n uint64) version {
	v := version{view: view, n: n, standing: timeline.Known, until: timeline.MaxTime}
	for s := range view.Spans(addr, n) {
		if s.Standing < v.standing {
			v.standing, v.reason = s.Standing, s.Reason
		}
		v.since, v.until = max(v.since, s.Since), min(v.until, s.Until)
		v.spans = append(v.spans, s)
	}
	var insts []disasm.Inst
	for i := 0; i < len(v.spans); {
		if v.spans[i].Bytes == nil {
			v.rows = append(v.rows, row{hole: &v.spans[i]})
			i++
			continue
		}
		// An instruction may begin in one span and end in the next.
		first, code := i, v.spans[i].Bytes
		for i++; i < len(v.spans) && v.spans[i].Bytes != nil; i++ {
			code = append(code, v.spans[i].Bytes...)
		}
		insts = c.decode(insts[:0], code, view, v.spans[first].Addr)
		for _, in := range insts {
			v.rows = append(v.rows, row{inst: in})
		}
	}
	return v
}

// window returns the open window over [addr, addr+n) at the view's time whose
// poke is nearest in time, and the effect of its trap; false if none is open.
func (q *at) window(v timeline.View, addr, n uint64) (timeline.Window, replay.Effect, bool) {
	windows := q.r.WindowsAt(addr, n, v.Time())
	if len(windows) == 0 {
		return timeline.Window{}, replay.Effect{}, false
	}
	distance := func(w timeline.Window) uint64 { return max(w.Switch, v.Time()) - min(w.Switch, v.Time()) }
	w := slices.MinFunc(windows, func(a, b timeline.Window) int { return cmp.Compare(distance(a), distance(b)) })
	return w, q.r.Effect(&w), true
}

// writeBytes prints only the bytes, up to the first that does not meet
// --require or changes within the asked interval.
func (q *at) writeBytes(x *answer) error {
	bytes := make([]byte, x.n)
	good := make([]bool, x.n)
	var why *timeline.Span
	for i := range x.versions {
		for k := range x.versions[i].spans {
			s := &x.versions[i].spans[k]
			ok := s.Standing.HasBytes() && q.meets(s.Standing, "known")
			if !ok && (why == nil || s.Addr < why.Addr) {
				why = s
			}
			for j := range s.Len {
				at := s.Addr - x.addr + j
				switch {
				case !ok:
					good[at] = false
				case i == 0:
					bytes[at], good[at] = s.Bytes[j], true
				case bytes[at] != s.Bytes[j]:
					good[at] = false
				}
			}
		}
	}
	end, below := len(bytes), -1
	for i, ok := range good {
		if ok {
			continue
		}
		if below < 0 {
			below = i
		}
		if !q.fill.set {
			end = i
			break
		}
		bytes[i] = q.fill.value
	}
	if q.format.value == "raw" {
		q.out.Write(bytes[:end])
	} else {
		w := hex.NewEncoder(q.out)
		w.Write(bytes[:end])
		q.out.WriteByte('\n')
	}
	if below < 0 {
		return nil
	}
	verb := "stopped at"
	if q.fill.set {
		verb = "filled from"
	}
	addr := x.addr + uint64(below)
	if why != nil && why.Addr <= addr {
		text := why.Standing.String()
		if why.Reason != timeline.ReasonNone {
			text += ", " + why.Reason.Text()
		}
		return belowf("%s %#x: %s", verb, addr, text)
	}
	return belowf("%s %#x: the byte changes within the asked interval", verb, addr)
}

// questions answers the questions in lines of text.
func (q *at) questions(in io.Reader) error {
	lines := newLineReader(in, standardInput, q.out, q.unchanged)
	enc := encoder(q.out)
	code, answers := exitAnswered, 0
	var parser questionParser
	for lines.next() {
		asked := parser.parse(lines.text)
		if lines.long {
			asked = append(asked[:0], question{err: fmt.Errorf("the line has more than %s", count(maxLine, "byte"))})
		}
		for i := range asked {
			answer, worst := q.question(&asked[i], lines.line)
			code = max(code, worst)
			answers++
			if err := enc.Encode(answer); err != nil {
				return outputError(err)
			}
		}
	}
	if lines.err != nil {
		return lines.err
	}
	if answers == 0 {
		q.sayf("no question in %s", count(lines.line, "line"))
	}
	if code != exitAnswered {
		return &exitError{code: code}
	}
	return nil
}

// question answers a question of the input's line of this number, from 1, and
// returns the exit code for it.
func (q *at) question(asked *question, line int) (out any, code int) {
	if why := q.foreign(asked); why != "" && asked.err == nil {
		if times, err := q.r.ParseTime(asked.when); err == nil {
			return &jsonForeign{hexAddr(asked.value), decTime(times.From), line, why, nil, []jsonSpan{}, []jsonInst{}}, exitAnswered
		}
	}
	err := asked.err
	if err == nil {
		var x *answer
		if x, err = q.ask(asked.addr, asked.when, cmp.Or(asked.n, q.bytes)); err == nil {
			json := q.jsonAnswer(x)
			json.Line = line
			if !x.meets(q.app, "any") {
				code = exitBelow
			}
			return json, code
		}
	}
	failed := jsonError{Error: message(err), Line: line, Addr: nonEmpty(asked.addr), Time: nonEmpty(asked.when)}
	if times, err := q.r.ParseTime(asked.when); err == nil {
		failed.Time = nonEmpty(decTime(times.From))
	}
	return failed, exitUsage
}

// ofKernelHalf reports whether an address can only be of a kernel, whatever file perf prints for it (perf script
// --show-kernel-path prints that of a copy). On s390x kernel and user space have the same addresses, and the x86
// page of vsyscalls is of user space.
func (q *at) ofKernelHalf(addr uint64) bool {
	const vsyscall = 0xffff_ffff_ff60_0000 // VSYSCALL_ADDR (arch/x86/include/uapi/asm/vsyscall.h)
	return addr >= 1<<63 && q.r.Machine() != elf.EM_S390 && !(q.r.Machine() == elf.EM_X86_64 && addr&^0xfff == vsyscall)
}

// foreign returns why an address that perf printed is not of the recorded kernel, ""
// if it may be.
func (q *at) foreign(asked *question) string {
	const user, guest, host = "an address of user space", "an address of a virtual machine (--guest)", "an address of the host"
	switch {
	case !asked.hex:
	case asked.space == "user" && !q.ofKernelHalf(asked.value):
		return user
	case asked.space == "guest" && q.guest.pid == 0:
		return guest
	case asked.space == "kernel" && q.guest.pid != 0:
		return host
	case asked.value < 1<<63 && asked.space == "" && q.r.Machine() != elf.EM_S390:
		return user // only s390x has its kernel in the lower half
	}
	return ""
}
