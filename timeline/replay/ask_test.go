// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func load(t *testing.T, name string) *replay.Replay {
	t.Helper()
	r, err := replay.Load(filepath.Join(corpus.Root(), "testdata", name, "rec.data"), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestParseTime(t *testing.T) {
	mono, own := load(t, "small"), load(t, "modfull")
	const first, last = 6712319015, 25299470955
	for _, tt := range []struct {
		r        *replay.Replay
		text     string
		from, to uint64
		err      string
	}{
		{mono, "12.345678901", 12345678901, 12345678901, ""},
		{mono, "12.345678", 12345678000, 12345678999, ""},
		{mono, "12.3", 12300000000, 12399999999, ""},
		{mono, "12", 12000000000, 12000000000, ""},
		{mono, "12.34567890100", 12345678901, 12345678901, ""},
		{mono, "12345678901ns", 12345678901, 12345678901, ""},
		{mono, "+1.5s", first + 1500000000, first + 1500000000, ""},
		{mono, "start", first, first, ""},
		{mono, "end", last, last, ""},
		{mono, "0%", first, first, ""},
		{mono, "100%", last, last, ""},
		{mono, "50%", (first + last) / 2, (first + last) / 2, ""},
		{mono, "start..end", first, last, ""},
		{mono, "9.1..9.2", 9100000000, 9299999999, ""},
		{mono, "wall:2026-11-20T19:13:36.228604Z", 6712319015, 6712319015, ""},
		{mono, "wall:2026-11-20T20:13:36.228604+01:00", 6712319015, 6712319015, ""},
		{mono, "2026-11-20T19:13:36.228604Z", 6712319015, 6712319015, ""},
		{mono, "2026-11-20T14:13:36.228604-05:00", 6712319015, 6712319015, ""},
		{mono, "@1795202016.228604", 6712319015, 6712319015, ""},
		{mono, "@1795202017.228604-1s", 6712319015, 6712319015, ""},
		{mono, "2026-11-20T19:13:37.228604Z-1s..2026-11-20T14:13:35.228604-05:00+1s", 6712319015, 6712319015, ""},
		{mono, "12.5s", 12500000000, 12500000000, ""},
		{mono, "1m2.5s", 62500000000, 62500000000, ""},
		{mono, "12.0000000000s", 12000000000, 12000000000, ""},
		{mono, "0.00000000005m", 3, 3, ""},
		{mono, "2.0ns", 2, 2, ""},
		{mono, "2026-11-20T19:13:36.2286040000Z", 6712319015, 6712319015, ""},
		{mono, "18446744073.709551615s", 18446744073709551615, 18446744073709551615, ""},
		{mono, "12s..13500ms", 12000000000, 13500000000, ""},
		{mono, "end-1s", last - 1000000000, last - 1000000000, ""},
		{mono, "start+250us", first + 250000, first + 250000, ""},
		{mono, "50%-3ns", (first+last)/2 - 3, (first+last)/2 - 3, ""},
		{mono, "9.1-100ms", 9000000000, 9099999999, ""},
		{mono, "+2s-500ms", first + 1500000000, first + 1500000000, ""},
		{mono, "11.116404:", 11116404000, 11116404999, ""},
		{mono, "[   11.116404]", 11116404000, 11116404999, ""},
		{mono, "18446744073709551615ns", 18446744073709551615, 18446744073709551615, ""},
		{mono, "18446744073.709551615", 18446744073709551615, 18446744073709551615, ""},
		// A counter value that was read within 122,000 cycles of the start of the first oracle.
		{own, "tsc:27049384674", 6847160496, 6847160496, ""},

		{mono, "18446744073.709551616", 0, 0, "too large"},
		{mono, "18446744073.709551615+1ns", 0, 0, "too large"},
		{mono, "12-13s", 0, 0, "before the clock's zero"},
		{mono, "12-13", 0, 0, "not a time"},
		{mono, "end-", 0, 0, "not a time"},
		{mono, "noon-1s", 0, 0, "not a time"},
		{mono, "12.5S", 0, 0, "not a time"},
		{mono, "2026-11-20T19:13:36", 0, 0, "with its zone"},
		{mono, "1995-11-20T19:13:36Z", 0, 0, "before the zero of the recording's clock, 2026-11-20T19:13:29"},
		{mono, "0001-01-01T00:00:00Z", 0, 0, "before the zero"},
		{mono, "9999-01-01T00:00:00Z", 0, 0, "too late"},
		{mono, "@", 0, 0, "since 1970"},
		{mono, "@18446744073.709551615", 0, 0, "too large"},
		{mono, "@99999999999999999999", 0, 0, "too large"},
		{mono, "@1.5", 0, 0, "before the zero"},
		{own, "@1795202016.228604", 0, 0, "perf's own clock"},
		{own, "2026-11-20T19:13:36.228604Z", 0, 0, "perf record -k CLOCK_MONOTONIC"},
		{mono, "99999999999999999999", 0, 0, "too large"},
		{mono, "99999999999999999999.5", 0, 0, "too large"},
		{mono, "99999999999999999999.x", 0, 0, "not a time"},
		{mono, "99999999999999999999x", 0, 0, "not a time"},
		{mono, "99999999999999999999ns", 0, 0, "too large"},
		{mono, "99999999999999999999xns", 0, 0, "not a time"},
		{mono, "99999999999999s", 0, 0, "too large"},
		{mono, "1h99999999999999999999.5s", 0, 0, "too large"},
		{mono, "99999999999999s1", 0, 0, "not a time"},
		{mono, "99999999999999S", 0, 0, "not a time"},
		{mono, "+99999999999999s", 0, 0, "too large"},
		{mono, "end+99999999999999s", 0, 0, "too large"},
		{mono, "end-99999999999999s", 0, 0, "before the clock's zero"},
		{own, "tsc:18446744073709551616", 0, 0, "at most 64 bits"},
		{mono, "9.2..9.1", 0, 0, "ends before it begins"},
		{mono, "12.3456789012", 0, 0, "finer than a nanosecond"},
		{mono, "12.3456789010x", 0, 0, "not a time"},
		{mono, "@1795202016.2286040001", 0, 0, "finer than a nanosecond"},
		{mono, "noon", 0, 0, "not a time"},
		{mono, "", 0, 0, "not a time"},
		{mono, "12.", 0, 0, "not a time"},
		{mono, "-1", 0, 0, "not a time"},
		{mono, "101%", 0, 0, "from 0 to 100"},
		{mono, "0x10p1%", 0, 0, "from 0 to 100"},
		{mono, "-0%", 0, 0, "from 0 to 100"},
		{mono, "1..2..3", 0, 0, "two ends"},
		{mono, "+5", 0, 0, "+1.5s"},
		{mono, "xns", 0, 0, "not a time"},
		{mono, "1.5ns", 0, 0, "finer than a nanosecond"},
		{mono, "1s0.5ns", 0, 0, "finer than a nanosecond"},
		{mono, "end-1.5ns", 0, 0, "finer than a nanosecond"},
		{mono, "1.0000000001s", 0, 0, "finer than a nanosecond"},
		{mono, "+1.0000001ms", 0, 0, "finer than a nanosecond"},
		{mono, "end-1.0000000001s", 0, 0, "finer than a nanosecond"},
		{mono, "12s..13.0000000001s", 0, 0, "finer than a nanosecond"},
		{mono, "wall:2026-11-20T19:13:36.2286040001Z", 0, 0, "finer than a nanosecond"},
		{mono, "2026-11-20T20:13:36,2286040001+01:00", 0, 0, "finer than a nanosecond"},
		{mono, "tsc:1", 0, 0, "CLOCK_MONOTONIC"},
		{mono, "wall:yesterday", 0, 0, "2026-01-02"},
		{own, "wall:2026-11-20T19:13:36.228604Z", 0, 0, "perf's own clock"},
		{own, "tsc:x", 0, 0, "number"},
	} {
		got, err := tt.r.ParseTime(tt.text)
		if tt.err != "" {
			var q *replay.QuestionError
			if !errors.As(err, &q) || !strings.Contains(q.Error(), tt.err) || errors.Is(err, replay.ErrNotTime) != (tt.err == "not a time") {
				t.Errorf("%q: error %v, want one with %q", tt.text, err, tt.err)
			}
			continue
		}
		// Conversions are only as exact as the pair of times.
		slack := uint64(0)
		switch {
		case strings.HasPrefix(tt.text, "wall:"), strings.HasPrefix(tt.text, "2026"), strings.HasPrefix(tt.text, "@"):
			slack = 1_000
		case strings.HasPrefix(tt.text, "tsc:"):
			slack = 100_000
		}
		near := func(a, b uint64) bool { return max(a, b)-min(a, b) <= slack }
		if err != nil || !near(got.From, tt.from) || !near(got.To, tt.to) {
			t.Errorf("%q: %v %v, want %d to %d", tt.text, got, err, tt.from, tt.to)
		}
	}
}

func TestParseAddr(t *testing.T) {
	r := load(t, "small")
	for _, tt := range []struct {
		text string
		want uint64
		err  string
	}{
		{"0xffffffffaef63fa7", 0xffffffffaef63fa7, ""},
		{"ffffffffaef63fa7", 0xffffffffaef63fa7, ""},
		{"0x10", 0x10, ""},
		{"do_sys_openat2", 0xffffffffaef63fa0, ""},
		{"do_sys_openat2+7", 0xffffffffaef63fa7, ""},
		{"do_sys_openat2+0x7", 0xffffffffaef63fa7, ""},
		{"do_sys_openat2+010", 0xffffffffaef63faa, ""}, // decimal, not octal
		{"do_sys_openat2+010/0368", 0xffffffffaef63faa, ""},
		{"do_sys_openat2+0x010", 0xffffffffaef63fb0, ""},
		{"virtio_blk:virtblk_done", 0xffffffffc02ba000, ""},
		{":do_sys_openat2", 0xffffffffaef63fa0, ""},
		{"bpf_prog_b19c858917c4054c_socket_3+5", 0xffffffffc0083675, ""},
		{"do_sys_openat2+0x7/0x170", 0xffffffffaef63fa7, ""},
		{"do_sys_openat2+7/368", 0xffffffffaef63fa7, ""},
		{"do_sys_openat2+0x7/0x170 [kernel.kallsyms]", 0xffffffffaef63fa7, ""},
		{"virtblk_done [virtio_blk]", 0xffffffffc02ba000, ""},
		{"virtblk_done+0x2/0xe0 [virtio_blk 0123456789abcdef0123456789abcdef01234567]", 0xffffffffc02ba002, ""},
		{"virtio-blk:virtblk_done", 0xffffffffc02ba000, ""},
		{"bpf_prog_b19c858917c4054c_socket_3+0x5/0x6d [bpf]", 0xffffffffc0083675, ""},
		{"do_sys_openat2 [virtio_blk]", 0, "no symbol"},
		{"do_sys_openat2+0x7/0x180", 0, "in the recorded kernel, not"},
		{"do_sys_openat2+0x7/0x0", 0, "in the recorded kernel, not"},
		{"do_sys_openat2+0x7/", 0, "size behind / is not a number"},
		{"do_sys_openat2/0x120", 0, "no symbol"},
		{"[virtio_blk]", 0, "no symbol"},
		{"", 0, "no symbol"},
		{"virtio_pci:virtblk_done", 0, "no symbol"},
		{"no_such_function", 0, "no symbol"},
		{"do_sys_openat2+x", 0, "not a number"},
		{"do_sys_openat2+0b1", 0, "not a number"},
		{"do_sys_openat2+1_0", 0, "not a number"},
		{"do_sys_openat2+0xffffffffffffffff", 0, "beyond the last address"},
		{"0xfffffffffffffffff", 0, "64 bits"},
		{"symbols_cut_away", 0, "ambiguous"},
	} {
		got, err := r.ParseAddr(tt.text, r.Report.First)
		if tt.err != "" {
			var q *replay.QuestionError
			if !errors.As(err, &q) || !strings.Contains(q.Msg, tt.err) || tt.err == "ambiguous" && len(q.Candidates) < 2 {
				t.Errorf("%q: error %v, want one with %q", tt.text, err, tt.err)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%q: %#x %v, want %#x", tt.text, got, err, tt.want)
		}
		// An image made for only this question gives the same answer.
		near := replay.Near(r.Kallsyms(), tt.text, 16)
		if core := tt.want >= 0xffffffffaec00000 && tt.want < 0xffffffffafa01d32; core != (near != nil) {
			t.Errorf("%q: near %#x", tt.text, near)
		}
		if near != nil && (near[0].Lo > tt.want || near[0].Hi < tt.want+16) {
			t.Errorf("%q: near %#x", tt.text, near)
		}
	}
}

// TestParseAddrOfData: a function and data may have one name.
func TestParseAddrOfData(t *testing.T) {
	k, err := kcore.ParseKallsyms([]byte("0000000000001000 T _stext\n0000000000001100 T twice\n0000000000001200 T next\n0000000000002000 T _etext\n0000000000003000 d twice\n"))
	if err != nil {
		t.Fatal(err)
	}
	if near := replay.Near(k, "twice+4", 4); len(near) != 1 || near[0] != (timeline.Range{Lo: 0x1000, Hi: 0x2000}) {
		t.Errorf("near %#x, want the page of the function", near)
	}
}

// TestMostCandidates: the text of an error lists some of the symbols of a name, and how many
// there are.
func TestMostCandidates(t *testing.T) {
	e := &replay.QuestionError{Text: "get_order", Msg: "the name is ambiguous:"}
	for n := range 185 {
		e.Candidates = append(e.Candidates, timeline.Symbol{Name: "get_order", Addr: uint64(n), To: timeline.MaxTime})
		switch text := e.Error(); n + 1 {
		case 10:
			if !strings.HasSuffix(text, "\n\t0x8 get_order\n\t0x9 get_order") {
				t.Error(text)
			}
		case 185:
			if !strings.HasSuffix(text, "\n\t0x9 get_order\n\tand 175 more") {
				t.Error(text)
			}
		}
	}
}

// TestSimilar: an unknown name's error has the names that may have been meant.
func TestSimilar(t *testing.T) {
	r := load(t, "small")
	for name, want := range map[string]string{
		"do_sys_opnat2":       "do_sys_openat2",
		"do_sys_openat2x+0x7": "do_sys_openat2",
		"DO_SYS_OPENAT2":      "do_sys_openat2",

		"virtio_blk:vritblk_done":            "virtblk_done",
		"bpf_prog_b19c858917c4054c_socket_4": "bpf_prog_b19c858917c4054c_socket_3",
		"no_such_function":                   "",
		"x":                                  "",
	} {
		_, err := r.ParseAddr(name, r.Report.First)
		var q *replay.QuestionError
		if !errors.As(err, &q) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(q.Similar, " "); got != want {
			t.Errorf("%s: similar to %q, want %q", name, got, want)
		}
		if want != "" && !strings.HasSuffix(err.Error(), "no symbol of this name; did you mean "+want+"?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := r.Similar("do_sys_open", 0); got != nil {
		t.Errorf("no names wanted: %q", got)
	}
	e := replay.QuestionError{Text: "x", Msg: "no", Similar: []string{"a", "b", "c"}}
	if want := `"x": no; did you mean a, b or c?`; e.Error() != want {
		t.Errorf("%q, want %q", e.Error(), want)
	}
}

// TestNear: an image made for one question gives the same answer as the whole image,
// with the same standing and validity.
func TestNear(t *testing.T) {
	for _, name := range []string{"small", "rich", "lossy", "hotplug", "modfull", "thunks"} {
		path := filepath.Join(corpus.Root(), "testdata", name, "rec.data")
		whole := load(t, name)
		rng := rand.New(rand.NewPCG(1, 2))
		segments := whole.Report.Segments
		for range 12 {
			s := segments[rng.IntN(len(segments))]
			addr := s.Lo + rng.Uint64N(s.Hi-s.Lo)
			near, err := replay.Load(path, replay.Options{Only: func(k *kcore.Kallsyms) []timeline.Range {
				return replay.Near(k, fmt.Sprintf("%#x", addr), 32)
			}})
			if err != nil {
				t.Fatal(err)
			}
			var a, b [32]byte
			for range 200 {
				at := rng.Uint64N(whole.Report.Horizon + 1e9)
				want, got := whole.Image.At(at).Read(addr, a[:]), near.Image.At(at).Read(addr, b[:])
				if want != got || a != b {
					t.Fatalf("%s: %#x at %d: whole %+v %x, near %+v %x", name, addr, at, want, a, got, b)
				}
			}
			near.Close()
		}
	}
	// What passes the end of the address space is more than the function.
	if got := replay.Near(load(t, "small").Kallsyms(), "sysctl_schedstats", 1<<63); got != nil {
		t.Errorf("near 2^63 bytes are %x", got)
	}
}
