// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package printable shows text that others chose. Each user of a machine names its threads as it
// likes, and a recording that somebody sent has any names. So they may have control characters,
// which a terminal obeys, characters that reverse the direction of what follows, and bytes that are
// no UTF-8.
package printable

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Name returns a name with what is not printed as a character escaped as in Go: \n, \x1b, \u202e,
// and \xff for a byte that is no UTF-8.
func Name(name string) string {
	if isPrinted(name, "") {
		return name
	}
	return string(escape([]byte(name), ""))
}

// Text returns text as [Name] returns a name, but newlines and tabs stay. The result is text itself
// if nothing in it needs an escape.
func Text(text []byte) []byte {
	if isPrinted(text, layout) {
		return text
	}
	return escape(text, layout)
}

// layout has the characters of a text that are not printed, and stay.
const layout = "\n\t"

// isPrinted reports whether text is ASCII and all of it, but for the characters of keep, is printed. It
// is what nearly all text is.
func isPrinted[T string | []byte](text T, keep string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' || c > '~') && !isIn(keep, rune(c)) {
			return false
		}
	}
	return true
}

func escape(text []byte, keep string) (out []byte) {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case unicode.IsPrint(r) || isIn(keep, r):
			out = append(out, text[:n]...)
		default:
			quoted := strconv.QuoteRune(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		text = text[n:]
	}
	return out
}

func isIn(set string, r rune) bool {
	for _, x := range set {
		if x == r {
			return true
		}
	}
	return false
}
