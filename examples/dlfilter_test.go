// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

var sampled = flag.String("samples", "", "TestDlfilter: look at the recording `DIR`, too, which has samples")

var samplePattern = regexp.MustCompile(`^\s*(\d+)\.(\d{9}):\s+([0-9a-f]+)`)

// TestDlfilter: inside of perf script's own output, each sample in the kernel has its
// instruction as of the sample's time.
func TestDlfilter(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("skipped: no perf here")
	}
	filter := compile(t, "textreplay-dlfilter.so", "", "-shared", "-fPIC", "dlfilter/textreplay-dlfilter.c")
	if out, err := exec.Command("perf", "script", "--list-dlfilters").CombinedOutput(); err != nil {
		t.Skipf("skipped: this perf has no dlfilters: %v %.100s", err, out)
	}
	for _, name := range []string{"callgraph", "hotplug"} {
		t.Run(name, func(t *testing.T) {
			dlfilter(t, filter, filepath.Join(corpus.Root(), "testdata", name, "rec.data"), 100, 0)
		})
	}
	if *sampled != "" {
		t.Run("samples", func(t *testing.T) { dlfilter(t, filter, *sampled, 1, 1) })
	}
	t.Run("rich", func(t *testing.T) {
		dlfilter(t, filter, filepath.Join(corpus.Large(t, "x86_64/rich"), "rec.data"), 1000, 1000)
	})
}

func dlfilter(t *testing.T, filter, rec string, least, leastKnown int) {
	r, err := replay.Load(rec, replay.Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dis, err := disasm.New(r.Machine(), r.Recording.ByteOrder())
	if err != nil {
		t.Fatal(err)
	}
	cur := r.Cursor()
	// expected returns what the filter prints below a sample.
	expected := func(addr, at uint64) string {
		v := r.Image.At(at)
		var line strings.Builder
		fmt.Fprintf(&line, "    %016x", addr)
		if s, ok := v.Symbol(addr); ok {
			fmt.Fprintf(&line, " %s+%#x", s.Name, addr-s.Addr)
			if s.Module != "" {
				fmt.Fprintf(&line, " [%s]", s.Module)
			}
		}
		line.WriteString(":")
		var buf [16]byte
		n, text := 1, ""
		if b := v.Read(addr, buf[:]); b.Given > 0 {
			inst := dis.Next(buf[:b.Given], addr, func(a uint64) (string, uint64, bool) {
				s, ok := v.Symbol(a)
				return s.Name, s.Addr, ok
			})
			n, text = len(inst.Bytes), inst.Text
		}
		b := cur.Read(addr, at, buf[:n])
		for _, c := range buf[:b.Given] {
			fmt.Fprintf(&line, " %02x", c)
		}
		if text != "" {
			line.WriteString("  " + text)
		}
		if b.Standing != timeline.Known {
			fmt.Fprintf(&line, "  %v", b.Standing)
			if b.Reason != timeline.ReasonNone {
				fmt.Fprintf(&line, " (%v)", b.Reason)
			}
		}
		if b.NoTrap.Since >= b.NoTrap.Until {
			line.WriteString("  may trap")
		}
		return line.String()
	}
	script := func(args ...string) []string {
		cmd := exec.Command("perf", append([]string{"script", "-i", rec, "--dlfilter", filter, "--dlarg", rec, "--ns", "-G", "-F", "time,ip"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("perf script: %v", err)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
	lines := script()
	kernel, known, wrong := 0, 0, 0
	for i, line := range lines {
		m := samplePattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		addr, _ := strconv.ParseUint(m[3], 16, 64)
		sec, _ := strconv.ParseUint(m[1], 10, 64)
		ns, _ := strconv.ParseUint(m[2], 10, 64)
		if addr < 1<<63 {
			continue // in user space
		}
		kernel++
		want := expected(addr, sec*1e9+ns)
		got := ""
		if i+1 < len(lines) {
			got = lines[i+1]
		}
		if got != want {
			if wrong++; wrong < 5 {
				t.Errorf("%s\n got %s\nwant %s", line, got, want)
			}
		} else if !strings.Contains(got, "(") {
			known++
		}
	}
	t.Logf("%d samples in the kernel, %d of them known", kernel, known)
	if kernel < least || known < leastKnown {
		t.Errorf("%d samples in the kernel, %d of them known, want %d and %d", kernel, known, least, leastKnown)
	}
	only := script("--dlarg", "known")
	for _, line := range only {
		if regexp.MustCompile(`  (unknown|unmapped|unconfirmed|retired|conflicting)`).MatchString(line) {
			t.Errorf("with known: %s", line)
			break
		}
	}
	// With trap, the samples are those below which "may trap" is printed without it.
	traps := 0
	for _, line := range lines {
		if strings.HasSuffix(line, "  may trap") {
			traps++
		}
	}
	kept := 0
	for _, line := range script("--dlarg", "trap") {
		switch {
		case samplePattern.MatchString(line):
			kept++
		case line != "" && !strings.HasSuffix(line, "  may trap"):
			t.Errorf("with trap: %s", line)
		}
	}
	t.Logf("%d samples may be of a trap", traps)
	if kept != traps {
		t.Errorf("%d samples with trap, want %d", kept, traps)
	}
}
