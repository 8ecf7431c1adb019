// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A question is a place and a time, as a line of text has them.
type question struct {
	addr  string // as it was written; "" if it is missing
	when  string // likewise
	n     uint64 // bytes; 0: as the flags say
	hex   bool   // perf printed the address: it is no name
	value uint64 // the address, if hex is set
	// space is "user", "guest" or "kernel" if perf printed the file that has the
	// address, else "".
	space string
	err   error // why the line cannot be read
}

// A questionParser reads lines of questions and of perf script. It remembers the time of
// a sample, because the addresses of its call chain are on the lines after it.
type questionParser struct {
	when     string // of the sample
	inSample bool
	asked    []question
}

// parse returns the questions of a line, none for a comment or for a line of perf
// script that has no address. The result is valid until the next call.
func (p *questionParser) parse(line string) []question {
	p.asked = p.asked[:0]
	tokens := tokensOf(line)
	if len(tokens) == 0 {
		p.inSample, p.when = false, "" // perf prints an empty line after a call chain
		return nil
	}
	at := perfTime(tokens)
	switch {
	case isComment(line, tokens, at):
		return nil
	case at == len(tokens)-1 && strings.HasSuffix(line, ": "):
		// perf prints a space, and the call chain on the lines after it.
		p.header(line, tokens, at)
	case at < 0 && isUndatedHeader(line, tokens):
		p.inSample, p.when = true, ""
	case p.plain(tokens, at):
	case at >= 0:
		p.header(line, tokens, at)
	case p.isChain(line, tokens):
		p.chain(tokens)
	case p.inSample:
		// Source lines (-F +srcline, +srccode) and other fields of the sample.
	case p.undated(tokens):
	default:
		p.asked = append(p.asked, question{addr: tokens[0].text, when: lastTime(tokens),
			err: fmt.Errorf("want \"ADDR TIME [BYTES]\" or a line of perf script, got %s", count(len(tokens), "field"))})
	}
	return p.asked
}

// isComment reports whether a line is a comment. A thread may have a name that begins with '#':
// perf prints its number, or the CPU, before the time. at is the token that is perf's time.
func isComment(line string, tokens []token, at int) bool {
	if tokens[0].text[0] != '#' {
		return false
	}
	if line[0] == '#' {
		return at < 2 || !isInt(tokens[at-1].text)
	}
	return (at < 2 || !isTask(tokens[at-1].text) && !isCPU(tokens[at-1].text)) && !isUndatedHeader(line, tokens)
}

// A token is a word of a line.
type token struct {
	text string
	gap  int // columns since the end of the token before
}

func tokensOf(line string) []token {
	var out []token
	end := 0
	for i := 0; i < len(line); {
		if isSpace(line[i]) {
			i++
			continue
		}
		start := i
		for i < len(line) && !isSpace(line[i]) {
			i++
		}
		out = append(out, token{line[start:i], start - end})
		end = i
	}
	return out
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r' }

func isInt(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// isClock reports whether s is a time as perf prints it: seconds with six or nine digits
// after the point.
func isClock(s string) bool {
	whole, frac, ok := strings.Cut(s, ".")
	return ok && isInt(whole) && isInt(frac) && (len(frac) == 6 || len(frac) == 9)
}

// perfTime returns the index of the token that is perf's time, "11.116404:" or
// "11.116404]" of "[   11.116404]"; -1 if there is none. A thread may have a name that
// looks like one, so a time after the fields that perf prints before it is preferred.
func perfTime(tokens []token) int {
	best, most := -1, -1
	for i := range tokens {
		t := tokens[i].text
		switch {
		case strings.HasSuffix(t, ":") && isClock(t[:len(t)-1]):
		case strings.HasSuffix(t, "]") && isClock(strings.TrimPrefix(t[:len(t)-1], "[")) && (t[0] == '[' || i > 0 && tokens[i-1].text == "["):
		default:
			continue
		}
		score := 0
		if i > 0 {
			prev := tokens[i-1].text
			cpu := isCPU(prev)
			switch {
			case cpu && i > 1 && isTask(tokens[i-2].text):
				score = 3
			case cpu:
				score = 2
			case isTask(prev):
				score = 1
			}
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// isTask reports whether s is "TID" or "PID/TID".
func isTask(s string) bool {
	pid, tid, two := strings.Cut(s, "/")
	return isInt(strings.TrimPrefix(pid, "-")) && (!two || isInt(strings.TrimPrefix(tid, "-")))
}

// isCPU reports whether s is a CPU as perf prints it: "[003]".
func isCPU(s string) bool {
	return len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' && isInt(s[1:len(s)-1])
}

// lastTime returns a token that is a time, "" if there is none.
func lastTime(tokens []token) string {
	for i := len(tokens) - 1; i > 0; i-- {
		if isTimeLike(tokens[i].text) {
			return tokens[i].text
		}
	}
	return ""
}

// isTimeLike reports whether s may be a time, and is no part of an address.
func isTimeLike(s string) bool {
	return s == "start" || s == "end" || len(s) > 0 && s[0] >= '0' && s[0] <= '9' && !strings.HasPrefix(s, "0x")
}

// mayBeTime reports whether s begins as a time in any form.
func mayBeTime(s string) bool {
	for _, word := range []string{"start", "end"} {
		if rest, ok := strings.CutPrefix(s, word); ok && (rest == "" || strings.IndexByte("+-.", rest[0]) >= 0) {
			return true
		}
	}
	return isTimeLike(s) || strings.HasPrefix(s, "@") || strings.HasPrefix(s, "tsc:") || strings.HasPrefix(s, "wall:") || s[0] == '['
}

// isAddr16 reports whether s is an address as perf prints those of the kernel.
func isAddr16(s string) bool { return len(s) == 16 && isHex(s) }

// isUndatedHeader reports whether a line is a thread's name and number as perf script prints
// them before a call chain, if it prints no time: "         swapper     0 ". A question has no
// such spaces.
func isUndatedHeader(line string, tokens []token) bool {
	if len(tokens) < 2 || len(tokens) > 3 || !strings.HasSuffix(line, " ") || isAddr16(tokens[0].text) {
		return false
	}
	tid := tokens[1]
	if len(tokens) == 3 && !isCPU(tokens[2].text) {
		return false
	}
	return isTask(tid.text) && (tid.gap > 1 || tokens[0].gap > 0)
}

// errUndated is the error of an address that perf script printed without a time.
var errUndated = errors.New("no time before this address (perf script -F +time prints it)")

// undated reads the addresses of a line of perf script that has no time, and reports whether
// there are any.
func (p *questionParser) undated(tokens []token) bool {
	for i, t := range tokens {
		if isAddr16(t.text) || i+1 < len(tokens) && isHex(t.text) && (isFile(tokens[i+1].text) || tokens[i+1].text == "[unknown]" || i+2 < len(tokens) && isFile(tokens[i+2].text)) {
			p.add(t.text, spaceOf(tokens, i, len(tokens)))
			p.asked[len(p.asked)-1].err = errUndated
		}
	}
	return len(p.asked) > 0
}

// plain reads "ADDR TIME [BYTES]". ADDR may be "symbol+0x10/0x20 [module]". at is the
// token that is perf's time.
func (p *questionParser) plain(tokens []token, at int) bool {
	if len(tokens) < 2 || len(tokens) > 4 || tokens[0].text[0] == '#' {
		return false
	}
	addr, rest := tokens[0].text, tokens[1:]
	if last := tokens[len(tokens)-1].text; at < 0 && (isAddr16(addr) && !mayBeTime(rest[0].text) ||
		isHex(addr) && rest[0].text == "[unknown]" || !isAddr16(addr) && isAddr16(last)) {
		return false // perf printed it without a time
	}
	if m := rest[0].text; m[0] == '[' && m[len(m)-1] == ']' && len(rest) > 1 && isTimeLike(rest[1].text) && !(p.inSample && isHex(addr)) {
		addr, rest = addr+" "+m, rest[1:]
	}
	if len(rest) > 2 || len(rest) == 2 && !isTimeLike(rest[0].text) && at < 0 && (p.inSample || !isTimeLike(rest[1].text)) {
		return false
	}
	q := question{addr: addr, when: rest[0].text}
	// "11.116404: ffffffff81000000" is perf's order, and so is "swapper 0 11.116404:".
	if at >= 0 && (at != len(tokens)-len(rest) || len(rest) > 1 && !isInt(rest[1].text)) {
		return false
	}
	if at < 0 && p.inSample && !isTimeLike(rest[0].text) {
		return false // a line of a call chain: ffffffff81000000 do_idle
	}
	if at >= 0 && isHex(addr) {
		q.setHex(addr)
	}
	if len(rest) == 2 {
		v, err := numbers.Parse(rest[1].text, 64)
		if err != nil || v == 0 || v > maxBytes {
			q.err = &replay.QuestionError{Text: rest[1].text, Msg: fmt.Sprintf("the number of bytes must be from 1 to %d", maxBytes)}
		}
		q.n = v
	}
	p.inSample, p.when = false, ""
	p.asked = append(p.asked, q)
	return true
}

// isHex reports whether s is an address as perf prints it, without 0x.
func isHex(s string) bool {
	if s == "" || len(s) > 16 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func (q *question) setHex(digits string) {
	q.value, _ = strconv.ParseUint(digits, 16, 64)
	q.hex, q.addr = true, hexAddr(q.value)
}

// header reads the line that has a sample's time, or that of another record. at is the
// token with the time.
func (p *questionParser) header(line string, tokens []token, at int) {
	p.when = strings.TrimRight(strings.TrimPrefix(tokens[at].text, "["), ":]")
	p.inSample = true
	// Another program may have put addresses first.
	for i := range at {
		if t := tokens[i].text; len(t) == 16 && isHex(t) {
			p.add(t, spaceOf(tokens, i, at))
		}
	}
	rest := tokens[at+1:]
	last := -2 // the last token that is an address
	for i := range rest {
		t := rest[i].text
		if strings.HasPrefix(t, "0x") && strings.Contains(t, "/") {
			p.branch(t)
			continue
		}
		if strings.Count(t, "/") > 2 && strings.Contains(t, "+0x") {
			p.branch(t)
			continue
		}
		digits := strings.TrimSuffix(strings.TrimPrefix(t, "("), ")") // of a probe: (ffffffff81000000 <- ffffffff81000010)
		digits, prefixed := strings.CutPrefix(digits, "0x")
		if !isHex(digits) || len(digits) < 16 && (prefixed || !isAddress(rest, i) || last == i-1 && rest[i].gap == 1) {
			continue // for example a symbol's name
		}
		last = i
		p.add(digits, spaceOf(rest, i, len(rest)))
	}
}

// isAddress reports whether the i-th token after the time, less than 16 hexadecimal
// digits, is an address. Periods, weights and numbers of tracepoints look the same.
func isAddress(rest []token, i int) bool {
	if len(rest) == 1 {
		return true
	}
	digits := rest[i].text
	padded := rest[i].gap+len(digits) > 16 // perf prints 16 columns, and a space before them
	if i+1 < len(rest) {
		switch next := rest[i+1].text; {
		case next[0] == '|':
			return false // data_src, with its meaning
		case next == "[unknown]", isFile(next):
			return true
		case i+2 < len(rest) && isFile(rest[i+2].text):
			return true
		}
	}
	if !padded {
		return false
	}
	if isInt(digits) {
		// A weight has the same width, but the address is after it.
		for j := i + 1; j < len(rest); j++ {
			if t := rest[j]; isHex(t.text) && (len(t.text) == 16 || t.gap+len(t.text) > 16) {
				return false
			}
		}
	}
	return true
}

// isFile reports whether a token is the mapped file that perf prints after an address.
func isFile(s string) bool {
	if len(s) < 3 || s[0] != '(' {
		return false
	}
	return strings.ContainsAny(s, "/[") || strings.Contains(s, ".ko") || strings.HasPrefix(s, "(bpf_") || s == "(inlined)"
}

// spaceOf returns whose the address in token i is, by the file that perf prints after it.
func spaceOf(tokens []token, i, end int) string {
	for j := i + 1; j < end && j < i+3; j++ {
		t := tokens[j].text
		switch {
		case !isFile(t):
			continue
		case strings.HasPrefix(t, "([guest."):
			return "guest"
		case strings.HasPrefix(t, "([kernel"), isModuleFile(t), strings.HasPrefix(t, "(bpf_"):
			return "kernel"
		case strings.Contains(t, "/vmlinux"), strings.HasSuffix(t, "/kcore)"), strings.HasSuffix(t, "/kallsyms)"), strings.HasPrefix(t, "([unknown]"), t == "(inlined)":
			return ""
		case strings.HasPrefix(t, "(/"), strings.HasPrefix(t, "([vdso]"), strings.HasPrefix(t, "([vsyscall]"), strings.HasPrefix(t, "([heap]"), strings.HasPrefix(t, "([stack]"):
			return "user"
		}
		return "" // a module: ([virtio_blk])
	}
	return ""
}

// isModuleFile reports whether perf printed the file of a module: "(/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz)".
func isModuleFile(file string) bool {
	file = strings.TrimSuffix(file, ")")
	for _, packed := range []string{".gz", ".xz", ".zst"} {
		file = strings.TrimSuffix(file, packed)
	}
	return strings.HasSuffix(file, ".ko")
}

func (p *questionParser) add(digits, space string) {
	q := question{when: p.when, space: space}
	q.setHex(digits)
	p.asked = append(p.asked, q)
}

// branch reads an entry of a branch stack: 0xFROM/0xTO/P/-/-/0, with (file) after each
// address in some forms, or sym+0x1/sym+0x2/P/-/-/0.
func (p *questionParser) branch(entry string) {
	for part := range strings.SplitSeq(entry, "/") {
		name, file, _ := strings.Cut(part, "(")
		switch digits, ok := strings.CutPrefix(name, "0x"); {
		case ok && isHex(digits):
			space := ""
			if strings.HasPrefix(file, "[kernel") {
				space = "kernel"
			}
			p.add(digits, space)
		case strings.Contains(name, "+0x"):
			p.asked = append(p.asked, question{addr: name, when: p.when})
		}
	}
}

// isChain reports whether a line is of a call chain: an address, or only a name.
func (p *questionParser) isChain(line string, tokens []token) bool {
	first := tokens[0].text
	switch indented := isSpace(line[0]); {
	case isHex(first) && (p.inSample || indented || len(first) == 16):
		return len(tokens) == 1 || !p.inSample || !isInt(tokens[1].text)
	case p.inSample && indented && strings.Contains(first, "+0x"):
		return len(tokens) == 1 || isFile(tokens[1].text)
	}
	return false
}

func (p *questionParser) chain(tokens []token) {
	first := tokens[0].text
	if isHex(first) {
		// A name of C++ has spaces in it.
		p.add(first, spaceOf(tokens, max(0, len(tokens)-2), len(tokens)))
	} else {
		p.asked = append(p.asked, question{addr: first, when: p.when})
	}
	if p.when == "" {
		p.asked[len(p.asked)-1].err = errUndated
	}
}
