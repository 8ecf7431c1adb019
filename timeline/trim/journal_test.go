// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

// recorded returns a copy of a recording of "textreplay record" on arm64, with these lines in
// its journal before the last one, and a later copy of text in which one page differs.
func recorded(t *testing.T, lines ...*journal.Entry) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(corpus.Root(), "cmd/textreplay/testdata/recorded612"))); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, journal.Name)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	at := bytes.LastIndexByte(text, '\n') + 1
	out := bytes.NewBuffer(bytes.Clone(text[:at]))
	for _, e := range lines {
		if err := journal.Append(out, e); err != nil {
			t.Fatal(err)
		}
	}
	out.Write(append(text[at:], '\n'))
	if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// addCopy adds a later copy of text to a recording, which has one page.
func addCopy(t *testing.T, dir, name string, addr uint64, page []byte) {
	t.Helper()
	snap, err := kcore.Open(filepath.Join(dir, replay.OwnCopy))
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	to := filepath.Join(dir, name)
	if err := os.CopyFS(to, os.DirFS(filepath.Join(dir, replay.OwnCopy))); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(to, "kcore"))
	if err != nil {
		t.Fatal(err)
	}
	core := snap.Core
	if err := errors.Join(kcore.WriteCore(f, core.Machine, core.Class, core.Data, []kcore.Segment{{Addr: addr, Data: page}}, nil), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// dumps returns what an image says of all places, at all times.
func dumps(r *replay.Replay, places []timeline.Range) map[timeline.Range]string {
	out := make(map[timeline.Range]string)
	for _, p := range places {
		out[p] = r.Image.Dump(p.Lo, p.Hi-p.Lo)
	}
	return out
}

// TestJournal: a recording of "textreplay record" answers as before when it was cut down: with
// its readings of hit counters, its copies of text, its gaps, and its end. A cut of the cut is
// the same again.
func TestJournal(t *testing.T) {
	whole := open(t, recorded(t))
	page := whole.Snapshot.Core.Segments[0].Addr
	const second = uint64(1e9)
	reads := []journal.Range{{Lo: journal.Addr(page), Hi: journal.Addr(page + 0x1000)}}
	for _, tt := range []struct {
		name  string
		lines []*journal.Entry
		text  []byte // at the beginning of the page, in the later copy
	}{
		{"as it is", nil, nil},
		{"a gap", []*journal.Entry{{Gap: &journal.Gap{CPU: 1, From: 190 * second, To: 191 * second}}}, nil},
		{"disarmed", []*journal.Entry{{Disarmed: &journal.Disarmed{From: 190 * second, Seen: 191 * second, To: 192 * second}}}, nil},
		{"a later copy", []*journal.Entry{
			{Gap: &journal.Gap{CPU: 1, From: 190 * second, To: 191 * second}},
			{Copy: &journal.Copy{Dir: "copies/1", From: 200 * second, To: 201 * second, Base: replay.OwnCopy, Read: reads}},
		}, []byte{1, 2, 3, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := recorded(t, tt.lines...)
			if tt.text != nil {
				b := bytes.Clone(whole.Snapshot.Core.Bytes(page, 0x1000))
				copy(b, tt.text)
				addCopy(t, dir, "copies/1", page, b)
			}
			r := open(t, dir)
			places := []timeline.Range{{Lo: page, Hi: page + 64}}
			for p := range r.ProbedChanges() {
				places = append(places, timeline.Range{Lo: p.Addr, Hi: p.Addr + 4})
			}
			want := dumps(r, places)
			if tt.name == "a later copy" && !strings.Contains(want[places[0]], "known 01020304") {
				t.Errorf("the later copy shows nothing:\n%s", want[places[0]])
			}
			for range 2 {
				part, _ := cut(t, r, trim.Options{})
				if d := cmp.Diff(want, dumps(part, places)); d != "" {
					t.Fatalf("-whole +cut:\n%s", d)
				}
				if part.BootID() != r.BootID() || part.Report.Horizon != r.Report.Horizon {
					t.Errorf("boot %q, horizon %d; want %q, %d", part.BootID(), part.Report.Horizon, r.BootID(), r.Report.Horizon)
				}
				r = part
			}
		})
	}
	t.Run("to a time", func(t *testing.T) {
		end := 200 * second
		part, _ := cut(t, whole, trim.Options{To: end})
		if claims(t, part, whole, end) == 0 {
			t.Error("nothing is known")
		}
		if part.Report.Trusted.To < end-1 || whole.Report.Trusted.To < end {
			t.Errorf("known until %d, in the whole recording until %d", part.Report.Trusted.To, whole.Report.Trusted.To)
		}
		if part.Report.Horizon >= end+15*second { // the next reading of the counters
			t.Errorf("it goes on until %d", part.Report.Horizon)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		dir := recorded(t)
		f, err := os.OpenFile(filepath.Join(dir, journal.Name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("{}\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		part, _ := cut(t, open(t, dir), trim.Options{})
		if _, bad := part.Journal(); bad == nil {
			t.Error("its journal is not damaged any more")
		}
	})
}
