// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/cputime"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// TestAgrees: the shortcut for text that the last change wrote takes nothing else for it.
func TestAgrees(t *testing.T) {
	p := &pokes{forms: []form{{addr: 0x1000, oldNumber: 0, newNumber: 1}, {addr: 0x1000, oldNumber: 2, newNumber: 3}}}
	for _, content := range []string{"\x90\x90\x90\x90\x90", "\xe8\x01\x02\x03\x04", "\xe8", "\xcc"} {
		p.contents.string(content)
	}
	known := timeline.Span{Addr: 0x1000, Len: 5, Standing: timeline.Known, Bytes: []byte("\xe8\x01\x02\x03\x04")}
	with := func(change func(s *timeline.Span)) timeline.Span {
		s := known
		change(&s)
		return s
	}
	common := timeline.Span{Standing: timeline.Known}
	unknown := timeline.Span{Standing: timeline.Unknown}
	for _, c := range []struct {
		name         string
		span, common timeline.Span
		times        []uint64
		forms        []uint32
		next         int
		want         bool
	}{
		{"the last change wrote it", known, common, []uint64{5, 9}, []uint32{0, 0}, 1, true},
		{"a part of it", with(func(s *timeline.Span) { s.Addr, s.Len, s.Bytes = 0x1001, 2, s.Bytes[1:3] }), common, []uint64{5}, []uint32{0}, 1, true},
		{"after two changes", known, common, []uint64{5, 9}, []uint32{1, 0}, 2, true},
		{"two changes of one time", known, common, []uint64{9, 9}, []uint32{1, 0}, 2, false},
		{"before all changes", known, common, []uint64{5}, []uint32{0}, 0, false},
		{"other bytes", with(func(s *timeline.Span) { s.Bytes = []byte("\xe8\x01\x02\x03\x05") }), common, []uint64{5}, []uint32{0}, 1, false},
		{"the last change wrote less", known, common, []uint64{5, 9}, []uint32{0, 1}, 2, false},
		{"not known", with(func(s *timeline.Span) { s.Standing = timeline.Retired }), common, []uint64{5}, []uint32{0}, 1, false},
		{"unpatched text is not known", known, unknown, []uint64{5}, []uint32{0}, 1, false},
		{"another reason", with(func(s *timeline.Span) { s.Reason = timeline.ClockUncertainty }), common, []uint64{5}, []uint32{0}, 1, false},
		{"candidates", with(func(s *timeline.Span) { s.Candidates = make([]timeline.Candidate, 2) }), common, []uint64{5}, []uint32{0}, 1, false},
	} {
		d := &deriver{p: p, near: sitePokes(c.times, c.forms)}
		if got := d.agrees(&c.span, &c.common, c.next); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestAgreesAgain: an answer is taken to agree with the derived one, as the same answer did before,
// only if nothing has changed meanwhile that the comparison depends on.
func TestAgreesAgain(t *testing.T) {
	common := &timeline.Span{Standing: timeline.Known, Since: 4, Until: 100}
	for _, c := range []struct {
		name        string
		since, till uint64
		state       int
		times       []uint64
		forms       []uint32
		next        int
		want        bool
	}{
		{"the same", 9, 20, 1, []uint64{5, 9}, []uint32{3, 7}, 2, true},
		{"the one before", 9, 20, 2, []uint64{5, 9}, []uint32{3, 8}, 2, true},
		{"up to the next change", 9, 20, 1, []uint64{9, 20}, []uint32{7, 3}, 1, true},
		{"beyond the next change", 9, 20, 1, []uint64{9, 19}, []uint32{7, 3}, 1, false},
		{"another state", 9, 20, 2, []uint64{5, 9}, []uint32{3, 7}, 2, false},
		{"another change", 9, 20, 1, []uint64{5, 9}, []uint32{3, 8}, 2, false},
		{"two changes of one time", 9, 20, 1, []uint64{9, 9}, []uint32{3, 7}, 2, false},
		{"before all changes", 9, 20, 1, nil, nil, 0, false},
		{"another answer for unpatched text before", 3, 20, 1, []uint64{3}, []uint32{7}, 1, false},
		{"another answer for unpatched text later", 9, 101, 1, []uint64{9}, []uint32{7}, 1, false},
	} {
		d := &deriver{near: sitePokes(c.times, c.forms), agreed: [2]agreement{{common, 1, 7}, {common, 2, 8}}}
		if got := d.agreesAgain(timeline.Validity{Since: c.since, Until: c.till}, c.state, c.next); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	d := &deriver{near: sitePokes([]uint64{9}, []uint32{0})}
	if d.agreesAgain(timeline.Validity{Since: 9, Until: 20}, 0, 1) {
		t.Error("nothing has agreed before")
	}
}

// sitePokes returns pokes of these times and forms.
func sitePokes(times []uint64, forms []uint32) (out []sitePoke) {
	for i, t := range times {
		out = append(out, sitePoke{time: t, form: forms[i]})
	}
	return out
}

// TestSums: the rows are the same if the pokes of each site are looked at one by one, also if the pokes
// are not those of the image.
func TestSums(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 4))
	agreed := 0
	for _, path := range recordings(t) {
		r, _, _ := load(t, path)
		lo, _ := r.Image.Text()
		for round := range 12 {
			p := collect(r, nil)
			if n := len(p.times); n > 1 && round > 0 {
				for range 1 + rnd.IntN(4) {
					switch i := rnd.IntN(n); rnd.IntN(4) {
					case 0:
						p.form[i] = p.form[rnd.IntN(n)]
					case 1:
						p.form[i] = p.form[max(i-1, 0)]
					case 2:
						p.times[i] = p.times[max(i-1, 0)]
					default:
						p.times[i] += uint64(rnd.IntN(2))
					}
				}
				slices.Sort(p.times)
			}
			d := newDeriver(r, p)
			for a := range r.Image.Answers() {
				at, n := a.Range()
				if first, _, only := d.around(at, at+n); only && d.agreesWith(&a, first) {
					agreed++
				}
			}
			rows := func(d *deriver) (rows []gapRow) {
				l := d.gaps(r, lo)
				for i := range l.gaps {
					rows = append(rows, l.row(i, ""))
				}
				return rows
			}
			got := rows(newDeriver(r, p))
			d = newDeriver(r, p)
			for i := range d.began {
				d.began[i] = -1
			}
			if want := rows(d); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s, round %d: %d rows, want %d", path, round, len(got), len(want))
			}
		}
	}
	if agreed < 5000 {
		t.Errorf("only %d sites agreed", agreed)
	}
}

// TestManyForms: very many changes of one place, all different or without bytes on one side, do not take the
// square of their number. No kernel makes them.
func TestManyForms(t *testing.T) {
	const n = 100_000
	code := []byte{0xe8, 1, 2, 3, 4}
	other := func(i int) []byte { return binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(i)) }
	for _, tt := range []struct {
		name     string
		old, new func(i int) []byte
	}{
		{"all different", other, func(i int) []byte { return other(n + i) }},
		{"removed", func(int) []byte { return code }, func(int) []byte { return nil }},
		{"appeared", func(int) []byte { return nil }, func(int) []byte { return code }},
		{"of one time", func(int) []byte { return code }, func(int) []byte { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1", Order: binary.LittleEndian, Addr: genperf.TextAddr,
				Text: bytes.Repeat([]byte{0x90}, 4096), CPUs: 1, Symbols: []kcore.ELFSymbol{{Name: "_text", Addr: genperf.TextAddr}}}
			path := filepath.Join(t.TempDir(), "rec.data")
			w, err := k.Record(path)
			if err != nil {
				t.Fatal(err)
			}
			at := func(i int) uint64 {
				if tt.name == "of one time" {
					i = n / 2
				}
				return 2e9 + uint64(i)*1000
			}
			for i := range n {
				if err := w.Poke(at(i), genperf.TextAddr+16, tt.old(i), tt.new(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.End(3e9); err != nil {
				t.Fatal(err)
			}
			r, id, _ := load(t, path)
			began := cputime.Start()
			dir := t.TempDir()
			if _, err := Open(dir).Add(r, id, Options{}); err != nil {
				t.Fatal(err)
			}
			began.AtMost(t, 10*time.Second)
			in := newReader(t, dir, id)
			for _, i := range []int{0, 1, n / 2, n - 1} {
				for offset := range uint64(6) {
					got, want := in.at(16+int64(offset), int64(at(i))), imageAt(r, genperf.TextAddr+16+offset, at(i))
					if got != want {
						t.Errorf("%d after change %d: the tables say %+v, the image %+v", offset, i, got, want)
					}
				}
			}
		})
	}
}
