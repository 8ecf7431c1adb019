// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/indexversion"
)

// TestString: a version is followed by its revision where it does not have it.
func TestString(t *testing.T) {
	revision := "0123456789abcdef0123456789abcdef01234567"
	for _, tt := range []struct {
		b    Info
		want string
	}{
		{Info{Version: "(devel)"}, "(devel)"},
		{Info{Version: "(devel)", Revision: &revision}, "(devel) " + revision},
		{Info{Version: "v1.2.3", Revision: &revision}, "v1.2.3 " + revision},
		{Info{Version: "v0.0.0-20261121225958-0123456789ab", Revision: &revision}, "v0.0.0-20261121225958-0123456789ab"},
	} {
		if got := tt.b.String(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.b, got, tt.want)
		}
	}
}

// TestParse: parse finds what the standard library finds, in its own words for it.
func TestParse(t *testing.T) {
	const path = "path\tgithub.com/textreplay/textreplay/cmd/textreplay\n"
	const mod = "mod\tgithub.com/textreplay/textreplay\t"
	for _, text := range []string{
		"",
		path,
		path + mod + "(devel)\t\n",
		path + mod + "v1.2.3\th1:abc=\ndep\tgithub.com/spf13/cobra\tv1.10.2\th1:def=\n",
		path + mod + "v1.2.3\t\n=>\t../other\t(devel)\t\n",
		path + mod + "v0.0.0-20261121225958-0123456789ab+dirty\t\nbuild\t-ldflags=\"-s -w -X main.x=\\\"vcs.time=1\\\"\"\nbuild\tvcs=git\nbuild\tvcs.revision=0123456789abcdef0123456789abcdef01234567\nbuild\tvcs.time=2026-11-21T22:59:58Z\nbuild\tvcs.modified=true\n",
		path + mod + "v1.2.3\nbuild\tvcs.modified=false\nbuild\tvcs.revision=\n",
	} {
		want := parse("")
		info, err := debug.ParseBuildInfo(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if info.Main.Version != "" {
			want.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				want.Revision = nonEmpty(s.Value)
			case "vcs.time":
				want.Time = nonEmpty(s.Value)
			case "vcs.modified":
				want.Modified = s.Value == "true"
			}
		}
		if diff := cmp.Diff(want, parse(text)); diff != "" {
			t.Errorf("%q: -want +got\n%s", text, diff)
		}
	}
	if b := parse(""); b.IndexFormat != indexversion.Number || b.Version != "(devel)" {
		t.Errorf("%+v", b)
	}
}

// TestModinfo: the text is the one that the standard library reads.
func TestModinfo(t *testing.T) {
	want, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test has no build information")
	}
	got, err := debug.ParseBuildInfo(recorded())
	if err != nil {
		t.Fatal(err)
	}
	got.GoVersion = want.GoVersion // is not in the text
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestDecimal(t *testing.T) {
	for _, n := range []int{0, 7, 10, 98, 100, 1203} {
		if got, want := decimal(n), strconv.Itoa(n); got != want {
			t.Errorf("decimal(%d) = %q", n, got)
		}
	}
}

// TestText: all lines are there.
func TestText(t *testing.T) {
	revision, at := "0123456789ab", "2026-11-21T22:59:58Z"
	b := Info{Version: "v1.2.3", Revision: &revision, Time: &at, Modified: true, Go: "go1.26.8", OS: "linux", Arch: "amd64", IndexFormat: 98}
	want := `textreplay v1.2.3
revision      0123456789ab
committed     2026-11-21T22:59:58Z
modified      the source differs from that revision
built with    go1.26.8 linux/amd64
index format  98
`
	if got := b.Text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
