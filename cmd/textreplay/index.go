// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/timeline/replay"
)

// worthIndex is the size in bytes from which --index auto writes an index.
// Smaller recordings are read quickly.
const worthIndex = 16 << 20

// noIndexFiles are words that nobody means as the name of a large file. Other options take some of them.
var noIndexFiles = []string{"none", "no", "off", "false", "always", "yes", "on", "true"}

// indexFor sets the options of the saved index. If one is true, the question is
// about one place: an image of its surroundings is faster than writing an
// index.
func (a *app) indexFor(opts *replay.Options, one bool) error {
	if slices.Contains(noIndexFiles, a.index) {
		return usagef("--index %s: want auto, never, or a file; write ./%[1]s for a file of this name", a.index)
	}
	if a.index == "-" {
		return usagef("--index -: an index cannot go to standard output; ./- is a file of that name")
	}
	switch {
	case a.input == "-" || a.index == "never":
		return nil
	case a.index == "auto":
		opts.Index, opts.MakeIndexDir = a.indexPlace()
		opts.SaveIndex = opts.Index != "" && !one && recordingSize(a.input) >= worthIndex
		return nil
	}
	if err := a.reserve(a.index); err != nil {
		return err
	}
	if err := replay.CheckIndexFile(a.index); err != nil {
		return &exitError{exitUsage, err}
	}
	opts.Index, opts.SaveIndex = a.index, true
	return nil
}

// indexPlace returns the path that --index auto uses: next to the recording or,
// if others can write there or the caller cannot, in the caller's cache
// directory. makeDir says that this directory must be created. The path is ""
// if there is no usable place.
func (a *app) indexPlace() (path string, makeDir bool) {
	near := indexPath(a.input, a.guest.pid)
	cached := cachedIndexPath(near)
	usable := func(path string) bool {
		return path != "" && outfile.Trusted(path) == nil && replay.CheckIndexFile(path) == nil && a.outputs.Check(path) == nil
	}
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	nearUsable := usable(near)
	if nearUsable && exists(near) {
		return near, false
	}
	cachedUsable := usable(cached)
	switch {
	case cachedUsable && exists(cached):
		return cached, false
	case nearUsable && outfile.CanCreate(filepath.Dir(near)):
		return near, false
	case cachedUsable:
		return cached, true
	}
	return "", false
}

// indexPath returns the path of the index next to a recording.
func indexPath(recording string, guest int) string {
	path := strings.TrimRight(recording, "/") + ".textreplay-index"
	if guest != 0 {
		path += fmt.Sprintf(".%d", guest)
	}
	return path
}

// cachedIndexPath returns the path in the cache directory for the index that
// would be at near, or "" if there is no cache directory.
func cachedIndexPath(near string) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	if near, err = filepath.Abs(near); err != nil {
		return ""
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(near)); err == nil {
		near = filepath.Join(dir, filepath.Base(near))
	}
	name := sha256.Sum256([]byte(near))
	return filepath.Join(cache, "textreplay", fmt.Sprintf("%x.textreplay-index", name[:16]))
}

// reportIndex says that an index was written, or why the index of --index FILE was
// not. The run ends with exit code 4 if it could not be written.
func (a *app) reportIndex(r *replay.Replay, requested bool) {
	s := r.Index()
	switch {
	case s.Saved:
		a.sayf("wrote the index %s, %.1f MB", s.Path, float64(s.Bytes)/1e6)
		return
	case !requested || s.Used:
		return
	}
	err := fmt.Errorf("the index was not saved: %w", s.Err)
	if errors.Is(err, replay.ErrIndex) {
		a.warnf("%v", err) // no index can hold this image
		return
	}
	a.indexErr = outputError(err)
}

// recordingSize returns the size of a recording's first file, or 0 if there is
// none.
func recordingSize(path string) int64 {
	fi, err := os.Stat(path)
	if err == nil && fi.IsDir() {
		fi, err = os.Stat(filepath.Join(path, "data"))
	}
	if err != nil {
		return 0
	}
	return fi.Size()
}

func indexTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "index",
		Short: "How the saved index works",
		Long: `A command that has read a whole recording can save its image in a file, the index.
The next command maps the index instead of reading the recording. A line on standard
error says where an index was written and how large it is.

  --index auto    (default) use REC.textreplay-index next to the recording REC, and
                  write it if the recording has 16 MB or more. Questions about one
                  place (at, history) use it but do not write it.
  --index never   neither use nor write an index
  --index FILE    use FILE, and write it for a recording of any size. An existing
                  file that is not an index is refused (exit code 2). If FILE cannot
                  be written, the exit code is 4; the answer is printed all the same

textreplay trusts the contents of an index, so nobody else may be able to write it.
It uses an index only if the caller or root owns the file and nobody else can write
to it. With auto, the same must hold for the directories above it, except that a
sticky directory such as /tmp may be writable for all. If REC's directory fails this
test or the caller cannot write to it, the index is kept in the caller's cache
directory (~/.cache/textreplay). If that fails too, there is no index. An index is
never more readable than its inputs: see "textreplay help outputs".

An index is used only if none of its inputs has changed: the recording, its
kcore_dir, the files of --kallsyms and --modules, the windows of --windows, and the
program. A file is unchanged if its inode, size, mtime and ctime are the same. No
program can set the ctime, so every change is seen, even of a single byte with the
mtime restored. Copying, renaming or chmod of a file also count as a change. A change
made while the system clock was set back can escape. On systems without ctime, the
whole content is compared. The program is unchanged if it was built from the same
commit or version; if the build records neither, the executable's build ID decides,
or its checksum if it has none that go build made.

Otherwise, or if the index is damaged, the recording is read and the index is
written again as above. An index can be deleted at any time. There is no index with
--vmlinux, with further snapshots (--kcore DIR@TIME), for standard input, or on
big-endian machines (s390x).`,
	}
}
