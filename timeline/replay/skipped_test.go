// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// ofRounds returns a tape of twelve rounds, which round ends, with a known poke.
func ofRounds(t *testing.T, pipe bool, round func(w *tape, n uint64)) *tape {
	w := newTape(t)
	w.pipe = pipe
	for n := range uint64(12) {
		from := 1000 * (n + 1)
		w.ticks(from, from+500)
		if n == 1 {
			w.poke(10, from+550, 0x1100, "9090", "eb02")
		}
		w.ticks(from+600, from+900)
		round(w, n)
	}
	return w
}

// skipped returns a recording with a known poke, and a copy in which a record in the
// middle has a damaged size. Other records follow, in later rounds.
func skipped(t *testing.T, pipe bool) (whole, damaged []byte, at int) {
	t.Helper()
	whole = ofRounds(t, pipe, func(w *tape, _ uint64) { w.round() }).bytes()
	rec, err := perfdata.New(whole)
	if err != nil {
		t.Fatal(err)
	}
	rounds := 0
	s := rec.Scan()
	for s.Next() && rounds < 6 {
		if s.Record().Type == perfdata.RecordFinishedRound {
			rounds++
		}
		at = int(s.Record().Offset)
	}
	damaged = bytes.Clone(whole)
	binary.LittleEndian.PutUint16(damaged[at+6:], 20)
	return whole, damaged, at
}

// knownOf counts the bytes of the poke that are known at some time.
func knownOf(im *timeline.Image) (n int) {
	var b [2]byte
	for v := range im.Versions(0x1100, b[:], 0, timeline.MaxTime) {
		if v.Standing == timeline.Known {
			n++
		}
	}
	return n
}

// TestDamageBeforeTheEnd: skipped records make the recording damaged, even if its end is
// clean.
func TestDamageBeforeTheEnd(t *testing.T) {
	for _, pipe := range []bool{false, true} {
		whole, damaged, at := skipped(t, pipe)
		w := newTape(t)
		if r := w.replayOf(whole); knownOf(r.Image) == 0 || r.Report.Damaged {
			t.Fatalf("pipe %v: nothing is known of the whole recording: %v", pipe, r.Report.Warnings)
		}
		for name, data := range map[string][]byte{
			"whole": damaged, "cut": damaged[:at+len(whole[at:])/3], "cut in a record": damaged[:at+len(whole[at:])/3/8*8+3],
		} {
			r := w.replayOf(data)
			if !r.Report.Damaged || knownOf(r.Image) > 0 {
				t.Errorf("pipe %v, %s: damaged %v, %d versions known; %v", pipe, name, r.Report.Damaged, knownOf(r.Image), r.Report.Warnings)
			}
			if r.scan.newest < 7000 {
				t.Errorf("pipe %v, %s: the newest record is of %d", pipe, name, r.scan.newest)
			}
		}
	}
}

// TestFollowDamage: an image made before the end of the recording reports that records were
// skipped.
func TestFollowDamage(t *testing.T) {
	for _, pipe := range []bool{false, true} {
		_, damaged, at := skipped(t, pipe)
		sources := map[string]io.Reader{"stream": bytes.NewReader(damaged)}
		if !pipe {
			sources["killed"] = perfdata.NewTail(bytes.NewReader(unended(damaged)), func() error { return io.EOF })
		}
		for name, src := range sources {
			f, err := Follow(src, Options{CPUs: 2})
			if err != nil {
				t.Fatal(err)
			}
			before, after := 0, 0
			for f.Next() {
				im, err := f.Image()
				if err != nil {
					t.Fatal(err)
				}
				if f.rd.Record().Offset < int64(at) {
					before += knownOf(im)
					continue
				}
				after++
				if n := knownOf(im); n > 0 || !f.Report().Damaged {
					t.Errorf("pipe %v, %s: at %#x, damaged %v, %d versions known", pipe, name, f.rd.Record().Offset, f.Report().Damaged, n)
				}
			}
			if pipe && before == 0 || after < 4 { // in a file, the architecture comes at the end
				t.Errorf("pipe %v, %s: %d versions known before the damage, %d rounds behind it; %v", pipe, name, before, after, f.Err())
			}
			f.Close()
		}
	}
}

// unended returns a file without the length of its records, as an unfinished perf leaves it.
func unended(file []byte) []byte {
	const sizeAt = 48
	file = bytes.Clone(file)
	size := binary.LittleEndian.Uint64(file[sizeAt:])
	at := binary.LittleEndian.Uint64(file[sizeAt-8:])
	binary.LittleEndian.PutUint64(file[sizeAt:], 0)
	return file[:at+size]
}

// TestMappedText: without kallsyms, text ends at the end of perf's map or of its copy of the
// kernel. If the copy continues behind the map, no byte of it is known.
func TestMappedText(t *testing.T) {
	for _, tt := range []struct {
		copied uint64 // where the copy ends
		known  bool
	}{{tapeTextHi, true}, {tapeTextHi - 0x800, true}, {tapeTextHi + 0x1000, false}} {
		w := newTape(t)
		w.copied, w.text = true, bytes.Repeat([]byte{0x90}, int(tt.copied-tapeTextLo))
		w.ticks(100, 400)
		w.comm(10, 450, 0, 9, "tick")
		w.ticks(500, 1000)
		r := w.replay()
		var b [1]byte
		if got := r.Image.At(800).Read(0x1100, b[:]); (got.Standing == timeline.Known) != tt.known {
			t.Errorf("copied up to %#x: %v (%v)", tt.copied, got.Standing, got.Reason)
		}
		if _, hi := r.Image.Text(); hi != min(tt.copied, tapeTextHi) {
			t.Errorf("copied up to %#x: text ends at %#x", tt.copied, hi)
		}
	}
}

// TestMappedTextOfCopies: without kallsyms, a further snapshot that continues after perf's map
// of the kernel holds more than text, and one within it may, if that map may have data. It proves
// nothing, unless the recording's own copy shows where text ends.
func TestMappedTextOfCopies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		perf   string
		own    uint64 // where the recording's own copy ends, 0 if it has none
		copied uint64 // where the further snapshot ends
		known  bool
	}{
		{"up to the end of the map", "6.1.192", 0, tapeTextHi, true},
		{"up to the end of a map that has data", "6.12.30", 0, tapeTextHi, false},
		{"of a newer perf", "7.2.13", 0, tapeTextHi, false},
		{"of an unknown perf", "", 0, tapeTextHi, false},
		{"within a map that has data, next to a copy of text", "7.2.13", tapeTextHi, tapeTextHi, true},
		{"behind the map", "6.1.192", 0, tapeTextHi + 0x1000, false},
		{"behind the map, next to a copy of text", "6.1.192", tapeTextHi, tapeTextHi + 0x1000, true},
		{"behind the map, like the first copy", "6.1.192", tapeTextHi + 0x1000, tapeTextHi + 0x1000, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.perf = true, tt.perf
			w.timeConv() // all CPUs have one clock
			w.ticks(100, 400)
			w.comm(10, 450, 0, 9, "tick")
			w.ticks(500, 1000)
			rec, err := perfdata.New(w.bytes())
			w.must(err)
			upTo := func(end uint64) { w.text = bytes.Repeat([]byte{0x90}, int(end-tapeTextLo)) }
			upTo(tt.copied)
			opts := Options{Copies: []Copy{{KCore: w.kcoreDir(), Made: Times{From: 500, To: 510}}}}
			var own *kcore.Snapshot
			if tt.own != 0 {
				upTo(tt.own)
				own = w.snapshot()
			}
			r, err := New(rec, own, opts)
			w.must(err)
			var b [1]byte
			if got := r.Image.At(800).Read(0x1100, b[:]); (got.Standing == timeline.Known) != tt.known {
				t.Errorf("%v (%v)", got.Standing, got.Reason)
			}
			if warned := len(r.Report.Warnings) != 0; warned == tt.known {
				t.Errorf("warnings: %v", r.Report.Warnings)
			}
		})
	}
}

// TestNothing: a recording without a readable record gives no image.
func TestNothing(t *testing.T) {
	whole, _, _ := skipped(t, false)
	start := binary.LittleEndian.Uint64(whole[40:])
	beyond := bytes.Clone(whole)
	binary.LittleEndian.PutUint64(beyond[40:], 1<<20)
	for name, data := range map[string][]byte{"cut": whole[:start], "cut in the first record": whole[:start+9], "beyond the end": beyond} {
		rec, err := perfdata.New(data)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(rec, nil, Options{})
		var fe *perfdata.FormatError
		if !errors.Is(err, perfdata.ErrNothing) || !errors.As(err, &fe) || fe.Offset < int64(start) {
			t.Errorf("%s: error %v", name, err)
		}
		f, err := Follow(bytes.NewReader(data), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for f.Next() {
		}
		if _, err := f.Image(); !errors.Is(err, perfdata.ErrNothing) {
			t.Errorf("%s, as a stream: error %v", name, err)
		}
		f.Close()
	}
	// A recording without records is no error.
	if r := newTape(t).replayOf(unended(whole)[:start]); r.Report.Damaged {
		t.Errorf("no records: %v", r.Report.Warnings)
	}
}

// TestLongRound: perf uses no more than the header of a FINISHED_ROUND record, so one with content
// ends a round like any other.
func TestLongRound(t *testing.T) {
	for _, pipe := range []bool{false, true} {
		whole, _, _ := skipped(t, pipe)
		w := ofRounds(t, pipe, func(w *tape, n uint64) {
			w.begin()
			round := binary.LittleEndian.AppendUint64(nil, 16<<48|uint64(perfdata.RecordFinishedRound))
			w.must(w.w.WriteRecord(binary.LittleEndian.AppendUint64(round, 3*n)))
		})
		want, got := newTape(t).replayOf(whole), newTape(t).replayOf(w.bytes())
		if got.Report.Damaged || got.Report.Clean != want.Report.Clean || got.Report.Horizon != want.Report.Horizon || knownOf(got.Image) != knownOf(want.Image) {
			t.Errorf("pipe %v: damaged %v, clean %v, horizon %d, %d versions known; want clean %v, horizon %d, %d versions; %v", pipe,
				got.Report.Damaged, got.Report.Clean, got.Report.Horizon, knownOf(got.Image),
				want.Report.Clean, want.Report.Horizon, knownOf(want.Image), got.Report.Warnings)
		}
	}
}
