// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// unformattedRecording returns the recording of changeOfProbes as perf leaves it before its
// end: without its features. The file is in a directory with the copy of the kernel.
func unformattedRecording(t *testing.T) (w *tape, dir string) {
	t.Helper()
	w = newProbeTape(t)
	w.changeOfProbes()
	dir = filepath.Dir(w.kcoreDir())
	w.must(os.WriteFile(filepath.Join(dir, "data"), unended(w.bytes()), 0o600))
	w.must(os.WriteFile(filepath.Join(dir, "kprobe_profile.1"), []byte(firstReading), 0o600))
	w.must(os.WriteFile(filepath.Join(dir, "kprobe_profile.2"), []byte(lastReading), 0o600))
	return w, dir
}

// TestUnformatted: before perf ends, a recording does not have the formats of its probes. A
// file in its directory, or one that is named, has them; without one, nothing is known.
func TestUnformatted(t *testing.T) {
	const formats = "system: tp\n" + probeFormats
	answer := func(im *timeline.Image, time uint64) string {
		var b [4]byte
		s := im.At(time).Read(0x1100, b[:])
		return fmt.Sprintf("%v %v %x", s.Standing, s.Reason, b)
	}
	for _, tt := range []struct {
		name, inside, named string // contents of the two files
		want                string
	}{
		{"in the directory", formats, "", "known  " + wordB},
		{"named", "", formats, "known  " + wordB},
		{"none", "", "", "unconfirmed probe-unformatted " + wordNOP},
		{"of others", "system: tp\nname: map\nID: 1207\nformat:\n\nprint fmt: \"\"\n", "", "unconfirmed no-coverage " + wordNOP},
		{"cut", formats[:len(formats)-1], "", "unconfirmed probe-unformatted " + wordNOP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, dir := unformattedRecording(t)
			opts := Options{CPUs: 2}
			if tt.inside != "" {
				w.must(os.WriteFile(filepath.Join(dir, formatsName), []byte(tt.inside), 0o600))
			}
			if tt.named != "" {
				opts.Formats = filepath.Join(t.TempDir(), "formats")
				w.must(os.WriteFile(opts.Formats, []byte(tt.named), 0o600))
			}
			r, err := Load(dir, opts)
			w.must(err)
			defer r.Close()
			if got := answer(r.Image, 600); got != tt.want {
				t.Errorf("%s; %v", got, r.Report.Coverage.Pokes)
			}
			if got := answer(r.Image, 1190); tt.named+tt.inside == formats && got != "unconfirmed probe-unchecked "+wordB {
				t.Errorf("after the last reading of the counters: %s", got)
			}
		})
	}
	t.Run("misnamed", func(t *testing.T) {
		_, dir := unformattedRecording(t)
		if _, err := Load(dir, Options{CPUs: 2, Formats: filepath.Join(dir, "kprobe_profile.1")}); !errors.Is(err, errFormats) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("followed", func(t *testing.T) {
		w, dir := unformattedRecording(t)
		data, err := os.ReadFile(filepath.Join(dir, "data"))
		w.must(err)
		f, err := Follow(perfdata.NewTail(bytes.NewReader(data), func() error { return io.EOF }), Options{KCore: filepath.Join(dir, "kcore_dir"), CPUs: 2,
			ProbeCounters: []string{filepath.Join(dir, "kprobe_profile.1"), filepath.Join(dir, "kprobe_profile.2")}})
		w.must(err)
		defer f.Close()
		f.Next()
		im, err := f.Image()
		w.must(err)
		if got := answer(im, 600); got != "unconfirmed probe-unformatted "+wordNOP {
			t.Errorf("before the file is there: %s", got)
		}
		w.must(os.WriteFile(filepath.Join(dir, formatsName), []byte(formats), 0o600))
		for f.Next() {
		}
		im, err = f.Image()
		w.must(err)
		if got := answer(im, 600); got != "known  "+wordB {
			t.Errorf("after it: %s; %v", got, f.Report().Coverage.Pokes)
		}
	})
}
