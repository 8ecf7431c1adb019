// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
)

// A stamper takes what an image is made of, to know it again.
type stamper struct {
	sum []byte
	err error
}

// text adds a line.
func (s *stamper) text(format string, args ...any) {
	s.sum = append(fmt.Appendf(s.sum, format, args...), '\n')
}

// The parts of a file that are looked at: its beginning and end, and some places
// between.
const (
	stampEnds   = 16 << 10
	stampPiece  = 4 << 10
	stampPieces = 16
)

// file adds a file: its size, time of change and parts of its content. One that
// does not exist is a fact too.
func (s *stamper) file(what, path string) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.text("%s is not there", what)
		return
	}
	if err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	h := sha256.New()
	part := func(off, n int64) {
		if _, err := io.Copy(h, io.NewSectionReader(f, off, n)); err != nil {
			s.err = errors.Join(s.err, err)
		}
	}
	size := fi.Size()
	part(0, stampEnds)
	if size > 2*stampEnds {
		for i := range int64(stampPieces) {
			part(stampEnds+(size-2*stampEnds)/stampPieces*i, stampPiece)
		}
	}
	part(max(size-stampEnds, stampEnds), stampEnds)
	s.text("%s %d %d %x", what, size, fi.ModTime().UnixNano(), h.Sum(nil))
}

// stampOf returns what tells the recording and the options of a replay, and the
// program that made the image, from others.
func stampOf(rec *perfdata.Recording, opts *Options) ([sha256.Size]byte, error) {
	s := &stamper{}
	s.text("program %s", builtFrom())
	s.text("report %s", signature(reflect.TypeFor[indexMeta]()))
	s.text("guest %d", opts.Guest)
	s.text("cpus %d", opts.CPUs)
	for _, name := range rec.Files() {
		s.file("data", name)
	}
	dir := opts.KCore
	if dir == "" {
		dir = snapshotDir(rec, *opts)
	}
	if dir != "" {
		for _, name := range []string{"kcore", "kallsyms", "modules"} {
			s.file(name, filepath.Join(dir, name))
		}
	}
	for _, f := range []struct{ what, path string }{{"kallsyms", opts.Kallsyms}, {"modules", opts.Modules}} {
		if f.path != "" {
			s.file("given "+f.what, f.path)
		}
	}
	for _, w := range opts.Explicit {
		s.text("window %d %d %d %q %x %x", w.Addr, w.From, w.To, w.Method, w.Before, w.After)
	}
	return sha256.Sum256(s.sum), s.err
}

// builtFrom names the build: another one may have other rules.
func builtFrom() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var b strings.Builder
	for _, m := range append(info.Deps, &info.Main) {
		if strings.HasPrefix(m.Path, "github.com/textreplay/textreplay") {
			fmt.Fprintf(&b, "%s %s %s", m.Path, m.Version, m.Sum)
		}
	}
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") {
			fmt.Fprintf(&b, " %s", s.Value)
		}
	}
	return b.String()
}

// signature describes a type with all types in it.
func signature(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		var b strings.Builder
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(&b, "%s %s;", f.Name, signature(f.Type))
		}
		return "{" + b.String() + "}"
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return t.Kind().String() + " " + signature(t.Elem())
	case reflect.Map:
		return "map " + signature(t.Key()) + " " + signature(t.Elem())
	}
	return t.Kind().String()
}
