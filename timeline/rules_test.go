// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the answers that images give into testdata/rules")

// TestRules: each rule of docs/truth.md on the smallest histories that show it.
// The histories are text: testdata/rules/README.md describes the form.
func TestRules(t *testing.T) {
	files, err := filepath.Glob("testdata/rules/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	seen := make(map[string]string)
	for _, file := range files {
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archive := txtar.Parse(old)
		for i, c := range ruleCases(file, archive) {
			if other, ok := seen[c.name]; ok || strings.Contains(c.name, "/") {
				t.Errorf("%s:%d: %q is a name of %s too, or has a slash", file, c.line-1, c.name, other)
			}
			seen[c.name] = file
			t.Run(c.name, func(t *testing.T) {
				text, errs := c.run()
				for _, err := range errs {
					if !*update || !errors.As(err, new(wrongAnswer)) {
						t.Error(err)
					}
				}
				archive.Files[i].Data = []byte(text)
			})
		}
		if text := txtar.Format(archive); *update && !bytes.Equal(old, text) {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A ruleCase is a history with questions about it: a section of an archive.
type ruleCase struct {
	file  string
	name  string
	setup string // the facts that all cases of the file have, from line 1 on
	text  string
	line  int // of the text
}

func ruleCases(file string, a *txtar.Archive) []ruleCase {
	var out []ruleCase
	line := 1 + bytes.Count(a.Comment, []byte("\n"))
	for _, f := range a.Files {
		line++ // its name
		out = append(out, ruleCase{file, f.Name, string(a.Comment), string(f.Data), line})
		line += bytes.Count(f.Data, []byte("\n"))
	}
	return out
}

// A wrongAnswer is an answer that is not the expected one.
type wrongAnswer struct{ diff string }

func (w wrongAnswer) Error() string { return w.diff }

// run asks the questions of a case. It returns the text with the answers that the
// image gives, and what is wrong, each with its file and line.
func (c *ruleCase) run() (text string, errs []error) {
	fail := func(line int, err error) { errs = append(errs, fmt.Errorf("%s:%d: %w", c.file, line, err)) }
	r := &factReader{b: NewBuilder(), names: new(nameTable)}
	addFacts := func(lines []string, first int) {
		for i, l := range lines {
			if l = withoutComment(l); l == "" {
				continue
			}
			if err := r.add(l); err != nil {
				fail(first+i, err)
			}
		}
	}
	lines := strings.SplitAfter(c.text, "\n")
	n := 0 // the first question
	for n < len(lines) && !isQuestion(withoutComment(lines[n])) {
		n++
	}
	addFacts(strings.SplitAfter(c.setup, "\n"), 1)
	addFacts(lines[:n], c.line)
	if n == len(lines) {
		fail(c.line, errors.New("the case asks nothing"))
	}
	if len(errs) > 0 {
		return c.text, errs
	}
	im, err := r.b.Build()
	if err == nil {
		err = im.CheckValid()
	}
	if err != nil {
		fail(c.line, err)
		return c.text, errs
	}
	var out strings.Builder
	out.WriteString(strings.Join(lines[:n], ""))
	for n < len(lines) {
		question, at := withoutComment(lines[n]), c.line+n
		out.WriteString(lines[n])
		n++
		if question == "" {
			continue
		}
		if !isQuestion(question) {
			fail(at, fmt.Errorf("%q comes after a question", question))
			continue
		}
		var want []string
		for n < len(lines) && strings.HasPrefix(lines[n], "\t") {
			want = append(want, strings.Join(strings.Fields(withoutComment(lines[n])), " "))
			n++
		}
		got, err := answer(r.b, im, question)
		if err != nil {
			fail(at, err)
		}
		if d := cmp.Diff(want, got); d != "" && err == nil {
			fail(at, fmt.Errorf("%s: %w", question, wrongAnswer{"(-want +got):\n" + d}))
		}
		for _, l := range inColumns(got) {
			out.WriteString("\t" + l + "\n")
		}
	}
	return out.String(), errs
}

// inColumns puts what follows the first word of each line into one column.
func inColumns(lines []string) []string {
	width := 0
	for _, l := range lines {
		if i := strings.IndexByte(l, ' '); i >= 0 {
			width = max(width, i)
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		word, rest, _ := strings.Cut(l, " ")
		out[i] = strings.TrimSpace(fmt.Sprintf("%-*s %s", width, word, rest))
	}
	return out
}

// withoutComment returns a line without its comment and the space around it.
func withoutComment(line string) string {
	line, _, _ = strings.Cut(line, "#")
	return strings.TrimSpace(line)
}

// TestRuleCase: a history whose answer is not the expected one fails, and so does a
// line that cannot be read, each with its file and line.
func TestRuleCase(t *testing.T) {
	const setup = "# All of them:\nextent 100..1000\ntext 0x1000..0x2000\nsnapshot 100..200 0x1000..0x2000=90\n"
	const history = "# Why.\npoke 300 0x1100 9090 -> eb02 # one\nat 0x1100+2\n\t0..100 unconfirmed outside-recording 9090\n" +
		"\t100..300 known 9090\n\t300..1001 known eb02\n\t1001.. unconfirmed beyond-horizon eb02\n"
	for _, tt := range []struct {
		name, old, new string
		errs           []string // one each, as they begin
	}{
		{"nothing wrong", "", "", nil},
		{"another answer", "known eb02", "known eb04", []string{"x.txtar:8: at 0x1100+2: (-want +got):"}},
		{"too much", "1001..", "1001.. known 90\n\t1001..", []string{"x.txtar:8: at 0x1100+2: (-want +got):"}},
		{"too little", "\t100..300 known 9090\n", "", []string{"x.txtar:8: at 0x1100+2: (-want +got):"}},
		{"another fact", "poke 300", "poke 400", []string{"x.txtar:8: at 0x1100+2: (-want +got):"}},
		{"another fact of all", "..1000", "..1100", []string{"x.txtar:8: at 0x1100+2: (-want +got):"}},
		{"no such fact", "poke", "pike", []string{`x.txtar:7: "pike" is no fact`}},
		{"two lines", "text 0x1000", "text 1ooo", []string{`x.txtar:3: "1ooo" is not a number`}},
		{"no question", history[strings.Index(history, "at 0x"):], "", []string{`x.txtar:6: the case asks nothing`}},
		{"a fact too late", "0x1100+2\n", "0x1100+2\npoke 500 0x1100 eb02 -> 9090\n", []string{
			"x.txtar:8: at 0x1100+2: (-want +got):", `x.txtar:9: "poke 500 0x1100 eb02 -> 9090" comes after a question`,
			"x.txtar:10: \"0..100"}},
		{"no place", "0x1100+2\n", "0x1100\n", []string{`x.txtar:8: "0x1100" is not ADDRESS+LENGTH`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := ruleCase{"x.txtar", "case", strings.Replace(setup, tt.old, tt.new, 1), strings.Replace(history, tt.old, tt.new, 1), 6}
			if tt.old == "" {
				c.setup, c.text = setup, history
			}
			text, errs := c.run()
			for i, err := range errs {
				if i >= len(tt.errs) {
					break
				}
				if !strings.HasPrefix(err.Error(), tt.errs[i]) {
					t.Errorf("%v, want %q", err, tt.errs[i])
				}
			}
			if len(errs) < len(tt.errs) || len(tt.errs) == 0 && len(errs) > 0 {
				t.Errorf("%v, want %q", errs, tt.errs)
			}
			if len(errs) == 1 && errors.As(errs[0], new(wrongAnswer)) {
				c.text = text // as -update writes it
				if _, errs := c.run(); errs != nil {
					t.Errorf("%v\n%s", errs, text)
				}
			}
		})
	}
}

// TestFacts: every kind of fact, with all that can be said of it.
func TestFacts(t *testing.T) {
	got := NewBuilder()
	r := &factReader{b: got, names: new(nameTable)}
	for _, l := range []string{
		"extent 100..1000",
		"text 0x1000..0x2000",
		"announced 150",
		"clock-set-back 5 300..301",
		"clocks-within 30",
		"skew-at-least 20",
		"clocks-may-differ",
		"continues",
		"silent-pokes",
		"call-thunks",
		"limit pokes=10 places=11 content=1000 spare=12 orders=9",
		"only 0x1000..0x2000 0x9000..0xa000",
		"snapshot 100..200 0x1000..0x1004=90 0x1002=eb02 0x3000=55*2",
		"copy 300.. 0x1000=9090",
		"vmlinux 0x1000=cc",
		"poke 300 0x1100 9090 -> eb02 cpu=1 not-before=400",
		"poke 310 0x9000 - -> eb02 cpu=unknown",
		"birth 0 0x9000+4096 ool kprobe_insn_page listed",
		"death 500 0x9000+16 bpf",
		"program 301 id=7 unloaded=500 0x9000=1111 0x9100=2222 silent=0x9002..0x9004",
		"module m text=0x8000..0x9000 end=0xa000 loaded=1 freed=2 seen=3 listed=4..5 listed=6..7 stayed later function=0x8000+4:f",
		"module n text=0xb000..0xc000",
		"module o text=0xd000..0xe000 undated",
		"later-module n text=0xb000..0xc000 listed=8..9",
		"modules-listed 700..710 m",
		"gap pokes 400.. after-loss",
		"gap symbols 400..410 damaged",
		"gap modules 1..2 cpu-silent",
		"gap module-start 0..3 not-listening",
		"window 300..350 0x1200 9090 -> eb02 method=int3",
		"function 0x1100+16 g module=m",
	} {
		if err := r.add(l); err != nil {
			t.Errorf("%s: %v", l, err)
		}
	}
	want := NewBuilder()
	want.Extent(100, 1000)
	want.Text(0x1000, 0x2000)
	want.Announced(150)
	want.ClockSetBack(5, []Interval{{300, 301}})
	want.ClocksWithin(30)
	want.SkewAtLeast(20)
	want.ClocksMayDiffer()
	want.Continues()
	want.SilentPokes(true)
	want.CallThunks(true)
	want.limits = limits{pokes: 10, sites: 11, content: 1000, spare: 12, shard: shardPokes, consume: manyPokes, chain: leastChain, pass: leastPass, region: regionSites, orders: 9}
	want.Only([]Range{{0x1000, 0x2000}, {0x9000, 0xa000}})
	want.SetSnapshot(Snapshot{From: 100, To: 200, Segments: []Segment{{0x1000, unhex("9090eb02")}, {0x3000, unhex("5555")}}})
	want.AddSnapshot(Snapshot{From: 300, To: MaxTime, Segments: []Segment{{0x1000, unhex("9090")}}})
	want.Seed([]Segment{{0x1000, unhex("cc")}})
	want.Poke(&Poke{Addr: 0x1100, Time: 300, Old: unhex("9090"), New: unhex("eb02"), CPU: 1, NotBefore: 400})
	want.Poke(&Poke{Addr: 0x9000, Time: 310, New: unhex("eb02"), CPU: -1})
	want.Symbol(SymbolEvent{Addr: 0x9000, Len: 4096, Kind: SymbolOutOfLine, Name: "kprobe_insn_page", Listed: true})
	want.Symbol(SymbolEvent{Time: 500, Addr: 0x9000, Len: 16, Kind: SymbolBPF, Unregister: true})
	want.Program(Program{ID: 7, LoadTime: 301, Unloaded: 500, Funcs: []Segment{{0x9000, unhex("1111")}, {0x9100, unhex("2222")}},
		Silent: []Range{{0x9002, 0x9004}}})
	want.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Loaded: 1, Freed: 2, Seen: 3, Listed: []Interval{{4, 5}, {6, 7}},
		Stayed: true, Later: true, Names: &nameTable{[]Symbol{{Name: "f", Module: "m", Addr: 0x8000, Size: 4}}}})
	want.Module(Module{Name: "n", Addr: 0xb000, TextEnd: 0xc000, End: 0xc000})
	want.Module(Module{Name: "o", Addr: 0xd000, TextEnd: 0xe000, End: 0xe000, Undated: true})
	want.LaterModule(Module{Name: "n", Addr: 0xb000, Listed: []Interval{{8, 9}}})
	want.ModulesListed(700, 710, func(m *Module) bool { return m.Name == "m" })
	want.Gap(GapPokes, 400, MaxTime, AfterLoss)
	want.Gap(GapSymbols, 400, 410, Damaged)
	want.Gap(GapModules, 1, 2, CPUSilent)
	want.Gap(GapModuleStart, 0, 3, NotListening)
	if err := want.Window(ExplicitWindow{Addr: 0x1200, From: 300, To: 350, Method: "int3", Before: unhex("9090"), After: unhex("eb02")}); err != nil {
		t.Fatal(err)
	}
	want.Names(&nameTable{[]Symbol{{Name: "g", Module: "m", Addr: 0x1100, Size: 16}}})
	got.settle()
	want.settle()
	got.siteAt = want.siteAt // at random
	all := cmp.Exporter(func(reflect.Type) bool { return true })
	if d := cmp.Diff(want, got, all); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	for _, tt := range []struct{ line, err string }{
		{"", "the line ends too early"},
		{"extent 100", `"100" is not an interval`},
		{"extent x..100", `"x" is not a number`},
		{"extent 100..200 300", `unexpected "300"`},
		{"text 0x2000..0x1000", `"0x2000..0x1000" is empty`},
		{"poke 300", "the line ends too early"},
		{"poke 300 0x1100 909 -> 90", `"909" is no bytes`},
		{"poke 300 0x1100 90 eb -> 90", `"eb", want ->`},
		{"poke 300 0x1100 90 -> 91 cup=1", `unexpected "cup=1"`},
		{"poke 300 0x1100 90*99999999 -> 91", "99999999 times is too often"},
		{"birth 300 0x1100 bpf", `"0x1100" is not ADDRESS+LENGTH`},
		{"birth 300 0x1100+2 pfb", `"pfb" is neither bpf nor ool`},
		{"program 300 name=x", `unexpected "name=x"`},
		{"module m size=5", `unexpected "size=5"`},
		{"gap poke 1..2 after-loss", `"poke" is no kind of gap`},
		{"gap pokes 1..2 lost", `"lost" is no reason`},
		{"snapshot 1..2", "a copy of nothing"},
		{"copy 1..2 0x1000=9090 0x1001=9090", "0x1001 overlaps earlier bytes"},
		{"copy 1..2 0x1000..0x1003=9091", "9091 does not fill 0x1000..0x1003"},
		{"window 300..200 0x1100 90 -> 91", "the window ends before it begins"},
		{"limit poke=1", `unexpected "poke=1"`},
	} {
		err := (&factReader{b: NewBuilder(), names: new(nameTable)}).add(tt.line)
		if err == nil || !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%q: %v, want %s", tt.line, err, tt.err)
		}
	}
}
