// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// A dumped record is a line that perf report -D prints for it, and what of it
// is to be compared in which order.
type dumped struct {
	file   int
	offset int64
	text   string
}

var (
	dumpLine  = regexp.MustCompile(`^((?:-?\d+ ){0,2})(0x[0-9a-f]+|0) \[(0x[0-9a-f]+)\]: (PERF_RECORD_\w+)(.*)$`)
	dumpPlace = regexp.MustCompile(`^(?:0x[0-9a-f]+|0)@(.*) \[0x[0-9a-f]+\]: event: \d+$`)
	pokeText  = regexp.MustCompile(`^( [0-9a-f]+ ).*(old len \d+ new len \d+)$`)
	dumpBytes = regexp.MustCompile(`^ +(Old|New) bytes:((?: [0-9a-f]{2})+)$`)
)

// perfDump returns what perf prints, in its order.
func perfDump(t *testing.T, path string, files []string) []dumped {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed")
	}
	if v, err := exec.Command(perf, "version").Output(); err != nil || !strings.HasPrefix(string(v), "perf version 6.1") {
		t.Skipf("written for what perf 6.1 prints, not %s%v", v, err)
	}
	cmd := exec.Command(perf, "report", "-D", "-i", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var list []dumped
	file, side := 0, "" // of a poke's bytes, said on every line of 16
	lines := bufio.NewReaderSize(out, 1<<20)
	for {
		b, err := lines.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			break
		}
		if len(b) < 3 || b[0] == '.' { // the bulk
			continue
		}
		b = bytes.TrimSuffix(b, []byte("\n"))
		if m := dumpLine.FindSubmatch(b); m != nil {
			offset, _ := strconv.ParseInt(string(m[2]), 0, 64)
			detail := string(m[5])
			if string(m[4]) == "PERF_RECORD_TEXT_POKE" {
				if p := pokeText.FindStringSubmatch(detail); p != nil {
					detail = p[1] + p[2] // without the symbol that perf makes of the address
				}
			}
			side = ""
			list = append(list, dumped{file, offset, fmt.Sprintf("%s[%s]: %s%s", m[1], m[3], m[4], detail)})
		} else if m := dumpPlace.FindSubmatch(b); m != nil && len(files) > 1 {
			file = slices.Index(files, string(m[1]))
		} else if m := dumpBytes.FindSubmatch(b); m != nil {
			if name := string(m[1]); name != side {
				side = name
				list[len(list)-1].text += " " + strings.ToLower(name)
			}
			list[len(list)-1].text += string(m[2])
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Skipf("perf does not read it: %v", err)
	}
	return list
}

// A dumper prints records as perf report -D does.
type dumper struct {
	r    *Recording
	all  bool       // some event has sample_id_all
	bits SampleType // of all events together
	seen bool       // in a pipe, the first of the events
	old  bool       // MMAP2 records as the first kernels that had them wrote them
}

func newDumper(r *Recording) *dumper {
	d := &dumper{r: r}
	for i, ev := range r.Events() {
		d.bits |= ev.Attr.SampleType
		if i == 0 {
			d.all = ev.Attr.Flags&FlagSampleIDAll != 0 // evlist__sample_id_all asks the first
		}
	}
	return d
}

// prefix is what perf_session__print_tstamp prints.
func (d *dumper) prefix(rec *Record, id *SampleID) string {
	// perf does not know more of a pipe's events than it has read.
	seen := d.seen || !d.r.Pipe()
	d.seen = d.seen || rec.Type == RecordHeaderAttr
	if rec.Type != RecordSample && (!d.all || !seen) {
		return "-1 -1 "
	}
	var b strings.Builder
	if d.bits&SampleCPU != 0 {
		cpu := id.CPU
		if rec.Type < firstUserRecord && id.Has&SampleCPU == 0 {
			cpu = ^uint32(0)
		}
		fmt.Fprintf(&b, "%d ", cpu)
	}
	if d.bits&SampleTime != 0 {
		time := id.Time
		if rec.Type < firstUserRecord && id.Has&SampleTime == 0 {
			time = ^uint64(0)
		}
		fmt.Fprintf(&b, "%d ", time)
	}
	return b.String()
}

// hexNumber is printf's %#x, which gives 0 no prefix.
func hexNumber(v uint64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%#x", v)
}

// line is what perf prints for a record, and whether its details are compared.
func (d *dumper) line(t *testing.T, rec *Record) (string, bool) {
	r := d.r
	var id SampleID
	if err := r.SampleID(rec, &id); err != nil {
		t.Errorf("%v at %d: %v", rec.Type, rec.Offset, err)
	}
	detail, whole := "", true
	v, err := decode(r, rec)
	if d.old && rec.Type == RecordMMAP2 {
		v, err = nil, nil
	}
	if err != nil {
		t.Errorf("%v at %d: %v", rec.Type, rec.Offset, err)
	}
	excess := 0
	switch v := v.(type) {
	case *TextPoke:
		excess = v.Excess
		detail = fmt.Sprintf(" %x old len %d new len %d", v.Addr, len(v.Old), len(v.New))
		for _, b := range []struct {
			name  string
			bytes []byte
		}{{"old", v.Old}, {"new", v.New}} {
			if len(b.bytes) > 0 {
				detail += fmt.Sprintf(" %s % x", b.name, b.bytes)
			}
		}
	case *KSymbol:
		excess = v.Excess
		detail = fmt.Sprintf(" addr %x len %d type %d flags 0x%x name %s", v.Addr, v.Len, v.Kind, v.Flags, v.Name)
	case *BPFEvent:
		excess = v.Excess
		detail = fmt.Sprintf(" type %d, flags %d, id %d", v.Kind, v.Flags, v.ID)
	case *Mmap:
		place := fmt.Sprintf(" %d/%d: [%s(%s) @ %s", int32(v.PID), int32(v.TID), hexNumber(v.Addr), hexNumber(v.Len), hexNumber(v.Pgoff))
		if rec.Type == RecordMMAP {
			kind := "x"
			if rec.Misc&MiscMmapData != 0 {
				kind = "r"
			}
			detail = fmt.Sprintf("%s]: %s %s", place, kind, v.Filename)
			break
		}
		if rec.Misc&MiscMmapBuildID != 0 {
			place += fmt.Sprintf(" <%x>", v.BuildID)
		} else {
			place += fmt.Sprintf(" %02x:%02x %d %d", v.Major, v.Minor, v.Ino, v.InoGeneration)
		}
		if r.endian == big { // perf_event__mmap2_swap leaves them as they are
			v.Prot, v.Flags = bits.ReverseBytes32(v.Prot), bits.ReverseBytes32(v.Flags)
		}
		prot := []byte("---p")
		for i, c := range "rwx" {
			if v.Prot>>i&1 == 1 {
				prot[i] = byte(c)
			}
		}
		if v.Flags&1 != 0 { // MAP_SHARED
			prot[3] = 's'
		}
		detail = fmt.Sprintf("%s]: %s %s", place, prot, v.Filename)
	case *Comm:
		exec := ""
		if rec.Misc&MiscCommExec != 0 {
			exec = " exec"
		}
		detail = fmt.Sprintf("%s: %s:%d/%d", exec, v.Comm, int32(v.PID), int32(v.TID))
	case *Task:
		detail = fmt.Sprintf("(%d:%d):(%d:%d)", int32(v.PID), int32(v.TID), int32(v.PPID), int32(v.PTID))
	case *Lost:
		detail = fmt.Sprintf(": id:%d: lost:%d", v.ID, v.Lost)
	case *LostSamples:
		detail = fmt.Sprintf(": id:%d: lost samples :%d", id.ID, v.Lost)
	default:
		whole = false
	}
	switch rec.Type {
	case RecordSample:
		// What follows the pid is of the sample's body, not of its id.
		detail = fmt.Sprintf("(IP, 0x%x): %d/%d: ", rec.Misc, int32(id.PID), int32(id.TID))
	case RecordFinishedRound:
		whole = true
	}
	if excess > 0 {
		// perf looks for the trailer at the record's end, where there are stale
		// bytes: it prints whatever time and CPU those make.
		l := r.trailers[0]
		l.decode(rec.Raw[len(rec.Raw)-l.size:], r.endian, nil, &id)
	}
	return fmt.Sprintf("%s[%#x]: PERF_RECORD_%s%s", d.prefix(rec, &id), len(rec.Raw), rec.Type, detail), whole
}

// skipped lists how perf's output differs from what is in the file, each with
// its reason.
func skipped(r *Recording, d dumped) bool {
	switch {
	case !r.Pipe() && d.offset == 0 && d.file == 0:
		return true // perf's trace decoders synthesize events and dump them
	case strings.Contains(d.text, "PERF_RECORD_COMPRESSED"):
		return true
	}
	return false
}

// A difference is one that a whole recording has.
type difference struct {
	stops    bool // perf does not read it to its end
	oldMmap2 bool // its MMAP2 records have neither prot nor flags, as those of Linux 3.12 to 3.15: perf takes them from the name
}

var differences = map[string]difference{
	"fibo.compressed2.pipe.data":                     {stops: true}, // perf 6.1 does not know COMPRESSED2
	"perf.data.piped.corrupted.zero_size_sample-3.2": {stops: true}, // a record of size 0 is where we stop too
	"perf_with_callchain_record.data":                {stops: true}, // simpleperf's own records
	"perf.data.true.v2":                              {oldMmap2: true},
}

// comparePerf holds all records of a recording against what perf prints.
// Inside is for recordings whose records are compressed.
func comparePerf(t *testing.T, path string, inside bool, but difference) {
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := slices.DeleteFunc(perfDump(t, path, r.Files()), func(d dumped) bool { return skipped(r, d) })
	if len(want) == 0 {
		t.Skip("perf does not read it")
	}
	var got []dumped
	loose := make(map[int]bool) // of got, those of which no more than the beginning is compared
	dump := newDumper(r)
	dump.old = but.oldMmap2
	excess, rounds := false, false
	o := r.Ordered()
	for o.Next() {
		rec := o.Record()
		if rec.Type == RecordCompressed {
			continue
		}
		text, whole := dump.line(t, rec)
		loose[len(got)] = !whole
		offset := rec.Offset
		if r.Pipe() {
			offset -= pipeHeader // perf counts from the first record
		}
		got = append(got, dumped{rec.File, offset, text})
		rounds = rounds || rec.Type == RecordFinishedRound
		excess = excess || rec.Type == RecordTextPoke && r.textPokeExcess(rec)
	}
	if err := o.Err(); err != nil && !but.stops {
		t.Error(err)
	}
	// Where every record has its place, the order is compared on its own:
	// perf's is another where it misreads times, or reads several files in turn,
	// and without rounds it sorts the whole file.
	order := func(list []dumped) (places []dumped) {
		for _, d := range list {
			places = append(places, dumped{d.file, d.offset, ""})
		}
		return places
	}
	byText := func(a, b dumped) int {
		return cmp.Or(cmp.Compare(a.file, b.file), strings.Compare(a.text, b.text))
	}
	if inside && excess {
		// Without the details that are not compared, both sort alike.
		for i := range want {
			for j, d := range got {
				if loose[j] && d.file == want[i].file && strings.HasPrefix(want[i].text, d.text) {
					want[i].text = d.text
					break
				}
			}
		}
		slices.SortFunc(want, byText)
		slices.SortFunc(got, byText)
		clear(loose)
	}
	if !inside {
		if rounds && !excess && len(r.Files()) == 1 && !but.stops {
			if diff := gocmp.Diff(order(want), order(got), gocmp.AllowUnexported(dumped{})); diff != "" {
				t.Errorf("order (-perf +got):\n%.2000s", diff)
			}
		}
		type numbered struct {
			dumped
			loose bool
		}
		all := make([]numbered, len(got))
		for i, d := range got {
			all[i] = numbered{d, loose[i]}
		}
		slices.SortStableFunc(all, func(a, b numbered) int {
			return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset))
		})
		slices.SortStableFunc(want, func(a, b dumped) int {
			return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset))
		})
		for i, n := range all {
			got[i], loose[i] = n.dumped, n.loose
		}
	}
	if len(got) != len(want) && !but.stops {
		t.Errorf("%d records, perf has %d", len(got), len(want))
	}
	wrong := 0
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if inside {
			g.offset, w.offset = 0, 0 // perf's is that in its own memory
		}
		if loose[i] && strings.HasPrefix(w.text, g.text) {
			w.text = g.text
		}
		if g != w {
			if wrong++; wrong <= 5 {
				t.Errorf("record %d:\n got  %+v\n perf %+v", i, g, w)
			}
		}
	}
	if wrong > 5 {
		t.Errorf("%d records differ", wrong)
	}
	t.Logf("%d records", len(got))
}

func (r *Recording) textPokeExcess(rec *Record) bool {
	var p TextPoke
	return r.TextPoke(rec, &p) == nil && p.Excess > 0
}

// TestPerfDump compares recordings of this repository, those of other projects
// and those of real kernels with what perf finds in them, record by record.
// With TEXTREPLAY_ALL set the longest ones are not left out.
func TestPerfDump(t *testing.T) {
	const long = 4 << 20 // bytes; perf prints 35 times as much
	var paths []string
	for _, dir := range []string{"testdata", "../testdata/*", "../../shared/fixtures/*"} {
		more, _ := filepath.Glob(filepath.Join(dir, "*.data*"))
		paths = append(paths, more...)
	}
	corpus := os.Getenv("TEXTREPLAY_CORPUS")
	if corpus == "" {
		corpus = "../../shared/corpus"
	}
	for _, name := range []string{"rec.data", "pipe.data"} {
		more, _ := filepath.Glob(filepath.Join(corpus, "*/*", name))
		paths = append(paths, more...)
	}
	for _, path := range paths {
		t.Run(strings.TrimLeft(path, "./"), func(t *testing.T) {
			r, err := Open(path)
			if err != nil {
				t.Skip(err)
			}
			size, order := r.Size(), r.ByteOrder()
			r.Close()
			if size > long && os.Getenv("TEXTREPLAY_ALL") == "" {
				t.Skip("long; TEXTREPLAY_ALL=1 includes it")
			}
			if order == binary.BigEndian && path != "testdata/s390x.data" {
				t.Skip("perf stops at the first KSYMBOL of the other byte order")
			}
			comparePerf(t, path, false, differences[filepath.Base(path)])
		})
	}
}

// TestPerfReadsWriter writes recordings again in every form, in either byte
// order, and lets perf read them: its headers, its script, and, compared record
// by record, its dump.
func TestPerfReadsWriter(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed")
	}
	for _, source := range []string{"testdata/x86_64.data", "testdata/s390x.data"} {
		r, err := Open(source)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		// perf 6.1 takes no attr of more than 128 bytes, and stops at a KSYMBOL
		// of the other byte order, whose id it does not swap.
		var events []*Event
		for _, ev := range r.Events() {
			ev := *ev
			ev.Attr.Size = attrSizeDefault
			events = append(events, &ev)
		}
		skip := func(typ RecordType) bool {
			return r.endian == big && (typ == RecordKSymbol || typ == RecordBPFEvent)
		}
		for name, opts := range map[string][]WriterOption{"": nil, " zstd": {Compress(RecordCompressed)}} {
			for _, form := range []string{"file", "pipe", "directory"} {
				t.Run(filepath.Base(source)+"/"+form+name, func(t *testing.T) {
					// perf does not swap the number of a feature in a pipe, and
					// takes it for an error; one of them says how it is compressed.
					noFeatures := form == "pipe" && r.endian == big
					if noFeatures && opts != nil {
						t.Skip("perf 6.1 reads no compressed pipe of the other byte order")
					}
					path := filepath.Join(t.TempDir(), "perf.data")
					var w *Writer
					var out *os.File
					var err error
					if form == "directory" {
						w, err = CreateDir(path, 2, r.ByteOrder(), opts...)
					} else if out, err = os.Create(path); err == nil {
						defer out.Close()
						w = NewWriter(out, r.ByteOrder(), opts...)
						if form == "pipe" {
							w = NewPipeWriter(out, r.ByteOrder(), opts...)
						}
					}
					if err != nil {
						t.Fatal(err)
					}
					w.SetEvents(events)
					for _, f := range r.Features() {
						b, err := r.Feature(f)
						if err != nil {
							t.Fatal(err)
						}
						if !noFeatures && f != FeatureEventDesc && !(form == "pipe" && len(b) > 60_000) { // the events are others
							w.WriteFeature(f, b)
						}
					}
					written := 0
					if form == "directory" {
						// Each thread's file is in the order of time.
						for o := r.Ordered(); o.Next(); {
							rec := o.Record()
							if skip(rec.Type) {
								continue
							}
							if tm := r.timeOfAny(rec); tm != 0 {
								w.SetFile(1 + written%2)
							} else {
								w.SetFile(0)
							}
							if rec.Type != RecordFinishedRound {
								w.WriteRecord(rec.Raw)
								written++
							}
						}
					} else {
						for s := r.Scan(); s.Next(); {
							if !skip(s.Record().Type) {
								w.WriteRecord(s.Record().Raw)
								written++
							}
						}
					}
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					for _, args := range [][]string{{"report", "--header-only"}, {"script"}} {
						cmd := exec.Command(perf, append(args, "-i", path)...)
						var stderr bytes.Buffer
						cmd.Stderr = &stderr
						text, err := cmd.Output()
						if err != nil || args[0] == "report" && form != "pipe" && !bytes.Contains(text, []byte("hostname")) {
							t.Errorf("perf %v: %v\n%.500s%s", args, err, text, stderr.Bytes())
						}
					}
					comparePerf(t, path, name != "", difference{})
					r2, err := Open(path)
					if err != nil {
						t.Fatal(err)
					}
					defer r2.Close()
					n := 0
					s := r2.Scan()
					for s.Next() {
						if s.Record().Type != RecordCompressed {
							n++
						}
					}
					if s.Err() != nil || n < written {
						t.Errorf("%d records of %d, %v", n, written, s.Err())
					}
				})
			}
		}
	}
}

// timeOfAny is timeOf, 0 for perf's own records.
func (r *Recording) timeOfAny(rec *Record) uint64 {
	if rec.Type >= firstUserRecord {
		return 0
	}
	return r.timeOf(rec)
}
