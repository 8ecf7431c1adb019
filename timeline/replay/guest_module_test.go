// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// TestModuleOfTheHost: a module that the host unloads is none of the guest's.
func TestModuleOfTheHost(t *testing.T) {
	w := newTape(t)
	w.tracing, w.copied = moduleFormats, true
	w.kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008100 t m_work\t[m]\n"
	w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x3000, State: "Live"}}
	w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
	w.ticks(100, 300)
	w.sample(10, 320, nil)
	w.module(30, 350, "m")
	w.ticks(400, 600)
	data := w.bytes()
	// One sample in guest mode, so that there is a guest.
	rec, err := perfdata.New(data)
	if err != nil {
		t.Fatal(err)
	}
	sc := rec.Scan(perfdata.Only(perfdata.RecordSample))
	if !sc.Next() {
		t.Fatal("no sample")
	}
	first := sc.Record()
	rec.ByteOrder().PutUint16(data[first.Offset+4:], first.Misc&^perfdata.MiscCPUModeMask|perfdata.MiscGuestKernel)

	for guest, want := range map[int]timeline.Standing{0: timeline.Retired, DefaultGuest: timeline.Unconfirmed} {
		rec, err := perfdata.New(data)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(rec, w.snapshot(), Options{Guest: guest})
		if err != nil {
			t.Fatal(err)
		}
		var b [4]byte
		if got := r.Image.At(380).Read(0x8100, b[:]).Standing; got != want {
			t.Errorf("guest %d: after the host unloaded its module the text is %v, want %v", guest, got, want)
		}
	}
}
