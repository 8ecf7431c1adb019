// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
)

// The kernel records that a BPF trampoline exists, and not its code. The recorder reads
// the code from memory when a poke makes a place branch to the trampoline, or when the thread that
// makes it has made a poke: by then the kernel has written all of it (bpf_trampoline_update() of
// kernel/bpf/trampoline.c).
//
// Kernels that record no pokes have samples of probes instead. Some of them are of the writing of the
// trampoline itself, and the recorder does not know which. So it reads the trampoline again when its
// thread has changed something again, and the reader of the recording takes a copy that was made after a
// change of kernel text.

// imagePrefix begins the names of the BPF images that are read. The code of a dispatcher
// changes without a record, so a read of it would prove nothing.
const imagePrefix = "bpf_trampoline_"

// images are the registered BPF trampolines whose code was not read yet.
type images struct {
	unread map[uint64]image  // by address
	births []uint64          // addresses of those whose code is complete now
	pokes  map[uint32]uint64 // time of the newest poke of each thread; emptied at keptPokes
}

// An image is a trampoline whose code was not read yet.
type image struct {
	len  uint64 // that its symbol has, in bytes
	time uint64 // of its symbol
	tid  uint32 // the thread that writes its code
	done bool   // it is among the births
	// Where changes are samples: whether it was to be read, and how many times its code was read.
	tried bool
	reads int
}

// Where changes are samples, the code of a trampoline is read up to maxReads times, for changes up to
// readAgain (ns) behind its symbol. A thread makes the function call its trampoline at once.
const (
	maxReads  = 16
	readAgain = 10e9
)

// keptPokes is the number of threads at which images.pokes is emptied. The pokes are kept beyond
// a round: the records of one CPU are taken after those of another, so that a poke may be taken
// before the symbol that is older.
const keptPokes = 64

// symbol takes a KSYMBOL record of a thread, made at a time (ns), which registers or unregisters a
// trampoline.
func (m *images) symbol(raw []byte, tid uint32, time uint64) {
	order := binary.NativeEndian
	if len(raw) < 24 || order.Uint16(raw[20:]) != ksymbolBPF {
		return
	}
	addr, n := order.Uint64(raw[8:]), uint64(order.Uint32(raw[16:]))
	name, _, _ := bytes.Cut(raw[24:], []byte{0})
	switch {
	case !bytes.HasPrefix(name, []byte(imagePrefix)):
	case order.Uint16(raw[22:])&ksymbolUnregister != 0:
		delete(m.unread, addr)
	default:
		x := image{len: n, time: time, tid: tid}
		if x.done = x.tid != 0 && m.pokes[x.tid] > x.time; x.done {
			m.births = append(m.births, addr)
		}
		m.unread[addr] = x
	}
}

// writerOf returns the thread that made a record, not a sample, and its time, from the trailer.
// Both are 0 if raw is too short.
func writerOf(raw []byte) (tid uint32, time uint64) {
	at, ok := perfdata.TrailerAt(raw, trailerSize)
	if !ok {
		return 0, 0
	}
	end := raw[at:][:trailerSize]
	return binary.NativeEndian.Uint32(end[4:]), binary.NativeEndian.Uint64(end[8:])
}

// Values of the fields ksym_type and flags of struct perf_record_ksymbol.
const (
	ksymbolBPF        = 1
	ksymbolUnregister = 1 << 0
)

// poke takes a TEXT_POKE record of a thread, made at a time (ns), which may make a place branch to
// a trampoline. A thread makes no poke between the symbol of its trampoline and the end of the
// code. So a later poke of the thread shows that the code is complete. That also holds if no place
// branches to the trampoline because ftrace traces the function too.
func (m *images) poke(raw []byte, tid uint32, time uint64) {
	order := binary.NativeEndian
	if len(raw) < 20 {
		return
	}
	m.changed(tid, time)
	const branchLen = 5 // CALL rel32, JMP rel32
	if len(m.unread) == 0 || order.Uint16(raw[18:]) != branchLen {
		return
	}
	at := 20 + int(order.Uint16(raw[16:]))
	if len(raw) < at+branchLen || raw[at]&0xfe != 0xe8 {
		return
	}
	target := order.Uint64(raw[8:]) + branchLen + uint64(int64(int32(order.Uint32(raw[at+1:]))))
	if _, ok := m.unread[target]; ok {
		m.births = append(m.births, target)
	}
}

// changed takes a change of text by a thread, made at a time (ns), which may show that its
// trampolines are complete.
func (m *images) changed(tid uint32, time uint64) {
	if len(m.pokes) >= keptPokes || m.pokes == nil {
		m.pokes = make(map[uint32]uint64)
	}
	m.pokes[tid] = max(m.pokes[tid], time)
	for addr, x := range m.unread {
		switch {
		case x.tried && x.time+readAgain < time:
			delete(m.unread, addr)
		case x.tid == tid && tid != 0 && x.time <= time && !x.done:
			x.done = true
			m.unread[addr] = x
			m.births = append(m.births, addr)
		}
	}
}

// readImages reads the code of the trampolines that is complete now.
func (r *Recorder) readImages() error {
	births := r.images.births
	r.images.births = births[:0]
	for _, addr := range births {
		x, ok := r.images.unread[addr]
		if !ok {
			continue // two places branch to it, or it is gone
		}
		delete(r.images.unread, addr)
		if !x.tried {
			r.stats.Images++
		}
		read, err := r.readImage(addr, x.len)
		if err != nil {
			return err
		}
		x.tried, x.done = true, false
		if read {
			if x.reads++; x.reads == 1 {
				r.stats.ImagesRead++
			}
		}
		if !emitsPokes() && x.reads < maxReads {
			r.images.unread[addr] = x
		}
	}
	return nil
}

// readImage reads the code of a trampoline into the journal. It reports whether it could.
func (r *Recorder) readImage(addr, n uint64) (read bool, err error) {
	if r.mem == nil || n == 0 || n > maxImage {
		return false, nil
	}
	code := make([]byte, n)
	b := journal.Bytes{Addr: journal.Addr(addr), From: now()}
	err = r.mem.read(code, addr)
	b.To = now()
	if err != nil {
		return false, nil // it is gone, or kcore does not show its address: its bytes are unknown
	}
	// After the code are older contents of the memory.
	end, ok := patching.CodeEnd(r.mem.machine, code)
	if !ok {
		return false, nil
	}
	b.Data = code[:end]
	r.size += int64(2 * end)
	return true, journal.Append(r.journal, &journal.Entry{Bytes: &b})
}

// maxImage is more bytes than the code of any trampoline has: the symbol says one page.
const maxImage = 1 << 14

// readListed reads the code of the trampolines that were there when the first copy of a
// piece was made. The copy shows which places branch to them.
func (r *Recorder) readListed(dir string) error {
	f, err := os.Open(filepath.Join(r.dir, dir, "kallsyms"))
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f) // as ADDRESS TYPE NAME [MODULE]
	for lines.Scan() {
		if !bytes.HasSuffix(lines.Bytes(), []byte("[bpf]")) {
			continue
		}
		fields := bytes.Fields(lines.Bytes())
		if len(fields) != 4 || !bytes.HasPrefix(fields[2], []byte(imagePrefix)) {
			continue
		}
		addr, err := strconv.ParseUint(string(fields[0]), 16, 64)
		if err != nil {
			continue
		}
		delete(r.images.unread, addr)
		r.stats.Images++
		read, err := r.readImage(addr, uint64(os.Getpagesize()))
		if err != nil {
			return err
		}
		if read {
			r.stats.ImagesRead++
		}
	}
	return lines.Err()
}
