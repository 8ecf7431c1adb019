// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Recorderguest is the program that the scenarios of this directory run in an emulated
// machine.
//
//	recorderguest time                      prints CLOCK_MONOTONIC
//	recorderguest oracle DIR LABEL          copies kernel text to DIR/LABEL.elf
//	recorderguest bpf KIND ARG N SECONDS    loads a BPF program, and keeps it for that time
//	recorderguest churn N SECONDS           loads N programs one after the other, each for that time
//
// KIND is socket, kprobe, fentry or fexit; ARG is a function. Programs of another N have
// other code.
//
// It reads /proc/kcore with code of its own: what is compared must not have the recorder's
// errors.
package main

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/kcore"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("recorderguest: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

var errUsage = errors.New("usage: recorderguest time | oracle DIR LABEL | bpf KIND ARG N SECONDS | churn N SECONDS")

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "time":
		now := monotonic()
		fmt.Printf("%d.%09d\n", now/1e9, now%1e9)
		return nil
	case len(args) == 3 && args[0] == "oracle":
		return oracle(args[1], args[2])
	case len(args) == 5 && args[0] == "bpf":
		n, err := strconv.Atoi(args[3])
		hold, bad := seconds(args[4])
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		return load(args[1], args[2], n, hold)
	case len(args) == 3 && args[0] == "churn":
		n, err := strconv.Atoi(args[1])
		hold, bad := seconds(args[2])
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		for i := range n {
			if err := load("socket", "", i%7, hold); err != nil {
				return err
			}
			time.Sleep(hold)
		}
		return nil
	}
	return errUsage
}

func seconds(s string) (time.Duration, error) {
	f, err := strconv.ParseFloat(s, 64)
	return time.Duration(f * float64(time.Second)), err
}

// monotonic reads CLOCK_MONOTONIC, in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// Where x86-64 has modules, BPF programs, trampolines and slots of kprobes. Other architectures
// have them among all areas of vmalloc, where the name of the function that made an area says
// what it is.
const (
	modulesFrom = 0xffffffffc0000000
	modulesTo   = 0xffffffffff000000
)

// codeMakers make areas of code.
var codeMakers = []string{"module_alloc", "move_module", "load_module", "execmem", "bpf_jit_alloc_exec", "bpf_prog_pack", "bpf_image_alloc", "arch_alloc_bpf_trampoline", "alloc_insn_page"}

// isCode reports whether a line of /proc/vmallocinfo is an area of code.
func (a area) isCode(line string) bool {
	if runtime.GOARCH == "amd64" {
		return modulesFrom <= a.lo && a.hi <= modulesTo
	}
	return slices.ContainsFunc(codeMakers, func(name string) bool { return strings.Contains(line, name) })
}

var page = uint64(os.Getpagesize())

// oracle copies the text of the kernel and each area of code to DIR/LABEL.elf, and kallsyms
// and modules beside it. It adds a line to DIR/oracles.tsv: the label, and the times before
// and after the copy, in nanoseconds of CLOCK_MONOTONIC.
func oracle(dir, label string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	areas, err := kernelText()
	if err != nil {
		return err
	}
	more, err := moduleAreas()
	if err != nil {
		return err
	}
	if len(more) == 0 && runtime.GOARCH == "amd64" { // elsewhere all may be built in
		return errors.New("/proc/vmallocinfo has no area of modules: its addresses are hashed without no_hash_pointers on the kernel's command line")
	}
	areas = append(areas, more...)
	f, err := os.Open("/proc/kcore")
	if err != nil {
		return err
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return err
	}
	var segments []kcore.Segment
	before := monotonic()
	for _, a := range areas {
		for _, p := range e.Progs {
			if p.Type != elf.PT_LOAD || a.lo < p.Vaddr || a.hi-p.Vaddr > p.Memsz {
				continue
			}
			b := make([]byte, a.hi-a.lo)
			// An area that was freed meanwhile is not in the oracle.
			if _, err := f.ReadAt(b, int64(p.Off+a.lo-p.Vaddr)); err == nil {
				segments = append(segments, kcore.Segment{Addr: a.lo, Data: b})
			}
			break
		}
	}
	after := monotonic()
	if len(segments) == 0 || segments[0].Addr != areas[0].lo {
		return errors.New("/proc/kcore has no kernel text")
	}
	slices.SortFunc(segments, func(a, b kcore.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	out, err := os.Create(filepath.Join(dir, label+".elf"))
	if err != nil {
		return err
	}
	if err := errors.Join(kcore.WriteCore(out, e.Machine, e.Class, e.Data, segments, nil), out.Close()); err != nil {
		return err
	}
	for _, name := range []string{"kallsyms", "modules"} {
		b, err := os.ReadFile("/proc/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, label+"."+name), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	list, err := os.OpenFile(filepath.Join(dir, "oracles.tsv"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(list, "%s\t%d\t%d\t1\n", label, before, after)
	return errors.Join(err, list.Close())
}

// An area is the addresses [lo, hi).
type area struct{ lo, hi uint64 }

// kernelText returns the pages of kernel text.
func kernelText() ([]area, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lo, hi uint64
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) != 3 {
			continue
		}
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			return nil, err
		}
		switch fields[2] {
		case "_text":
			lo = addr
		case "_stext":
			if lo == 0 {
				lo = addr // some kernels list no symbol before it
			}
		case "_etext":
			hi = (addr + page - 1) &^ (page - 1)
		}
	}
	if lo == 0 || hi <= lo {
		return nil, errors.Join(errors.New("kallsyms has no _text or _stext, and _etext"), sc.Err())
	}
	return []area{{lo, hi}}, sc.Err()
}

// moduleAreas returns the areas of modules and of other code that /proc/vmallocinfo lists.
// The last page of an area is its guard page, which is not mapped.
func moduleAreas() (areas []area, err error) {
	f, err := os.Open("/proc/vmallocinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var a area
		if n, _ := fmt.Sscanf(sc.Text(), "0x%x-0x%x", &a.lo, &a.hi); n != 2 || !a.isCode(sc.Text()) {
			continue
		}
		if a.hi -= page; a.lo < a.hi {
			areas = append(areas, a)
		}
	}
	return areas, sc.Err()
}

// load loads a program, attaches it, and keeps it.
func load(kind, function string, n int, hold time.Duration) error {
	spec := &ebpf.ProgramSpec{Name: fmt.Sprintf("%s_%d", kind, n), License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0x1000+int32(n))}}
	for i := range 3 + 5*n {
		spec.Instructions = append(spec.Instructions, asm.Add.Imm(asm.R0, int32(0x11110000+256*n+i)))
	}
	attach := func(*ebpf.Program) (link.Link, error) { return nil, nil }
	switch kind {
	case "socket":
		spec.Type = ebpf.SocketFilter
	case "kprobe":
		spec.Type = ebpf.Kprobe
		attach = func(p *ebpf.Program) (link.Link, error) { return link.Kprobe(function, p, nil) }
	case "fentry", "fexit":
		spec.Type, spec.AttachTo, spec.AttachType = ebpf.Tracing, function, ebpf.AttachTraceFEntry
		if kind == "fexit" {
			spec.AttachType = ebpf.AttachTraceFExit
		}
		attach = func(p *ebpf.Program) (link.Link, error) { return link.AttachTracing(link.TracingOptions{Program: p}) }
	default:
		return errUsage
	}
	spec.Instructions = append(spec.Instructions, asm.Mov.Imm(asm.R0, 0), asm.Return())
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return err
	}
	l, err := attach(p)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	time.Sleep(hold)
	if l != nil {
		err = l.Close()
	}
	return errors.Join(err, p.Close())
}
