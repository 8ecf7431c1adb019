// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestEarly: the directory of a recorder that was killed has its records, the ids that
// were added, and the features that were written early.
func TestEarly(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events := []*Event{
		{Name: "a", IDs: []uint64{1, 2}, Attr: Attr{SampleType: SampleTID | SampleTime | SampleIdentifier, Flags: FlagSampleIDAll}},
		{Name: "b", IDs: []uint64{3}, Attr: Attr{SampleType: SampleTID | SampleTime | SampleIdentifier, Flags: FlagSampleIDAll}},
	}
	w := NewWriter(f, binary.LittleEndian, SpareIDs(1))
	comm := func(id uint64) {
		t.Helper()
		if err := w.Comm(0, &Comm{PID: 1, TID: 1, Comm: []byte("x"), SampleID: SampleID{Event: events[0], ID: id, Time: 5}}); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.SetEvents(events))
	must(w.WriteFeature(FeatureNRCPUs, []byte{4, 0, 0, 0, 2, 0, 0, 0}))
	early, err := os.Create(filepath.Join(dir, EarlyFeatures))
	must(err)
	must(w.WriteEarlyFeatures(early))
	must(early.Close())
	must(os.WriteFile(filepath.Join(dir, EarlyPrograms), make([]byte, 4), 0o600))
	comm(1)
	must(w.AddID(events[0], 7))
	comm(7)
	must(w.AddID(events[1], 8))
	if err := w.AddID(events[1], 9); !errors.Is(err, errNoRoom) {
		t.Errorf("a third id: %v", err)
	}
	must(w.Flush())

	check := func(clean bool) {
		t.Helper()
		r, err := Open(dir)
		must(err)
		defer r.Close()
		if err := r.CleanEnd(); (err == nil) != clean {
			t.Errorf("clean end: %v", err)
		}
		available, online, err := r.NRCPUs()
		if available != 4 || online != 2 || err != nil {
			t.Errorf("%d of %d CPUs, %v", online, available, err)
		}
		if a, b := r.Events()[0], r.Events()[1]; !slices.Equal(a.IDs, []uint64{1, 2, 7}) || !slices.Equal(b.IDs, []uint64{3, 8}) || a.Name != "a" {
			t.Errorf("events %+v, %+v", a, b)
		}
		n := 0
		sc := r.Scan()
		for sc.Next() {
			n++
		}
		if n != 2 || sc.Err() != nil || len(r.Warnings()) > 0 {
			t.Errorf("%d records, %v, %v", n, sc.Err(), r.Warnings())
		}
	}
	check(false)

	// Cut anywhere, the file of features gives those that are whole, and a warning.
	whole, err := os.ReadFile(filepath.Join(dir, EarlyFeatures))
	must(err)
	for n := range len(whole) {
		must(os.WriteFile(filepath.Join(dir, EarlyFeatures), whole[:n], 0o600))
		r, err := Open(dir)
		must(err)
		if cut := n > 0 && len(r.Features()) < 3; cut && len(r.Warnings()) == 0 && n != earlyHeader+8 {
			t.Errorf("%d bytes: %v, no warning", n, r.Features())
		}
		r.Close()
	}

	// Ended, it has them itself.
	must(os.WriteFile(filepath.Join(dir, EarlyFeatures), whole, 0o600))
	must(w.Close())
	check(true)
}
