// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// A variant is a recording with one file that was cut or damaged.
type variant struct {
	name string // "cut 17", "damage 3"
	file string // below the recording's path; "" where that is a file
	what string // what was done to it
	cut  bool
	data []byte // of the file
}

// files returns the names of a recording's files, below its path, the data
// files first.
func files(path string) (data, other []string, err error) {
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(p, path), "/")
		if base := filepath.Base(p); name == "" || strings.HasPrefix(base, "data") {
			data = append(data, name)
		} else {
			other = append(other, name)
		}
		return nil
	})
	return data, other, err
}

// rng returns the random numbers of one variant.
func (s *subject) rng(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(filepath.Base(filepath.Dir(s.path)) + " " + name))
	return rand.New(rand.NewPCG(h.Sum64(), s.seed))
}

// cutVariant cuts a data file at the i-th place.
func (s *subject) cutVariant(names []string, i int) (*variant, error) {
	v := &variant{name: fmt.Sprintf("cut %d", i), cut: true}
	r := s.rng(v.name)
	v.file = names[r.IntN(len(names))]
	data, err := os.ReadFile(filepath.Join(s.path, v.file))
	if err != nil {
		return nil, err
	}
	at := int((float64(i) + r.Float64()) / float64(s.n) * float64(len(data)))
	v.what, v.data = fmt.Sprintf("cut at %d of %d", at, len(data)), data[:at]
	return v, nil
}

// damageVariant damages one file: two times in three one with records.
func (s *subject) damageVariant(names, others []string, i int) (*variant, error) {
	v := &variant{name: fmt.Sprintf("damage %d", i)}
	r := s.rng(v.name)
	v.file = names[r.IntN(len(names))]
	if i%3 == 2 && len(others) > 0 {
		v.file = others[i/3%len(others)]
	}
	data, err := os.ReadFile(filepath.Join(s.path, v.file))
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		v.what = "an empty file"
		return v, nil
	}
	// Headers and tables are at the beginning: half of the damage is there.
	within := len(data)
	if r.IntN(2) == 0 {
		within = min(within, 1<<14)
	}
	v.what, v.data = damage(r, data, within)
	return v, nil
}

// extremes are the numbers that sizes and counts are made of.
var extremes = []uint64{0, 1, 7, 8, 0xff, 0xffff, 1 << 31, 1<<32 - 1, 1 << 63, 1<<64 - 1}

// damage changes data in the first so many bytes, in a way that r chooses.
func damage(r *rand.Rand, data []byte, within int) (what string, out []byte) {
	at := r.IntN(within)
	n := min(1+r.IntN(1<<r.IntN(17)), len(data)-at)
	switch r.IntN(7) {
	case 0:
		data[at] ^= byte(1 + r.IntN(255))
		return fmt.Sprintf("byte %d", at), data
	case 1:
		count := 1 + r.IntN(300)
		for range count {
			data[r.IntN(within)] = byte(r.IntN(256))
		}
		return fmt.Sprintf("%d bytes of the first %d", count, within), data
	case 2:
		at &^= 7
		word := binary.LittleEndian.AppendUint64(nil, extremes[r.IntN(len(extremes))])
		copy(data[at:], word)
		return fmt.Sprintf("the word at %d is %x", at, word), data
	case 3:
		clear(data[at : at+n])
		return fmt.Sprintf("%d zeros at %d", n, at), data
	case 4:
		for i := range data[at : at+n] {
			data[at+i] = byte(r.IntN(256))
		}
		return fmt.Sprintf("%d random bytes at %d", n, at), data
	case 5:
		return fmt.Sprintf("without %d bytes at %d", n, at), append(data[:at], data[at+n:]...)
	}
	twice := append(data[:at+n:at+n], data[at:]...)
	return fmt.Sprintf("%d bytes at %d twice", n, at), twice
}

// write makes the variant of the recording at path: what it has in common with
// that is linked.
func (v *variant) write(path, to string) error {
	if v.file == "" {
		return os.WriteFile(to, v.data, 0o600)
	}
	return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		switch made := filepath.Join(to, name); {
		case d.IsDir():
			return os.Mkdir(made, 0o700)
		case name == v.file:
			return os.WriteFile(made, v.data, 0o600)
		default:
			return os.Symlink(p, made)
		}
	})
}
