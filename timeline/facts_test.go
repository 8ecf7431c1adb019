// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/disasm"
)

// A factReader adds facts that are written as text to a builder, one line each.
// testdata/rules/README.md describes the form.
type factReader struct {
	b     *Builder
	names *nameTable
}

// words are the words of a line. The first error is kept; after it, every
// method returns zero values.
type words struct {
	rest []string
	err  error
}

func (w *words) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// next returns the next word.
func (w *words) next() string {
	if len(w.rest) == 0 {
		w.fail("the line ends too early")
		return ""
	}
	s := w.rest[0]
	w.rest = w.rest[1:]
	return s
}

// done reports the first error, or that words are left.
func (w *words) done() error {
	if len(w.rest) > 0 {
		w.fail("unexpected %q", w.rest[0])
	}
	return w.err
}

// options calls set for the remaining words, as key and value: "cpu=1" is "cpu"
// and "1", "stayed" is "stayed" and "".
func (w *words) options(set func(key, value string) bool) {
	for len(w.rest) > 0 && w.err == nil {
		s := w.next()
		if key, value, _ := strings.Cut(s, "="); !set(key, value) {
			w.fail("unexpected %q", s)
		}
	}
}

func (w *words) number(s string) uint64 {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		w.fail("%q is not a number", s)
	}
	return n
}

// interval reads "300..400", or "300.." for an interval without end.
func (w *words) interval(s string) Interval {
	from, to, ok := strings.Cut(s, "..")
	switch {
	case !ok:
		w.fail("%q is not an interval", s)
		return Interval{}
	case to == "":
		return Interval{w.number(from), MaxTime}
	}
	return Interval{w.number(from), w.number(to)}
}

// addresses reads "0x1000..0x2000".
func (w *words) addresses(s string) Range {
	i := w.interval(s)
	if w.err == nil && i.From >= i.To {
		w.fail("%q is empty", s)
	}
	return Range{i.From, i.To}
}

// place reads "0x1000+16".
func (w *words) place(s string) (addr, n uint64) {
	a, l, ok := strings.Cut(s, "+")
	if !ok {
		w.fail("%q is not ADDRESS+LENGTH", s)
		return 0, 0
	}
	return w.number(a), w.number(l)
}

// code reads hexadecimal bytes: "eb02", "-" for none, "90*5" for 9090909090.
func (w *words) code(s string) []byte {
	if s == "-" {
		return nil
	}
	s, times, repeated := strings.Cut(s, "*")
	data, err := hex.DecodeString(s)
	if err != nil || len(data) == 0 {
		w.fail("%q is no bytes", s)
		return nil
	}
	if repeated {
		n := w.number(times)
		if n*uint64(len(data)) > 1<<24 {
			w.fail("%s times is too often", times)
			return nil
		}
		data = bytes.Repeat(data, int(n))
	}
	return data
}

// change reads "9090 -> eb02".
func (w *words) change() (old, new []byte) {
	old = w.code(w.next())
	if s := w.next(); w.err == nil && s != "->" {
		w.fail("%q, want ->", s)
	}
	return old, w.code(w.next())
}

// memory reads the remaining words as segments: "0x1100=eb02" is two bytes,
// "0x1000..0x2000=90" fills a range. A word that lies inside of an earlier one
// replaces its bytes.
func (w *words) memory() []Segment {
	var out []Segment
	w.options(func(where, what string) bool {
		data := w.code(what)
		at := uint64(0)
		if strings.Contains(where, "..") {
			r := w.addresses(where)
			if w.err != nil || r.Hi-r.Lo > 1<<24 {
				return false
			}
			at, data = r.Lo, bytes.Repeat(data, int(r.Hi-r.Lo)/max(len(data), 1))
			if uint64(len(data)) != r.Hi-r.Lo {
				w.fail("%s does not fill %s", what, where)
			}
		} else {
			at = w.number(where)
		}
		if w.err != nil {
			return true
		}
		end := at + uint64(len(data))
		for i := range out {
			switch s := &out[i]; {
			case s.Addr <= at && end <= s.End():
				copy(s.Data[at-s.Addr:], data)
				return true
			case at < s.End() && s.Addr < end:
				w.fail("%s overlaps earlier bytes", where)
				return true
			}
		}
		out = append(out, Segment{at, data})
		return true
	})
	slices.SortFunc(out, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	return out
}

// copied reads a copy of memory: the time, then its bytes, or "none".
func (w *words) copied() Snapshot {
	if len(w.rest) == 1 && w.rest[0] == "none" {
		w.next()
		return Snapshot{}
	}
	i := w.interval(w.next())
	s := Snapshot{From: i.From, To: i.To, Segments: w.memory()}
	if len(s.Segments) == 0 {
		w.fail("a copy of nothing")
	}
	return s
}

func (w *words) symbol(unregister bool) SymbolEvent {
	e := SymbolEvent{Time: w.number(w.next()), Unregister: unregister}
	addr, n := w.place(w.next())
	e.Addr, e.Len = addr, uint32(n)
	switch kind := w.next(); kind {
	case "bpf":
		e.Kind = SymbolBPF
	case "ool":
		e.Kind = SymbolOutOfLine
	default:
		w.fail("%q is neither bpf nor ool", kind)
	}
	if len(w.rest) > 0 && w.rest[0] != "listed" && !strings.HasPrefix(w.rest[0], "cpu=") {
		e.Name = w.next()
	}
	w.options(func(key, value string) bool {
		switch {
		case key == "listed" && value == "":
			e.Listed = true
		case key == "cpu":
			e.CPU = int(w.number(value))
		default:
			return false
		}
		return true
	})
	return e
}

func (w *words) program() Program {
	p := Program{LoadTime: w.number(w.next())}
	w.options(func(key, value string) bool {
		switch {
		case key == "id":
			p.ID = uint32(w.number(value))
		case key == "unloaded":
			p.Unloaded = w.number(value)
		case key == "read-by":
			p.ReadBy = w.number(value)
		case key == "late":
			p.Late = true
		case key == "undated":
			p.Undated = true
		case key == "unseen":
			p.Unseen = append(p.Unseen, w.addresses(value))
		case key == "silent":
			p.Silent = append(p.Silent, w.addresses(value))
		case strings.HasPrefix(key, "0x"):
			p.Funcs = append(p.Funcs, Segment{w.number(key), w.code(value)})
		default:
			return false
		}
		return true
	})
	return p
}

func (w *words) module() Module {
	m := Module{Name: w.next()}
	names := new(nameTable)
	w.options(func(key, value string) bool {
		switch key {
		case "text":
			r := w.interval(value) // may be empty
			m.Addr, m.TextEnd, m.End = r.From, r.To, max(m.End, r.To)
		case "end":
			m.End = w.number(value)
		case "loaded":
			m.Loaded = w.number(value)
		case "freed":
			m.Freed = w.number(value)
		case "seen":
			m.Seen = w.number(value)
		case "listed":
			m.Listed = append(m.Listed, w.interval(value))
		case "function":
			where, name, _ := strings.Cut(value, ":")
			addr, n := w.place(where)
			names.symbols = append(names.symbols, Symbol{Name: name, Module: m.Name, Addr: addr, Size: n})
			m.Names = names
		case "stayed":
			m.Stayed = true
		case "later":
			m.Later = true
		case "undated":
			m.Undated = true
		default:
			return false
		}
		return true
	})
	return m
}

// gapKindNames are the kinds of gaps as facts name them.
var gapKindNames = [...]string{GapPokes: "pokes", GapSymbols: "symbols", GapModules: "modules", GapModuleStart: "module-start"}

func (w *words) gap() (GapKind, gap) {
	name := w.next()
	kind := slices.Index(gapKindNames[:], name)
	if kind < 0 {
		w.fail("%q is no kind of gap: %q", name, gapKindNames)
		return 0, gap{}
	}
	i := w.interval(w.next())
	code := w.next()
	reason := slices.IndexFunc(reasons[:], func(r struct{ code, text string }) bool { return r.code == code })
	if reason <= 0 {
		w.fail("%q is no reason", code)
	}
	return GapKind(kind), gap{i.From, i.To, Reason(max(reason, 0))}
}

// add adds the fact of a line.
func (r *factReader) add(line string) error {
	b, w := r.b, &words{rest: strings.Fields(line)}
	switch what := w.next(); what {
	case "extent":
		i := w.interval(w.next())
		b.Extent(i.From, i.To)
	case "text":
		t := w.addresses(w.next())
		b.Text(t.Lo, t.Hi)
	case "snapshot":
		b.SetSnapshot(w.copied())
	case "copy":
		b.AddSnapshot(w.copied())
	case "vmlinux":
		b.Seed(w.memory())
	case "poke":
		p := &Poke{Time: w.number(w.next()), Addr: w.number(w.next())}
		p.Old, p.New = w.change()
		w.options(func(key, value string) bool {
			switch {
			case key == "cpu" && value == "unknown":
				p.CPU = -1
			case key == "cpu":
				p.CPU = int(w.number(value))
			case key == "not-before":
				p.NotBefore = w.number(value)
			default:
				return false
			}
			return true
		})
		b.Poke(p)
	case "birth", "death":
		b.Symbol(w.symbol(what == "death"))
	case "program":
		b.Program(w.program())
	case "code-read":
		i := w.interval(w.next())
		for _, s := range w.memory() {
			b.CodeRead(CodeRead{Addr: s.Addr, Data: s.Data, From: i.From, To: i.To})
		}
	case "module":
		b.Module(w.module())
	case "later-module":
		b.LaterModule(w.module())
	case "modules-listed":
		i := w.interval(w.next())
		b.ModulesListed(i.From, i.To, func(m *Module) bool { return slices.Contains(w.rest, m.Name) })
		w.rest = nil
	case "gap":
		kind, g := w.gap()
		b.Gap(kind, g.from, g.to, g.reason)
	case "window":
		i := w.interval(w.next())
		x := ExplicitWindow{Addr: w.number(w.next()), From: i.From, To: i.To}
		x.Before, x.After = w.change()
		w.options(func(key, value string) bool {
			x.Method = value
			return key == "method"
		})
		if w.err == nil {
			w.err = b.Window(x)
		}
	case "probed":
		b.Probed(true)
	case "silent-pokes":
		b.SilentPokes(true)
	case "call-thunks":
		b.CallThunks(true)
	case "announced":
		b.Announced(w.number(w.next()))
	case "clocks-may-differ":
		b.ClocksMayDiffer()
	case "continues":
		b.Continues()
	case "clocks-within":
		b.ClocksWithin(w.number(w.next()))
	case "skew-at-least":
		b.SkewAtLeast(w.number(w.next()))
	case "clock-set-back":
		by := w.number(w.next())
		b.ClockSetBack(by, []Interval{w.interval(w.next())})
	case "function":
		addr, n := w.place(w.next())
		s := Symbol{Name: w.next(), Addr: addr, Size: n}
		w.options(func(key, value string) bool {
			s.Module = value
			return key == "module"
		})
		r.names.symbols = append(r.names.symbols, s)
		b.Names(r.names)
	case "instructions":
		d, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
		if err != nil {
			w.fail("%v", err)
			break
		}
		b.Instructions(func(code []byte, addr uint64) int {
			if inst := d.Decode(code, addr); !inst.Data {
				return len(inst.Bytes)
			}
			return 0
		})
	case "only":
		var only []Range
		for len(w.rest) > 0 {
			only = append(only, w.addresses(w.next()))
		}
		b.Only(only)
	case "limit":
		w.options(func(key, value string) bool {
			n := w.number(value)
			switch key {
			case "pokes":
				b.limits.pokes = uint32(n)
			case "places":
				b.limits.sites = int(n)
			case "content":
				b.limits.content = n
			case "spare":
				b.limits.spare = int(n)
			case "orders":
				b.limits.orders = int(n)
			default:
				return false
			}
			return true
		})
	default:
		w.fail("%q is no fact", what)
	}
	return w.done()
}

// isQuestion reports whether a line asks the image, rather than adds a fact.
func isQuestion(line string) bool {
	switch word, _, _ := strings.Cut(line, " "); word {
	case "at", "name", "conflicts", "skews", "duplicates", "dropped":
		return true
	}
	return false
}

// answer returns the lines that answer a question.
func answer(b *Builder, im *Image, line string) ([]string, error) {
	var out []string
	w := &words{rest: strings.Fields(line)}
	switch w.next() {
	case "at":
		addr, n := w.place(w.next())
		if err := w.done(); err != nil {
			return nil, err
		}
		return strings.Split(strings.TrimSuffix(im.Dump(addr, n), "\n"), "\n"), nil
	case "name":
		addr, t := w.number(w.next()), w.number(w.next())
		name := "none"
		if s, ok := im.At(t).Symbol(addr); ok {
			if name = s.Name; s.Module != "" {
				name += " [" + s.Module + "]"
			}
		}
		out = append(out, name)
	case "conflicts":
		for c := range im.Conflicts() {
			s := fmt.Sprintf("%#x+%d %s %v", c.Addr, c.Len, interval(c.From, c.To), c.Reason)
			for _, x := range c.Candidates {
				s += fmt.Sprintf(" %x", x.Bytes)
			}
			out = append(out, s)
		}
	case "skews":
		for _, s := range im.Skews() {
			out = append(out, fmt.Sprintf("%#x %d on CPU %d came before %d on CPU %d", s.Addr, s.First, s.FirstCPU, s.Second, s.SecondCPU))
		}
	case "duplicates":
		out = append(out, strconv.Itoa(im.Stats().Duplicates))
	case "dropped":
		n, from, to := b.Dropped()
		out = append(out, fmt.Sprintf("%d %s", n, interval(from, to)))
	}
	return out, w.done()
}

// nameTable is a table of names that has few.
type nameTable struct{ symbols []Symbol }

func (t *nameTable) Find(addr uint64) (Symbol, bool) {
	for _, s := range t.symbols {
		if s.Addr <= addr && addr-s.Addr < max(s.Size, 1) {
			return s, true
		}
	}
	return Symbol{}, false
}

func (t *nameTable) Lookup(name string) []Symbol {
	var out []Symbol
	for _, s := range t.symbols {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

func (t *nameTable) Aliases(addr uint64) []string {
	var out []string
	for _, s := range t.symbols {
		if s.Addr == addr {
			out = append(out, s.Name)
		}
	}
	return out
}
