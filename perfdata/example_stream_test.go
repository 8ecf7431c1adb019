// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata_test

import (
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/textreplay/textreplay/perfdata"
)

// Read what comes out of a pipe, as "perf record -o - | program" does; here a
// writer plays the part of perf.
func ExampleNewReader() {
	pr, pw := io.Pipe()
	go func() {
		rec, err := perfdata.Open("testdata/x86_64.data")
		if err != nil {
			log.Fatal(err)
		}
		defer rec.Close()
		w := perfdata.NewPipeWriter(pw, rec.ByteOrder())
		if err := w.SetEvents(rec.Events()); err != nil {
			log.Fatal(err)
		}
		for s := rec.Scan(); s.Next(); {
			if err := w.WriteRecord(s.Record().Raw); err != nil {
				log.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			log.Fatal(err)
		}
		pw.Close()
	}()

	rd, err := perfdata.NewReader(pr, perfdata.Only(perfdata.RecordKSymbol))
	if err != nil {
		log.Fatal(err)
	}
	var sym perfdata.KSymbol
	n := 0
	for rd.Next() {
		if n++; n > 1 {
			continue
		}
		if err := rd.Recording().KSymbol(rd.Record(), &sym); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d ns: %s, %d bytes at %#x, flags %d\n", sym.Time, sym.Name, sym.Len, sym.Addr, sym.Flags)
	}
	fmt.Println(n, "symbols")
	if err := rd.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 14416438040 ns: kprobe_insn_page, 4096 bytes at 0xffffffffc03e7000, flags 0
	// 8 symbols
}

// Go through a recording in the order of time, with memory for two rounds of
// perf's buffers.
func ExampleRecording_Ordered() {
	rec, err := perfdata.Open("../testdata/rich/rec.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()

	backwards := func(next func() bool, record func() *perfdata.Record) (n int) {
		var id perfdata.SampleID
		last := uint64(0)
		for next() {
			if r := record(); r.Type != perfdata.RecordTextPoke || rec.SampleID(r, &id) != nil {
				continue
			}
			if id.Time < last {
				n++
			}
			last = id.Time
		}
		return n
	}
	s, o := rec.Scan(), rec.Ordered()
	fmt.Println("steps back in time as the file has it:", backwards(s.Next, s.Record) > 0)
	fmt.Println("steps back in time in order:", backwards(o.Next, o.Record))
	if err := o.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// steps back in time as the file has it: true
	// steps back in time in order: 0
}

// Follow the file that a perf record is writing, until it ends or is killed.
func ExampleNewTail() {
	file, err := os.Open("testdata/x86_64.data") // of a running perf record -o
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	running := func() bool { return false } // as kill(pid, 0) shows

	last := false
	rd, err := perfdata.NewReader(perfdata.NewTail(file, func() error {
		if last {
			return io.EOF
		}
		last = !running() // look once more at what it wrote before it ended
		time.Sleep(50 * time.Millisecond)
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	n := 0
	for rd.Next() {
		if rd.Record().Type == perfdata.RecordTextPoke {
			n++
		}
	}
	fmt.Println(n, "text pokes,", rd.Err())
	// Output: 24 text pokes, <nil>
}
