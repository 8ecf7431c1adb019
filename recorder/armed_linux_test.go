// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/recorder/journal"
)

// TestWatchProbes: a recorder notices that all kprobes were disarmed, by the file of debugfs or
// by the places of its probes, says so once, notes it, and arms them again only if it may.
func TestWatchProbes(t *testing.T) {
	const addr = 0xffff800080000010
	for _, tt := range []struct {
		name   string
		flag   string // kprobes/enabled; "" if there is no debugfs
		place  string // the place's code without a probe; "" if it is what memory has; "unknown"
		armed  string // with it; "own" if probes are never ftrace's
		rearm  bool
		off    bool
		became string // kprobes/enabled
	}{
		{"armed", "1\n", "plain", "", false, false, "1\n"},
		{"no debugfs", "", "plain", "", false, false, ""},
		{"disarmed", "0\n", "plain", "", false, true, "0\n"},
		{"armed again", "0\n", "plain", "", true, true, "1"},
		{"the place is as it was", "", "", "BRK", false, true, ""},
		{"no place, debugfs says it", "1\n", "unknown", "own", false, false, "1\n"},
		{"no place, but probes may be ftrace's", "1\n", "unknown", "", false, true, "1\n"},
		{"no place, no debugfs", "", "unknown", "own", false, true, ""},
		{"the place is another one, and no change hits the probes", "1\n", "plain", "BRK", false, true, "1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fakeTracefs(t, map[string]string{"kprobe_events": "", "kprobe_profile": ""})
			was := debugfs
			debugfs = t.TempDir()
			t.Cleanup(func() { debugfs = was })
			flag := filepath.Join(debugfs, "kprobes", "enabled")
			if tt.flag != "" {
				if err := os.MkdirAll(filepath.Dir(flag), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(flag, []byte(tt.flag), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			file, err := os.Create(filepath.Join(t.TempDir(), journal.Name))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var warnings []string
			r := &Recorder{warned: make(map[string]bool), mem: fakeMemory(t), piece: &piece{journal: file}}
			r.opts.Rearm, r.opts.Warn = tt.rearm, func(err error) { warnings = append(warnings, err.Error()) }
			place := &probePlace{addr: addr, known: true}
			if err := r.mem.read(place.armed[:], addr); err != nil {
				t.Fatal(err)
			}
			place.plain = place.armed
			place.known = tt.place != "unknown"
			is := ownProbes
			ownProbes = tt.armed == "own"
			t.Cleanup(func() { ownProbes = is })
			copy(place.plain[:], tt.place)
			copy(place.armed[:], tt.armed)
			r.probes = &probes{root: tracefs[1], places: []*probePlace{place}, each: []string{"map"}, armed: 5}
			for range 2 {
				if err := r.watchProbes(7, false); err != nil {
					t.Fatal(err)
				}
				if tt.rearm { // the file of debugfs does what it says
					break
				}
			}
			if off := r.probes.off != nil; off != tt.off || !off && r.probes.armed != 7 {
				t.Errorf("disarmed: %v, armed at %d", off, r.probes.armed)
			}
			first := journal.Entry{Start: &journal.Start{Version: journal.Version, Program: "p", Clock: "c"}}
			var text bytes.Buffer
			if err := journal.Append(&text, &first); err != nil {
				t.Fatal(err)
			}
			text.WriteString(readFile(t, file.Name()))
			entries, err := journal.Read(&text)
			if err != nil {
				t.Fatal(err)
			}
			want := 1
			if tt.off {
				want = 2
			}
			if len(entries) != want || len(warnings) != want-1 {
				t.Fatalf("%d lines of the journal, warnings %q", len(entries)-1, warnings)
			}
			if tt.off {
				if d := entries[1].Disarmed; d == nil || d.From != 5 || d.Seen == 0 || d.To != 0 {
					t.Errorf("%+v", d)
				}
				if !strings.Contains(warnings[0], "disarmed") {
					t.Errorf("%q", warnings)
				}
			}
			if tt.became != "" && readFile(t, flag) != tt.became {
				t.Errorf("kprobes/enabled is %q", readFile(t, flag))
			}
		})
	}
}

// TestNeededNames: of kallsyms, the recorder keeps what it needs, and copies all of it.
func TestNeededNames(t *testing.T) {
	const text = "ffff800080000000 T _text\nffff800080010000 T _stext\nffff800080010010 t vfs_read\nffff800080010020 T __set_fixmap\n" +
		"ffff800080020000 T _etext\nffffa00000000000 t init\t[dummy]\nffffa00000001000 t bpf_prog_1\t[bpf]\nffffa00000002000 t kprobe_insn_page\t[__builtin__kprobes]\n"
	var out bytes.Buffer
	names, err := copyKallsyms(&out, strings.NewReader(text), "__set_fixmap")
	if err != nil || out.String() != text {
		t.Fatalf("%v, %q", err, out.String())
	}
	var got []string
	for _, s := range names.All() {
		got = append(got, s.Name)
	}
	if s := strings.Join(got, " "); s != "_text _stext __set_fixmap _etext bpf_prog_1 kprobe_insn_page" {
		t.Error(s)
	}
}
