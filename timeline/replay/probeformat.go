// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// In file form, perf writes the names and the formats of its events last, with the other
// features (perf_session__write_header of tools/perf/util/header.c). A recording that perf
// is still writing has none, and neither has one whose perf was killed. The script of
// "textreplay probes" copies the formats into the recording's directory before perf opens
// the events, which keeps the kernel from giving their ids to others.

// formatsName is the name of that copy. It has the format files of tracefs, one after
// another, each after a line "system: GROUP".
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
	given, read := len(r.given), r.readFound
	if opts.Formats != "" {
		read = r.readGiven
	}
	text, err := read("formats", path)
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
// A file that is cut short has no line after its last format.
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

// MayBeProbe reports whether an event may be a probe on a text writer, a tracepoint with raw
// data, as far as the recording says without the event's format.
func MayBeProbe(e *perfdata.Event) bool {
	return isTracepoint(e) && e.Attr.SampleType&perfdata.SampleRaw != 0 && kindsOf(e) == 0
}

// coverUnformatted judges the changes of a kernel that records no pokes, if an event may
// record them but its format is not known.
func (s *scan) coverUnformatted(c *Coverage) bool {
	if s.formats || s.machine != 0 {
		return false
	}
	for _, e := range s.rec.Events() {
		if MayBeProbe(e) {
			*c = Coverage{Verdict: None, Limits: []Limit{{timeline.ProbeUnformatted,
				"the recording has samples of tracepoints, but not what their fields are: perf writes that last, and is still writing or was killed. " +
					"A copy of the formats is enough: the file " + formatsName + " of the script that textreplay probes prints, or any other", 0, timeline.MaxTime}}}
			return true
		}
	}
	return false
}

// probeEventOf returns the probe that an event is, as its fields in TRACING_DATA show, or
// nil if it is none.
func probeEventOf(e *perfdata.Event, data []byte) *probeEvent {
	if !isTracepoint(e) {
		return nil
	}
	name, fields := parseFormat(data, e.Attr.Config)
	if _, ok := fields["__probe_ip"]; !ok {
		return nil
	}
	p := &probeEvent{event: e, name: name}
	ok := true
	need := func(name string, size int) int {
		f := fields[name]
		ok = ok && f.offset >= 8 && f.size >= size
		p.size = max(p.size, f.offset+f.size)
		return f.offset
	}
	word := func(reg, addr, at string) {
		if fields[addr].offset != 0 && fields[at].offset != 0 {
			p.words = append(p.words, probeWord{reg, need(addr, 8), need(at, 8)})
		}
	}
	has := func(names ...string) bool {
		for _, n := range names {
			if fields[n].offset == 0 {
				return false
			}
		}
		return true
	}
	p.ip = need("__probe_ip", 8)
	switch {
	case has("idx", "phys", "lr", "st"):
		p.role = probeARM64
		p.idx, p.phys, p.lr, p.stack = need("idx", 8), need("phys", 8), need("lr", 8), need("st", 16)
		p.stackLen = fields["st"].size
		word("stack", "va", "now")
		word("x19", "x19", "at19")
		word("x20", "x20", "at20")
	case has("lr", "mm", "uaddr"):
		p.role = probeAfter
		p.lr, p.mm = need("lr", 8), need("mm", 8)
		for i := range p.registers {
			reg := fmt.Sprintf("r%d", i)
			if word(reg, reg, fmt.Sprintf("at%d", i)); has(reg) {
				p.registers[i] = need(reg, 8)
			}
		}
		// Names that do not say which registers they are of: those of 6.12.95.
		if word("r31", "va", "now"); has("new", "dw") {
			p.registers[31], p.registers[29], p.registers[28] = fields["va"].offset, need("new", 8), need("dw", 8)
		}
		if len(p.words) > 0 {
			p.role = probeBefore
		}
	case has("addr", "len", "b", "now"):
		p.role = probeWrites
		p.addr, p.length, p.bytes, p.now = need("addr", 8), need("len", 8), need("b", sampledBytes), need("now", sampledBytes)
	case has("addr", "len", "b"):
		p.role = probeCopy
		p.addr, p.length, p.bytes, p.bytesLen = need("addr", 8), need("len", 8), need("b", 8), fields["b"].size
		if has("func") {
			p.function = need("func", 8)
		}
	default:
		return nil
	}
	if !ok || p.size > 1<<16 {
		return nil
	}
	return p
}

// isTracepoint reports whether an event is a tracepoint, as events on kprobes are.
func isTracepoint(e *perfdata.Event) bool {
	return e.Attr.Type == typeTracepoint
}

// A formatField is a field of an event's raw data.
type formatField struct{ offset, size int }

// parseFormat returns the name of the event with this id in TRACING_DATA, without its
// group, and its fields by name. TRACING_DATA has the files format of tracefs. The fields
// are nil if the event is not there.
func parseFormat(data []byte, id uint64) (name string, fields map[string]formatField) {
	for {
		before, rest, ok := bytes.Cut(data, []byte("\nID: "))
		if !ok {
			return "", nil
		}
		data = rest
		if i := bytes.LastIndex(before, []byte("name: ")); i >= 0 {
			name = string(before[i+len("name: "):])
		}
		if n, _, _ := bytes.Cut(rest, []byte("\n")); number(n) == id {
			break
		}
	}
	text, _, ok := bytes.Cut(data, []byte("print fmt:"))
	if !ok {
		return "", nil
	}
	fields = make(map[string]formatField)
	for line := range bytes.Lines(text) {
		decl, rest, ok := bytes.Cut(line, []byte(";\toffset:"))
		if _, d, is := bytes.Cut(decl, []byte("field:")); ok && is {
			field := string(d[bytes.LastIndexByte(d, ' ')+1:])
			field, _, _ = strings.Cut(field, "[")
			_, size, _ := bytes.Cut(rest, []byte("size:"))
			fields[field] = formatField{int(min(number(rest), 1<<16)), int(min(number(size), 1<<16))}
		}
	}
	return name, fields
}

// probed finds the events of the recording that are probes on text writers. In a stream,
// their formats come after the events, or at the end.
func (s *scan) probed() {
	if s.machine != 0 || s.formats {
		return
	}
	data := tracingFormats(s.rec, s.formatFile)
	if data == nil {
		return
	}
	s.formats = true
	var p probeLog
	for _, e := range s.rec.Events() {
		if x := probeEventOf(e, data); x != nil {
			p.events = append(p.events, x)
		}
	}
	if len(p.events) > 0 {
		p.cpus, p.mms = make(map[int64]*probeCPU), make(map[uint64]bool)
		s.probes = &p
	}
}

// An unformatted is a sample of a tracepoint in a stream that has not said yet what its
// fields are.
type unformatted struct {
	rec   perfdata.Record
	event *perfdata.Event
	id    perfdata.SampleID
	raw   []byte
	lost  uint64 // the records that its ring buffer had lost
}

// formatted handles the samples of probes that came before their formats, when a stream
// has these. In file form they come last.
func (s *scan) formatted(r *Replay) {
	if s.formats {
		return
	}
	if s.probed(); !s.formats {
		return
	}
	waited := s.unformatted
	s.unformatted = nil
	if s.probes == nil {
		return // no sample was one of a probe: those of modules that were skipped remain so
	}
	s.tracepoints()
	s.describe(r)
	s.samples.ch = nil // it may not be plain any more
	take := func(ch *channel) {
		if ch.event.Attr.SampleType&perfdata.SampleRaw != 0 { // else its samples did not wait
			ch.kinds |= s.kindsOf(ch.event)
		}
	}
	for _, ch := range s.channels.all {
		take(ch)
	}
	for _, ch := range s.nameless {
		take(ch)
	}
	for i := range waited {
		w := &waited[i]
		s.tracepointSample(&w.rec, w.event, s.kindsOf(w.event), &w.id, w.raw, w.lost)
	}
}

// waits keeps a sample of a tracepoint for the time when its format is known.
func (s *scan) waits(rec *perfdata.Record, ch *channel, id *perfdata.SampleID, raw []byte) {
	kept := perfdata.Record{Type: rec.Type, Offset: rec.Offset}
	s.unformatted = append(s.unformatted, unformatted{kept, ch.event, *id, bytes.Clone(raw), ch.buffer.lost})
}
