// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// decodeWholly decodes a record, a sample to its end, and returns what is left over.
func decodeWholly(r *Recording, rec *Record) (rest int, err error) {
	v, err := r.Decode(rec)
	if err != nil {
		return 0, err
	}
	s, ok := v.(*Sample)
	if !ok {
		return 0, nil
	}
	if err := readSample(s); err != nil {
		return 0, err
	}
	b, err := s.Rest()
	return len(b), err
}

// readSample asks a sample for everything, and follows every list.
func readSample(s *Sample) error {
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	values, err := s.Read()
	note(err)
	for range values.All() {
	}
	ips, err := s.Callchain()
	note(err)
	ips.AppendTo(nil)
	raw, err := s.Raw()
	note(err)
	_ = fmt.Sprint(raw)
	branches, err := s.BranchStack()
	note(err)
	for range branches.All() {
	}
	for _, f := range []func() (Regs, error){s.UserRegs, s.IntrRegs} {
		regs, err := f()
		note(err)
		for reg := range 64 {
			regs.Value(reg)
		}
	}
	for _, f := range []func() ([]byte, error){s.UserStack, s.Aux, s.Rest} {
		b, err := f()
		note(err)
		_ = fmt.Sprint(len(b))
	}
	_, err = s.Weight()
	note(err)
	_, err = s.DataSrc()
	note(err)
	for _, f := range []func() (uint64, error){s.Transaction, s.PhysAddr, s.Cgroup, s.DataPageSize, s.CodePageSize} {
		_, err := f()
		note(err)
	}
	return errors.Join(errs...)
}

// TestFixturesWholly decodes every record of other projects' recordings to its
// last byte, and all their features.
func TestFixturesWholly(t *testing.T) {
	root := "../../shared/fixtures"
	if !exists(root) {
		t.Skip("the recordings of other projects are not beside this repository")
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == root {
			return err
		}
		t.Run(d.Name(), func(t *testing.T) { wholly(t, path) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCorpusWholly does the same to the smaller recordings of real kernels.
func TestCorpusWholly(t *testing.T) {
	for _, name := range []string{"x86_64/small", "x86_64/smalldup", "x86_64/local", "x86_64/hotplug", "x86_64/modfull", "x86_64/task", "s390x/rich", "arm64/local"} {
		t.Run(name, func(t *testing.T) { wholly(t, corpus(t, name)) })
	}
}

func wholly(t *testing.T, path string) {
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, v := range values(r) {
		if strings.HasPrefix(v, "error") {
			t.Errorf("%s: %s", name, v)
		}
	}
	src := r.BPFSource()
	for p, err := range r.BPFProgs() {
		if err != nil {
			t.Error(err)
			continue
		}
		names, err := src.FuncNames(p)
		if err != nil || len(names) != int(p.FuncInfo.Count) {
			t.Errorf("program %d: names %q, %v", p.ID, names, err)
		}
		lines, err := src.Lines(p)
		if err != nil || len(lines) != int(p.LineInfo.Count) {
			t.Errorf("program %d: %d lines, %v", p.ID, len(lines), err)
		}
	}
	n, bad := 0, 0
	s := r.Scan()
	for s.Next() {
		n++
		if rest, err := decodeWholly(r, s.Record()); err != nil || rest != 0 {
			if bad++; bad <= 5 {
				t.Errorf("%v at %d: %d bytes left, %v", s.Record().Type, s.Record().Offset, rest, err)
			}
		}
	}
	if bad > 5 {
		t.Errorf("%d of %d records", bad, n)
	}
	if err := s.Err(); err != nil && !strings.Contains(path, "corrupted") {
		t.Error(err)
	}
}
