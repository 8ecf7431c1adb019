// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readLogText returns the lines of a log.
func readLogText(text string) []logLine {
	log := logReader{zone: time.FixedZone("", 3600), year: 2026}
	var out []logLine
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		out = append(out, log.read(&line)...)
	}
	return append(out, log.read(nil)...)
}

// TestLogPrefixes: what programs put before the kernel's messages.
func TestLogPrefixes(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"dmesg", "[   12.345678] BUG: x", "12345678000 - BUG: x"},
		{"without padding", "[12690.420850]  <TASK>", "12690420850000 -  <TASK>"},
		{"caller", "[   12.345678][  T123] a\n[   12.345678] [    C1] b\n[   12.345678] [ T9] c", "12345678000 - a|12345678000 - b|12345678000 - c"},
		{"processor", "[  767.169269@0] a", "767169269000 - a"},
		{"level", "<4>[   12.345678] a\n<4>a\n<0>[   12.345678][    C0] b", "12345678000 - a|- - a|12345678000 - b"},
		{"dmesg -x", "kern  :warn  : [   12.345678] a", "12345678000 - a"},
		{"kmsg", "4,1234,12345678,-;a\n4,1235,12345679,-,caller=T1;b", "12345678000 - a|12345679000 - b"},
		{"dmesg -T", "[Fri Nov 20 20:13:36 2026] a\n[Fri Nov  6 20:13:36 2026] b", "- 2026-11-20T19:13:36Z/1s a|- 2026-11-06T19:13:36Z/1s b"},
		{"dmesg iso", "2026-11-20T20:13:36,228604+01:00 a", "- 2026-11-20T19:13:36.228604Z/1µs a"},
		{"journal short", "Nov 20 20:13:36 host kernel: a\nNov  6 20:13:36 host kernel:  ? f+0x1/0x2", "- 2026-11-20T19:13:36Z/1s a|- 2026-11-06T19:13:36Z/1s  ? f+0x1/0x2"},
		{"journal short-precise", "Nov 20 20:13:36.228604 host kernel: a", "- 2026-11-20T19:13:36.228604Z/1µs a"},
		{"syslog", "Nov 20 20:13:36 host kernel: [   12.345678] a\nNov 20 20:13:36 host kernel: [   12.345678] [<ffffffff81063797>] ? f+0x1/0x2", "12345678000 2026-11-20T19:13:36Z/1s a|12345678000 2026-11-20T19:13:36Z/1s [<ffffffff81063797>] ? f+0x1/0x2"},
		{"syslogd's message", "kernel:[  767.169269] a", "767169269000 - a"},
		{"journal short-iso", "2026-11-20T20:13:36+0100 host kernel: a\n2026-11-20T20:13:36+01:00 host kernel: b\n2026-11-20T20:13:36.228604+0100 host kernel: c\n2026-11-20T19:13:36Z host kernel: d",
			"- 2026-11-20T19:13:36Z/1s a|- 2026-11-20T19:13:36Z/1s b|- 2026-11-20T19:13:36.228604Z/1µs c|- 2026-11-20T19:13:36Z/1s d"},
		{"journal short-full", "Fri 2026-11-20 19:13:36 UTC host kernel: a", "- 2026-11-20T19:13:36Z/1s a"},
		{"journal short-unix", "1795202016.228604 host kernel: a", "- 2026-11-20T19:13:36.228604Z/1µs a"},
		{"journal short-monotonic", "[   12.345678] host kernel: a\n[   12.345678] host.example kernel: BUG: b", "12345678000 - a|12345678000 - BUG: b"},
		{"journal cat", "BUG: a\n ? f+0x1/0x2", "- - BUG: a|- - ? f+0x1/0x2"},
		{"journal export", "__CURSOR=s=1;b=2\n__REALTIME_TIMESTAMP=1795202016228604\n__MONOTONIC_TIMESTAMP=12400000\nMESSAGE=BUG: a\n_SOURCE_MONOTONIC_TIMESTAMP=12345678\n\n__CURSOR=s=1\nMESSAGE= ? b\n",
			"12345678000+12400000000 2026-11-20T19:13:36.228604Z/1µs BUG: a|- -  ? b"},
		{"journal json", `{"MESSAGE":"BUG: a","_SOURCE_MONOTONIC_TIMESTAMP":"12345678","__MONOTONIC_TIMESTAMP":"12400000"}` + "\n" + `{"MESSAGE":[1,2]}`, `12345678000+12400000000 - BUG: a|- - {"MESSAGE":[1,2]}`},
		{"console", "\x1b[0;32mfoo \x00\x07\r[   12.345678] a\x1b[m\nS1[   12.345678] b", "12345678000 - a|12345678000 - b"},
		{"no time", "x [12] y 1.234567", "- - x [12] y 1.234567"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, l := range readLogText(tt.text) {
				s := "-"
				if l.printk != noTime {
					s = fmt.Sprint(l.printk)
				}
				if l.received != noTime {
					s += fmt.Sprintf("+%d", l.received)
				}
				if l.wall.IsZero() {
					s += " -"
				} else {
					s += fmt.Sprintf(" %s/%s", l.wall.UTC().Format(time.RFC3339Nano), l.wallUnit)
				}
				got = append(got, s+" "+l.text)
			}
			if d := cmp.Diff(strings.Split(tt.want, "|"), got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestOopsLines: what reports of several architectures and ages say of kernel text.
func TestOopsLines(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"x86", `
BUG: unable to handle page fault for address: ffffffffdeadbeef
#PF: supervisor read access in kernel mode
Oops: Oops: 0000 [#1] SMP NOPTI
CPU: 1 UID: 0 PID: 45 Comm: kworker/u8:2 Tainted: G        W  OE       6.12.3-arch1-1 #1 bcfbb9540ef8053872a922808497e5b96b6f8fc8
RIP: 0010:do_it.isra.0+0x555/0x6b0 [my_mod]
Code: 73 08 e9 <0f> 0b ?? 48
RAX: 0000000000000000 RBX: ffff9ffe2e9e41c0 RCX: 0000000000000000
Call Trace:
 <IRQ>
 ? watchdog_timer_fn+0x1b8/0x220
 </IRQ>
 <TASK>
 worker+0x44/0x50 [my_mod 0123456789abcdef0123456789abcdef01234567]
 bpf_prog_6deef7357e7b4530_x+0x12/0x40
 entry_SYSCALL_64_after_hwframe+0x76/0x7e
RIP: 0033:0x7f12
Code: 00 <0f> 05
 </TASK>
RIP: 0010:0x0
RIP: 0010:0xffffffffc0abc123
Code: Unable to access opcode bytes at 0xffffffffffffffd6.
`, []string{"report", "report", "report of 6.12.3-arch1-1", "ip do_it.isra.0+0x555/0x6b0 [my_mod]", "code 73 8 e9 f b gap 48 mark 3", "trace ? watchdog_timer_fn+0x1b8/0x220",
			"trace worker+0x44/0x50 [my_mod 0123456789abcdef0123456789abcdef01234567]", "trace bpf_prog_6deef7357e7b4530_x+0x12/0x40", "trace entry_SYSCALL_64_after_hwframe+0x76/0x7e",
			"ip user 0x7f12", "code 0 f 5 mark 1", "ip 0x0", "ip 0xffffffffc0abc123"}},
		{"old x86", `
WARNING: CPU: 1 PID: 3012 at /build/lib/list_debug.c:62 f+0x56/0x1d0()
 [<ffffffff81063797>] ? __do_page_fault+0x1b7/0x430
 [<ffffffff815b6c72>] system_call_fast_compare_end+0xc/0x67 [m]
RIP: 0010:[<ffffffff81234567>]  [<ffffffff81234567>] f+0x7/0x20
RIP  [<ffffffff81234567>] f+0x7/0x20 [m]
RIP: e030:xen_f+0x1/0x2
Call Trace: [<ffffffff81234567>]
`, []string{"report", "trace ? __do_page_fault+0x1b7/0x430 at ffffffff81063797", "trace system_call_fast_compare_end+0xc/0x67 [m] at ffffffff815b6c72",
			"ip f+0x7/0x20 at ffffffff81234567", "ip xen_f+0x1/0x2"}},
		{"arm64", `
Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP
CPU: 3 PID: 12 Comm: a (b) Not tainted 6.1.0-rpi7-rpi-v8 #1
pstate: 60000005 (nZCv daif -PAN -UAO -TCO -DIT -SSBS BTYPE=--)
pc : pick_next+0x78/0x3f0
lr : pick_next+0xa8/0x3f0 [m]
sp : ffff8000820eb690
x29: ffff8000820eb690 x28: ffff00000486b900 x27: ffff000001870000
Call trace:
 pick_next+0x78/0x3f0 (P)
 schedule+0x1/0x2 (L)
Code: d65f03c0 d503201f aa0003e2 d2800001 (b9400000)
pc : [<ffff000008081234>] lr : [<ffff000008081238>] pstate: 60000145
PC is at f+0x4/0x8
LR is at g+0x4/0x8
`, []string{"report", "report of 6.1.0-rpi7-rpi-v8", "ip pick_next+0x78/0x3f0", "link pick_next+0xa8/0x3f0 [m]", "trace pick_next+0x78/0x3f0",
			"code d65f03c0 d503201f aa0003e2 d2800001 b9400000 mark 4 wide", "ip 0xffff000008081234", "ip f+0x4/0x8", "link g+0x4/0x8"}},
		{"powerpc", `
Oops: Kernel access of bad area, sig: 11 [#8]
NIP:  c000000000ac0ce8 LR: c000000000159748 CTR: c000000000ac0cd0
NIP [c000000000ac0ce8] dbs_update+0x18/0xf0
LR [c000000000159748] propagate.isra.11+0x4a8/0x5f0
Call Trace:
[c000003fdc18bc80] [c000000000159400] propagate.isra.11+0x160/0x5f0 (unreliable)
[c000003fdc18bd40] [c000000000150aec] wake_up+0x13c/0x310 [m]
Instruction dump:
ebe1fff8 7d908120 4e800020 3860ffea 4bffffe0 60420000 3c4c00c3 3842a330
7c0802a6 60000000 e9230008 e8e90000 <89470430> 2f8a0000 409e0020 XXXXXXXX
---[ end trace 4456a1917aa7e1d7 ]---
Code: 4e800020 7c0802a6 <89470430> 2f8a0000
`, []string{"report", "ip dbs_update+0x18/0xf0 at c000000000ac0ce8", "link propagate.isra.11+0x4a8/0x5f0 at c000000000159748",
			"trace ? propagate.isra.11+0x160/0x5f0 at c000000000159400", "trace wake_up+0x13c/0x310 [m] at c000000000150aec",
			"code ebe1fff8 7d908120 4e800020 3860ffea 4bffffe0 60420000 3c4c00c3 3842a330 7c0802a6 60000000 e9230008 e8e90000 89470430 2f8a0000 409e0020 gap mark 12 wide",
			"code 4e800020 7c0802a6 89470430 2f8a0000 mark 2 wide"}},
		{"s390", `
Unable to handle kernel pointer dereference in virtual kernel address space
Krnl PSW : 0704c00180000000 00000000001067ae (cpu_relax+0x1e/0x20)
           R:0 T:1 IO:1 EX:1 Key:0 M:1 W:0 P:0 AS:3 CC:3 PM:0 EA:3
Krnl Code: 00000000001067a0: a7840004      brc 8,1067a8
           00000000001067a4: 83000044       diag    %r0,%r0,68
          #00000000001067a8: c0f40032e094   brcl    15,7628d0
          >00000000001067ae: 0707       bcr 0,%r7
Call Trace:
 [<00000000001067ae>] cpu_relax+0x1e/0x20
([<00000000001067ae>] f+0x1e/0x20)
Last Breaking-Event-Address:
`, []string{"report", "ip cpu_relax+0x1e/0x20 at 1067ae", "code a7 84 0 4 83 0 0 44 c0 f4 0 32 e0 94 7 7 mark 14 at 1067a0",
			"trace cpu_relax+0x1e/0x20 at 1067ae", "trace f+0x1e/0x20 at 1067ae"}},
		{"riscv", "epc : f+0x1e/0x20\n ra : g+0x1/0x2 [m]\nepc : f+0x1/0x2 ra : g+0x3/0x4 sp : 0000003fffe6f8a0\n",
			[]string{"ip f+0x1e/0x20", "link g+0x1/0x2 [m]", "ip f+0x1/0x2", "link g+0x3/0x4"}},
		{"lockups and tasks", `
watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/u8:2:45]
NMI watchdog: BUG: soft lockup - CPU#10 stuck for 23s! [migration/10:346]
sysrq: Show State
task:systemd         state:S stack:0     pid:1     ppid:0      flags:0x00000002
 __schedule+0x34d/0x9e0
[<0>] do_wait+0x5f/0x300
INFO: task a:1 blocked for more than 120 seconds.
rcu: INFO: rcu_preempt self-detected stall on CPU
`, []string{"report", "report", "report", "report", "trace __schedule+0x34d/0x9e0", "trace do_wait+0x5f/0x300", "report", "report"}},
		{"no oops", "usb 1-1: new device\nModules linked in: a b\nStack:\n 0000000000000000 ffff\nloop0: p1 p2\nfoo+0x1/0x2 is odd\nCode: none\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p oopsParser
			var items []oopsItem
			lines := readLogText(tt.text)
			for i := range lines {
				items = append(items, p.parse(&lines[i])...)
			}
			items = append(items, p.parse(nil)...)
			var got []string
			for _, i := range items {
				s := i.kind
				if i.unsure {
					s += " ?"
				}
				if i.user {
					s += " user"
				}
				if i.place != "" {
					s += " " + i.place
				}
				for k, v := range i.code {
					if i.gaps[k] {
						s += " gap"
					} else {
						s += fmt.Sprintf(" %x", v)
					}
				}
				if i.kind == oopsCode {
					s += fmt.Sprintf(" mark %d", i.mark)
				}
				if i.wide {
					s += " wide"
				}
				if i.addr != 0 {
					s += fmt.Sprintf(" at %x", i.addr)
				}
				if i.known != "" {
					s += " of " + i.known
				}
				got = append(got, s)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// FuzzOops: no log makes the reader fail.
func FuzzOops(f *testing.F) {
	f.Add("[   12.345678][  T1] RIP: 0010:f+0x1/0x2\nCode: 00 <0f> 05\n")
	f.Add("MESSAGE=BUG: a\n_SOURCE_MONOTONIC_TIMESTAMP=9\n\n{\"MESSAGE\":\"x\"}\nKrnl Code: 00000000001067a0: a784\n")
	f.Add("NIP [c000000000ac0ce8] f+0x18/0xf0\nInstruction dump:\nebe1fff8 7d908120 <4e800020> XXXXXXXX\n")
	f.Fuzz(func(t *testing.T, text string) {
		var p oopsParser
		for _, l := range readLogText(text) {
			for _, i := range p.parse(&l) {
				if len(i.code) != len(i.gaps) || i.mark >= len(i.code) && i.mark >= 0 {
					t.Errorf("%+v", i)
				}
			}
		}
		p.parse(nil)
	})
}
