// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
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
	items, lines, err := o.readLog(in)
	if err != nil {
		return inputError(fmt.Errorf("reading %s: %w", name, err))
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

// readLog returns what the log has about kernel text, and its number of lines.
func (o *oops) readLog(in io.Reader) (items []oopsItem, n int, err error) {
	lines := newLineReader(in, o.out, o.unchanged)
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

// A printkClock converts printk's times to those of the recording.
//
// printk calls local_clock(), and perf does so too unless -k names another clock. With
// CLOCK_MONOTONIC the two begin within a second at boot: sched_clock runs before the
// timekeeping does. Later, NTP slews CLOCK_MONOTONIC, by at most 500 ppm
// (MAXFREQ_SCALED in include/linux/timex.h).
type printkClock struct {
	r           *replay.Replay
	at          replay.Times // of the first report
	atGiven     bool
	offset      int64
	offsetGiven bool
	first       uint64 // printk's time of the first report
	hasFirst    bool

	// least is the least time from printk to the journal's reading, on CLOCK_MONOTONIC.
	least    int64
	hasLeast bool
}

// see takes a line into account that has both the journal's time and printk's.
func (c *printkClock) see(l *logLine) {
	if l.printk == noTime || l.received == noTime {
		return
	}
	if d := int64(l.received - l.printk); !c.hasLeast || d < c.least {
		c.least, c.hasLeast = d, true
	}
}

// times returns the interval of a line's time, and how it was found. If the line has no
// time that can be converted, it is the whole recording.
func (c *printkClock) times(l *logLine) (replay.Times, string) {
	const (
		us       = 1000
		boot     = 1e9       // the clocks differ by at most this at boot
		slew     = 2000      // 1/slew is 500 ppm
		reading  = 200 * 1e6 // journald reads a message within this time
		delivery = 2 * 1e9   // and syslog writes it
	)
	rep := c.r.Report
	around := func(t, before, after uint64) replay.Times {
		return replay.Times{From: t - min(t, before), To: t + min(timeline.MaxTime-t, after)}
	}
	shift := func(t uint64, by int64) uint64 {
		if by < 0 {
			return t - min(t, uint64(-by))
		}
		return t + min(timeline.MaxTime-t, uint64(by))
	}
	skew := rep.ClockUncertainty
	switch {
	case c.atGiven && l.printk != noTime && c.hasFirst:
		by := int64(l.printk - c.first)
		return replay.Times{From: shift(c.at.From, by), To: shift(shift(c.at.To, by), us)}, "--at"
	case c.atGiven:
		return c.at, "--at"
	case c.offsetGiven && l.printk != noTime:
		return around(shift(l.printk, c.offset), skew, skew+us), "printk, --offset"
	case l.printk != noTime && rep.Clock.Name == "perf":
		return around(l.printk, skew, skew+us), "printk"
	case l.printk != noTime && rep.Clock.Name == "CLOCK_MONOTONIC" && c.hasLeast:
		return around(shift(l.printk, c.least), reading, us), "printk, by the journal's CLOCK_MONOTONIC"
	case l.printk != noTime && (rep.Clock.Name == "CLOCK_MONOTONIC" || rep.Clock.Name == "CLOCK_MONOTONIC_RAW"):
		by := boot + l.printk/slew
		return around(l.printk, by, by+us), "printk"
	case l.received != noTime && rep.Clock.Name == "CLOCK_MONOTONIC":
		return around(l.received, delivery, us), "the journal's CLOCK_MONOTONIC"
	case !l.wall.IsZero():
		if t, err := rep.Clock.Wall(l.wall); err == nil {
			return around(t, delivery, uint64(l.wallUnit)), "wall-clock time"
		}
	}
	return replay.Times{From: rep.First, To: max(rep.First, rep.Horizon)}, ""
}

// An oopsAnswer is an item with the text at its time.
type oopsAnswer struct {
	*oopsItem
	times    replay.Times
	how      string // how the time was found; "" if it is that of the whole recording
	addr     uint64
	err      error // why the place has no address, or another one
	finding  bool  // err contradicts the recording
	view     timeline.View
	first    version // of the instruction there, at the start of the interval
	versions int     // how many the interval has
	cut      bool    // it has more, which were not looked at
	inst     string
	compared *comparedCode
}

// maxVersions is how many versions of a place are looked at. A recording without usable
// times can have more of a busy place.
var maxVersions = 1 << 14

// answer finds the text of an item at its time. It returns nil for user space, and for
// code whose place is unknown.
func (o *oops) answer(item *oopsItem) *oopsAnswer {
	a := &oopsAnswer{oopsItem: item}
	a.times, a.how = o.clock.times(&item.logLine)
	a.view = o.r.Image.At(a.times.From)
	switch item.kind {
	case oopsReport:
		if want := o.r.Report.Kernel; item.known != "" && want != "" && item.known != want {
			a.err, a.finding = fmt.Errorf("this is kernel %s, the recording is of %s", item.known, want), true
			o.found.findings++
		}
		return a
	case oopsCode:
		ip := o.ip
		if ip == nil && item.addr == 0 {
			return nil // of user space
		}
		o.found.places++
		o.compare(a, ip)
		return a
	}
	where := item.kind == oopsIP && !item.nested
	if where {
		o.ip = nil
	}
	if item.user {
		return nil
	}
	o.found.places++
	if where {
		o.ip = a
	}
	a.err = o.resolve(a)
	if a.err != nil {
		if a.finding {
			o.found.findings++
		} else {
			o.found.unknown++
		}
		if a.addr == 0 {
			return a
		}
	}
	o.look(a)
	return a
}

// resolve finds the address of a place. If it is printed with a name, both must agree.
func (o *oops) resolve(a *oopsAnswer) error {
	a.addr = a.oopsItem.addr
	if a.place == "" {
		return nil
	}
	addr, err := o.r.ParseAddr(a.place, a.times.From)
	if err != nil && a.how == "" {
		// A name of code that came later.
		for s := range o.r.Image.Symbols {
			if name, _, _ := strings.Cut(a.place, "+"); s.Name == name {
				addr, err = o.r.ParseAddr(a.place, s.From)
				break
			}
		}
	}
	if q, ok := err.(*replay.QuestionError); ok && a.addr == 0 && len(q.Candidates) > 1 && a.kind != oopsIP && !a.unsure {
		if at, ok := o.afterCall(a, q.Candidates); ok {
			addr, err = at, nil
		}
	}
	switch {
	case err != nil:
		var q *replay.QuestionError
		if errors.As(err, &q) && q.Candidates == nil {
			a.finding = errors.Is(err, replay.ErrOtherKernel)
			if m := moduleOf(a.place); m != "" && q.Err == nil {
				// Similar names are of other code. Often no name of the module is known.
				return fmt.Errorf("no symbol of this name in module %s is in the recording", m)
			}
			err = errors.New(strings.TrimPrefix(q.Error(), strconv.Quote(q.Text)+": "))
		}
		return err
	case a.addr == 0:
		a.addr = addr
	case a.addr != addr:
		a.finding = true
		return fmt.Errorf("%s is at %#x in the recording, not at %#x: the oops is of another boot or kernel", a.place, addr, a.addr)
	}
	return nil
}

// afterCall returns the address of a place in the only one of several functions in which a call
// ends there: the kernel prints return addresses. The text of all of them must be given.
func (o *oops) afterCall(a *oopsAnswer, candidates []timeline.Symbol) (addr uint64, ok bool) {
	_, rest, _ := strings.Cut(a.place, "+")
	text, _, _ := strings.Cut(rest, "/")
	offset, err := strconv.ParseUint(text, 0, 64)
	if err != nil || offset == 0 || o.c.dis == nil {
		return 0, false
	}
	for _, s := range candidates {
		at := s.Addr + offset
		before := make([]byte, offset)
		if uint64(a.view.Read(s.Addr, before).Given) < offset {
			return 0, false
		}
		if b := a.view.Read(at-min(offset, maxInsn), make([]byte, min(offset, maxInsn))); endsBy(b.Until, a.times.To) {
			return 0, false // it may be another instruction
		}
		in, found := o.c.containing(a.view, s.Addr, at-1, before)
		if !found || in.Addr+uint64(len(in.Bytes)) != at || in.Class != disasm.Call && in.Class != disasm.IndirectCall {
			continue
		}
		if ok {
			return 0, false
		}
		addr, ok = at, true
	}
	return addr, ok
}

// moduleOf returns the module of a place: "ext4" of "f+0x1/0x2 [ext4]"; "" if it has none.
func moduleOf(place string) string {
	_, m, _ := strings.Cut(place, " [")
	m, _, _ = strings.Cut(strings.TrimSuffix(m, "]"), " ") // a build id may follow
	return m
}

// look finds the instruction at a place; for a return address, the call before it.
func (o *oops) look(a *oopsAnswer) {
	addr, n := a.addr, uint64(1)
	var in disasm.Inst
	if o.c.dis != nil {
		// The start of a function is on the stack for other reasons.
		calls := a.kind != oopsIP && !strings.Contains(a.place, "+0x0/")
		if calls && addr > 0 {
			var ok bool
			if in, ok = o.c.around(a.view, addr-1); !ok || in.Addr+uint64(len(in.Bytes)) != addr {
				in = disasm.Inst{}
			}
		}
		if in.Bytes == nil {
			if insts := o.c.instsAt(a.view, addr, 1, nil); len(insts) > 0 {
				in = insts[0]
			}
		}
		if in.Bytes != nil {
			addr, n = in.Addr, uint64(len(in.Bytes))
			a.inst = instsText([]disasm.Inst{in}, len(in.Bytes))
		}
	}
	a.cut = o.eachVersion(addr, n, a.times, func(v *version) bool {
		if a.versions++; a.versions == 1 {
			a.first = *v
		}
		return true
	})
	if !o.meets(a.first.standing, "any") {
		o.found.below++
	}
}

// eachVersion calls f with each version of [addr, addr+n) in the interval, until it
// returns false. It reports whether there are more than maxVersions.
func (o *oops) eachVersion(addr, n uint64, times replay.Times, f func(v *version) bool) (cut bool) {
	if addr+n < addr {
		n = -addr
	}
	t := times.From
	for range maxVersions {
		v := o.c.version(o.r.Image.At(t), addr, n)
		if !f(&v) || !endsBy(v.until, times.To) {
			return false
		}
		t = v.until
	}
	return true
}

// The verdicts on a Code: line.
const (
	codeEqual   = "equal"
	codeTrap    = "trap"
	codeDiffers = "differs"
	codeUnknown = "unknown"
)

// A comparedCode is a Code: line, compared with the text.
type comparedCode struct {
	verdict      string
	code         []byte
	gaps         []bool
	since, until uint64 // of the version that is most like it
	view         timeline.View
	equal        int // bytes that are known and equal
	notKnown     int
	likely, odd  int          // of these, given bytes that are equal, and that differ
	differ       int          // bytes that are known and differ
	differences  []difference // these
	rows         []row
	trap         string // the kind of the change that is in flight
}

// compare compares a Code: line with the text around ip.
func (o *oops) compare(a *oopsAnswer, ip *oopsAnswer) {
	order := binary.ByteOrder(binary.LittleEndian)
	if o.r.Machine() != elf.EM_AARCH64 {
		order = o.c.order
	}
	c := &comparedCode{}
	unit := 1
	if a.wide {
		unit = 4
	}
	for i, v := range a.code {
		if unit == 1 {
			c.code = append(c.code, byte(v))
		} else {
			c.code = appendWord(order, c.code, uint32(v))
		}
		for range unit {
			c.gaps = append(c.gaps, a.gaps[i])
		}
	}
	switch {
	case !slices.Contains(a.gaps, false):
		a.err = errors.New("the kernel could not read the code")
		o.found.unknown++
		return
	case a.oopsItem.addr != 0:
		a.addr = a.oopsItem.addr
	case a.mark < 0:
		a.err = fmt.Errorf("no byte is marked, so the address of this code is unknown")
		o.found.unknown++
		return
	case ip.addr == 0:
		a.err = errors.New("its address is unknown")
		o.found.unknown++
		return
	default:
		a.addr = ip.addr - uint64(a.mark*unit)
	}
	// The kernel reads the code when it prints this line, after the CPU was there.
	if ip != nil && ip.how != "" && ip.how == a.how {
		a.times.From = min(a.times.From, ip.times.From)
	}
	a.compared = c
	a.cut = o.eachVersion(a.addr, uint64(len(c.code)), a.times, func(v *version) bool {
		a.versions++
		x := o.against(a.addr, c, v, a.times)
		if c.verdict == "" || verdictRank(x.verdict) < verdictRank(c.verdict) ||
			x.verdict == c.verdict && x.differ+x.odd < c.differ+c.odd {
			*c = x
		}
		return c.verdict != codeEqual
	})
	if c.verdict == codeDiffers && a.cut {
		c.verdict = codeUnknown // a later version may be equal
		o.found.unknown++
	}
	if c.verdict == codeDiffers {
		a.finding = true
		o.found.findings++
	}
	if c.notKnown > 0 && !o.meets(timeline.Unknown, "any") {
		o.found.below++
	}
}

// appendWord appends a word in a byte order.
func appendWord(order binary.ByteOrder, b []byte, v uint32) []byte {
	var w [4]byte
	order.PutUint32(w[:], v)
	return append(b, w[:]...)
}

func verdictRank(v string) int {
	return slices.Index([]string{codeEqual, codeTrap, codeUnknown, codeDiffers}, v)
}

// against compares code with one version of the text.
func (o *oops) against(addr uint64, c *comparedCode, v *version, times replay.Times) comparedCode {
	x := comparedCode{code: c.code, gaps: c.gaps, since: v.since, until: v.until, view: v.view, rows: v.rows}
	trapped := true
	for i := range v.spans {
		s := &v.spans[i]
		for j := range s.Len {
			k := int(s.Addr - addr + j)
			switch {
			case c.gaps[k]:
			case s.Standing != timeline.Known:
				x.notKnown++
				switch {
				case s.Bytes == nil:
				case s.Bytes[j] == c.code[k]:
					x.likely++
				default:
					x.odd++
				}
			case s.Bytes[j] == c.code[k]:
				x.equal++
			default:
				x.differ++
				at := addr + uint64(k)
				if n := len(x.differences); n > 0 && x.differences[n-1].addr+uint64(len(x.differences[n-1].got)) == at {
					d := &x.differences[n-1]
					d.have, d.got = append(d.have, s.Bytes[j]), append(d.got, c.code[k])
				} else {
					x.differences = append(x.differences, difference{at, []byte{s.Bytes[j]}, []byte{c.code[k]}})
				}
				kind, ok := o.inFlight(addr, c.code, k, v, times)
				if trapped = trapped && ok; ok {
					x.trap = kind
				}
			}
		}
	}
	switch {
	case len(x.differences) == 0 && x.notKnown == 0:
		x.verdict = codeEqual
	case len(x.differences) == 0:
		x.verdict = codeUnknown
	case trapped:
		x.verdict = codeTrap
	default:
		x.verdict = codeDiffers
	}
	return x
}

// inFlight reports whether a change that was in flight in this version's time explains
// the k-th byte of the code at addr.
func (o *oops) inFlight(addr uint64, code []byte, k int, v *version, times replay.Times) (kind string, ok bool) {
	from, to := max(times.From, v.since), times.To
	if v.until != timeline.MaxTime {
		to = min(to, v.until-1)
	}
	at, im := addr+uint64(k), o.r.Image
	for _, t := range []uint64{from, to} {
		for _, w := range o.r.Windows().At(at, 1, t) {
			old, new := make([]byte, w.Len), make([]byte, w.Len)
			if w.Switch == 0 || im.At(w.Switch-1).Read(w.Addr, old).Given < w.Len || im.At(w.Switch).Read(w.Addr, new).Given < w.Len {
				continue
			}
			if o.isHalfWritten(w.Addr, old, new, addr, code) {
				return w.Kind.String(), true
			}
		}
	}
	return "", false
}

// isHalfWritten reports whether the code at addr has a state of a site that its change
// goes through: on x86 INT3 as the first byte, and after it bytes of either side;
// elsewhere a trap in place of the instruction.
func (o *oops) isHalfWritten(site uint64, old, new []byte, addr uint64, code []byte) bool {
	seen := func(i int) (byte, bool) {
		k := int64(site - addr + uint64(i))
		if k < 0 || k >= int64(len(code)) {
			return 0, false // outside of what the oops shows
		}
		return code[k], true
	}
	trap := []byte{0xcc}
	switch o.r.Machine() {
	case elf.EM_X86_64:
	case elf.EM_AARCH64, elf.EM_PPC64:
		var word [4]byte
		for i := range word {
			b, ok := seen(i)
			if !ok {
				return false
			}
			word[i] = b
		}
		if o.r.Machine() == elf.EM_AARCH64 {
			return binary.LittleEndian.Uint32(word[:])&0xffe0001f == 0xd4200000 // BRK
		}
		return o.c.order.Uint32(word[:]) == 0x7fe00008 // trap
	case elf.EM_S390:
		trap = []byte{0, 2}
	default:
		return false
	}
	for i := range old {
		b, ok := seen(i)
		switch {
		case !ok:
		case i < len(trap):
			if b != trap[i] {
				return false
			}
		case b != old[i] && b != new[i]:
			return false
		}
	}
	return true
}

// writeItem prints an answer.
func (o *oops) writeItem(a *oopsAnswer) error {
	defer func() { o.written = true }()
	switch a.kind {
	case oopsReport:
		if a.known != "" {
			if a.err != nil {
				fmt.Fprintf(o.out, "  %s\n", o.style.paint(red, a.err.Error()))
			}
			return nil
		}
		if o.begun {
			fmt.Fprintf(o.out, "line %d: %s\n", a.line, o.style.paint(bold, a.text))
			return nil
		}
		o.begun = true
		when := "the log has no time that converts: compared with the text of all times"
		if a.how != "" {
			when = fmt.Sprintf("%s (%s, by %s)", around(a.times), clockName(o.r), a.how)
		}
		if o.written {
			fmt.Fprintln(o.out)
		}
		fmt.Fprintf(o.out, "%s\nline %d: %s\n", when, a.line, o.style.paint(bold, a.text))
	case oopsCode:
		o.begun = false
		o.writeCode(a)
	default:
		o.begun = false
		role := map[string]string{oopsIP: "ip", oopsLink: "link", oopsTrace: ""}[a.kind]
		if a.unsure {
			role = "?"
		}
		if a.err != nil {
			code := yellow
			if a.finding {
				code = red
			}
			fmt.Fprintf(o.out, "  %-4s %s: %s\n", role, a.place, o.style.paint(code, message(a.err)))
			if a.addr == 0 {
				return nil
			}
		}
		line := fmt.Sprintf("  %-4s %s %s", role, label(a.view, a.addr), o.style.standing(a.first.standing))
		if a.first.reason != timeline.ReasonNone {
			line += " (" + a.first.reason.String() + ")"
		}
		if a.inst != "" {
			line += "  " + a.inst
		}
		if a.versions > 1 {
			line += fmt.Sprintf("  (and %s in this interval%s)", count(a.versions-1, "later version"), a.more())
		}
		fmt.Fprintln(o.out, line)
	}
	return nil // the writer keeps its error for the end
}

// more says that there are versions which were not looked at.
func (a *oopsAnswer) more() string {
	if !a.cut {
		return ""
	}
	return ", and more that were not looked at"
}

// around prints an interval by its middle: "12.345678901 ± 1.01 s".
func around(t replay.Times) string {
	half := (t.To - t.From) / 2
	if half < 1000 {
		return replay.Seconds(t.From)
	}
	return fmt.Sprintf("%s ± %s", replay.Seconds(t.From+half), span(0, half))
}

func (o *oops) writeCode(a *oopsAnswer) {
	c := a.compared
	if c == nil {
		fmt.Fprintf(o.out, "  Code: %s\n", o.style.paint(yellow, a.err.Error()))
		return
	}
	from, to := "the start", "the end"
	if c.since != 0 {
		from = replay.Seconds(c.since)
	}
	if c.until != timeline.MaxTime {
		to = replay.Seconds(c.until)
	}
	what := map[string]string{
		codeEqual:   o.style.paint(green, "equal") + " to the text",
		codeTrap:    o.style.paint(yellow, "a trap in flight") + " (" + c.trap + ") in the text",
		codeDiffers: o.style.paint(red, "differs") + " from the text",
		codeUnknown: o.style.paint(yellow, "cannot be proved") + " by the text",
	}[c.verdict]
	fmt.Fprintf(o.out, "  Code: %s of %s to %s; %s at %s\n", what, from, to, count(len(c.code), "byte"), label(c.view, a.addr))
	if a.cut {
		fmt.Fprintf(o.out, "    compared with the first %s of this interval, not with those after them\n", count(a.versions, "version"))
	}
	if c.notKnown > 0 {
		fmt.Fprintf(o.out, "    %s known and equal; %s not known, of which %d are equal to the bytes that the recording gives and %d differ\n",
			count(c.equal, "byte"), count(c.notKnown, "byte"), c.likely, c.odd)
	}
	for _, d := range c.differences {
		// The instructions that differ, from the start of the first.
		var insts []disasm.Inst
		for _, in := range instsOf(c.rows) {
			if in.Addr < d.addr+uint64(len(d.have)) && d.addr < in.Addr+uint64(len(in.Bytes)) {
				insts = append(insts, in)
			}
		}
		lo, n := d.addr, len(d.got)
		if len(insts) > 0 {
			last := insts[len(insts)-1]
			lo, n = insts[0].Addr, int(last.Addr-insts[0].Addr)+len(last.Bytes)
		}
		at := lo - a.addr
		fmt.Fprintf(o.out, "    %s oops %s, text %s\n", label(c.view, lo), spaced(c.code[at:min(at+uint64(n), uint64(len(c.code)))]), instsText(insts, n))
	}
}

func (o *oops) summary() error {
	f := &o.found
	parts := []string{count(f.places, "place")}
	if f.findings > 0 {
		parts = append(parts, o.style.paint(red, count(f.findings, "finding")))
	} else {
		parts = append(parts, "no finding")
	}
	if f.unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d not in the recording", f.unknown))
	}
	_, err := fmt.Fprintf(o.out, "\n%s\n", strings.Join(parts, ", "))
	return err
}

// jsonOops is one line of the log. Fields that its kind does not have are left out.
type jsonOops struct {
	Line     int           `json:"line"`
	Kind     string        `json:"kind"` // report, ip, link, trace, code
	Text     string        `json:"text"`
	Time     *jsonInterval `json:"time"` // null if the log has none that converts
	TimeBy   string        `json:"time_by,omitempty"`
	Place    string        `json:"place,omitempty"`
	Addr     *string       `json:"addr,omitempty"`
	Symbol   *jsonSymbol   `json:"symbol,omitempty"`
	Unsure   bool          `json:"unsure,omitempty"`
	Error    string        `json:"error,omitempty"`
	Finding  bool          `json:"finding"`
	Standing string        `json:"standing,omitempty"`
	Reason   *jsonReason   `json:"reason,omitempty"`
	Insts    []jsonInst    `json:"instructions,omitempty"`
	Versions int           `json:"versions,omitempty"`     // in the interval
	Cut      bool          `json:"versions_cut,omitempty"` // there are more versions, which were not looked at
	// Of code: the comparison with the version that is most like it.
	Verdict  string `json:"verdict,omitempty"`
	Len      int    `json:"len,omitempty"`
	Equal    int    `json:"equal,omitempty"`
	NotKnown int    `json:"not_known,omitempty"`
	// Of these, bytes that the recording gives without proof.
	NotKnownEqual  int                  `json:"not_known_equal,omitempty"`
	NotKnownDiffer int                  `json:"not_known_differ,omitempty"`
	Since          *string              `json:"since,omitempty"`
	Until          *string              `json:"until,omitempty"`
	Trap           string               `json:"trap,omitempty"`
	Differences    []jsonOopsDifference `json:"differences,omitempty"`
}

type jsonOopsDifference struct {
	Addr string `json:"addr"`
	Oops string `json:"oops"`
	Text string `json:"text"`
}

func (o *oops) oopsJSON(a *oopsAnswer) *jsonOops {
	out := &jsonOops{Line: a.line, Kind: a.kind, Text: a.text, TimeBy: a.how, Place: a.place, Unsure: a.unsure, Finding: a.finding, Versions: a.versions, Cut: a.cut}
	if a.how != "" {
		from, to := decTime(a.times.From), decTime(a.times.To)
		out.Time = &jsonInterval{&from, &to}
	}
	if a.err != nil {
		out.Error = message(a.err)
	}
	if a.addr != 0 {
		h := hexAddr(a.addr)
		out.Addr, out.Symbol = &h, o.c.symbolJSON(a.view, a.addr)
	}
	if c := a.compared; c != nil {
		out.Verdict, out.Len, out.Equal, out.NotKnown, out.Trap = c.verdict, len(c.code), c.equal, c.notKnown, c.trap
		out.NotKnownEqual, out.NotKnownDiffer = c.likely, c.odd
		out.Since, out.Until = since(c.since), until(c.until)
		for _, d := range c.differences {
			out.Differences = append(out.Differences, jsonOopsDifference{hexAddr(d.addr), *hexBytes(d.got), *hexBytes(d.have)})
		}
	} else if a.versions > 0 {
		out.Standing, out.Reason = a.first.standing.String(), reasonJSON(a.first.reason)
		out.Insts = instsJSON(instsOf(a.first.rows))
	}
	return out
}
