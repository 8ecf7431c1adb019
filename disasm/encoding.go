// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"strconv"
	"strings"
)

// encoding is a row of the tables for the architectures whose instructions are
// words: an instruction that golang.org/x/arch does not know.
type encoding struct {
	mask, value uint32
	// text is the instruction as objdump prints it. In it % begins an operand:
	// a letter, and the number of its lowest bit in the word, counted from the
	// least significant.
	//
	//	%u %h  number, decimal or hexadecimal
	//	%d     signed decimal number
	//	%o     ", #" and a signed decimal number; nothing if it is 0
	//
	// A number is followed by its width in bits, ":9", and, if it is scaled, by
	// its unit, "*16". Other letters are the architecture's own.
	text string
}

// append appends the text with the operands of word. It calls operand for those
// that are not numbers, with the number of the operand's lowest bit. A + before
// that number in the text means the register after the one in word.
func (e *encoding) append(b []byte, word uint32, operand func(b []byte, kind byte, word uint32, bit int) []byte) []byte {
	text := e.text
	number := func() int {
		n := 0
		for ; text != "" && text[0] >= '0' && text[0] <= '9'; text = text[1:] {
			n = n*10 + int(text[0]-'0')
		}
		return n
	}
	skip := func(c byte) bool {
		if text == "" || text[0] != c {
			return false
		}
		text = text[1:]
		return true
	}
	for {
		before, rest, found := strings.Cut(text, "%")
		b = append(b, before...)
		if !found {
			return b
		}
		kind := rest[0]
		text = rest[1:]
		after := uint32(0)
		if skip('+') {
			after = 1
		}
		bit := number()
		if !skip(':') {
			b = operand(b, kind, word+after<<bit, bit)
			continue
		}
		width, unit := number(), 1
		if skip('*') {
			unit = number()
		}
		field := word >> bit << (32 - width)
		signed := int64(int32(field)>>(32-width)) * int64(unit)
		unsigned := uint64(field>>(32-width)) * uint64(unit)
		switch kind {
		case 'u':
			b = strconv.AppendUint(b, unsigned, 10)
		case 'h':
			b = append(b, "0x"...)
			b = strconv.AppendUint(b, unsigned, 16)
		case 'd':
			b = strconv.AppendInt(b, signed, 10)
		case 'o':
			if signed != 0 {
				b = append(b, ", #"...)
				b = strconv.AppendInt(b, signed, 10)
			}
		}
	}
}
