// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

func parseKallsyms(t testing.TB, text string) *Kallsyms {
	t.Helper()
	k, err := ParseKallsyms([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func openKallsyms(t testing.TB, file string) *Kallsyms {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	k := parseKallsyms(t, string(text))
	if w := k.Warnings(); len(w) > 0 {
		t.Fatal(w)
	}
	if want := strings.Count(string(text), "\n"); k.Len() != want {
		t.Fatalf("%s: %d symbols of %d lines", file, k.Len(), want)
	}
	return k
}

func symbols(k *Kallsyms) []Symbol {
	var out []Symbol
	for _, s := range k.All() {
		out = append(out, s)
	}
	return out
}

func TestParseKallsyms(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Symbol
		warning    string
	}{
		{name: "empty"},
		{
			name: "kernel and modules",
			text: "ffffffff81000000 T startup_64\n" +
				"ffffffff81000070 t verify_cpu\n" +
				"ffffffffc02ba000 t virtblk_done\t[virtio_blk]\n" +
				"ffffffffc0142660 t bpf_prog_8d77e2edc114983f\t[bpf]\n" +
				"ffffffffc02ba100 t virtblk_freeze\t[virtio_blk]\n",
			want: []Symbol{
				{0xffffffff81000000, 'T', "startup_64", ""},
				{0xffffffff81000070, 't', "verify_cpu", ""},
				{0xffffffffc0142660, 't', "bpf_prog_8d77e2edc114983f", "bpf"},
				{0xffffffffc02ba000, 't', "virtblk_done", "virtio_blk"},
				{0xffffffffc02ba100, 't', "virtblk_freeze", "virtio_blk"},
			},
		},
		{
			name: "order of equal addresses",
			text: "00000030 T c\n00000010 T b\n00000020 T x\n00000010 T a\n00000030 T d\n00000020 t y\t[m]\n00000010 T c\n",
			want: []Symbol{
				{0x10, 'T', "b", ""}, {0x10, 'T', "a", ""}, {0x10, 'T', "c", ""},
				{0x20, 'T', "x", ""}, {0x20, 't', "y", "m"},
				{0x30, 'T', "c", ""}, {0x30, 'T', "d", ""},
			},
		},
		{
			name: "32 bits, other letters, upper case",
			text: "c0008000 T _text\nC000800C ? __nosave_begin\n",
			want: []Symbol{{0xc0008000, 'T', "_text", ""}, {0xc000800c, '?', "__nosave_begin", ""}},
		},
		{
			name: "odd names",
			text: "ff000000 t foo.isra.0\nff000010 t [x]\nff000020 t a b\nff000030 t $x.1\t[m]\n",
			want: []Symbol{
				{0xff000000, 't', "foo.isra.0", ""}, {0xff000010, 't', "[x]", ""},
				{0xff000020, 't', "a b", ""}, {0xff000030, 't', "$x.1", "m"},
			},
		},
		{
			name: "bad lines",
			text: "ff000000 t good\n" +
				"\n" +
				"xyz\n" +
				"ff000010 t \n" +
				"ff000010 tt x\n" +
				"10000000000000000 t seventeen\n" +
				"ff000020 t \t[m]\n" +
				" ff000020 t space\n" +
				"ff000030 t fine\n",
			want:    []Symbol{{0xff000000, 't', "good", ""}, {0xff000030, 't', "fine", ""}},
			warning: "kallsyms:2: want an address, a letter and a name; 6 more lines skipped (offset 0x10)",
		},
		{
			name:    "cut short",
			text:    "ff000000 t good\nff000010 t vfs_rea",
			want:    []Symbol{{0xff000000, 't', "good", ""}},
			warning: "kallsyms:2: last line has no end (offset 0x10)",
		},
		{
			name:    "endless name",
			text:    "ff000000 t good\nff000010 t " + strings.Repeat("x", 1<<16) + "\n",
			want:    []Symbol{{0xff000000, 't', "good", ""}},
			warning: "kallsyms:2: symbol without a name, or with one that no line can hold (offset 0x10)",
		},
		{
			name: "damaged names",
			text: "ff000000 t good\nff000010 t a\x00b\nff000020 t a\tb\nff000030 t a\t[\x00]\nff000040 t a\t[m]n]\n" +
				"ff000050 t a\t[]\nff000060 t __pfx_a.b$c:d\t[m-n]\n",
			want:    []Symbol{{0xff000000, 't', "good", ""}, {0xff000060, 't', "__pfx_a.b$c:d", "m-n"}},
			warning: "kallsyms:2: symbol without a name, or with one that no line can hold; 4 more lines skipped (offset 0x10)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := parseKallsyms(t, tt.text)
			if diff := gocmp.Diff(tt.want, symbols(k)); diff != "" {
				t.Errorf("symbols (-want +got):\n%s", diff)
			}
			warning := strings.Join(warningTexts(k.Warnings()), "\n")
			if warning != tt.warning {
				t.Errorf("warning %q, want %q", warning, tt.warning)
			}
		})
	}
}

func TestParseKallsymsError(t *testing.T) {
	_, err := ParseKallsyms([]byte("\x7fELF\x02\x01\x01\nmore\n"))
	var fe *FormatError
	if !errors.As(err, &fe) {
		t.Fatalf("error %v, want a FormatError", err)
	}
	want := &FormatError{File: "kallsyms", Line: 1, Msg: "want an address, a letter and a name; 1 more lines skipped"}
	if diff := gocmp.Diff(want, fe); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Sorting is by merging what is out of order into the rest; compare it with a
// stable sort of the whole.
func TestKallsymsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var want []Symbol
		var text strings.Builder
		for i := range rnd.IntN(40) {
			s := Symbol{Addr: uint64(rnd.IntN(20)), Type: 't', Name: fmt.Sprint("s", i)}
			want = append(want, s)
			fmt.Fprintf(&text, "%016x t %s\n", s.Addr, s.Name)
		}
		slices.SortStableFunc(want, func(a, b Symbol) int { return cmp.Compare(a.Addr, b.Addr) })
		got := symbols(parseKallsyms(t, text.String()))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestKallsymsLookup(t *testing.T) {
	k := parseKallsyms(t, "ff000040 t helper\nff000010 T main\nff000020 t helper\nff001000 t helper\t[m]\nff002000 t helper\t[n]\nff001010 t init_module\t[m]\n")
	tests := []struct {
		in   bool
		mod  string
		name string
		want []Symbol
	}{
		{name: "main", want: []Symbol{{0xff000010, 'T', "main", ""}}},
		{name: "helper", want: []Symbol{
			{0xff000020, 't', "helper", ""}, {0xff000040, 't', "helper", ""},
			{0xff001000, 't', "helper", "m"}, {0xff002000, 't', "helper", "n"},
		}},
		{name: "help"},
		{name: ""},
		{in: true, mod: "", name: "helper", want: []Symbol{{0xff000020, 't', "helper", ""}, {0xff000040, 't', "helper", ""}}},
		{in: true, mod: "m", name: "helper", want: []Symbol{{0xff001000, 't', "helper", "m"}}},
		{in: true, mod: "n", name: "main"},
		{in: true, mod: "absent", name: "helper"},
	}
	var wg sync.WaitGroup
	for range 4 { // the index is built by whichever comes first
		wg.Go(func() {
			for _, tt := range tests {
				got := k.Lookup(tt.name)
				if tt.in {
					got = k.LookupIn(tt.mod, tt.name)
				}
				if diff := gocmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%+v (-want +got):\n%s", tt, diff)
				}
			}
		})
	}
	wg.Wait()
}

func TestKallsymsFind(t *testing.T) {
	type answer struct {
		name string // module:name
		size uint64
	}
	x86, arm := openKallsyms(t, "x86_64.kallsyms"), openKallsyms(t, "arm64.kallsyms")
	tests := []struct {
		k    *Kallsyms
		addr uint64
		want answer // empty: not found
	}{
		{x86, 0, answer{}},
		{x86, 0x1000, answer{}}, // cpu_debug_store, an offset
		{x86, 0xffffffffa2ffffff, answer{}},
		{x86, 0xffffffffa3000000, answer{":startup_64", 0x70}}, // before _stext and _text
		{x86, 0xffffffffa300006f, answer{":startup_64", 0x70}},
		{x86, 0xffffffffa3000070, answer{":secondary_startup_64", 5}},
		{x86, 0xffffffffa300025f, answer{":verify_cpu", 0x100}},
		{x86, 0xffffffffa33669e4, answer{":vfs_read", 0x310}},
		{x86, 0xffffffffa3e01d31, answer{":__x86_return_thunk", 2}},
		{x86, 0xffffffffa4000000, answer{}}, // data
		{x86, 0xffffffffa7000000, answer{}},
		{x86, 0xffffffffc0374000, answer{"virtio_blk:virtblk_done", 0x180}},
		{x86, 0xffffffffa3e01d32, answer{":_etext", 0}},
		{x86, 0xffffffffa3e01d33, answer{}},                                    // behind the text
		{x86, 0xffffffffc03763ce, answer{"virtio_blk:virtio_blk_fini", 0xc32}}, // up to the page before data
		{x86, 0xffffffffc0376fff, answer{"virtio_blk:virtio_blk_fini", 0xc32}},
		{x86, 0xffffffffc0377000, answer{}},
		{x86, 0xffffffffc0142660, answer{"bpf:bpf_prog_8d77e2edc114983f_fentry_2", 0}},
		{x86, 0xffffffffc0142fff, answer{"bpf:bpf_prog_8d77e2edc114983f_fentry_2", 0}},
		{x86, 0xffffffffc0143000, answer{}},
		{x86, 0xffffffffc0365fff, answer{"__builtin__ftrace:ftrace_trampoline", 0}},
		{x86, 0xffffffffc0366000, answer{}},
		{arm, 0xffffab833b410000, answer{":_stext", 8}},
		{arm, 0xffffab833c33b000, answer{":__hyp_text_end", 0}},
		{arm, 0xffffab833c33b001, answer{}},
		{arm, 0xffffab833c340000, answer{}},                         // _etext is type D
		{arm, 0xffffab82f1915000, answer{}},                         // there is only $x
		{arm, 0xffffab82f19150d9, answer{"loop:lo_open", 0x2b0}},    // next is above, not in file order
		{arm, 0xffffab82f1919288, answer{"loop:loop_exit", 0x1d78}}, // not $x; up to the page before data
	}
	for _, tt := range tests {
		s, size, ok := tt.k.Find(tt.addr)
		got := answer{size: size}
		if ok {
			got.name = s.Module + ":" + s.Name
		}
		if got != tt.want {
			t.Errorf("Find(%#x) = %+v, want %+v", tt.addr, got, tt.want)
		}
	}
}

// TestKallsymsFindOnce: the first lookups, which make no index, find what all
// others do.
func TestKallsymsFindOnce(t *testing.T) {
	same := func(k *Kallsyms) {
		t.Helper()
		type answer struct {
			sym  Symbol
			size uint64
			ok   bool
		}
		k.byAddr.asked.n.Store(fewFinds)
		near := []uint64{0, 1, 1 << 63, 1<<64 - 1}
		for _, s := range k.All() {
			page := s.Addr &^ (pageSize - 1)
			near = append(near, s.Addr-1, s.Addr, s.Addr+1, page-1, page, page+pageSize-1, page+pageSize)
		}
		for _, addr := range near {
			var want, got answer
			want.sym, want.size, want.ok = k.Find(addr)
			got.sym, got.size, got.ok = k.findOnce(addr)
			if got != want {
				t.Fatalf("%#x: the first time %+v, later %+v", addr, got, want)
			}
		}
	}
	same(openKallsyms(t, "x86_64.kallsyms"))
	same(openKallsyms(t, "arm64.kallsyms"))
	rng := rand.New(rand.NewPCG(3, 4))
	names := []string{"f", "g", "_stext", "_etext", "__hyp_text_end", "$x", "__ia32_sys_f", "_text"}
	modules := []string{"", "", "", "\t[m]", "\t[n]", "\t[bpf]", "\t[__builtin__ftrace]"}
	for range 2000 {
		var text strings.Builder
		for range rng.IntN(12) {
			fmt.Fprintf(&text, "%x %c %s%s\n", 0xff0000+0x400*rng.Uint64N(24), "tTwWidDA"[rng.IntN(8)], names[rng.IntN(len(names))], modules[rng.IntN(len(modules))])
		}
		same(parseKallsyms(t, text.String()))
	}
}

func TestKallsymsNamesOf(t *testing.T) {
	k := parseKallsyms(t, "ff000000 T one\nff000000 d two\nff000000 W three\nff000008 A four\nff000010 t $x\nff000010 t five\t[m]\n")
	for addr, want := range map[uint64][]string{
		0: nil, 0xfeffffff: nil, 0xff000000: {"one", "two", "three"}, 0xff000001: nil, 0xff000008: nil, 0xff000010: {"five"}, 0xff000011: nil,
	} {
		var got []string
		for _, s := range k.NamesOf(addr) {
			got = append(got, s.Name)
		}
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("%#x (-want +got):\n%s", addr, d)
		}
	}
}

func TestKallsymsFindAliases(t *testing.T) {
	k := parseKallsyms(t, ""+
		"ff000000 t one\nff000000 T two\nff000000 T three\nff000000 W four\n"+
		"ff000010 W five\nff000010 t six\n"+
		"ff000018 t __do_sys_x\nff000018 T __ia32_sys_x\nff000018 T __x64_sys_x\n"+
		"ff000020 d seven\nff000020 t eight\n"+
		"ff000030 A nine\n"+
		"ff000038 T __sched_text_start\nff000038 t fn\n"+
		"ff00003c T __sched_text_end\nff00003c T __kprobes_text_start\n"+
		"ff000040 t ten\t[m]\n"+
		"ff000050 t eleven\t[n]\n"+
		"ffffffffffffff00 T top\n")
	tests := []struct {
		addr uint64
		name string
		size uint64
	}{
		{0xff000000, "two", 0x10},
		{0xff000010, "six", 8},
		{0xff000018, "__x64_sys_x", 8},
		{0xff000035, "eight", 0x18}, // an absolute value ends nothing
		{0xff000038, "fn", 4},
		{0xff00003c, "__sched_text_end", 0},
		{0xff00003d, "", 0},
		{0xff000040, "ten", 0},
		{0xff00004f, "ten", 0},
		{0xff000050, "eleven", 0},
		{0xff000fff, "eleven", 0},
		{0xff001000, "", 0},
		{0xffffffffffffff00, "top", 0},
		{0xfffffffffffffffe, "top", 0},
	}
	for _, tt := range tests {
		s, size, ok := k.Find(tt.addr)
		if s.Name != tt.name || size != tt.size || ok != (tt.name != "") {
			t.Errorf("Find(%#x) = %q, %#x, %v; want %q, %#x", tt.addr, s.Name, size, ok, tt.name, tt.size)
		}
	}
}

func TestKallsymsRestricted(t *testing.T) {
	k := parseKallsyms(t, "0000000000000000 A fixed_percpu_data\n0000000000000000 T _stext\n0000000000000000 T _etext\n0000000000000000 t f\t[m]\n")
	if !k.Restricted() {
		t.Error("not restricted")
	}
	if _, _, ok := k.Find(0); ok {
		t.Error("Find(0) found something")
	}
	if s := k.Lookup("_stext"); s != nil {
		t.Errorf("Lookup found %v", s)
	}
	if _, _, ok := k.Text(); ok {
		t.Error("Text found something")
	}
	if addr, ok := k.LastFunction("m", 0, 1<<63); ok {
		t.Errorf("LastFunction found %#x", addr)
	}
	for _, text := range []string{"", "0000000000000000 A a\nffffffff81000000 T _text\n"} {
		if parseKallsyms(t, text).Restricted() {
			t.Errorf("%q is restricted", text)
		}
	}
}

func TestKallsymsText(t *testing.T) {
	tests := []struct {
		text       string
		start, end uint64
	}{
		{"ff000000 T _text\nff001000 T _stext\nff002000 T _etext\n", 0xff001000, 0xff002000},
		{"ff000000 T _text\nff002000 D _etext\n", 0xff000000, 0xff002000},
		{"ff000000 T _stext\nff002000 t _etext\t[m]\n", 0, 0},
		{"ff003000 T _stext\nff002000 T _etext\n", 0, 0},
		{"ff002000 T _etext\n", 0, 0},
		{"", 0, 0},
	}
	for _, tt := range tests {
		start, end, ok := parseKallsyms(t, tt.text).Text()
		if start != tt.start || end != tt.end || ok != (tt.end != 0) {
			t.Errorf("%q: got %#x, %#x, %v; want %#x, %#x", tt.text, start, end, ok, tt.start, tt.end)
		}
	}
	for file, want := range map[string][2]uint64{
		"x86_64.kallsyms": {0xffffffffa3000000, 0xffffffffa3e01d32},
		"arm64.kallsyms":  {0xffffab833b410000, 0xffffab833c340000},
	} {
		start, end, ok := openKallsyms(t, file).Text()
		if got := [2]uint64{start, end}; got != want || !ok {
			t.Errorf("%s: got %#x, want %#x", file, got, want)
		}
	}
}

// TestKallsymsTextOnce: programs that ask for each change of a recording need not wait.
func TestKallsymsTextOnce(t *testing.T) {
	const names, times = 20_000, 10_000
	var b strings.Builder
	b.WriteString("ff000000 T _stext\n")
	for i := range names {
		fmt.Fprintf(&b, "%x t f%d\n", 0xff000001+i, i)
	}
	b.WriteString("ff800000 T _etext\n")
	k := parseKallsyms(t, b.String())
	k.Len()
	began := time.Now()
	k.Text()
	first := time.Since(began)
	began = time.Now()
	for range times {
		k.Text()
	}
	if all := time.Since(began); all > times/20*first {
		t.Errorf("Text took %v, and %v when it was called %d times more", first, all, times)
	}
}

func TestKallsymsLastFunction(t *testing.T) {
	for _, tt := range []struct {
		file, module string
		lo, hi       uint64
		want         uint64 // 0: none
	}{
		{"x86_64.kallsyms", "virtio_blk", 0xffffffffc0374000, 0xffffffffc037b000, 0xffffffffc03763ce},
		{"x86_64.kallsyms", "virtio_blk", 0xffffffffc0374000, 0xffffffffc03763ce, 0xffffffffc037603f},
		{"x86_64.kallsyms", "virtio_blk", 0xffffffffc0374000, 0xffffffffc0374000, 0},
		{"x86_64.kallsyms", "virtio_blk", 0xffffffffc0377000, 0xffffffffc037b000, 0}, // data
		{"x86_64.kallsyms", "loop", 0xffffffffc0374000, 0xffffffffc037b000, 0},
		{"arm64.kallsyms", "loop", 0xffffab82f1915000, 0xffffab82f1926000, 0xffffab82f1919288}, // not $x, nor $d
	} {
		got, ok := openKallsyms(t, tt.file).LastFunction(tt.module, tt.lo, tt.hi)
		if got != tt.want || ok != (tt.want != 0) {
			t.Errorf("%s, %s in [%#x, %#x): %#x, %v, want %#x", tt.file, tt.module, tt.lo, tt.hi, got, ok, tt.want)
		}
	}
}

// TestKallsymsLastFunctionNaive compares with going through all symbols of random tables.
func TestKallsymsLastFunctionNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	kinds := make(map[string]int)
	for range 3000 {
		type line struct {
			Symbol
			freed bool // unless data follow
		}
		var lines []line
		var text strings.Builder
		for m := range 3 {
			for range rnd.IntN(6) {
				s := Symbol{Addr: uint64(rnd.IntN(12)), Type: "tTdrbWA"[rnd.IntN(7)], Name: []string{"f", "$x", "g"}[rnd.IntN(3)], Module: "mno"[m : m+1]}
				lines = append(lines, line{s, false})
				fmt.Fprintf(&text, "%016x %c %s\t[%s]\n", s.Addr, s.Type, s.Name, s.Module)
			}
		}
		sorted := slices.IsSortedFunc(lines, func(a, b line) int { return cmp.Compare(a.Addr, b.Addr) })
		for i := len(lines) - 1; i >= 0 && !sorted && lines[i].Type == 'T' && lines[i].Module == lines[len(lines)-1].Module; i-- {
			lines[i].freed = true
		}
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.Addr, b.Addr) })
		k := parseKallsyms(t, text.String())
		for _, module := range []string{"m", "n", "o", "p", ""} {
			for lo := range uint64(13) {
				for hi := range uint64(14) {
					want, wantOK, data := uint64(0), false, false
					for _, l := range slices.Backward(lines) {
						switch {
						case l.Module != module || l.Addr < lo || l.Addr >= hi:
						case strings.IndexByte("drb", l.Type) >= 0:
							data = true
						case (l.Type == 't' || l.Type == 'T' && (!l.freed || data)) && l.Addr != 0 && l.Name != "$x" && !wantOK:
							want, wantOK = l.Addr, true
							if l.freed {
								kinds["freed, but for data"]++
							}
						}
					}
					if got, ok := k.LastFunction(module, lo, hi); got != want || ok != wantOK {
						t.Fatalf("%s in [%d, %d): %d, %v, want %d, %v, of\n%s", module, lo, hi, got, ok, want, wantOK, &text)
					}
					kinds[fmt.Sprint(wantOK)]++
				}
			}
		}
	}
	if kinds["true"] == 0 || kinds["false"] == 0 || kinds["freed, but for data"] == 0 {
		t.Errorf("tried %v", kinds)
	}
}

// syntheticKallsyms makes a table of the size that a distribution's kernel has.
func syntheticKallsyms(n int) []byte {
	var b strings.Builder
	for i := range n {
		switch {
		case i < n*9/10:
			fmt.Fprintf(&b, "%016x %c kernel_function_%d\n", uint64(0xffffffff81000000)+uint64(128*i), "tTdrbW"[i%6], i)
		default: // modules come out of order
			fmt.Fprintf(&b, "%016x t module_function_%d\t[module_%d]\n", uint64(0xffffffffc0000000)+uint64(64*(i^0x2a)), i, i/500)
		}
	}
	return []byte(b.String())
}

func BenchmarkParseKallsyms(b *testing.B) {
	text := syntheticKallsyms(130_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		k, err := ParseKallsyms(text)
		if err != nil {
			b.Fatal(err)
		}
		k.Len() // makes the table
	}
}

func BenchmarkKallsymsFind(b *testing.B) {
	k, err := ParseKallsyms(syntheticKallsyms(130_000))
	if err != nil {
		b.Fatal(err)
	}
	for range fewFinds + 1 {
		k.Find(0)
	}
	b.ReportAllocs()
	for addr := uint64(0xffffffff81000000); b.Loop(); addr += 4099 {
		k.Find(addr & 0xffffffff81ffffff)
	}
}

// TestLookupInModules: only symbols of modules are found, by the first calls, which search the
// text, and by later ones.
func TestLookupInModules(t *testing.T) {
	k := parseKallsyms(t, "ffffffff81000000 T _text\nffffffff81000010 t init\nffffffff81000020 t xinit\n"+
		"ffffffffc0001000 t init\t[b]\nffffffffc0000000 t init\t[a]\nffffffffc0000040 t init_more\t[a]\n")
	for range fewSearches + 2 {
		var got []string
		for _, name := range []string{"init", "_text", "xinit", "more", "init_more", "none"} {
			for _, s := range k.LookupInModules(name) {
				got = append(got, s.Module+":"+s.Name)
			}
		}
		if want := []string{"a:init", "b:init", "a:init_more"}; !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// TestFreedInit: the names of freed init functions, which ftrace keeps, name no code.
func TestFreedInit(t *testing.T) {
	k := parseKallsyms(t, "ffffffff81000000 T _text\n"+
		"ffffffffc0002010 t invert\t[new]\nffffffffc0005000 d data\t[new]\n"+
		"ffffffffc0000010 t work\t[m]\nffffffffc0000040 T exported\t[m]\nffffffffc0000080 t m_exit\t[m]\n"+
		"ffffffffc0002010 T new_init\t[new]\nffffffffc0002010 T m_init\t[m]\nffffffffc0002040 T m_more\t[m]\n"+
		"ffffffffc0003000 t ftrace_trampoline\t[__builtin__ftrace]\nffffffffc0004000 t bpf_prog_1\t[bpf]\n")
	if sym, _, ok := k.Find(0xffffffffc0002048); !ok || sym.Name != "invert" || sym.Module != "new" {
		t.Errorf("found %+v, %v", sym, ok)
	}
	if last, ok := k.LastFunction("m", 0xffffffffc0000000, 0xffffffffc0003000); !ok || last != 0xffffffffc0000080 {
		t.Errorf("last function at %#x, %v", last, ok)
	}
	if n := k.Len(); n != 8 || len(k.Warnings()) != 0 {
		t.Errorf("%d symbols, %v", n, k.Warnings())
	}
	// Sorted symbols, as trim writes them, are in no order that shows it.
	k = parseKallsyms(t, "ffffffff81000000 T _text\nffffffffc0000000 d data\t[m]\nffffffffc0001000 d n_data\t[n]\n"+
		"ffffffffc0002010 T work\t[m]\nffffffffc0003010 t n_work\t[n]\nffffffffc0003040 T n_more\t[n]\n")
	if last, ok := k.LastFunction("n", 0xffffffffc0003000, 0xffffffffc0004000); !ok || last != 0xffffffffc0003040 || k.Len() != 6 {
		t.Errorf("sorted: %d symbols, last function at %#x, %v", k.Len(), last, ok)
	}
	// Those of the last module in the list can be its own, which its data show.
	for symbols, want := range map[string]uint64{
		"":                               0xffffffffc0000010,
		"ffffffffc0000800 d data\t[m]\n": 0xffffffffc0000010,
		"ffffffffc0002800 d data\t[m]\n": 0xffffffffc0002010,
	} {
		k := parseKallsyms(t, "ffffffff81000000 T _text\nffffffffc0005010 T other\t[n]\nffffffffc0000010 t work\t[m]\n"+symbols+
			"ffffffffc0002010 T more\t[m]\nffffffffc0006000 t bpf_prog_1\t[bpf]\n")
		if last, ok := k.LastFunction("m", 0xffffffffc0000000, 0xffffffffc0003000); !ok || last != want {
			t.Errorf("%q: last function at %#x, %v, want %#x", symbols, last, ok, want)
		}
	}
}

// TestKallsymsIndex: an index that is made while others ask changes no answer.
func TestKallsymsIndex(t *testing.T) {
	for _, file := range []string{"x86_64.kallsyms", "arm64.kallsyms"} {
		plain, indexed := openKallsyms(t, file), openKallsyms(t, file)
		var group sync.WaitGroup
		group.Go(indexed.Index)
		for _, s := range plain.All() {
			wantSym, wantSize, wantOK := plain.Find(s.Addr + 1)
			if sym, size, ok := indexed.Find(s.Addr + 1); sym != wantSym || size != wantSize || ok != wantOK {
				t.Fatalf("%s: Find(%#x) = %+v, %d, %v; want %+v, %d, %v", file, s.Addr+1, sym, size, ok, wantSym, wantSize, wantOK)
			}
			if got, want := indexed.Lookup(s.Name), plain.Lookup(s.Name); !slices.Equal(got, want) {
				t.Fatalf("%s: Lookup(%q) = %+v, want %+v", file, s.Name, got, want)
			}
		}
		group.Wait()
		if indexed.byAddr.text == nil || indexed.byName.head == nil {
			t.Errorf("%s: no index was made", file)
		}
	}
	for _, text := range []string{"", "0000000000000000 T _text\n0000000000000000 t vfs_read\n"} {
		k := parseKallsyms(t, text)
		k.Index()
		if _, _, ok := k.Find(1); ok || len(k.Lookup("vfs_read")) != 0 {
			t.Errorf("%q: something was found", text)
		}
	}
}
