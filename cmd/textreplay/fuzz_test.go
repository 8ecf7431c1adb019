// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/textreplay/textreplay/timeline/replay"
)

// loadSmall loads the small recording once.
var loadSmall = sync.OnceValues(func() (*replay.Replay, error) {
	return replay.Load(small, replay.Options{})
})

// FuzzQuestions asks anything: there is exactly one line of JSON for each question, in the order
// of the lines, and never a panic. How many questions a line of perf script has is not compared.
func FuzzQuestions(f *testing.F) {
	f.Add(" # nothing\n\t#nothing\n0xffffffffaef63fa7 start")
	f.Add("do_sys_openat2+7 16.500000000 5\n# nothing\n\nsched 50%\n")
	f.Add("0xffffffffaef63fa7 start..end")
	f.Add("ffffffffffffffff end 16\n0xfffffffffffffff0 18446744073709551615ns 32")
	f.Add("virtio_blk:virtblk_done+0x10 +1.5s\nschedule tsc:0x10\nschedule wall:2026-11-20T19:13:40Z")
	f.Add("bpf_prog_b19c858917c4054c_socket_3 14.39..22.5 200")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := loadSmall()
		if err != nil {
			t.Fatal(err)
		}
		c, err := newCoder(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(text, "\n")
		questions, mayBePerf := 0, strings.ContainsAny(text, "()[]:")
		for _, line := range lines {
			fields := strings.FieldsFunc(line, func(c rune) bool { return strings.ContainsRune(" \t\v\f\r", c) })
			mayBePerf = mayBePerf || strings.HasSuffix(strings.TrimRight(line, "\r"), " ") || strings.Count(line, "\r") > 0
			addrs := 0
			for _, field := range fields {
				if isAddr16(field) {
					addrs++
				}
			}
			mayBePerf = mayBePerf || addrs > 1
			if len(fields) == 0 || fields[0][0] == '#' {
				continue
			}
			questions++
			if len(fields) >= 3 {
				if n, err := strconv.ParseUint(fields[len(fields)-1], 0, 64); err == nil && n > 1<<12 {
					t.Skip("a long answer takes its time")
				}
			}
		}
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		a := &app{out: w, stderr: io.Discard}
		q := &at{app: a, r: r, c: c, insns: 5, stdin: true, format: choice{value: "json"}}
		err = q.questions(strings.NewReader(text))
		if code := exitCode(err); code != exitAnswered && code != exitUsage {
			t.Fatalf("exit code %d: %v", code, err)
		}
		w.Flush()
		answers, last := 0, 0
		for d := json.NewDecoder(&out); ; answers++ {
			var x struct {
				Addr, Error any
				Line        int
			}
			if err := d.Decode(&x); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("answer %d: %v", answers+1, err)
			}
			if x.Addr == nil && x.Error == nil {
				t.Fatalf("answer %d is neither an answer nor an error: %v", answers+1, x)
			}
			if x.Line < max(last, 1) || x.Line > len(lines) {
				t.Fatalf("answer %d is to line %d of %d, after one to line %d", answers+1, x.Line, len(lines), last)
			}
			last = x.Line
		}
		if answers != questions && !mayBePerf {
			t.Fatalf("%d answers to %d questions", answers, questions)
		}
	})
}
