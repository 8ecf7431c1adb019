// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
)

// A ring is the ring buffer of one CPU. The kernel writes records at head, and the
// recorder takes them from tail (struct perf_event_mmap_page):
//
//	|  free  | records not yet taken |  free  |
//	         tail                    head
type ring struct {
	cpu    int
	fds    []int // of the events that write into it; the first one owns it
	ids    []uint64
	lost   []uint64 // of each event: how many lost records countLost has written
	mem    []byte
	page   *unix.PerfEventMmapPage
	data   []byte
	last   uint64 // time of the newest record that was taken, in ns
	opened uint64 // when its events were open, in ns
	wrap   []byte // a record that lies across the end of data
	cut    []byte // a record without what is behind its trailer
	read   uint64 // bytes read since the pages of data were last unmapped from this process
	waker  *ring  // wakes the recorder; nil if each record does
}

func mapRing(fd, cpu, pages int) (*ring, error) {
	mem, err := unix.Mmap(fd, 0, (1+pages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the ring buffer of CPU %d, %d pages: %w", cpu, pages, err)
	}
	r := &ring{cpu: cpu, mem: mem, page: (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0]))}
	r.data = mem[os.Getpagesize():]
	return r, nil
}

const recordHeader = 8 // struct perf_event_header: u32 type, u16 misc, u16 size

// take calls record for each record that the kernel has written by now, and gives their
// room back. A record is valid during the call. If record fails, take returns its error, and the
// records stay in the buffer.
func (r *ring) take(record func(raw []byte) error) error {
	head := atomic.LoadUint64(&r.page.Data_head)
	tail := r.page.Data_tail // only we write it
	size, first := uint64(len(r.data)), tail
	for tail < head {
		at := tail % size
		n := uint64(binary.NativeEndian.Uint16(r.data[at+6:])) // records are aligned to 8: no header wraps around
		if n < recordHeader || n > head-tail {
			return fmt.Errorf("the ring buffer of CPU %d has a record of %d bytes", r.cpu, n)
		}
		raw := r.data[at:min(at+n, size)]
		if uint64(len(raw)) < n {
			r.wrap = append(append(r.wrap[:0], raw...), r.data[:n-uint64(len(raw))]...)
			raw = r.wrap
		}
		if err := record(raw); err != nil {
			return err
		}
		tail += n
	}
	atomic.StoreUint64(&r.page.Data_tail, tail)
	if r.read += head - first; r.read >= keptBytes {
		// The pages remain the kernel's; this process maps them again when it reads them. A
		// kernel that has mapped all of them from the beginning does not count them as memory
		// of the process, and refuses.
		r.read = 0
		unix.Madvise(r.data, unix.MADV_DONTNEED)
	}
	return nil
}

// trimmed returns a record without what is behind its trailer. With several recorders, the kernel
// makes TEXT_POKE, KSYMBOL and BPF_EVENT records of some of them longer than needed:
// perf_event_text_poke and its siblings raise header.size once more for each event. What is there
// are bytes of no meaning. perf looks for the id of a record's event at its end, and does not read on
// if it is none. The result is valid until the next call.
func (r *ring) trimmed(raw []byte) []byte {
	at, ok := perfdata.TrailerAt(raw, trailerSize)
	if !ok || at+trailerSize == len(raw) {
		return raw
	}
	r.cut = append(r.cut[:0], raw[:at+trailerSize]...)
	binary.NativeEndian.PutUint16(r.cut[6:], uint16(len(r.cut)))
	return r.cut
}

// keptBytes is how many bytes of a ring buffer may be mapped as memory of this process.
const keptBytes = 256 << 10

// sampledIn reports whether a record that was not taken yet is a sample of [from, to].
func (r *ring) sampledIn(from, to uint64) bool {
	head := atomic.LoadUint64(&r.page.Data_head)
	size := uint64(len(r.data))
	word := func(at uint64) uint64 { return binary.NativeEndian.Uint64(r.data[at%size:]) }
	for at := r.page.Data_tail; at < head; {
		n := uint64(binary.NativeEndian.Uint16(r.data[at%size+6:]))
		if n < recordHeader || n > head-at {
			return true // take says what is wrong
		}
		typ := perfdata.RecordType(binary.NativeEndian.Uint32(r.data[at%size:]))
		if t := word(at + sampleTime); typ == perfdata.RecordSample && n >= sampleRaw && from <= t && t <= to {
			return true
		}
		at += n
	}
	return false
}

// empty gives back the room of all records that the kernel has written by now.
func (r *ring) empty() { atomic.StoreUint64(&r.page.Data_tail, atomic.LoadUint64(&r.page.Data_head)) }

func (r *ring) close() {
	if r.waker != nil {
		r.waker.close()
		r.waker = nil
	}
	if r.mem != nil {
		unix.Munmap(r.mem)
		r.mem, r.page, r.data = nil, nil, nil
	}
	for _, fd := range r.fds {
		unix.Close(fd)
	}
	r.fds = nil
}
