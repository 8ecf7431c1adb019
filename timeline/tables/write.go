// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// Options of [Dir.Add].
type Options struct {
	// Tables are the kernel's tables, which distinguish mechanisms; may be nil.
	Tables *mechanism.Tables
	// Parallel makes several tables at the same time. It is for a program that adds no other
	// recording meanwhile.
	Parallel bool
	// Inputs are the files that were read, such as those of the recording, and directories of which all is
	// an input. Add overwrites none of them, and its tables are no more readable than they are.
	Inputs []string
}

// A source is a recording whose tables are written.
type source struct {
	r    *replay.Replay
	id   string
	base uint64 // the address of _text
	row  recordingRow

	parallel    bool   // see Options.Parallel
	build, date string // of the partition
	pokes       *pokes // see readPokes
	pages       []page // see readPages
}

// A table is one of the tables of a recording.
type table struct {
	name string
	// add writes the table into a directory; write writes it as one file with all rows.
	add   func(s *source, a *addition) error
	write func(s *source, w io.Writer) (rows int64, err error)
	// noPokes is set if the table needs nothing of the changes, so that it can be made while
	// they are read.
	noPokes bool
}

// tables are all tables. Add writes them from the last to the first. So a table that refers to
// another one comes before it: pages before text, and recordings, whose row says that the others
// are there, before all.
var tables = []table{
	{"recordings", addOwn("recordings", writeAll((*source).recordingRows)), writeAll((*source).recordingRows), false},
	{"changes", addOwn("changes", (*source).writeChanges), (*source).writeChanges, false},
	{"gaps", addOwn("gaps", (*source).writeGaps), (*source).writeGaps, false},
	{"symbols", (*source).addSymbols, func(s *source, w io.Writer) (int64, error) { return writeSymbols(s.symbolRows)(w) }, true},
	{"programs", addOwn("programs", writeAll((*source).programRows)), writeAll((*source).programRows), false},
	{"pages", (*source).addPages, writeAll((*source).pageRows), true},
	{"text", func(s *source, a *addition) error { return a.addPages(s.build, s.pages) }, (*source).writeText, true},
}

// Names returns the names of all tables.
func Names() []string {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].name
	}
	return names
}

// Add adds the tables of a recording, whose id is that of [ID]. If the recording is there already, nothing
// is written. If a file of it has changed since it was opened, the recording is not added, and the error is
// a [*replay.ChangedError]. Other errors are those of the file system, or a [*VersionError].
func (d *Dir) Add(r *replay.Replay, id string, opts Options) (*Manifest, error) {
	if !filepath.IsLocal(id) || id != filepath.Base(id) || strings.HasPrefix(id, ".") {
		return nil, fmt.Errorf("tables: %q is no id of a recording", id)
	}
	if m, err := d.Has(id); m != nil || err != nil {
		return m, err
	}
	out := outputsBeside(opts.Inputs)
	if err := d.begin(out); err != nil {
		return nil, err
	}
	s := newSource(r, id)
	s.parallel = opts.Parallel
	a := &addition{Dir: d, out: out, manifest: Manifest{Recording: id, Version: Version, Rules: replay.IndexVersion, Host: s.row.Host, BuildID: s.build, Date: s.date}}
	added := false
	defer func() {
		if !added { // by an error, or by a panic: see replay.Guard
			d.hasFailed(id, a.written)
		}
	}()
	unlock, stale, err := s.mark(a)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if m, err := d.Has(id); m != nil || err != nil {
		added = m != nil // by another program meanwhile
		return m, err
	}
	if stale {
		if err := s.removeStale(d); err != nil {
			return nil, err
		}
	}
	if err := s.addTables(a, opts); err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	if err := a.commit(); err != nil {
		return nil, err
	}
	added = true
	return &a.manifest, nil
}

// mark makes the file that says that the recording is being added, which commit removes, and locks it until
// unlock is called. So two programs that add the recording do so one after the other: they may have other
// rules, and their files must not be mixed. stale says that the file was there: then a program was killed
// that added the recording, and what it left must be removed. Without the file, each recording would have to
// be looked for in all partitions.
func (s *source) mark(a *addition) (unlock func(), stale bool, err error) {
	path := a.begunPath(s.id)
	if err := a.out.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, false, err
	}
	unlock, made, err := outfile.LockFile(path)
	if err != nil {
		return nil, false, err
	}
	if a.written = append(a.written, path); made {
		a.isNew(path)
	}
	return unlock, !made, nil
}

// removeStale removes what a program that was killed left of the recording in other partitions: by other
// rules, or with other options, the recording can have had another date or build.
func (s *source) removeStale(d *Dir) error {
	files := func(table, date string) []string {
		pattern := filepath.Join(globSafe(d.path), partition(table, date, "*"), s.id+".parquet")
		found, _ := filepath.Glob(pattern) // its only error is that of a pattern
		return found
	}
	names := files("symbols", "-")
	if len(names) == 0 {
		return nil // they are written first of the files that only this recording has
	}
	var stale []string
	for _, table := range []string{"recordings", "changes", "gaps", "programs"} { // the row that says that all are there is first
		own := filepath.Join(d.path, s.own(table, s.date))
		stale = append(stale, slices.DeleteFunc(files(table, "*"), func(path string) bool { return path == own })...)
	}
	own := filepath.Join(d.path, s.own("symbols", "-"))
	for _, path := range append(stale, slices.DeleteFunc(names, func(path string) bool { return path == own })...) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// outputsBeside returns outputs that harm no input.
func outputsBeside(inputs []string) *outfile.Outputs {
	out := &outfile.Outputs{}
	for _, name := range inputs {
		out.Reads(name)
	}
	return out
}

// addTables adds all tables.
func (s *source) addTables(a *addition, opts Options) error {
	if opts.Parallel {
		defer a.drop()
		s.beginSymbols(a)
	}
	add := func(noPokes bool) error {
		for _, t := range slices.Backward(tables) {
			if t.noPokes == noPokes {
				if err := t.add(s, a); err != nil {
					return err
				}
			}
		}
		return nil
	}
	first := func() error {
		s.readPages()
		return add(true)
	}
	if opts.Parallel {
		first = background(first)
		defer settle(first)
	}
	s.readPokes(opts.Tables)
	if opts.Parallel {
		a.begin(s.own("changes", s.date), false, s.writeChanges)
		a.begin(s.own("gaps", s.date), false, s.writeGaps)
		a.begin(s.own("programs", s.date), false, fillRows(s.programRows))
	}
	if err := first(); err != nil {
		return err
	}
	return add(false)
}

// Write writes one table of a recording to w, as one Parquet file. The table is one of
// [Names].
func Write(w io.Writer, r *replay.Replay, id, table string, opts Options) error {
	for i := range tables {
		if t := &tables[i]; t.name == table {
			s := newSource(r, id)
			s.parallel = opts.Parallel
			s.readPages()
			s.readPokes(opts.Tables)
			_, err := t.write(s, w)
			return err
		}
	}
	return fmt.Errorf("no table %q", table)
}

// own returns the path of a file that only this recording has, relative to the directory. A
// date of "-" means that the table has no partitions by date.
func (s *source) own(table, date string) string {
	return filepath.Join(partition(table, date, s.build), s.id+".parquet")
}

// addOwn returns how a table is added if each recording has its own file, by date.
func addOwn(table string, write func(s *source, w io.Writer) (rows int64, err error)) func(*source, *addition) error {
	return func(s *source, a *addition) error {
		return a.write(s.own(table, s.date), false, func(w io.Writer) (int64, error) { return write(s, w) })
	}
}

// writeAll returns how all rows of a table are written as one file.
func writeAll[T any](rows func(s *source) []T) func(*source, io.Writer) (int64, error) {
	return func(s *source, w io.Writer) (int64, error) {
		return fillRows(func() []T { return rows(s) })(w)
	}
}

// fillRows returns how a file is written whose rows fit into memory.
func fillRows[T any](rows func() []T) filler {
	return func(w io.Writer) (int64, error) {
		all := rows()
		return int64(len(all)), writeRows(w, all)
	}
}

// symbolFiles yields the files with names: the kernel's own, which another recording of this kernel may
// have added, and those that came and went.
func (s *source) symbolFiles(yield func(name string, shared bool, fill filler) bool) {
	names := sync.OnceValue(func() (of [2][]symbolRow) {
		of[0], of[1] = s.functions()
		return of
	})
	if s.row.Names != "" {
		name := filepath.Join(partition("symbols", "-", s.build), s.row.Names+".parquet")
		if !yield(name, true, writeSymbols(func() []symbolRow { return names()[0] })) {
			return
		}
	}
	yield(s.own("symbols", "-"), false, writeSymbols(func() []symbolRow { return names()[1] }))
}

func (s *source) beginSymbols(a *addition) {
	s.symbolFiles(func(name string, shared bool, fill filler) bool {
		a.begin(name, shared, fill)
		return true
	})
}

func (s *source) addSymbols(a *addition) (err error) {
	s.symbolFiles(func(name string, shared bool, fill filler) bool {
		err = a.write(name, shared, fill)
		return err == nil
	})
	return err
}

// addPages adds which pages the copy has. Of a recording without a copy this is a file without
// rows: databases refuse a table without files.
func (s *source) addPages(a *addition) error {
	return addRows(a, filepath.Join(partition("pages", "-", s.build), setOf(s.pages)+".parquet"), true, s.pageRows)
}

func (s *source) recordingRows() []recordingRow { return []recordingRow{s.row} }

func (s *source) symbolRows() []symbolRow {
	kernel, others := s.functions()
	return append(kernel, others...)
}

// writeText writes each page of the copy once.
func (s *source) writeText(w io.Writer) (int64, error) {
	var pages []*page
	seen := make(map[[16]byte]bool)
	for i := range s.pages {
		if p := &s.pages[i]; !seen[p.Hash] {
			seen[p.Hash] = true
			pages = append(pages, p)
		}
	}
	return writeText(w, pages)
}

// addRows adds a file whose rows fit into memory.
func addRows[T any](a *addition, name string, shared bool, rows func() []T) error {
	return a.write(name, shared, fillRows(rows))
}

// newSource returns the source of a recording, without its pages and its pokes.
func newSource(r *replay.Replay, id string) *source {
	s := &source{r: r, id: id}
	rep := r.Report
	lo, hi := r.Image.Text()
	s.base = lo
	if k := r.Kallsyms(); k != nil {
		for _, sym := range k.LookupIn("", "_text") {
			s.base = sym.Addr
		}
	}
	lost := uint64(0)
	for i := range rep.Losses {
		lost += rep.Losses[i].Records
	}
	s.row = recordingRow{
		Recording: id, Version: Version, Rules: replay.IndexVersion, Host: utf8Text(rep.Host), BootID: utf8Text(r.BootID()), Kernel: utf8Text(rep.Kernel), Arch: utf8Text(rep.Arch),
		BuildID: rep.BuildID, Guest: int32(rep.Guest), Producer: utf8Text(rep.Producer),
		TextBase: s.base, TextLow: int64(lo - s.base), TextHigh: int64(hi - s.base),
		Clock: rep.Clock.Name, FirstTime: column(rep.First), BeginTime: column(rep.Begin), LastTime: column(rep.Last), Horizon: column(rep.Horizon),
		Clean: rep.Clean, TrustedAt: column(rep.Trusted.From), TrustedTo: column(rep.Trusted.To),
		Pokes: string(rep.Coverage.Pokes.Verdict), KSymbols: string(rep.Coverage.KSymbols.Verdict),
		BPF: string(rep.Coverage.BPF.Verdict), Modules: string(rep.Coverage.Modules.Verdict),
		CPUs: int32(rep.CPUsAvailable), Lost: column(lost), ClockUncertainty: column(rep.ClockUncertainty),
	}
	for _, w := range rep.Warnings {
		s.row.Warnings = append(s.row.Warnings, utf8Text(w.Error()))
	}
	// A machine shows no time before 1970, and databases do not have all of them.
	if wall, err := rep.Clock.ToWall(rep.First); err == nil && wall.UnixNano() >= 0 {
		s.row.WallOffset = new(wall.UnixNano() - int64(rep.First))
		s.row.FirstWall, s.row.LastWall = new(s.wall(rep.First)), new(s.wall(rep.Last))
		s.date = wall.UTC().Format(time.DateOnly)
	}
	s.row.Names = s.namesOwner()
	s.build = rep.BuildID
	if s.build == "" && s.row.Names != "" {
		s.build = "symbols-" + s.row.Names // which tells kernels apart as well
	}
	return s
}

// readPages reads the copy of text.
func (s *source) readPages() {
	s.pages = pagesIn(pagesOf(s.r), s.base, s.r.Machine())
	if len(s.pages) > 0 {
		s.row.TextSet = setOf(s.pages)
	}
}

// readPokes reads the changes. tables may be nil.
func (s *source) readPokes(tables *mechanism.Tables) {
	s.pokes = collect(s.r, tables)
	s.row.Changes = int64(len(s.pokes.times))
}

// wall returns the wall-clock time of t, in microseconds since 1970. The clock must convert. The time of
// a damaged record may be behind what nanoseconds have in 64 bits: it is their end, in 2262.
func (s *source) wall(t uint64) int64 {
	return int64(min(t+uint64(*s.row.WallOffset), math.MaxInt64)) / 1000
}

// namesOwner returns the name of the kernel's own table of names: a hash of its functions
// and their offsets, so that it does not matter where the kernel was loaded. It is "" if
// there is no table, or none of its functions has an address.
func (s *source) namesOwner() string {
	k := s.r.Kallsyms()
	if k == nil {
		return ""
	}
	h := sha256.New()
	var line []byte
	found := false
	for _, sym := range k.All() {
		if sym.Module != "" || sym.Addr == 0 || !isText(sym.Type) || sym.Pseudo() {
			continue
		}
		found = true
		line = strconv.AppendUint(line, sym.Addr-s.base, 16)
		line = append(line, ' ', sym.Type, ' ')
		line = append(append(line, sym.Name...), '\n')
		if len(line) > 1<<16 {
			h.Write(line)
			line = line[:0]
		}
	}
	if !found {
		return ""
	}
	h.Write(line)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// isText reports whether a symbol of kallsyms is a function.
func isText(typ byte) bool {
	switch typ {
	case 't', 'T', 'w', 'W':
		return true
	}
	return false
}

// writeChanges writes the table of changes, by time.
func (s *source) writeChanges(w io.Writer) (int64, error) {
	p := s.pokes
	windows := p.windows(s.r)
	var self, offsets, mechanisms, kinds, cpus, pids, tids, comms interned
	self.string(s.id)
	var ofMechanism, ofKind [1 << 8]uint32 // their numbers
	for i := range p.forms {
		f := &p.forms[i]
		if m := &ofMechanism[f.mechanism]; *m == 0 {
			*m = mechanisms.string(f.mechanism.String()) + 1
		}
		if k := &ofKind[f.kind]; *k == 0 {
			*k = kinds.string(f.kind.String()) + 1
		}
	}
	for _, addr := range p.addrs.numbers {
		offsets.numbers = append(offsets.numbers, addr-int64(s.base))
	}
	type writerNumbers struct{ cpu, pid, tid, comm uint32 }
	writers := make([]writerNumbers, len(p.writers))
	for i := range writers {
		by := &p.writers[i]
		writers[i] = writerNumbers{cpus.number(int64(by.cpu)), pids.number(int64(by.pid)), tids.number(int64(by.tid)), comms.string(utf8Text(by.comm))}
	}
	size := func(i uint32) int { return len(p.old(&p.forms[i])) + len(p.new(&p.forms[i])) }
	place := func(i uint32) *place { return &p.places[p.forms[i].place] }

	out := newColumnWriter[changeRow](w)
	out.parallel = s.parallel
	defer out.wait() // a panic leaves the recording while it is read
	for lo := 0; lo < len(p.times); {
		form := newDictRows(p.form[lo:], len(p.forms), size)
		n := len(form.rows)
		var writer *dictRows
		if p.writer != nil {
			writer = newDictRows(p.writer[lo:lo+n], len(writers), func(uint32) int { return 0 })
		} else {
			writer = newRunRows(p.by, lo, lo+n, len(writers))
		}
		of := p.times[lo:][:n]
		times := func(out []int64, lo, hi int) {
			for i, t := range of[lo:hi] {
				out[i] = column(t)
			}
		}
		wall := func(out []int64, lo, hi int) {
			for i, t := range of[lo:hi] {
				out[i] = s.wall(t)
			}
		}
		if s.row.WallOffset == nil {
			wall = nil
		}
		out.writeDict("recording", form, &self, func(uint32) uint32 { return 0 })
		rest := out.part(func(out *columnWriter) {
			out.writeDict("address", form, &p.addrs, func(i uint32) uint32 { return place(i).addr })
			out.writeDict("text_offset", form, &offsets, func(i uint32) uint32 { return place(i).addr })
			out.writeDict("symbol", form, &p.symbols, func(i uint32) uint32 { return place(i).symbol })
			out.writeDict("symbol_offset", form, &p.symbolOffsets, func(i uint32) uint32 { return place(i).symbolOffset })
			out.writeDict("module", form, &p.modules, func(i uint32) uint32 { return place(i).module })
			out.writeDict("mechanism", form, &mechanisms, func(i uint32) uint32 { return ofMechanism[p.forms[i].mechanism] - 1 })
			out.writeDict("kind", form, &kinds, func(i uint32) uint32 { return ofKind[p.forms[i].kind] - 1 })
			out.writeDict("old_bytes", form, &p.contents, func(i uint32) uint32 { return p.forms[i].oldNumber })
			out.writeDict("new_bytes", form, &p.contents, func(i uint32) uint32 { return p.forms[i].newNumber })
			out.writeDict("cpu", writer, &cpus, func(i uint32) uint32 { return writers[i].cpu })
			out.writeDict("pid", writer, &pids, func(i uint32) uint32 { return writers[i].pid })
			out.writeDict("tid", writer, &tids, func(i uint32) uint32 { return writers[i].tid })
			out.writeDict("comm", writer, &comms, func(i uint32) uint32 { return writers[i].comm })
		})
		last := out.part(func(out *columnWriter) {
			out.writeTwo([2]string{"window_from", "window_to"}, n, func(from, to []int64, a, b int) { windows.of(from, to, lo+a, lo+b) })
		})
		out.write("time", n, times)
		out.writeOptional("wall_time", n, wall)
		rest()
		last()
		out.endGroup()
		lo += n
	}
	return int64(len(p.times)), out.close()
}

func (s *source) pageRows() []pageRow {
	rows := make([]pageRow, len(s.pages))
	for i := range s.pages {
		p := &s.pages[i]
		row := p.pageRow
		row.Set = s.row.TextSet
		if x := p.patch; x != nil {
			row.Base, row.PatchAt, row.Patch = &x.base.hash, x.at, x.bytes
			row.RelocAt, row.RelocTo = columnsOf(x.moved)
		}
		rows[i] = row
	}
	return rows
}

// The kinds of symbols.
const (
	kindKernel = "kernel"
	kindModule = "module"
	kindBPF    = "bpf"
	kindOOL    = "ool"
)

// functions returns the kernel's own functions, and the names of modules, BPF programs and
// out-of-line code.
func (s *source) functions() (kernel, others []symbolRow) {
	if k := s.r.Kallsyms(); k != nil {
		functions := 0
		for _, sym := range k.All() {
			if sym.Module == "" && isText(sym.Type) {
				functions++
			}
		}
		kernel = make([]symbolRow, 0, functions)
	}
	for sym := range s.r.TableFunctions {
		switch {
		case sym.Addr == 0:
		case sym.Module == "":
			kernel = append(kernel, s.symbolRow(&sym.Symbol, s.row.Names, kindKernel, sym.AliasOf))
		default:
			others = append(others, s.symbolRow(&sym.Symbol, s.id, kindModule, sym.AliasOf))
		}
	}
	for sym := range s.r.Image.Symbols {
		kind := kindOOL
		if sym.Module == "bpf" {
			kind = kindBPF
		}
		others = append(others, s.symbolRow(&sym, s.id, kind, ""))
	}
	return byOffset(kernel), byOffset(others)
}

func (s *source) symbolRow(sym *timeline.Symbol, owner, kind, alias string) symbolRow {
	return symbolRow{owner, int64(sym.Addr - s.base), int64(sym.Size), utf8Text(sym.Name), utf8Text(sym.Module), kind, utf8Text(alias), column(sym.From), column(sym.To)}
}

// writeSymbols returns how a file with names is written.
func writeSymbols(all func() []symbolRow) filler {
	return func(w io.Writer) (int64, error) {
		rows := all()
		out := newColumnWriter[symbolRow](w)
		for left := rows; len(left) > 0; {
			part := left[:min(len(left), rowsPerGroup)]
			left = left[len(part):]
			n := len(part)
			d := &dictRows{n: n, rows: make([]uint32, n)}
			dict := func(name string, values *interned, number func(r *symbolRow) uint32) {
				for i := range part {
					d.rows[i] = number(&part[i])
				}
				d.of, d.used = values.len(), d.used[:0]
				for k := range d.of {
					d.used = append(d.used, uint32(k))
				}
				out.indices.rows = nil // these are others
				out.writeDict(name, d, values, func(i uint32) uint32 { return i })
			}
			strings := func(name string, value func(r *symbolRow) string) {
				var values interned
				last, number := "", uint32(0)
				dict(name, &values, func(r *symbolRow) uint32 {
					if v := value(r); v != last || len(values.strings) == 0 {
						last, number = v, values.string(v)
					}
					return number
				})
			}
			times := func(name string, value func(r *symbolRow) int64) {
				var values interned
				last, number := int64(0), uint32(0)
				dict(name, &values, func(r *symbolRow) uint32 {
					if v := value(r); v != last || len(values.numbers) == 0 {
						last, number = v, values.number(v)
					}
					return number
				})
			}
			strings("owner", func(r *symbolRow) string { return r.Owner })
			out.write("text_offset", n, func(to []int64, lo, hi int) {
				for i := range to {
					to[i] = part[lo+i].Offset
				}
			})
			out.write("size", n, func(to []int64, lo, hi int) {
				for i := range to {
					to[i] = part[lo+i].Size
				}
			})
			out.writeStrings("name", n, false, func(i int) string { return part[i].Name })
			strings("module", func(r *symbolRow) string { return r.Module })
			strings("kind", func(r *symbolRow) string { return r.Kind })
			out.writeStrings("alias_of", n, true, func(i int) string { return part[i].AliasOf })
			times("since", func(r *symbolRow) int64 { return r.Since })
			times("until", func(r *symbolRow) int64 { return r.Until })
			out.endGroup()
		}
		return int64(len(rows)), out.close()
	}
}

func byOffset(rows []symbolRow) []symbolRow {
	compare := func(a, b symbolRow) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Since, b.Since), strings.Compare(a.Name, b.Name))
	}
	if !slices.IsSortedFunc(rows, compare) {
		slices.SortStableFunc(rows, compare)
	}
	return rows
}

// programRows returns the BPF programs whose loads or infos were recorded.
func (s *source) programRows() []programRow {
	infos := make(map[uint32]*perfdata.BPFProg)
	for p, err := range s.programs() {
		if err == nil {
			infos[p.ID] = p
		}
	}
	var rows []programRow
	open := make(map[uint32]int) // the row of each program that is loaded
	add := func(id uint32, tag [8]byte, loaded uint64) {
		row := programRow{Recording: s.id, ID: int64(id), Tag: hex.EncodeToString(tag[:]), Type: -1, Loaded: column(loaded), Unloaded: forever}
		if p := infos[id]; p != nil {
			row.Name, row.Type, row.Length = utf8Text(p.Name), int32(p.Type), int64(len(p.Insns))
			// The kernel gives the interpreter's address for a program without machine code
			// (bpf_prog_get_info_by_fd of kernel/bpf/syscall.c).
			if len(p.Insns) > 0 && len(p.Ksyms) > 0 && p.Ksyms[0] != 0 {
				row.Offset = int64(p.Ksyms[0] - s.base)
			}
			row.CodeHash, row.XlatedHash = hashOf(p.Insns), hashOf(p.Xlated)
		}
		open[id] = len(rows)
		rows = append(rows, row)
	}
	for _, e := range s.pokes.bpf {
		switch i, ok := open[e.id]; {
		case e.kind == perfdata.BPFLoad && !ok:
			add(e.id, e.tag, e.time)
		case e.kind == perfdata.BPFUnload:
			if !ok {
				add(e.id, e.tag, 0)
				i = open[e.id]
			}
			rows[i].Unloaded = column(e.time)
			delete(open, e.id)
		}
	}
	return rows
}

// programs yields the infos of programs. For a guest it yields none: perf does not record them.
func (s *source) programs() iter.Seq2[*perfdata.BPFProg, error] {
	if s.r.Report.Guest != 0 {
		return func(func(*perfdata.BPFProg, error) bool) {}
	}
	return s.r.Recording.BPFProgs()
}

// hashOf returns the hash of code, 32 hex digits, "" if code is empty.
func hashOf(code []byte) string {
	if len(code) == 0 {
		return ""
	}
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:16])
}

// AddShipped adds the text of a vmlinux file to the table shipped. It does not overwrite that file, and the
// table is no more readable. If the text is there already, nothing is written. Errors are those of Add.
func (d *Dir) AddShipped(s *Shipped) (*Manifest, error) {
	if m, err := d.Has(s.ID()); m != nil || err != nil {
		return m, err
	}
	out := outputsBeside([]string{s.path})
	if err := d.begin(out); err != nil {
		return nil, err
	}
	a := &addition{Dir: d, out: out, manifest: Manifest{Recording: s.ID(), Version: Version, Rules: replay.IndexVersion, BuildID: s.BuildID}}
	rows := make([]shippedRow, len(s.pages))
	for i := range s.pages {
		t := s.pages[i].row()
		rows[i] = shippedRow{Offset: t.Offset, Hash: t.Hash, Page: t.Page, RelocAt: t.RelocAt, RelocTo: t.RelocTo}
	}
	if err := addRows(a, filepath.Join(partition("shipped", "-", s.BuildID), setOf(s.pages)+".parquet"), true, func() []shippedRow { return rows }); err != nil {
		return nil, err
	}
	return &a.manifest, a.commit()
}
