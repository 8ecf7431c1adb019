// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
)

// sameDecode checks Decode against Next.
func sameDecode(t testing.TB, d *Disassembler, code []byte, addr uint64) Inst {
	t.Helper()
	got, want := d.Decode(code, addr), d.Next(code, addr, nil)
	if !bytes.Equal(got.Bytes, want.Bytes) || got.Addr != addr || got.Text != "" || got.Data != want.Data ||
		got.Target != want.Target || got.HasTarget != want.HasTarget || got.Class != want.Class {
		t.Fatalf("% x at %#x: Decode returns %+v, Next %+v", code, addr, got, want)
	}
	return got
}

// Classes by the mnemonics of objdump.
var (
	x86Classes = []struct {
		text  *regexp.Regexp
		class Class
	}{
		{regexp.MustCompile(`^l?call[wq]? +(%[a-z]+:)?\*`), IndirectCall},
		{regexp.MustCompile(`^l?jmp[wq]? +(%[a-z]+:)?\*`), IndirectJump},
		{regexp.MustCompile(`^call`), Call},
		{regexp.MustCompile(`^jmp`), Jump},
		{regexp.MustCompile(`^(j|loop)`), CondJump},
		{regexp.MustCompile(`^(l?ret[wlq]?)\b`), Return},
		{regexp.MustCompile(`^(iret|sysret|sysexit|rsm|uiret|eret|vmlaunch|vmresume|vmrun)`), SyscallReturn},
		{regexp.MustCompile(`^(syscall|sysenter|vmcall|vmmcall|vmgexit)`), Syscall},
		{regexp.MustCompile(`^(int3|int1|icebp|int)\b`), Trap},
	}
	x86Prefixes = regexp.MustCompile(`^((rep|repz|repnz|lock|bnd|notrack|data16|addr32|[cdefgs]s|rex(\.[A-Z]+)?|xacquire|xrelease) +)+`)
)

func x86ClassOf(text string) Class {
	text = x86Prefixes.ReplaceAllString(strings.Join(strings.Fields(text), " "), "")
	for _, c := range x86Classes {
		if c.text.MatchString(text) {
			return c.class
		}
	}
	return Other
}

var wordClasses = map[string]Class{
	"b": Jump, "bl": Call, "br": IndirectJump, "blr": IndirectCall, "ret": Return, "eret": SyscallReturn, "eretaa": SyscallReturn, "eretab": SyscallReturn,
	"braa": IndirectJump, "brab": IndirectJump, "braaz": IndirectJump, "brabz": IndirectJump,
	"blraa": IndirectCall, "blrab": IndirectCall, "blraaz": IndirectCall, "blrabz": IndirectCall, "retaa": Return, "retab": Return,
	"svc": Syscall, "hvc": Syscall, "smc": Syscall, "brk": Trap, "cbz": CondJump, "cbnz": CondJump, "tbz": CondJump, "tbnz": CondJump,
}

func arm64ClassOf(text string) Class {
	name, _, _ := strings.Cut(text, " ")
	if strings.HasPrefix(name, "b.") || strings.HasPrefix(name, "bc.") {
		return CondJump
	}
	return wordClasses[name]
}

var ppcCond = regexp.MustCompile(`^b(c|d?n?z?[tf]?|lt|gt|eq|so|un|ge|le|ne|ns|nl|ng|nu|dnz[tf]?|dz[tf]?)(lr|ctr|tar)?(l?)(a?)[+-]?$`)

func ppc64ClassOf(text string) Class {
	name, _, _ := strings.Cut(text, " ")
	switch {
	case name == "b" || name == "ba":
		return Jump
	case name == "bl" || name == "bla":
		return Call
	case name == "sc" || name == "scv":
		return Syscall
	case name == "rfid" || name == "hrfid" || name == "rfscv" || name == "urfid":
		return SyscallReturn
	case name == "trap", regexp.MustCompile(`^t[wd]((lt|le|eq|ge|gt|nl|ne|ng|llt|lle|lge|lgt|lnl|lng|u)?i?)$`).MatchString(name):
		return Trap
	}
	m := ppcCond.FindStringSubmatch(name)
	switch {
	case m == nil:
		return Other
	case m[3] == "l" && m[2] != "":
		return IndirectCall
	case m[3] == "l":
		return Call
	case m[2] == "lr":
		return Return
	case m[2] != "":
		return IndirectJump
	}
	return CondJump
}

// TestDecodeGolden: lengths, classes and targets are those that objdump shows.
func TestDecodeGolden(t *testing.T) {
	for _, tt := range []struct {
		d     *Disassembler
		files []string
		class func(string) Class
	}{
		{newX86(t), []string{"x86_64.kernel.tsv", "x86_64.assembled.tsv"}, x86ClassOf},
		{wordARM64.new(t), []string{"arm64.kernel.tsv", "arm64.random.tsv"}, arm64ClassOf},
		{wordPPC64LE.new(t), []string{"ppc64le.kernel.tsv", "ppc64le.random.tsv"}, ppc64ClassOf},
	} {
		for _, file := range tt.files {
			seen := make(map[Class]int)
			for _, l := range readLines(t, file) {
				got, next := tt.d.Decode(l.code, l.addr), tt.d.Next(l.code, l.addr, nil)
				if next.Data {
					continue
				}
				seen[got.Class]++
				always := strings.Contains(l.text, " ") // a Power branch that is conditional in name only
				if want := tt.class(l.text); got.Class != want && !(file == "ppc64le.random.tsv" && always && (want == CondJump && got.Class == Jump)) {
					t.Errorf("%s: %x %q is a %v, want %v", file, l.code, l.text, got.Class, want)
				}
				if len(got.Bytes) != len(l.code) || got.Target != next.Target || got.HasTarget != next.HasTarget || next.Class != got.Class {
					t.Errorf("%s: %x %q: Decode returns %+v, Next %+v", file, l.code, l.text, got, next)
				}
			}
			t.Log(file, seen)
		}
	}
}

// TestDecodeRandom: Decode agrees with Next, which x86asm decodes for, on random bytes.
func TestDecodeRandom(t *testing.T) {
	d := newX86(t)
	rng := rand.New(rand.NewPCG(1, 1))
	code := make([]byte, 16)
	prefixes := []byte{0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0x48, 0x4f, 0x41, 0x0f}
	n := 1_000_000
	if testing.Short() {
		n /= 10
	}
	for range n {
		for i := range code {
			code[i] = byte(rng.Uint32())
		}
		for i := range rng.IntN(5) {
			code[i] = prefixes[rng.IntN(len(prefixes))]
		}
		sameDecode(t, d, code[:1+rng.IntN(16)], rng.Uint64())
	}
}

// TestDecodeCorpus compares Decode with objdump and with x86asm over all text of a kernel.
func TestDecodeCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	path, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed")
	}
	s, err := kcore.Open(filepath.Join(corpus.Large(t, "x86_64/small"), "rec.data", "kcore_dir"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	lo, hi, ok := s.Kallsyms.Text()
	if !ok {
		t.Fatal("kallsyms does not say where text is")
	}
	text := s.Core.Bytes(lo, int(hi-lo))
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-D", "-w", "-z", "-b", "binary", "-m", "i386:x86-64", fmt.Sprintf("--adjust-vma=%#x", lo), file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := newX86(t)
	target := regexp.MustCompile(` 0x([0-9a-f]+)$`)
	n, bad, wrong := 0, 0, 0
	for sc := bufio.NewScanner(out); sc.Scan(); {
		f := strings.SplitN(strings.TrimSpace(sc.Text()), "\t", 3)
		at, ok := strings.CutSuffix(f[0], ":")
		if !ok || len(f) != 3 {
			continue
		}
		addr, err := strconv.ParseUint(at, 16, 64)
		if err != nil {
			continue
		}
		code, err := hex.DecodeString(strings.ReplaceAll(f[1], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(f[2], "(bad)") {
			bad++
			continue
		}
		n++
		got := d.Decode(text[addr-lo:], addr)
		asm, err := x86asm.Decode(text[addr-lo:], 64)
		m := target.FindStringSubmatch(strings.TrimSpace(f[2]))
		want := uint64(0)
		if got.HasTarget && m != nil {
			want, _ = strconv.ParseUint(m[1], 16, 64)
		}
		if len(got.Bytes) != len(code) || got.Class != x86ClassOf(f[2]) || got.Target != want ||
			// x86asm gets the length of VEX encodings wrong
			err == nil && asm.Op != 0 && asm.Len != len(code) && code[0]&^1 != 0xc4 {
			if wrong++; wrong < 20 {
				t.Errorf("%x %x %q: %+v (%v), x86asm %v of %d bytes", addr, code, f[2], got, got.Class, asm, asm.Len)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d instructions, %d that objdump does not know, %d differ", n, bad, wrong)
	if n < 3_000_000 {
		t.Errorf("only %d instructions", n)
	}
}

// TestLens: Lens returns the lengths that Len does, for random bytes with runs of NOPs and INT3.
func TestLens(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 2))
	for _, machine := range []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64} {
		d, err := New(machine, binary.LittleEndian)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			code := make([]byte, rnd.IntN(300))
			for i := range code {
				code[i] = byte(rnd.Uint32())
			}
			for _, b := range []byte{0x90, 0xcc} {
				if len(code) > 0 {
					run := code[rnd.IntN(len(code)):]
					for i := range run[:min(len(run), rnd.IntN(40))] {
						run[i] = b
					}
				}
			}
			lens := make([]uint8, 1+rnd.IntN(40))
			for at := 0; at < len(code); {
				n, size := d.Lens(lens, code[at:], 0x1000+uint64(at))
				if n == 0 || n < len(lens) && at+size != len(code) {
					t.Fatalf("% x at %d: %d instructions of %d bytes", code, at, n, size)
				}
				end := at + size
				for _, l := range lens[:n] {
					if want := d.Len(code[at:], 0x1000+uint64(at)); int(l) != want {
						t.Fatalf("% x at %d: %d bytes, Len has %d", code, at, l, want)
					}
					at += int(l)
				}
				if at != end {
					t.Fatalf("% x: Lens ends at %d, its lengths at %d", code, end, at)
				}
			}
		}
	}
}

// TestSpotsOfTwo: SpotsOfTwo passes the instructions whose lengths Len returns, up to where one may pass the
// end, and finds those that have an operand in the range.
func TestSpotsOfTwo(t *testing.T) {
	const low, size = 0x81000000, 1 << 24
	rnd := rand.New(rand.NewPCG(20, 3))
	d, err := New(elf.EM_X86_64, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for range 5000 {
		code := make([]byte, 16+rnd.IntN(400))
		for i := range code {
			if code[i] = byte(rnd.Uint32()); rnd.IntN(8) == 0 {
				code[i] = 0x81
			}
		}
		var spots [2][]Spot
		var from, ends [2]int
		for k := range spots {
			spots[k] = make([]Spot, rnd.IntN(100))
			from[k] = 8 + rnd.IntN(len(code)-8)
			ends[k] = from[k] + rnd.IntN(len(code)+20-from[k])
		}
		n, to := d.SpotsOfTwo(spots, code, 0x1000, from, ends, low, size)
		steps := [2]int{}
		for k, at := range from {
			var want []Spot
			for ; at < to[k]; steps[k]++ {
				l := d.Len(code[at:], 0x1000+uint64(at))
				at += l
				for _, behind := range []int{0, 1, 2, 4} {
					if v := binary.LittleEndian.Uint32(code[at-behind-4:]); low <= v && v < low+size {
						want = append(want, Spot{at, l})
						break
					}
				}
			}
			if at != to[k] || !slices.Equal(spots[k][:n[k]], want) {
				t.Fatalf("% x from %d to %d: %v, want %v to %d", code, from[k], to[k], spots[k][:n[k]], want, at)
			}
			if to[k] > max(ends[k], from[k]) {
				t.Fatalf("it passed the end %d: %d", ends[k], to[k])
			}
			found += len(want)
		}
		ended := steps[0] == min(len(spots[0]), len(spots[1]))
		for k := range to {
			ended = ended || min(ends[k], len(code))-to[k] < MaxInst
		}
		if steps[0] != steps[1] || !ended {
			t.Fatalf("it ended after %d instructions, at %d of %d", steps, to, ends)
		}
	}
	if found < 1000 {
		t.Errorf("only %d spots", found)
	}
}

// TestLen: Len is the length that Decode returns, for random bytes, and for bytes that begin
// with each opcode and ModRM byte.
func TestLen(t *testing.T) {
	d, err := New(elf.EM_X86_64, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(20, 1))
	code := make([]byte, 2*MaxInst)
	check := func(code []byte) {
		t.Helper()
		if got, want := d.Len(code, 0x1000), len(d.Decode(code, 0x1000).Bytes); got != want {
			t.Fatalf("% x: %d bytes, Decode has %d", code, got, want)
		}
	}
	for range 200_000 {
		for i := range code {
			code[i] = byte(rnd.Uint32())
		}
		check(code)
		check(code[:rnd.IntN(MaxInst+1)])
	}
	for op := range 256 {
		for modrm := range 256 {
			for _, prefix := range [][]byte{{}, {0x40}, {0x48}, {0x66}, {0xf3, 0x41}, {0x0f}, {0x65, 0x48}} {
				for _, sib := range []byte{0x00, 0x05, 0x24, 0x25} {
					check(append(append(prefix, byte(op), byte(modrm), sib), code...))
				}
			}
		}
	}
}

// TestDecodeAllocs: Decode does not allocate, for any instruction of a piece of kernel text.
func TestDecodeAllocs(t *testing.T) {
	d := newX86(t)
	code := readFile(t, "x86_64.text")
	if n := testing.AllocsPerRun(10, func() {
		for at := 0; at < len(code); {
			at += len(d.Decode(code[at:], kernelText).Bytes)
		}
	}); n != 0 {
		t.Errorf("Decode allocates %v times", n)
	}
}

func FuzzDecode(f *testing.F) {
	for i, l := range readLines(f, "x86_64.assembled.tsv") {
		if i%8 == 0 {
			f.Add(l.code, l.addr)
		}
	}
	x, a, p := newX86(f), wordARM64.new(f), wordPPC64LE.new(f)
	f.Fuzz(func(t *testing.T, code []byte, addr uint64) {
		sameDecode(t, x, code, addr)
		for _, d := range []*Disassembler{a, p} {
			got, next := d.Decode(code, addr), d.Next(code, addr, nil)
			if !bytes.HasPrefix(code, got.Bytes) || len(code) > 0 && len(got.Bytes) == 0 {
				t.Fatalf("% x: %+v", code, got)
			}
			if !next.Data && (got.Target != next.Target || got.HasTarget != next.HasTarget || got.Class != next.Class) {
				t.Fatalf("% x at %#x: Decode returns %+v, Next %+v", code, addr, got, next)
			}
		}
	})
}

func BenchmarkX86asm(b *testing.B) {
	code := readFile(b, "x86_64.text")
	b.ReportAllocs()
	at := 0
	for b.Loop() {
		inst, err := x86asm.Decode(code[at:], 64)
		if at += inst.Len; err != nil || at+16 > len(code) {
			at = 0
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	d := newX86(b)
	code := readFile(b, "x86_64.text")
	b.ReportAllocs()
	at := 0
	for b.Loop() {
		if at += len(d.Decode(code[at:], kernelText).Bytes); at+16 > len(code) {
			at = 0
		}
	}
}
