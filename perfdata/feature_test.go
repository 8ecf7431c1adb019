// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// values calls every typed feature method and prints what it returns.
func values(r *Recording) map[string]string {
	out := make(map[string]string)
	put := func(f Feature, err error, v ...any) {
		switch {
		case errors.Is(err, ErrNoFeature):
		case err != nil:
			var fe *FormatError
			if !errors.As(err, &fe) || !errors.Is(err, ErrMalformed) {
				err = fmt.Errorf("untyped error: %w", err)
			}
			_, msg, _ := strings.Cut(err.Error(), "section: ")
			out[f.String()] = "error: " + msg
		default:
			out[f.String()] = strings.Trim(fmt.Sprintf("%+v", v), "[]")
		}
	}
	hostname, err := r.Hostname()
	put(FeatureHostname, err, hostname)
	release, err := r.OSRelease()
	put(FeatureOSRelease, err, release)
	version, err := r.Version()
	put(FeatureVersion, err, version)
	arch, err := r.Arch()
	put(FeatureArch, err, arch)
	available, online, err := r.NRCPUs()
	put(FeatureNRCPUs, err, available, online)
	cmdline, err := r.Cmdline()
	put(FeatureCmdline, err, strings.Join(cmdline, "|"))
	first, last, err := r.SampleTime()
	put(FeatureSampleTime, err, first, last)
	resolution, err := r.ClockID()
	put(FeatureClockID, err, resolution)
	clock, err := r.ClockData()
	put(FeatureClockData, err, clock)
	tracing, err := r.TracingData()
	put(FeatureTracingData, err, string(tracing))
	dir, err := r.DirFormat()
	put(FeatureDirFormat, err, dir)
	comp, err := r.Compressed()
	put(FeatureCompressed, err, comp)
	desc, err := r.EventDesc()
	put(FeatureEventDesc, err, len(desc))
	return out
}

func TestFeatures(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		cmdline := e.appendU32s(nil, 3)
		for _, arg := range []string{"/usr/bin/perf", "record", strings.Repeat("x", 64)} {
			cmdline = e.appendString(cmdline, arg)
		}
		sections := map[Feature][]byte{
			FeatureTracingData: []byte("\x17\x08\x44tracing"),
			FeatureHostname:    e.appendString(nil, "box"),
			FeatureOSRelease:   e.appendString(nil, "6.1.0-44-amd64"),
			FeatureVersion:     e.appendString(nil, "6.1.158"),
			FeatureArch:        e.appendString(nil, "x86_64"),
			FeatureNRCPUs:      e.appendU32s(nil, 4, 2),
			FeatureCmdline:     cmdline,
			FeatureSampleTime:  e.appendU64s(nil, []uint64{5, 1 << 63}),
			FeatureClockID:     e.appendU64s(nil, []uint64{1}),
			FeatureDirFormat:   e.appendU64s(nil, []uint64{1}),
			FeatureCompressed:  e.appendU32s(nil, 1, CompressedZstd, 3, 6, 528384),
			FeatureClockData:   e.appendU64s(e.appendU32s(nil, 1, 7), []uint64{1795202015271507000, 5755222015}),
		}
		write := func(w *Writer) {
			w.FinishedRound()
			for f, b := range sections {
				w.WriteFeature(f, b)
			}
		}
		r := open(t, build(t, e, testEvents(), write))
		if err := r.CleanEnd(); err != nil {
			t.Error(err)
		}
		want := map[string]string{
			"TRACING_DATA": "\x17\x08\x44tracing", "HOSTNAME": "box", "OSRELEASE": "6.1.0-44-amd64", "VERSION": "6.1.158", "ARCH": "x86_64",
			"NRCPUS": "4 2", "CMDLINE": "/usr/bin/perf|record|" + strings.Repeat("x", 64), "SAMPLE_TIME": "5 9223372036854775808",
			"CLOCKID": "1", "DIR_FORMAT": "1", "COMPRESSED": "{Version:1 Type:1 Level:3 Ratio:6 MmapLen:528384}",
			"CLOCK_DATA": "{ClockID:7 WallNS:1795202015271507000 ClockNS:5755222015}", "EVENT_DESC": "2",
		}
		if diff := cmp.Diff(want, values(r)); diff != "" {
			t.Errorf("features (-want +got):\n%s", diff)
		}

		// Every section one byte shorter, and then empty.
		for _, cut := range []int{1, 1 << 20} {
			for f, b := range sections {
				sections[f] = b[:len(b)-min(cut, len(b))]
			}
			for name, v := range values(open(t, build(t, e, testEvents(), write))) {
				if name != "TRACING_DATA" && name != "EVENT_DESC" && !strings.Contains(v, "are too few") {
					t.Errorf("%s cut by %d: %s", name, cut, v)
				}
			}
		}
		if got := values(open(t, build(t, e, nil, nil))); len(got) > 0 {
			t.Errorf("a recording without features has %v", got)
		}
	})
}

func TestMalformedFeatures(t *testing.T) {
	e := little
	tests := []struct {
		f    Feature
		b    []byte
		want string
	}{
		{FeatureHostname, e.appendU32s(nil, 0xffffffff), "4 bytes are too few"},
		{FeatureCmdline, append(e.appendU32s(nil, 0xffffffff), e.appendString(nil, "perf")...), "72 bytes are too few"},
		{FeatureClockData, e.appendU64s(e.appendU32s(nil, 2, 7), []uint64{1, 2}), "version 2"},
		{FeatureEventDesc, e.appendU32s(nil, 1, 63), "attrs of 63 bytes"},
		{FeatureEventDesc, e.appendU32s(nil, 1, 0xffffffff), "8 bytes are too few"},
		{FeatureEventDesc, append(e.appendU32s(nil, 0xffffffff, 64), make([]byte, 64)...), "72 bytes are too few"},
		{FeatureEventDesc, append(append(e.appendU32s(nil, 1, 64), make([]byte, 64)...), e.appendU32s(nil, 0xffffffff, 0)...), "80 bytes are too few"},
	}
	for _, tt := range tests {
		r := open(t, build(t, e, testEvents(), func(w *Writer) { w.WriteFeature(tt.f, tt.b) }))
		if got := values(r)[tt.f.String()]; got != "error: "+tt.want {
			t.Errorf("%v %x: got %q, want an error %q", tt.f, tt.b, got, tt.want)
		}
	}
}

func TestFeatureString(t *testing.T) {
	for f, want := range map[Feature]string{FeatureTracingData: "TRACING_DATA", FeatureCLNSize: "CLN_SIZE", 0: "0", 35: "35", 129: "129", -1: "-1"} {
		if got := f.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
