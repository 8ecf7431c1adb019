// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
)

// TestQuestionLines: the questions of lines as perf script prints them, and as people
// and other programs change them.
func TestQuestionLines(t *testing.T) {
	for _, tt := range []struct {
		name string
		text string
		want []string // "LINE ADDR TIME [BYTES] [SPACE]", or "LINE error ..."
	}{
		{"plain", "vfs_read 12.5\nvfs_read+7 end-1s 16\n0xffffffff81000000 50%\n\n# comment 1.0\nffffffff81000000\t12.345678901\n",
			[]string{"1 vfs_read 12.5", "2 vfs_read+7 end-1s 16", "3 0xffffffff81000000 50%", "6 ffffffff81000000 12.345678901"}},
		{"as the kernel writes it", "vfs_read+0x1/0x20 [ext4] 12.5 4\nadd 12.5\nadd [m] 12.5\n",
			[]string{"1 vfs_read+0x1/0x20 [ext4] 12.5 4", "2 add 12.5", "3 add [m] 12.5"}},
		{"perf's order turned", "ffffffff81000000 11.116404:\nadd 11.116404:\nvfs_read 11.116404: 5\r\n",
			[]string{"1 0xffffffff81000000 11.116404:", "2 0xadd 11.116404:", "3 vfs_read 11.116404: 5"}},
		{"default fields", "         swapper     0 [001]    11.117562:   52631578 cpu-clock:  ffffffffa3a592eb native_safe_halt+0xb ([kernel.kallsyms])\n",
			[]string{"1 0xffffffffa3a592eb 11.117562 kernel"}},
		{"user address", "     scenario.sh   129 [001]    11.064883490:   52631578 cpu-clock:            417cf9 [unknown] (/bin/busybox)\n",
			[]string{"1 0x417cf9 11.064883490 user"}},
		{"spaces lost", "swapper 0 [001] 11.117562: 52631578 cpu-clock: ffffffffa3a592eb\nsh 1 [001] 11.117562: 52631578 cpu-clock: 417cf9 [unknown] (/bin/sh)\n11.117562: add\n",
			[]string{"1 0xffffffffa3a592eb 11.117562", "2 0x417cf9 11.117562 user", "3 0xadd 11.117562"}},
		{"period without event", "    11.064883:   52631578            417cf9 [unknown] (/bin/busybox)\n   11.064884:   52631578 ffffffffa3a592eb\n   11.064884:   52631578            417123\n",
			[]string{"1 0x417cf9 11.064883 user", "2 0xffffffffa3a592eb 11.064884", "3 0x417123 11.064884"}},
		{"call chain", "rcu_preempt    15 [000]    11.066082:   52631578 cpu-clock: \n\tffffffffa3153b67 __timer_delete_sync+0xb7 ([kernel.kallsyms])\n\tffffffffc0153b67 do [x]+0x9e ([virtio_blk])\n\t          12a134 std::vector<int, a>::add(int, b)+0x1 (/usr/lib/x.so)\n\nadd 11.5\n\tadd [unknown] ([unknown])\n",
			[]string{"2 0xffffffffa3153b67 11.066082 kernel", "3 0xffffffffc0153b67 11.066082", "4 0x12a134 11.066082 user", "6 add 11.5", "7 error no time before"}},
		{"call chain, time and ip only", "   11.066082: \n\tffffffffa3153b67\n\t           17cf9\n\n   11.116404: \n\tffffffffa3a592eb\n",
			[]string{"2 0xffffffffa3153b67 11.066082", "3 0x17cf9 11.066082", "6 0xffffffffa3a592eb 11.116404"}},
		{"call chain, few fields", "perf-exec    32.399043: \n\tffffffffa3153b67 f+0x24\n\t           17cf9 [unknown]\n\n  132 [000]    32.399044: \n\tffffffffa3a592eb f+0x24 ([kernel.kallsyms])\n\nadd 32.399045: \n\tffffffffa3a592eb f\n\nadd 32.399046:\n",
			[]string{"2 0xffffffffa3153b67 32.399043", "3 0x17cf9 32.399043", "6 0xffffffffa3a592eb 32.399044 kernel", "9 0xffffffffa3a592eb 32.399045", "11 0xadd 32.399046:"}},
		{"call chain without time", "\n\tffffffffa3153b67\n\t           17cf9\n", []string{"2 error no time before", "3 error no time before"}},
		{"thread, call chain, no time", "     scenario.sh   129 \n\t           17cf9 [unknown] (/bin/busybox)\n\tffffffffa3153b67 f+0x1 ([kernel.kallsyms])\n\n  perf-exec   12345 [001] \n\tffffffffa3153b67 f\n\nsh 12\n     kswapd0 1.5\n",
			[]string{"2 error no time before", "3 error no time before", "6 error no time before", "8 sh 12", "9 kswapd0 1.5"}},
		{"addresses and names, no time", "           17cf9 [unknown]\nffffffffa3153b67 f+0x24\nffffffffa3153b67 swapper 0\nffffffffa3153b67 end-1s\nffffffffa3153b67 @1700000000 16\nffffffffa3153b67 start..end\n",
			[]string{"1 error no time before", "2 error no time before", "3 error no time before", "4 ffffffffa3153b67 end-1s", "5 ffffffffa3153b67 @1700000000 16", "6 ffffffffa3153b67 start..end"}},
		{"one line, no time", "         swapper     0 ffffffffa3a592eb\n         swapper     0 [001]   52631578 cpu-clock:  ffffffffa3a592eb native_safe_halt+0xb ([kernel.kallsyms])\nsh 129 52631578 cpu-clock: 417cf9 [unknown] (/bin/busybox)\nvfs_read 12 0xffff\n",
			[]string{"1 error no time before", "2 error no time before", "3 error no time before", "4 vfs_read 12 65535"}},
		{"call chain of names", "   11.066082: \n\t__timer_delete_sync+0xb7 ([kernel.kallsyms])\n\tschedule_timeout+0x9e\n\tno_offset ([kernel.kallsyms])\n",
			[]string{"2 __timer_delete_sync+0xb7 11.066082", "3 schedule_timeout+0x9e 11.066082"}},
		{"source lines", "sh   129 [001]    11.064883: cycles: \n\tffffffffa3153b67 f+0x1 ([kernel.kallsyms])\n  busybox[17cf9]\n  file.c:12\n|12   dead beef\n",
			[]string{"2 0xffffffffa3153b67 11.064883 kernel"}},
		{"names of threads", "a 12.345678: b  129 [001]    11.064883: cycles:  ffffffffa3153b67 f\n[000] 1.000000:   129 [001]    11.064883: cycles:  ffffffffa3153b67 f\n#1 [x] 0   129    11.064883: cycles:  ffffffffa3153b67 f\n:-1   -1 [000] 11.064883: ffffffffa3153b67 f\nkworker/0:1-mm_   129/129   [001]    11.064883: ffffffffa3153b67\ndead beef 12 7 [001]    11.064883: cycles:  ffffffffa3153b67\n",
			[]string{"1 0xffffffffa3153b67 11.064883", "2 0xffffffffa3153b67 11.064883", "3 0xffffffffa3153b67 11.064883", "4 0xffffffffa3153b67 11.064883", "5 0xffffffffa3153b67 11.064883", "6 0xffffffffa3153b67 11.064883"}},
		{"tracepoints", "swapper     0 [001]     5.880959: cpuhp:cpuhp_enter: cpu: 0001 target: 233 step:  234 (workqueue_online_cpu)\nrmmod 155 [001] 7.552165: module:module_free: add\nsh   1 [001]    7.552165: probe:f: (ffffffffa3153b67)\nsh   1 [001]    7.552165: probe:f__return: (ffffffffa3153b67 <- ffffffffa3153b99) ret=0x1\nsh 1 [001] 7.5: x: y\n",
			[]string{"3 0xffffffffa3153b67 7.552165", "4 0xffffffffa3153b67 7.552165", "4 0xffffffffa3153b99 7.552165"}},
		{"branch stack", " 11.064883:  ffffffffa3153b67  0xffffffffa3153b67/0xffffffffa3153b99/P/-/-/0  0x401000/0xffffffffa3153b00/M/-/-/12 \n 11.064883: f+0x12/g+0x0/P/-/-/0/CALL/- 0xffffffffa3153b67([kernel.kallsyms])/0x7f1234567890(/bin/sh)/P/-/-/0\n",
			[]string{"1 0xffffffffa3153b67 11.064883", "1 0xffffffffa3153b67 11.064883", "1 0xffffffffa3153b99 11.064883", "1 0x401000 11.064883", "1 0xffffffffa3153b00 11.064883",
				"2 f+0x12 11.064883", "2 g+0x0 11.064883", "2 0xffffffffa3153b67 11.064883 kernel", "2 0x7f1234567890 11.064883"}},
		{"memory access", "sh 1 [001] 11.064883: 1 mem: ffff888012345678          68100142 |OP LOAD|LVL L1 hit               12  ffffffffa3153b67 f+0x1 ([kernel.kallsyms])          12345000\n",
			[]string{"1 0xffff888012345678 11.064883", "1 0xffffffffa3153b67 11.064883 kernel", "1 0x12345000 11.064883"}},
		{"other records", "     scenario.sh   126 [001]    13.300761: PERF_RECORD_TEXT_POKE ffffffffa30eb2ab select_task_rq_fair+0xd6b old len 5 new len 5\nsh 126 [001] 11.393286: PERF_RECORD_FORK(131:131):(126:126)\nsh 0 [000] 0.000000: PERF_RECORD_MMAP -1/0: [0xffffffffa3000000(0xe01d32) @ 0xffffffffa3000000]: x [kernel.kallsyms]_text\n",
			[]string{"1 0xffffffffa30eb2ab 13.300761"}},
		{"dmesg's time", "[   11.116404] ffffffffa30eb2ab\n[11.116404] x ffffffffa30eb2ab\nffffffffa30eb2ab [   11.116404]\n",
			[]string{"1 0xffffffffa30eb2ab 11.116404", "2 0xffffffffa30eb2ab 11.116404", "3 0xffffffffa30eb2ab 11.116404"}},
		{"guests", " 11.116404: ffffffffa30eb2ab f ([guest.kernel.kallsyms])\n", []string{"1 0xffffffffa30eb2ab 11.116404 guest"}},
		{"indented comments", " # nothing 1.0\n\t#000000000000\n              #a b   129 [001]    11.064883: cycles:  ffffffffa3153b67 f\n            #sh   129    11.064884: \n\t17cf9\n\n            #sh   129 \n\t17cf9\n",
			[]string{"3 0xffffffffa3153b67 11.064883", "5 0x17cf9 11.064884", "8 error no time before"}},
		{"nothing", "vfs_read\none two three four five\n", []string{"1 error want", "2 error want"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, q := range questionsOf(tt.text) {
				s := fmt.Sprintf("%d %s %s", q.line, q.addr, q.when)
				if q.n != 0 {
					s += fmt.Sprintf(" %d", q.n)
				}
				if q.space != "" {
					s += " " + q.space
				}
				if q.err != nil {
					s = fmt.Sprintf("%d error %v", q.line, q.err)
				}
				got = append(got, s)
			}
			for i, w := range tt.want {
				if i < len(got) && strings.Contains(w, " error ") && strings.HasPrefix(got[i], w) {
					got[i] = w
				}
			}
			if d := gocmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A lineQuestion is a question with the number of its line.
type lineQuestion struct {
	question
	line int
}

func questionsOf(text string) []lineQuestion {
	var p questionParser
	var out []lineQuestion
	for i, line := range strings.Split(text, "\n") {
		for _, q := range p.parse(strings.TrimRight(line, "\r")) {
			out = append(out, lineQuestion{q, i + 1})
		}
	}
	return out
}

// FuzzQuestionLines: no line is read in a way that loses the address that it asks for.
func FuzzQuestionLines(f *testing.F) {
	f.Add("sh 1 [001] 11.064883: 1 mem: ffff888012345678 68100142 |OP")
	f.Add("[   11.116404] ffffffffa30eb2ab\n\tf+0x1\n")
	f.Add("f 12 [m] 3\n# x\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, q := range questionsOf(text) {
			if q.hex && q.addr != hexAddr(q.value) || q.err == nil && (q.addr == "" || q.when == "") {
				t.Errorf("%+v", q)
			}
		}
	})
}

// A printed address is one that perf script prints, at a time of whole microseconds.
type printed struct {
	time, addr uint64
}

// addressesOf returns the kernel's addresses in the samples of a recording: each
// sample's call chain, or else its address.
//
// By default, perf prints a tracepoint's own fields and no address.
func addressesOf(t *testing.T, path string, chains, tracepoints bool) []printed {
	t.Helper()
	rec, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	var out []printed
	var s perfdata.Sample
	sc := rec.Scan()
	for sc.Next() {
		r := sc.Record()
		if r.Type != perfdata.RecordSample {
			continue
		}
		if err := rec.Sample(r, &s); err != nil {
			t.Fatal(err)
		}
		const tracepoint = 2 // PERF_TYPE_TRACEPOINT
		if !tracepoints && s.Event.Attr.Type == tracepoint {
			continue
		}
		ips := []uint64{s.IP}
		if chain, err := s.Callchain(); err != nil {
			t.Fatal(err)
		} else if chains && chain.Len() > 0 {
			ips = chain.AppendTo(nil)
		}
		for _, ip := range ips {
			if ip >= 1<<63 && ip < 1<<64-4096 { // no marker of a context
				out = append(out, printed{s.Time / 1e3, ip})
			}
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPerfScript: at --stdin finds every address that perf script prints, in any form.
func TestPerfScript(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("there is no perf here")
	}
	t.Run("callgraph", func(t *testing.T) { perfScript(t, filepath.Join(corpus.Root(), "testdata", "callgraph")) })
	for _, name := range []string{"x86_64/local"} {
		t.Run(name, func(t *testing.T) { perfScript(t, corpus.Large(t, name)) })
	}
}

func perfScript(t *testing.T, dir string) {
	dir = filepath.Join(dir, "rec.data")
	for _, args := range []string{
		"",
		"--ns",
		"-F time,ip",
		"-F ip,sym,symoff,dso,time --ns",
		"-F comm,pid,tid,cpu,time,period,event,ip,sym,symoff,dso",
		"-F comm,tid,time,ip,sym",
		"-F time,period,ip",
		"-F tid,time,event,ip,dso",
		"-G",
		"-G -F time,ip --ns",
		"-G -F comm,time,period,ip,sym,symoff,dso",
		"--header --show-task-events --show-mmap-events --show-lost-events",
	} {
		t.Run(args, func(t *testing.T) {
			cmd := exec.Command("perf", append([]string{"script", "-i", dir}, strings.Fields(args)...)...)
			text, err := cmd.Output()
			if err != nil {
				t.Skipf("this perf cannot: %v", err)
			}
			var stdout, stderr bytes.Buffer
			if code := run([]string{"at", "--stdin", "-i", dir, "--insns", "1", "--index", "never"}, bytes.NewReader(text), &stdout, &stderr); code != exitAnswered {
				t.Errorf("exit code %d: %s", code, &stderr)
			}
			lines := strings.Split(string(text), "\n")
			var got []printed
			for answer := range strings.Lines(stdout.String()) {
				var a struct {
					Addr, Time, Error string
					Line              int
					Not               string `json:"not_kernel_text"`
				}
				if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Error != "" {
					t.Fatalf("%v: %s", err, answer)
				}
				addr, _ := strconv.ParseUint(a.Addr, 0, 64)
				if !strings.Contains(lines[a.Line-1], strconv.FormatUint(addr, 16)) {
					t.Fatalf("line %d is %q, the answer %s", a.Line, lines[a.Line-1], answer)
				}
				if (addr < 1<<63) != (a.Not != "") {
					t.Fatalf("answer %s", answer)
				}
				if at, _ := strconv.ParseUint(a.Time, 10, 64); a.Not == "" && !strings.Contains(lines[a.Line-1], "PERF_RECORD") {
					got = append(got, printed{at / 1e3, addr})
				}
			}
			// perf prints in time order.
			want := addressesOf(t, dir, !strings.Contains(args, "-G"), args != "-G")
			order := func(a, b printed) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.addr, b.addr)) }
			slices.SortStableFunc(want, order)
			slices.SortStableFunc(got, order)
			if d := gocmp.Diff(want, got, gocmp.AllowUnexported(printed{})); d != "" || len(got) < 400 {
				t.Errorf("%d addresses, want %d: %.1000s", len(got), len(want), d)
			}
		})
	}
}
