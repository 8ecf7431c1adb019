// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
)

// wordArch is an architecture whose instructions are words, as tests need it.
type wordArch struct {
	machine elf.Machine
	order   binary.ByteOrder
	objdump []string // the program and its option for the architecture
	// unlike are mnemonics by which objdump calls what is no instruction of a
	// processor that runs Linux, or no valid form of one.
	unlike []string
}

var (
	wordARM64 = wordArch{
		machine: elf.EM_AARCH64, order: binary.LittleEndian,
		objdump: []string{"aarch64-linux-gnu-objdump", "-m", "aarch64"},
	}
	wordPPC64LE = wordArch{
		machine: elf.EM_PPC64, order: binary.LittleEndian,
		objdump: []string{"powerpc64le-linux-gnu-objdump", "-m", "powerpc:common64", "-EL"},
		unlike:  []string{"dctfixq", "dozi", "dtstdgq"},
	}
	wordPPC64 = wordArch{
		machine: elf.EM_PPC64, order: binary.BigEndian,
		objdump: []string{"powerpc64-linux-gnu-objdump", "-m", "powerpc:common64", "-EB"},
		unlike:  wordPPC64LE.unlike,
	}
)

func (a wordArch) new(t testing.TB) *Disassembler {
	t.Helper()
	d, err := New(a.machine, a.order)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	// objdump writes 0x before addresses where it has no symbols.
	plainAddr = regexp.MustCompile(`(^|[ ,])0x([0-9a-f]+)`)
	condNames = regexp.MustCompile(` // [a-z].*$`)
)

// text returns the text that is wanted for what objdump shows.
func (a wordArch) text(objdump string) string {
	s := strings.Join(strings.Fields(objdump), " ")
	if strings.HasPrefix(s, ".") {
		s, _, _ = strings.Cut(s, " ;") // undefined
		return s
	}
	if a.machine == elf.EM_AARCH64 {
		s = condNames.ReplaceAllString(s, "")
	}
	return plainAddr.ReplaceAllString(s, "$1$2")
}

func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

// run decodes code with objdump. It skips the test where there is none.
func (a wordArch) run(t *testing.T, code []byte, addr uint64) []objdumpLine {
	t.Helper()
	path, err := exec.LookPath(a.objdump[0])
	if err != nil {
		t.Skipf("%s is not installed", a.objdump[0])
	}
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-D", "-w", "-z", "-b", "binary", fmt.Sprintf("--adjust-vma=%#x", addr)}, a.objdump[1:]...)
	out, err := exec.Command(path, append(args, file)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]objdumpLine, 0, len(code)/4)
	for l := range strings.Lines(string(out)) {
		f := strings.SplitN(strings.TrimSpace(l), "\t", 3)
		at, ok := strings.CutSuffix(f[0], ":")
		if !ok || len(f) != 3 {
			continue
		}
		var line objdumpLine
		if line.addr, err = strconv.ParseUint(at, 16, 64); err != nil {
			t.Fatal(err)
		}
		if line.code, err = hex.DecodeString(strings.ReplaceAll(f[1], " ", "")); err != nil {
			t.Fatal(err)
		}
		if a.machine == elf.EM_AARCH64 { // it is shown as a number
			slices.Reverse(line.code)
		}
		line.text = f[2]
		lines = append(lines, line)
	}
	if n := len(code) / 8; len(lines) < n {
		t.Fatalf("objdump shows %d instructions of %d bytes", len(lines), len(code))
	}
	return lines
}

// compare decodes code and compares it with what objdump shows: the same
// boundaries, data where it has data, the same texts.
func (a wordArch) compare(t *testing.T, code []byte, addr uint64) {
	t.Helper()
	lines := a.run(t, code, addr)
	i, differ, differences := 0, 0, map[string]int{}
	for inst := range a.new(t).All(code, addr, nil) {
		if i >= len(lines) || inst.Addr != lines[i].addr || !bytes.Equal(inst.Bytes, lines[i].code) {
			t.Fatalf("instruction %d is %x: % x (%s), want %+v", i, inst.Addr, inst.Bytes, inst.Text, lines[min(i, len(lines)-1)])
		}
		want := a.text(lines[i].text)
		if got := oneSpace(inst.Text); got != want || inst.Data != strings.HasPrefix(want, ".") {
			mnemonic, _, _ := strings.Cut(want, " ")
			differ++
			differences[mnemonic]++
			if !slices.Contains(a.unlike, mnemonic) {
				t.Errorf("%x: % x is %q, want %q", inst.Addr, inst.Bytes, got, want)
			}
		}
		i++
	}
	if i != len(lines) {
		t.Errorf("%d instructions, want %d", i, len(lines))
	}
	t.Logf("%d instructions, the same boundaries; %d texts differ", i, differ)
	for _, mnemonic := range slices.Sorted(maps.Keys(differences)) {
		t.Logf("%6d %s", differences[mnemonic], mnemonic)
	}
}

// golden compares with what objdump showed.
func (a wordArch) golden(t *testing.T, file string) {
	d := a.new(t)
	for _, l := range readLines(t, file) {
		code := l.code
		if a.order == binary.BigEndian {
			code = swapWords(code)
		}
		// What follows must not matter.
		inst := d.Next(append(bytes.Clone(code), 0xff, 0xff, 0xff, 0xff), l.addr, nil)
		if want := a.text(l.text); !bytes.Equal(inst.Bytes, code) || inst.Data || oneSpace(inst.Text) != want {
			t.Errorf("%s: % x is %q (% x), want %q", file, code, inst.Text, inst.Bytes, want)
		}
		// The instruction without its end is data.
		for n := 1; n < len(code); n++ {
			if inst := d.Next(code[:n], l.addr, nil); !inst.Data || len(inst.Bytes) != 1+n/4*3 {
				t.Errorf("%s: %d bytes of % x (%s) are %q", file, n, code, l.text, inst.Text)
			}
		}
	}
}

// swapWords returns code in the other byte order.
func swapWords(code []byte) []byte {
	swapped := make([]byte, 0, len(code))
	for w := range slices.Chunk(code, 4) {
		w = bytes.Clone(w)
		slices.Reverse(w)
		swapped = append(swapped, w...)
	}
	return swapped
}

// words decodes one word after the other.
func (a wordArch) words(words ...uint32) []byte {
	var code []byte
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	if a.order == binary.BigEndian {
		return swapWords(code)
	}
	return code
}

// encodings returns, for each row of a table, words with other operands.
func encodings(rows []encoding) []uint32 {
	var words []uint32
	for i, e := range rows {
		for _, operands := range []uint32{0, ^uint32(0), 0x12345678 * uint32(2*i+1), 0x2e1a5d43} {
			words = append(words, e.value|operands&^e.mask)
		}
	}
	return words
}

// textOf returns the kernel text of a recording: all of it where $TEXTREPLAY_ALL
// is set, and else one of 16 pieces.
func textOf(t *testing.T, recording string) (pieces [][]byte, addrs []uint64) {
	snap, err := kcore.Open(filepath.Join(corpus.Large(t, recording), "rec.data", "kcore_dir"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { snap.Close() })
	start, end, ok := snap.Kallsyms.Text()
	if !ok {
		t.Fatal("no kernel text")
	}
	const piece = 1 << 18
	step := uint64(16 * piece)
	if os.Getenv("TEXTREPLAY_ALL") != "" {
		step = piece
	}
	for ; start < end; start += step {
		n := int(min(piece, end-start))
		code := snap.Core.Bytes(start, n)
		if code == nil {
			t.Fatalf("no text at %#x", start)
		}
		pieces, addrs = append(pieces, code), append(addrs, start)
	}
	return pieces, addrs
}

func (a wordArch) compareAll(t *testing.T, pieces [][]byte, addrs []uint64) {
	for i := range pieces {
		t.Run(fmt.Sprintf("%x", addrs[i]), func(t *testing.T) { a.compare(t, pieces[i], addrs[i]) })
	}
}

func TestConcurrent(t *testing.T) {
	for _, tt := range []struct {
		arch wordArch
		file string
	}{{wordARM64, "arm64.text"}, {wordPPC64LE, "ppc64le.text"}} {
		code := readFile(t, tt.file)[:4096]
		var wg sync.WaitGroup
		texts := make([]string, 4)
		for i := range texts {
			wg.Go(func() {
				for inst := range tt.arch.new(t).All(code, 0, nil) {
					texts[i] += inst.Text + "\n"
				}
			})
		}
		wg.Wait()
		if len(texts[0]) < 4096 || slices.ContainsFunc(texts, func(s string) bool { return s != texts[0] }) {
			t.Errorf("%s: goroutines do not agree", tt.file)
		}
	}
}

// fuzz checks what holds for any code.
func (a wordArch) fuzz(t *testing.T, d *Disassembler, code []byte, addr uint64) {
	inst := d.Next(code, addr, symbols)
	if inst.Addr != addr || !bytes.HasPrefix(code, inst.Bytes) {
		t.Fatalf("% x: %+v", code, inst)
	}
	if len(code) == 0 {
		return
	}
	switch n := len(inst.Bytes); {
	case n == 1:
		if !inst.Data || len(code) >= 4 && addr&3 == 0 {
			t.Fatalf("% x: one byte: %+v", code, inst)
		}
	case n == 8:
		if inst.Data || a.machine == elf.EM_AARCH64 {
			t.Fatalf("% x: eight bytes: %+v", code, inst)
		}
	case n != 4:
		t.Fatalf("% x: %d bytes: %+v", code, n, inst)
	}
	if inst.Text == "" || strings.ContainsAny(inst.Text, "\n\t%?") || strings.Contains(inst.Text, "unimplemented") {
		t.Fatalf("% x: text %q", code, inst.Text)
	}
	if inst.Data {
		return
	}
	// The instruction is the same whatever follows it.
	if again := d.Next(inst.Bytes, addr, symbols); again.Text != inst.Text || len(again.Bytes) != len(inst.Bytes) {
		t.Fatalf("% x: %q alone, %q before other bytes", inst.Bytes, again.Text, inst.Text)
	}
}

func (a wordArch) benchmark(b *testing.B, file string) {
	d := a.new(b)
	code := readFile(b, file)
	b.SetBytes(int64(len(code)))
	b.ReportAllocs()
	for b.Loop() {
		for range d.All(code, kernelText, nil) {
		}
	}
}
