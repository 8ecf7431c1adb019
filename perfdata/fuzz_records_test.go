// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"strings"
	"testing"
)

// fuzzRecording is a recording of one event, as its header would give it.
func fuzzRecording(e endian, a Attr) *Recording {
	r := &Recording{endian: e}
	r.setEvents([]*Event{{Attr: a, IDs: []uint64{13}}})
	return r
}

// typed fails where an error does not say what and where.
func typed(t *testing.T, err error) {
	var fe *FormatError
	if err != nil && !errors.As(err, &fe) {
		t.Errorf("untyped error: %v", err)
	}
}

// FuzzRecords decodes any bytes as a record of any type.
func FuzzRecords(f *testing.F) {
	st := uint64(testEvents()[0].Attr.SampleType)
	for _, e := range []endian{little, big} {
		for _, tt := range recordTests {
			raw := packRecord(e, tt.typ, tt.body)
			f.Add(e == big, uint32(tt.typ), uint16(0), raw[headerSize:], st, uint64(ReadFormatID|ReadFormatLost))
		}
		f.Add(e == big, uint32(RecordHeaderAttr), uint16(0), testEvents()[0].Attr.encode(e), st, uint64(0))
		f.Add(e == big, uint32(RecordMMAP2), uint16(MiscMmapBuildID), make([]byte, 100), st, uint64(0))
	}
	f.Fuzz(func(t *testing.T, bigEndian bool, typ uint32, misc uint16, body []byte, sampleType, readFormat uint64) {
		e := endian(bigEndian)
		r := fuzzRecording(e, Attr{SampleType: SampleType(sampleType), ReadFormat: ReadFormat(readFormat), Flags: FlagSampleIDAll})
		rec := &Record{Type: RecordType(typ), Misc: misc, Raw: rawRecord(e, RecordType(typ), misc, body)}
		v, err := r.Decode(rec)
		typed(t, err)
		if v != nil && err != nil {
			t.Errorf("%T and %v", v, err)
		}
		room := len(body) // elements of a list take a byte of the record at least
		switch v := v.(type) {
		case *Sample:
			typed(t, readSample(v))
		case *Read:
			for range v.Values.All() {
				room--
			}
		case *Namespaces:
			room -= len(v.Links)
		case *CallchainDeferred:
			room -= 8 * len(v.IPs.AppendTo(nil))
		case *ThreadMap:
			room -= len(v.Threads)
		case *StatConfig:
			room -= len(v.Terms)
		case *BPFMetadata:
			room -= len(v.Entries)
		case *IDIndex:
			room -= len(v.Entries)
		case *HeaderAttr:
			room -= 8 * v.IDs.Len()
		case *AuxtraceInfo:
			pt, err := v.IntelPT()
			if err != nil && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrMalformed) {
				t.Error(err)
			}
			pt.TimeConv.Frequency()
			cs, err := v.CoreSight()
			if err != nil && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrMalformed) {
				t.Error(err)
			}
			for _, c := range cs.CPUs {
				c.TraceID()
				c.VirtualTimestamps()
				room -= 8 * c.Params.Len()
			}
		case *TimeConv:
			v.ToTSC(v.ToPerf(readFormat))
			v.Frequency()
		}
		if room < 0 {
			t.Errorf("%T has more than the record's %d bytes", v, len(body))
		}
	})
}

// FuzzSample decodes any bytes as a sample of any type.
func FuzzSample(f *testing.F) {
	want, attr := fullSample()
	for _, e := range []endian{little, big} {
		f.Add(e == big, want.encode(e, &attr)[headerSize:], uint64(attr.SampleType), uint64(attr.ReadFormat), attr.BranchSampleType, attr.SampleRegsUser, attr.SampleRegsIntr)
		f.Add(e == big, make([]byte, 64), uint64(SampleIP|SampleCallchain|SampleRaw|SampleAux), uint64(0), uint64(0), uint64(0), uint64(0))
	}
	f.Fuzz(func(t *testing.T, bigEndian bool, body []byte, sampleType, readFormat, branch, user, intr uint64) {
		e := endian(bigEndian)
		r := fuzzRecording(e, Attr{
			SampleType: SampleType(sampleType), ReadFormat: ReadFormat(readFormat), BranchSampleType: branch, SampleRegsUser: user, SampleRegsIntr: intr,
		})
		rec := &Record{Type: RecordSample, Raw: rawRecord(e, RecordSample, 0, body)}
		var s, again Sample
		if err := r.Sample(rec, &s); err != nil {
			typed(t, err)
			return
		}
		typed(t, readSample(&s))
		// What is asked for first must not change what is found.
		if err := r.Sample(rec, &again); err != nil {
			t.Fatal(err)
		}
		rest, err := again.Rest()
		p, perr := plain(&s)
		q, qerr := plain(&again)
		if (err == nil) != (perr == nil) && err == nil || (perr == nil) != (qerr == nil) {
			t.Errorf("one way %v, the other %v", perr, err)
		}
		if err == nil {
			n := len(rest) + len(p.Raw) + len(p.Aux) + len(p.Stack) + 8*(len(p.Callchain)+len(p.UserRegs)+len(p.IntrRegs)) + branchEntry*len(p.Branches)
			if n > len(body) || len(q.Raw) != len(p.Raw) || len(q.Callchain) != len(p.Callchain) {
				t.Errorf("parts of %d bytes in a sample of %d", n, len(body))
			}
		}
		var d DeferredCallchains
		d.Join(nil, &s)
	})
}

// FuzzFeatures reads any bytes as any feature section.
func FuzzFeatures(f *testing.F) {
	for _, e := range []endian{little, big} {
		for feature, b := range machineSections(e) {
			f.Add(e == big, uint8(feature), b)
		}
	}
	f.Fuzz(func(t *testing.T, bigEndian bool, feature uint8, b []byte) {
		e := endian(bigEndian)
		r := &Recording{endian: e, features: map[Feature]section{
			FeatureNRCPUs:    {data: e.appendU32s(nil, 0xffffffff, 1)},
			Feature(feature): {data: b},
		}}
		for name, v := range values(r) {
			if strings.Contains(v, "untyped") {
				t.Error(name, v)
			}
		}
		for id, err := range r.BuildIDs() {
			if err == nil && len(id.BuildID) > maxBuildID {
				t.Errorf("build id of %d bytes", len(id.BuildID))
			}
		}
		readBPF(t, r)
	})
}

// FuzzBPFSource joins any tables with any BTF.
func FuzzBPFSource(f *testing.F) {
	for _, e := range []endian{little, big} {
		p := sourceProg(e)
		table := func(array int) []byte { return p.data[e.u64(p.info[bpilArrays[array].array:]):] }
		f.Add(e == big, testBTF(e), table(arrayFuncInfo)[:16], table(arrayLineInfo)[:48], table(arrayJitedLineInfo)[:24])
	}
	f.Fuzz(func(t *testing.T, bigEndian bool, data, funcs, lines, jited []byte) {
		e := endian(bigEndian)
		r := &Recording{endian: e, features: map[Feature]section{FeatureBPFBTF: {data: btfSection(e, 7, data)}}}
		tableOf := func(b []byte, size int) BPFInfoTable {
			n := len(b) / size
			return BPFInfoTable{RecSize: uint32(size), Count: uint32(n), Data: b[:n*size]}
		}
		p := &BPFProg{
			ID: 1, BTFID: 7, Ksyms: []uint64{0xffffffffc0001000}, FuncLens: []uint32{64},
			FuncInfo: tableOf(funcs, 8), LineInfo: tableOf(lines, 16), JitedLineInfo: tableOf(jited, 8),
		}
		src := r.BPFSource()
		if names, err := src.FuncNames(p); err == nil && len(names) > len(p.Ksyms) {
			t.Errorf("%d names of %d functions", len(names), len(p.Ksyms))
		} else if err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		got, err := src.Lines(p)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		for i, l := range got {
			if i > 0 && l.Addr < got[i-1].Addr || uint64(l.Len) > 64 {
				t.Errorf("line %+v", l)
			}
			got.At(l.Addr)
		}
	})
}
