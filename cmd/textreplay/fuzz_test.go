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

// FuzzQuestions asks anything: there is exactly one line of JSON for each
// question, and never a panic.
func FuzzQuestions(f *testing.F) {
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
		questions := 0
		for _, line := range strings.Split(text, "\n") {
			fields := strings.Fields(line)
			if len(fields) == 0 || fields[0][0] == '#' {
				continue
			}
			questions++
			if len(fields) == 3 {
				if n, err := strconv.ParseUint(fields[2], 0, 64); err == nil && n > 1<<12 {
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
		answers := 0
		for d := json.NewDecoder(&out); ; answers++ {
			var x map[string]any
			if err := d.Decode(&x); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("answer %d: %v", answers+1, err)
			}
			if x["addr"] == nil && x["error"] == nil {
				t.Fatalf("answer %d is neither an answer nor an error: %v", answers+1, x)
			}
		}
		if answers != questions {
			t.Fatalf("%d answers to %d questions", answers, questions)
		}
	})
}
