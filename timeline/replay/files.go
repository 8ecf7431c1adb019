// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"path/filepath"

	"github.com/textreplay/textreplay/perfdata"
)

// snapshotFiles are the files of a kcore_dir.
var snapshotFiles = [...]string{"kcore", "kallsyms", "modules"}

// Files returns the paths of all files and directories that the recording, its snapshots
// and the options name, and of those that Load found next to the recording. Some may not
// exist. The caller must not change the slice.
func (r *Replay) Files() []string { return r.files }

// filesOf returns the paths for [Replay.Files].
func filesOf(rec *perfdata.Recording, opts *Options) []string {
	files := rec.Files()
	add := func(name string) {
		if name != "" {
			files = append(files, name)
		}
	}
	dirs := []string{opts.KCore, snapshotDir(rec, *opts)}
	for _, c := range opts.Copies {
		dirs = append(dirs, c.KCore)
	}
	add(rec.Dir())
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		add(dir)
		for _, name := range snapshotFiles {
			add(filepath.Join(dir, name))
		}
	}
	add(opts.Kallsyms)
	add(opts.Modules)
	add(opts.Vmlinux)
	return files
}
