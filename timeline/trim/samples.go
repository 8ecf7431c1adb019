// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import "github.com/textreplay/textreplay/perfdata"

// sampled calls mark for every address in the kept samples and their call
// chains, and for the byte before it: a return address is named by the byte
// before it.
func (c *cut) sampled(mark func(addr uint64)) error {
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
		if ok, err := c.keeps(rec); err != nil {
			return err
		} else if !ok {
			continue
		}
		if err := c.rec.Sample(rec, &s); err != nil {
			return err
		}
		chain, err := s.Callchain()
		if err != nil {
			return err
		}
		add(s.IP)
		for _, addr := range chain.All() {
			if addr < perfdata.CallchainContextMax {
				add(addr)
			}
		}
	}
	return nil // writeRecords reports damage that ends the scan
}
