// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline/replay"
)

// worthIndex is how many bytes a recording has for which --index auto makes an
// index: smaller ones are read in no time.
const worthIndex = 16 << 20

// indexFor fills in the options of the saved index. one says that the question
// is about one place, which an image of its surroundings answers sooner than
// an index would be made.
func (a *app) indexFor(opts *replay.Options, one bool) {
	switch {
	case a.index == "never" || a.input == "-":
	case a.index == "auto":
		opts.Index = indexPath(a.input, a.guest.pid)
		opts.SaveIndex = !one && recordingSize(a.input) >= worthIndex
	default:
		opts.Index, opts.SaveIndex = a.index, true
	}
}

// indexPath is where --index auto keeps the index of a recording: beside it.
func indexPath(recording string, guest int) string {
	path := strings.TrimRight(recording, "/") + ".textreplay-index"
	if guest != 0 {
		path += fmt.Sprintf(".%d", guest)
	}
	return path
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
next command maps that file instead of reading the recording.

  --index auto    (the default) use REC.textreplay-index beside the recording REC;
                  make it where the recording has 16 MB or more, and the
                  place can be written to. Questions about one place (at, history)
                  use it, but do not make it.
  --index never   do not look for it, and make none
  --index FILE    use FILE, and make it, however small the recording is

The index knows the recording, its kcore_dir, the files of --kallsyms and
--modules, the windows of --windows and the version of textreplay that it was
made of. If any of them changes, or the file is damaged, it is not used and, where
the rules above say so, made anew. It can be deleted at any time. With --vmlinux, with further
copies (--kcore DIR@TIME) and for a stream on standard input there is none.`,
	}
}
