// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"log"

	"github.com/textreplay/textreplay/kcore"
)

// The first bytes of a function, as perf copied them when the recording began.
func ExampleOpen() {
	s, err := kcore.Open("../testdata/small/rec.data/kcore_dir")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, sym := range s.Kallsyms.Lookup("do_sys_openat2") {
		fmt.Printf("%s at %#x: % x\n", sym.Name, sym.Addr, s.Core.Bytes(sym.Addr, 8))
	}
	// Output:
	// do_sys_openat2 at 0xffffffffaef63fa0: 0f 1f 44 00 00 41 54 49
}

// The function that an address is in.
func ExampleKallsyms_Find() {
	k, err := kcore.ParseKallsyms([]byte(`ffffffff81000000 T _stext
ffffffff81000040 T vfs_read
ffffffff810000a0 t rw_verify_area
ffffffff81001000 T _etext
`))
	if err != nil {
		log.Fatal(err)
	}
	const addr = 0xffffffff81000052
	if sym, size, ok := k.Find(addr); ok {
		fmt.Printf("%s+%#x/%#x\n", sym.Name, addr-sym.Addr, size)
	}
	// Output: vfs_read+0x12/0x60
}

// A core of one page, and what is read back.
func ExampleWriteCore() {
	page := bytes.Repeat([]byte{0x90}, 4096)
	var file bytes.Buffer
	err := kcore.WriteCore(&file, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB,
		[]kcore.Segment{{Addr: 0xffffffff81000000, Data: page}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	c, err := kcore.NewCore(file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range c.Segments {
		fmt.Printf("%v, %d bytes at %#x\n", c.Machine, len(s.Data), s.Addr)
	}
	fmt.Printf("% x\n", c.Bytes(0xffffffff81000ffc, 4))
	// Output:
	// EM_X86_64, 4096 bytes at 0xffffffff81000000
	// 90 90 90 90
}
