// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

// Libtextreplay is the C library of textreplay: textreplay.h has its API.
//
//	make -C cmd/libtextreplay install PREFIX=/usr/local
//
// textreplay.c implements the API. It caches the pages that a cursor read, since a call of Go
// costs as much as decoding several instructions, and calls the functions of this package
// for the rest. They are named trgo_*. The shared library exports only textreplay_*.
//
// A function that can fail returns 0 or a count, or a negative number of enum textreplay_error
// and sets the thread's message. A panic of the library becomes TEXTREPLAY_EINTERNAL: it must
// not end the host program.
package main

/*
#include <stdlib.h>
#include <string.h>
#include "textreplay.h"
#include "internal.h"
*/
import "C"

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime/cgo"
	"unsafe"

	"github.com/textreplay/textreplay/internal/vmlinux"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func main() {}

// A recording is the Go side of a textreplay.
type recording struct {
	r *replay.Replay
	history
}

// A reader is the Go side of a textreplay_cursor.
type reader struct {
	rec     *recording
	cur     *replay.Cursor
	windows []timeline.Window // of a page; kept to reuse its memory
}

var (
	errArgument = errors.New("an argument is not valid")
	errNotFound = errors.New("nothing found")
	errClock    = errors.New("the recording cannot convert this time")
	errArch     = errors.New("not for the architecture of the recorded kernel")
)

// result returns the number of enum textreplay_error for err, and sets the calling thread's
// message. Errors of no other kind are TEXTREPLAY_EIO.
func result(err error) C.int {
	if err == nil {
		return C.TEXTREPLAY_OK
	}
	code := C.int(C.TEXTREPLAY_EIO)
	var changed *replay.ChangedError
	var format *perfdata.FormatError
	var kcoreFormat *kcore.FormatError
	var elfFormat *elf.FormatError
	var vmlinuxFormat *vmlinux.FormatError
	var internal *internalError
	var guest *replay.UnknownGuestError
	var cpus *replay.CPUsError
	var misfit *replay.MisfitError
	switch {
	case errors.As(err, &internal):
		code = C.TEXTREPLAY_EINTERNAL
	case errors.As(err, &changed):
		code = C.TEXTREPLAY_ECHANGED
	case errors.Is(err, errArgument), errors.As(err, &guest), errors.As(err, &cpus), errors.As(err, &misfit):
		code = C.TEXTREPLAY_EINVAL
	case errors.Is(err, errNotFound):
		code = C.TEXTREPLAY_ENOTFOUND
	case errors.Is(err, errClock):
		code = C.TEXTREPLAY_ECLOCK
	case errors.Is(err, errArch):
		code = C.TEXTREPLAY_EARCH
	case errors.Is(err, timeline.ErrTooLarge):
		code = C.TEXTREPLAY_ENOMEM
	case errors.As(err, &format), errors.Is(err, perfdata.ErrNothing),
		errors.As(err, &kcoreFormat), errors.As(err, &elfFormat), errors.As(err, &vmlinuxFormat):
		code = C.TEXTREPLAY_EFORMAT
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		code = C.TEXTREPLAY_EIO
	}
	msg := err.Error()
	C.trc_set_error((*C.char)(unsafe.Pointer(unsafe.StringData(msg))), C.size_t(len(msg)))
	return code
}

// An internalError is a panic of the library.
type internalError struct{ what any }

func (e *internalError) Error() string { return fmt.Sprintf("internal error: %v", e.what) }

// guard calls f and returns its error. A panic becomes an *internalError, and the access of a
// mapped file that was cut short becomes an error too.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &internalError{p}
		}
	}()
	return replay.Guard(f)
}

func recordingOf(h C.uintptr_t) *recording { return cgo.Handle(h).Value().(*recording) }
func readerOf(h C.uintptr_t) *reader       { return cgo.Handle(h).Value().(*reader) }

func goString(s *C.char) string {
	if s == nil {
		return ""
	}
	return C.GoString(s)
}

// slice returns the n elements at p, nil if p is nil. They stay C's memory.
func slice[T any](p *T, n C.size_t) []T {
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, int(n))
}

//export trgo_open
func trgo_open(path *C.char, o *C.textreplay_options, out *C.uintptr_t) C.int {
	return result(guard(func() error {
		opts := replay.Options{Windows: true}
		if o != nil {
			opts.KCore, opts.Kallsyms, opts.Modules = goString(o.kcore), goString(o.kallsyms), goString(o.modules)
			opts.Vmlinux, opts.Index = goString(o.vmlinux), goString(o.index)
			opts.Guest, opts.CPUs = int(o.guest), int(o.cpus)
			opts.SaveIndex = o.flags&C.TEXTREPLAY_SAVE_INDEX != 0
		}
		r, err := replay.Load(C.GoString(path), opts)
		if err != nil {
			return err
		}
		rec := &recording{r: r}
		rec.history.init(r)
		*out = C.uintptr_t(cgo.NewHandle(rec))
		return nil
	}))
}

//export trgo_close
func trgo_close(h C.uintptr_t) {
	_ = guard(recordingOf(h).r.Close)
	cgo.Handle(h).Delete()
}

// trgo_info fills info and clock. Strings are allocated with malloc, for the C side to free.
//
//export trgo_info
func trgo_info(h C.uintptr_t, info *C.textreplay_info, clock *C.struct_trc_clock) C.int {
	return result(guard(func() error {
		r := recordingOf(h).r
		rep := r.Report
		info.kernel, info.arch = C.CString(rep.Kernel), C.CString(rep.Arch)
		info.clock, info.pokes = C.CString(rep.Clock.Name), C.CString(string(rep.Coverage.Pokes.Verdict))
		info.first, info.begin = C.uint64_t(rep.First), C.uint64_t(rep.Begin)
		info.horizon, info.last = C.uint64_t(rep.Horizon), C.uint64_t(rep.Last)
		lo, hi := r.Image.Text()
		info.text_lo, info.text_hi = C.uint64_t(lo), C.uint64_t(hi)
		info.machine = C.uint16_t(r.Machine())
		if conv, ok := rep.Clock.Conversion(); ok && !conv.CapTimeShort {
			*clock = C.struct_trc_clock{shift: C.uint64_t(conv.Shift), mult: C.uint64_t(conv.Mult), zero: C.uint64_t(conv.Zero), usable: 1}
		}
		return nil
	}))
}

//export trgo_check
func trgo_check(h C.uintptr_t) C.int {
	return result(guard(recordingOf(h).r.Check))
}

//export trgo_time_of_tsc
func trgo_time_of_tsc(h C.uintptr_t, tsc C.uint64_t, out *C.uint64_t) C.int {
	return result(guard(func() error {
		t, err := recordingOf(h).r.Report.Clock.TSC(uint64(tsc))
		if err != nil {
			return fmt.Errorf("%w: %w", errClock, err)
		}
		*out = C.uint64_t(t)
		return nil
	}))
}

//export trgo_tsc_of_time
func trgo_tsc_of_time(h C.uintptr_t, time C.uint64_t, out *C.uint64_t) C.int {
	return result(guard(func() error {
		clock := &recordingOf(h).r.Report.Clock
		if err := clock.Converts(); err != nil {
			return fmt.Errorf("%w: %w", errClock, err)
		}
		conv, _ := clock.Conversion()
		*out = C.uint64_t(firstTSC(&conv, uint64(time)))
		return nil
	}))
}

// firstTSC returns the least counter value whose time is t or later, MaxUint64 if there is none.
// Counters below the clock's zero have times that wrapped around, which count as earlier. A short
// counter begins at conv.Cycles: values below it are of the counter's next round.
func firstTSC(conv *perfdata.TimeConv, t uint64) uint64 {
	first, most := uint64(0), uint64(1)<<62
	if conv.CapTimeShort {
		first, most = conv.Cycles, min(most, conv.Mask)
	}
	before := func(n uint64) bool { return int64(conv.ToPerf(first+n)) < int64(t) }
	if t > math.MaxInt64 {
		return math.MaxUint64
	}
	var lo, hi uint64 = 0, 1
	for before(hi) {
		if hi >= most {
			return math.MaxUint64
		}
		lo, hi = hi, min(hi<<1, most)
	}
	for lo < hi {
		mid := lo + (hi-lo)/2
		if before(mid) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return first + lo
}

// fill calls values, which calls add once for each element of an answer. It stores the first n
// elements at out. It returns how many there are, or the negative number of an error.
func fill[T any](out *T, n C.size_t, values func(add func(value func() T))) (count C.int64_t) {
	dst := slice(out, n)
	err := guard(func() error {
		values(func(value func() T) {
			if int(count) < len(dst) {
				dst[count] = value()
			}
			count++
		})
		return nil
	})
	if err != nil {
		return C.int64_t(result(err))
	}
	return count
}

//export trgo_ranges
func trgo_ranges(h C.uintptr_t, out *C.textreplay_range, n C.size_t) C.int64_t {
	return fill(out, n, func(add func(func() C.textreplay_range)) {
		for lo, hi := range recordingOf(h).r.Image.At(0).Ranges() {
			add(func() C.textreplay_range { return C.textreplay_range{C.uint64_t(lo), C.uint64_t(hi)} })
		}
	})
}

//export trgo_changes
func trgo_changes(h C.uintptr_t, lo, hi, from, until C.uint64_t, out *C.textreplay_change, n C.size_t) C.int64_t {
	return fill(out, n, func(add func(func() C.textreplay_change)) {
		for c := range recordingOf(h).invalidations(uint64(lo), uint64(hi), uint64(from), uint64(until)) {
			add(func() C.textreplay_change {
				change := C.textreplay_change{
					addr: C.uint64_t(c.Lo), len: C.uint64_t(c.Hi - c.Lo),
					time: C.uint64_t(c.Since), until: C.uint64_t(c.Until), standing: C.uint8_t(c.Standing),
				}
				if c.Bytes {
					change.bytes = 1
				}
				return change
			})
		}
	})
}

//export trgo_changing_pages
func trgo_changing_pages(h C.uintptr_t, lo, hi, from, until C.uint64_t, out *C.uint64_t, n C.size_t) C.int64_t {
	return fill(out, n, func(add func(func() C.uint64_t)) {
		for _, page := range recordingOf(h).changingPages(uint64(lo), uint64(hi), uint64(from), uint64(until)) {
			add(func() C.uint64_t { return C.uint64_t(page) })
		}
	})
}

//export trgo_windows
func trgo_windows(h C.uintptr_t, lo, hi, from, until C.uint64_t, out *C.textreplay_window, n C.size_t) C.int64_t {
	return fill(out, n, func(add func(func() C.textreplay_window)) {
		for _, w := range recordingOf(h).windows(uint64(lo), uint64(hi), uint64(from), uint64(until)) {
			add(func() C.textreplay_window { return windowOf(&w) })
		}
	})
}

func windowOf(w *timeline.Window) C.textreplay_window {
	return C.textreplay_window{
		addr: C.uint64_t(w.Addr), len: C.uint64_t(w.Len),
		from: C.uint64_t(w.Proven.From), until: C.uint64_t(w.Proven.To),
		change: C.uint64_t(w.Switch), kind: C.uint8_t(w.Kind),
	}
}

// maxBlock is the largest block that is read at once, in bytes.
const maxBlock = 1 << 30

//export trgo_version
func trgo_version(h C.uintptr_t, addr, at C.uint64_t, buf unsafe.Pointer, n C.size_t, out *C.textreplay_answer) C.int {
	return result(guard(func() error {
		if n > maxBlock {
			return fmt.Errorf("%w: %d bytes at once; the most is %d", errArgument, n, maxBlock)
		}
		rec := recordingOf(h)
		putAnswer(out, rec.read(uint64(addr), uint64(at), unsafe.Slice((*byte)(buf), int(n))))
		return nil
	}))
}

// putAnswer converts the answer of a cursor for C.
func putAnswer(out *C.textreplay_answer, b timeline.Block) {
	*out = C.textreplay_answer{
		since: C.uint64_t(b.Since), until: C.uint64_t(b.Until),
		given:    C.uint32_t(b.Given),
		standing: C.uint8_t(b.Standing), reason: C.uint8_t(b.Reason),
	}
	if b.NoTrap.Since < b.NoTrap.Until {
		out.window_free_until = C.uint64_t(b.NoTrap.Until)
	}
}

//export trgo_cursor_new
func trgo_cursor_new(h C.uintptr_t, out *C.uintptr_t) C.int {
	return result(guard(func() error {
		rec := recordingOf(h)
		*out = C.uintptr_t(cgo.NewHandle(&reader{rec, rec.r.Cursor(), nil}))
		return nil
	}))
}

//export trgo_cursor_free
func trgo_cursor_free(h C.uintptr_t) { cgo.Handle(h).Delete() }

//export trgo_read
func trgo_read(h C.uintptr_t, addr, t C.uint64_t, buf unsafe.Pointer, n C.size_t, out *C.textreplay_answer) C.int {
	return result(guard(func() error {
		if n > maxBlock {
			return fmt.Errorf("%w: %d bytes at once; the most is %d", errArgument, n, maxBlock)
		}
		rd := readerOf(h)
		b := rd.cur.Read(uint64(addr), uint64(t), unsafe.Slice((*byte)(buf), int(n)))
		if out != nil {
			putAnswer(out, b)
		}
		return nil
	}))
}

// trgo_page fills an entry of a cursor's cache with the page at p.addr.
//
//export trgo_page
func trgo_page(h C.uintptr_t, t C.uint64_t, p *C.struct_trc_page) C.int {
	return result(guard(func() error {
		rd := readerOf(h)
		buf := unsafe.Slice((*byte)(unsafe.Pointer(&p.bytes[0])), len(p.bytes))
		b := rd.cur.Read(uint64(p.addr), uint64(t), buf)
		putAnswer(&p.answer, b)
		// A block of the page has the page's answer only if all bytes have the same.
		p.uniform = 0
		if b.Standing == timeline.Known || b.Given == len(buf) && rd.rec.uniform(uint64(p.addr), uint64(len(buf)), uint64(t)) {
			p.uniform = 1
		}
		p.nwindows, p.crowded = 0, 0
		p.wsince, p.wuntil = C.uint64_t(b.NoTrap.Since), C.uint64_t(b.NoTrap.Until)
		if b.NoTrap.Since < b.NoTrap.Until {
			return nil
		}
		// Windows are open. Find them, and until when none of them closes and no other opens.
		rd.windows = rd.cur.AppendWindows(rd.windows[:0], uint64(p.addr), uint64(len(buf)), uint64(t), uint64(t))
		until := uint64(timeline.MaxTime)
		for i := range rd.windows {
			until = min(until, rd.windows[i].Proven.To)
			if i < len(p.windows) {
				p.windows[i] = windowOf(&rd.windows[i])
			}
		}
		p.nwindows = C.uint16_t(min(len(rd.windows), len(p.windows)))
		if len(rd.windows) > len(p.windows) {
			p.crowded = 1
		}
		if until > uint64(t)+1 {
			rd.windows = rd.cur.AppendWindows(rd.windows[:0], uint64(p.addr), uint64(len(buf)), uint64(t)+1, until-1)
			for i := range rd.windows {
				if from := rd.windows[i].Proven.From; from > uint64(t) {
					until = min(until, from)
				}
			}
		}
		p.wsince, p.wuntil = t, C.uint64_t(max(until, uint64(t)+1))
		return nil
	}))
}

// uniform reports whether all bytes of [addr, addr+n) have the same standing and reason.
func (rec *recording) uniform(addr, n, t uint64) bool {
	first := true
	var standing timeline.Standing
	var reason timeline.Reason
	for s := range rec.r.Image.At(t).Spans(addr, n) {
		if !first && (s.Standing != standing || s.Reason != reason) {
			return false
		}
		first, standing, reason = false, s.Standing, s.Reason
	}
	return true
}

//export trgo_spans
func trgo_spans(h C.uintptr_t, t, addr, length C.uint64_t, out *C.textreplay_span, n C.size_t) C.int64_t {
	return fill(out, n, func(add func(func() C.textreplay_span)) {
		for s := range readerOf(h).rec.r.Image.At(uint64(t)).Spans(uint64(addr), uint64(length)) {
			add(func() C.textreplay_span {
				return C.textreplay_span{
					addr: C.uint64_t(s.Addr), len: C.uint64_t(s.Len),
					since: C.uint64_t(s.Since), until: C.uint64_t(s.Until),
					standing: C.uint8_t(s.Standing), reason: C.uint8_t(s.Reason), source: C.uint8_t(s.Source),
				}
			})
		}
	})
}

//export trgo_alternatives
func trgo_alternatives(h C.uintptr_t, t, addr C.uint64_t, out *C.textreplay_alternative, n C.size_t) (count C.int) {
	dst := slice(out, n)
	err := guard(func() error {
		for _, a := range readerOf(h).rec.alternatives(uint64(addr), uint64(t)) {
			if int(count) < len(dst) {
				d := &dst[count]
				*d = C.textreplay_alternative{
					from: C.uint64_t(a.from), until: C.uint64_t(a.until), change: C.uint64_t(a.change),
					target: C.uint64_t(a.target), next: C.uint64_t(a.next),
					choice: C.uint8_t(a.choice), effect: C.uint8_t(a.effect), len: C.uint8_t(a.n),
				}
				for i, b := range a.bytes[:a.n] {
					d.bytes[i] = C.uint8_t(b)
				}
			}
			count++
		}
		return nil
	})
	if err != nil {
		return result(err)
	}
	return count
}

//export trgo_probe_may_resume
func trgo_probe_may_resume(h C.uintptr_t, t, probe, addr C.uint64_t) (may C.int) {
	err := guard(func() error {
		if readerOf(h).cur.ProbeMayResumeAt(uint64(probe), uint64(addr), uint64(t)) {
			may = 1
		}
		return nil
	})
	if err != nil {
		return result(err)
	}
	return may
}

func putSymbol(out *C.textreplay_symbol, s *timeline.Symbol) {
	*out = C.textreplay_symbol{
		addr: C.uint64_t(s.Addr), size: C.uint64_t(s.Size),
		from: C.uint64_t(s.From), until: C.uint64_t(s.To),
	}
	put := func(dst []C.char, s string) {
		for i := range min(len(s), len(dst)-1) {
			dst[i] = C.char(s[i])
		}
	}
	put(out.name[:], s.Name)
	put(out.module[:], s.Module)
}

//export trgo_symbol_at
func trgo_symbol_at(h C.uintptr_t, t, addr C.uint64_t, out *C.textreplay_symbol) C.int {
	return result(guard(func() error {
		s, ok := readerOf(h).rec.r.Image.At(uint64(t)).Symbol(uint64(addr))
		if !ok {
			return fmt.Errorf("%w: no symbol covers %#x", errNotFound, uint64(addr))
		}
		putSymbol(out, &s)
		return nil
	}))
}

//export trgo_lookup
func trgo_lookup(h C.uintptr_t, t C.uint64_t, name *C.char, out *C.textreplay_symbol, n C.size_t) C.int64_t {
	return fill(out, n, func(add func(func() C.textreplay_symbol)) {
		for _, s := range readerOf(h).rec.r.Image.At(uint64(t)).Lookup(C.GoString(name)) {
			add(func() (symbol C.textreplay_symbol) { putSymbol(&symbol, &s); return symbol })
		}
	})
}

//export trgo_disassemble
func trgo_disassemble(h C.uintptr_t, t, addr C.uint64_t, text *C.char, size C.size_t) (length C.int) {
	err := guard(func() error {
		rd := readerOf(h)
		if rd.rec.dis == nil {
			return errArch
		}
		var buf [16]byte
		b := rd.cur.Read(uint64(addr), uint64(t), buf[:])
		dst := slice(text, size)
		if len(dst) > 0 {
			dst[0] = 0
		}
		if b.Given == 0 {
			return nil
		}
		v := rd.rec.r.Image.At(uint64(t))
		inst := rd.rec.dis.Next(buf[:b.Given], uint64(addr), func(a uint64) (string, uint64, bool) {
			s, ok := v.Symbol(a)
			return s.Name, s.Addr, ok
		})
		length = C.int(len(inst.Bytes))
		n := min(len(inst.Text), len(dst)-1)
		for i := range n {
			dst[i] = C.char(inst.Text[i])
		}
		if len(dst) > 0 {
			dst[n] = 0
		}
		return nil
	})
	if err != nil {
		return result(err)
	}
	return length
}

//export trgo_standing_name
func trgo_standing_name(i C.int) *C.char { return C.CString(timeline.Standing(i).String()) }

//export trgo_reason
func trgo_reason(i C.int) *C.char { return C.CString(timeline.Reason(i).String()) }
