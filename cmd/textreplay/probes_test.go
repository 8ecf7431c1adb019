// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
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
	for _, name := range []string{"out/kprobe_profile.start", "out/kprobe_profile.end"} {
		if text := read(name); !regexp.MustCompile(`^pid \d+\n  map 1 0\n$`).MatchString(text) {
			t.Errorf("%s: %q", name, text)
		}
	}
}
