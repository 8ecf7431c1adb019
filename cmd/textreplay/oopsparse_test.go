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
	log := logReader{zone: time.FixedZone("", 3600), near: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)}
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
		{"journal short-delta", "[   12.345678 <    0.027857 >] host kernel: a\n[   12.345679                ] host kernel: b", "12345678000 - a|12345679000 - b"},
		{"dmesg -d", "[   12.345678 <    0.027857>] a\n<4>[   12.345679 <    0.000001>] b", "12345678000 - a|12345679000 - b"},
		{"dmesg -e", "[Nov23 02:13] a\n[  +0.000062] b\n[  +1.000062] [<ffffffff81063797>] ? f+0x1/0x2", "- - a|- - b|- - [<ffffffff81063797>] ? f+0x1/0x2"},
		{"journal verbose", "Fri 2026-11-20 19:13:36.228604 UTC [s=1f;i=2;b=01;m=bd3580;t=660ba0a7a34fc;x=d1]\n    _BOOT_ID=01\n    _SOURCE_MONOTONIC_TIMESTAMP=12345678\n    MESSAGE= ? f+0x1/0x2 a=b\n    PRIORITY=4\nFri 2026-11-20 19:13:36.228604 UTC [s=1f;i=3;b=01;m=bd3580;t=660ba0a7a34fc;x=d1]\n    MESSAGE=BUG: b\n",
			"12345678000+12400000000 2026-11-20T19:13:36.228604Z/1µs  ? f+0x1/0x2 a=b|-+12400000000 2026-11-20T19:13:36.228604Z/1µs BUG: b"},
		{"journal json-pretty", "{\n\t\"MESSAGE\" : \"BUG: a\",\n\t\"_SOURCE_MONOTONIC_TIMESTAMP\" : \"12345678\"\n}\n{\n\t\"MESSAGE\" : \" ? b\"\n}\nx\n{\ny\n{\n\tz", "12345678000 - BUG: a|- -  ? b|- - x|- - {|- - y|- - {|- - z"},
		{"journal json-sse", "data: {\"MESSAGE\":\"BUG: a\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"12345678\"}\n\ndata: {\"MESSAGE\":\"b\"}\n", "12345678000 - BUG: a|- - b"},
		{"journal json-seq", "\x1e{\"MESSAGE\":\"BUG: a\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"12345678\"}\n\x1e{\"MESSAGE\":\"b\"}\n", "12345678000 - BUG: a|- - b"},
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

// TestLogYears: a time without a year is in the year that is nearest to the recording, and
// a name of a zone says which of two hours is meant, if it is this machine's.
func TestLogYears(t *testing.T) {
	york, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		near, text, want string // want is "" for no time
	}{
		{"2026-12-31T23:59:30Z", "Jan  1 00:00:10 host kernel: a", "2027-01-01T05:00:10Z"},
		{"2027-01-01T00:00:30Z", "Dec 31 18:59:50.500000 host kernel: a", "2026-12-31T23:59:50.5Z"},
		{"2026-12-31T23:59:30Z", "Dec 31 18:59:50 host kernel: a", "2026-12-31T23:59:50Z"},
		{"2026-06-01T00:00:00Z", "Sep  1 00:00:00 host kernel: a", "2026-09-01T04:00:00Z"},
		{"2028-03-01T00:00:00Z", "Feb 29 00:00:00 host kernel: a", "2028-02-29T05:00:00Z"},
		{"2029-01-01T00:00:00Z", "Feb 29 00:00:00 host kernel: a", "2028-02-29T05:00:00Z"},
		{"2026-11-01T00:00:00Z", "Sun 2026-11-01 01:30:00 EDT host kernel: a", "2026-11-01T05:30:00Z"},
		{"2026-11-01T00:00:00Z", "Sun 2026-11-01 01:30:00 EST host kernel: a", "2026-11-01T06:30:00Z"},
		{"2026-11-01T00:00:00Z", "Sun 2026-11-01 01:30:00 IST host kernel: a", ""},
		{"2026-11-01T00:00:00Z", "Sun 2026-11-01 01:30:00 +14 host kernel: a", "2026-10-31T11:30:00Z"},
		{"2026-11-01T00:00:00Z", "Sun 2026-11-01 01:30:00 -03 host kernel: a", "2026-11-01T04:30:00Z"},
		{"2026-11-01T00:00:00Z", "Sun 2026-11-01 01:30:00 +0545 host kernel: a", "2026-10-31T19:45:00Z"},
	} {
		near, err := time.Parse(time.RFC3339, tt.near)
		if err != nil {
			t.Fatal(err)
		}
		log := logReader{zone: york, near: near}
		lines := log.read(&tt.text)
		if len(lines) != 1 || lines[0].text != "a" {
			t.Errorf("%q: %+v", tt.text, lines)
			continue
		}
		got := ""
		if w := lines[0].wall; !w.IsZero() {
			got = w.UTC().Format(time.RFC3339Nano)
		}
		if got != tt.want {
			t.Errorf("%q near %s is at %q, want %q", tt.text, tt.near, got, tt.want)
		}
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
		// The following four are of Debian's kernels in emulated machines, shortened.
		{"real powerpc: a warning in a module's init, called from user space", `
[   92.946103] WARNING: CPU: 1 PID: 173 at crash.c:14 cinit+0x17c/0xfe88 [crash]
[   92.947413] CPU: 1 UID: 0 PID: 173 Comm: insmod Tainted: G           OE      6.12.95+deb12-powerpc64le-64k #1  Debian 6.12.95-1~bpo12+1
[   92.947719] NIP:  c0080000005602f4 LR: c0080000005602f0 CTR: 0000000000000000
[   92.947761] REGS: c0000000092074a0 TRAP: 0700   Tainted: G           OE       (6.12.95+deb12-powerpc64le-64k Debian 6.12.95-1~bpo12+1)
[   92.947954] GPR00: c0080000005602f0 c000000009207740 c008000000588600 0000000000000016 
[   92.948368] NIP [c0080000005602f4] cinit+0x17c/0xfe88 [crash]
[   92.948409] LR [c0080000005602f0] cinit+0x178/0xfe88 [crash]
[   92.948526] Call Trace:
[   92.948587] [c000000009207740] [c0080000005602f0] cinit+0x178/0xfe88 [crash] (unreliable)
[   92.949057] [c0000000092077d0] [c000000000010ce8] do_one_initcall+0x80/0x3b8
[   92.949413] --- interrupt: 3000 at 0x7fffa0ebab80
[   92.949589] NIP:  00007fffa0ebab80 LR: 00007fffa0ebab80 CTR: 0000000000000000
[   92.950023] NIP [00007fffa0ebab80] 0x7fffa0ebab80
[   92.950044] LR [00007fffa0ebab80] 0x7fffa0ebab80
[   92.950069] --- interrupt: 3000
[   92.950219] Code: 4082005c 38840040 e8410018 <0fe00000> ebfe0000 
[  269.784958] --- interrupt: 900 at sys_finit_module+0x178/0x50c
[  269.785100] NIP [c00000000024c6b4] sys_finit_module+0x178/0x50c
[  269.785200] --- interrupt: 900
[  269.785264] NIP [c00000000024c6b4] sys_finit_module+0x178/0x50c
`, []string{"report", "report of 6.12.95+deb12-powerpc64le-64k", "ip cinit+0x17c/0xfe88 [crash] at c0080000005602f4",
			"link cinit+0x178/0xfe88 [crash] at c0080000005602f0", "trace ? cinit+0x178/0xfe88 [crash] at c0080000005602f0",
			"trace do_one_initcall+0x80/0x3b8 at c000000000010ce8", "ip user nested 0x7fffa0ebab80 at 7fffa0ebab80",
			"ip user nested 0x7fffa0ebab80 at 7fffa0ebab80", "link user nested 0x7fffa0ebab80 at 7fffa0ebab80",
			"code 4082005c 38840040 e8410018 fe00000 ebfe0000 mark 3 wide", "ip nested sys_finit_module+0x178/0x50c",
			"ip nested sys_finit_module+0x178/0x50c at c00000000024c6b4", "ip sys_finit_module+0x178/0x50c at c00000000024c6b4"}},
		{"real arm64: a jump to nowhere", `
[  255.975883] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010
[  255.979916] Internal error: Oops: 0000000086000004 [#4] SMP
[  255.992127] CPU: 1 UID: 0 PID: 238 Comm: insmod Tainted: G      D W  OE      6.12.95+deb12-arm64 #1  Debian 6.12.95-1~bpo12+1
[  255.992644] pstate: 01400805 (nzcv daif +PAN -UAO -TCO +DIT -SSBS BTYPE=-c)
[  255.992785] pc : 0x10
[  255.993022] lr : cinit+0xb0/0xff8 [crash_exec]
[  255.993138] sp : ffff800080613810
[  255.993209] x29: ffff800080613810 x28: 0000000000000000 x27: ffffa1bdab1c0098
[  255.994500] Call trace:
[  255.994600]  0x10
[  255.994700]  do_one_initcall+0x64/0x280
[  255.994800]  0xffffa1bdd22e8630
[  255.994900] Code: ???????? ???????? ???????? ???????? (????????) 
`, []string{"report", "report", "report of 6.12.95+deb12-arm64", "ip 0x10", "link cinit+0xb0/0xff8 [crash_exec]",
			"trace do_one_initcall+0x64/0x280", "trace 0xffffa1bdd22e8630 at ffffa1bdd22e8630", "code gap gap gap gap gap mark 4 wide"}},
		{"real s390x: a warning", `
[  190.411693] WARNING: CPU: 1 PID: 170 at crash.c:14 cinit+0x1d4/0x1000 [crash]
[  190.415866] Krnl PSW : 0704c00180000000 000003ff7ead41d8 (cinit+0x1d8/0x1000 [crash])
[  190.415984]            R:0 T:1 IO:1 EX:1 Key:0 M:1 W:0 P:0 AS:3 CC:0 PM:0 RI:0 EA:3
[  190.420233] Krnl GPRS: 000003ffffceb868 000003ffffd924e8 0000000000000016 000003ffffd924e8
[  190.421750] Krnl Code: 000003ff7ead41ce: c0e53ff66489	brasl	%r14,000003fffe9a0ae0
[  190.421750]           #000003ff7ead41d4: af000000		mc	0,0
[  190.421750]           >000003ff7ead41d8: c4b8ffffdf28	lgrl	%r11,000003ff7ead0028
[  190.421750]            000003ff7ead41de: a7f4ff2f		brc	15,000003ff7ead403c
[  190.422086] Call Trace:
[  190.422378]  [<000003ff7ead41d8>] cinit+0x1d8/0x1000 [crash] 
[  190.422532] ([<000003ff7ead41d4>] cinit+0x1d4/0x1000 [crash])
[  190.422780] Last Breaking-Event-Address:
[  190.422794]  [<000003fffe9a0bf2>] __warn_printk+0x112/0x118
`, []string{"report", "ip cinit+0x1d8/0x1000 [crash] at 3ff7ead41d8",
			"code c0 e5 3f f6 64 89 af 0 0 0 c4 b8 ff ff df 28 a7 f4 ff 2f mark 10 at 3ff7ead41ce",
			"trace cinit+0x1d8/0x1000 [crash] at 3ff7ead41d8", "trace cinit+0x1d4/0x1000 [crash] at 3ff7ead41d4",
			"trace __warn_printk+0x112/0x118 at 3fffe9a0bf2"}},
		{"real x86 7.2: a panic", `
[    0.060000] Kernel panic - not syncing: IO-APIC + timer doesn't work!  Boot with apic=debug and send a report.
[    0.060000] CPU: 0 UID: 0 PID: 0 Comm: swapper/0 Not tainted 7.2.13+deb14-amd64 #1 PREEMPT(lazy)  Debian 7.2.13-1 
[    0.060000] Call Trace:
[    0.060000]  <TASK>
[    0.060000]  vpanic+0x246/0x440
[    0.060000]  ? clear_IO_APIC_pin+0x15d/0x2c0
[    0.060000]  </TASK>
`, []string{"report", "report of 7.2.13+deb14-amd64", "trace vpanic+0x246/0x440", "trace ? clear_IO_APIC_pin+0x15d/0x2c0"}},
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
				if i.nested {
					s += " nested"
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
