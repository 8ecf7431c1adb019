// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package printable

import "testing"

func TestPrintable(t *testing.T) {
	for _, tt := range []struct{ in, name, text string }{
		{"", "", ""},
		{"kworker/0:1-events", "kworker/0:1-events", "kworker/0:1-events"},
		{"日本 é “x” `\\'\"", "日本 é “x” `\\'\"", "日本 é “x” `\\'\""},
		{"a\nb\tc\rd", `a\nb\tc\rd`, "a\nb\tc" + `\rd`},
		{"\x1b]0;x\a\x00\x7f", `\x1b]0;x\a\x00\x7f`, `\x1b]0;x\a\x00\x7f`},
		{"a\u202eb\u2066c\u0085d\ufeff", `a\u202eb\u2066c\u0085d\ufeff`, `a\u202eb\u2066c\u0085d\ufeff`},
		{"\xffa\xe6\x97", `\xffa\xe6\x97`, `\xffa\xe6\x97`},
		{"\ufffd", "\ufffd", "\ufffd"}, // it was in the name
	} {
		if got := Name(tt.in); got != tt.name {
			t.Errorf("Name(%q) is %q, want %q", tt.in, got, tt.name)
		}
		if got := string(Text([]byte(tt.in))); got != tt.text {
			t.Errorf("Text(%q) is %q, want %q", tt.in, got, tt.text)
		}
	}
}
