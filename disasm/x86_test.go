// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// kernelText is where testdata/x86_64.text lay.
const kernelText = 0xffffffffaec78000

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// objdumpLine is what objdump shows of an instruction.
type objdumpLine struct {
	addr uint64
	code []byte
	text string
}

func readLines(t testing.TB, name string) []objdumpLine {
	t.Helper()
	var lines []objdumpLine
	for l := range strings.Lines(string(readFile(t, name))) {
		f := strings.Split(strings.TrimSpace(l), "\t")
		if len(f) != 3 {
			t.Fatalf("%s: line %q", name, l)
		}
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, objdumpLine{addr, unhex(t, f[1]), f[2]})
	}
	return lines
}

// sameText reports whether the texts are equal but for spaces and the 0x with
// which objdump writes addresses where it has no symbols.
func sameText(inst Inst, objdump string) bool {
	want := strings.Join(strings.Fields(objdump), " ")
	want = strings.Replace(want, " # 0x", " # ", 1)
	if inst.HasTarget {
		want = strings.Replace(want, fmt.Sprintf("0x%x", inst.Target), fmt.Sprintf("%x", inst.Target), 1)
	}
	return strings.Join(strings.Fields(inst.Text), " ") == want
}

func TestX86Golden(t *testing.T) {
	d := newX86(t)
	for _, file := range []string{"x86_64.kernel.tsv", "x86_64.assembled.tsv"} {
		for _, l := range readLines(t, file) {
			// What follows must not matter.
			inst := d.Next(append(bytes.Clone(l.code), 0xcc, 0xcc), l.addr, nil)
			if !bytes.Equal(inst.Bytes, l.code) || inst.Data || !sameText(inst, l.text) {
				t.Errorf("%s: % x is %q (% x), want %q", file, l.code, inst.Text, inst.Bytes, l.text)
			}
			// The instruction without its end is no other instruction.
			for n := 1; n < len(l.code); n++ {
				if inst := d.Next(l.code[:n], l.addr, nil); !inst.Data || len(inst.Bytes) != 1 {
					t.Errorf("%s: %d bytes of % x (%s) are %q", file, n, l.code, l.text, inst.Text)
				}
			}
		}
	}
}

// What kernel text is patched with, and what objdump 2.40 does not show or
// shows in another way.
func TestX86(t *testing.T) {
	tests := []struct{ code, want string }{
		{"90", "nop"},
		{"6690", "xchg %ax,%ax"},
		{"0f1f00", "nopl (%rax)"},
		{"0f1f4000", "nopl 0x0(%rax)"},
		{"0f1f440000", "nopl 0x0(%rax,%rax,1)"},
		{"660f1f440000", "nopw 0x0(%rax,%rax,1)"},
		{"0f1f8000000000", "nopl 0x0(%rax)"},
		{"0f1f840000000000", "nopl 0x0(%rax,%rax,1)"},
		{"660f1f840000000000", "nopw 0x0(%rax,%rax,1)"},
		{"66662e0f1f840000000000", "data16 cs nopw 0x0(%rax,%rax,1)"},
		{"cc", "int3"},
		{"cd80", "int $0x80"},
		{"f1", "int1"},
		{"0f0b", "ud2"},
		{"0fb9cc", "ud1 %esp,%ecx"}, // marks a static call's trampoline
		{"0fb900", "ud1 (%rax),%eax"},
		{"67480fb93a", "ud1 (%edx),%rdi"}, // WARN of Linux 7.2
		{"480fb9c7", "ud1 %rdi,%rax"},
		{"4c0fb906", "ud1 (%rsi),%r8"},
		{"65480fb9042510000000", "ud1 %gs:0x10,%rax"},
		{"660fb9c1", "ud1 %cx,%ax"},
		{"66480fb9c1", "data16 ud1 %rcx,%rax"},
		{"f3480fb900", "repz ud1 (%rax),%rax"},
		{"420fb900", "rex.X ud1 (%rax),%eax"},
		{"480fff00", "ud0 (%rax),%rax"},
		{"d6", "udb"},
		{"c3", "ret"},
		{"f3c3", "repz ret"},
		{"f30f1efa", "endbr64"},
		{"f390", "pause"},
		{"f00fb10a", "lock cmpxchg %ecx,(%rdx)"},
		{"3e0fb10a", "ds cmpxchg %ecx,(%rdx)"}, // the same without SMP
		{"f0ff00", "lock incl (%rax)"},
		{"3eff00", "ds incl (%rax)"},
		{"2ee8fbffffff", "cs call ffffffff81234501"},
		{"2e75fd", "jne,pn ffffffff81234500"},
		{"3e75fd", "jne,pt ffffffff81234500"},
		{"2e3e75fc", "cs jne,pt ffffffff81234500"},
		{"3effe0", "notrack jmp *%rax"},
		{"65ff0425404b0200", "incl %gs:0x24b40"},
		{"65488b042500000000", "mov %gs:0x0,%rax"},
		{"658b0500000000", "mov %gs:0x0(%rip),%eax  # ffffffff81234507"},
		{"678b0500000000", "mov 0x0(%eip),%eax  # 81234507"},
		{"48c7c0ffffffff", "mov $0xffffffffffffffff,%rax"},
		{"b8ffffffff", "mov $0xffffffff,%eax"},
		{"488945f8", "mov %rax,-0x8(%rbp)"},
		{"f20f01ca", "erets"},
		{"f30f01ca", "eretu"},
		{"f20f00f0", "lkgs %eax"},
		{"f20f0030", "lkgs (%rax)"},
		{"65c5fe6f00", "vmovdqu %gs:(%rax),%ymm0"},
		{"0f20c0", "mov %cr0,%rax"},
		{"0f21f2", "mov %db6,%rdx"},
		{"0f2000", ".byte 0x0f"}, // CPUs take it for 0f20c0, which no assembler writes so
		{"0f218ee9a697a6", ".byte 0x0f"},
		{"0f24c0", ".byte 0x0f"}, // test registers, which x86-64 lacks
		{"0f2600", ".byte 0x0f"},
		{"c5f877", "vzeroupper"},
		{"c5fc77", "vzeroall"},
		{"62f1fd486f4001", "vmovdqa64 0x40(%rax),%zmm0"}, // the displacement is in units of 64
		{"67c5fe6f00", "vmovdqu (%eax),%ymm0"},
		{"f3c5fe6f00", ".byte 0xf3"}, // VEX replaces this prefix
		{"f0c5fe6f00", ".byte 0xf0"},
		{"62757e085f5f63", ".byte 0x62"}, // half precision
	}
	d := newX86(t)
	for _, tt := range tests {
		code := unhex(t, tt.code)
		inst := d.Next(append(bytes.Clone(code), 0xcc, 0xcc, 0xcc), 0xffffffff81234500, nil)
		wantLen := len(code)
		if strings.HasPrefix(tt.want, ".byte") {
			wantLen = 1
		}
		if inst.Text != tt.want || len(inst.Bytes) != wantLen || inst.Data != strings.HasPrefix(tt.want, ".byte") {
			t.Errorf("%s is %q of %d bytes, want %q of %d", tt.code, inst.Text, len(inst.Bytes), tt.want, wantLen)
		}
	}
}

// Kernel text as a whole, compared with objdump where there is one.
func TestX86Objdump(t *testing.T) {
	if n := compareX86(t, readFile(t, "x86_64.text"), kernelText, true); n < 5000 {
		t.Errorf("%d instructions were compared", n)
	}
}

// compareX86 compares the boundaries of all instructions with objdump's, but
// for one that the code's end cuts off, and returns how many there are. With whole, all
// of them must decode.
func compareX86(t *testing.T, code []byte, addr uint64, whole bool) (n int) {
	t.Helper()
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed")
	}
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, code, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(objdump, "-D", "-w", "-b", "binary", "-m", "i386:x86-64", fmt.Sprintf("--adjust-vma=%#x", addr), file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("objdump does not run: %v", err)
	}
	defer cmd.Wait()
	defer out.Close()
	lines := bufio.NewScanner(out)
	next := func() (addr uint64, code []byte, text string) {
		for lines.Scan() {
			f := strings.Split(lines.Text(), "\t")
			a, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(f[0]), ":"), 16, 64)
			if err != nil || len(f) < 3 {
				continue
			}
			return a, unhex(t, strings.ReplaceAll(f[1], " ", "")), f[2]
		}
		return 0, nil, ""
	}
	wrong, badEnd := 0, uint64(0)
	want, bytesThere, text := next()
	for inst := range newX86(t).All(code, addr, nil) {
		if addr+uint64(len(code))-inst.Addr < maxInst {
			break
		}
		n++
		if inst.Data && inst.Addr < badEnd {
			continue // bytes of what objdump calls (bad)
		}
		if inst.Data && inst.Addr == want && strings.HasSuffix(text, "(bad)") {
			badEnd = want + uint64(len(bytesThere))
			want, bytesThere, text = next()
			continue
		}
		if inst.Addr != want || !bytes.Equal(inst.Bytes, bytesThere) {
			t.Errorf("at %x % x (%s), objdump has at %x % x (%s)", inst.Addr, inst.Bytes, inst.Text, want, bytesThere, text)
			if wrong++; wrong == 10 {
				t.Fatal("and so on")
			}
			for want < inst.Addr+uint64(len(inst.Bytes)) && bytesThere != nil {
				want, bytesThere, text = next()
			}
			continue
		}
		if whole && inst.Data {
			t.Errorf("%x does not decode: % x", inst.Addr, inst.Bytes)
		}
		want, bytesThere, text = next()
	}
	return n
}

// All of the kernels of distributions: 6.1, 5.10 and 7.2.
func TestX86Text(t *testing.T) {
	for _, name := range []string{"x86_64/rich", "x86_64/old510", "x86_64/z72"} {
		t.Run(name, func(t *testing.T) {
			pieces, addrs := textOf(t, name)
			n := 0
			for i := range pieces {
				n += compareX86(t, pieces[i], addrs[i], false)
			}
			t.Logf("%d instructions", n)
		})
	}
}

func FuzzNext(f *testing.F) {
	for _, file := range []string{"x86_64.kernel.tsv", "x86_64.assembled.tsv"} {
		for i, l := range readLines(f, file) {
			if i%8 == 0 {
				f.Add(l.code, l.addr)
			}
		}
	}
	f.Add([]byte{0x67, 0x66, 0x62, 0xf1, 0x7d, 0x48, 0x6f, 0x44, 0x24, 0x01}, uint64(0))
	d := newX86(f)
	f.Fuzz(func(t *testing.T, code []byte, addr uint64) {
		inst := d.Next(code, addr, symbols)
		if inst.Addr != addr || !bytes.HasPrefix(code, inst.Bytes) {
			t.Fatalf("% x: %+v", code, inst)
		}
		if n := len(inst.Bytes); n > maxInst || n == 0 && len(code) > 0 || inst.Data && n != 1 {
			t.Fatalf("% x: %d bytes: %+v", code, n, inst)
		}
		if inst.Text == "" && len(code) > 0 || strings.ContainsAny(inst.Text, "\n\t") {
			t.Fatalf("% x: text %q", code, inst.Text)
		}
		if inst.Data {
			return
		}
		// The instruction is the same whatever follows it.
		if again := d.Next(inst.Bytes, addr, symbols); again.Text != inst.Text || len(again.Bytes) != len(inst.Bytes) {
			t.Fatalf("% x: %q alone, %q before other bytes", inst.Bytes, again.Text, inst.Text)
		}
	})
}

func BenchmarkX86(b *testing.B) {
	d := newX86(b)
	code := readFile(b, "x86_64.text")
	b.SetBytes(int64(len(code)))
	b.ReportAllocs()
	for b.Loop() {
		for range d.All(code, kernelText, nil) {
		}
	}
}
