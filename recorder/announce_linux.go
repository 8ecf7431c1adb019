// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// readKallsyms returns the symbols of /proc/kallsyms that a recorder needs: the bounds of text,
// the functions in also, and those of BPF programs, kprobes' slots and ftrace's trampolines. All
// symbols would take more memory than anything else. It returns nil if the kernel does not show
// addresses.
func readKallsyms(also ...string) *kcore.Kallsyms {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := copyKallsyms(io.Discard, f, also...)
	if err != nil || names.Restricted() {
		return nil
	}
	return names
}

// copyKallsyms copies kallsyms line by line, and returns the names that readKallsyms does.
func copyKallsyms(w io.Writer, from io.Reader, also ...string) (*kcore.Kallsyms, error) {
	var needed []byte
	out := bufio.NewWriterSize(w, 32<<10)
	lines := bufio.NewReaderSize(from, 32<<10)
	for {
		line, err := lines.ReadSlice('\n') // as ADDRESS TYPE NAME [MODULE]
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("kallsyms: %w", err)
		}
		out.Write(line)
		if isNeeded(line, also) {
			needed = append(needed, line...)
		}
		if err == io.EOF {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return nil, err
	}
	return kcore.ParseKallsyms(needed)
}

// isNeeded reports whether a recorder needs the name in a line of kallsyms.
func isNeeded(line []byte, also []string) bool {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if bytes.HasSuffix(line, []byte("]")) {
		at := bytes.LastIndexByte(line, '[')
		return at >= 0 && (string(line[at:]) == "[bpf]" || bytes.HasPrefix(line[at:], []byte("[__builtin__")))
	}
	name := line[bytes.LastIndexByte(line, ' ')+1:]
	return string(name) == "_text" || string(name) == "_stext" || string(name) == "_etext" ||
		slices.ContainsFunc(also, func(s string) bool { return s == string(name) })
}

// announceKernel writes the map of the kernel's text
// (perf_event__synthesize_kernel_mmap of tools/perf/util/synthetic-events.c).
func (r *Recorder) announceKernel(names *kcore.Kallsyms) error {
	stext, etext, ok := names.Text()
	if !ok || stext == 0 {
		return nil
	}
	start := stext
	if syms := names.Lookup("_text"); len(syms) > 0 {
		start = syms[0].Addr
	}
	return r.w.Mmap(perfdata.RecordMMAP, perfdata.MiscKernel, &perfdata.Mmap{
		PID: ^uint32(0), Addr: start, Len: etext - start, Pgoff: start,
		Filename: []byte("[kernel.kallsyms]_text"), SampleID: r.sampleID(),
	})
}

// announceTasks writes a COMM for each task.
func (r *Recorder) announceTasks() error {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, p := range processes {
		pid, err := strconv.ParseUint(p.Name(), 10, 32)
		if err != nil {
			continue
		}
		threads, err := os.ReadDir("/proc/" + p.Name() + "/task")
		if err != nil {
			continue // it has ended
		}
		for _, t := range threads {
			tid, err := strconv.ParseUint(t.Name(), 10, 32)
			if err != nil {
				continue
			}
			comm, err := os.ReadFile("/proc/" + p.Name() + "/task/" + t.Name() + "/comm")
			if err != nil {
				continue
			}
			err = r.w.Comm(0, &perfdata.Comm{PID: uint32(pid), TID: uint32(tid), Comm: bytes.TrimSuffix(comm, []byte("\n")), SampleID: r.sampleID()})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// announcePrograms writes the BPF programs that are loaded: KSYMBOL records of their
// functions, a BPF_EVENT, and their code (perf_event__synthesize_bpf_events of
// tools/perf/util/bpf-event.c).
func (r *Recorder) announcePrograms(names *kcore.Kallsyms) error {
	for id := uint32(0); ; {
		next, err := nextProgram(id)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			r.warn(&Limit{What: "BPF programs that are loaded already are unknown", Remedy: "run as root, or with CAP_SYS_ADMIN", Err: err})
			return nil
		}
		id = next
		p, err := fetchProgram(id)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			r.warnCode(err)
			continue
		}
		for i, addr := range p.ksyms {
			if i >= len(p.lens) {
				break
			}
			err := r.w.KSymbol(&perfdata.KSymbol{Addr: addr, Len: p.lens[i], Kind: perfdata.KSymbolBPF, Name: []byte(p.name(names, i)), SampleID: r.sampleID()})
			if err != nil {
				return err
			}
		}
		if err := r.w.BPFEvent(&perfdata.BPFEvent{Kind: perfdata.BPFLoad, ID: id, Tag: p.info.Tag, SampleID: r.sampleID()}); err != nil {
			return err
		}
		r.stats.Programs++
		r.stats.Fetched++
		if err := r.addProgram(p); err != nil {
			return err
		}
	}
}

// warnCode warns that the code of a program could not be read.
func (r *Recorder) warnCode(err error) {
	remedy := "run as root, or with CAP_SYS_ADMIN" // bpf_prog_get_fd_by_id() of kernel/bpf/syscall.c
	if errors.Is(err, errNoCode) {
		remedy = "run with CAP_SYSLOG, and set kernel.kptr_restrict to 0 or 1"
	}
	r.warn(&Limit{What: "the code of BPF programs is unknown", Remedy: remedy, Err: err})
}

// name returns what kallsyms calls a function of a program, as its KSYMBOL record does.
func (p *program) name(names *kcore.Kallsyms, i int) string {
	for _, s := range names.NamesOf(p.ksyms[i]) {
		return s.Name
	}
	tag := p.info.Tag
	if i < len(p.tags) {
		tag = p.tags[i]
	}
	name := "bpf_prog_" + hex.EncodeToString(tag[:])
	if own := unix.ByteSliceToString(p.info.Name[:]); own != "" && i == 0 {
		name += "_" + own
	} else if i > 0 {
		name += fmt.Sprintf("_F%d", i)
	}
	return name
}
