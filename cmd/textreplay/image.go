// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"sort"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// image is the state of the command image.
type image struct {
	*app
	at, output, kcoreDir, unknown string
	fill                          fillByte
	exec                          bool
}

func (a *app) imageCmd() *cobra.Command {
	m := &image{app: a}
	cmd := &cobra.Command{
		Use:   "image --at TIME {-o FILE | --kcore-dir DIR} [flags]",
		Short: "Write an ELF file of all kernel text at a time",
		Long: `image writes an ELF core of all kernel text at a time, with symbols. A decoder,
objdump or gdb loads it instead of a copy of /proc/kcore. At the exact time of a
change it has the new bytes.

Tools do not read symbols from a core. With --exec the file of -o is an executable, as
vmlinux is: "objdump -d FILE" and "gdb FILE" then show names. --kcore-dir writes
the files of a kcore_dir as they would be at that time: kcore, kallsyms and
modules. "perf script --kallsyms DIR/kallsyms" uses its names, and "perf annotate"
shows its code if DIR is the recording's kcore_dir.

Bytes that do not meet --require (default known) are in no segment, unless --fill
gives a byte to put there. --unknown lists everything that is not known, one JSON
object a line: {"addr","len","standing","reason"}.`,
		Example: `  textreplay image --at 12.345678901 -o text.elf
  textreplay image --at 50% -o text.elf --unknown unknown.jsonl
  textreplay image --at end -o text.elf --exec && objdump -d text.elf
  textreplay image --at end --kcore-dir then && perf script --kallsyms then/kallsyms`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return m.run() },
	}
	f := cmd.Flags()
	f.StringVar(&m.at, "at", "", "the `TIME` of the image")
	f.StringVarP(&m.output, "output", "o", "", "the `FILE` to write, - for standard output")
	f.StringVar(&m.kcoreDir, "kcore-dir", "", "write a kcore_dir to `DIR`: kcore, kallsyms and modules at that time")
	f.StringVar(&m.unknown, "unknown", "", "write a list of what is not known to `FILE`")
	f.Var(&m.fill, "fill", "use this byte for each byte that does not meet --require")
	f.BoolVar(&m.exec, "exec", false, "write an executable, as vmlinux is, so that tools show its symbols")
	cmd.MarkFlagRequired("at")
	cmd.MarkFlagsOneRequired("output", "kcore-dir")
	return cmd
}

// imageSummary counts what was written.
type imageSummary struct {
	Time     string `json:"time"`
	Segments int    `json:"segments"`
	Bytes    uint64 `json:"bytes"`
	Filled   uint64 `json:"filled"`
	LeftOut  uint64 `json:"left_out"`
	Symbols  int    `json:"symbols"`
}

func (m *image) run() error {
	if err := m.reserveOutputs(); err != nil {
		return err
	}
	r, err := m.loadAndWarn()
	if err != nil {
		return err
	}
	times, err := oneTime(r, "--at", m.at)
	if err != nil {
		return err
	}
	t := &imageText{view: r.Image.At(times.From)}
	t.collect(m, times.To)
	if len(t.segs) == 0 {
		return belowf("no bytes meet --require at %s: no image was written", replay.Seconds(times.From))
	}
	m.warnMoving(t.changing, "the image", times)
	syms := symbolsOf(r, t.view, t.segs)
	if err := m.write(r, t, syms); err != nil {
		return err
	}
	t.sum.Time, t.sum.Segments, t.sum.Symbols = decTime(times.From), len(t.segs), len(syms)
	return m.report(&t.sum, times.From)
}

// reserveOutputs refuses outputs that would overwrite an input or each other.
func (m *image) reserveOutputs() error {
	if err := checkDir("--kcore-dir", m.kcoreDir); err != nil {
		return err
	}
	if m.exec && m.output == "" {
		return usagef("--exec is for the file of -o: a kcore_dir has a core")
	}
	if m.output == "-" && m.unknown == "-" {
		return usagef("the image and the list of --unknown cannot both go to standard output")
	}
	if err := m.reserve(m.output, m.unknown); err != nil {
		return err
	}
	if m.kcoreDir == "" {
		return nil
	}
	for _, name := range kcoreFiles {
		if err := m.reserve(filepath.Join(pathname.Plain(m.kcoreDir), name)); err != nil {
			return err
		}
	}
	return nil
}

// An imageText is the kernel text at the time of a view.
type imageText struct {
	view     timeline.View
	segs     []kcore.Segment // what meets --require or is filled
	unknown  []timeline.Span // what is mapped and not known
	changing uint64          // how many bytes change before the end of the asked interval
	sum      imageSummary
}

// collect sorts the view's spans into segments, what is filled, what is left out, and the list of
// --unknown. The asked interval ends at to.
func (t *imageText) collect(m *image, to uint64) {
	for lo, hi := range t.view.Ranges() {
		for s := range t.view.Spans(lo, hi-lo) {
			if s.Standing == timeline.Unmapped {
				continue
			}
			if s.Standing != timeline.Known {
				t.unknown = append(t.unknown, s)
			}
			switch {
			case s.Bytes != nil && m.meets(s.Standing, "known"):
				t.sum.Bytes += s.Len
				if endsBy(s.Until, to) {
					t.changing += s.Len
				}
				t.add(s.Addr, s.Bytes)
			case m.fill.set && s.Len <= maxBytes:
				t.sum.Filled += s.Len
				t.add(s.Addr, bytes.Repeat([]byte{m.fill.value}, int(s.Len)))
			default:
				t.sum.LeftOut += s.Len
			}
		}
	}
}

// add adds bytes to the last segment, or begins a new one.
func (t *imageText) add(addr uint64, data []byte) {
	if n := len(t.segs); n > 0 && t.segs[n-1].Addr+uint64(len(t.segs[n-1].Data)) == addr {
		// The first bytes of a segment may alias the snapshot, but they have no
		// spare capacity that could be overwritten.
		t.segs[n-1].Data = append(t.segs[n-1].Data, data...)
		return
	}
	t.segs = append(t.segs, kcore.Segment{Addr: addr, Data: data})
}

// write writes the outputs that the flags name: all of them, or none.
func (m *image) write(r *replay.Replay, t *imageText, syms []kcore.ELFSymbol) error {
	var outs []pendingOutput
	defer func() {
		for _, out := range outs {
			out.Discard()
		}
	}()
	add := func(out pendingOutput, err error) error {
		if err == nil {
			outs = append(outs, out)
		}
		return err
	}
	addFile := func(path string, write func(w io.Writer) error) error {
		switch path {
		case "":
			return nil
		case "-":
			return outputError(write(m.out))
		}
		return add(m.create(path, write))
	}
	write := kcore.WriteCore
	if m.exec {
		write = kcore.WriteExec
	}
	class, data := elfForm(r)
	err := addFile(m.output, func(w io.Writer) error {
		return write(w, r.Machine(), class, data, t.segs, append(syms, dataMarks(r, t.view, t.segs)...))
	})
	if err == nil && m.kcoreDir != "" {
		err = add(m.createKcoreDir(r, t.view, t.segs))
	}
	if err == nil {
		err = addFile(m.unknown, func(w io.Writer) error { return writeUnknown(encoder(w), t.unknown) })
	}
	if err != nil || len(outs) == 0 {
		return err
	}
	return m.commit(outs...)
}

// report prints what was written, unless standard output has an output.
func (m *image) report(sum *imageSummary, at uint64) error {
	switch {
	case m.output == "-" || m.unknown == "-":
		return nil
	case m.json:
		return outputError(encoder(m.out).Encode(sum))
	}
	written := m.output
	if written == "" {
		written = m.kcoreDir
	} else if m.kcoreDir != "" {
		written += " and " + m.kcoreDir
	}
	fmt.Fprintf(m.out, "%s as of %s: %s in %s, %s; %s filled, %s left out\n", written, replay.Seconds(at),
		count(sum.Bytes, "byte"), count(sum.Segments, "segment"), count(sum.Symbols, "symbol"),
		thousands(sum.Filled), thousands(sum.LeftOut))
	return nil
}

type jsonUnknown struct {
	Addr     string  `json:"addr"`
	Len      uint64  `json:"len"`
	Standing string  `json:"standing"`
	Reason   *string `json:"reason"`
}

// writeUnknown lists what is not known. Adjacent spans with the same standing
// and reason are one line.
func writeUnknown(enc *json.Encoder, spans []timeline.Span) error {
	for i := 0; i < len(spans); {
		s := spans[i]
		for i++; i < len(spans) && spans[i].Addr == s.Addr+s.Len && spans[i].Standing == s.Standing && spans[i].Reason == s.Reason; i++ {
			s.Len += spans[i].Len
		}
		err := enc.Encode(jsonUnknown{hexAddr(s.Addr), s.Len, s.Standing.String(), nonEmpty(s.Reason.String())})
		if err != nil {
			return err
		}
	}
	return nil
}

// symbolsOf returns the functions that overlap a segment: those of kallsyms,
// and the dynamic ones that exist at the view's time.
func symbolsOf(r *replay.Replay, view timeline.View, segs []kcore.Segment) []kcore.ELFSymbol {
	inside := func(addr, size uint64) bool {
		i := sort.Search(len(segs), func(i int) bool { return segs[i].Addr+uint64(len(segs[i].Data)) > addr })
		return i < len(segs) && segs[i].Addr < addr+max(size, 1)
	}
	var syms []kcore.ELFSymbol
	for s := range r.TableSymbols {
		bind, ok := binding(s.Type)
		if !ok || !alive(&s.Symbol, view.Time()) {
			continue
		}
		// If a dynamic symbol is at this address now, kallsyms is out of date.
		found, ok := view.Symbol(s.Addr)
		if !ok || found.Addr != s.Addr || found.Dynamic || found.Module != s.Module || !inside(s.Addr, found.Size) {
			continue
		}
		syms = append(syms, kcore.ELFSymbol{Name: s.Name, Addr: s.Addr, Size: found.Size, Bind: bind, Type: elf.STT_FUNC})
	}
	for s := range dynamicSymbols(r, view, segs) {
		if inside(s.Addr, s.Size) {
			syms = append(syms, kcore.ELFSymbol{Name: s.Name, Addr: s.Addr, Size: s.Size, Bind: elf.STB_LOCAL, Type: elf.STT_FUNC})
		}
	}
	return syms
}

// dataMarks returns the mapping symbols of the ELF for the Arm 64-bit
// Architecture. objdump and gdb read them: data begins at $d, code at $x.
func dataMarks(r *replay.Replay, view timeline.View, segs []kcore.Segment) []kcore.ELFSymbol {
	if r.Machine() != elf.EM_AARCH64 {
		return nil
	}
	var marks []kcore.ELFSymbol
	for _, s := range segs {
		for off := -s.Addr & 7; off < uint64(len(s.Data)); off += 8 { // by addresses that are a multiple of 8
			if l, ok := r.OpsLiteral(view, s.Addr+off); ok {
				marks = append(marks, kcore.ELFSymbol{Name: "$d", Addr: l.Addr}, kcore.ELFSymbol{Name: "$x", Addr: l.Func})
			}
		}
	}
	return marks
}

// dynamicSymbols yields the dynamic symbols that exist at the view's time, by
// address. Each piece of out-of-line code in segs is one symbol, named with the
// function it belongs to: "kprobe_optinsn_page+0x7c(do_sys_openat2+0x7)". Most
// slots do not begin at the page's symbol, so a tool would not find their name
// otherwise.
func dynamicSymbols(r *replay.Replay, view timeline.View, segs []kcore.Segment) iter.Seq[timeline.Symbol] {
	return func(yield func(timeline.Symbol) bool) {
		for s := range r.Image.Symbols {
			if !alive(&s, view.Time()) || s.Name == "" {
				continue
			}
			pieces := 0
			if s.Module != "bpf" {
				for p := range piecesOf(r, view, s, segs) {
					pieces++
					if !yield(p) {
						return
					}
				}
			}
			if pieces == 0 && !yield(s) {
				return
			}
		}
	}
}

// piecesOf yields the pieces of out-of-line code s that segs have.
func piecesOf(r *replay.Replay, view timeline.View, s timeline.Symbol, segs []kcore.Segment) iter.Seq[timeline.Symbol] {
	return func(yield func(timeline.Symbol) bool) {
		i := sort.Search(len(segs), func(i int) bool { return segs[i].Addr+uint64(len(segs[i].Data)) > s.Addr })
		for ; i < len(segs) && segs[i].Addr < s.Addr+s.Size; i++ {
			end := min(segs[i].Addr+uint64(len(segs[i].Data)), s.Addr+s.Size)
			for addr := max(segs[i].Addr, s.Addr); addr < end; {
				p := s
				p.Addr, p.Size = addr, end-addr
				if addr != s.Addr {
					p.Name += fmt.Sprintf("+%#x", addr-s.Addr)
				}
				if svc, ok := r.TrampolineAt(addr, view.Time()); ok && svc.Addr == addr {
					p.Size = min(p.Size, svc.Len)
					serves := svc.Func
					if serves == 0 {
						serves = svc.Places[0]
					}
					// No blank: it would end the name in kallsyms.
					place := placeOf(view, serves)
					place.module = ""
					if name := place.String(); name != "" {
						p.Name += "(" + name + ")"
					}
				}
				if !yield(p) {
					return
				}
				addr += p.Size
			}
		}
	}
}
