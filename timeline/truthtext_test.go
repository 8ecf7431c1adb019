// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestTruthOfText is TestTruth for a few bytes of kernel text: changes with their traps, copies
// that are made meanwhile, and losses. All CPUs have one clock.
func TestTruthOfText(t *testing.T) {
	checkTiny(t, nil, func(seed uint64) tinyHistory { return newTinyText(seed) })
}

// A tinyText is a few bytes of kernel text, and what is recorded of them.
type tinyText struct {
	*rand.Rand
	now    uint64
	bytes  []byte
	stores []tinyTextStore
	facts  []string
	before []string // that come first
	cpus   int
	last   []uint64 // time of each CPU's last record
	lossy  []uint64 // since when each CPU loses records, 0: it does not
	copied []tinyCopy
}

// A tinyTextStore is a write of the kernel's. A trap may be there instead of the first byte.
type tinyTextStore struct {
	at   uint64
	addr uint64
	data []byte
	trap bool
}

// A tinyCopy is a copy that is being made.
type tinyCopy struct {
	from, read uint64
	data       []byte
}

const (
	tinyText0 = 0x1100
	tinyTextN = 8
)

func newTinyText(seed uint64) *tinyText {
	w := &tinyText{Rand: rand.New(rand.NewPCG(seed, 98)), now: 1_000_000_000, cpus: 2}
	w.last, w.lossy = make([]uint64, w.cpus), make([]uint64, w.cpus)
	w.bytes = slices.Repeat([]byte{0x90}, tinyTextN)
	w.run()
	return w
}

func (w *tinyText) pause(least, most uint64) {
	span := least
	for span < most && w.IntN(3) > 0 {
		span *= 4
	}
	w.now += least + w.Uint64N(min(span, most)+1)
}

func (w *tinyText) store(addr uint64, data []byte, trap bool) {
	w.stores = append(w.stores, tinyTextStore{w.now, addr, slices.Clone(data), trap})
	copy(w.bytes[addr-tinyText0:], data)
}

// record makes a record of a CPU at this moment, unless it loses it.
func (w *tinyText) record(cpu int, format string, args ...any) {
	if w.lossy[cpu] > 0 {
		return
	}
	w.last[cpu] = w.now
	if format != "" {
		w.facts = append(w.facts, fmt.Sprintf(format, args...))
	}
}

// loses lets a CPU begin to lose records, or end.
func (w *tinyText) loses(cpu int) {
	if w.lossy[cpu] == 0 {
		w.lossy[cpu] = w.last[cpu]
		return
	}
	w.facts = append(w.facts, fmt.Sprintf("gap pokes %d..%d after-loss", w.lossy[cpu], w.now))
	w.lossy[cpu] = 0
	w.record(cpu, "")
}

func (w *tinyText) code(n int) []byte {
	forms := [][]byte{{0x90, 0x90, 0x90, 0x90}, {0xe8, 0x01, 0x02, 0x03}, {0xe8, 0x05, 0x02, 0x03}, {0xeb, 0x02, 0x02, 0x90}}
	return forms[w.IntN(len(forms))][:n]
}

func (w *tinyText) run() {
	for cpu := range w.cpus {
		w.now++
		w.record(cpu, "")
	}
	first := w.now - uint64(w.cpus) + 1
	w.pause(1e3, 1e8)
	copied := slices.Clone(w.bytes)
	var exec uint64
	for range 3 + w.IntN(14) {
		switch k := w.IntN(13); {
		case k < 7:
			w.poke()
		case k < 8:
			w.copy()
		case k < 9 && exec == 0:
			w.now++
			exec = w.now
		case k < 10:
			w.record(w.IntN(w.cpus), "")
		default:
			w.loses(w.IntN(w.cpus))
		}
		if exec == 0 && w.IntN(2) == 0 {
			copied = slices.Clone(w.bytes)
		}
		w.pause(1e3, 3e9)
	}
	if exec == 0 {
		exec = w.now
	}
	for cpu := range w.cpus {
		w.now += 1e3
		if w.lossy[cpu] > 0 {
			w.loses(cpu)
		}
		w.record(cpu, "")
	}
	w.end()
	w.before = []string{"text 0x1000..0x2000", fmt.Sprintf("extent %d..%d", first, w.now),
		fmt.Sprintf("snapshot %d..%d 0x1000..0x2000=90 %#x=%x", first, exec, tinyText0, copied)}
}

// poke changes an instruction, as text_poke_bp_batch does: a trap, the tail, the record, the first byte.
func (w *tinyText) poke() {
	cpu := w.IntN(w.cpus)
	n := 2 + w.IntN(3)
	addr := uint64(tinyText0)
	if w.IntN(3) == 0 {
		addr += 4
	}
	if w.IntN(6) == 0 {
		n = 1 // a probe is armed or disarmed
	}
	at := addr - tinyText0
	old := slices.Clone(w.bytes[at : at+uint64(n)])
	new := slices.Clone(w.code(n))
	switch {
	case n == 1 && old[0] == 0xcc:
		new = []byte{0x90}
	case n == 1:
		new = []byte{0xcc}
	case old[0] == 0xcc:
		return // a probe is there
	}
	if string(old) == string(new) {
		return
	}
	step := func() {
		w.pause(1e2, 1e6)
		if w.IntN(4) == 0 {
			w.copy()
		}
	}
	if n == 1 {
		if w.IntN(2) == 0 {
			w.record(cpu, "poke %d %#x %x -> %x cpu=%d", w.now, addr, old, new, cpu)
			w.store(addr, new, false)
		} else {
			w.store(addr, new, false)
			w.record(cpu, "poke %d %#x %x -> %x cpu=%d", w.now, addr, old, new, cpu)
		}
		return
	}
	w.store(addr, []byte{0xcc}, true)
	step()
	w.store(addr+1, new[1:], true)
	step()
	w.record(cpu, "poke %d %#x %x -> %x cpu=%d", w.now, addr, old, new, cpu)
	w.stores = append(w.stores, tinyTextStore{w.now, addr, new, false}) // from now on a CPU runs the new one or traps
	step()
	copy(w.bytes[at:], new)
}

// copy makes a further copy: all of it is read at one moment.
func (w *tinyText) copy() {
	if len(w.copied) > 3 {
		return
	}
	w.copied = append(w.copied, tinyCopy{from: w.now - w.Uint64N(1e6), read: w.now, data: slices.Clone(w.bytes)})
}

func (w *tinyText) end() {
	slices.SortFunc(w.copied, func(a, b tinyCopy) int { return cmp.Compare(a.from, b.from) })
	for _, c := range w.copied {
		w.facts = append(w.facts, fmt.Sprintf("copy %d..%d 0x1000..0x2000=90 %#x=%s", c.from, min(w.now, c.read+w.Uint64N(1e6)), tinyText0, hex.EncodeToString(c.data)))
	}
}

func (w *tinyText) history() string {
	var b strings.Builder
	for _, f := range append(slices.Clone(w.before), w.facts...) {
		fmt.Fprintln(&b, f)
	}
	for _, s := range w.stores {
		fmt.Fprintf(&b, "\t%d store %#x %x trap %v\n", s.at, s.addr, s.data, s.trap)
	}
	return b.String()
}

func (w *tinyText) check(t *testing.T) (fault string, known, all uint64) {
	im := imageOf(t, append(slices.Clone(w.before), w.facts...))
	for a := uint64(tinyText0); a < tinyText0+tinyTextN; a++ {
		var buf [1]byte
		for v := range im.Versions(a, buf[:], 0, MaxTime) {
			all++
			if v.Standing != Known {
				continue
			}
			known++
			was, since := byte(0x90), uint64(0)
			tell := func(end uint64) {
				if was != buf[0] && max(v.Since, since) < min(v.Until, end) && fault == "" {
					fault = fmt.Sprintf("at %#x: known %02x (%v) from %d until %d, but %02x at %d", a, buf[0], v.Standing, v.Since, v.Until, was, max(v.Since, since))
				}
			}
			for _, s := range w.stores {
				// While the trap is there, a CPU runs neither what is behind it nor the first byte.
				if !s.trap && s.addr <= a && a < s.addr+uint64(len(s.data)) && s.data[a-s.addr] != was {
					tell(s.at)
					was, since = s.data[a-s.addr], s.at
				}
			}
			tell(MaxTime)
		}
	}
	return fault, known, all
}
