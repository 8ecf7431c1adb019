// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestProbeMayResumeAt: the trap handler of a kprobe returns to its own slot, behind its
// instruction if it emulates that, and to no other probe's slot.
func TestProbeMayResumeAt(t *testing.T) {
	slots := 0
	for _, name := range []string{"small", "rich", "old510"} {
		t.Run(name, func(t *testing.T) {
			n := probeResumes(t, filepath.Join("../../testdata", name, "rec.data"))
			t.Logf("%d slots", n)
			slots += n
		})
	}
	if slots < 100 {
		t.Errorf("only %d slots were looked at", slots)
	}
	t.Run("exec", func(t *testing.T) {
		path := filepath.Join(corpus.Large(t, "x86_64/exec"), "pt", "rec.data")
		if n := probeResumes(t, path); n < 100 {
			t.Errorf("only %d slots were looked at", n)
		}
	})
}

func probeResumes(t *testing.T, path string) (slots int) {
	r, err := replay.Load(path, replay.Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := r.Cursor()
	for l := range r.Image.Lifetimes {
		if l.Kind != timeline.OutOfLine {
			continue
		}
		for addr := l.Lo; addr < l.Hi; {
			next := addr + 1
			for k := range uint64(20) {
				at := l.From + (min(l.To, r.Image.Horizon())-l.From)/20*k
				s, ok := r.TrampolineAt(addr, at)
				if !ok || len(s.Places) != 1 || s.Kind != replay.KprobeSlot && s.Kind != replay.OptprobeSlot {
					continue
				}
				next = max(next, s.Addr+s.Len)
				slots++
				probe := s.Places[0]
				if !c.ProbeMayResumeAt(probe, s.Addr, s.From) {
					t.Errorf("the probe at %#x has the slot %#x", probe, s.Addr)
				}
				if c.ProbeMayResumeAt(probe+1, s.Addr, s.From) {
					t.Errorf("a probe at %#x does not resume at %#x", probe+1, s.Addr)
				}
				if !c.ProbeMayResumeAt(probe, probe, s.From) {
					t.Errorf("a probe at %#x that is gone resumes there", probe)
				}
				var insn [1]byte
				if c.Read(probe, s.From, insn[:]).Given == 0 {
					continue // not in this cut, so nothing says where the instruction leads
				}
				if c.ProbeMayResumeAt(probe, probe+100, s.From) {
					t.Errorf("a probe at %#x does not resume at %#x", probe, probe+100)
				}
			}
			addr = next
		}
	}
	return slots
}
