// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/textreplay/textreplay/perfdata"
)

// misfit FILE writes a recording of BPF programs whose records do not fit
// together: two that overlap, one that dies without having been born, one that
// is loaded twice, and one without a load.
func misfit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: misfit FILE")
	}
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	le := binary.LittleEndian
	w := perfdata.NewWriter(f, le)
	ev := &perfdata.Event{Name: "dummy", IDs: []uint64{10}, Attr: perfdata.Attr{
		SampleType: perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleIdentifier,
		ReadFormat: perfdata.ReadFormatID | perfdata.ReadFormatLost,
		Flags:      perfdata.FlagSampleIDAll | perfdata.FlagTextPoke | perfdata.FlagKSymbol | perfdata.FlagBPFEvent,
	}}
	ts.Check(w.SetEvents([]*perfdata.Event{ev}))
	ts.Check(w.IDIndex(&perfdata.IDIndex{Entries: []perfdata.IDIndexEntry{{ID: 10, TID: -1, VCPU: -1}}}))
	at := func(t uint64) perfdata.SampleID {
		return perfdata.SampleID{PID: 5, TID: 5, Time: t * 1e6, ID: 10, Event: ev}
	}
	symbol := func(t, addr uint64, flags uint16, name string) {
		ts.Check(w.KSymbol(&perfdata.KSymbol{Addr: addr, Len: 64, Kind: perfdata.KSymbolBPF, Flags: flags, Name: []byte(name), SampleID: at(t)}))
	}
	load := func(t uint64, id uint32) {
		ts.Check(w.BPFEvent(&perfdata.BPFEvent{Kind: perfdata.BPFLoad, ID: id, SampleID: at(t)}))
	}
	symbol(1000, 0xffffffffc0001000, 0, "bpf_prog_0000000000000001_one")
	load(1001, 1)
	symbol(1100, 0xffffffffc0001020, 0, "bpf_prog_0000000000000002_two")
	load(1101, 2)
	symbol(1200, 0xffffffffc0005000, perfdata.KSymbolUnregister, "bpf_prog_0000000000000003_three")
	symbol(1300, 0xffffffffc0006000, 0, "bpf_prog_0000000000000004_four")
	load(1301, 2)
	symbol(1400, 0xffffffffc0007000, 0, "bpf_prog_0000000000000005_five")
	text := func(feature perfdata.Feature, s string) {
		b := append([]byte(s), make([]byte, 16-len(s))...)
		ts.Check(w.WriteFeature(feature, append(le.AppendUint32(nil, uint32(len(b))), b...)))
	}
	text(perfdata.FeatureArch, "x86_64")
	text(perfdata.FeatureOSRelease, "6.1.0")
	ts.Check(w.WriteFeature(perfdata.FeatureNRCPUs, le.AppendUint32(le.AppendUint32(nil, 1), 1)))
	ts.Check(w.Close())
}
