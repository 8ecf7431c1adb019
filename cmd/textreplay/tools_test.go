// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
)

// tool runs a program that loads what image wrote, and returns what it prints.
// Whatever it has to complain of fails the test; without the program it is skipped.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s here", name)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBUGINFOD_URLS=", "HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for line := range strings.Lines(stdout.String() + stderr.String()) {
		if strings.Contains(strings.ToLower(line), "warning:") {
			t.Errorf("%s: %s", name, line)
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("%s complains: %s", name, &stderr)
	}
	return stdout.String()
}

// imageOfSmall runs "textreplay image" on the recording small, at a time when
// a kprobe is optimised.
func imageOfSmall(t *testing.T, args ...string) {
	t.Helper()
	small := filepath.Join(corpus.Root(), "testdata", "small", "rec.data")
	var stdout, stderr bytes.Buffer
	args = append([]string{"image", "-i", small, "--at", "16.500000000"}, args...)
	if code := run(args, strings.NewReader(""), &stdout, &stderr); code != exitAnswered || stderr.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
}

func TestImageObjdump(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text.elf")
	place := []string{"-d", "--start-address=0xffffffffaef63fa7", "--stop-address=0xffffffffaef63fac", file}
	imageOfSmall(t, "-o", file, "--exec")
	out := tool(t, "objdump", place...)
	if want := "ffffffffaef63fa7:\te9 1c f7 32 11       \tjmp    ffffffffc02936c8 <kprobe_optinsn_page+0x6c8(do_sys_openat2+0x7)>"; !strings.Contains(out, want) {
		t.Errorf("objdump prints\n%swant a line\n%s", out, want)
	}
	tool(t, "objdump", "-d", file)
	tool(t, "readelf", "-aW", file)

	// Of a core it does not show names.
	imageOfSmall(t, "-o", file)
	out = tool(t, "objdump", place...)
	if want := "ffffffffaef63fa7:\te9 1c f7 32 11       \tjmp    0xffffffffc02936c8"; !strings.Contains(out, want) {
		t.Errorf("objdump prints\n%swant a line\n%s", out, want)
	}
	tool(t, "readelf", "-aW", file)
}

func TestImageGDB(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text.elf")
	imageOfSmall(t, "-o", file, "--exec")
	out := tool(t, "gdb", "-nx", "-batch", "-ex", "x/i 0xffffffffaef63fa7", "-ex", "info symbol 0xffffffffc02936c8",
		"-ex", "info address do_sys_openat2", "-ex", "disassemble 0xffffffffc0291000,+4", file)
	for _, want := range []string{
		"0xffffffffaef63fa7 <do_sys_openat2+7>:\tjmp    0xffffffffc02936c8 <kprobe_optinsn_page+0x6c8(do_sys_openat2+0x7)>",
		"kprobe_optinsn_page+0x6c8(do_sys_openat2+0x7) in section .text",
		`Symbol "do_sys_openat2" is at 0xffffffffaef63fa0 in a file compiled without debugging.`,
		"<kprobe_insn_page(do_sys_openat2+0x7)+3>:\tint3",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("gdb prints\n%swant a line\n%s", out, want)
		}
	}

	// A core, alone and with the program.
	core := filepath.Join(filepath.Dir(file), "core")
	imageOfSmall(t, "-o", core)
	for _, args := range [][]string{{"-c", core}, {file, core}} {
		out := tool(t, "gdb", append([]string{"-nx", "-batch", "-ex", "x/i 0xffffffffaef63fa7"}, args...)...)
		if want := ":\tjmp    0xffffffffc02936c8"; !strings.Contains(out, want) {
			t.Errorf("gdb %q prints\n%swant a line\n%s", args, out, want)
		}
	}
}

// perf names samples by the kcore_dir of a moment, and shows its code.
func TestImagePerf(t *testing.T) {
	dir := t.TempDir()
	rec := filepath.Join(dir, "rec.data")
	then := filepath.Join(dir, "then")
	sampled := []uint64{0xffffffffaef63fa7, 0xffffffffaef63fac, 0xffffffffc02936d0, 0xffffffffc0291000}
	addSamples(t, rec, sampled)
	imageOfSmall(t, "--kcore-dir", then)

	want := []string{
		"ffffffffaef63fa7", "do_sys_openat2+0x7",
		"ffffffffaef63fac", "do_sys_openat2+0xc",
		"ffffffffc02936d0", "kprobe_optinsn_page+0x6c8(do_sys_openat2+0x7)+0x8",
		"ffffffffc0291000", "kprobe_insn_page(do_sys_openat2+0x7)+0x0",
	}
	got := strings.Fields(tool(t, "perf", "script", "-i", rec, "--kallsyms", filepath.Join(then, "kallsyms"), "-F", "ip,sym,symoff"))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("perf script --kallsyms (-want +got):\n%s", d)
	}

	if err := os.Rename(then, filepath.Join(rec, "kcore_dir")); err != nil {
		t.Fatal(err)
	}
	got = strings.Fields(tool(t, "perf", "script", "-i", rec, "-F", "ip,sym,symoff"))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("perf script (-want +got):\n%s", d)
	}
	report := tool(t, "perf", "report", "-i", rec, "--stdio", "--no-children", "-s", "sym")
	for _, line := range []string{"50.00%  [k] do_sys_openat2", "25.00%  [k] kprobe_insn_page(do_sys_openat2+0x7)", "25.00%  [k] kprobe_optinsn_page+0x6c8(do_sys_openat2+0x7)"} {
		if !strings.Contains(report, line) {
			t.Errorf("perf report prints\n%swant a line\n%s", report, line)
		}
	}
	// The jump of the optimised probe, which perf record's own copy does not have.
	code := tool(t, "perf", "annotate", "-i", rec, "--stdio", "-s", "do_sys_openat2")
	if want := "ffffffffaef63fa7:"; !strings.Contains(code, want) || !strings.Contains(code, "jmp    0xffffffffc02936c8") {
		t.Errorf("perf annotate prints\n%swant the jump at %s", code, want)
	}
}

// addSamples makes a directory with the data of the recording small, and one
// sample at each address.
func addSamples(t *testing.T, dir string, addrs []uint64) {
	t.Helper()
	rec, err := perfdata.Open(filepath.Join(corpus.Root(), "testdata", "small", "rec.data"))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := perfdata.CreateDir(dir, 0, rec.ByteOrder())
	must(err)
	// perf script passes over the samples of a dummy.
	ev := rec.Events()[0]
	ev.Name, ev.Attr.Config = "cpu-clock", 0
	must(w.SetEvents(rec.Events()))
	sc := rec.Scan()
	for sc.Next() {
		must(w.WriteRecord(sc.Record().Raw))
	}
	must(sc.Err())
	const has = perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SamplePeriod
	if ev.Attr.SampleType != has {
		t.Fatalf("the samples of %s have %v", ev.Name, ev.Attr.SampleType)
	}
	le := binary.LittleEndian
	for i, addr := range addrs {
		raw := le.AppendUint32(nil, uint32(perfdata.RecordSample))
		raw = le.AppendUint16(raw, perfdata.MiscKernel)
		raw = le.AppendUint16(raw, 8+6*8)
		for _, v := range []uint64{ev.IDs[0], addr, 0, 16_500_000_000 + uint64(i), 0, 1} {
			raw = le.AppendUint64(raw, v)
		}
		must(w.WriteRecord(raw))
	}
	for _, feature := range rec.Features() {
		if slices.Contains([]perfdata.Feature{perfdata.FeatureEventDesc, perfdata.FeatureBuildID}, feature) {
			continue // the writer makes its own; nothing is to be looked up on this machine
		}
		data, err := rec.Feature(feature)
		must(err)
		must(w.WriteFeature(feature, data))
	}
	must(w.Close())
}
