// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package build says what the program was built from. Where it can, it answers "textreplay version" before
// the other packages are initialized (early.go), so only the program may import it.
package build

import (
	"runtime"
	_ "unsafe" // for go:linkname

	"github.com/textreplay/textreplay/internal/indexversion"
)

// release is the version that a release was built as, which the linker sets
// (-X github.com/textreplay/textreplay/internal/build.release=v1.2.3); "" for any other build.
var release string

// SchemaVersion is the version of the JSON that commands print. It changes if a field goes
// or gets another meaning, which compatibility.md rules out from 1.0 on; not if one is
// added.
const SchemaVersion = 1

// Info describes how the program was built, as version --json prints it.
type Info struct {
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

// This describes this program.
func This() *Info { return parse(recorded()) }

// recorded returns the text that the linker records.
func recorded() string {
	const marks = 16 // around the text
	if text := modinfo(); len(text) >= 2*marks {
		return text[marks : len(text)-marks]
	}
	return ""
}

// modinfo is what debug.ReadBuildInfo asks. That package is initialized late, with most of what others need.
//
//go:linkname modinfo runtime/debug.modinfo
func modinfo() string

// parse returns what the text says that the linker records, which debug.ParseBuildInfo describes.
func parse(text string) *Info {
	b := &Info{
		Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		IndexFormat: indexversion.Number, JSON: SchemaVersion,
	}
	for text != "" {
		var line string
		line, text = cut(text, "\n")
		kind, rest := cut(line, "\t")
		switch kind {
		case "mod":
			_, version := cut(rest, "\t")
			if version, _ = cut(version, "\t"); version != "" {
				b.Version = version
			}
		case "build":
			switch key, value := cut(rest, "="); key { // quoted only if it has spaces or quotes
			case "vcs.revision":
				b.Revision = nonEmpty(value)
			case "vcs.time":
				b.Time = nonEmpty(value)
			case "vcs.modified":
				b.Modified = value == "true"
			}
		}
	}
	if release != "" {
		b.Version = release
	}
	return b
}

// cut returns what is before and behind the first sep. Package strings does more, but is initialized
// too late.
func cut(s, sep string) (before, after string) {
	for i := range len(s) - len(sep) + 1 {
		if s[i:i+len(sep)] == sep {
			return s[:i], s[i+len(sep):]
		}
	}
	return s, ""
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// String returns the version and, if the version does not have it, the revision.
func (b *Info) String() string {
	v := b.Version
	if r := b.Revision; r != nil {
		if before, _ := cut(v, (*r)[:min(12, len(*r))]); before == v {
			v += " " + *r
		}
	}
	return v
}

// Text returns what "textreplay version" prints.
func (b *Info) Text() string {
	text := "textreplay " + b.Version + "\n"
	if b.Revision != nil {
		text += "revision      " + *b.Revision + "\n"
	}
	if b.Time != nil {
		text += "committed     " + *b.Time + "\n"
	}
	if b.Modified {
		text += "modified      the source differs from that revision\n"
	}
	return text + "built with    " + b.Go + " " + b.OS + "/" + b.Arch + "\n" +
		"index format  " + decimal(b.IndexFormat) + "\n"
}

// decimal is strconv.Itoa of a number that is not negative.
func decimal(n int) string {
	digit := string(rune('0' + n%10))
	if n < 10 {
		return digit
	}
	return decimal(n/10) + digit
}
