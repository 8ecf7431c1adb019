// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/textreplay/textreplay/perfdata"
)

// The shape of what Profiled writes.
const (
	Stacks       = 100_000 // different call chains
	functions    = 60_000  // of the kernel, each of functionSize bytes
	functionSize = 256
	textStart    = 0xffffffff81000000
	processes    = 200
	threads      = 4 // of each process
	bpfStart     = 0xffffffffc0200000
	bpfPlaces    = 16  // at which BPF programs come and go
	bpfLife      = 5e9 // nanoseconds
	bpfSize      = 512
	binary0      = 0x555555554000
	libc0        = 0x7ffff7c00000
	start        = 1_000_000_000_000
)

// profiledEvent is an event that side-band comes with.
func profiledEvent() *perfdata.Event {
	ev := event()
	ev.Attr.Flags |= perfdata.FlagMmap2 | perfdata.FlagTask | perfdata.FlagCommExec | perfdata.FlagKSymbol |
		perfdata.FlagBPFEvent | perfdata.FlagTextPoke
	return ev
}

// A chain is a call chain with the process that it is of.
type chain struct {
	process uint32 // 0: of the kernel alone
	user    bool   // the sample is of user mode
	ips     []uint64
}

// Profiled writes a recording of n samples as a profiler of a busy machine
// takes them, 220 bytes each on average: of Stacks call chains, few are had
// often and many seldom (the k-th most frequent one with a weight of 1/k). Chains
// share their outer frames, belong to one process each, and run from the kernel
// into the process; some go through BPF programs, of which ever new ones take
// the places of others. The kernel's symbols are written to kallsyms.
func Profiled(out io.WriteSeeker, kallsyms io.Writer, n int, opts ...perfdata.WriterOption) error {
	if err := writeKallsyms(kallsyms); err != nil {
		return err
	}
	var rnd random
	chains := makeChains(&rnd)
	weights := make([]float64, len(chains))
	sum := 0.
	for k := range weights {
		sum += 1 / float64(k+1)
		weights[k] = sum
	}

	le := binary.LittleEndian
	ev := profiledEvent()
	w := perfdata.NewWriter(out, le, opts...)
	w.SetEvents([]*perfdata.Event{ev})
	w.Mmap(perfdata.RecordMMAP, perfdata.MiscKernel, &perfdata.Mmap{
		PID: 1<<32 - 1, Addr: textStart, Len: functions * functionSize, Pgoff: textStart,
		Filename: []byte("[kernel.kallsyms]_text"), SampleID: perfdata.SampleID{Event: ev},
	})
	for p := range uint32(processes) {
		pid := (p + 1) * 100
		for tid := pid; tid < pid+threads; tid++ {
			w.Comm(0, &perfdata.Comm{PID: pid, TID: tid, Comm: fmt.Appendf(nil, "proc%d/%d", p, tid-pid), SampleID: perfdata.SampleID{Event: ev}})
		}
		for _, m := range []perfdata.Mmap{
			{Addr: binary0, Len: 1 << 20, Filename: fmt.Appendf(nil, "/opt/made-up/bin/prog%d", p%20)},
			{Addr: libc0, Len: 2 << 20, Filename: []byte("/opt/made-up/lib/libc.so.6")},
		} {
			m.PID, m.TID, m.Prot, m.Flags = pid, pid, 5, 2
			m.SampleID = perfdata.SampleID{Event: ev}
			w.Mmap(perfdata.RecordMMAP2, perfdata.MiscUser, &m)
		}
	}

	var now [cpus]uint64
	for cpu := range now {
		now[cpu] = start + rnd.next()%50_000
	}
	programs := 0
	raw := make([]byte, 0, 1024)
	for end := uint64(start); n > 0; {
		end += round
		// Between rounds, BPF programs whose time it is are replaced.
		for ; start+uint64(programs)*bpfLife/bpfPlaces < end; programs++ {
			if err := replaceProgram(w, ev, programs); err != nil {
				return err
			}
		}
		for cpu := range uint64(cpus) {
			for drained := end + cpu*round/16; now[cpu] < drained && n > 0; n-- {
				r := rnd.next()
				now[cpu] += 17_000 + r>>48
				x := float64(rnd.next()>>11) / (1 << 53) * sum
				c := &chains[sort.SearchFloat64s(weights, x)]
				pid, tid := uint64(c.process), uint64(c.process)
				if pid != 0 {
					tid += r % threads
				}
				mode := uint16(perfdata.MiscKernel)
				if c.user {
					mode = perfdata.MiscUser
				}
				raw = raw[:0]
				raw = le.AppendUint32(raw, uint32(perfdata.RecordSample))
				raw = le.AppendUint16(raw, mode)
				raw = le.AppendUint16(raw, uint16(8*(8+len(c.ips))))
				raw = le.AppendUint64(raw, 100+cpu)
				raw = le.AppendUint64(raw, c.ips[1])
				raw = le.AppendUint64(raw, tid<<32|pid)
				raw = le.AppendUint64(raw, now[cpu])
				raw = le.AppendUint64(raw, cpu)
				raw = le.AppendUint64(raw, 4000+r>>8%1000)
				raw = le.AppendUint64(raw, uint64(len(c.ips)))
				for _, ip := range c.ips {
					raw = le.AppendUint64(raw, ip)
				}
				if err := w.WriteRecord(raw); err != nil {
					return err
				}
			}
		}
		w.FinishedRound()
	}
	return w.Close()
}

// replaceProgram lets the n-th BPF program take the place of one before it.
func replaceProgram(w *perfdata.Writer, ev *perfdata.Event, n int) error {
	addr := bpfStart + uint64(n%bpfPlaces)*bpfSize
	at := perfdata.SampleID{Time: start + uint64(n)*bpfLife/bpfPlaces, ID: ev.IDs[0], Event: ev}
	name := func(n int) []byte { return fmt.Appendf(nil, "bpf_prog_%016x_made_up", n) }
	if n >= bpfPlaces {
		gone := at
		gone.Time -= 1000
		w.KSymbol(&perfdata.KSymbol{Addr: addr, Len: bpfSize, Kind: 1, Flags: perfdata.KSymbolUnregister, Name: name(n - bpfPlaces), SampleID: gone})
	}
	return w.KSymbol(&perfdata.KSymbol{Addr: addr, Len: bpfSize, Kind: 1, Name: name(n), SampleID: at})
}

// makeChains makes the call chains, the most frequent one first.
func makeChains(rnd *random) []chain {
	// Of the kernel's functions 5,000 are in use, each called at a few places.
	text := func(r uint64) uint64 { return textStart + r%5000*12*functionSize + r>>32%8*16 + 5 }
	// Outer frames are few, inner ones many: each frame has some callees, of
	// which it calls the first ones most.
	const callees = 12
	callee := func(ip uint64) uint64 {
		r := random(ip)
		pick := int(math.Sqrt(float64(rnd.next() % (callees * callees))))
		for range callees - pick {
			r.next()
		}
		return text(r.next())
	}
	entries := make([]uint64, 50)
	for i := range entries {
		entries[i] = text(rnd.next())
	}
	chains := make([]chain, Stacks)
	for i := range chains {
		c := &chains[i]
		r := rnd.next()
		var kernel, user []uint64
		switch {
		case r%10 < 2: // a thread of the kernel
		case r%10 < 4:
			c.user = true
			fallthrough
		default:
			c.process = uint32(1+r>>8%processes) * 100
			ip := binary0 + uint64(c.process)*64%(1<<20)
			for range 3 + r>>16%12 {
				user = append(user, ip)
				place := rnd.next() % 4096
				if ip = binary0 + place*251; place%4 == 0 {
					ip = libc0 + place*509
				}
			}
		}
		if !c.user {
			ip := entries[r>>24%uint64(len(entries))]
			for range 4 + r>>32%14 {
				kernel = append(kernel, ip)
				ip = callee(ip)
			}
			if r>>40%50 == 0 {
				kernel[len(kernel)-1] = bpfStart + r>>48%bpfPlaces*bpfSize + 32
			}
		}
		// A chain has the innermost frame first.
		reverse := func(mark uint64, ips []uint64) {
			if len(ips) > 0 {
				c.ips = append(c.ips, mark)
			}
			for j := len(ips) - 1; j >= 0; j-- {
				c.ips = append(c.ips, ips[j])
			}
		}
		reverse(perfdata.CallchainKernel, kernel)
		reverse(perfdata.CallchainUser, user)
	}
	return chains
}

func writeKallsyms(out io.Writer) error {
	w := bufio.NewWriter(out)
	// perf takes kallsyms only where the symbol of the kernel's MMAP record is in it.
	for _, name := range []string{"_text", "_stext"} {
		fmt.Fprintf(w, "%016x T %s\n", uint64(textStart), name)
	}
	for i := range functions {
		fmt.Fprintf(w, "%016x t function_%05d\n", textStart+uint64(i)*functionSize, i)
	}
	fmt.Fprintf(w, "%016x T _etext\n", uint64(textStart+functions*functionSize))
	return w.Flush()
}
