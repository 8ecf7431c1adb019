// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// Anomalies counts unusual but readable records. Only those that Undecodable
// counts cannot be read.
type Anomalies struct {
	// Oversize counts records whose header claims more than content and trailer
	// have, as the kernel writes them for several listeners on a CPU; see
	// [TextPoke].
	Oversize map[RecordType]int
	// Duplicates counts records that equal an earlier one in every byte, time
	// and id included: perf wrote them twice. Only records of the kernel that
	// are not samples are counted.
	Duplicates map[RecordType]int
	// Synthesized counts records with a trailer whose time is 0: perf made them
	// itself, most of them to describe what was there when it began.
	Synthesized map[RecordType]int
	// Unknown counts records of types that this package does not know: vendors'
	// and those of newer perfs.
	Unknown map[RecordType]int
	// Undecodable counts records that cannot be decoded; Errors has the first
	// few errors.
	Undecodable int
	Errors      []error
	// SampleTypes are the different sample_types of the events. If there are
	// several, a record's trailer depends on the event that it names.
	SampleTypes []SampleType
}

const anomalyErrors = 8

// A recordSum is a 128-bit hash of a record's bytes.
type recordSum struct {
	a, b uint64
	typ  RecordType
}

// Anomalies reads and decodes all records. It needs 24 bytes of memory for each
// record of the kernel that is not a sample. The error is that of
// [Scanner.Err]; the counts are then those of the records that could be read.
func (r *Recording) Anomalies() (*Anomalies, error) {
	a := &Anomalies{
		Oversize: make(map[RecordType]int), Duplicates: make(map[RecordType]int),
		Synthesized: make(map[RecordType]int), Unknown: make(map[RecordType]int),
	}
	for _, ev := range r.events {
		if !slices.Contains(a.SampleTypes, ev.Attr.SampleType) {
			a.SampleTypes = append(a.SampleTypes, ev.Attr.SampleType)
		}
	}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	var sums []recordSum
	var id SampleID
	var sample Sample
	s := r.Scan()
	for s.Next() {
		rec := s.Record()
		if rec.Type == RecordSample {
			err := r.Sample(rec, &sample)
			if err == nil {
				_, err = sample.Rest()
			}
			a.undecodable(err)
			continue
		}
		if !rec.Type.known() {
			a.Unknown[rec.Type]++
			continue
		}
		v, err := r.Decode(rec)
		a.undecodable(err)
		if rec.Type >= firstUserRecord {
			continue
		}
		if oversize(v) > 0 {
			a.Oversize[rec.Type]++
		}
		if err := r.SampleID(rec, &id); err == nil && id.Has&SampleTime != 0 && id.Time == 0 {
			a.Synthesized[rec.Type]++
		}
		sums = append(sums, recordSum{maphash.Bytes(seeds[0], rec.Raw), maphash.Bytes(seeds[1], rec.Raw), rec.Type})
	}
	slices.SortFunc(sums, func(x, y recordSum) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) })
	for i := 1; i < len(sums); i++ {
		if sums[i] == sums[i-1] {
			a.Duplicates[sums[i].typ]++
		}
	}
	return a, s.Err()
}

func (a *Anomalies) undecodable(err error) {
	if err == nil {
		return
	}
	a.Undecodable++
	if len(a.Errors) < anomalyErrors {
		a.Errors = append(a.Errors, err)
	}
}

// oversize returns the Excess of a decoded record, in bytes; 0 for types without one.
func oversize(v any) int {
	switch v := v.(type) {
	case *TextPoke:
		return v.Excess
	case *KSymbol:
		return v.Excess
	case *BPFEvent:
		return v.Excess
	}
	return 0
}

// known reports whether this package knows the type.
func (t RecordType) known() bool {
	return int64(t) < int64(len(recordNames)) && recordNames[t] != ""
}
