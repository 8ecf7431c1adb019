// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// A specimen is a whole recording of one file that mutants are made of.
type specimen struct {
	name   string
	data   []byte
	e      endian
	start  int // of the records
	end    int // of the records
	outer  []outerRecord
	inner  []innerRecord // those that are compressed, in their order
	frames []int         // where fresh zstd frames begin, as indices of outer; ascending
	trace  bool          // it has AUXTRACE records
}

// An outerRecord is a record as it is framed in the file, with the trace that follows it.
type outerRecord struct {
	lo, hi     int
	size       int // without the trace
	compressed bool
}

// An innerRecord is a record that was compressed. Outer is the record in which it ends.
type innerRecord struct {
	raw   string
	outer int
}

func newSpecimen(tb testing.TB, name string, data []byte) *specimen {
	tb.Helper()
	r := open(tb, data)
	sp := &specimen{name: name, data: data, e: r.endian, start: r.files[0].start, end: r.files[0].end}
	s := r.Scan()
	for s.Next() {
		rec := s.Record()
		if n := len(sp.outer); n > 0 && int64(sp.outer[n-1].lo) == rec.Offset {
			sp.inner = append(sp.inner, innerRecord{string(rec.Raw), n - 1})
			continue
		}
		if n := len(sp.outer); n > 0 {
			sp.outer[n-1].hi = int(rec.Offset)
		}
		typ := rec.Type
		sp.trace = sp.trace || typ == RecordAuxtrace
		compressed := typ == RecordCompressed || typ == RecordCompressed2
		if compressed {
			if d := r.endian.compressed(rec); len(d) >= 4 && little.u32(d) == zstdMagic {
				sp.frames = append(sp.frames, len(sp.outer))
			}
		}
		sp.outer = append(sp.outer, outerRecord{lo: int(rec.Offset), hi: sp.end, size: len(rec.Raw), compressed: compressed})
	}
	if err := s.Err(); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return sp
}

// specimens returns recordings of all forms, of real kernels where there are some.
func specimens(tb testing.TB) []*specimen {
	tb.Helper()
	var all []*specimen
	add := func(name string, data []byte) { all = append(all, newSpecimen(tb, name, data)) }
	for _, name := range []string{"small", "smalldup", "lossy", "hotplug", "callgraph", "modfull", "s390x", "uponline"} {
		data, err := os.ReadFile(filepath.Join("..", "testdata", name, "rec.data", "data"))
		if err != nil {
			tb.Fatal(err)
		}
		add(name, data)
		switch name {
		case "small", "lossy", "callgraph", "s390x":
			add(name+", COMPRESSED", rewrite(tb, data, false, Compress(RecordCompressed)))
			add(name+", COMPRESSED2", rewrite(tb, data, false, Compress(RecordCompressed2)))
			add(name+", pipe", rewrite(tb, data, true))
			add(name+", COMPRESSED2 in a pipe", rewrite(tb, data, true, Compress(RecordCompressed2)))
			add(name+", several frames", severalFrames(tb, data))
		}
		if name == "small" || name == "s390x" {
			add(name+", trace", withTrace(tb, data))
		}
	}
	data, err := os.ReadFile(filepath.Join("..", "testdata", "guest", "merged.data", "data"))
	if err != nil {
		tb.Fatal(err)
	}
	add("guest", data)
	return all
}

// rewrite writes a recording in another form.
func rewrite(tb testing.TB, data []byte, pipe bool, opts ...WriterOption) []byte {
	tb.Helper()
	r := open(tb, data)
	var f memFile
	var w *Writer
	if pipe {
		w = NewPipeWriter(&f, r.ByteOrder(), opts...)
	} else {
		w = NewWriter(&f, r.ByteOrder(), opts...)
	}
	w.SetEvents(r.Events())
	features := func() {
		for _, ft := range r.Features() {
			b, err := r.Feature(ft)
			if err != nil {
				tb.Fatal(err)
			}
			if !pipe || len(b) < 60_000 {
				w.WriteFeature(ft, b)
			}
		}
	}
	if pipe {
		features()
	}
	s := r.Scan()
	for s.Next() {
		w.WriteRecord(s.Record().Raw)
	}
	if !pipe {
		features()
	}
	if err := errors.Join(s.Err(), w.Close()); err != nil {
		tb.Fatal(err)
	}
	return f.b
}

// withTrace puts AUXTRACE records with trace into a recording, which has none.
func withTrace(tb testing.TB, data []byte) []byte {
	tb.Helper()
	r := open(tb, data)
	rng := rand.New(rand.NewPCG(11, 12))
	return build(tb, r.endian, r.Events(), func(w *Writer) {
		s := r.Scan()
		for n := 0; s.Next(); n++ {
			w.WriteRecord(s.Record().Raw)
			if n%40 == 39 {
				trace := make([]byte, 8*rng.IntN(2000))
				for i := range trace {
					trace[i] = byte(rng.Uint32())
				}
				body := r.endian.appendU64s(nil, []uint64{uint64(len(trace)), uint64(n) << 12, 0, 0, 0})
				w.WriteRecord(append(rawRecord(r.endian, RecordAuxtrace, 0, body), trace...))
			}
		}
	})
}

// severalFrames compresses a recording into a pipe, with a fresh zstd frame for
// every few records.
func severalFrames(tb testing.TB, data []byte) []byte {
	tb.Helper()
	r := open(tb, data)
	var f bytes.Buffer
	w := NewPipeWriter(&f, r.ByteOrder())
	w.SetEvents(r.Events())
	var held [][]byte
	z := newCompressor(tb)
	flush := func() {
		for len(held) > 0 {
			n := min(len(held), 50)
			b := z.flush(held[:n]...)
			if err := z.enc.Close(); err != nil {
				tb.Fatal(err)
			}
			w.WriteRecord(compressed2(r.endian, append(b, z.out.Bytes()...)))
			z.out.Reset()
			z.enc.Reset(&z.out)
			held = held[n:]
		}
	}
	s := r.Scan()
	for s.Next() {
		if rec := s.Record(); rec.Type < firstUserRecord {
			held = append(held, bytes.Clone(rec.Raw))
		} else {
			flush()
			w.WriteRecord(rec.Raw)
		}
	}
	flush()
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return f.Bytes()
}

// A piece of a mutant: n bytes, those of the specimen from lo on, or new ones
// where lo is below 0. New bytes that replace as many have the place of those in was,
// others -1.
type piece struct{ at, lo, n, was int }

// A mutant is a specimen that was damaged.
type mutant struct {
	sp     *specimen
	how    string
	data   []byte
	pieces []piece // ascending
}

// mutate damages a specimen at one place, somewhere among its records.
func (sp *specimen) mutate(rng *rand.Rand) *mutant {
	m := &mutant{sp: sp}
	size := sp.end - sp.start
	anywhere := func() int { return sp.start + rng.IntN(size) }
	record := func() outerRecord { return sp.outer[rng.IntN(len(sp.outer))] }
	junk := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	header := func(set func(b []byte)) {
		o := record()
		b := bytes.Clone(sp.data[o.lo : o.lo+headerSize])
		set(b)
		m.replace(o.lo, headerSize, b)
	}
	switch rng.IntN(12) {
	case 0:
		m.how = "a bit"
		at := anywhere()
		m.replace(at, 1, []byte{sp.data[at] ^ 1<<rng.IntN(8)})
	case 1:
		m.how = "a byte"
		m.replace(anywhere(), 1, junk(1))
	case 2:
		m.how = "a word"
		at := anywhere()
		m.replace(at, min(8, sp.end-at), junk(min(8, sp.end-at)))
	case 3:
		m.how = "cut"
		m.replace(anywhere(), -1, nil)
	case 4:
		m.how = "inserted"
		m.replace(anywhere(), 0, junk(1+rng.IntN(100)))
	case 5:
		m.how = "deleted"
		at := anywhere()
		m.replace(at, min(1+rng.IntN(100), sp.end-at), nil)
	case 6:
		m.how = "swapped"
		i := rng.IntN(len(sp.outer))
		a, b := sp.outer[i], sp.outer[min(i+1+rng.IntN(3), len(sp.outer)-1)]
		if a.lo == b.lo {
			return sp.mutate(rng)
		}
		m.arrange(piece{lo: 0, n: a.lo}, piece{lo: b.lo, n: b.hi - b.lo}, piece{lo: a.hi, n: b.lo - a.hi}, piece{lo: a.lo, n: a.hi - a.lo},
			piece{lo: b.hi, n: len(sp.data) - b.hi})
	case 7:
		m.how = "a size"
		header(func(b []byte) { sp.e.put16(b[6:], uint16(rng.Uint32())) })
	case 8:
		m.how = "a size, a multiple of 8"
		header(func(b []byte) { sp.e.put16(b[6:], uint16(rng.Uint32())&^7>>rng.IntN(13)&^7) })
	case 9:
		m.how = "a type"
		header(func(b []byte) { sp.e.put32(b, uint32(rng.IntN(100))) })
	case 10:
		m.how = "zeros"
		at := anywhere()
		m.replace(at, min(512, sp.end-at), make([]byte, min(512, sp.end-at)))
	case 11:
		m.how = "a block of junk"
		at := anywhere()
		n := min(1<<rng.IntN(13), sp.end-at)
		m.replace(at, n, junk(n))
	}
	return m
}

// mutateMore damages a specimen in other ways, also at several places: as disks,
// copies of blocks and transfers in text mode do.
func (sp *specimen) mutateMore(rng *rand.Rand) *mutant {
	m := &mutant{sp: sp}
	at := sp.start + rng.IntN(sp.end-sp.start)
	upTo := func(n int) int { return min(1+rng.IntN(n), sp.end-at) }
	sector := func() (lo, n int) {
		n = 512 << rng.IntN(4)
		lo = at &^ (n - 1)
		lo = max(lo, sp.start)
		return lo, min(n, sp.end-lo)
	}
	changed := func(lo, n int, change func(i int, c byte) byte) {
		b := bytes.Clone(sp.data[lo : lo+n])
		for i := range b {
			b[i] = change(i, b[i])
		}
		m.replace(lo, n, b)
	}
	switch rng.IntN(12) {
	case 0:
		m.how = "every so many bytes inverted"
		every := 1 + rng.IntN(40)
		changed(at, upTo(600), func(i int, c byte) byte {
			if i%every == 0 {
				return ^c
			}
			return c
		})
	case 1:
		m.how = "a bit stuck"
		bit, set := byte(1)<<rng.IntN(8), rng.IntN(2)
		changed(at, upTo(400), func(_ int, c byte) byte { return c&^bit | bit*byte(set) })
	case 2:
		m.how = "a sector of zeros"
		lo, n := sector()
		changed(lo, n, func(int, byte) byte { return 0 })
	case 3:
		m.how = "a sector of another place"
		lo, n := sector()
		from := sp.start + rng.IntN(sp.end-sp.start-n+1)
		m.arrange(piece{lo: 0, n: lo}, piece{lo: from, n: n}, piece{lo: lo + n, n: len(sp.data) - lo - n})
	case 4:
		m.how = "a block twice"
		n := upTo(5000)
		m.arrange(piece{lo: 0, n: at + n}, piece{lo: at, n: n}, piece{lo: at + n, n: len(sp.data) - at - n})
	case 5:
		m.how = "a block missing"
		lo, n := sector()
		m.replace(lo, n, nil)
	case 6:
		m.how = "a block moved"
		n := upTo(3000)
		to := at + n + rng.IntN(sp.end-at-n+1)
		m.arrange(piece{lo: 0, n: at}, piece{lo: at + n, n: to - at - n}, piece{lo: at, n: n}, piece{lo: to, n: len(sp.data) - to})
	case 7:
		m.how = "several bytes"
		b := bytes.Clone(sp.data)
		list := []int{at}
		for range 1 + rng.IntN(5) {
			list = append(list, sp.start+rng.IntN(sp.end-sp.start))
		}
		slices.Sort(list)
		var pieces []piece
		var fresh []byte
		next := 0
		for _, i := range slices.Compact(list) {
			fresh = append(fresh, b[i]^byte(1+rng.IntN(255)))
			pieces = append(pieces, piece{lo: next, n: i - next}, piece{lo: -1, n: 1, was: i})
			next = i + 1
		}
		m.arrangeWith(fresh, append(pieces, piece{lo: next, n: len(b) - next})...)
	case 8:
		m.how = "line ends changed"
		var pieces []piece
		var fresh []byte
		next := sp.start
		for i := sp.start; i < sp.end && len(fresh) < 20; i++ {
			if sp.data[i] == '\n' && i >= at {
				pieces = append(pieces, piece{lo: next, n: i - next}, piece{lo: -1, n: 1, was: -1})
				fresh, next = append(fresh, '\r'), i
			}
		}
		pieces = append([]piece{{lo: 0, n: sp.start}}, pieces...)
		m.arrangeWith(fresh, append(pieces, piece{lo: next, n: len(sp.data) - next})...)
	case 9:
		m.how = "a size, by some words"
		o := sp.outer[rng.IntN(len(sp.outer))]
		b := bytes.Clone(sp.data[o.lo : o.lo+headerSize])
		by := 8 * (1 + rng.IntN(6))
		if rng.IntN(2) == 0 {
			by = -by
		}
		sp.e.put16(b[6:], uint16(int(sp.e.u16(b[6:]))+by))
		m.replace(o.lo, headerSize, b)
	case 10:
		m.how = "a record missing"
		o := sp.outer[rng.IntN(len(sp.outer))]
		m.replace(o.lo, o.hi-o.lo, nil)
	case 11:
		m.how = "two cuts"
		n := upTo(3000)
		rest := sp.end - at - n
		m.arrange(piece{lo: 0, n: at}, piece{lo: at + n, n: rest / 2})
	}
	return m
}

// replace replaces n bytes at at, all that follow where n is below 0.
func (m *mutant) replace(at, n int, by []byte) {
	if n < 0 {
		m.arrange(piece{lo: 0, n: at})
		return
	}
	was := -1
	if n == len(by) {
		was = at
	}
	m.arrangeWith(by, piece{lo: 0, n: at}, piece{lo: -1, n: len(by), was: was}, piece{lo: at + n, n: len(m.sp.data) - at - n})
}

func (m *mutant) arrange(pieces ...piece) { m.arrangeWith(nil, pieces...) }

func (m *mutant) arrangeWith(new []byte, pieces ...piece) {
	m.data = make([]byte, 0, len(m.sp.data)+len(new))
	for _, p := range pieces {
		p.at = len(m.data)
		if p.lo < 0 {
			m.data = append(m.data, new[:p.n]...)
			new = new[p.n:]
		} else {
			m.data = append(m.data, m.sp.data[p.lo:p.lo+p.n]...)
		}
		if p.n > 0 {
			m.pieces = append(m.pieces, p)
		}
	}
}

// places yields where the specimen's bytes [lo, hi) are, together and unchanged.
func (m *mutant) places(lo, hi int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, p := range m.pieces {
			if p.lo < 0 || lo < p.lo || lo >= p.lo+p.n {
				continue
			}
			next := lo
			for _, p := range m.pieces[i:] {
				if next >= hi || p.lo < 0 || next < p.lo || next >= p.lo+p.n {
					break
				}
				next = p.lo + p.n
			}
			if next >= hi && !yield(p.at+lo-p.lo) {
				return
			}
		}
	}
}

// begins reports whether a record of the specimen begins at an offset of the
// mutant, whatever became of the rest of it.
func (m *mutant) begins(at int) bool {
	for _, p := range m.pieces {
		switch {
		case at < p.at || at >= p.at+p.n:
		case p.lo >= 0:
			return m.sp.recordAt(p.lo + at - p.at)
		case p.was >= 0:
			return m.sp.recordAt(p.was + at - p.at)
		}
	}
	return false
}

func (sp *specimen) recordAt(at int) bool {
	_, ok := slices.BinarySearchFunc(sp.outer, at, func(o outerRecord, at int) int { return o.lo - at })
	return ok
}

// A tally counts the records of mutants.
type tally struct {
	mutants   int
	reachable int // records that the damage did not touch
	delivered int // those of them that a scan hands over
	altered   int // records out of compressed ones that the specimen does not have
}

func (t *tally) add(u tally) {
	t.mutants += u.mutants
	t.reachable += u.reachable
	t.delivered += u.delivered
	t.altered += u.altered
}

func (t tally) percent() float64 { return 100 * float64(t.delivered) / float64(max(t.reachable, 1)) }

// judge holds what comes out of a mutant against the specimen. Invented are the
// records that the specimen does not have at that place.
func (m *mutant) judge(r *Recording, list []Record) (t tally, invented []string) {
	t.mutants = 1
	type delivery struct {
		typ RecordType
		raw string
	}
	got := make(map[int64]delivery)
	// What was deleted may be as good as what stands beside it, so that a record
	// is whole that seems to begin elsewhere.
	originals := make(map[string]bool)
	for _, o := range m.sp.outer {
		originals[string(m.sp.data[o.lo:o.lo+o.size])] = true
	}
	inner := make(map[string]int)
	last := int64(-1)
	for _, rec := range list {
		if rec.Offset == last && rec.Type < firstUserRecord {
			inner[string(rec.Raw)]++
			continue
		}
		if rec.Offset <= last {
			invented = append(invented, fmt.Sprintf("%v at %d after one at %d", rec.Type, rec.Offset, last))
		}
		last = rec.Offset
		got[rec.Offset] = delivery{rec.Type, string(rec.Raw)}
		if !m.begins(int(rec.Offset)) && !originals[string(rec.Raw)] {
			invented = append(invented, fmt.Sprintf("%v of %d bytes at %d", rec.Type, len(rec.Raw), rec.Offset))
		}
	}
	whole := make([]bool, len(m.sp.outer))
	at := make([]int, len(m.sp.outer))
	for i, o := range m.sp.outer {
		delivered := false
		for place := range m.places(o.lo, o.hi) {
			if place+o.hi-o.lo > r.files[0].end {
				break // the header says that the records end before
			}
			if !whole[i] || place == o.lo {
				at[i] = place
			}
			whole[i] = true
			delivered = delivered || got[int64(place)].raw == string(m.sp.data[o.lo:o.lo+o.size])
		}
		if whole[i] {
			t.reachable++
		}
		if delivered {
			t.delivered++
		}
	}
	inflated := m.inflated(whole, at)
	for _, reachable := range []bool{true, false} { // some are equal
		for _, rec := range m.sp.inner {
			if inflated[rec.outer] != reachable {
				continue
			}
			if reachable {
				t.reachable++
			}
			if inner[rec.raw] > 0 {
				inner[rec.raw]--
				if reachable {
					t.delivered++
				}
			}
		}
	}
	for _, n := range inner {
		t.altered += n
	}
	return t, invented
}

// inflated returns for each record of the file whether what is compressed in it can
// be decompressed: if all compressed records of its frame up to it are there, one
// after the other.
func (m *mutant) inflated(whole []bool, at []int) []bool {
	var there []int // the compressed records of the mutant, in its order
	for i, o := range m.sp.outer {
		if o.compressed && whole[i] {
			there = append(there, i)
		}
	}
	slices.SortFunc(there, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	after := make(map[int]int) // each record and the one behind it
	for k := 1; k < len(there); k++ {
		after[there[k-1]] = there[k]
	}
	ok := make([]bool, len(m.sp.outer))
	last, begun := -1, false // the compressed record before, and whether its frame is whole so far
	for i, o := range m.sp.outer {
		if !o.compressed {
			continue
		}
		next, follows := after[last]
		begun = whole[i] && (slices.Contains(m.sp.frames, i) || begun && follows && next == i)
		ok[i], last = begun, i
	}
	return ok
}

// sameFromStreams checks that a mutant reads the same out of a stream, and out of a
// file that is not touched in memory.
func sameFromStreams(t *testing.T, m *mutant, want []Record, wantErr error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, m.data, 0o666); err != nil {
		t.Fatal(err)
	}
	file, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	same := func(how string, got []Record, err error) {
		t.Helper()
		if !slices.EqualFunc(got, want, func(a, b Record) bool {
			return a.Type == b.Type && a.Offset == b.Offset && bytes.Equal(a.Raw, b.Raw)
		}) {
			t.Errorf("%s of %s, %s: %d records, want %d; errors %v and %v", m.how, m.sp.name, how, len(got), len(want), err, wantErr)
		}
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s of %s, %s: error %v, want %v", m.how, m.sp.name, how, err, wantErr)
		}
	}
	got, err := scan(file, Unmapped())
	same("unmapped", got, err)
	rd, err := NewReader(bytes.NewReader(m.data))
	if err != nil {
		t.Fatal(err)
	}
	got, err = stream(rd)
	same("as a stream", got, err)
}

// opened returns a specimen's recording, and its records.
func opened(t *testing.T, sp *specimen) (*Recording, []Record) {
	t.Helper()
	r := open(t, sp.data)
	list, err := scan(r)
	if err != nil {
		t.Fatal(err)
	}
	return r, list
}

// TestFitOtherType: where two records run into one another, the header can have the type of one and
// the size of the other. The content shows that this is no record.
func TestFitOtherType(t *testing.T) {
	other := map[RecordType]RecordType{RecordSample: RecordRead, RecordComm: RecordCgroup}
	n := make(map[RecordType]int)
	for _, sp := range specimens(t) {
		r, list := opened(t, sp)
		for _, rec := range list {
			typ, ok := other[rec.Type]
			if !ok {
				continue
			}
			n[typ]++
			if f := r.fitOf(header{typ: typ, size: len(rec.Raw)}, rec.Raw); f != misfit {
				t.Fatalf("%s: a %v at %d is taken for a %v", sp.name, rec.Type, rec.Offset, typ)
			}
		}
	}
	if len(n) != len(other) {
		t.Errorf("records compared: %v", n)
	}
}

// TestDisguised: a record that says how text changes, or that some were lost, is not passed over
// unnoticed because a bit of its type changed, unless its content fits the other type too.
func TestDisguised(t *testing.T) {
	n := make(map[RecordType]int)
	for _, sp := range specimens(t) {
		r, list := opened(t, sp)
		for _, rec := range list {
			h := r.endian.header(rec.Raw)
			var id SampleID
			switch rec.Type {
			case RecordTextPoke, RecordKSymbol, RecordBPFEvent, RecordLost:
			default:
				if was := r.disguised(h, rec.Raw); r.fitOf(h, rec.Raw) != exact && was != 0 {
					t.Fatalf("%s: a %v at %d is taken for a damaged %v", sp.name, rec.Type, rec.Offset, was)
				}
				continue
			}
			if r.SampleID(&rec, &id) != nil || id.Time == 0 || r.fitOf(h, rec.Raw) != exact {
				continue // perf announced it, or it is of several listeners
			}
			for bit := range 8 {
				other := h
				other.typ ^= 1 << bit
				if other.typ == 0 || r.fitOf(other, rec.Raw) == exact {
					continue
				}
				if n[rec.Type]++; r.disguised(other, rec.Raw) != rec.Type {
					t.Errorf("%s: a %v at %d with type %d is taken for that", sp.name, rec.Type, rec.Offset, other.typ)
				}
			}
		}
	}
	if n[RecordTextPoke] == 0 || n[RecordKSymbol] == 0 || n[RecordBPFEvent] == 0 {
		t.Errorf("records compared: %v", n)
	}
	t.Log(n)
}

// TestNotDisguised: a symbol of several listeners ends with what an older record has left in the ring
// buffer. That may be the trailer of a poke whose length is the low half of the symbol's.
func TestNotDisguised(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		id := SampleID{PID: 7, TID: 8, Time: 60, ID: 13, CPU: 1, Has: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Event: testEvents()[1]}
		sym := &KSymbol{Addr: 0xffffffffc0026000, Len: 61, Kind: KSymbolOOL, Name: []byte("ftrace_trampoline"), SampleID: id, Excess: 40}
		if e == big {
			sym.Len = 61 << 16
		}
		data := build(t, e, testEvents(), func(w *Writer) {
			if err := w.KSymbol(sym); err != nil {
				t.Fatal(err)
			}
			w.WriteRecord(timed(e, 11, 70, 0))
		})
		r := open(t, data)
		list, err := scan(r)
		if err != nil {
			t.Fatal(err)
		}
		raw := list[0].Raw
		copy(raw[len(raw)-32:], raw[len(raw)-72:len(raw)-40])
		if f := r.fitOf(header{typ: RecordTextPoke, size: len(raw)}, raw); f != exact {
			t.Fatalf("a poke of this size fits %v", f)
		}
		copy(data[list[0].Offset:], raw)
		if _, err := scan(open(t, data)); err != nil {
			t.Error(err)
		}
	})
}

// TestToolRecordsNotDisguised: what perf itself writes may end with the number of an event, and be as
// long as a record that says how text changes.
func TestToolRecordsNotDisguised(t *testing.T) {
	// As perfs before 6.1 write it to a pipe: the name is not padded, and ends with the number of 't'.
	name := append(little.appendU64s(nil, []uint64{eventUpdateName, 116}), "syscalls:sys_enter_openat\x00\x00\x00\x00\x00\x00\x00"...)
	attr := Attr{Type: 2, Size: 128, Config: 112, SampleType: testEvents()[0].Attr.SampleType, Flags: FlagSampleIDAll}
	for _, tt := range []struct {
		as  RecordType
		ids []uint64
		rec []byte
	}{
		{RecordBPFEvent, []uint64{115, 116}, rawRecord(little, RecordEventUpdate, 0, name)},
		{RecordLost, []uint64{eventUpdateName, 116}, rawRecord(little, RecordEventUpdate, 0, name)},
		{RecordTextPoke, []uint64{113, 114, 115, 116}, rawRecord(little, RecordHeaderAttr, 0,
			little.appendU64s(attr.encode(little)[:attr.Size], []uint64{113, 114, 115, 116}))},
	} {
		t.Run(tt.as.String(), func(t *testing.T) {
			events := testEvents()
			events[0].IDs = tt.ids
			r := open(t, build(t, little, events, func(w *Writer) { w.WriteRecord(tt.rec) }))
			if f := r.fitOf(header{typ: tt.as, size: len(tt.rec)}, tt.rec); f != exact {
				t.Fatalf("a %v of this content fits %v", tt.as, f)
			}
			if _, err := scan(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestMutants damages recordings of all forms, each in one way, and reads on
// behind the damage: at least as many of the records that are whole come out as
// leastDelivered says, and none that was not there.
//
// $TEXTREPLAY_DAMAGE says how many mutants there are to be.
func TestMutants(t *testing.T) {
	const leastDelivered = 99.0
	n := 3000
	if testing.Short() {
		n = 1000
	}
	if s := os.Getenv("TEXTREPLAY_DAMAGE"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("TEXTREPLAY_DAMAGE: %v", err)
		}
	}
	all := specimens(t)
	byHow, byForm := make(map[string]*tally), make(map[string]*tally)
	var sum tally
	count := func(m map[string]*tally, key string, u tally) {
		if m[key] == nil {
			m[key] = new(tally)
		}
		m[key].add(u)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		var m *mutant
		if sp := all[i%len(all)]; i/len(all)%2 == 0 {
			m = sp.mutate(rng)
		} else {
			m = sp.mutateMore(rng)
		}
		r, err := New(m.data)
		if err != nil {
			t.Fatalf("mutant %d, %s of %s: %v", i, m.how, m.sp.name, err)
		}
		list, err := scan(r)
		u, invented := m.judge(r, list)
		if i%8 == 0 {
			sameFromStreams(t, m, list, err)
		}
		if len(invented) > 0 {
			t.Errorf("mutant %d, %s of %s: invented %q", i, m.how, m.sp.name, invented[:min(3, len(invented))])
		}
		if u.delivered < u.reachable && err == nil {
			t.Errorf("mutant %d, %s of %s: %d of %d records, and no error", i, m.how, m.sp.name, u.delivered, u.reachable)
		}
		count(byHow, m.how, u)
		count(byForm, m.sp.name, u)
		sum.add(u)
	}
	for _, m := range []map[string]*tally{byHow, byForm} {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			t.Logf("%-40s %5d mutants, %8d records whole, %7.3f %% delivered", key, m[key].mutants, m[key].reachable, m[key].percent())
		}
	}
	t.Logf("%-40s %5d mutants, %8d records whole, %7.3f %% delivered, %d records altered within compressed ones", "all", sum.mutants, sum.reachable, sum.percent(), sum.altered)
	if sum.percent() < leastDelivered {
		t.Errorf("%.3f %% of the records that are whole were delivered, want %.1f", sum.percent(), leastDelivered)
	}
}
