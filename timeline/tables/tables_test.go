// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

// recordings returns the directories of the repository's recordings.
func recordings(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../../testdata/*/rec.data")
	if err != nil || len(all) < 10 {
		t.Fatalf("%d recordings: %v", len(all), err)
	}
	return all
}

func load(t *testing.T, path string) (r *replay.Replay, id string, files []string) {
	t.Helper()
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if id, err = ID(files, 0); err != nil {
		t.Fatal(err)
	}
	if r, err = replay.Load(path, replay.Options{Windows: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, id, files
}

// readAll reads a table of a recording in a directory.
func readAll[T any](t *testing.T, pattern string) []T {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	var all []T
	for _, name := range files {
		rows, err := parquet.ReadFile[T](name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, rows...)
	}
	return all
}

// A reader answers from the tables alone, by the rule in doc.go.
type reader struct {
	rec     recordingRow
	changes []changeRow
	gaps    []gapRow
	pages   map[int64]pageRow
	text    map[[16]byte]textRow
}

// TestAddID: an id is no path.
func TestAddID(t *testing.T) {
	r, _, _ := load(t, "../../testdata/small/rec.data")
	dir := t.TempDir()
	d := Open(dir)
	defer d.Close()
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/"} {
		if _, err := d.Add(r, id, Options{}); err == nil {
			t.Errorf("%q is taken for an id", id)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v: something was written", left, err)
	}
}

// added loads a recording and adds it to new tables in dir.
func added(t *testing.T, path string) (r *replay.Replay, id, dir string) {
	t.Helper()
	r, id, _ = load(t, path)
	dir = t.TempDir()
	d := Open(dir)
	defer d.Close()
	if _, err := d.Add(r, id, Options{}); err != nil {
		t.Fatal(err)
	}
	return r, id, dir
}

func newReader(t *testing.T, dir, id string) *reader {
	in := &reader{pages: make(map[int64]pageRow), text: make(map[[16]byte]textRow)}
	in.rec = readAll[recordingRow](t, filepath.Join(dir, "recordings/*/*", id+".parquet"))[0]
	in.changes = readAll[changeRow](t, filepath.Join(dir, "changes/*/*", id+".parquet"))
	in.gaps = readAll[gapRow](t, filepath.Join(dir, "gaps/*/*", id+".parquet"))
	if in.rec.TextSet != "" {
		for _, p := range readAll[pageRow](t, filepath.Join(dir, "pages/*", in.rec.TextSet+".parquet")) {
			in.pages[p.Offset] = p
		}
		for _, p := range readAll[textRow](t, filepath.Join(dir, "text/*/*.parquet")) {
			if _, twice := in.text[p.Hash]; twice {
				t.Errorf("page %x is there twice", p.Hash)
			}
			in.text[p.Hash] = p
		}
	}
	return in
}

// answer is what the tables say of a byte.
type answer struct {
	standing, reason string
	b, before, after int // -1: none
	candidates       string
	trap             bool
}

func (in *reader) at(offset int64, time int64) answer {
	derived := in.derived(offset, time)
	a := answer{standing: "known", b: -1, before: -1, after: -1}
	if derived < 0 {
		a.standing = "unmapped"
	}
	var found *gapRow
	for i := range in.gaps {
		g := &in.gaps[i]
		if g.Since > time || time >= g.Until {
			continue
		}
		if g.Everywhere && found == nil && derived >= 0 || !g.Everywhere && g.Offset <= offset && offset < g.Offset+g.Length {
			found = g
		}
	}
	byteOf := func(b []byte) int {
		if len(b) == 0 {
			return -1
		}
		return int(b[offset-found.Offset])
	}
	own := -1
	if found != nil {
		a.standing, a.reason = found.Standing, found.Reason
		if !found.Everywhere {
			own, a.before, a.after = byteOf(found.Bytes), byteOf(found.Before), byteOf(found.After)
			for _, c := range found.Candidates {
				a.candidates += fmt.Sprint(byteOf(c), " ")
			}
		}
	}
	switch a.standing {
	case "known", "in_flight", "unconfirmed", "retired":
		if a.b = own; own < 0 {
			a.b = derived
		}
		for i := range in.changes {
			c := &in.changes[i]
			a.trap = a.trap || c.Offset <= offset && offset < c.Offset+int64(max(len(c.Old), len(c.New))) && c.WindowFrom <= time && time < c.WindowTo
		}
	}
	return a
}

func (in *reader) derived(offset, time int64) int {
	last, next := -1, -1
	for i := range in.changes {
		c := &in.changes[i]
		k := offset - c.Offset
		if k < 0 {
			continue
		}
		if c.Time <= time && k < int64(len(c.New)) && (last < 0 || c.Time > in.changes[last].Time) {
			last = i
		}
		if c.Time > time && k < int64(len(c.Old)) && (next < 0 || c.Time < in.changes[next].Time) {
			next = i
		}
	}
	switch {
	case last >= 0:
		return int(in.changes[last].New[offset-in.changes[last].Offset])
	case next >= 0:
		return int(in.changes[next].Old[offset-in.changes[next].Offset])
	}
	start := offset &^ (pageSize - 1)
	own, ok := in.pages[start]
	if !ok {
		return -1
	}
	base := own.Hash
	if own.Base != nil {
		base = *own.Base
	}
	p, ok := in.text[base]
	if !ok {
		panic(fmt.Sprintf("text has no page %x", base))
	}
	k := int(offset - start)
	if k >= len(p.Page) {
		return -1
	}
	if b, ok := in.moved(own.RelocAt, own.RelocTo, k); ok {
		return b
	}
	if i := slices.Index(own.PatchAt, int32(k)); i >= 0 {
		return int(own.Patch[i])
	}
	if b, ok := in.moved(p.RelocAt, p.RelocTo, k); ok {
		return b
	}
	return int(p.Page[k])
}

// moved returns the byte of an address in a page.
func (in *reader) moved(relocAt, relocTo []int32, k int) (int, bool) {
	for i, at := range relocAt {
		if int(at) <= k && k < int(at)+4 {
			var to [4]byte
			binary.LittleEndian.PutUint32(to[:], uint32(relocTo[i])+uint32(in.rec.TextBase))
			return int(to[k-int(at)]), true
		}
	}
	return 0, false
}

// imageAt is what the image says of a byte.
func imageAt(r *replay.Replay, addr, time uint64) answer {
	one := func(b []byte) int {
		if b == nil {
			return -1
		}
		return int(b[0])
	}
	for s := range r.Image.At(time).Spans(addr, 1) {
		a := answer{standing: s.Standing.String(), reason: s.Reason.String(), b: one(s.Bytes), before: -1, after: -1}
		for _, c := range s.Candidates {
			a.candidates += fmt.Sprint(one(c.Bytes), " ")
		}
		if s.Standing == timeline.InFlight {
			a.before, a.after = one(s.Candidates[0].Bytes), one(s.Candidates[len(s.Candidates)-1].Bytes)
		}
		a.trap = s.Bytes != nil && len(r.Windows().At(addr, 1, time)) > 0
		return a
	}
	return answer{}
}

// questions are places and times at which an answer may be special.
func questions(r *replay.Replay, rnd *rand.Rand, n int) (out [][2]uint64) {
	var places, times []uint64
	for c := range r.Changes() {
		if c.Poke != nil && len(places) < 1<<16 {
			places = append(places, c.Poke.Addr, c.Poke.Addr+uint64(len(c.Poke.New)))
		}
		times = append(times, c.Time)
	}
	for f, v := range r.Image.Fragments() {
		places = append(places, f.Lo, f.Hi)
		times = append(times, v.Since)
	}
	first, last := r.Report.First, r.Report.Last
	for range n {
		addr := places[rnd.IntN(len(places))] + rnd.Uint64N(9) - 4
		if rnd.IntN(8) == 0 {
			addr += rnd.Uint64N(1<<20) - 1<<19
		}
		time := times[rnd.IntN(len(times))] + rnd.Uint64N(3) - 1
		if rnd.IntN(3) == 0 {
			time = first - min(first, 1e9) + rnd.Uint64N(last-first+2e9)
		}
		out = append(out, [2]uint64{addr, min(time, forever-1)})
	}
	return out
}

// TestAnswers: the tables answer as the image does, at random places and times near changes
// and elsewhere.
func TestAnswers(t *testing.T) {
	for _, path := range recordings(t) {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) {
			r, id, files := load(t, path)
			dir := t.TempDir()
			if _, err := Open(dir).Add(r, id, Options{Inputs: files}); err != nil {
				t.Fatal(err)
			}
			in := newReader(t, dir, id)
			n := 400
			if testing.Short() {
				n = 100
			}
			met := make(map[string]int)
			for _, q := range questions(r, rand.New(rand.NewPCG(1, 2)), n) {
				want := imageAt(r, q[0], q[1])
				met[want.standing]++
				if got := in.at(int64(q[0]-in.rec.TextBase), int64(q[1])); got != want {
					t.Fatalf("%#x at %d: the tables say %+v, the image %+v", q[0], q[1], got, want)
				}
			}
			t.Log(met)
		})
	}
}

// TestWallClock: wall-clock times are null only if the clock does not convert, also if the wall
// clock shows 1970.
func TestWallClock(t *testing.T) {
	r, id, _ := load(t, "../../testdata/small/rec.data")
	s := newSource(r, id)
	s.readPages()
	s.readPokes(nil)
	if s.row.WallOffset == nil || len(s.pokes.times) < 2 {
		t.Fatal("the recording is no test")
	}
	first := int64(s.pokes.times[0])
	for _, offset := range []*int64{s.row.WallOffset, new(int64(0)), new(-first / 1000 * 1000), nil} {
		s.row.WallOffset, s.row.FirstWall, s.row.LastWall = offset, nil, nil
		if offset != nil {
			s.row.FirstWall, s.row.LastWall = new(int64(0)), new(s.wall(r.Report.Last))
		}
		var file bytes.Buffer
		if _, err := s.writeChanges(&file); err != nil {
			t.Fatal(err)
		}
		type nullable struct {
			Time int64  `parquet:"time"`
			Wall *int64 `parquet:"wall_time,optional,timestamp(microsecond)"`
		}
		rows, err := parquet.Read[nullable](bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil || len(rows) != len(s.pokes.times) {
			t.Fatal(len(rows), err)
		}
		for _, row := range rows {
			if (row.Wall == nil) != (offset == nil) || row.Wall != nil && *row.Wall != (row.Time+*offset)/1000 {
				t.Fatalf("offset %v: the time %d has the wall-clock time %v", offset, row.Time, row.Wall)
			}
		}
		file.Reset()
		if err := writeRows(&file, s.recordingRows()); err != nil {
			t.Fatal(err)
		}
		recordings, err := parquet.Read[recordingRow](bytes.NewReader(file.Bytes()), int64(file.Len()))
		if err != nil || len(recordings) != 1 {
			t.Fatal(len(recordings), err)
		}
		got := &recordings[0]
		for _, x := range [][2]*int64{{got.WallOffset, offset}, {got.FirstWall, s.row.FirstWall}, {got.LastWall, s.row.LastWall}} {
			if (x[0] == nil) != (x[1] == nil) || x[0] != nil && *x[0] != *x[1] {
				t.Errorf("%v was written, and %v is there", x[1], x[0])
			}
		}
	}
}

// TestWallRange: a clock whose wall-clock times do not fit a column, or are before 1970, does not
// convert. ClickHouse refuses all tables where one has a date that it cannot read.
func TestWallRange(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../testdata/small/rec.data")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	const wall = 0x18e9d6b8b452d438 // in its CLOCK_DATA
	was := binary.LittleEndian.AppendUint64(nil, wall)
	if bytes.Count(whole, was) != 1 {
		t.Fatal("the recording is no test")
	}
	for _, test := range []struct {
		wall uint64
		date string
	}{
		{wall, "2026-11-20"},
		{10e9, "1970-01-01"},
		{1 << 63 >> 1, "2116-02-20"},
		{math.MaxInt64 - 60e9, "2262-04-11"},
		{0, "1970-01-01"},             // at a time of the recording
		{math.MaxInt64, ""},           // the first time is behind what fits
		{1 << 63, ""},                 // 1677, as a signed number
		{math.MaxUint64 - 3600e9, ""}, // an hour before 1970
	} {
		now := bytes.Replace(whole, was, binary.LittleEndian.AppendUint64(nil, test.wall), 1)
		if err := os.WriteFile(filepath.Join(dir, "data"), now, 0o600); err != nil {
			t.Fatal(err)
		}
		r, id, _ := load(t, dir)
		s := newSource(r, id)
		if s.date != test.date || (s.row.WallOffset == nil) != (test.date == "") || (s.row.LastWall == nil) != (test.date == "") {
			t.Errorf("%#x: the date is %q, and the offset %v", test.wall, s.date, s.row.WallOffset)
		}
	}
}

// TestEndOfTime: of changes at times that the tables do not have, as of damaged records, there is no
// order. What was there before is told all the same.
func TestEndOfTime(t *testing.T) {
	text := bytes.Repeat([]byte{0x90}, 4096)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1", Order: binary.LittleEndian, Addr: genperf.TextAddr,
		Text: text, CPUs: 1, Symbols: []kcore.ELFSymbol{{Name: "_text", Addr: genperf.TextAddr}}}
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	contents := [][]byte{{0x90, 0x90}, {0xcc, 0x90}, {0xeb, 0x10}, {0xeb, 0x20}, {0x90, 0x90}}
	for i, from := range contents[:4] {
		for site, time := range []uint64{1<<63 + 1e9, 1<<63 - 2e9} { // the second one has changes before, too
			if err := w.Poke(time+uint64(i)*1e9, genperf.TextAddr+uint64(site)*16, from, contents[i+1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.End(1<<63 + 9e9); err != nil {
		t.Fatal(err)
	}
	r, id, dir := added(t, path)
	in := newReader(t, dir, id)
	for range 2 {
		for _, offset := range []uint64{0, 1, 16, 17, 40} {
			for _, time := range []uint64{0, 2e9, 1<<63 - 3e9, 1<<63 - 2e9, 1<<63 - 1e9 - 1, 1<<63 - 1e9, forever - 1} {
				got, want := in.at(int64(offset), int64(time)), imageAt(r, genperf.TextAddr+offset, time)
				if got != want {
					t.Errorf("%d at %d: the tables say %+v, the image %+v", offset, time, got, want)
				}
			}
		}
		slices.Reverse(in.changes) // a database has no order of rows
	}
	for _, g := range in.gaps {
		if g.Since >= g.Until {
			t.Errorf("a gap from %d to %d", g.Since, g.Until)
		}
	}
}

// tree returns the names and contents of the files in a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		all[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestID: the name of a recording follows from its files and from what they are in it, wherever it is. Those of usual
// recordings stay the same from version to version: with another name, a recording would be added to tables again.
func TestID(t *testing.T) {
	for _, tt := range []struct {
		want  string
		files []string
	}{
		{"0ea9241f3db9f12e29c9e3099abbd24c", []string{"data"}},
		{"ff2ed119357d97966cfa601455a79bb4", []string{"data", "kcore_dir/kallsyms", "kcore_dir/kcore"}},
		{"d6233a6017ca569550b79d929242906b", []string{"copies/1/kcore", "copies/2/kcore", "data", "journal", "kcore_dir/kcore"}},
		{"ff2ed119357d97966cfa601455a79bb4", []string{"data", "kcore_dir__12/kallsyms", "kcore_dir__12/kcore"}},
		// Nothing reads this copy: the recording has other answers.
		{"8c883de055ad3282b5bf36784dd91070", []string{"data", "kcore_dir.old/kallsyms", "kcore_dir.old/kcore"}},
	} {
		dir := t.TempDir()
		var files []string
		for _, name := range tt.files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(filepath.Base(name)), 0o666); err != nil {
				t.Fatal(err)
			}
			files = append(files, path)
		}
		if got, err := ID(files, 0); err != nil || got != tt.want {
			t.Errorf("%v: %s, %v, want %s", tt.files, got, err, tt.want)
		}
	}
}

// TestIDBeside: what is next to a recording is a part of its name as what is in it is, wherever both are.
func TestIDBeside(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(content), 0o666)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	id := func(files []string, beside ...string) string {
		t.Helper()
		read := make(map[string]fs.FileInfo)
		id, err := IDAndFiles(files, beside, 0, read)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range slices.Concat(files, beside) {
			if read[path] == nil {
				t.Errorf("%s was not read", path)
			}
		}
		return id
	}
	data, other := file("rec/data", "data"), file("perf.data", "data")
	kcore := file("rec/kcore_dir/kcore", "kcore")
	beside, changed := file("profile.1", "one"), file("changed/profile.1", "two")
	recording := []string{data, kcore}
	inside := id(append(recording, file("rec/profile.1", "one")))
	if got := id(recording, beside); got != inside {
		t.Errorf("%s beside, %s inside", got, inside)
	}
	if id(recording) == inside || id(recording, changed) == inside {
		t.Error("the same name with other files beside")
	}
	// The name of a file that is a recording is none of its own.
	if alone := id([]string{data}, beside); alone != id([]string{other}, beside) || alone == id([]string{other}) {
		t.Error("the name of a file follows from what it is called, or not from what is beside it")
	}
}

// TestVersionInDocs: docs/fleet.md has the version of the tables.
func TestVersionInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("the version of the tables, now %d.", Version); !strings.Contains(string(text), want) {
		t.Errorf("docs/fleet.md does not say %q", want)
	}
}

// TestTwice: a recording that is exported twice, or has some files there, adds what
// is missing and nothing else.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	add := func(path string) {
		t.Helper()
		r, id, files := load(t, path)
		if _, err := Open(dir).Add(r, id, Options{Inputs: files}); err != nil {
			t.Fatal(err)
		}
	}
	add("../../testdata/small/rec.data")
	add("../../testdata/smalldup/rec.data")
	whole := tree(t, dir)
	for name := range whole {
		if strings.HasPrefix(name, "text") || name == versionFile {
			continue // pages refer to the first, and the other is there before all files
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		for m := range whole { // as if it was killed before that file
			if strings.HasPrefix(m, manifestDir) {
				os.Remove(filepath.Join(dir, m))
			}
		}
		add("../../testdata/small/rec.data")
		add("../../testdata/smalldup/rec.data")
		if again := tree(t, dir); !equalTrees(whole, again) {
			t.Fatalf("after %s was removed: %d files, want %d", name, len(again), len(whole))
		}
	}
}

// TestDamagedText: a damaged file with pages of another recording, or something else of its name, is an error that names
// it, or pages that nobody needs.
func TestDamagedText(t *testing.T) {
	first, id, files := load(t, "../../testdata/small/rec.data")
	part := filepath.Join(t.TempDir(), "part.data") // another recording with the same pages
	if _, err := trim.Write(part, first, trim.Options{To: first.Report.Horizon - 1e9}); err != nil {
		t.Fatal(err)
	}
	second, other, more := load(t, part)
	dir := t.TempDir()
	if _, err := Open(dir).Add(first, id, Options{Inputs: files}); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "text", "*", "*.parquet"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	had := make(map[string]bool)
	for name := range tree(t, dir) {
		had[name] = true
	}
	failed := 0
	add := func(what string) {
		t.Helper()
		if _, err := Open(dir).Add(second, other, Options{Inputs: more}); err != nil {
			if failed++; !strings.Contains(err.Error(), names[0]) {
				t.Errorf("%s: %v", what, err)
			}
		} else if what == "cut" || what == "a directory" {
			t.Errorf("%s: no error", what)
		}
		for name := range tree(t, dir) {
			if !had[name] {
				os.Remove(filepath.Join(dir, name))
			}
		}
	}
	for _, n := range []int{0, 3, 4, 8, 12, 100, 1000, len(whole) - 1, len(whole) - 8, len(whole) - 100} {
		if err := os.WriteFile(names[0], whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		add("cut")
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		flipped := slices.Clone(whole)
		at := rng.IntN(len(whole))
		if rng.IntN(2) == 0 {
			at = len(whole) - 1 - rng.IntN(2000) // what says where the rest is
		}
		flipped[at] ^= 1 << rng.IntN(8)
		if err := os.WriteFile(names[0], flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		add("flipped")
	}
	if err := errors.Join(os.Remove(names[0]), os.Mkdir(names[0], 0o700)); err != nil {
		t.Fatal(err)
	}
	add("a directory")
	if failed < 12 {
		t.Errorf("%d errors", failed)
	}
}

// TestLeftByOthers: what a program has left that was killed is replaced, not taken for a part of the tables.
// It may have derived other answers, by older rules or with other options, and put them into other
// partitions.
func TestLeftByOthers(t *testing.T) {
	r, id, _ := load(t, "../../testdata/small/rec.data")
	add := func(dir string, r *replay.Replay, parallel bool) {
		t.Helper()
		d := Open(dir)
		defer d.Close()
		if _, err := d.Add(r, id, Options{Parallel: parallel}); err != nil {
			t.Fatal(err)
		}
	}
	// own returns the files that only this recording has.
	own := func(dir string) map[string]string {
		all := tree(t, dir)
		maps.DeleteFunc(all, func(name, _ string) bool { return !strings.Contains(name, id) })
		return all
	}
	whole := t.TempDir()
	add(whole, r, false)
	if _, err := os.Stat(Open(whole).begunPath(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the recording is still being added: %v", err)
	}
	if err := os.WriteFile(Open(whole).begunPath(id), nil, 0o600); err != nil { // killed right behind the manifest
		t.Fatal(err)
	}
	if m, err := Open(whole).Has(id); m == nil || err != nil {
		t.Errorf("the recording is not there: %v", err)
	}
	if _, err := os.Stat(Open(whole).begunPath(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the recording is still being added: %v", err)
	}
	for _, missing := range []string{"kcore", "kallsyms"} { // without kallsyms, the build is not known
		rec := filepath.Join(t.TempDir(), "rec.data")
		if err := os.CopyFS(rec, os.DirFS("../../testdata/small/rec.data")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(rec, "kcore_dir", missing)); err != nil {
			t.Fatal(err)
		}
		other, _, _ := load(t, rec)
		for _, parallel := range []bool{false, true} {
			for _, last := range []string{"symbols", "programs", "gaps", "changes", "recordings"} {
				dir := t.TempDir()
				add(dir, other, false)
				order := []string{"symbols", "programs", "gaps", "changes", "recordings", manifestDir}
				for name := range own(dir) {
					table, _, _ := strings.Cut(filepath.ToSlash(name), "/")
					if slices.Index(order, table) > slices.Index(order, last) {
						if err := os.Remove(filepath.Join(dir, name)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := os.WriteFile(Open(dir).begunPath(id), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if add(dir, r, parallel); !maps.Equal(own(dir), own(whole)) {
					t.Errorf("without %s, killed after %s: other tables than of one program", missing, last)
				}
			}
		}
	}
}

// TestTwoAtOnce: if two programs add a recording at once, which derive other tables, those of one are there.
func TestTwoAtOnce(t *testing.T) {
	r, id, _ := load(t, "../../testdata/small/rec.data")
	rec := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(rec, os.DirFS("../../testdata/small/rec.data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(rec, "kcore_dir", "kallsyms")); err != nil { // the build is not known
		t.Fatal(err)
	}
	other, _, _ := load(t, rec)
	own := func(dir string) map[string]string {
		all := tree(t, dir)
		maps.DeleteFunc(all, func(name, _ string) bool { return !strings.Contains(name, id) })
		return all
	}
	var whole []map[string]string
	for _, r := range []*replay.Replay{r, other} {
		dir := t.TempDir()
		if _, err := Open(dir).Add(r, id, Options{}); err != nil {
			t.Fatal(err)
		}
		whole = append(whole, own(dir))
	}
	for i := range 12 {
		dir := t.TempDir()
		var wg sync.WaitGroup
		var manifests [3]*Manifest
		begin := make(chan bool)
		for k, r := range []*replay.Replay{r, other, r} {
			wg.Go(func() {
				<-begin
				d := Open(dir)
				defer d.Close()
				var err error
				if manifests[k], err = d.Add(r, id, Options{Parallel: i%2 == 0}); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		wg.Wait()
		got := own(dir)
		if !maps.Equal(got, whole[0]) && !maps.Equal(got, whole[1]) {
			t.Errorf("mixed: %v", slices.Sorted(maps.Keys(got)))
		}
		if !reflect.DeepEqual(manifests[0], manifests[1]) || !reflect.DeepEqual(manifests[0], manifests[2]) {
			t.Error("not all programs have the same manifest")
		}
	}
}

// TestChanged: a recording that has changed since it was opened is not added.
func TestChanged(t *testing.T) {
	rec, dir := filepath.Join(t.TempDir(), "rec.data"), t.TempDir()
	if err := os.CopyFS(rec, os.DirFS("../../testdata/small/rec.data")); err != nil {
		t.Fatal(err)
	}
	r, id, files := load(t, rec)
	if err := os.Chtimes(filepath.Join(rec, "data"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	var changed *replay.ChangedError
	d := Open(dir)
	if _, err := d.Add(r, id, Options{Inputs: files}); !errors.As(err, &changed) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(d.begunPath(id)); err != nil {
		t.Errorf("nothing shows that the recording has files: %v", err)
	}
	if m, err := Open(dir).Has(id); m != nil || err != nil {
		t.Errorf("the tables have it: %v, %v", m, err)
	}
	if d.Close(); len(tree(t, dir)) != 0 {
		t.Errorf("left: %v", slices.Sorted(maps.Keys(tree(t, dir))))
	}
}

func equalTrees(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return true
}

// TestMoved: a page has the same hash wherever the kernel was loaded, and comes back exactly.
func TestMoved(t *testing.T) {
	const here, there = 0xffffffff81000000, 0xffffffff9ae00000
	// nop; mov $ADDR,%rdi; movl $ADDR,ADDR; jmp *ADDR(,%rax,8); cmpb $1,ADDR
	code := func(base uint64) (out []byte) {
		at := func(to int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(base)+uint32(to)<<12) }
		for len(out) < pageSize-64 {
			out = slices.Concat(out, []byte{0x90, 0x48, 0xc7, 0xc7}, at(5), []byte{0xc7, 0x04, 0x25}, at(6), at(7),
				[]byte{0xff, 0x24, 0xc5}, at(8), []byte{0x80, 0x3c, 0x25}, at(9), []byte{1})
		}
		return append(out, bytes.Repeat([]byte{0xcc}, pageSize-len(out))...)
	}
	pages := func(base uint64, content []byte) []page {
		return pagesIn([]kcore.Segment{{Addr: base, Data: content}}, base, elf.EM_X86_64)
	}
	a, b := pages(here, code(here)), pages(there, code(there))
	if len(a) != 1 || len(b) != 1 || a[0].Hash != b[0].Hash {
		t.Errorf("hashes %x and %x of a page and the same page, moved", a[0].Hash, b[0].Hash)
	}
	if n := len(a[0].moved); n != 5*((pageSize-64+33)/34) {
		t.Errorf("%d addresses were found", n)
	}
	other := code(there)
	if other[1]++; pages(there, other)[0].Hash == a[0].Hash {
		t.Error("another page has the same hash")
	}
}

// TestPatched: a page that is made of another one has its own bytes and addresses, wherever
// the kernel is.
func TestPatched(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 1))
	random := func() *page {
		p := &page{content: make([]byte, pageSize)}
		for i := range p.content {
			p.content[i] = byte(i * i >> 3)
		}
		for at := rnd.IntN(40); at+4 <= pageSize; at += 40 * (1 + rnd.IntN(2)) {
			p.moved = append(p.moved, relocation{at, uint32(at / 50)})
		}
		return p
	}
	patches := 0
	for range 2000 {
		p, other := random(), random()
		if rnd.IntN(2) == 0 { // the same addresses, but a few
			other.moved = slices.Clone(p.moved)
			for range rnd.IntN(5) {
				i := rnd.IntN(len(other.moved))
				other.moved = slices.Delete(other.moved, i, i+1)
			}
			if rnd.IntN(2) == 0 {
				other.moved[0].to++
			}
		}
		for range rnd.IntN(30) {
			p.content[rnd.IntN(pageSize)]++
		}
		b := &base{hash: [16]byte{1}, content: other.row().Page, moved: other.moved}
		if !b.valid() {
			t.Fatal("an invalid base")
		}
		if !p.usePatch([]*base{b}) {
			continue
		}
		patches++
		x := p.patch
		for _, text := range []uint32{0x81000000, 0x9ae00000} {
			// As a query does.
			in := &reader{rec: recordingRow{TextBase: uint64(text)}, text: make(map[[16]byte]textRow), pages: make(map[int64]pageRow)}
			s := source{pages: []page{*p}}
			in.text[b.hash] = other.row()
			in.pages[0] = s.pageRows()[0]
			want := p.row().Page
			for _, m := range p.moved {
				binary.LittleEndian.PutUint32(want[m.at:], text+m.to)
			}
			for k := range int64(pageSize) {
				if got := in.derived(k, 0); got != int(want[k]) {
					t.Fatalf("byte %d is %#x, want %#x, of a patch of %d bytes and %d addresses", k, got, want[k], len(x.at), len(x.moved))
				}
			}
		}
	}
	if patches < 100 {
		t.Errorf("only %d patches", patches)
	}
}

// TestNulls: columns that may be null are null where they have no value, in whatever order rows
// with and without them follow one another.
func TestNulls(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 2))
	for range 200 {
		n := 1 + rnd.IntN(200)
		gaps, symbols, programs := make([]gapRow, n), make([]symbolRow, n), make([]programRow, n)
		for i := range n {
			if rnd.IntN(2) == 0 {
				gaps[i].Bytes, symbols[i].AliasOf, programs[i].Offset = []byte{1}, "a", 1
			}
			if rnd.IntN(3) == 0 {
				gaps[i].Before, gaps[i].After, programs[i].CodeHash = []byte{2}, []byte{3}, "b"
			}
			if rnd.IntN(9) == 0 {
				gaps[i].After, programs[i].XlatedHash = nil, "c"
			}
		}
		checkNulls(t, "bytes", gaps, func(r *gapRow) bool { return r.Bytes == nil })
		checkNulls(t, "before", gaps, func(r *gapRow) bool { return r.Before == nil })
		checkNulls(t, "after", gaps, func(r *gapRow) bool { return r.After == nil })
		checkNullsIn(t, "alias_of", symbols, writeSymbols(func() []symbolRow { return symbols }), func(r *symbolRow) bool { return r.AliasOf == "" })
		checkNulls(t, "text_offset", programs, func(r *programRow) bool { return r.Offset == 0 })
		checkNulls(t, "code_hash", programs, func(r *programRow) bool { return r.CodeHash == "" })
		checkNulls(t, "xlated_hash", programs, func(r *programRow) bool { return r.XlatedHash == "" })
	}
}

func checkNulls[T any](t *testing.T, name string, rows []T, isNull func(*T) bool) {
	t.Helper()
	checkNullsIn(t, name, rows, fillRows(func() []T { return rows }), isNull)
}

// checkNullsIn is checkNulls for a file that fill writes.
func checkNullsIn[T any](t *testing.T, name string, rows []T, fill filler, isNull func(*T) bool) {
	t.Helper()
	var file bytes.Buffer
	if _, err := fill(&file); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	leaf, ok := f.Schema().Lookup(name)
	if !ok {
		t.Fatalf("no column %s", name)
	}
	in := f.RowGroups()[0].Rows()
	defer in.Close()
	buf := make([]parquet.Row, 1)
	for i := range rows {
		if n, err := in.ReadRows(buf); n != 1 {
			t.Fatal(err)
		}
		for _, v := range buf[0] {
			if v.Column() == leaf.ColumnIndex && v.IsNull() != isNull(&rows[i]) {
				t.Fatalf("row %d of %d: %s is %v, null %v", i, len(rows), name, v, v.IsNull())
			}
		}
	}
}

// TestParallel: tables that are made at the same time have the same bytes, with one page for each column
// of changes or with several.
func TestParallel(t *testing.T) {
	defer func(page int) { pageRows = page }(pageRows)
	for _, name := range []string{"small", "rich"} {
		r, id, inputs := load(t, filepath.Join("../../testdata", name, "rec.data"))
		for _, page := range []int{50, 1 << 16} {
			pageRows = page
			var files [2]map[string]string // the content, by name
			for i, parallel := range []bool{false, true} {
				dir := t.TempDir()
				d := Open(dir)
				if _, err := d.Add(r, id, Options{Parallel: parallel, Inputs: inputs}); err != nil {
					t.Fatal(err)
				}
				d.Close()
				files[i] = make(map[string]string)
				if err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
					if err != nil || e.IsDir() {
						return err
					}
					content, err := os.ReadFile(name)
					files[i][strings.TrimPrefix(name, dir)] = string(content)
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			if len(files[0]) < 9 || !maps.Equal(files[0], files[1]) {
				t.Errorf("%s, pages of %d rows: %d and %d files that differ", name, pageRows, len(files[0]), len(files[1]))
			}
		}
	}
}

// TestInterpreted: a BPF program that an interpreter runs has no address. The kernel gives the interpreter's
// for it, which all of them have in common.
func TestInterpreted(t *testing.T) {
	_, id, dir := added(t, "../../testdata/s390x/rec.data")
	interpreted := 0
	for _, p := range readAll[programRow](t, filepath.Join(dir, "programs/*/*", id+".parquet")) {
		if p.Type < 0 || p.Length != 0 {
			continue
		}
		if interpreted++; p.Offset != 0 {
			t.Errorf("program %d is at offset %d", p.ID, p.Offset)
		}
	}
	if interpreted == 0 {
		t.Error("the recording has no such program")
	}
}

// TestRowGroups: a table of changes with several row groups and pages has the same rows, by time, and
// each group has the bounds of its own rows.
func TestRowGroups(t *testing.T) {
	defer func(rows, page, few int) { rowsPerGroup, pageRows, fewRuns = rows, page, few }(rowsPerGroup, pageRows, fewRuns)
	for _, name := range []string{"small", "lossy", "rich"} {
		r, id, _ := load(t, filepath.Join("../../testdata", name, "rec.data"))
		write := func(rows int) (*parquet.File, []changeRow) {
			t.Helper()
			rowsPerGroup = rows
			var out bytes.Buffer
			if err := Write(&out, r, id, "changes", Options{}); err != nil {
				t.Fatal(err)
			}
			file, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
			if err != nil {
				t.Fatal(err)
			}
			all, err := parquet.Read[changeRow](bytes.NewReader(out.Bytes()), int64(out.Len()))
			if err != nil {
				t.Fatal(err)
			}
			return file, all
		}
		pageRows = 1 << 16
		_, want := write(1 << 20)
		pageRows = 40
		for _, size := range []int{97, len(want) / 2, len(want) - 1, len(want)} {
			fewRuns = 0 // the writers of lossy and rich change often
			file, got := write(size)
			fewRuns = 1 << 12
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s, %d rows a group: other rows", name, size)
			}
			groups := file.RowGroups()
			if n := (len(want) + size - 1) / size; len(groups) != n {
				t.Fatalf("%s, %d rows a group: %d groups, want %d", name, size, len(groups), n)
			}
			for _, g := range groups {
				rows := got[:g.NumRows()]
				got = got[len(rows):]
				if !slices.IsSortedFunc(rows, func(a, b changeRow) int { return cmp.Compare(a.Time, b.Time) }) || len(rows) > size {
					t.Errorf("%s: a group of %d rows is not in order, or too large", name, len(rows))
				}
				least, greatest := slices.Min(column64(rows)), slices.Max(column64(rows))
				for _, c := range g.ColumnChunks() {
					if file.Schema().Columns()[c.Column()][0] != "text_offset" {
						continue
					}
					lo, hi, ok := c.(*parquet.FileColumnChunk).Bounds()
					if !ok || lo.Int64() != least || hi.Int64() != greatest {
						t.Errorf("%s: a group has the bounds %v and %v, want %d and %d", name, lo, hi, least, greatest)
					}
				}
			}
		}
	}
}

// column64 returns the offsets of rows.
func column64(rows []changeRow) (all []int64) {
	for i := range rows {
		all = append(all, rows[i].Offset)
	}
	return all
}

// TestMayHave: what was written after the last export was not exported.
func TestMayHave(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "data"), filepath.Join(dir, "kallsyms")}
	for _, name := range files {
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	d := Open(filepath.Join(dir, "tables"))
	defer d.Close()
	if d.MayHave(files) {
		t.Error("nothing was exported")
	}
	r, id, inputs := load(t, "../../testdata/small/rec.data")
	if _, err := d.Add(r, id, Options{Inputs: inputs}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		age  time.Duration // of one of the files
		want bool
	}{{time.Hour, true}, {-time.Hour, false}} {
		for i, at := range []time.Time{time.Now().Add(-2 * time.Hour), time.Now().Add(-test.age)} {
			if err := os.Chtimes(files[i], at, at); err != nil {
				t.Fatal(err)
			}
		}
		if d.MayHave(files) != test.want {
			t.Errorf("a file %v older than the export: may it have been exported? %v", test.age, !test.want)
		}
	}
}

// TestNoNames: kernels whose functions have no addresses, as in a kallsyms that was read without
// privilege, are not of one build.
func TestNoNames(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../testdata/small/rec.data")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "kcore_dir/kallsyms")
	for _, kallsyms := range []string{"", "0000000000000000 T _text\n0000000000000000 t vfs_read\n"} {
		if err := os.WriteFile(name, []byte(kallsyms), 0o600); err != nil {
			t.Fatal(err)
		}
		r, id, _ := load(t, dir)
		if s := newSource(r, id); s.build != "" || s.row.Names != "" {
			t.Errorf("%q: the build %q, the names %q", kallsyms, s.build, s.row.Names)
		}
	}
}
