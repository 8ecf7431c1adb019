// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// In file form, perf writes the names and the formats of its events last, with the other
// features (perf_session__write_header of tools/perf/util/header.c). A recording that perf
// is still writing has none, and neither has one whose perf was killed. The script of
// "textreplay probes" copies the formats into the recording's directory before perf opens
// the events, which keeps the kernel from giving their ids to others.

// formatsName is how that copy is called. It has the format files of tracefs, one after
// another, each behind a line "system: GROUP".
const formatsName = "tracing_formats"

// errFormats is wrapped by errors of a file that has no formats.
var errFormats = errors.New("not the format files of tracefs")

// tracingFormats returns the formats of the recording's tracepoints: those in the recording,
// or else those of a file. It returns nil if neither has any.
func tracingFormats(rec *perfdata.Recording, given []byte) []byte {
	if data, err := rec.Feature(perfdata.FeatureTracingData); err == nil {
		return data
	}
	return given
}

// readFormats reads the file with the formats, if the recording has none itself. It also
// gives events their names. A file that the caller named must have formats.
func (r *Replay) readFormats(opts *Options) error {
	if _, err := r.Recording.Feature(perfdata.FeatureTracingData); err == nil || r.formats != nil {
		return nil
	}
	path := opts.Formats
	switch dir, files := r.Recording.Dir(), r.Recording.Files(); {
	case path != "":
	case dir != "":
		path = filepath.Join(dir, formatsName)
	case opts.KCore != "" && (len(files) == 0 || files[0] == ""): // a stream
		path = filepath.Join(filepath.Dir(filepath.Clean(opts.KCore)), formatsName)
	default:
		return nil
	}
	given := len(r.given)
	text, err := r.readGiven("formats", path)
	names := formatNames(text)
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%s: %w", path, errFormats)
	}
	if err != nil {
		r.given = r.given[:given]
		if opts.Formats != "" {
			return err
		}
		return nil
	}
	r.formats = text
	for _, e := range r.Recording.Events() {
		if e.Name == "" && isTracepoint(e) {
			e.Name = names[e.Attr.Config]
		}
	}
	return nil
}

// formatNames returns the names of tracepoints by their ids, as perf record -e takes them.
// A file that is cut short has no line behind its last format.
func formatNames(text []byte) map[uint64]string {
	names := make(map[uint64]string)
	system, name := "", ""
	var id uint64
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		switch string(key) {
		case "system":
			system, name, id = string(value), "", 0
		case "name":
			name = string(value)
		case "ID":
			id = number(value)
		case "print fmt":
			if system != "" && name != "" && id != 0 && bytes.HasSuffix(line, []byte("\n")) {
				names[id] = system + ":" + name
			}
		}
	}
	return names
}

// mayBeProbe reports whether an event may be a probe on a text writer, as far as the
// recording says without its format.
func mayBeProbe(e *perfdata.Event) bool {
	return isTracepoint(e) && e.Attr.SampleType&perfdata.SampleRaw != 0 && kindsOf(e) == 0
}

// coverUnformatted judges the changes of a kernel that records no pokes, if an event may
// record them but its format is not known.
func (s *scan) coverUnformatted(c *Coverage) bool {
	if s.formats || s.machine != 0 {
		return false
	}
	for _, e := range s.rec.Events() {
		if mayBeProbe(e) {
			*c = Coverage{Verdict: None, Limits: []Limit{{timeline.ProbeUnformatted,
				"the recording has samples of tracepoints, but not what their fields are: perf writes that last, and is still writing or was killed. " +
					"A copy of the formats serves: " + formatsName + " of the script that textreplay probes prints, or --formats", 0, timeline.MaxTime}}}
			return true
		}
	}
	return false
}
