// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A plainSample is all that a sample can hold.
type plainSample struct {
	ID                 SampleID
	IP, Addr, Period   uint64
	Read               []ReadValue
	Enabled, Running   uint64
	Callchain          []uint64
	Raw                []byte
	HWIndex            uint64
	Branches           []Branch
	UserABI            RegsABI
	UserRegs           []uint64
	Stack              []byte
	Weight             Weight
	DataSrc            DataSrc
	Transaction        uint64
	IntrABI            RegsABI
	IntrRegs           []uint64
	PhysAddr, Cgroup   uint64
	DataPage, CodePage uint64
	Aux                []byte
	stackDump          int // how many bytes the stack has in the file, those that are not valid too
}

// encode writes the sample as perf_output_sample does.
func (p *plainSample) encode(e endian, a *Attr) []byte {
	var b []byte
	add := func(bit SampleType, values ...any) {
		if a.SampleType&bit != 0 {
			b = append(b, e.pack(values...)...)
		}
	}
	add(SampleIdentifier, p.ID.ID)
	add(SampleIP, p.IP)
	add(SampleTID, p.ID.PID, p.ID.TID)
	add(SampleTime, p.ID.Time)
	add(SampleAddr, p.Addr)
	add(SampleEventID, p.ID.ID)
	add(SampleStreamID, p.ID.StreamID)
	add(SampleCPU, p.ID.CPU, uint32(0))
	add(SamplePeriod, p.Period)
	if a.SampleType&SampleRead != 0 {
		add(SampleRead, e.packRead(a.ReadFormat, p.Enabled, p.Running, p.Read))
	}
	add(SampleCallchain, uint64(len(p.Callchain)), p.Callchain)
	add(SampleRaw, uint32(len(p.Raw)), p.Raw)
	if a.SampleType&SampleBranchStack != 0 {
		b = append(b, e.pack(uint64(len(p.Branches)))...)
		if a.BranchSampleType&branchHWIndex != 0 {
			b = append(b, e.pack(p.HWIndex)...)
		}
		for _, br := range p.Branches {
			b = append(b, e.pack(br.From, br.To, packBranchFlags(e, br.Flags))...)
		}
		if a.BranchSampleType&branchCounters != 0 {
			for _, br := range p.Branches {
				b = append(b, e.pack(br.Counters)...)
			}
		}
	}
	add(SampleRegsUser, uint64(p.UserABI), p.UserRegs)
	if p.stackDump == 0 {
		add(SampleStackUser, uint64(0))
	} else {
		add(SampleStackUser, uint64(p.stackDump), p.Stack, make([]byte, p.stackDump-len(p.Stack)), uint64(len(p.Stack)))
	}
	add(SampleWeight|SampleWeightStruct, uint64(p.Weight))
	add(SampleDataSrc, uint64(p.DataSrc))
	add(SampleTransaction, p.Transaction)
	add(SampleRegsIntr, uint64(p.IntrABI), p.IntrRegs)
	add(SamplePhysAddr, p.PhysAddr)
	add(SampleCgroup, p.Cgroup)
	add(SampleDataPageSize, p.DataPage)
	add(SampleCodePageSize, p.CodePage)
	add(SampleAux, uint64(len(p.Aux)), p.Aux)
	return rawRecord(e, RecordSample, MiscKernel, b)
}

// packRead lays out a struct read_format.
func (e endian) packRead(f ReadFormat, enabled, running uint64, values []ReadValue) []byte {
	var times []byte
	if f&ReadFormatTotalTimeEnabled != 0 {
		times = append(times, e.pack(enabled)...)
	}
	if f&ReadFormatTotalTimeRunning != 0 {
		times = append(times, e.pack(running)...)
	}
	fields := func(v ReadValue) (b []byte) {
		if f&ReadFormatID != 0 {
			b = append(b, e.pack(v.ID)...)
		}
		if f&ReadFormatLost != 0 {
			b = append(b, e.pack(v.Lost)...)
		}
		return b
	}
	if f&ReadFormatGroup == 0 {
		return e.pack(values[0].Value, times, fields(values[0]))
	}
	b := e.pack(uint64(len(values)), times)
	for _, v := range values {
		b = append(b, e.pack(v.Value, fields(v))...)
	}
	return b
}

// packBranchFlags lays the bit-fields out as C compilers do.
func packBranchFlags(e endian, f BranchFlags) uint64 {
	if e == little {
		return uint64(f)
	}
	var v uint64
	put := func(value uint64, width int) { v = v<<width | value }
	for _, bit := range []bool{f.Mispredicted(), f.Predicted(), f.InTX(), f.Abort()} {
		n := uint64(0)
		if bit {
			n = 1
		}
		put(n, 1)
	}
	put(uint64(f.Cycles()), 16)
	put(uint64(f.Type()), 4)
	put(uint64(f.Spec()), 2)
	put(uint64(f.NewType()), 4)
	put(uint64(f.Priv()), 3)
	put(0, 31)
	return v
}

// plain asks a sample for everything.
func plain(s *Sample) (*plainSample, error) {
	p := &plainSample{ID: s.SampleID, IP: s.IP, Addr: s.Addr, Period: s.Period}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	values, err := s.Read()
	note(err)
	p.Enabled, p.Running = values.TimeEnabled, values.TimeRunning
	if s.Type&SampleRead != 0 {
		for _, v := range values.All() {
			p.Read = append(p.Read, v)
		}
	}
	ips, err := s.Callchain()
	note(err)
	p.Callchain = ips.AppendTo(nil)
	p.Raw, err = s.Raw()
	note(err)
	branches, err := s.BranchStack()
	note(err)
	p.HWIndex = branches.HWIndex
	for _, b := range branches.All() {
		p.Branches = append(p.Branches, b)
	}
	regs, err := s.UserRegs()
	note(err)
	p.UserABI, p.UserRegs = regs.ABI, regs.Values.AppendTo(nil)
	p.Stack, err = s.UserStack()
	note(err)
	p.Weight, err = s.Weight()
	note(err)
	p.DataSrc, err = s.DataSrc()
	note(err)
	p.Transaction, err = s.Transaction()
	note(err)
	regs, err = s.IntrRegs()
	note(err)
	p.IntrABI, p.IntrRegs = regs.ABI, regs.Values.AppendTo(nil)
	p.PhysAddr, err = s.PhysAddr()
	note(err)
	p.Cgroup, err = s.Cgroup()
	note(err)
	p.DataPage, err = s.DataPageSize()
	note(err)
	p.CodePage, err = s.CodePageSize()
	note(err)
	p.Aux, err = s.Aux()
	note(err)
	return p, errors.Join(errs...)
}

var plainOptions = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool {
		last := p.Last().String()
		return last == ".Event" || last == ".Has" || last == ".stackDump"
	}, cmp.Ignore()),
	cmp.AllowUnexported(plainSample{}),
	// Nothing and a list of nothing are the same here.
	cmp.FilterValues(func(a, b []byte) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore()),
	cmp.FilterValues(func(a, b []uint64) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore()),
	cmp.FilterValues(func(a, b []Branch) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore()),
	cmp.FilterValues(func(a, b []ReadValue) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore()),
}

// sampleRecording has one event with the given attr.
func sampleRecording(tb testing.TB, e endian, a Attr) *Recording {
	a.Type, a.Size = 1, 128
	return open(tb, build(tb, e, []*Event{{Attr: a, IDs: []uint64{13}}}, nil))
}

// fullSample has every part.
func fullSample() (*plainSample, Attr) {
	p := &plainSample{
		ID: SampleID{PID: 1, TID: 2, Time: 3, ID: 13, StreamID: 5, CPU: 6},
		IP: 7, Addr: 8, Period: 9,
		Enabled: 10, Running: 11, Read: []ReadValue{{12, 13, 14}, {15, 16, 17}},
		Callchain: []uint64{CallchainKernel, 18, CallchainUser, 19}, Raw: []byte("raw and padding."[:12]),
		HWIndex: 20, Branches: []Branch{{From: 21, To: 22, Flags: 1 | 500<<4 | 3<<20 | 5<<30, Counters: 23}, {From: 24, To: 25, Flags: 2 | 7<<26 | 2<<24, Counters: 26}},
		UserABI: Regs64, UserRegs: []uint64{27, 28, 29}, Stack: []byte("stack."), stackDump: 16,
		Weight: 30<<48 | 31<<32 | 32, DataSrc: 33, Transaction: 34, IntrABI: Regs32, IntrRegs: []uint64{35},
		PhysAddr: 36, Cgroup: 37, DataPage: 4096, CodePage: 2 << 20, Aux: []byte("intel pt"),
	}
	return p, Attr{
		SampleType:       1<<25 - 1&^SampleWeight,
		ReadFormat:       readKnown,
		BranchSampleType: branchHWIndex | branchCounters,
		SampleRegsUser:   1<<3 | 1<<7 | 1<<63, SampleRegsIntr: 1 << 8,
	}
}

func TestSample(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		want, attr := fullSample()
		r := sampleRecording(t, e, attr)
		rec := &Record{Type: RecordSample, Raw: want.encode(e, &attr)}
		var s Sample
		if err := r.Sample(rec, &s); err != nil {
			t.Fatal(err)
		}
		got, err := plain(&s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, plainOptions); diff != "" {
			t.Errorf("sample (-want +got):\n%s", diff)
		}
		if rest, err := s.Rest(); len(rest) != 0 || err != nil {
			t.Errorf("%d bytes are left, %v", len(rest), err)
		}
		if s.Type != attr.SampleType || s.Event != r.Events()[0] {
			t.Errorf("Type %#x, Event %v", uint64(s.Type), s.Event)
		}
		regs, err := s.UserRegs()
		if err != nil {
			t.Fatal(err)
		}
		for reg, want := range map[int]uint64{3: 27, 7: 28, 63: 29} {
			if v, ok := regs.Value(reg); v != want || !ok {
				t.Errorf("register %d: %d, %v", reg, v, ok)
			}
		}
		for _, reg := range []int{-1, 0, 4, 64} {
			if v, ok := regs.Value(reg); ok {
				t.Errorf("register %d, which was not sampled, is %d", reg, v)
			}
		}
		if w, _ := s.Weight(); w.Var1() != 32 || w.Var2() != 31 || w.Var3() != 30 {
			t.Errorf("weight %d %d %d", w.Var1(), w.Var2(), w.Var3())
		}

		// The last part first, and a part of another record with the same Sample.
		if err := r.Sample(rec, &s); err != nil {
			t.Fatal(err)
		}
		if b, err := s.Aux(); string(b) != "intel pt" || err != nil {
			t.Errorf("Aux: %q, %v", b, err)
		}
		if v, err := s.Cgroup(); v != 37 || err != nil {
			t.Errorf("Cgroup: %d, %v", v, err)
		}

		// A sample that is cut has what is before the cut.
		for n := headerSize; n < len(rec.Raw); n++ {
			cut := *rec
			cut.Raw = rec.Raw[:n:n]
			if err := r.Sample(&cut, &s); err != nil {
				if fixed := headerSize + 8*9; n >= fixed {
					t.Errorf("%d bytes: %v", n, err)
				}
				continue
			}
			got, err := plain(&s)
			var fe *FormatError
			if !errors.As(err, &fe) {
				t.Errorf("%d bytes: error %v", n, err)
			}
			if got.Callchain != nil && !cmp.Equal(want.Callchain, got.Callchain) || got.Stack != nil && !cmp.Equal(want.Stack, got.Stack) {
				t.Errorf("%d bytes: %+v", n, got)
			}
			if _, err := s.Rest(); err == nil {
				t.Errorf("%d bytes pass for the whole", n)
			}
		}
	})
}

// TestSamplesOfAnyType writes samples with any parts and reads them back.
func TestSamplesOfAnyType(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := endian(rapid.Bool().Draw(t, "big"))
		word := rapid.Uint64()
		words := func(n int, name string) []uint64 { return rapid.SliceOfN(word, n, n).Draw(t, name) }
		bytes := func(name string, unit int) []byte {
			n := rapid.IntRange(0, 5).Draw(t, name+" length") * unit
			return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, name)
		}
		a := Attr{
			SampleType:       SampleType(rapid.Uint64Range(0, 1<<25-1).Draw(t, "sample_type")) | SampleIdentifier,
			ReadFormat:       ReadFormat(rapid.Uint64Range(0, 31).Draw(t, "read_format")),
			BranchSampleType: rapid.SampledFrom([]uint64{0, branchHWIndex, branchCounters, branchHWIndex | branchCounters}).Draw(t, "branch_sample_type"),
			SampleRegsUser:   word.Draw(t, "regs_user"), SampleRegsIntr: word.Draw(t, "regs_intr"),
		}
		full, _ := fullSample()
		want := &plainSample{ID: SampleID{ID: 13}}
		has := func(bit SampleType) bool { return a.SampleType&bit != 0 }
		if has(SampleTID) {
			want.ID.PID, want.ID.TID = full.ID.PID, full.ID.TID
		}
		if has(SampleTime) {
			want.ID.Time = word.Draw(t, "time")
		}
		if has(SampleStreamID) {
			want.ID.StreamID = full.ID.StreamID
		}
		if has(SampleCPU) {
			want.ID.CPU = full.ID.CPU
		}
		for _, f := range []struct {
			bit SampleType
			v   *uint64
		}{
			{SampleIP, &want.IP}, {SampleAddr, &want.Addr}, {SamplePeriod, &want.Period}, {SampleTransaction, &want.Transaction},
			{SamplePhysAddr, &want.PhysAddr}, {SampleCgroup, &want.Cgroup}, {SampleDataPageSize, &want.DataPage}, {SampleCodePageSize, &want.CodePage},
			{SampleDataSrc, (*uint64)(&want.DataSrc)}, {SampleWeight | SampleWeightStruct, (*uint64)(&want.Weight)},
		} {
			if has(f.bit) {
				*f.v = word.Draw(t, "value")
			}
		}
		if has(SampleRead) {
			n := 1
			if a.ReadFormat&ReadFormatGroup != 0 {
				n = rapid.IntRange(0, 3).Draw(t, "group")
			}
			for range n {
				v := ReadValue{Value: word.Draw(t, "count")}
				if a.ReadFormat&ReadFormatID != 0 {
					v.ID = 13
				}
				if a.ReadFormat&ReadFormatLost != 0 {
					v.Lost = 14
				}
				want.Read = append(want.Read, v)
			}
			if a.ReadFormat&ReadFormatTotalTimeEnabled != 0 {
				want.Enabled = 10
			}
			if a.ReadFormat&ReadFormatTotalTimeRunning != 0 {
				want.Running = 11
			}
		}
		if has(SampleCallchain) {
			want.Callchain = words(rapid.IntRange(0, 4).Draw(t, "frames"), "callchain")
		}
		if has(SampleRaw) {
			want.Raw = append(bytes("raw", 8), 1, 2, 3, 4)
		}
		if has(SampleBranchStack) {
			for range rapid.IntRange(0, 3).Draw(t, "branches") {
				br := Branch{From: word.Draw(t, "from"), To: word.Draw(t, "to"), Flags: BranchFlags(rapid.Uint64Range(0, 1<<33-1).Draw(t, "flags"))}
				if a.BranchSampleType&branchCounters != 0 {
					br.Counters = word.Draw(t, "counters")
				}
				want.Branches = append(want.Branches, br)
			}
			if a.BranchSampleType&branchHWIndex != 0 {
				want.HWIndex = 20
			}
		}
		if has(SampleRegsUser) && rapid.Bool().Draw(t, "user") {
			want.UserABI, want.UserRegs = Regs64, words(bits.OnesCount64(a.SampleRegsUser), "user regs")
		}
		if has(SampleStackUser) {
			want.Stack = bytes("stack", 1)
			want.stackDump = align8(len(want.Stack))
		}
		if has(SampleRegsIntr) && rapid.Bool().Draw(t, "intr") {
			want.IntrABI, want.IntrRegs = Regs64, words(bits.OnesCount64(a.SampleRegsIntr), "intr regs")
		}
		if has(SampleAux) {
			want.Aux = bytes("aux", 8)
		}

		var f memFile
		w := NewWriter(&f, e.order())
		a.Type, a.Size = 1, 128
		w.SetEvents([]*Event{{Attr: a, IDs: []uint64{13}}})
		w.WriteRecord(want.encode(e, &a))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := New(f.b)
		if err != nil {
			t.Fatal(err)
		}
		sc := r.Scan()
		if !sc.Next() {
			t.Fatal(sc.Err())
		}
		var s Sample
		if err := r.Sample(sc.Record(), &s); err != nil {
			t.Fatal(err)
		}
		got, err := plain(&s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, plainOptions); diff != "" {
			t.Fatalf("sample (-want +got):\n%s", diff)
		}
		if rest, err := s.Rest(); len(rest) != 0 || err != nil {
			t.Fatalf("%d bytes are left, %v", len(rest), err)
		}
	})
}

func TestSampleMalformed(t *testing.T) {
	e := little
	word := func(v ...uint64) []byte { return e.appendU64s(nil, v) }
	tests := []struct {
		name string
		attr Attr
		body []byte // after IDENTIFIER
		want string
	}{
		{"ends before", Attr{SampleType: SampleCallchain}, nil, "the sample ends before its CALLCHAIN"},
		{"callchain of everything", Attr{SampleType: SampleCallchain}, word(^uint64(0)), "CALLCHAIN does not fit in the 8 bytes"},
		{"callchain whose size overflows", Attr{SampleType: SampleCallchain}, word(1<<61, 0), "CALLCHAIN does not fit in the 16 bytes"},
		{"group of everything", Attr{SampleType: SampleRead, ReadFormat: ReadFormatGroup}, word(^uint64(0), 1), "READ does not fit in the 16 bytes"},
		{"read format not known", Attr{SampleType: SampleRead, ReadFormat: 32}, word(1, 2, 3), "unsupported: read format 0x20"},
		{"raw", Attr{SampleType: SampleRaw}, e.pack(uint32(20), uint32(0)), "RAW does not fit in the 8 bytes"},
		{"raw unaligned", Attr{SampleType: SampleRaw}, e.pack(uint32(3), uint32(0)), "RAW of 3 bytes, which leaves what follows unaligned"},
		{"branches", Attr{SampleType: SampleBranchStack}, word(1, 2, 3), "BRANCH_STACK does not fit in the 24 bytes"},
		{"branches of everything", Attr{SampleType: SampleBranchStack, BranchSampleType: branchCounters}, word(^uint64(0)/32+2, 2, 3), "BRANCH_STACK does not fit"},
		{"registers", Attr{SampleType: SampleRegsIntr, SampleRegsIntr: 7}, word(2, 1, 2), "REGS_INTR does not fit in the 24 bytes"},
		{"registers of another ABI", Attr{SampleType: SampleRegsUser}, word(4), "unsupported: registers of ABI 4"},
		{"stack", Attr{SampleType: SampleStackUser}, word(8, 1), "STACK_USER does not fit in the 16 bytes"},
		{"stack of everything", Attr{SampleType: SampleStackUser}, word(^uint64(0) - 7), "STACK_USER does not fit"},
		{"aux of everything", Attr{SampleType: SampleAux}, word(^uint64(0)), "AUX does not fit"},
	}
	for _, tt := range tests {
		tt.attr.SampleType |= SampleIdentifier
		r := sampleRecording(t, e, tt.attr)
		var s Sample
		if err := r.Sample(&Record{Type: RecordSample, Offset: 77, Raw: rawRecord(e, RecordSample, 0, append(word(13), tt.body...))}, &s); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for range 2 { // the second time must return the same
			_, err := s.Rest()
			var fe *FormatError
			if !errors.As(err, &fe) || fe.Offset != 77 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
			}
		}
	}
	r := sampleRecording(t, e, Attr{SampleType: SampleIdentifier | SamplePeriod})
	var s Sample
	for _, tt := range []struct {
		body []byte
		want string
	}{{word(12, 0), "no event of the recording has the id 12"}, {word(13), "too short"}, {nil, "too short"}} {
		err := r.Sample(&Record{Type: RecordSample, Raw: rawRecord(e, RecordSample, 0, tt.body)}, &s)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%x: got %v, want an error with %q", tt.body, err, tt.want)
		}
	}
	var zero Sample
	if err := readSample(&zero); err != nil {
		t.Errorf("the zero sample: %v", err)
	}
}

// TestSampleByEvent has events whose samples have fields at the same places
// that mean different things: which it is, the id says.
func TestSampleByEvent(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		// The id is at the same place in both, as it must be.
		r := open(t, build(t, e, []*Event{
			{Attr: Attr{Type: 1, SampleType: SampleIdentifier | SampleIP | SampleTime}, IDs: []uint64{11}},
			{Attr: Attr{Type: 1, SampleType: SampleIdentifier | SampleTime | SampleAddr}, IDs: []uint64{12}},
		}, nil))
		var s Sample
		if err := r.Sample(&Record{Type: RecordSample, Raw: rawRecord(e, RecordSample, 0, e.appendU64s(nil, []uint64{11, 1, 2}))}, &s); err != nil || s.IP != 1 || s.Time != 2 {
			t.Errorf("IP %d, Time %d, %v", s.IP, s.Time, err)
		}
		if err := r.Sample(&Record{Type: RecordSample, Raw: rawRecord(e, RecordSample, 0, e.appendU64s(nil, []uint64{12, 1, 2}))}, &s); err != nil || s.IP != 0 || s.Time != 1 || s.Addr != 2 {
			t.Errorf("IP %d, Time %d, Addr %d, %v", s.IP, s.Time, s.Addr, err)
		}
		var id SampleID
		if err := r.SampleID(&Record{Type: RecordSample, Raw: rawRecord(e, RecordSample, 0, e.appendU64s(nil, []uint64{12, 1, 2}))}, &id); err != nil || id.Time != 1 {
			t.Errorf("SampleID: Time %d, %v", id.Time, err)
		}
	})
}

// TestBranchCountersOfGroup has a group whose second event alone asks
// for counters: the first one's samples have them too. A pipe has the events before the group.
func TestBranchCountersOfGroup(t *testing.T) {
	e := little
	attr := Attr{Type: 1, SampleType: SampleIdentifier | SampleBranchStack}
	second := attr
	second.BranchSampleType = branchCounters
	var file, pipe memFile
	for _, w := range []*Writer{NewWriter(&file, e.order()), NewPipeWriter(&pipe, e.order())} {
		w.SetEvents([]*Event{{Attr: attr, IDs: []uint64{11}}, {Attr: second, IDs: []uint64{12}}, {Attr: attr, IDs: []uint64{13}}})
		w.WriteFeature(FeatureHostname, e.appendString(nil, "host"))
		w.WriteFeature(FeatureGroupDesc, e.appendU32s(e.appendString(e.appendU32s(nil, 1), "{anon_group}"), 0, 2))
		for id, body := range map[uint64][]uint64{11: {1, 21, 22, 1, 23}, 12: {1, 21, 22, 1, 23}, 13: {1, 21, 22, 1}} {
			w.WriteRecord(rawRecord(e, RecordSample, 0, e.appendU64s(nil, append([]uint64{id}, body...))))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(r *Recording, rec *Record) {
		t.Helper()
		var s Sample
		if err := r.Sample(rec, &s); err != nil {
			t.Fatal(err)
		}
		stack, err := s.BranchStack()
		if err != nil {
			t.Fatal(err)
		}
		want := uint64(23)
		if s.ID == 13 {
			want = 0
		}
		if stack.Len() != 1 || stack.At(0) != (Branch{From: 21, To: 22, Flags: 1, Counters: want}) || stack.HasHWIndex {
			t.Errorf("id %d: %+v", s.ID, stack.At(0))
		}
	}
	n := 0
	for _, data := range [][]byte{file.b, pipe.b} {
		r := open(t, data)
		for s := r.Scan(Only(RecordSample)); s.Next(); n++ {
			check(r, s.Record())
		}
	}
	rd, err := NewReader(bytes.NewReader(pipe.b), Only(RecordSample))
	if err != nil {
		t.Fatal(err)
	}
	for ; rd.Next(); n++ {
		check(rd.Recording(), rd.Record())
	}
	if n != 9 {
		t.Errorf("%d samples, want 9", n)
	}
}

func TestDeferredCallchains(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		r := sampleRecording(t, e, Attr{SampleType: SampleIdentifier | SampleTID | SampleCallchain, Flags: FlagSampleIDAll | FlagDeferCallchain | FlagDeferOutput})
		chain := func(tid uint32, ips ...uint64) *Sample {
			s := new(Sample)
			raw := rawRecord(e, RecordSample, 0, e.pack(uint64(13), uint32(7), tid, uint64(len(ips)), ips))
			if err := r.Sample(&Record{Type: RecordSample, Raw: raw}, s); err != nil {
				t.Fatal(err)
			}
			return s
		}
		var d DeferredCallchains
		for _, user := range [][]uint64{{CallchainUser, 101}, {CallchainUser, 999}} { // the second is another event's copy
			var c CallchainDeferred
			raw := rawRecord(e, RecordCallchainDeferred, 0, e.pack(uint64(55), uint64(len(user)), user, uint32(7), uint32(8), uint64(13)))
			if err := r.CallchainDeferred(&Record{Type: RecordCallchainDeferred, Raw: raw}, &c); err != nil {
				t.Fatal(err)
			}
			d.Add(&c)
		}
		tests := []struct {
			s     *Sample
			want  []uint64
			whole bool
		}{
			{chain(8, CallchainKernel, 1, CallchainUserDeferred, 55), []uint64{CallchainKernel, 1, CallchainUser, 101}, true},
			{chain(8, CallchainKernel, 1, CallchainUserDeferred, 56), []uint64{CallchainKernel, 1, CallchainUserDeferred, 56}, false},
			{chain(9, CallchainKernel, 1, CallchainUserDeferred, 55), []uint64{CallchainKernel, 1, CallchainUserDeferred, 55}, false},
			{chain(8, CallchainKernel, 1), []uint64{CallchainKernel, 1}, true},
			{chain(8), nil, true},
			{chain(8, CallchainUserDeferred), []uint64{CallchainUserDeferred}, true},
		}
		for _, tt := range tests {
			got, whole, err := d.Join(nil, tt.s)
			if err != nil || whole != tt.whole || !cmp.Equal(tt.want, got) {
				t.Errorf("got %x, %v, %v, want %x, %v", got, whole, err, tt.want, tt.whole)
			}
		}
	})
}

func TestSampleDoesNotAllocate(t *testing.T) {
	want, attr := fullSample()
	r := sampleRecording(t, little, attr)
	rec := &Record{Type: RecordSample, Raw: want.encode(little, &attr)}
	var s Sample
	if n := testing.AllocsPerRun(10, func() {
		if err := r.Sample(rec, &s); err != nil {
			t.Fatal(err)
		}
		ips, _ := s.Callchain()
		for i := range ips.Len() {
			ips.At(i)
		}
		s.BranchStack()
		s.UserRegs()
		s.Rest()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkSample shows what a need costs.
func BenchmarkSample(b *testing.B) {
	want, attr := fullSample()
	r := sampleRecording(b, little, attr)
	rec := &Record{Type: RecordSample, Raw: want.encode(little, &attr)}
	for name, use := range map[string]func(s *Sample) error{
		"fixed":     func(s *Sample) error { return nil },
		"callchain": func(s *Sample) error { _, err := s.Callchain(); return err },
		"whole":     func(s *Sample) error { _, err := s.Rest(); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var s Sample
			for b.Loop() {
				if err := r.Sample(rec, &s); err != nil {
					b.Fatal(err)
				}
				if err := use(&s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
