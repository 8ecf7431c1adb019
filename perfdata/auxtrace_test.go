// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// auxtraceRecord is an AUXTRACE record with the trace that follows it.
func auxtraceRecord(e endian, idx, cpu uint32, offset uint64, trace string) []byte {
	return packRecord(e, RecordAuxtrace, []any{uint64(len(trace)), offset, uint64(1), idx, ^uint32(0), cpu, uint32(0), trace})
}

func TestAuxtraceQueues(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		b := build(t, e, testEvents(), func(w *Writer) {
			w.WriteRecord(auxtraceRecord(e, 1, 1, 0, "one of 1"))
			w.WriteRecord(auxtraceRecord(e, 0, 0, 0, "one of 0"))
			w.FinishedRound()
			w.WriteRecord(auxtraceRecord(e, 1, 1, 8, "two of 1"))
		})
		r := open(t, b)
		queues, err := r.AuxtraceQueues()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[uint32]string)
		for i, q := range queues {
			trace, err := io.ReadAll(q.Reader())
			if err != nil || int64(len(trace)) != q.Size() {
				t.Errorf("queue %d: %d of %d bytes, %v", i, len(trace), q.Size(), err)
			}
			for _, sec := range q.Sections {
				if string(b[sec.At:][:sec.Size]) != string(sec.Data) || sec.CPU != q.CPU {
					t.Errorf("section at %d: %+v", sec.At, sec)
				}
			}
			got[q.CPU] = string(trace)
		}
		if diff := cmp.Diff(map[uint32]string{0: "one of 0", 1: "one of 1two of 1"}, got); diff != "" || queues[0].Idx != 1 {
			t.Errorf("(-want +got):\n%s", diff)
		}

		// Cut within the last piece: what is there, and an error.
		data := int(e.u64(b[hdrData:]))
		end := data + int(e.u64(b[hdrData+8:]))
		queues, err = open(t, b[:end-3]).AuxtraceQueues()
		if !errors.Is(err, ErrTruncated) || len(queues) != 2 || queues[0].Size() != 13 {
			t.Errorf("cut: %+v, %v", queues, err)
		}
		for range open(t, b[:end-3]).AuxtraceSections() {
			break // a consumer may stop
		}
	})
}

func TestIntelPTInfo(t *testing.T) {
	priv := []uint64{8, 31, 0x314dd5b3, 0xffffffff39991a0e, 1, 1 << 10, 1 << 11, 2, 0, 1, 1 << 9, 0xf << 14, 176, 2, 1 << 1, 26, 11}
	filter := little.u64s([]byte("filter main\x00\x00\x00\x00\x00"))
	want := IntelPTInfo{
		PMUType: 8, TimeConv: TimeConv{Shift: 31, Mult: 0x314dd5b3, Zero: 0xffffffff39991a0e, CapTimeZero: true}, TSCBit: 1 << 10, NoRetCompBit: 1 << 11,
		HaveSchedSwitch: 2, PerCPUMmaps: true, MTCBit: 1 << 9, MTCFreqBits: 0xf << 14, TSCCTCN: 176, TSCCTCD: 2, CYCBit: 2, MaxNonTurboRatio: 26, Filter: "filter main",
	}
	old := want
	old.MTCBit, old.MTCFreqBits, old.TSCCTCN, old.TSCCTCD, old.CYCBit, old.MaxNonTurboRatio, old.Filter = 0, 0, 0, 0, 0, 0, ""
	tests := []struct {
		name string
		priv []uint64
		want IntelPTInfo
		err  error
	}{
		{"whole", append(priv[:17:17], filter...), want, nil},
		{"of the first perf with PT", priv[:10], old, nil},
		{"cut", priv[:9], IntelPTInfo{}, ErrMalformed},
		{"filter cut", append(priv[:17:17], filter[0]), IntelPTInfo{}, ErrMalformed},
	}
	for _, tt := range tests {
		info := AuxtraceInfo{Type: AuxtraceIntelPT, Priv: wordsOf(tt.priv...)}
		got, err := info.IntelPT()
		if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if _, err := (&AuxtraceInfo{Type: AuxtraceArmSPE}).IntelPT(); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

func TestCoreSightInfo(t *testing.T) {
	const v4, v3, ete = uint64(CoreSightETMv4), uint64(CoreSightETMv3), uint64(CoreSightETE)
	type cpu struct {
		Kind    CoreSightKind
		CPU     uint64
		Params  []uint64
		TraceID uint8
		Virtual bool
	}
	tests := []struct {
		name string
		priv []uint64
		want []cpu
		err  string
	}{
		{"version 0", []uint64{0, 9<<32 | 2, 0, v4, 0, 1, 0x10, 3, 4, 5, 6, 7, v3, 1, 1, 0x12, 3, 4},
			[]cpu{{CoreSightETMv4, 0, []uint64{1, 0x10, 3, 4, 5, 6, 7}, 0x10, false}, {CoreSightETMv3, 1, []uint64{1, 0x12, 3, 4}, 0x12, false}}, ""},
		{"version 2", []uint64{2, 9<<32 | 2, 0, v4, 4, 8, 1, 1<<31 | 0x7f, 3, 4, 5, 6, 7, 1, ete, 5, 9, 1, 0x13, 3, 4, 5, 6, 7, 8, ^uint64(0)},
			[]cpu{{CoreSightETMv4, 4, []uint64{1, 1<<31 | 0x7f, 3, 4, 5, 6, 7, 1}, 0, true}, {CoreSightETE, 5, []uint64{1, 0x13, 3, 4, 5, 6, 7, 8, ^uint64(0)}, 0x13, false}}, ""},
		{"no CPU", []uint64{1, 9 << 32, 1}, nil, ""},
		{"nothing", []uint64{1, 9 << 32}, nil, "of 2 words"},
		{"fewer CPUs", []uint64{0, 0xffffffff, 0, v3, 0, 1, 2, 3, 4}, nil, "information about 4294967295 CPUs ends after 1"},
		{"another kind", []uint64{1, 1, 0, 0x6060, 0, 1, 2}, nil, "trace source of kind 0x6060"},
		{"fewer parameters", []uint64{1, 1, 0, v4, 0, 1 << 62, 2}, nil, "4611686018427387904 parameters of CPU 0 in 1 words"},
	}
	for _, tt := range tests {
		info, err := (&AuxtraceInfo{Type: AuxtraceCoreSight, Priv: wordsOf(tt.priv...)}).CoreSight()
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		var got []cpu
		for _, c := range info.CPUs {
			got = append(got, cpu{c.Kind, c.CPU, c.Params.AppendTo(nil), c.TraceID(), c.VirtualTimestamps()})
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil || info.PMUType != 9 || info.Version != tt.priv[0] || info.Snapshot != (tt.priv[2] != 0) {
			t.Errorf("%s: %v, %+v (-want +got):\n%s", tt.name, err, info, diff)
		}
	}
	if _, err := (&AuxtraceInfo{Type: AuxtraceIntelPT}).CoreSight(); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

// TestAuxtraceIndex reads the section as perf and as simpleperf write it.
func TestAuxtraceIndex(t *testing.T) {
	want := []AuxtraceIndexEntry{{0x1000, 48}, {0x2000, 48}}
	entries := []uint64{0x1000, 48, 0x2000, 48}
	for _, section := range [][]uint64{append([]uint64{2}, entries...), entries} {
		got, err := withFeature(t, big, FeatureAuxtrace, big.appendU64s(nil, section)).AuxtraceIndex()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%x: %v (-want +got):\n%s", section, err, diff)
		}
	}
	if got, err := withFeature(t, big, FeatureAuxtrace, big.appendU64s(nil, []uint64{0})).AuxtraceIndex(); len(got) > 0 || err != nil {
		t.Error(got, err)
	}
}
