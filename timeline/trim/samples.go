// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import "github.com/textreplay/textreplay/perfdata"

// sampled calls mark for every address in the kept samples and their call
// chains, and for the byte before it: a return address is named by the byte
// before it.
func (c *cut) sampled(mark func(addr uint64)) {
	seen := make(map[uint64]bool)
	add := func(addr uint64) {
		if !seen[addr] {
			seen[addr] = true
			mark(addr)
			mark(addr - 1)
		}
	}
	var s perfdata.Sample
	sc := c.rec.Scan(perfdata.Only(perfdata.RecordSample))
	for sc.Next() {
		rec := sc.Record()
		var id perfdata.SampleID
		unread := c.rec.SampleID(rec, &id)
		if ok, err := c.keeps(rec, &id, unread); err != nil || !ok || c.rec.Sample(rec, &s) != nil {
			continue // records that cannot be read are the damage
		}
		add(s.IP)
		chain, err := s.Callchain()
		if err != nil {
			continue
		}
		for _, addr := range chain.All() {
			if addr < perfdata.CallchainContextMax {
				add(addr)
			}
		}
	}
}
