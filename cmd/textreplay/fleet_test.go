// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A database runs the SQL of docs/fleet.md.
type database struct {
	name string // in the docs
	dir  string // of its package
}

var databases = []database{{"duckdb", "@duckdb/node-api"}, {"clickhouse", "chdb"}}

// query runs statements and returns the rows of each. It skips the test where the database
// is not installed: (cd internal/sqltest && npm install --no-save --ignore-scripts).
func (d database) query(t *testing.T, statements ...string) [][]map[string]any {
	t.Helper()
	dir := filepath.Join(corpus.Root(), "internal", "sqltest")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", d.dir)); err != nil {
		t.Skipf("%s is not installed: npm install --no-save --ignore-scripts in internal/sqltest installs it", d.name)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("%s needs node: %v", d.name, err)
	}
	script, err := filepath.Abs(filepath.Join(dir, "run.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	rowsFile := filepath.Join(t.TempDir(), "rows")
	cmd := exec.Command(node, script, d.name, rowsFile)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", d.name, err, &stderr)
	}
	out, err := os.ReadFile(rowsFile)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]map[string]any
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var rows []map[string]any
		if err := dec.Decode(&rows); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows)
	}
	if len(all) != len(statements) {
		t.Fatalf("%s: %d answers to %d statements\n%s", d.name, len(all), len(statements), &stderr)
	}
	return all
}

var sqlBlock = regexp.MustCompile("(?s)```sql\n-- (\\w+): ([^\n]*)\n(.*?)```")

// sqlOf returns the statements in docs/fleet.md for a database, by their titles, and the
// titles in their order.
func sqlOf(t *testing.T, database string) (titles []string, statements map[string][]string) {
	t.Helper()
	statements = make(map[string][]string)
	for _, m := range sqlBlock.FindAllStringSubmatch(docs(t)["fleet.md"], -1) {
		if m[1] != database && m[1] != "both" {
			continue
		}
		titles = append(titles, m[2])
		for s := range strings.SplitSeq(m[3], ";\n") {
			if strings.TrimSpace(s) != "" {
				statements[m[2]] = append(statements[m[2]], s)
			}
		}
	}
	if len(titles) < 5 {
		t.Fatalf("docs/fleet.md has %d blocks for %s", len(titles), database)
	}
	return titles, statements
}

// exportAll exports the repository's recordings to tables in a new working directory.
func exportAll(t *testing.T) (recordings []string) {
	t.Helper()
	recordings, err := filepath.Glob(filepath.Join(corpus.Root(), "testdata", "*", "rec.data"))
	if others := os.Getenv("TEXTREPLAY_OTHER"); others != "" {
		recordings, err = filepath.Glob(filepath.Join(others, "*", "rec.data"))
	}
	if err != nil || len(recordings) < 1 {
		t.Fatalf("%d recordings: %v", len(recordings), err)
	}
	for i := range recordings {
		if recordings[i], err = filepath.Abs(recordings[i]); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	var stderr bytes.Buffer
	if code := run(append([]string{"export", "-o", "tables"}, recordings...), nil, io.Discard, &stderr); code != exitAnswered {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	return recordings
}

// A fleetAnswer is what `at` or a database says of a byte.
type fleetAnswer struct {
	standing, reason, byte, before, after, candidates string
	trap                                              bool
}

// TestFleetAnswers: 10,000 random questions have the same answers from databases and from
// textreplay at. TEXTREPLAY_OTHER=DIR asks about the recordings DIR/*/rec.data instead.
func TestFleetAnswers(t *testing.T) {
	recordings := exportAll(t)
	n := 10000
	if testing.Short() {
		n = 1000
	}
	rnd := rand.New(rand.NewPCG(*fleetSeed, 20))
	var want []fleetAnswer
	met := make(map[string]int)
	csv := []byte("question,recording,text_offset,time\n")
	for i, path := range recordings {
		lines, rows := fleetQuestions(t, path, rnd, n*(i+1)/len(recordings)-n*i/len(recordings))
		for k, row := range rows {
			csv = fmt.Appendf(csv, "%d,%s\n", len(want)+k, row)
		}
		var stdout, stderr bytes.Buffer
		run([]string{"at", "--stdin", "--json", "-i", path}, strings.NewReader(strings.Join(lines, "\n")), &stdout, &stderr)
		dec := json.NewDecoder(&stdout)
		for range rows {
			var a jsonAnswer
			if err := dec.Decode(&a); err != nil || len(a.Spans) != 1 {
				t.Fatalf("%s: %d spans, %v\n%s", path, len(a.Spans), err, &stderr)
			}
			want = append(want, fleetAnswerOf(&a.Spans[0]))
			met[a.Spans[0].Standing]++
		}
	}
	t.Log(met)
	for _, standing := range []string{"known", "in_flight", "unconfirmed", "unknown", "retired", "conflicting", "unmapped"} {
		if met[standing] == 0 && os.Getenv("TEXTREPLAY_OTHER") == "" {
			t.Errorf("no answer is %s", standing)
		}
	}
	if err := os.WriteFile("questions.csv", csv, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			_, sql := sqlOf(t, d.name)
			ask := append(slices.Clone(sql["the tables"]), sql["answers"]...)
			fill := "INSERT INTO questions SELECT * FROM read_csv('questions.csv')"
			if d.name == "clickhouse" {
				fill = "INSERT INTO questions SELECT * FROM file('questions.csv', CSVWithNames)"
			}
			all := d.query(t, append(ask, fill, "SELECT * FROM answers ORDER BY question")...)
			got := all[len(all)-1]
			if len(got) != len(want) {
				t.Fatalf("%d answers to %d questions", len(got), len(want))
			}
			for i, row := range got {
				if a := fleetAnswerIn(row); a != want[i] {
					t.Fatalf("question %s: the tables say\n%+v, at says\n%+v", bytes.Split(csv, []byte("\n"))[i+1], a, want[i])
				}
			}
		})
	}
}

// fleetQuestions returns questions about a recording, for `at --stdin` and for databases.
func fleetQuestions(t *testing.T, path string, rnd *rand.Rand, n int) (lines, rows []string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"export", "-o", "tables", "--json", path}, nil, &stdout, &stderr); code != exitAnswered {
		t.Fatalf("exit code %d\n%s", code, &stderr)
	}
	var exported jsonExported
	if err := json.Unmarshal(stdout.Bytes(), &exported); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	base, _ := r.Image.Text()
	if k := r.Kallsyms(); k != nil {
		for _, s := range k.LookupIn("", "_text") {
			base = s.Addr
		}
	}
	var places, times []uint64
	for c := range r.Changes() {
		if c.Poke != nil {
			places = append(places, c.Poke.Addr)
		}
		times = append(times, c.Time)
	}
	var begins [][2]uint64 // where and when an answer begins
	for f, v := range r.Image.Fragments() {
		places, times = append(places, f.Lo, f.Hi), append(times, v.Since)
		begins = append(begins, [2]uint64{f.Lo, v.Since})
	}
	for range n {
		addr := places[rnd.IntN(len(places))] + rnd.Uint64N(9) - 4
		time := times[rnd.IntN(len(times))] + rnd.Uint64N(5) - 2
		if rnd.IntN(3) == 0 {
			time = r.Report.First - min(r.Report.First, 1e9) + rnd.Uint64N(r.Report.Last-r.Report.First+2e9)
		}
		if rnd.IntN(3) == 0 {
			begin := begins[rnd.IntN(len(begins))]
			addr, time = begin[0], begin[1]
		}
		time = min(time, r.Report.Last+1e9, math.MaxInt64-1) // docs/fleet.md: tables have no later times
		if base >= 1<<63 && addr < 1<<63 {
			addr = base // at answers that an address of user space is not the kernel's
		}
		lines = append(lines, fmt.Sprintf("%#x %dns 1", addr, time))
		rows = append(rows, fmt.Sprintf("%s,%d,%d", exported.Recording, int64(addr-base), time))
	}
	return lines, rows
}

func fleetAnswerOf(s *jsonSpan) fleetAnswer {
	a := fleetAnswer{standing: s.Standing, trap: s.MayTrap}
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return strings.ToUpper(*p)
	}
	a.byte = text(s.Bytes)
	if s.Reason != nil {
		a.reason = s.Reason.Code
	}
	if s.Standing == "in_flight" {
		a.before, a.after = text(s.Before), text(s.After)
	}
	for _, c := range s.Candidates {
		a.candidates += text(c.Bytes) + " "
	}
	return a
}

func fleetAnswerIn(row map[string]any) fleetAnswer {
	text := func(name string) string {
		if row[name] == nil {
			return ""
		}
		return fmt.Sprint(row[name])
	}
	a := fleetAnswer{standing: text("standing"), reason: text("reason"), byte: text("byte"), before: text("before"), after: text("after")}
	trap := text("may_trap")
	a.trap = trap == "true" || trap == "1"
	list, _ := row["candidates"].([]any)
	for _, c := range list {
		a.candidates += fmt.Sprint(c) + " "
	}
	return a
}

// TestFleetQueries: the queries of docs/fleet.md run, and each finds something.
func TestFleetQueries(t *testing.T) {
	exportAll(t)
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			titles, sql := sqlOf(t, d.name)
			var ask []string
			queries := make(map[int]string)
			for _, title := range titles {
				for _, s := range sql[title] {
					queries[len(ask)] = title
					ask = append(ask, s)
				}
			}
			numbered := 0
			for i, rows := range d.query(t, ask...) {
				if title := queries[i]; title[0] >= '0' && title[0] <= '9' && queries[i+1] != title { // the last statement
					numbered++
					if len(rows) == 0 {
						t.Errorf("%s: no row", title)
					} else {
						t.Logf("%s: %d rows, %v", title, len(rows), rows[0])
					}
				}
			}
			if numbered < 10 {
				t.Errorf("only %d questions", numbered)
			}
		})
	}
}

// TestFleetFunctions: a question about a function of a recording is asked once, also if another recording of
// the kernel has its build id, so that the names are in two partitions.
func TestFleetFunctions(t *testing.T) {
	exportAll(t)
	names, err := filepath.Glob("tables/symbols/build_id=symbols-*/*.parquet")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files: %v", len(names), err)
	}
	known := "tables/symbols/build_id=0123"
	if err := os.Mkdir(known, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(filepath.Dir(name), strings.TrimSuffix(filepath.Base(name), ".parquet")) {
			continue // of one recording
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(known, filepath.Base(name)), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			titles, sql := sqlOf(t, d.name)
			ask := slices.Concat(sql["the tables"], sql["answers"])
			for _, title := range titles {
				if strings.HasPrefix(title, "1. ") {
					ask = append(ask, sql[title]...)
				}
			}
			all := d.query(t, ask...)
			seen := make(map[string]bool)
			for _, row := range all[len(all)-1] {
				key := fmt.Sprint(row["recording"], row["text_offset"])
				if seen[key] {
					t.Fatalf("twice: %v", row)
				}
				seen[key] = true
			}
			if len(seen) == 0 {
				t.Error("no answer")
			}
		})
	}
}

// TestFleetZone: the time zone of the machine that asks does not matter.
func TestFleetZone(t *testing.T) {
	exportAll(t)
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			titles, sql := sqlOf(t, d.name)
			last := titles[len(titles)-1]
			if !strings.HasPrefix(last, "10. ") {
				t.Fatalf("the last question is %s", last)
			}
			var of []string
			for _, zone := range []string{"UTC", "America/New_York"} {
				t.Setenv("TZ", zone)
				all := d.query(t, slices.Concat(sql["the tables"], sql[last], []string{"SELECT count(*) AS n FROM changes WHERE wall_time < '2026-11-20 19:54:30'"})...)
				of = append(of, fmt.Sprint(len(all[len(all)-2]), all[len(all)-1]))
			}
			if of[0] != of[1] {
				t.Errorf("%s in UTC, %s in New York", of[0], of[1])
			}
		})
	}
}

// TestFleetOthers: the queries answer as at does on tables of recordings without a copy of kernel text, of
// recordings without names, whose build is not known, and of changes that no kernel makes: with other
// numbers of bytes before and after.
func TestFleetOthers(t *testing.T) {
	without := func(missing string) func(one string) error {
		return func(one string) error {
			err := os.CopyFS(one, os.DirFS(filepath.Join(corpus.Root(), "testdata/small/rec.data")))
			return errors.Join(err, os.RemoveAll(filepath.Join(one, missing)))
		}
	}
	for name, record := range map[string]func(one string) error{
		"without a copy":  without("kcore_dir"),
		"without a build": without("kcore_dir/kallsyms"),
		"of other lengths": func(one string) error {
			text := bytes.Repeat([]byte{0x90}, 4096)
			return os.Rename(madeUp(t, text, 0, func(w *genperf.Recorder) {
				for i := range uint64(20) {
					at := 100 * i
					if err := w.Poke(2e9+1e8*i, genperf.TextAddr+at, text[at:][:2+i%2*3], bytes.Repeat([]byte{0xcc}, int(5-i%2*3))); err != nil {
						t.Fatal(err)
					}
				}
			}), one)
		},
	} {
		t.Run(name, func(t *testing.T) {
			others := t.TempDir()
			if err := os.Mkdir(filepath.Join(others, "one"), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := record(filepath.Join(others, "one", "rec.data")); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TEXTREPLAY_OTHER", others)
			TestFleetAnswers(t)
		})
	}
}

// TestFleetPruning: a query for a day or a build opens no file of others. Of a file, statistics
// show that it has nothing of a time, a place or a recording.
func TestFleetPruning(t *testing.T) {
	recordings := exportAll(t)
	d := databases[0]
	_, sql := sqlOf(t, d.name)
	builds := d.query(t, append(slices.Clone(sql["the tables"]), "SELECT build_id, count(*) AS n FROM recordings GROUP BY build_id ORDER BY n, build_id")...)
	first := builds[len(builds)-1][0]
	if len(builds[len(builds)-1]) < 2 {
		t.Fatalf("all %d recordings are of one build", len(recordings))
	}
	files, err := filepath.Glob("tables/changes/*/*/*.parquet")
	if err != nil || len(files) != len(recordings) {
		t.Fatalf("%d files: %v", len(files), err)
	}
	file := fmt.Sprintf("read_parquet('%s')", filepath.ToSlash(files[0]))
	ask := slices.Clone(sql["the tables"])
	plans := []struct{ from, where, want string }{
		{"changes", "date = '2001-01-01'", fmt.Sprintf("Scanning Files: 0/%d ", len(recordings))},
		{"changes", fmt.Sprintf("build_id = '%s'", first["build_id"]), fmt.Sprintf("Scanning Files: %v/%d ", first["n"], len(recordings))},
		{file, "time < 0", "EMPTY_RESULT"},
		{file, "text_offset > 4000000000000000000", "EMPTY_RESULT"},
		{file, "recording = 'none'", "EMPTY_RESULT"},
	}
	for _, p := range plans {
		ask = append(ask, fmt.Sprintf("EXPLAIN ANALYZE SELECT sum(cpu) FROM %s WHERE %s", p.from, p.where))
	}
	all := d.query(t, ask...)
	for i, p := range plans {
		if plan := fmt.Sprint(all[len(all)-len(plans)+i]); !strings.Contains(plan, p.want) {
			t.Errorf("from %s where %s: no %q in\n%s", p.from, p.where, p.want, plan)
		}
	}
}
