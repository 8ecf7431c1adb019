// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
)

// loadWithSource loads a BPF program of two instructions that has one function and two lines
// of source, and returns its id. No library can load lines that are not in an object file.
func loadWithSource(t *testing.T) (id uint32) {
	t.Helper()
	u32 := func(values ...uint32) (b []byte) {
		for _, v := range values {
			b = binary.NativeEndian.AppendUint32(b, v)
		}
		return b
	}
	names := "\x00int\x00answer\x00src.c\x00int answer(void)\x00return 3;\x00"
	const intName, funcName, file, line1, line2 = 1, 5, 12, 18, 35
	types := u32(
		intName, 1<<24, 4, 1<<24|32, // 1: BTF_KIND_INT of 4 bytes, signed, 32 bits
		0, 13<<24, 1, // 2: BTF_KIND_FUNC_PROTO that returns 1
		funcName, 12<<24, 2, // 3: BTF_KIND_FUNC of 2
	)
	// struct btf_header: magic, version, flags; hdr_len; type_off, type_len; str_off, str_len
	blob := u32(0xeb9f|1<<16, 24, 0, uint32(len(types)), uint32(len(types)), uint32(len(names)))
	blob = append(append(blob, types...), names...)
	var pin runtime.Pinner
	defer pin.Unpin()

	btf := struct {
		btf, log             uint64
		size, logSize, level uint32
	}{btf: pinned(&pin, blob), size: uint32(len(blob))}
	const bpfProgLoad, bpfBTFLoad = 5, 18
	btfFD, err := bpf(bpfBTFLoad, unsafe.Pointer(&btf), unsafe.Sizeof(btf))
	if errors.Is(err, unix.EPERM) {
		t.Skipf("this machine allows no BPF programs: %v", err)
	}
	if err != nil {
		t.Fatalf("BTF: %v", err)
	}
	defer unix.Close(btfFD)

	insns := u32(0x00b7, 3, 0x0095, 0) // r0 = 3; exit
	license := []byte("MIT\x00")
	funcs := u32(0, 3)                                              // insn_off, type_id
	lines := u32(0, file, line1, 7<<10|1, 1, file, line2, 8<<10|10) // insn_off, file_name_off, line_off, line_col
	load := struct {
		typ, insns                              uint32
		code, license                           uint64
		logLevel, logSize                       uint32
		log                                     uint64
		version, flags                          uint32
		name                                    [16]byte
		ifindex, attach, btfFD, funcInfoRecSize uint32
		funcInfo                                uint64
		funcInfoCnt, lineInfoRecSize            uint32
		lineInfo                                uint64
		lineInfoCnt, _                          uint32
	}{
		typ: 1 /* BPF_PROG_TYPE_SOCKET_FILTER */, insns: 2, code: pinned(&pin, insns), license: pinned(&pin, license),
		btfFD: uint32(btfFD), funcInfoRecSize: 8, funcInfo: pinned(&pin, funcs), funcInfoCnt: 1,
		lineInfoRecSize: 16, lineInfo: pinned(&pin, lines), lineInfoCnt: 2,
	}
	copy(load.name[:], "with_source")
	fd, err := bpf(bpfProgLoad, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if err != nil {
		t.Fatalf("program: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	var info bpfProgInfo
	if err := objInfo(fd, &info); err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// TestSource: the functions and lines of BPF programs are recorded, those of programs that were
// there at the beginning too; and can be read before the recorder ends.
func TestSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	before := loadWithSource(t)
	r := started(t, Options{Dir: dir})
	later := loadWithSource(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*flushInterval)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	t.Run("growing", func(t *testing.T) { checkSource(t, dir, before, later) })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("ended", func(t *testing.T) { checkSource(t, dir, before, later) })
	t.Run("perf", func(t *testing.T) {
		perf, err := exec.LookPath("perf")
		if err != nil {
			t.Skip("perf is missing")
		}
		out, err := exec.Command(perf, "report", "-i", dir, "--header-only", "-I").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{fmt.Sprintf("# bpf_prog_info %d: bpf_prog_", before), fmt.Sprintf("# bpf_prog_info %d: bpf_prog_", later), "_answer addr ", "# btf info of id "} {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("perf does not print %q\n%s", want, out)
			}
		}
	})
}

// checkSource compares what a recording says of programs of loadWithSource.
func checkSource(t *testing.T, dir string, ids ...uint32) {
	rec, err := perfdata.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	source := rec.BPFSource()
	found := make(map[uint32]bool)
	for p, err := range rec.BPFProgs() {
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != "with_source" {
			continue
		}
		found[p.ID] = true
		names, err := source.FuncNames(p)
		if err != nil || len(names) != 1 || names[0] != "answer" {
			t.Errorf("program %d: functions %q, %v", p.ID, names, err)
		}
		lines, err := source.Lines(p)
		if err != nil || len(lines) != 2 {
			t.Fatalf("program %d: lines %+v, %v", p.ID, lines, err)
		}
		for i, want := range []struct {
			line uint32
			text string
		}{{7, "int answer(void)"}, {8, "return 3;"}} {
			if l := lines[i]; l.File != "src.c" || l.Line != want.line || l.Text != want.text || l.Addr < p.Ksyms[0] {
				t.Errorf("program %d: line %+v, want line %d %q", p.ID, l, want.line, want.text)
			}
		}
	}
	for _, id := range ids {
		if !found[id] {
			t.Errorf("program %d is not recorded", id)
		}
	}
}
