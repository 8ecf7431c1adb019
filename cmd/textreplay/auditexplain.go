// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/internal/lazyregexp"
	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// An alert is bytes of kernel text that somebody asks about.
type alert struct {
	offset uint64 // from _stext
	now    []byte
}

// alertLine is what LKRG prints for each byte that differs, in a build with
// P_LKRG_JUMP_LABEL_STEXT_DEBUG (src/modules/integrity_timer). The bytes are
// signed: 0xffffffe9 is e9.
var alertLine = lazyregexp.New(`copy\[0x([0-9a-f]+)\] vs now\[0x([0-9a-f]+)\] offset\[(\d+) \| 0x([0-9a-f]+)\]`)

// mostAlerts bounds how many bytes of a log are explained.
const mostAlerts = 1 << 16

// alerts reads what is asked: OFFSET and BYTES, or LKRG's log on standard input.
func (x *audit) alerts(args []string) ([]alert, error) {
	if len(args) == 2 {
		offset, err := numbers.Parse(args[0], 64)
		if err != nil {
			return nil, usagef("OFFSET %q is not a number", args[0])
		}
		now, err := hex.DecodeString(strings.NewReplacer(" ", "", ":", "").Replace(strings.TrimPrefix(args[1], "0x")))
		if err != nil || len(now) == 0 || len(now) > 4096 {
			return nil, usagef("BYTES %q are not 1 to 4,096 bytes in hexadecimal", args[1])
		}
		return []alert{{offset, now}}, nil
	}
	if x.input == "-" {
		return nil, usagef("audit --explain reads LKRG's log from standard input, so the recording cannot be there (-i -)")
	}
	if err := x.reads("-"); err != nil {
		return nil, err
	}
	out, err := readAlerts(newLineReader(x.stdin, standardInput, x.out, x.unchanged))
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, inputError(fmt.Errorf("no line of %s is like LKRG's \"copy[0x..] vs now[0x..] offset[N | 0x..]\", which only a debug build prints", standardInput))
	}
	return out, nil
}

// readAlerts reads LKRG's lines and joins those of neighbouring bytes. A later line
// about the same byte begins a new alert.
func readAlerts(in *lineReader) ([]alert, error) {
	var out []alert
	n := 0
	for in.next() {
		m := alertLine().FindStringSubmatch(in.text)
		if m == nil {
			continue
		}
		now, err1 := strconv.ParseUint(m[2], 16, 64)
		offset, err2 := strconv.ParseUint(m[4], 16, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		if n++; n > mostAlerts {
			return nil, inputError(fmt.Errorf("reading %s: more than %d bytes differ", in.name, mostAlerts))
		}
		if last := len(out) - 1; last >= 0 && out[last].offset+uint64(len(out[last].now)) == offset {
			out[last].now = append(out[last].now, byte(now))
			continue
		}
		out = append(out, alert{offset, []byte{byte(now)}})
	}
	return out, in.err
}

// An explanation says when the text had the bytes of an alert, and who wrote them.
type explanation struct {
	alert
	addr  uint64
	had   []had
	pokes []explainedPoke // all changes of these bytes
	// unrecorded are changes of them that have no record, and that no loss excuses.
	unrecorded []*mechanism.Violation
}

// had is a time during which the text had the bytes.
type had struct {
	timeline.Validity
	standing timeline.Standing
	by       *explainedPoke // the change that made it so; nil if it was so before
}

// An explainedPoke is a change of the bytes of an alert.
type explainedPoke struct {
	time, addr uint64
	old, new   []byte
	cpu, tid   *uint32 // nil if not recorded
	comm       string
	mechanism  mechanism.Mechanism
	fault      *mechanism.Violation // nil if the change is accounted for
}

func (x *audit) explainAll(alerts []alert) error {
	lo, hi := x.r.Image.Text()
	if lo == 0 {
		return &exitError{exitUsage, replay.ErrNoKallsyms}
	}
	all := make([]explanation, len(alerts))
	for i, a := range alerts {
		if a.offset >= hi-lo || uint64(len(a.now)) > hi-lo-a.offset {
			return usagef("offset %#x is not in kernel text, which has %#x bytes", a.offset, hi-lo)
		}
		all[i] = explanation{alert: a, addr: lo + a.offset}
	}
	faults := make(map[[2]uint64]*mechanism.Violation)
	audited := x.classes.Audit(nil)
	for i := range audited.Violations {
		if v := &audited.Violations[i]; !v.Excused {
			faults[[2]uint64{v.Time, v.Addr}] = v
		}
	}
	x.findPokes(all, faults)
	for i := range all {
		e := &all[i]
		for k := range audited.Violations {
			v := &audited.Violations[k]
			n := uint64(max(len(v.Old), len(v.New)))
			if v.Fault == mechanism.Unrecorded && !v.Excused && v.Addr < e.addr+uint64(len(e.now)) && e.addr < v.Addr+n {
				e.unrecorded = append(e.unrecorded, v)
			}
		}
	}
	below := false
	for i := range all {
		e := &all[i]
		x.findTimes(e)
		if x.json {
			if err := encoder(x.out).Encode(x.explanationJSON(e)); err != nil {
				return outputError(err)
			}
		} else {
			x.writeExplanation(e, i > 0)
		}
		below = below || !e.accounted()
	}
	if below {
		return errBelow
	}
	return nil
}

// accounted reports whether the bytes were there, every change that made it so is accounted
// for, and none went unrecorded.
func (e *explanation) accounted() bool {
	for _, h := range e.had {
		if h.by != nil && h.by.fault != nil {
			return false
		}
	}
	return len(e.had) > 0 && len(e.unrecorded) == 0
}

// written reports whether a change wrote the bytes, whatever the text was after it.
func (e *explanation) written() bool {
	for i := range e.pokes {
		p := &e.pokes[i]
		if p.addr <= e.addr && e.addr-p.addr+uint64(len(e.now)) <= uint64(len(p.new)) && bytes.Equal(p.new[e.addr-p.addr:][:len(e.now)], e.now) {
			return true
		}
	}
	return false
}

// findPokes finds the changes of each alert's bytes.
func (x *audit) findPokes(all []explanation, faults map[[2]uint64]*mechanism.Violation) {
	byAddr := make(map[uint64][]*explanation) // of each byte that is asked about
	for i := range all {
		for n := range all[i].now {
			byAddr[all[i].addr+uint64(n)] = append(byAddr[all[i].addr+uint64(n)], &all[i])
		}
	}
	lo, hi := x.r.Image.Text()
	for c := range x.r.Changes() {
		p := c.Poke
		if p == nil || p.Addr < lo || p.Addr >= hi {
			continue
		}
		met := make(map[*explanation]bool)
		for n := range max(len(p.Old), len(p.New)) {
			for _, e := range byAddr[p.Addr+uint64(n)] {
				met[e] = true
			}
		}
		for e := range met {
			ex := explainedPoke{time: c.Time, addr: p.Addr, old: bytes.Clone(p.Old), new: bytes.Clone(p.New), comm: c.Comm,
				mechanism: x.classes.Of(c), fault: faults[[2]uint64{c.Time, p.Addr}]}
			if tid := p.TID; p.Has&perfdata.SampleTID != 0 {
				ex.tid = &tid
			}
			if cpu := p.CPU; p.Has&perfdata.SampleCPU != 0 {
				ex.cpu = &cpu
			}
			e.pokes = append(e.pokes, ex)
		}
	}
}

// findTimes finds when the text had an alert's bytes.
func (x *audit) findTimes(e *explanation) {
	buf := make([]byte, len(e.now))
	for b := range x.r.Image.Versions(e.addr, buf, 0, timeline.MaxTime) {
		if b.Given < len(buf) || !bytes.Equal(buf, e.now) || !b.Standing.HasBytes() {
			continue
		}
		h := had{Validity: b.Validity, standing: b.Standing}
		for i := range e.pokes {
			if e.pokes[i].time == b.Since && b.Since != 0 {
				h.by = &e.pokes[i]
			}
		}
		if n := len(e.had); n > 0 && h.by == nil && e.had[n-1].Until == h.Since {
			last := &e.had[n-1]
			if last.standing == h.standing {
				last.Until = h.Until
				continue
			}
			h.by = last.by // only the standing changed
		}
		e.had = append(e.had, h)
	}
}

func (x *audit) writeExplanation(e *explanation, blank bool) {
	w := x.out
	if blank {
		fmt.Fprintln(w)
	}
	v := x.r.Image.At(x.r.Report.First)
	fmt.Fprintf(w, "_stext+%#x is %s, bytes % x:\n", e.offset, strings.TrimSuffix(label(v, e.addr), ":"), e.now)
	if len(e.had) == 0 {
		never := "  never had these bytes in this recording"
		if e.written() {
			never = "  a change wrote these bytes, but others contradict it, so the text after it is not known"
		}
		fmt.Fprintln(w, x.style.paint(red, never))
	}
	for i, h := range e.had {
		if x.limit > 0 && i == x.limit {
			fmt.Fprintf(w, "  and %s more (--limit 0 lists all)\n", count(len(e.had)-i, "interval"))
			break
		}
		fmt.Fprintf(w, "  %s: %v\n", during(h.Since, h.Until), h.standing)
		if next := i + 1; next == len(e.had) || next == x.limit || e.had[next].by != h.by || e.had[next].Since != h.Until {
			x.writeBy(h.by)
		}
	}
	if len(e.had) == 0 && len(e.pokes) > 0 {
		fmt.Fprintf(w, "  %s of them:\n", count(len(e.pokes), "change"))
		for i := range e.pokes {
			if x.limit > 0 && i == x.limit {
				fmt.Fprintf(w, "    and %s more (--limit 0 lists all)\n", thousands(len(e.pokes)-i))
				break
			}
			x.writeBy(&e.pokes[i])
		}
	}
	for i, v := range e.unrecorded {
		if x.limit > 0 && i == x.limit {
			fmt.Fprintf(w, "\nand %s more (--limit 0 lists all)\n", thousands(len(e.unrecorded)-i))
			break
		}
		x.writeViolation(v)
	}
}

func (x *audit) writeBy(p *explainedPoke) {
	if p == nil {
		fmt.Fprintln(x.out, "    so before, or not by a recorded change")
		return
	}
	verdict := "accounted for"
	if p.fault != nil {
		verdict = x.style.paint(red, "not accounted for: "+p.fault.Fault.Text())
	}
	who := "writer not recorded"
	if p.tid != nil {
		who = writerText(p.comm, *p.tid)
	}
	if p.cpu != nil {
		who = fmt.Sprintf("cpu %d  %s", *p.cpu, who)
	}
	old, new := x.sides(&mechanism.Violation{Time: p.time, Addr: p.addr, Old: p.old, New: p.new})
	fmt.Fprintf(x.out, "    %s  %s  %v, %s\n    %s  ->  %s\n", replay.Seconds(p.time), who, p.mechanism, verdict, old, new)
}

// The JSON of audit --explain: one object a line for each alert.
type (
	jsonExplanation struct {
		Offset    string         `json:"offset"`
		Addr      string         `json:"addr"`
		Symbol    *jsonSymbol    `json:"symbol"`
		Bytes     string         `json:"bytes"`
		Accounted bool           `json:"accounted"`
		Had       []jsonHad      `json:"had"`
		Changes   []jsonExplPoke `json:"changes"`
		// Findings are changes of these bytes that no record shows, as audit lists them.
		Findings []jsonViolation `json:"findings"`
	}
	jsonHad struct {
		Since    *string       `json:"since"`
		Until    *string       `json:"until"`
		Standing string        `json:"standing"`
		By       *jsonExplPoke `json:"by"`
	}
	jsonExplPoke struct {
		Time      string  `json:"time"`
		CPU       *uint32 `json:"cpu"`
		TID       *uint32 `json:"tid"`
		Comm      *string `json:"comm"`
		Addr      string  `json:"addr"`
		Old       string  `json:"old"`
		New       string  `json:"new"`
		Mechanism string  `json:"mechanism"`
		Fault     *string `json:"fault"`
	}
)

func (x *audit) explanationJSON(e *explanation) *jsonExplanation {
	out := &jsonExplanation{hexAddr(e.offset), hexAddr(e.addr), placeOf(x.r.Image.At(x.r.Report.First), e.addr).json(),
		hex.EncodeToString(e.now), e.accounted(), []jsonHad{}, []jsonExplPoke{}, []jsonViolation{}}
	one := func(p *explainedPoke) *jsonExplPoke {
		if p == nil {
			return nil
		}
		j := &jsonExplPoke{decTime(p.time), p.cpu, p.tid, nonEmpty(p.comm), hexAddr(p.addr), hex.EncodeToString(p.old), hex.EncodeToString(p.new), p.mechanism.String(), nil}
		if p.fault != nil {
			j.Fault = nonEmpty(p.fault.Fault.String())
		}
		return j
	}
	for _, h := range e.had {
		out.Had = append(out.Had, jsonHad{since(h.Since), until(h.Until), h.standing.String(), one(h.by)})
	}
	for i := range e.pokes {
		out.Changes = append(out.Changes, *one(&e.pokes[i]))
	}
	for _, v := range e.unrecorded {
		out.Findings = append(out.Findings, x.violationJSON(v))
	}
	return out
}
