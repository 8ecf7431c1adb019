// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package outfile writes the files that a run of the program leaves behind. It
// is the one place that decides how:
//
//   - An output that is an input of the same run, or is inside one, is refused,
//     by whatever name it is called: see [RefusedError].
//   - An output appears under its name when it is complete, or not at all. It is
//     written to a temporary file in the same directory, synced, and renamed.
//     A new directory is made in the same way.
//   - The group and others can read an output only if they can read every input.
//   - A signal that ends the program removes what is not complete, if the program
//     has called [RemoveOnSignals].
//
// Pipes, devices, the standard streams (/dev/stdout) and the open files of a
// process (/dev/fd/3) are written in place, as a shell redirection does.
//
// A command names its inputs, reserves its outputs before it starts to work, and
// writes them at the end:
//
//	var out outfile.Outputs
//	out.Reads("perf.data")
//	if err := out.Reserve("text.elf"); err != nil { ... }
//	...
//	err := out.WriteFile("text.elf", func(w io.Writer) error { ... })
package outfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/textreplay/textreplay/internal/pathname"
)

// Outputs are the outputs of one run of the program, with the inputs that they
// must not harm. The zero value has no inputs. It is for one goroutine.
type Outputs struct {
	// Std are the standard streams that an output may name by a path such as
	// /dev/stdout. Such an output is written to the stream itself.
	Std []*os.File
	// Unsynced leaves out fsync. It is for files that carry a checksum and can be
	// made again.
	Unsynced bool
	// Private leaves out the permission to write for all but the owner, whatever the
	// umask says. It is for files that will be believed when they are read again.
	Private bool

	inputs   []input
	reserved []target
	dirs     map[string][]element // see elements
}

// An input is a file or directory that must not be written to.
type input struct {
	name string
	info fs.FileInfo
	// path are the input itself and all directories above it, without symbolic
	// links. They decide who can read the input. It is empty for an input that
	// says nothing about the outputs' modes.
	path []element
}

// An element is a file or directory of a path.
type element struct {
	path string
	info fs.FileInfo
}

// Reads names a file or directory that the run reads. Outputs are refused if they
// are this file, or inside this directory, and are not more readable than it.
// Of a directory, the files that the run reads must be named too, because they can
// be less readable. What does not exist, and what is neither a file nor a
// directory, is left out.
func (o *Outputs) Reads(name string) {
	if in, ok := inputOf(name); ok {
		if in.path = o.elements(name); in.path == nil {
			in.path = []element{{name, in.info}} // an open file that has no name any more
		}
		o.inputs = append(o.inputs, in)
	}
}

// ReadsFile is Reads for an open file. Only its own mode is looked at.
func (o *Outputs) ReadsFile(f *os.File) {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		o.inputs = append(o.inputs, input{name: f.Name(), info: info, path: []element{{f.Name(), info}}})
	}
}

// Spares names a file or directory that no output may overwrite, although the outputs hold
// nothing of it.
func (o *Outputs) Spares(name string) {
	if in, ok := inputOf(name); ok {
		o.inputs = append(o.inputs, in)
	}
}

// inputOf returns an input that says nothing about modes; ok is false if it is neither a file
// nor a directory.
func inputOf(name string) (in input, ok bool) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return input{}, false
	}
	return input{name: name, info: info}, true
}

// elements returns what stat says of a path without symbolic links, from its last
// element up to the root. Directories that inputs share are looked at once.
func (o *Outputs) elements(name string) []element {
	path, err := filepath.Abs(pathname.Plain(name))
	if err != nil {
		return nil
	}
	dir, base := filepath.Split(path)
	above, seen := o.dirs[dir]
	if !seen {
		if o.dirs == nil {
			o.dirs = make(map[string][]element)
		}
		above = elements(dir)
		o.dirs[dir] = above
	}
	if len(above) > 0 && base != "" {
		path = filepath.Join(above[0].path, base)
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return append([]element{{path, info}}, above...)
		}
	}
	return elements(path)
}

// elements is Outputs.elements for an absolute path.
func elements(path string) (out []element) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	for {
		info, err := os.Stat(path)
		if err == nil {
			out = append(out, element{path, info})
		} else if out == nil {
			return nil // path itself is gone
		}
		up := filepath.Dir(path)
		if up == path {
			return out
		}
		path = up
	}
}

// A RefusedError is returned for an output that would overwrite an input or
// another output. Nothing has been written then.
type RefusedError struct {
	Path string // as the caller named it
	Why  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is not written: it is %s", e.Path, e.Why)
}

// Reserve notes that the run will write an output to path. It returns an error if that
// cannot be, as far as is known before the inputs are read: a *RefusedError if the output
// is an input, or inside one, or was reserved before.
func (o *Outputs) Reserve(path string) error {
	t, err := o.free(path)
	if err != nil {
		return err
	}
	o.reserved = append(o.reserved, t)
	return nil
}

// Recheck returns the error that Reserve would return for one of the outputs that were
// reserved, if that is one of the inputs that were named since.
func (o *Outputs) Recheck() error {
	for i := range o.reserved {
		if err := o.checkTarget(&o.reserved[i]); err != nil {
			return err
		}
	}
	return nil
}

// Check returns the error that Reserve would return, and reserves nothing. It is for an
// output that the caller can do without.
func (o *Outputs) Check(path string) error {
	_, err := o.free(path)
	return err
}

// free returns where an output at path goes, if that is no input and not reserved.
func (o *Outputs) free(path string) (target, error) {
	t, err := o.target(path)
	if err == nil && slices.ContainsFunc(o.reserved, func(r target) bool { return r.same(&t) }) {
		err = &RefusedError{path, "also another output"}
	}
	return t, err
}

// ReserveStream returns the error that Reserve would return for an open file, such as
// standard output, if that is an input. It reserves nothing.
func (o *Outputs) ReserveStream(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil // it overwrites nothing
	}
	return o.checkTarget(&target{name: f.Name(), info: info})
}

// A target is where an output goes.
type target struct {
	name string
	// path is absolute and without symbolic links. The last elements need not exist.
	path string
	info fs.FileInfo // nil if it does not exist
	// inPlace says that what is there is written to and not replaced.
	inPlace bool
}

// same reports whether two outputs would overwrite each other.
func (t *target) same(o *target) bool {
	if t.inPlace || o.inPlace {
		return false // two outputs may go to one pipe
	}
	return t.path == o.path || t.info != nil && o.info != nil && os.SameFile(t.info, o.info)
}

// target finds where an output goes, and refuses inputs.
func (o *Outputs) target(name string) (target, error) {
	t, err := resolve(name)
	if err != nil {
		return t, err
	}
	return t, o.checkTarget(&t)
}

// checkTarget refuses a target that is an input or inside one.
func (o *Outputs) checkTarget(t *target) error {
	if t.info != nil && !t.info.Mode().IsRegular() && !t.info.IsDir() {
		return nil
	}
	for i := range o.inputs {
		if in := &o.inputs[i]; t.info != nil && os.SameFile(t.info, in.info) {
			return &RefusedError{t.name, "the input " + in.name}
		}
	}
	if in := o.around(t); in != "" {
		return &RefusedError{t.name, "inside the input " + in}
	}
	if in := o.linked(t); in != "" {
		return &RefusedError{t.name, "the input " + in}
	}
	return nil
}

// around returns the name of an input that a target is in, "" if there is none.
func (o *Outputs) around(t *target) string {
	if t.path == "" || t.inPlace {
		return ""
	}
	for dir := filepath.Dir(t.path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil {
			for i := range o.inputs {
				if in := &o.inputs[i]; os.SameFile(info, in.info) {
					return in.name
				}
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// linked returns the name of the file in an input directory that a target is, by another name or
// as an open file; "" if there is none. So the files of a recording need not be named.
func (o *Outputs) linked(t *target) (name string) {
	if t.info == nil || !t.info.Mode().IsRegular() || t.path != "" && linksOf(t.info) < 2 {
		return ""
	}
	for i := range o.inputs {
		if in := &o.inputs[i]; in.info.IsDir() && name == "" {
			entries := mostEntries
			name = find(in.name, t.info, maxDepth, &entries)
		}
	}
	return name
}

// The directories of a recording are no deeper than copies/1/kcore_dir, and have no more files.
const (
	maxDepth    = 4
	mostEntries = 100_000
)

// find returns the path of a file in a directory, or in one of those below it up to a depth. It
// looks at no more than the given number of entries.
func find(dir string, file fs.FileInfo, depth int, entries *int) string {
	all, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range all {
		if *entries--; *entries < 0 {
			return ""
		}
		path := filepath.Join(dir, e.Name())
		if e.IsDir() && depth > 1 {
			if found := find(path, file, depth-1, entries); found != "" {
				return found
			}
		}
		if info, err := e.Info(); err == nil && os.SameFile(info, file) {
			return path
		}
	}
	return ""
}

// maxLinks is how many symbolic links are followed, as Linux does.
const maxLinks = 40

// resolve finds what a path means, through symbolic links whose target need not exist.
func resolve(name string) (target, error) {
	t := target{name: name}
	if name == "" {
		return t, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	path, err := filepath.Abs(pathname.Plain(name))
	if err != nil {
		return t, err
	}
	for range maxLinks {
		dir, missing := existing(filepath.Dir(path))
		path = filepath.Join(dir, missing, filepath.Base(path))
		link, err := os.Readlink(path)
		if t.path = path; missing != "" || err != nil {
			t.info, _ = os.Stat(path)
			t.inPlace = t.info != nil && !t.info.Mode().IsRegular() && !t.info.IsDir()
			return t, nil
		}
		if strings.HasPrefix(path, "/proc/") {
			// An open file of a process: whoever opened it still has the same file.
			t.info, err = os.Stat(path)
			t.inPlace = true
			return t, err
		}
		if !filepath.IsAbs(link) {
			link = dir + string(filepath.Separator) + link
		}
		path = filepath.Clean(pathname.Plain(link))
	}
	return t, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
}

// existing splits a path in what exists of it, without symbolic links, and the rest.
func existing(path string) (dir, missing string) {
	for dir = path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real, missing
		}
		if dir == filepath.Dir(dir) {
			return dir, missing
		}
		missing = filepath.Join(filepath.Base(dir), missing)
	}
}

// allowed returns the permission bits that an output in dir may have if its group
// is gid.
func (o *Outputs) allowed(dir string, gid int) fs.FileMode {
	bits := fs.FileMode(0o777)
	if o.Private {
		bits = 0o755
	}
	for i := range o.inputs {
		for k, e := range o.inputs[i].path {
			// What is above both says nothing about who can read only one of them.
			// The directory of an input says how it is meant to be kept.
			if k <= 1 || !within(dir, e.path) {
				bits &= permits(e.info, gid)
			}
		}
	}
	return bits
}

// within reports whether path is dir or inside it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || os.IsPathSeparator(rest[0]) || os.IsPathSeparator(dir[len(dir)-1]))
}

// permits returns the permission bits of a file whose group is gid that is no more
// accessible than what info describes.
func permits(info fs.FileInfo, gid int) fs.FileMode {
	group, other := info.Mode()>>3&7, info.Mode()&7
	if info.IsDir() {
		// Who can search a directory can reach what it holds.
		group, other = group&1*7, other&1*7
	}
	both := group & other
	if id, ok := groupOf(info); ok && id != gid {
		group = both // the members of gid are others to info, unless they are of its group too
	}
	return 0o700 | group<<3 | both
}
