// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm_test

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/textreplay/textreplay/disasm"
)

// Instructions with the names of one moment.
func ExampleDisassembler_All() {
	d, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
	if err != nil {
		log.Fatal(err)
	}
	names := func(addr uint64) (string, uint64, bool) {
		const vfsRead = 0xffffffff81234560
		return "vfs_read", vfsRead, vfsRead <= addr && addr < vfsRead+0x100
	}
	code := []byte{0x0f, 0x1f, 0x44, 0x00, 0x00, 0xe8, 0x36, 0x02, 0x00, 0x00, 0xc3}
	for in := range d.All(code, 0xffffffff81234330, names) {
		fmt.Printf("%x  %-15s %s\n", in.Addr, fmt.Sprintf("% x", in.Bytes), in.Text)
	}
	// Output:
	// ffffffff81234330  0f 1f 44 00 00  nopl 0x0(%rax,%rax,1)
	// ffffffff81234335  e8 36 02 00 00  call ffffffff81234570 <vfs_read+0x10>
	// ffffffff8123433a  c3              ret
}

// arm64 kernels keep a pointer before a function for ftrace. Only the caller
// knows where.
func ExampleDisassembler_AllWithData() {
	d, err := disasm.New(elf.EM_AARCH64, binary.LittleEndian)
	if err != nil {
		log.Fatal(err)
	}
	code := binary.LittleEndian.AppendUint64(nil, 0xffff800081234560)
	code = binary.LittleEndian.AppendUint32(code, 0xd503201f)
	isData := func(addr uint64) bool { return addr < 0xffff800080010008 }
	for in := range d.AllWithData(code, 0xffff800080010000, nil, isData) {
		fmt.Printf("%x  %s\n", in.Addr, in.Text)
	}
	// Output:
	// ffff800080010000  .xword 0xffff800081234560
	// ffff800080010008  nop
}
