// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline/replay"
)

// release is the version that a release was built as, which the linker sets
// (-X main.release=v1.2.3); "" for any other build.
var release string

// A build describes how the program was built, as version --json prints it.
type build struct {
	Version     string  `json:"version"`
	Revision    *string `json:"revision"` // of the repository; nil if the build does not record it
	Time        *string `json:"time"`     // of that revision, RFC 3339
	Modified    bool    `json:"modified"` // the source differs from that revision
	Go          string  `json:"go"`
	OS          string  `json:"os"`
	Arch        string  `json:"arch"`
	IndexFormat int     `json:"index_format"`
	JSON        int     `json:"json"` // version of the schemas in docs/schema
}

// schemaVersion is the version of the JSON that commands print. It changes if a field goes
// or gets another meaning, which compatibility.md rules out from 1.0 on; not if one is
// added.
const schemaVersion = 1

// thisBuild describes this program.
func thisBuild() build {
	b := build{
		Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		IndexFormat: replay.IndexVersion, JSON: schemaVersion,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	if release != "" {
		b.Version = release
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = nonEmpty(s.Value)
		case "vcs.time":
			b.Time = nonEmpty(s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String returns the version and, if the version does not have it, the revision.
func (b build) String() string {
	v := b.Version
	if r := b.Revision; r != nil && !strings.Contains(v, (*r)[:min(12, len(*r))]) {
		v += " " + *r
	}
	return v
}

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and what it was built from",
		Long: `version prints the program's version, its source revision, the version of Go, and
the version of the index format. An index of another version is written again.`,
		Example: `  textreplay version
  textreplay version --json | jq -r .revision`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if a.json {
				return outputError(encoder(a.out).Encode(b))
			}
			fmt.Fprintf(a.out, "textreplay %s\n", b.Version)
			if b.Revision != nil {
				fmt.Fprintf(a.out, "revision      %s\n", *b.Revision)
			}
			if b.Time != nil {
				fmt.Fprintf(a.out, "committed     %s\n", *b.Time)
			}
			if b.Modified {
				fmt.Fprintf(a.out, "modified      the source differs from that revision\n")
			}
			fmt.Fprintf(a.out, "built with    %s %s/%s\n", b.Go, b.OS, b.Arch)
			fmt.Fprintf(a.out, "index format  %d\n", b.IndexFormat)
			return nil
		},
	}
}
