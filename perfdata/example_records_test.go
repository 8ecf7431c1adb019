// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
)

// Count the records of each type. Nothing is decoded.
func ExampleRecording_Scan() {
	rec, err := perfdata.Open("testdata/s390x.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	count := make(map[perfdata.RecordType]int)
	s := rec.Scan()
	for s.Next() {
		count[s.Record().Type]++
	}
	if err := s.Err(); err != nil {
		log.Print(err)
	}
	for _, t := range slices.Sorted(maps.Keys(count)) {
		fmt.Println(t, count[t])
	}
	// Output:
	// MMAP 2
	// COMM 24
	// EXIT 24
	// FORK 24
	// SAMPLE 24
	// MMAP2 24
	// KSYMBOL 24
	// BPF_EVENT 24
	// FINISHED_ROUND 24
	// ID_INDEX 1
	// THREAD_MAP 1
	// CPU_MAP 1
	// EVENT_UPDATE 2
	// FINISHED_INIT 1
}

// Look for two types of records only.
func ExampleOnly() {
	rec, err := perfdata.Open("testdata/x86_64.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	var sym perfdata.KSymbol
	var ev perfdata.BPFEvent
	for s := rec.Scan(perfdata.Only(perfdata.RecordKSymbol, perfdata.RecordBPFEvent)); s.Next(); {
		switch s.Record().Type {
		case perfdata.RecordKSymbol:
			if err := rec.KSymbol(s.Record(), &sym); err == nil && sym.Excess == 0 {
				fmt.Printf("%d ns: %s at %#x\n", sym.Time, sym.Name, sym.Addr)
			}
		case perfdata.RecordBPFEvent:
			if err := rec.BPFEvent(s.Record(), &ev); err == nil && ev.Kind == perfdata.BPFLoad {
				fmt.Printf("%d ns: program %d loaded\n", ev.Time, ev.ID)
			}
		}
	}
	// Output:
	// 14416438040 ns: kprobe_insn_page at 0xffffffffc03e7000
	// 14417546370 ns: kprobe_optinsn_page at 0xffffffffc03e9000
	// 20835152720 ns: bpf_prog_b19c858917c4054c_socket_3 at 0xffffffffc01d9648
	// 20835509590 ns: program 1 loaded
	// 25885348580 ns: bpf_prog_b19c858917c4054c_socket_3 at 0xffffffffc01d9648
}

// Print any record, of whatever type.
func ExampleRecording_Decode() {
	rec, err := perfdata.Open("testdata/s390x.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	for s := rec.Scan(); s.Next(); {
		v, err := rec.Decode(s.Record())
		if err != nil {
			log.Print(err)
			continue
		}
		switch v := v.(type) {
		case *perfdata.ThreadMap:
			fmt.Printf("%v: %d threads\n", s.Record().Type, len(v.Threads))
		case *perfdata.CPUMap:
			fmt.Printf("%v: %v\n", s.Record().Type, v.CPUs)
		case *perfdata.IDIndex:
			fmt.Printf("%v: %d ids\n", s.Record().Type, len(v.Entries))
		}
	}
	// Output:
	// ID_INDEX: 6 ids
	// THREAD_MAP: 1 threads
	// CPU_MAP: [0 1]
}

// Read the instruction pointer and the time of samples, and the call chain
// where it is wanted. The rest of a sample is never looked at.
func ExampleRecording_Sample() {
	rec, err := perfdata.Open("testdata/s390x.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	var sample perfdata.Sample
	n := 0
	for s := rec.Scan(perfdata.Only(perfdata.RecordSample)); s.Next() && n < 1; n++ {
		if err := rec.Sample(s.Record(), &sample); err != nil {
			log.Print(err)
			continue
		}
		fmt.Printf("%d ns, CPU %d, task %d at %#x\n", sample.Time, sample.CPU, sample.TID, sample.IP)
		chain, err := sample.Callchain()
		if err != nil {
			log.Print(err)
		}
		for _, ip := range chain.All() {
			if ip < perfdata.CallchainContextMax {
				fmt.Printf("\t%#x\n", ip)
			}
		}
	}
	// Output:
	// 35910833726 ns, CPU 0, task 180 at 0x3fffea07f66
	// 	0x3fffea07f66
	// 	0x3fffea07f4e
	// 	0x3fffea3cafc
	// 	0x3fffe9a944e
	// 	0x3fffe9a9704
	// 	0x3ffff404d88
	// 	0x3ffff41099c
	// 	0x3ff81f967bc
}

// Ask what machine it was, and what the events' numbers mean.
func ExampleRecording_PMUMappings() {
	rec, err := perfdata.Open("testdata/s390x.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	arch, err := rec.Arch()
	if err != nil {
		log.Print(err)
	}
	release, err := rec.OSRelease()
	if err != nil {
		log.Print(err)
	}
	fmt.Println(arch, release)
	pmus, err := rec.PMUMappings()
	if err != nil {
		log.Print(err)
	}
	slices.SortFunc(pmus, func(a, b perfdata.PMU) int { return cmp.Compare(a.Type, b.Type) })
	for _, pmu := range pmus {
		fmt.Println(pmu.Type, pmu.Name)
	}
	// Output:
	// s390x 6.12.95+deb12-s390x
	// 1 software
	// 2 tracepoint
	// 4 cpu
	// 8 kprobe
	// 9 uprobe
}

// Save the trace of each CPU in one file, as decoders of Intel PT want it.
func ExampleRecording_AuxtraceQueues() {
	rec, err := perfdata.Open("perf.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	queues, err := rec.AuxtraceQueues()
	if err != nil {
		log.Print(err) // what is before the damage is in queues
	}
	for _, q := range queues {
		f, err := os.Create(fmt.Sprintf("cpu%d.pt", q.CPU))
		if err != nil {
			log.Fatal(err)
		}
		if _, err := io.Copy(f, q.Reader()); err != nil {
			log.Fatal(err)
		}
		f.Close()
	}
}

// Say which line of source the machine code of BPF programs comes from.
func ExampleBPFSource() {
	rec, err := perfdata.Open("perf.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	src := rec.BPFSource()
	for prog, err := range rec.BPFProgs() {
		if err != nil {
			log.Print(err)
			continue
		}
		lines, err := src.Lines(prog)
		if err != nil {
			log.Print(err)
		}
		for f := range prog.Funcs() {
			if line, ok := lines.At(f.Addr + uint64(f.Len)/2); ok {
				fmt.Printf("the middle of %s is from %s:%d: %s\n", prog.Name, line.File, line.Line, line.Text)
			}
		}
	}
}

// Write a recording, and read it again.
func ExampleWriter() {
	f, err := os.CreateTemp("", "perf.data")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	ev := &perfdata.Event{Name: "dummy:HG", IDs: []uint64{1}, Attr: perfdata.Attr{
		Type: 1, Config: 9, // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
		SampleType: perfdata.SampleIdentifier | perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU,
		Flags:      perfdata.FlagSampleIDAll | perfdata.FlagTextPoke,
	}}
	w := perfdata.NewWriter(f, binary.BigEndian)
	w.SetEvents([]*perfdata.Event{ev})
	w.TextPoke(&perfdata.TextPoke{
		Addr: 0xffffffff81000000, Old: []byte{0x66, 0x90}, New: []byte{0xeb, 0x36},
		SampleID: perfdata.SampleID{Event: ev, ID: 1, Time: 1000},
	})
	if err := w.Close(); err != nil { // the first error of all
		log.Fatal(err)
	}
	f.Close()

	rec, err := perfdata.Open(f.Name())
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	var poke perfdata.TextPoke
	for s := rec.Scan(); s.Next(); {
		if err := rec.TextPoke(s.Record(), &poke); err != nil {
			log.Fatal(err)
		}
		fmt.Println(rec.ByteOrder(), poke.Event.Name, poke.Time, bytes.Equal(poke.New, []byte{0xeb, 0x36}))
	}
	// Output:
	// BigEndian dummy:HG 1000 true
}
