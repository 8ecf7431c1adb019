// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
)

// profileHas is the script command: profile FILE TEXT checks that a valid
// profile has a sample whose stack and labels have the text; negated that it
// has none.
func profileHas(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: profile FILE TEXT")
	}
	p, err := profile.Parse(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Check(p.CheckValid())
	found := ""
	for _, s := range p.Sample {
		var frames []string
		for _, l := range s.Location {
			name := fmt.Sprintf("%#x", l.Address)
			if len(l.Line) > 0 {
				name = l.Line[0].Function.Name
			}
			frames = append(frames, name)
		}
		line := strings.Join(frames, " < ")
		for _, key := range []string{"cpu", "pid", "tid"} {
			for _, v := range s.NumLabel[key] {
				line += fmt.Sprintf(" %s=%d", key, v)
			}
		}
		for _, v := range s.Label["comm"] {
			line += " comm=" + v
		}
		if strings.Contains(line, args[1]) {
			found = line
		}
	}
	if found == "" && !neg {
		ts.Fatalf("no sample has %q", args[1])
	}
	if found != "" && neg {
		ts.Fatalf("a sample has %q: %s", args[1], found)
	}
}

// TestPprofDisasm: pprof shows samples next to instructions from the image.
func TestPprofDisasm(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("skipped: there is no go command")
	}
	rec := filepath.Join(corpus.Root(), "testdata", "callgraph", "rec.data")
	dir := t.TempDir()
	prof, elf := filepath.Join(dir, "prof.pb.gz"), filepath.Join(dir, "text.elf")
	for _, args := range [][]string{
		{"pprof", "-i", rec, "-o", prof},
		{"image", "-i", rec, "--at", "24.5", "--exec", "-o", elf},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(args, nil, &stdout, &stderr); code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, code, &stderr)
		}
	}
	cmd := exec.Command("go", "tool", "pprof", "-symbolize=none", "-disasm=secondary_startup_64_no_verify$", elf, prof)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	for _, want := range []string{"ROUTINE ======================== secondary_startup_64_no_verify\n", "     .     15.79s ffffffffa3000158: LRET "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestMetRecordings: a recording that is named twice, or copied, is met once, and only recordings
// whose files have the same sizes are read to find that out.
func TestMetRecordings(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"a": "one", "b": "another", "c": "two", "d": "one", "e": "five5", "f": "five5"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	met := make(metRecordings)
	for _, x := range [][3]string{{"a", "a", ""}, {"b", "b", ""}, {"c", "c", ""}, {"d", "d", "a"}, {"a", "a", "a"}, {"-", "e", ""}, {"f", "f", "-"}} {
		if first, err := met.add(x[0], x[1]); err != nil || first != x[2] {
			t.Errorf("%s: the same as %q, want %q; %v", x[0], first, x[2], err)
		}
		if x[0] == "-" { // as the command does
			if err := os.Remove(x[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, same := range met {
		for _, m := range same {
			if read := m.id != ""; read != (m.path != "b") {
				t.Errorf("%s was read: %v", m.path, read)
			}
		}
	}
}

// TestMergeSilentEvent: recordings of the same events make one profile, although one of them has no
// sample of the second event.
func TestMergeSilentEvent(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name string, sampled ...uint64) {
		var out bytes.Buffer
		w := perfdata.NewPipeWriter(&out, binary.LittleEndian)
		var events []*perfdata.Event
		for i, event := range []string{"cycles", "page-faults"} {
			events = append(events, &perfdata.Event{Name: event, IDs: []uint64{uint64(i + 1)}, Attr: perfdata.Attr{
				SamplePeriod: 1000, SampleType: perfdata.SampleIdentifier | perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime}})
		}
		if err := w.SetEvents(events); err != nil {
			t.Fatal(err)
		}
		for i, id := range sampled {
			b := binary.LittleEndian.AppendUint64(nil, uint64(perfdata.RecordSample)|perfdata.MiscKernel<<32|40<<48)
			for _, v := range []uint64{id, 0xffffffff81000000, 7<<32 | 7, 1000 + uint64(i)} {
				b = binary.LittleEndian.AppendUint64(b, v)
			}
			if err := w.WriteRecord(b); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one", 1, 2, 1)
	write("two", 1)
	var stdout, stderr bytes.Buffer
	if code := run([]string{"pprof", "-o", "both.pb.gz", "one", "two"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	for _, want := range []string{"3 samples of cycles, 3,000 count", "1 sample of page-faults, 1,000 count", ": 1 stack, "} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, &stdout)
		}
	}
}
