// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/internal/lazyregexp"
)

// The kinds of what a report shows.
const (
	oopsReport = "report" // the line that begins it
	oopsIP     = "ip"     // where the CPU was
	oopsLink   = "link"   // the link register
	oopsTrace  = "trace"  // an entry of a call trace
	oopsCode   = "code"   // the instructions around ip
)

// An oopsItem is what a line of a report says of kernel text.
type oopsItem struct {
	logLine
	kind  string
	place string // symbol+0x1/0x2 [module], or 0x...
	// addr is the address that is printed with the name; 0 if there is none, because
	// newer kernels do not print it.
	addr   uint64
	unsure bool // "? ": found on the stack, may be left from an earlier call
	user   bool // of user space
	// nested says that the place is where an interrupt came, in a call trace: the code that
	// follows is not of this place.
	nested bool
	// code are the bytes of a Code: line, or the words if wide is set; mark is the index of
	// the one at ip, -1 if none is marked. gaps has those that the kernel could not read.
	code  []uint64
	gaps  []bool
	mark  int
	wide  bool
	odd   string // why the line does not say which bytes are where; "" if it does
	known string // the kernel's release that the report has; of oopsReport
}

var (
	// A name of the kernel's, with offset and size.
	placeText = `[\w.$:]+\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[[\w-]+(?: [0-9a-f]{8,})?\])?`

	x86IP    = lazyregexp.New(`\bRIP: ?(?:([0-9a-f]{4}):)?(?:\[<([0-9a-f]+)>\]\s*)*(?:\[<[0-9a-f]+>\]\s*)?(` + placeText + `|0x[0-9a-f]+)?`)
	armIP    = lazyregexp.New(`^\s*(pc|lr|epc) : \[?<?(` + placeText + `|0x[0-9a-f]+|[0-9a-f]{8,16})`)
	armOldIP = lazyregexp.New(`^\s*(PC|LR) is at (` + placeText + `)`)
	riscvRA  = lazyregexp.New(`^\s*ra : (` + placeText + `)`)
	raBehind = lazyregexp.New(`\b(?:ra|lr) : (` + placeText + `)`)
	ppcIP    = lazyregexp.New(`^(NIP|LR) \[([0-9a-f]{16})\] (` + placeText + `|0x[0-9a-f]+)`)
	// powerpc shows the registers of each interrupt in a call trace, between two such lines.
	interrupt = lazyregexp.New(`^--- interrupt: [0-9a-f]+(?: at (` + placeText + `|0x[0-9a-f]+))?`)
	s390IP    = lazyregexp.New(`^Krnl PSW : [0-9a-f]{16} ([0-9a-f]{16})(?: \((` + placeText + `)\))?`)
	traceLine = lazyregexp.New(`^\s*(?:\[[0-9a-f]{16}\] )?(\? )?\(?\[?<?([0-9a-f]{8,16}|0)?>?\]?\)?\s*(\? )?(` + placeText + `)(?: \((?:unreliable|P|O|C|U|F|PO)*\))?\)?\s*$`)
	// Code without a symbol, such as a trampoline. Addresses of user space are left out.
	bareTrace = lazyregexp.New(`^\s*(\? )?(?:\[<[0-9a-f]{16}>\] )?0x([89a-f][0-9a-f]{15})\s*$`)
	codeLine  = lazyregexp.New(`^\s*Code: ([0-9a-f<>()? ]+|[<(]?(?:[0-9a-f]{2}|[0-9a-f]{8})[>)]? .*)$`)
	dumpLine  = lazyregexp.New(`^((?:(?:<?[0-9a-f]{8}>?|X{8})(?: |$)){4,})$`)
	s390Code  = lazyregexp.New(`^(?:Krnl Code:)?\s*([>#]?)\s*([0-9a-f]{16}): ([0-9a-f]{4,12})\b`)
	starts    = lazyregexp.New(`^(?:-+\[ cut here \]-+|(?:\S+: )?BUG: |WARNING: |Oops: |Internal error: |Unable to handle |general protection fault|invalid opcode|divide error|int3: |kernel BUG at |Kernel panic|INFO: |(?:NMI )?watchdog: |rcu: INFO|sysrq: |NMI backtrace|task:\S+ +state:|Kernel panic|stack segment|double fault|Unknown program exception|illegal operation|traps: )`)
	releaseOf = lazyregexp.New(`^CPU: \d+ (?:UID: \d+ )?PID: \d+ Comm: .*? (?:Not tainted|Tainted: [A-Z ]+?(?:\[[^\]]*\] ?)*) ?(\d+\.\d+\S*)`)
)

// An oopsParser finds in the kernel's log what is said of kernel text.
type oopsParser struct {
	nested bool // between two lines "--- interrupt:"
	s390   *oopsItem
	dump   *oopsItem // of powerpc: "Instruction dump:" and the lines after it
	out    []oopsItem
}

// parse returns the items of a line. The last call has no line.
func (p *oopsParser) parse(l *logLine) []oopsItem {
	p.out = nil
	if l == nil {
		p.flush()
		return p.out
	}
	text := l.text
	if p.dump != nil {
		if m := dumpLine().FindStringSubmatch(text); m != nil {
			p.dump.addCode(m[1])
			return p.out
		}
	}
	if m := s390Code().FindStringSubmatch(text); m != nil && (p.s390 != nil || strings.HasPrefix(text, "Krnl Code:")) {
		p.addS390(l, m)
		return p.out
	}
	p.flush()
	item := oopsItem{logLine: *l, mark: -1}
	switch {
	case strings.HasPrefix(text, "Instruction dump:"):
		item.kind, item.wide = oopsCode, true
		p.dump = &item
		return p.out
	case p.registers(text, &item):
	case codeLine().MatchString(text):
		item.kind = oopsCode
		item.addCode(codeLine().FindStringSubmatch(text)[1])
		if len(item.code) == 0 && item.odd == "" {
			return p.out
		}
	case traceLine().MatchString(text):
		m := traceLine().FindStringSubmatch(text)
		item.kind, item.place = oopsTrace, m[4]
		item.unsure = m[1] != "" || m[3] != "" || strings.Contains(text, "(unreliable)")
		item.addr, _ = strconv.ParseUint(m[2], 16, 64)
	case bareTrace().MatchString(text):
		m := bareTrace().FindStringSubmatch(text)
		item.kind, item.unsure, item.place = oopsTrace, m[1] != "", "0x"+m[2]
		item.addr, _ = strconv.ParseUint(m[2], 16, 64)
	case releaseOf().MatchString(text):
		item.kind, item.known = oopsReport, releaseOf().FindStringSubmatch(text)[1]
	case starts().MatchString(text):
		item.kind = oopsReport
		p.nested = false
	}
	if item.kind != "" {
		p.out = append(p.out, item)
	}
	return p.out
}

// registers reads a line that says where the CPU was, or what the link register had, and
// reports whether text is one. The kind of item is "" if the line names no place.
func (p *oopsParser) registers(text string, item *oopsItem) bool {
	switch {
	case x86IP().MatchString(text) && strings.Contains(text, "RIP"):
		m := x86IP().FindStringSubmatch(text)
		item.kind, item.place = oopsIP, m[3]
		item.addr, _ = strconv.ParseUint(m[2], 16, 64)
		// The two lower bits of the segment are the privilege level; Xen's is e030.
		seg, err := strconv.ParseUint(m[1], 16, 16)
		item.user = err == nil && seg&3 == 3
		if item.place == "" && item.addr == 0 {
			item.kind = ""
		}
	case armIP().MatchString(text):
		m := armIP().FindStringSubmatch(text)
		item.kind, item.place = oopsIP, m[2]
		if m[1] == "lr" {
			item.kind = oopsLink
		}
		if !strings.Contains(item.place, "+") {
			item.place = "0x" + strings.TrimPrefix(item.place, "0x")
		}
		if r := raBehind().FindStringSubmatch(text); r != nil && m[1] == "epc" {
			p.out = append(p.out, *item)
			item.kind, item.place = oopsLink, r[1]
		}
	case armOldIP().MatchString(text):
		m := armOldIP().FindStringSubmatch(text)
		item.kind, item.place = oopsIP, m[2]
		if m[1] == "LR" {
			item.kind = oopsLink
		}
	case riscvRA().MatchString(text):
		item.kind, item.place = oopsLink, riscvRA().FindStringSubmatch(text)[1]
	case ppcIP().MatchString(text):
		m := ppcIP().FindStringSubmatch(text)
		item.kind, item.place, item.nested = oopsIP, m[3], p.nested
		if m[1] == "LR" {
			item.kind = oopsLink
		}
		item.addr, _ = strconv.ParseUint(m[2], 16, 64)
		item.user = isPPCUser(item.addr)
	case interrupt().MatchString(text):
		m := interrupt().FindStringSubmatch(text)
		if p.nested = m[1] != ""; !p.nested {
			return true // it ends
		}
		item.kind, item.place, item.nested = oopsIP, m[1], true
		if addr, err := strconv.ParseUint(m[1], 0, 64); err == nil {
			item.addr, item.user = addr, isPPCUser(addr)
		}
	case s390IP().MatchString(text):
		m := s390IP().FindStringSubmatch(text)
		item.kind, item.place = oopsIP, m[2]
		item.addr, _ = strconv.ParseUint(m[1], 16, 64)
	default:
		return false
	}
	return true
}

// isPPCUser reports whether an address of 64-bit powerpc is of user space: the kernel's begin
// at c000000000000000. Lower ones below 64 kB are those that a bad jump leads to.
func isPPCUser(addr uint64) bool { return addr>>60 == 0 && addr >= 1<<16 }

// flush ends code that has several lines.
func (p *oopsParser) flush() {
	for _, item := range []*oopsItem{p.dump, p.s390} {
		if item != nil && len(item.code) > 0 {
			p.out = append(p.out, *item)
		}
	}
	p.dump, p.s390 = nil, nil
}

// addCode adds the bytes or words of a line: "0f 1f <0f> 0b", "d503201f (b9400000)".
func (i *oopsItem) addCode(text string) {
	for f := range strings.FieldsSeq(text) {
		bare := strings.Trim(f, "<>()")
		if bare != f {
			if i.mark >= 0 {
				i.odd = "two bytes are marked, so the address of this code is unknown"
			}
			i.mark = len(i.code)
		}
		gap := strings.ContainsAny(bare, "?X") || bare == ""
		v, err := strconv.ParseUint(bare, 16, 64)
		if err != nil && !gap {
			i.odd = "a part of this line is no code: it is damaged, or another line is in it"
			return
		}
		i.wide = i.wide || len(bare) > 2
		i.code, i.gaps = append(i.code, v), append(i.gaps, gap)
	}
}

// addS390 adds a line of "Krnl Code:", which has the address of each instruction.
func (p *oopsParser) addS390(l *logLine, m []string) {
	addr, _ := strconv.ParseUint(m[2], 16, 64)
	code, err := hex.DecodeString(m[3])
	if err != nil {
		return
	}
	if p.s390 == nil {
		p.s390 = &oopsItem{logLine: *l, kind: oopsCode, addr: addr, mark: -1}
	}
	if addr != p.s390.addr+uint64(len(p.s390.code)) {
		return // a hole
	}
	if m[1] == ">" {
		p.s390.mark = len(p.s390.code)
	}
	for _, b := range code {
		p.s390.code, p.s390.gaps = append(p.s390.code, uint64(b)), append(p.s390.gaps, false)
	}
}
