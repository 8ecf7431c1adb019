// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
)

// TestProbeScript runs the script that textreplay probes prints, with commands in the place
// of perf and of those that need root.
func TestProbeScript(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the script is for Linux")
	}
	kcore := filepath.Join(corpus.Root(), "testdata", "probe612", "rec.data", "kcore_dir")
	var script, errors bytes.Buffer
	if code := run([]string{"probes", "--kcore", kcore}, strings.NewReader(""), &script, &errors); code != 0 {
		t.Fatalf("exit code %d: %s", code, &errors)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("bin/unshare", "#!/bin/sh\nshift\nexec \"$@\"\n")
	write("bin/mount", "#!/bin/sh\necho mount >> \"$CALLS\"\n")
	write("bin/umount", "#!/bin/sh\necho umount >> \"$CALLS\"\n")
	write("bin/perf", "#!/bin/sh\nmkdir -p \"$3\"\nwhile [ \"$1\" != -- ]; do echo \"perf $1\" >> \"$CALLS\"; shift; done\nshift\n\"$@\"\n")
	write("record.sh", script.String())
	write("kprobe_events", "")
	write("kprobe_profile", "  map 1 0\n")
	formats := ""
	for _, e := range []string{"module/module_load", "module/module_free", "cpuhp/cpuhp_enter", "tp/poke", "tp/map"} {
		system, name, _ := strings.Cut(e, "/")
		text := "name: " + name + "\nID: 7\nformat:\n\nprint fmt: \"%d\", REC->cpu\n"
		if err := os.MkdirAll(filepath.Join(dir, "events", e), 0o700); err != nil {
			t.Fatal(err)
		}
		write(filepath.Join("events", e, "format"), text)
		formats += "system: " + system + "\n" + text
	}
	cmd := exec.Command("sh", filepath.Join(dir, "record.sh"), "sh", "-c", `echo "$1" >> "$CALLS"`, "sh", `a 'b' "c" $d`)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "TRACEFS="+dir,
		"OUT="+filepath.Join(dir, "out"), "CALLS="+filepath.Join(dir, "calls"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	calls := read("calls")
	if !strings.HasPrefix(calls, "mount\nperf record\n") || !strings.HasSuffix(calls, "perf -e\nperf tp:poke\nperf -e\nperf tp:map\numount\na 'b' \"c\" $d\n") {
		t.Errorf("calls:\n%s", calls)
	}
	if events := read("kprobe_events"); !strings.HasPrefix(events, "p:tp/poke __text_poke ") || !strings.HasSuffix(events, "\n-:tp/poke\n-:tp/map\n") {
		t.Errorf("kprobe_events:\n%s", events)
	}
	if text := read("out/tracing_formats"); text != formats {
		t.Errorf("tracing_formats:\n%s", text)
	}
	for _, name := range []string{"out/kprobe_profile.start", "out/kprobe_profile.end"} {
		if text := read(name); !regexp.MustCompile(`^pid \d+\n  map 1 0\n$`).MatchString(text) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// TestGrowingProbes: before perf ends, a file has no formats of its events. Those that the
// script stored serve, or a file that --formats names.
func TestGrowingProbes(t *testing.T) {
	whole := filepath.Join(corpus.Root(), "testdata", "probe612", "rec.data")
	rec, err := perfdata.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	tracing, err := rec.Feature(perfdata.FeatureTracingData)
	if err != nil {
		t.Fatal(err)
	}
	formats := ""
	for system, names := range map[string][]string{"tp": {"map", "poke"}, "module": {"module_load", "module_free"}, "cpuhp": {"cpuhp_enter"}} {
		for _, name := range names {
			_, text, ok := strings.Cut(string(tracing), "name: "+name+"\n")
			if !ok {
				t.Fatalf("no format of %s", name)
			}
			text, after, _ := strings.Cut(text, "\nprint fmt:")
			after, _, _ = strings.Cut(after, "\n")
			formats += "system: " + system + "\nname: " + name + "\n" + text + "\nprint fmt:" + after + "\n"
		}
	}
	data, err := os.ReadFile(filepath.Join(whole, "data"))
	if err != nil {
		t.Fatal(err)
	}
	const offsetAt, sizeAt = 40, 48 // of the records, in the file's header
	end := binary.LittleEndian.Uint64(data[offsetAt:]) + binary.LittleEndian.Uint64(data[sizeAt:])
	binary.LittleEndian.PutUint64(data[sizeAt:], 0)
	dir := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("data", string(data[:end]))
	at := func(flags ...string) string {
		var out, errors bytes.Buffer
		run(append([]string{"at", "-i", dir, "--cpus", "2", "vfs_read", "57", "--insns", "1", "--require", "any"}, flags...), strings.NewReader(""), &out, &errors)
		line, _, _ := strings.Cut(out.String(), "\n")
		return line + errors.String()
	}
	if got := at(); !strings.Contains(got, "unconfirmed (probe-unformatted)") {
		t.Errorf("without formats: %s", got)
	}
	other := write("other", formats)
	if got := at("--formats", other); !strings.Contains(got, "): known") {
		t.Errorf("with --formats: %s", got)
	}
	write("tracing_formats", formats)
	if got := at(); !strings.Contains(got, "): known") {
		t.Errorf("with tracing_formats: %s", got)
	}
	part := filepath.Join(t.TempDir(), "part.data")
	var out, errors bytes.Buffer
	if code := run([]string{"trim", "-i", dir, "--cpus", "2", "-o", part}, strings.NewReader(""), &out, &errors); code != 0 {
		t.Errorf("trim: %s", &errors)
	}
	dir = part
	if got := at(); !strings.Contains(got, "): known") {
		t.Errorf("a part of the recording: %s", got)
	}
	if got := at("--formats", filepath.Join(dir, "kcore_dir", "modules")); !strings.Contains(got, "not the format files of tracefs") {
		t.Errorf("with another file: %s", got)
	}
}
