// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/textreplay/textreplay/internal/mapfile"
)

// A stampedFile is an input file of an image, as it was when it was opened.
type stampedFile struct {
	what, path string
	info       fs.FileInfo // nil if it does not exist
}

// stampedFiles returns the input files of the image.
func (r *Replay) stampedFiles() []stampedFile {
	var files []stampedFile
	for i, path := range r.Recording.Files() {
		files = append(files, stampedFile{"data", path, r.Recording.FileInfo(i)})
	}
	for _, info := range r.Recording.EarlyFiles() {
		files = append(files, stampedFile{"early " + info.Name(), filepath.Join(r.Recording.Dir(), info.Name()), info})
	}
	if r.Snapshot != nil {
		for _, name := range snapshotFiles {
			files = append(files, stampedFile{name, filepath.Join(r.Snapshot.Dir(), name), r.Snapshot.FileInfo(name)})
		}
	}
	for i := range r.copies {
		if c := &r.copies[i]; c.journaled {
			for _, name := range snapshotFiles {
				files = append(files, stampedFile{name, filepath.Join(c.Dir(), name), c.FileInfo(name)})
			}
		}
	}
	return append(files, r.given...)
}

// inMemory reports whether the recording or a part of the snapshot was not opened from a file.
func (r *Replay) inMemory() bool {
	files := r.Recording.Files()
	for i := range files {
		if r.Recording.FileInfo(i) == nil {
			return true
		}
	}
	s := r.Snapshot
	return len(files) == 0 || s != nil && (s.Core != nil && s.FileInfo("kcore") == nil ||
		s.Kallsyms != nil && s.FileInfo("kallsyms") == nil || s.Modules != nil && s.FileInfo("modules") == nil)
}

// stampOf returns a hash that identifies the recording, the options and the program
// that makes the image. It describes the open files, whatever their paths name
// by now.
func (r *Replay) stampOf(opts *Options) (stamp [sha256.Size]byte, err error) {
	if r.inMemory() {
		return stamp, indexErrorf("the recording or its copy of the kernel is not in files, and could not be recognized")
	}
	build, err := program()
	if err != nil {
		return stamp, indexErrorf("this program cannot be identified: %v", err)
	}
	var sum []byte
	text := func(format string, args ...any) { sum = append(fmt.Appendf(sum, format, args...), '\n') }
	text("program %s", build)
	text("guest %d", opts.Guest)
	text("cpus %d", opts.CPUs)
	text("undated %v", r.undated)
	buf := make([]byte, stampEnds)
	for _, f := range r.stampedFiles() {
		content, err := f.sample(buf)
		if err != nil {
			return stamp, err
		}
		text("%s %s", f.what, content)
	}
	for _, w := range opts.Explicit {
		text("window %d %d %d %q %x %x", w.Addr, w.From, w.To, w.Method, w.Before, w.After)
	}
	return sha256.Sum256(sum), nil
}

// The parts of a file that sample reads: the beginning, the end, and some places
// between.
const (
	stampEnds   = 16 << 10
	stampPiece  = 4 << 10
	stampPieces = 16
)

// sample describes a file by what stat says and by parts of its content. It uses all of
// the content if stat cannot show every change. The hash need not stand against attacks. buf
// is scratch.
func (f *stampedFile) sample(buf []byte) (string, error) {
	if f.info == nil {
		return "is not there", nil
	}
	if !f.info.Mode().IsRegular() {
		return "", indexErrorf("%s is not a regular file, and could not be recognized", f.path)
	}
	file, info, err := mapfile.Regular(f.path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if err := f.same(info, nil); err != nil {
		return "", err
	}
	h := xxhash.New()
	part := func(off, n int64) {
		if _, e := io.CopyBuffer(h, io.NewSectionReader(file, off, n), buf); err == nil {
			err = e
		}
	}
	size := f.info.Size()
	id, exact := identityOf(f.info)
	if !exact {
		part(0, size)
	} else {
		part(0, stampEnds)
		if size > 2*stampEnds {
			for i := range int64(stampPieces) {
				part(stampEnds+(size-2*stampEnds)/stampPieces*i, stampPiece)
			}
		}
		part(max(size-stampEnds, stampEnds), stampEnds)
	}
	return fmt.Sprintf("%s %016x", id, h.Sum64()), err
}

// same returns an error unless now describes the file that was opened, unchanged.
func (f *stampedFile) same(now fs.FileInfo, err error) error {
	if err != nil {
		return err
	}
	before, _ := identityOf(f.info)
	if after, _ := identityOf(now); !os.SameFile(f.info, now) || before != after {
		return indexErrorf("%s has changed since it was opened", f.path)
	}
	return nil
}

// unchanged returns an error if an input file of the image has changed, or if its path
// names another file now.
func (r *Replay) unchanged() error {
	for _, f := range r.stampedFiles() {
		if f.info == nil {
			continue
		}
		if err := f.same(os.Stat(f.path)); err != nil {
			return err
		}
	}
	return nil
}

// timestampTick is longer than the resolution of times in file systems.
const timestampTick = 20 * time.Millisecond

// settle waits until a change of any input file would change its times. Of two changes in
// one clock tick, the second does not show.
func (r *Replay) settle() {
	var wait time.Duration
	for _, f := range r.stampedFiles() {
		if f.info != nil {
			wait = max(wait, min(timestampTick-time.Since(changedAt(f.info)), timestampTick))
		}
	}
	time.Sleep(wait)
}
