// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/timeline/replay"
)

// worthIndex is how many bytes a recording has for which --index auto makes an
// index: smaller ones are read in no time.
const worthIndex = 16 << 20

// indexFor fills in the options of the saved index. one says that the question
// is about one place, which an image of its surroundings answers sooner than
// an index would be made.
func (a *app) indexFor(opts *replay.Options, one bool) error {
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

// indexPlace is where --index auto keeps the index of a recording: next to it or,
// if others could write to it there, or the caller cannot, in the caller's cache
// directory, which is then to be made. "" is nowhere.
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

// indexPath is the place next to a recording.
func indexPath(recording string, guest int) string {
	path := strings.TrimRight(recording, "/") + ".textreplay-index"
	if guest != 0 {
		path += fmt.Sprintf(".%d", guest)
	}
	return path
}

// cachedIndexPath is the place in the cache directory of what would be at near, ""
// if there is no such directory.
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

// reportIndex says that an index was written, or why the one that was asked for was
// not.
func (a *app) reportIndex(r *replay.Replay, asked bool) {
	switch s := r.Index(); {
	case s.Saved:
		fmt.Fprintf(a.stderr, "textreplay: wrote the index %s, %.1f MB\n", s.Path, float64(s.Bytes)/1e6)
	case asked && !s.Used:
		fmt.Fprintf(a.stderr, "textreplay: warning: the index was not saved: %v\n", s.Err)
	}
}

// recordingSize is the size of a recording's first file, 0 where there is none.
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
		Short: "The saved index, which answers without reading the recording again",
		Long: `A command that has read all of a recording can save the image that it made. The
next command maps that file instead of reading the recording. A line on standard
error says where an index was written, and how large it is.

  --index auto    (the default) use REC.textreplay-index next to the recording REC;
                  make it if the recording has 16 MB or more. Questions about one
                  place (at, history) use it, but do not make it.
  --index never   do not look for it, and make none
  --index FILE    use FILE, and make it, however small the recording is. An
                  existing file that is no index is refused (exit code 2)

An index is believed, so it must be nobody else's. One is only used if it belongs
to the caller or to root, and nobody else can write to it. With auto, the same holds
for the directories above it (others may write to one that is sticky, as /tmp is).
If REC's directory is not like that, or the caller cannot write to it, the index is
kept in the caller's cache directory (~/.cache/textreplay), and if that is not like
that either there is none. An index is no more readable than what it was made of:
see "textreplay help outputs".

An index is used only if nothing has changed that it was made of: the recording,
its kcore_dir, the files of --kallsyms and --modules, the windows of --windows, and
the program. A file is unchanged if it has the same inode, size, time of modification
(mtime) and time of change (ctime). No program can set the last one, so every change
shows, also a single byte with the mtime restored; so does a copy of the file, or a
new mode or name, which change nothing else. What could escape is a change while the
system's clock was set back. Where there is no ctime, all of the content is compared.
The program is the same if it was built from the same commit or version. A build
that does not say so is known by a checksum of the executable.

Otherwise the recording is read and, as above, the index made again. So it is if the
file is damaged. An index can be deleted at any time. With --vmlinux, with further
copies (--kcore DIR@TIME) and for a stream on standard input there is none.`,
	}
}
