// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// schema lists the fields of Perfetto's messages that a trace may have, as the
// descriptors of protos/perfetto/trace have them: message, field, number, type.
const schema = `
Trace packet 1 repeated TracePacket
TracePacket clock_snapshot 6 ClockSnapshot
TracePacket timestamp 8 uint64
TracePacket trusted_packet_sequence_id 10 uint32
TracePacket track_event 11 TrackEvent
TracePacket sequence_flags 13 uint32
TracePacket track_descriptor 60 TrackDescriptor
ClockSnapshot clocks 1 repeated Clock
Clock clock_id 1 uint32
Clock timestamp 2 uint64
TrackDescriptor uuid 1 uint64
TrackDescriptor name 2 string
TrackDescriptor parent_uuid 5 uint64
TrackDescriptor counter 8 CounterDescriptor
TrackDescriptor child_ordering 11 int32
TrackDescriptor sibling_order_rank 12 int32
CounterDescriptor unit 3 int32
TrackEvent debug_annotations 4 repeated DebugAnnotation
TrackEvent type 9 int32
TrackEvent track_uuid 11 uint64
TrackEvent name 23 string
TrackEvent counter_value 30 int64
DebugAnnotation uint_value 3 uint64
DebugAnnotation string_value 6 string
DebugAnnotation name 10 string
`

// messages makes descriptors of the schema.
func messages(t *testing.T) protoreflect.MessageDescriptors {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("trace.proto"), Package: proto.String("p"), Syntax: proto.String("proto2")}
	byName := make(map[string]*descriptorpb.DescriptorProto)
	for line := range strings.Lines(schema) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		m := byName[f[0]]
		if m == nil {
			m = &descriptorpb.DescriptorProto{Name: proto.String(f[0])}
			byName[f[0]], file.MessageType = m, append(file.MessageType, m)
		}
		text := fmt.Sprintf("name: %q number: %s label: LABEL_OPTIONAL type: TYPE_%s", f[1], f[2], strings.ToUpper(f[len(f)-1]))
		if typ := f[len(f)-1]; typ[0] >= 'A' && typ[0] <= 'Z' {
			text = fmt.Sprintf("name: %q number: %s label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: %q", f[1], f[2], ".p."+typ)
		}
		if f[3] == "repeated" {
			text = strings.Replace(text, "LABEL_OPTIONAL", "LABEL_REPEATED", 1)
		}
		field := &descriptorpb.FieldDescriptorProto{}
		if err := prototext.Unmarshal([]byte(text), field); err != nil {
			t.Fatal(err)
		}
		m.Field = append(m.Field, field)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d.Messages()
}

// A decoded trace.
type (
	decoded struct {
		tracks map[uint64]*decodedTrack
		wall   uint64 // of ClockSnapshot
		at     uint64
	}
	decodedTrack struct {
		name    string
		parent  uint64
		counter bool
		slices  []decodedSlice
		values  [][2]uint64 // time and value
		open    bool
	}
	decodedSlice struct {
		from, to uint64
		name     string
		notes    map[string]string
	}
)

// decode reads a trace by the schema, and checks what every trace must be.
func decode(t *testing.T, data []byte) *decoded {
	t.Helper()
	m := dynamicpb.NewMessage(messages(t).ByName("Trace"))
	if err := proto.Unmarshal(data, m); err != nil {
		t.Fatal(err)
	}
	known(t, m)
	d := &decoded{tracks: make(map[uint64]*decodedTrack)}
	get := func(m protoreflect.Message, field string) protoreflect.Value {
		return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field)))
	}
	has := func(m protoreflect.Message, field string) bool {
		return m.Has(m.Descriptor().Fields().ByName(protoreflect.Name(field)))
	}
	packets := get(m, "packet").List()
	for i := range packets.Len() {
		p := packets.Get(i).Message()
		if get(p, "trusted_packet_sequence_id").Uint() == 0 {
			t.Fatal("a packet is of no sequence")
		}
		if (get(p, "sequence_flags").Uint() == 1) != (i == 0) {
			t.Errorf("packet %d: flags %d", i, get(p, "sequence_flags").Uint())
		}
		time := get(p, "timestamp").Uint()
		switch {
		case has(p, "clock_snapshot"):
			clocks := get(get(p, "clock_snapshot").Message(), "clocks").List()
			for j := range clocks.Len() {
				switch c := clocks.Get(j).Message(); get(c, "clock_id").Uint() {
				case 1:
					d.wall = get(c, "timestamp").Uint()
				case 6:
					d.at = get(c, "timestamp").Uint()
				}
			}
		case has(p, "track_descriptor"):
			x := get(p, "track_descriptor").Message()
			uuid, parent := get(x, "uuid").Uint(), get(x, "parent_uuid").Uint()
			if uuid == 0 || d.tracks[uuid] != nil || parent != 0 && d.tracks[parent] == nil {
				t.Fatalf("track %d of %d", uuid, parent)
			}
			d.tracks[uuid] = &decodedTrack{name: get(x, "name").String(), parent: parent, counter: has(x, "counter")}
		case has(p, "track_event"):
			e := get(p, "track_event").Message()
			track := d.tracks[get(e, "track_uuid").Uint()]
			typ := get(e, "type").Int()
			if track == nil || track.counter != (typ == 4) || time == 0 {
				t.Fatalf("an event of type %d at %d on %+v", typ, time, track)
			}
			switch last := len(track.slices) - 1; typ {
			case 1:
				if track.open || last >= 0 && time < track.slices[last].to {
					t.Fatalf("%s: a slice begins at %d, before %d, when another one ends", track.name, time, track.slices[last].to)
				}
				notes := make(map[string]string)
				list := get(e, "debug_annotations").List()
				for j := range list.Len() {
					n := list.Get(j).Message()
					notes[get(n, "name").String()] = get(n, "string_value").String()
					if has(n, "uint_value") {
						notes[get(n, "name").String()] = fmt.Sprint(get(n, "uint_value").Uint())
					}
				}
				track.slices = append(track.slices, decodedSlice{time, 0, get(e, "name").String(), notes})
				track.open = true
			case 2:
				if !track.open || time < track.slices[last].from {
					t.Fatalf("%s: a slice ends at %d", track.name, time)
				}
				track.slices[last].to, track.open = time, false
			case 4:
				if n := len(track.values); n > 0 && track.values[n-1][0] >= time {
					t.Fatalf("%s: a counter goes back", track.name)
				}
				track.values = append(track.values, [2]uint64{time, uint64(get(e, "counter_value").Int())})
			default:
				t.Fatalf("an event of type %d", typ)
			}
		default:
			t.Errorf("packet %d is empty", i)
		}
	}
	return d
}

// known fails if a message has a field that the schema does not have.
func known(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s has unknown fields % x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				known(t, v.List().Get(i).Message())
			}
		default:
			known(t, v.Message())
		}
		return true
	})
}

// slicesOf returns the slices of all tracks of a name.
func (d *decoded) slicesOf(name string) (out []decodedSlice) {
	for _, tr := range d.tracks {
		if tr.name == name {
			out = append(out, tr.slices...)
		}
	}
	return out
}

func written(t *testing.T, r *replay.Replay, opts Options) (*decoded, *Stats) {
	t.Helper()
	var out bytes.Buffer
	stats, err := Write(&out, r, opts)
	if err != nil {
		t.Fatal(err)
	}
	d := decode(t, out.Bytes())
	slices, counters := 0, 0
	for _, tr := range d.tracks {
		slices += len(tr.slices)
		counters += len(tr.values)
	}
	if stats.Bytes != int64(out.Len()) || stats.Tracks != len(d.tracks) || stats.Slices != slices || stats.Counters != counters {
		t.Errorf("stats %+v, but %d bytes, %d tracks, %d slices, %d values", stats, out.Len(), len(d.tracks), slices, counters)
	}
	return d, stats
}

func load(t *testing.T, dir string) *replay.Replay {
	t.Helper()
	r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestSmall: the trace of a recording whose every change is known.
func TestSmall(t *testing.T) {
	r := load(t, filepath.Join(corpus.Root(), "testdata", "small"))
	d, stats := written(t, r, Options{Sites: 200})
	if stats.Changes != 548 || stats.Truncated != nil {
		t.Errorf("%+v", stats)
	}
	if wall, err := r.Report.Clock.ToWall(d.at); err != nil || d.at != r.Report.First || uint64(wall.UnixNano()) != d.wall {
		t.Errorf("clocks: %d is %d", d.at, d.wall)
	}
	// The static key sched_schedstats flips six times.
	flips := 0
	for _, s := range d.slicesOf("static-key") {
		if s.name == "76 by scenario.sh" && s.notes["first site"] == "sysctl_schedstats+0x41" && s.notes["pid"] == "124" && s.notes["batches"] == "1" {
			flips++
		}
	}
	if flips != 6 {
		t.Errorf("%d flips of the static key, want 6", flips)
	}
	states := d.slicesOf("sysctl_schedstats+0x41 (static-key)")
	if len(states) != 7 || states[0].from != r.Report.First || states[0].name != "e9a8000000" ||
		states[1].from != 8450516155 || states[1].to != 8690949435 || states[1].notes["bytes"] != "0f1f440000" ||
		states[1].notes["before"] != "e9a8000000" || states[1].notes["writer"] != "scenario.sh[124]" || states[1].notes["cpu"] != "1" {
		t.Errorf("states %+v", states)
	}
	windows := d.slicesOf("sysctl_schedstats+0x41 (static-key) may trap")
	if len(windows) == 0 || windows[0].from > 8450516155 || windows[0].to < 8450516155 {
		t.Errorf("windows %+v", windows)
	}
	// The window of a probe that is armed ends when its record is written, and that of the
	// jump that replaces it begins then.
	windows = d.slicesOf("do_sys_openat2+0x7 (kprobe) may trap")
	if len(windows) == 0 || windows[0].from != 14389930915 || windows[0].to != 17339671805 ||
		windows[0].notes["probably from"] != "14389969480" || windows[0].notes["probably until"] != "16762315479" {
		t.Errorf("windows of a probe %+v", windows)
	}
	if p := d.slicesOf("BPF programs"); len(p) != 1 || p[0].name != "bpf_prog_b19c858917c4054c_socket_3" || p[0].from != 18134851735 ||
		p[0].to < 22e9 || p[0].notes["addr"] != "0xffffffffc0083670" || p[0].notes["program id"] != "1" {
		t.Errorf("BPF programs %+v", p)
	}
	if m := d.slicesOf("modules"); len(m) == 0 || m[0].from != r.Report.First || m[0].notes["began"] != "before the recording" {
		t.Errorf("modules %+v", m)
	}
	for _, tr := range d.tracks {
		if tr.name == "static-key changes/s" {
			sum := uint64(0)
			for _, v := range tr.values {
				sum += v[1]
			}
			if !tr.counter || sum < 300 || sum > 600 { // in seconds with several flips the rate is that of the second
				t.Errorf("static keys per second %v", tr.values)
			}
		}
	}
}

// TestRecordings: the traces of all recordings are valid, as are those of a part of the
// time.
func TestRecordings(t *testing.T) {
	for _, dir := range corpus.Small(t) {
		r := load(t, dir)
		written(t, r, Options{})
		middle := r.Report.First + (r.Report.Last-r.Report.First)/2
		d, _ := written(t, r, Options{From: middle, To: middle + 1e9, Sites: 3, Disassemble: func(v timeline.View, addr uint64, code []byte) string { return "insn" }})
		for _, tr := range d.tracks {
			for _, s := range tr.slices {
				if s.from < middle || s.to > middle+1e9 {
					t.Errorf("%s: %s: a slice outside of the time", filepath.Base(dir), tr.name)
				}
			}
		}
	}
	r := load(t, filepath.Join(corpus.Root(), "testdata", "lossy"))
	d, _ := written(t, r, Options{Sites: -1})
	lost := 0
	for _, s := range d.slicesOf("lost") {
		lost++
		if !strings.HasSuffix(s.name, " records lost") || s.notes["where"] != "CPU 0" && s.notes["where"] != "CPU 1" {
			t.Fatalf("a loss: %+v", s)
		}
	}
	if lost != len(r.Report.Losses) {
		t.Errorf("%d losses, want %d", lost, len(r.Report.Losses))
	}
}

// TestLarge: the size of a trace is bounded.
func TestLarge(t *testing.T) {
	r := load(t, corpus.Large(t, "x86_64/storm"))
	_, stats := written(t, r, Options{})
	if stats.Changes < 1200000 || stats.Bytes > 5<<20 {
		t.Errorf("%+v", stats)
	}
}

// TestWriteError: the error of the output ends the writing.
func TestWriteError(t *testing.T) {
	r := load(t, filepath.Join(corpus.Root(), "testdata", "small"))
	full := errors.New("full")
	if _, err := Write(writerFunc(func(p []byte) (int, error) { return 0, full }), r, Options{}); err != full {
		t.Errorf("error %v", err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestText: names are UTF-8 and not too long, whatever a recording has.
func TestText(t *testing.T) {
	if s := valid("a\xff" + strings.Repeat("é", mostText)); len(s) > mostText+3 || !strings.HasPrefix(s, "a\uFFFDé") || !utf8.ValidString(s) {
		t.Errorf("%q", s)
	}
}

// made writes and loads a recording of a kernel with one function.
func made(t *testing.T, fill func(w *genperf.Recorder)) *replay.Replay {
	t.Helper()
	const addr = genperf.TextAddr
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12.0", Order: binary.LittleEndian, Addr: addr, CPUs: 1,
		Text: append([]byte{0x0f, 0x1f, 0x44, 0, 0, 0xc3}, make([]byte, 4090)...), Symbols: []kcore.ELFSymbol{{Addr: addr, Size: 6, Name: "f"}, {Addr: addr + 6, Size: 4090, Name: "g"}}}
	dir := t.TempDir()
	w, err := k.Record(filepath.Join(dir, "rec.data"))
	if err != nil {
		t.Fatal(err)
	}
	fill(w)
	if err := w.End(9e9 + 1); err != nil { // so the clock does not look like one that counts ticks
		t.Fatal(err)
	}
	return load(t, dir)
}

// TestLastTime: a recording that ends at the last time there is, is not empty.
func TestLastTime(t *testing.T) {
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12.0", Order: binary.LittleEndian, Addr: genperf.TextAddr, CPUs: 1,
		Text: make([]byte, 4096), Symbols: []kcore.ELFSymbol{{Addr: genperf.TextAddr, Size: 4096, Name: "f"}}}
	dir := t.TempDir()
	w, err := k.Record(filepath.Join(dir, "rec.data"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []uint64{2e9, math.MaxUint64 - 1} {
		if err := w.Poke(at, genperf.TextAddr+at%16, []byte{0}, []byte{0xcc}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	stats, err := Write(io.Discard, load(t, dir), Options{})
	if err != nil || stats.Changes != 2 {
		t.Errorf("%+v, %v; want 2 changes", stats, err)
	}
}

// TestLongCode: no more code is made into instructions than is shown of it.
func TestLongCode(t *testing.T) {
	r := made(t, func(w *genperf.Recorder) {
		if err := w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 6, Old: make([]byte, 4090), New: bytes.Repeat([]byte{0x90}, 4090), SampleID: w.ID(2e9, 0, 5)}); err != nil {
			t.Fatal(err)
		}
	})
	longest := 0
	d, _ := written(t, r, Options{Sites: 1, Disassemble: func(_ timeline.View, _ uint64, code []byte) string {
		longest = max(longest, len(code))
		return strings.Repeat("nop; ", len(code))
	}})
	if longest != mostText {
		t.Errorf("%d bytes of code, want %d", longest, mostText)
	}
	shown := false
	for _, tr := range d.tracks {
		shown = shown || slices.ContainsFunc(tr.slices, func(s decodedSlice) bool {
			return len(s.name) == mostText && strings.HasPrefix(s.name, "nop; nop")
		})
	}
	if !shown {
		t.Error("no slice has as much text as there may be")
	}
}

// TestWideChanges: changes within what a wider change wrote cost nothing where they change nothing that is
// shown. A state that they leave as it is is one slice.
func TestWideChanges(t *testing.T) {
	const within = 300
	nops := func(n int) []byte { return bytes.Repeat([]byte{0x90}, n) }
	r := made(t, func(w *genperf.Recorder) {
		poke := func(at uint64, addr uint64, old, new []byte) {
			t.Helper()
			if err := w.TextPoke(&perfdata.TextPoke{Addr: addr, Old: old, New: new, SampleID: w.ID(at, 0, 5)}); err != nil {
				t.Fatal(err)
			}
		}
		wide := uint64(genperf.TextAddr + 6)
		poke(2e9, wide, make([]byte, 4090), nops(4090))
		poke(21e8, wide, nops(4090), make([]byte, 4090))
		poke(22e8, wide, make([]byte, 4090), nops(4090))
		for i := range uint64(within) {
			poke(3e9+i*1e6, wide+1000+i, nops(1), []byte{0xc3}) // is not shown
		}
		for i := range uint64(within) {
			poke(4e9+i*1e6, wide+3000+i, nops(1), []byte{0xc3})
		}
	})
	asked := 0
	d, _ := written(t, r, Options{Sites: 1, Disassemble: func(_ timeline.View, _ uint64, code []byte) string {
		asked++
		return fmt.Sprintf("%x", code[:8])
	}})
	if asked > 10 {
		t.Errorf("instructions were made %d times", asked)
	}
	if got := d.slicesOf("g (other)"); len(got) != 4 {
		t.Errorf("%d slices, want those before, between and behind the wide changes: %+v", len(got), got)
	}
}

// TestManyOverlap: hundreds of programs that live at the same time are all in the trace. What is
// too much is counted once.
func TestManyOverlap(t *testing.T) {
	for _, n := range []int{100, mostLanes + 88} {
		r := made(t, func(w *genperf.Recorder) {
			for i := range uint64(n) {
				if err := w.KSymbol(&perfdata.KSymbol{Addr: 0xffffffffc0000000 + i*4096, Len: 64, Kind: perfdata.KSymbolBPF, Name: fmt.Appendf(nil, "bpf_prog_%016d", i), SampleID: w.ID(2e9+i, 0, 5)}); err != nil {
					t.Fatal(err)
				}
			}
		})
		d, stats := written(t, r, Options{})
		if got := len(d.slicesOf("BPF programs")); got != min(n, mostLanes) {
			t.Errorf("%d of %d programs", got, n)
		}
		var want []string
		if n > mostLanes {
			want = []string{fmt.Sprintf("88 of %d slices of BPF programs, which overlap more than %d others", n, mostLanes-1)}
		}
		if !slices.Equal(stats.Truncated, want) {
			t.Errorf("left out: %q, want %q", stats.Truncated, want)
		}
	}
}

// TestUnknownStates: the state of a site is not drawn as known where records were lost, nor behind
// the end of what is known.
func TestUnknownStates(t *testing.T) {
	r := load(t, filepath.Join(corpus.Root(), "testdata", "lossy"))
	d, _ := written(t, r, Options{})
	group, n, unsure := uint64(0), 0, 0
	for uuid, tr := range d.tracks {
		if tr.name == "busiest sites" {
			group = uuid
		}
	}
	standings := make(map[string]bool)
	for s := timeline.Unmapped; s <= timeline.Known; s++ {
		standings[s.String()] = true
	}
	for _, tr := range d.tracks {
		if tr.parent != group || strings.HasSuffix(tr.name, " may trap") {
			continue
		}
		place, _, _ := strings.Cut(tr.name, " (")
		addr, err := r.ParseAddr(place, r.Report.First)
		if err != nil {
			continue // a symbol that is there later
		}
		for _, s := range tr.slices {
			standing, _, ok := strings.Cut(s.name, ": ")
			if isUnsure := ok && standings[standing]; isUnsure {
				unsure++
				continue
			}
			buf := make([]byte, max(len(s.notes["bytes"])/2, 1))
			for _, at := range []uint64{s.from, s.from + (s.to-s.from)/2, s.to - 1} {
				if b := r.Image.At(at).Read(addr, buf); b.Standing != timeline.Known && b.Standing != timeline.InFlight || fmt.Sprintf("%x", buf[:b.Given]) != s.notes["bytes"] {
					t.Errorf("%s at %d is %s %x, drawn as %s", tr.name, at, b.Standing, buf, s.name)
				}
				n++
			}
		}
	}
	if n < 100 || unsure < 10 {
		t.Errorf("%d known states, %d others", n, unsure)
	}
}

// TestStatesAreTheImage: what a slice of a site shows is what the image has there during all of it, and
// a slice says that its bytes are not known only if they are not. Changes are lost in some recordings,
// and other code comes to the addresses of BPF programs and of out-of-line code.
func TestStatesAreTheImage(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(corpus.Root(), "testdata/*/rec.data"))
	if err != nil || len(dirs) < 10 {
		t.Fatal(dirs, err)
	}
	opts := Options{Sites: 200, Disassemble: func(v timeline.View, addr uint64, code []byte) string {
		return fmt.Sprintf("%#x:%x", addr, code)
	}}
	states := 0
	for _, dir := range dirs {
		r := load(t, filepath.Dir(dir))
		whole := r.Report.Last - r.Report.First
		for _, window := range [][2]uint64{{0, 0}, {r.Report.First + whole/3, r.Report.First + 2*whole/3}} {
			opts.From, opts.To = window[0], window[1]
			d, _ := written(t, r, opts)
			for _, track := range d.tracks {
				if parent := d.tracks[track.parent]; parent == nil || parent.name != "busiest sites" || strings.HasSuffix(track.name, "may trap") {
					continue
				}
				for _, s := range track.slices {
					standing, code, doubted := strings.Cut(s.name, ": ")
					if !doubted {
						code = standing
					}
					var addr uint64
					var want []byte
					if n, _ := fmt.Sscanf(code, "%v:%x", &addr, &want); n != 2 {
						continue // nothing
					}
					states++
					for _, at := range []uint64{s.from, s.from + (s.to-s.from)/2, max(s.to, s.from+1) - 1} {
						got := make([]byte, len(want))
						b := r.Image.At(at).Read(addr, got)
						switch known := b.Standing == timeline.Known; {
						case known && (doubted || !bytes.Equal(got, want)):
							t.Errorf("%s: %s at %d: %q, but %x is known", dir, track.name, at, s.name, got)
						case !known && !doubted && b.Standing != timeline.InFlight, doubted && standing != b.Standing.String():
							t.Errorf("%s: %s at %d: %q, but it is %v", dir, track.name, at, s.name, b.Standing)
						}
					}
				}
			}
		}
	}
	if states < 10_000 {
		t.Errorf("only %d states", states)
	}
}

// TestWriterAndCPU: a state has the writer and the CPU that were recorded, and none that was not.
func TestWriterAndCPU(t *testing.T) {
	for _, c := range []struct {
		fields      perfdata.SampleType
		writer, cpu bool
	}{{perfdata.SampleTID, true, false}, {perfdata.SampleCPU, false, true}, {perfdata.SampleTID | perfdata.SampleCPU, true, true}} {
		dir := t.TempDir()
		f, err := os.Create(filepath.Join(dir, "rec.data"))
		if err != nil {
			t.Fatal(err)
		}
		w := perfdata.NewWriter(f, binary.LittleEndian)
		ev := &perfdata.Event{Name: "dummy", IDs: []uint64{10}, Attr: perfdata.Attr{
			SampleType: perfdata.SampleTime | perfdata.SampleIdentifier | c.fields,
			Flags:      perfdata.FlagSampleIDAll | perfdata.FlagTextPoke | perfdata.FlagKSymbol | perfdata.FlagComm,
		}}
		text := binary.LittleEndian.AppendUint32(nil, 16)
		if err := errors.Join(w.SetEvents([]*perfdata.Event{ev}), w.WriteFeature(perfdata.FeatureArch, append(text, "x86_64\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)),
			w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr, Old: []byte{0x90}, New: []byte{0xcc}, SampleID: perfdata.SampleID{PID: 7, TID: 7, CPU: 3, Time: 1e9, ID: 10, Event: ev}}),
			w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		d, _ := written(t, load(t, dir), Options{})
		n := 0
		for _, tr := range d.tracks {
			for _, s := range tr.slices {
				if s.notes["before"] == "" {
					continue
				}
				n++
				if _, ok := s.notes["writer"]; ok != c.writer {
					t.Errorf("%v: the writer is %q", c.fields, s.notes["writer"])
				}
				if cpu, ok := s.notes["cpu"]; ok != c.cpu || ok && cpu != "3" {
					t.Errorf("%v: the CPU is %q", c.fields, cpu)
				}
			}
		}
		if n == 0 {
			t.Errorf("%v: no change in %+v", c.fields, d.tracks)
		}
	}
}
