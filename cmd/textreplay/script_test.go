// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

var update = flag.Bool("update", false, "write the expected outputs of testdata/script anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"textreplay": main})
}

// TestScripts runs testdata/script against the recordings in the repository's
// testdata directory, which the scripts find in $DATA.
func TestScripts(t *testing.T) {
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "small")); err != nil {
		t.Fatalf("the repository's recordings are not there: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DATA", data)
			// Under the race detector each exit of the program would sleep for a second.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"elfbytes": elfBytes,
			"elfsym":   elfSymbol("elfsym", elf.STT_FUNC),
			"elfmark":  elfSymbol("elfmark", elf.STT_NOTYPE), // of what is no function
			"truncate": truncate,
			"patching": codeWriting,
			"tamper":   tamper,
			"genbpf":   genBPF,
			"linked":   linked,
			"misfit":   misfit,
			"profile":  profileHas,

			"copytree":  copyTree,
			"same":      same,
			"hardlink":  hardLink,
			"flip":      flip,
			"mode":      mode,
			"limit":     limit,
			"signalled": signalled,
		},
	})
}

// exits CODE ARGS... runs textreplay and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	checkExit(ts, ts.Exec("textreplay", args[1:]...), args[0])
}

// checkExit checks the exit code of a command that ended with this error.
func checkExit(ts *testscript.TestScript, err error, want string) {
	got := 0
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// elfBytes FILE ADDR HEX checks what an ELF core holds at an address; negated
// that it holds nothing there.
func elfBytes(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: elfbytes FILE ADDR HEX")
	}
	file, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	addr, err := strconv.ParseUint(args[1], 0, 64)
	ts.Check(err)
	want, err := hex.DecodeString(args[2])
	ts.Check(err)
	f, err := elf.NewFile(bytes.NewReader(file))
	ts.Check(err)
	var got []byte
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			got = make([]byte, min(uint64(len(want)), p.Filesz-(addr-p.Vaddr)))
			_, err := p.ReadAt(got, int64(addr-p.Vaddr))
			ts.Check(err)
		}
	}
	if neg && got != nil {
		ts.Fatalf("%x at %#x, want nothing", got, addr)
	}
	if !neg && !bytes.Equal(got, want) {
		ts.Fatalf("%x at %#x, want %x", got, addr, want)
	}
	if !neg {
		// The project's own reader must agree.
		core, err := kcore.NewCore(file)
		if f.Type == elf.ET_CORE {
			ts.Check(err)
			if b := core.Bytes(addr, len(want)); !bytes.Equal(b, want) {
				ts.Fatalf("kcore reads %x at %#x, want %x", b, addr, want)
			}
		}
	}
}

// elfSymbol is the command "NAME FILE SYMBOL ADDR", which checks that an ELF file has
// a symbol of this type.
func elfSymbol(name string, typ elf.SymType) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if len(args) != 3 {
			ts.Fatalf("usage: %s FILE SYMBOL ADDR", name)
		}
		f, err := elf.Open(ts.MkAbs(args[0]))
		ts.Check(err)
		defer f.Close()
		addr, err := strconv.ParseUint(args[2], 0, 64)
		ts.Check(err)
		syms, err := f.Symbols()
		ts.Check(err)
		found := slices.ContainsFunc(syms, func(s elf.Symbol) bool {
			return s.Name == args[1] && s.Value == addr && elf.ST_TYPE(s.Info) == typ
		})
		if found == neg {
			ts.Fatalf("symbol %s at %#x found: %v", args[1], addr, found)
		}
	}
}

// patching NAME DIR makes up a recording of that name, see genperf.Patching.
func codeWriting(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || genperf.Patching[args[0]] == nil {
		ts.Fatalf("usage: patching NAME DIR")
	}
	ts.Check(genperf.Patching[args[0]](ts.MkAbs(args[1])))
}

// tamper SRC DIR CHANGE... copies a recording with changes that the kernel did not make:
// ADDR@NS:OLD:NEW adds one, ADDR@NS leaves one out. OLD and NEW are in hexadecimal.
func tamper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: tamper SRC DIR CHANGE...")
	}
	var add []perfdata.TextPoke
	drop := make(map[[2]uint64]bool)
	for _, arg := range args[2:] {
		parts := strings.Split(arg, ":")
		at, when, _ := strings.Cut(parts[0], "@")
		addr, err := strconv.ParseUint(at, 0, 64)
		ts.Check(err)
		time, err := strconv.ParseUint(when, 10, 64)
		ts.Check(err)
		if len(parts) == 1 {
			drop[[2]uint64{addr, time}] = true
			continue
		}
		p := perfdata.TextPoke{Addr: addr}
		p.Time = time
		p.Old, err = hex.DecodeString(parts[1])
		ts.Check(err)
		p.New, err = hex.DecodeString(parts[2])
		ts.Check(err)
		add = append(add, p)
	}
	ts.Check(genperf.Tamper(ts.MkAbs(args[1]), ts.MkAbs(args[0]), add, func(p *perfdata.TextPoke) bool {
		return drop[[2]uint64{p.Addr, p.Time}]
	}))
}

// linked REC FILE [ADDR:HEX...] writes the file that the kernel of a recording was linked
// to, as if the kernel had not changed its text since, but for these bytes.
func linked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: linked REC FILE [ADDR:HEX...]")
	}
	snapshot, err := kcore.Open(filepath.Join(ts.MkAbs(args[0]), "kcore_dir"))
	ts.Check(err)
	defer snapshot.Close()
	lo, hi, _ := snapshot.Kallsyms.Text()
	var text []byte
	for _, s := range snapshot.Core.Segments {
		if lo <= s.Addr && s.Addr < hi {
			text = append(text, make([]byte, s.Addr-lo-uint64(len(text)))...)
			text = append(text, s.Data...)
		}
	}
	for _, arg := range args[2:] {
		at, bytes, _ := strings.Cut(arg, ":")
		addr, err := strconv.ParseUint(at, 0, 64)
		ts.Check(err)
		code, err := hex.DecodeString(bytes)
		ts.Check(err)
		copy(text[addr-lo:], code)
	}
	file := genperf.KernelFile(elf.EM_X86_64, []genperf.KernelSection{{Name: ".text", Addr: genperf.LinkedText, Code: true, Data: text}}, nil)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), file, 0o600))
}

// genbpf FILE writes a recording of a BPF program that has its source with it.
func genBPF(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: genbpf FILE")
	}
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(errors.Join(genperf.BPF(f), f.Close()))
}

// truncate FILE SIZE cuts a file.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate FILE SIZE")
	}
	size, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}
