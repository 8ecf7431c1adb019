// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata_test

import (
	"fmt"
	"log"

	"github.com/textreplay/textreplay/perfdata"
)

// List the changes of kernel text in a recording. In this one two events listen
// on each CPU, so that every change comes twice, each copy with its own time.
func Example() {
	rec, err := perfdata.Open("testdata/x86_64.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()

	var poke perfdata.TextPoke
	n := 0
	s := rec.Scan(perfdata.Only(perfdata.RecordTextPoke))
	for s.Next() {
		if err := rec.TextPoke(s.Record(), &poke); err != nil {
			log.Print(err) // this record is damaged; the next one may not be
			continue
		}
		if n++; n <= 4 {
			fmt.Printf("%d ns, CPU %d, %s: %#x % x -> % x\n", poke.Time, poke.CPU, poke.Event.Name, poke.Addr, poke.Old, poke.New)
		}
	}
	if err := s.Err(); err != nil {
		log.Print(err) // all records before the damage have been seen
	}
	fmt.Println(n, "pokes")
	// Output:
	// 10286104430 ns, CPU 0, dummy:u: 0xffffffff8fcdbcb1 e9 a8 00 00 00 -> 0f 1f 44 00 00
	// 10286167320 ns, CPU 0, dummy: 0xffffffff8fcdbcb1 e9 a8 00 00 00 -> 0f 1f 44 00 00
	// 10286195440 ns, CPU 0, dummy:u: 0xffffffff8fcdc348 66 90 -> eb 36
	// 10286199640 ns, CPU 0, dummy: 0xffffffff8fcdc348 66 90 -> eb 36
	// 24 pokes
}

// Read the machine code of the BPF programs that were recorded.
func ExampleRecording_BPFProgs() {
	rec, err := perfdata.Open("testdata/x86_64.data")
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close()
	for prog, err := range rec.BPFProgs() {
		if err != nil {
			log.Print(err)
			continue
		}
		for f := range prog.Funcs() {
			fmt.Printf("program %d (%s): %d bytes at %#x, % x ...\n", prog.ID, prog.Name, f.Len, f.Addr, f.Code[:12])
		}
	}
	// Output:
	// program 1 (socket_3): 109 bytes at 0xffffffffc01d9648, 0f 1f 44 00 00 66 90 55 48 89 e5 b8 ...
}
