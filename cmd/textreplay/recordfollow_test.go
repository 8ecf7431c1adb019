// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder"
	"github.com/textreplay/textreplay/timeline/replay"
)

// followed returns the lines that --follow prints of a recording that "textreplay record" has
// made on arm64.
func followed(t *testing.T, follow func(f *recordFollower) error) (lines []string, stderr string) {
	t.Helper()
	var out, complaints bytes.Buffer
	var ended atomic.Bool
	ended.Store(true)
	a := &app{out: bufio.NewWriter(&out), stderr: &complaints}
	f := a.newRecordFollower(elf.EM_AARCH64, binary.LittleEndian, &ended)
	snap, err := kcore.Open(filepath.Join("testdata", "recorded612", replay.OwnCopy))
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	f.names = snap.Kallsyms
	if err := follow(f); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), complaints.String()
}

// TestRecordFollowProbes: where probes record the changes, --follow prints what log prints.
// Without a copy of text it says why it prints none.
func TestRecordFollowProbes(t *testing.T) {
	const path = "testdata/recorded612"
	var log, complaints bytes.Buffer
	if code := run([]string{"-i", path, "log"}, nil, &log, &complaints); code != 0 {
		t.Fatalf("exit code %d: %s", code, complaints.String())
	}
	want := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	// log has the writer in front of a batch, --follow in each line. log also names slots that
	// no record registers.
	form := regexp.MustCompile(`^ *([0-9.]+) .*?([0-9a-f]{16})(?: <[^>]*>)?(: .*->.*)$`)
	pokes := func(lines []string) (out []string) {
		for _, l := range lines {
			if m := form.FindStringSubmatch(l); m != nil {
				out = append(out, m[1]+" "+m[2]+m[3])
			}
		}
		return out
	}
	one, _ := followed(t, func(f *recordFollower) error {
		return f.piece(filepath.Join(path, "data"), func() bool { return false })
	})
	if n := len(pokes(want)); n < 400 {
		t.Fatalf("log prints %d changes", n)
	}
	if d := cmp.Diff(pokes(want), pokes(one)); d != "" {
		t.Errorf("-log +follow:\n%s", d)
	}
	first := t.TempDir()
	if err := os.CopyFS(first, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(first, replay.OwnCopy)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(first, "textreplay.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none, stderr := followed(t, func(f *recordFollower) error {
		return f.piece(filepath.Join(first, "data"), func() bool { return false })
	})
	if len(pokes(none)) != 0 || !strings.Contains(stderr, "no copy of kernel text") {
		t.Errorf("%d changes without a copy of text: %s", len(pokes(none)), stderr)
	}
}

// TestRecordFollowPieces: --follow waits for the next piece, which the recorder begins after it
// has ended the one before, and goes on where pieces were removed. What a later piece lists
// because it was there before is printed once.
func TestRecordFollowPieces(t *testing.T) {
	le := binary.LittleEndian
	ev := &perfdata.Event{Name: "dummy", IDs: []uint64{10}, Attr: perfdata.Attr{
		SampleType: perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleIdentifier,
		Flags:      perfdata.FlagSampleIDAll | perfdata.FlagKSymbol | perfdata.FlagBPFEvent,
	}}
	dir := t.TempDir()
	type program struct {
		time, id uint64 // a listed one has no time
		gone     bool
	}
	piece := func(n int, programs ...program) {
		t.Helper()
		fresh := filepath.Join(t.TempDir(), "new")
		w, err := perfdata.CreateDir(fresh, 0, le)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(err)
		check(w.SetEvents([]*perfdata.Event{ev}))
		for _, p := range programs {
			at := perfdata.SampleID{Time: p.time * 1e9, ID: 10, Event: ev}
			sym := perfdata.KSymbol{Addr: 0xffffffffc0000000 + p.id<<12, Len: 64, Kind: perfdata.KSymbolBPF, Name: fmt.Appendf(nil, "bpf_prog_%d", p.id), SampleID: at}
			bpf := perfdata.BPFEvent{Kind: perfdata.BPFLoad, ID: uint32(p.id), SampleID: at}
			if p.gone {
				sym.Flags, bpf.Kind = perfdata.KSymbolUnregister, perfdata.BPFUnload
			}
			check(w.KSymbol(&sym))
			check(w.BPFEvent(&bpf))
		}
		check(w.Close())
		check(os.Rename(fresh, filepath.Join(dir, recorder.PieceName(n))))
	}
	piece(1, program{id: 1}, program{time: 1, id: 2})
	var out lockedBuffer
	var ended atomic.Bool
	a := &app{out: bufio.NewWriter(&out), stderr: &out}
	f := a.newRecordFollower(elf.EM_X86_64, le, &ended)
	done := make(chan error)
	go func() { done <- f.pieces(filepath.Join(dir, recorder.PieceName(1))) }()
	wait := func(what string) {
		t.Helper()
		for until := time.Now().Add(time.Minute); !strings.Contains(out.text(), what); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("no %q in\n%s", what, out.text())
			}
		}
	}
	wait("id 2,")
	time.Sleep(2 * followPause) // it has looked for the next piece
	piece(2, program{id: 1}, program{id: 2}, program{time: 2, id: 2, gone: true}, program{time: 3, id: 3})
	wait("id 3,")
	piece(4, program{id: 1}, program{id: 3}, program{id: 4}, program{time: 5, id: 2})
	ended.Store(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range strings.Split(strings.TrimSpace(out.text()), "\n") {
		if strings.Contains(l, "BPF program") {
			when, _, _ := strings.Cut(l, "  ")
			_, what, _ := strings.Cut(l, "BPF program ")
			what, _, _ = strings.Cut(what, ",")
			got = append(got, when+": "+what)
		}
	}
	want := []string{"before the start: load  id 1", "1.000000000: load  id 2", "2.000000000: unload  id 2",
		"3.000000000: load  id 3", "before the start: load  id 4", "5.000000000: load  id 2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s\n%s", d, out.text())
	}
	if n := strings.Count(out.text(), "symbol registered"); n != 5 {
		t.Errorf("%d symbols are registered in\n%s", n, out.text())
	}
}
