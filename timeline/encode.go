// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// ErrInvalid is wrapped by the errors of [DecodeImage], [DecodeWindows] and
// [Image.CheckValid]. It means that a number in a table refers to nothing.
var ErrInvalid = errors.New("timeline: the tables of the image are not valid")

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// The tables of an encoded image, in the order of Encoded.Tables.
const (
	tableFragments = iota
	tableLeaves
	tableNodes
	tableStates
	tableConflicts
	tableClaims
	tableArena
	tablePages
	tableRanks
	tableUnpatched
	tableLives
	tableNames // of lives
	numTables
)

// EncodedTable is the memory of one table of an image.
type EncodedTable struct {
	Data []byte // a whole number of elements; see DecodeImage for its alignment
	Size int    // of an element, in bytes
}

// Encoded is an image as plain memory. Its form depends on the byte order of the machine
// and on the compiler's layout of structs. The caller must see to it that only the same
// program, on the same kind of machine, decodes it.
type Encoded struct {
	// Tables refer to the image's own memory: they are read-only.
	Tables []EncodedTable
	// Meta has all that is not a table. It can be stored as JSON.
	Meta EncodedMeta
}

// EncodedMeta is the part of an encoded image that is not a table.
type EncodedMeta struct {
	First, Horizon, TextLo, TextHi, PageBase uint64

	Unpatched        [4]uint32
	UnpatchedSegment int32
	Segments         []Range
	Duplicates       int
	Skews            []Skew
}

// A savedLife is a [Lifetime] without the fields that are used only while an image is made.
type savedLife struct {
	lo, hi, from, to uint64
	name, nameLen    uint32 // in the table of names
	program          uint32
	table            uint32 // that names a module's code: its index in Image.SavedTables; 0: the image's own
	kind             LifetimeKind
	ended            Reason
	undated          uint8
	_                [5]uint8
}

// Encode returns the image as plain memory, without the bytes of its snapshot and without
// its tables of names (see [Image.SavedTables]). The tables share the image's memory.
func (im *Image) Encode() Encoded {
	meta := EncodedMeta{
		First: im.first, Horizon: im.horizon, TextLo: im.textLo, TextHi: im.textHi, PageBase: im.pageBase,
		Unpatched:        [4]uint32{im.unpatched.leaf, im.unpatched.count, im.unpatched.node, im.unpatched.states},
		UnpatchedSegment: -1, Duplicates: im.duplicates, Skews: im.skews,
	}
	for i := range im.segments {
		s := &im.segments[i]
		meta.Segments = append(meta.Segments, Range{s.Addr, s.End()})
	}
	if im.unpatchedText.unpatched != nil {
		meta.UnpatchedSegment = im.unpatchedSegment()
	}
	lives, names := im.livesToSave()
	return Encoded{Meta: meta, Tables: []EncodedTable{
		tableFragments: {raw(im.fragments), sizeOf[fragment]()},
		tableLeaves:    {raw(im.leaves), sizeOf[leaf]()},
		tableNodes:     {raw(im.nodes), sizeOf[node]()},
		tableStates:    {raw(im.states), sizeOf[storedState]()},
		tableConflicts: {raw(im.conflicts), sizeOf[conflict]()},
		tableClaims:    {raw(im.claims), sizeOf[claim]()},
		tableArena:     {im.arena, 1},
		tablePages:     {raw(im.pages), 4},
		tableRanks:     {raw(im.ranks), sizeOf[rank]()},
		tableUnpatched: {im.unpatchedText.unpatched, 1},
		tableLives:     {raw(lives), sizeOf[savedLife]()},
		tableNames:     {names, 1},
	}}
}

// DecodeImage makes an image of what [Image.Encode] returned. The image uses the tables
// in place: they must neither change nor be unmapped while it is in use, and each must
// begin at an address that is a multiple of 64. segments is the snapshot that the image was
// built with, and names what [Image.SavedTables] returned. Errors wrap [ErrInvalid]. Whatever the
// tables contain, an image that DecodeImage returns never reads outside of them.
func DecodeImage(e Encoded, segments []Segment, names []Names) (*Image, error) {
	im, saved, err := decodeTables(e, names)
	if err != nil {
		return nil, err
	}
	if err := im.take(&e.Meta, segments); err != nil {
		return nil, err
	}
	if err := im.CheckValid(); err != nil {
		return nil, err
	}
	if err := im.takeLives(&saved, names); err != nil {
		return nil, err
	}
	return im, nil
}

// savedLives are the tables of lifetimes.
type savedLives struct {
	lives []savedLife
	names []byte
}

// decodeTables returns an image with the tables of e in place, of which it reads nothing, and
// those of lifetimes.
func decodeTables(e Encoded, names []Names) (*Image, savedLives, error) {
	if len(e.Tables) != numTables {
		return nil, savedLives{}, invalidf("%d tables, not %d", len(e.Tables), numTables)
	}
	im := new(Image)
	if len(names) > 0 {
		im.names = names[0]
	}
	d := tableDecoder{tables: e.Tables}
	im.fragments = table[fragment](&d, tableFragments)
	im.leaves = table[leaf](&d, tableLeaves)
	im.nodes = table[node](&d, tableNodes)
	im.states = table[storedState](&d, tableStates)
	im.conflicts = table[conflict](&d, tableConflicts)
	im.claims = table[claim](&d, tableClaims)
	im.arena = table[byte](&d, tableArena)
	im.pages = table[uint32](&d, tablePages)
	im.ranks = table[rank](&d, tableRanks)
	im.unpatchedText.unpatched = table[byte](&d, tableUnpatched)
	saved := savedLives{table[savedLife](&d, tableLives), table[byte](&d, tableNames)}
	return im, saved, d.err
}

// A tableDecoder casts tables to their types, and keeps the first error.
type tableDecoder struct {
	tables []EncodedTable
	err    error
}

// table returns the i-th table in place.
func table[T any](d *tableDecoder, i int) []T {
	e := &d.tables[i]
	if d.err == nil && e.Size != sizeOf[T]() {
		d.err = invalidf("an element of table %d has %d bytes, not %d", i, e.Size, sizeOf[T]())
	}
	if d.err != nil || len(e.Data) == 0 {
		return nil
	}
	out, err := cast[T](e.Data)
	if err != nil {
		d.err = err
	}
	return out
}

// SavedTables returns the tables of names that [DecodeImage] needs: that of [Builder.Names], which
// may be nil, and then the others of modules.
func (im *Image) SavedTables() []Names {
	if im.names == nil {
		return append([]Names{nil}, im.NameTables()...)
	}
	return im.NameTables()
}

// livesToSave returns the tables of lifetimes.
func (im *Image) livesToSave() (lives []savedLife, names []byte) {
	tables := im.SavedTables()
	for _, l := range im.lives {
		s := savedLife{lo: l.Lo, hi: l.Hi, from: l.From, to: l.To, kind: l.Kind, ended: l.Ended,
			program: l.Program, name: uint32(len(names)), nameLen: uint32(len(l.Name))}
		if l.undated {
			s.undated = 1
		}
		if l.names != nil {
			s.table = uint32(slices.Index(tables, l.names))
		}
		lives = append(lives, s)
		names = append(names, l.Name...)
	}
	return lives, names
}

// take sets what Meta has.
func (im *Image) take(meta *EncodedMeta, segments []Segment) error {
	im.first, im.horizon, im.textLo, im.textHi = meta.First, meta.Horizon, meta.TextLo, meta.TextHi
	im.pageBase, im.duplicates, im.skews = meta.PageBase, meta.Duplicates, meta.Skews
	im.unpatched = versions{meta.Unpatched[0], meta.Unpatched[1], meta.Unpatched[2], meta.Unpatched[3]}
	if len(segments) != len(meta.Segments) {
		return invalidf("the copy of kernel text has %d ranges, it knows %d", len(segments), len(meta.Segments))
	}
	for i := range segments {
		if (Range{segments[i].Addr, segments[i].End()}) != meta.Segments[i] {
			return invalidf("the copy of kernel text has other ranges")
		}
	}
	im.segments = segments
	if im.unpatchedText.unpatched == nil {
		return nil
	}
	if i := meta.UnpatchedSegment; i < 0 || int(i) >= len(segments) || segments[i].Addr > im.pageBase || im.pageBase >= segments[i].End() {
		return invalidf("never-poked text lies outside of the copy")
	}
	s := &segments[meta.UnpatchedSegment]
	im.base, im.text = im.pageBase, s.Data[im.pageBase-s.Addr:]
	for n := len(im.unpatchedText.unpatched); n > 0; n-- {
		if w := im.unpatchedText.unpatched[n-1]; w != 0 {
			if granule*(8*(n-1)+bits.Len8(w)) > len(im.text) {
				return invalidf("never-poked text passes the copy")
			}
			break
		}
	}
	return nil
}

// CheckValid returns an error that wraps [ErrInvalid] if a number in a table refers to
// an element that another table does not have. It checks all tables but the leaves, of
// which there can be very many; their numbers are bounded whenever they are read. It
// returns nil for every image that [Builder.Build] made.
func (im *Image) CheckValid() error {
	switch {
	case !im.goodFragments():
		return invalidf("a fragment leads nowhere")
	case !im.goodConflicts():
		return invalidf("a conflict leads nowhere")
	case !im.goodPages():
		return invalidf("a page leads nowhere")
	}
	return nil
}

func (im *Image) goodFragments() bool {
	if !im.validUnpatched() {
		return false
	}
	end := uint64(0)
	for i := range im.fragments {
		f := &im.fragments[i]
		// Only the last fragment may reach to the end of the address space, where end is 0.
		if f.addr < end || i > 0 && end == 0 || f.size == 0 || f.addr+uint64(f.size)-1 < f.addr || f.seg < -1 || int(f.seg) >= len(im.segments) {
			return false
		}
		end = f.addr + uint64(f.size)
		if f.seg >= 0 {
			if s := &im.segments[f.seg]; f.addr < s.Addr || end > s.End() {
				return false
			}
		}
		if shared := im.unpatched.count != 0 && f.versions == im.unpatched; !shared && !im.goodVersions(&f.versions) {
			return false
		}
		states := im.states[f.states:][:im.statesOf(&f.versions)]
		for k := range states {
			if !im.goodState(&states[k].state, f, uint32(i)) {
				return false
			}
		}
	}
	return true
}

// validUnpatched checks the versions that all never-poked text shares. If there is a
// bitmap of unpatched text, the snapshot must give their bytes.
func (im *Image) validUnpatched() bool {
	if im.unpatched.count == 0 {
		return im.unpatchedText.unpatched == nil
	}
	if !im.goodVersions(&im.unpatched) {
		return false
	}
	for i := range im.states[im.unpatched.states:][:im.statesOf(&im.unpatched)] {
		s := &im.states[im.unpatched.states:][i].state
		if !s.named() || im.unpatchedText.unpatched != nil && (s.content != snapshotContent || !s.standing.HasBytes() || s.standing == InFlight) {
			return false
		}
	}
	return true
}

// named reports whether standing, reason and source of s exist.
func (s *state) named() bool {
	return s.standing <= Known && int(s.reason) < len(reasons) && int(s.source) < len(sourceNames)
}

func (im *Image) goodVersions(v *versions) bool {
	leaves := uint64(v.leafCount())
	if v.count == 0 || v.count > math.MaxUint32-denseSize || uint64(v.firstLeaf())+leaves > uint64(len(im.leaves)) || v.states >= uint32(len(im.states)) {
		return false
	}
	if n := im.statesOf(v); n == 0 || uint64(v.states)+uint64(n) > uint64(len(im.states)) {
		return false
	}
	if leaves <= sideBySide {
		return true
	}
	nodes := uint64(v.node)
	sizes, top := levels(v.leafCount())
	for _, n := range sizes[:top+1] {
		nodes += uint64(n)
	}
	return nodes <= uint64(len(im.nodes))
}

// goodState checks a state of the i-th fragment, f.
func (im *Image) goodState(s *state, f *fragment, i uint32) bool {
	switch {
	case !s.named():
		return false
	case s.standing == Conflicting || s.standing == InFlight:
		return s.content < uint32(len(im.conflicts)) && im.conflicts[s.content].fragment == i
	case s.content == noContent:
		return !s.standing.HasBytes()
	}
	return im.goodContent(s.content, f)
}

// goodContent reports whether a content of f has its bytes.
func (im *Image) goodContent(content uint32, f *fragment) bool {
	if content == snapshotContent {
		return f.seg >= 0
	}
	return content <= maxContent && uint64(content)+uint64(f.size) <= uint64(len(im.arena))
}

func (im *Image) goodConflicts() bool {
	if !areBools(im.claims) {
		return false
	}
	for i := range im.conflicts {
		c := &im.conflicts[i]
		if uint64(c.claims)+uint64(c.count) > uint64(len(im.claims)) || c.count == 0 || int(c.fragment) >= len(im.fragments) ||
			int(c.reason) >= len(reasons) || c.size != im.fragments[c.fragment].size {
			return false
		}
		for _, x := range im.claimsOf(c) {
			if !im.goodContent(x.content, &im.fragments[c.fragment]) || int(x.source) >= len(sourceNames) {
				return false
			}
		}
	}
	return true
}

func (im *Image) goodPages() bool {
	last := uint32(0)
	for _, p := range im.pages {
		if p < last || int(p) > len(im.fragments) {
			return false
		}
		last = p
	}
	if len(im.ranks) != max(len(im.pages)-1, 0)*pageLines {
		return false
	}
	for p := range len(im.ranks) / pageLines {
		in := rank(min(im.pages[p+1]-im.pages[p], math.MaxUint16))
		for _, r := range im.ranks[p*pageLines:][:pageLines] {
			if r > in {
				return false
			}
		}
	}
	return true
}

// statesOf returns how many states v has.
func (im *tables) statesOf(v *versions) uint32 {
	if n := im.states[v.states].states; n != uint8(ownState) {
		return uint32(n)
	}
	return v.count
}

// takeLives sets the lifetimes. tables are those of SavedTables.
func (im *Image) takeLives(saved *savedLives, tables []Names) error {
	lives := make([]Lifetime, len(saved.lives))
	list := make([]*Lifetime, len(saved.lives))
	for i := range saved.lives {
		s := &saved.lives[i]
		if uint64(s.name)+uint64(s.nameLen) > uint64(len(saved.names)) || s.table > 0 && uint64(s.table) >= uint64(len(tables)) || s.kind > OutOfLine || int(s.ended) >= len(reasons) || s.lo > s.hi {
			return invalidf("a symbol leads nowhere")
		}
		lives[i] = Lifetime{Lo: s.lo, Hi: s.hi, From: s.from, To: s.to, Kind: s.kind, Ended: s.ended, Program: s.program,
			Name: string(saved.names[s.name:][:s.nameLen]), undated: s.undated != 0}
		if s.table > 0 {
			lives[i].names = tables[s.table]
		}
		list[i] = &lives[i]
	}
	im.indexLives(sortedByLo(list))
	return nil
}
