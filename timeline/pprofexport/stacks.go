// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// A stackCache finds the stack of a call chain by the words of the chain as they were
// recorded, and by the time: at another time, the addresses may be other functions. Nearly
// all samples are found in it.
type stackCache struct {
	seed, factor uint64
	slots        []uint32 // 1 + index in entries; 0 is a free one
	entries      []cachedStack
	words        []uint64
}

type cachedStack struct {
	hash     uint64
	from, to uint64 // the times for which stack is right: from <= t < to
	at       uint32 // index in words
	n        uint32
	stack    uint32
}

// The most that a stackCache holds: 64 MiB of words and 20 MiB of entries. Otherwise a
// recording whose stacks do not recur would fill the memory.
const (
	cacheWords   = 8 << 20
	cacheEntries = 1 << 19
)

func newStackCache() *stackCache {
	return &stackCache{seed: rand.Uint64(), factor: rand.Uint64() | 1<<63 | 1, slots: make([]uint32, 1<<10)}
}

func (c *stackCache) hash(words []uint64) uint64 {
	h := c.seed
	for _, w := range words {
		hi, lo := bits.Mul64(h^w, c.factor)
		h = hi ^ lo
	}
	return h
}

// find returns the stack of these words at the time t.
func (c *stackCache) find(hash uint64, words []uint64, t uint64) (stack uint32, ok bool) {
	mask := uint64(len(c.slots) - 1)
	for i := hash & mask; c.slots[i] != 0; i = (i + 1) & mask {
		e := &c.entries[c.slots[i]-1]
		if e.hash == hash && e.from <= t && t < e.to && slices.Equal(c.words[e.at:e.at+e.n], words) {
			return e.stack, true
		}
	}
	return 0, false
}

// add adds what find did not find.
func (c *stackCache) add(hash uint64, words []uint64, from, to uint64, stack uint32) {
	if len(c.entries) == cacheEntries || len(c.words)+len(words) > cacheWords {
		clear(c.slots)
		c.entries, c.words = c.entries[:0], c.words[:0]
	}
	c.entries = append(c.entries, cachedStack{hash, from, to, uint32(len(c.words)), uint32(len(words)), stack})
	c.words = append(c.words, words...)
	if 2*len(c.entries) > len(c.slots) {
		c.slots = make([]uint32, 2*len(c.slots))
		for i := range c.entries {
			c.place(i)
		}
		return
	}
	c.place(len(c.entries) - 1)
}

// place puts an entry into a slot.
func (c *stackCache) place(entry int) {
	mask := uint64(len(c.slots) - 1)
	i := c.entries[entry].hash & mask
	for c.slots[i] != 0 {
		i = (i + 1) & mask
	}
	c.slots[i] = uint32(entry) + 1
}

// A stackTable numbers stacks. A stack is a list of locations, encoded as in the profile.
type stackTable struct {
	seed  maphash.Seed
	slots []uint32 // 1 + number; 0 is a free one
	ends  []uint64 // the end of stack n in bytes; it begins where stack n-1 ends
	bytes []byte
}

func newStackTable() *stackTable {
	return &stackTable{seed: maphash.MakeSeed(), slots: make([]uint32, 1<<10)}
}

func (t *stackTable) len() int { return len(t.ends) }

func (t *stackTable) get(n uint32) []byte {
	start := uint64(0)
	if n > 0 {
		start = t.ends[n-1]
	}
	return t.bytes[start:t.ends[n]]
}

func (t *stackTable) id(stack []byte) uint32 {
	mask := uint64(len(t.slots) - 1)
	i := maphash.Bytes(t.seed, stack) & mask
	for ; t.slots[i] != 0; i = (i + 1) & mask {
		if n := t.slots[i] - 1; string(t.get(n)) == string(stack) {
			return n
		}
	}
	n := uint32(len(t.ends))
	t.slots[i] = n + 1
	t.bytes = append(t.bytes, stack...)
	t.ends = append(t.ends, uint64(len(t.bytes)))
	if 2*len(t.ends) > len(t.slots) {
		t.slots = make([]uint32, 2*len(t.slots))
		mask = uint64(len(t.slots) - 1)
		for n := range t.ends {
			i := maphash.Bytes(t.seed, t.get(uint32(n))) & mask
			for t.slots[i] != 0 {
				i = (i + 1) & mask
			}
			t.slots[i] = uint32(n) + 1
		}
	}
	return n
}
