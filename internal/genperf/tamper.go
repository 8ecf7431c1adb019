// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/perfdata"
)

// Tamper copies the recording in directory src to dst, with changes of kernel text that
// the recorded kernel did not make: it adds a record for each of add, and leaves out
// those that drop returns true for. An added record comes right after the newest text
// poke up to its time, and has that one's CPU and thread. It is left out if there is no such
// poke, and written again after each further poke of that time.
func Tamper(dst, src string, add []perfdata.TextPoke, drop func(*perfdata.TextPoke) bool) error {
	if err := os.CopyFS(filepath.Join(dst, "kcore_dir"), os.DirFS(filepath.Join(src, "kcore_dir"))); err != nil {
		return err
	}
	rec, err := perfdata.Open(src)
	if err != nil {
		return err
	}
	defer rec.Close()
	f, err := os.Create(filepath.Join(dst, "data"))
	if err != nil {
		return err
	}
	return errors.Join(tamper(f, rec, add, drop), f.Close())
}

// tamper writes the records of Tamper to f.
func tamper(f io.WriteSeeker, rec *perfdata.Recording, add []perfdata.TextPoke, drop func(*perfdata.TextPoke) bool) error {
	// The times of the pokes that the added ones follow.
	after := make([]uint64, len(add))
	var p perfdata.TextPoke
	for s := rec.Scan(perfdata.Only(perfdata.RecordTextPoke)); s.Next(); {
		if rec.TextPoke(s.Record(), &p) != nil {
			continue
		}
		for i := range add {
			if p.Time <= add[i].Time {
				after[i] = max(after[i], p.Time)
			}
		}
	}
	w := perfdata.NewWriter(f, rec.ByteOrder())
	if err := w.SetEvents(rec.Events()); err != nil {
		return err
	}
	for s := rec.Scan(); s.Next(); {
		r := s.Record()
		isPoke := r.Type == perfdata.RecordTextPoke && rec.TextPoke(r, &p) == nil
		if !isPoke || drop == nil || !drop(&p) {
			if err := w.WriteRecord(bytes.Clone(r.Raw)); err != nil {
				return err
			}
		}
		for i := range add {
			if !isPoke || p.Time != after[i] {
				continue
			}
			n := add[i]
			n.SampleID = p.SampleID
			n.Time = add[i].Time
			if err := w.TextPoke(&n); err != nil {
				return err
			}
		}
	}
	for _, feature := range rec.Features() {
		data, err := rec.Feature(feature)
		if err == nil {
			err = w.WriteFeature(feature, data)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}
