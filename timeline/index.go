// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/textreplay/textreplay/perfdata"
)

// An index is an image in a file: its tables as they are in memory, so that
// mapping the file is nearly all that opening it takes.
//
//	header     magic, version, place of the directory, checksum of all between the
//	           header and the windows, stamp of what the image was made of
//	tables     each at a multiple of 64 bytes
//	meta       JSON: the report and all else that is no table
//	directory  for each table its place, number of elements, and size of one
//	windows    the in-place pokes, in blocks with a checksum each
//
// It is only ever read on a machine of the same byte order whose compiler lays
// out the tables alike, and only if the stamp says that the recording is the
// one that it was made of. Whatever else it finds, the image is made anew.

// indexVersion changes with the meaning of anything in an index, which includes the rules
// by which images are made.
const indexVersion = 4

const indexMagic = "textreplay index"

// ErrIndex is wrapped by the errors of an index that cannot be used: of another
// version, of another recording, or damaged.
var ErrIndex = errors.New("timeline: the saved index cannot be used")

func indexErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrIndex, fmt.Sprintf(format, args...))
}

// An indexHeader is how an index begins. Checksums are CRC-32 as of IEEE 802.3, which
// takes half as long as Castagnoli's where processors multiply without carry.
type indexHeader struct {
	magic     [16]byte
	version   uint32
	checksum  uint32 // of the file from the header's end to windows
	directory uint64 // its place; it reaches to windows
	windows   uint64 // place of the windows, the rest of the file
	stamp     [sha256.Size]byte
	_         [56]byte
}

// A tableEntry is an entry of the directory.
type tableEntry struct{ offset, count, size uint64 }

// The tables of the directory, in this order.
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
	tableCold
	tableLives
	tableNames // of lives
	tableMeta
	tableServices // JSON
	tableWindows  // checksums
	numTables
)

const tableAlign = 64

// A savedLife is a life without what only matters while an image is made.
type savedLife struct {
	lo, hi, from, to uint64
	name, nameLen    uint32 // in the table of names
	program          uint32
	kind             lifeKind
	ended            Reason
	_                uint16
}

// indexMeta is what of a replay is no table.
type indexMeta struct {
	First, Horizon, TextLo, TextHi, PageBase uint64

	Cold        [4]uint32
	ColdSegment int32
	Segments    []Range
	Doubles     int
	ISA         elf.Machine

	Report   *Report
	Warnings []string
	Conv     *perfdata.TimeConv
	Data     *perfdata.ClockData
	OwnTime  bool
	NoWall   string

	Stretches [][3]int // of the windows
	Windows   bool     // they are in the file
}

// writeIndex writes an index of r to w.
func (r *Replay) writeIndex(w io.Writer, stamp [sha256.Size]byte) error {
	im := r.Image
	meta := indexMeta{
		First: im.first, Horizon: im.horizon, TextLo: im.textLo, TextHi: im.textHi, PageBase: im.pageBase,
		Cold:        [4]uint32{im.cold.leaf, im.cold.count, im.cold.node, im.cold.states},
		ColdSegment: -1, Doubles: im.doubles, ISA: r.isa,
		Conv: r.Report.Clock.conv, Data: r.Report.Clock.data, OwnTime: r.Report.Clock.ownTime, NoWall: r.Report.Clock.noWall,
	}
	for i := range im.segments {
		s := &im.segments[i]
		meta.Segments = append(meta.Segments, Range{s.Addr, s.end()})
	}
	if im.coldText.cold != nil {
		meta.ColdSegment = im.coldSegment()
	}
	report := *r.Report
	report.Warnings = nil
	meta.Report = &report
	for _, w := range r.Report.Warnings {
		meta.Warnings = append(meta.Warnings, w.Error())
	}
	var windows []placed
	if r.windows != nil && r.windows.words == nil {
		meta.Windows, windows = true, r.windows.pokes
		for _, s := range r.windows.stretches {
			meta.Stretches = append(meta.Stretches, [3]int{s.lo, s.hi, s.from})
		}
	}
	text, err := json.Marshal(&meta)
	if err != nil {
		return err
	}
	lives, names := im.savedLives()
	services, err := json.Marshal(r.savedServices())
	if err != nil {
		return err
	}

	tables := [numTables]struct {
		data []byte
		size int
	}{
		tableFragments: {raw(im.fragments), sizeOf[fragment]()},
		tableLeaves:    {raw(im.leaves), sizeOf[leaf]()},
		tableNodes:     {raw(im.nodes), sizeOf[node]()},
		tableStates:    {raw(im.states), sizeOf[kept]()},
		tableConflicts: {raw(im.conflicts), sizeOf[conflict]()},
		tableClaims:    {raw(im.claims), sizeOf[claim]()},
		tableArena:     {im.arena, 1},
		tablePages:     {raw(im.pages), 4},
		tableRanks:     {raw(im.ranks), sizeOf[rank]()},
		tableCold:      {im.coldText.cold, 1},
		tableLives:     {raw(lives), sizeOf[savedLife]()},
		tableNames:     {names, 1},
		tableMeta:      {text, 1},
		tableServices:  {services, 1},
		tableWindows:   {raw(windowSums(windows)), 4},
	}
	head := indexHeader{version: indexVersion, stamp: stamp}
	copy(head.magic[:], indexMagic)
	at := uint64(sizeOf[indexHeader]())
	var directory [numTables]tableEntry
	var pad [tableAlign]byte
	var parts [][]byte
	add := func(data []byte) {
		head.checksum = crc32.Update(head.checksum, crc32.IEEETable, data)
		parts = append(parts, data)
		at += uint64(len(data))
	}
	for i := range tables {
		t := &tables[i]
		directory[i] = tableEntry{at, uint64(len(t.data) / t.size), uint64(t.size)}
		add(t.data)
		add(pad[:-at%tableAlign])
	}
	head.directory = at
	add(raw(directory[:]))
	add(pad[:-at%tableAlign])
	head.windows = at
	parts = append(parts, raw(windows))

	if _, err := w.Write(raw([]indexHeader{head})); err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func (im *Image) savedLives() (lives []savedLife, names []byte) {
	for _, l := range im.lives {
		lives = append(lives, savedLife{lo: l.lo, hi: l.hi, from: l.from, to: l.to, kind: l.kind, ended: l.ended,
			program: l.program, name: uint32(len(names)), nameLen: uint32(len(l.name))})
		names = append(names, l.name...)
	}
	return lives, names
}

// readIndex makes of data, an index in memory, what it was written from, in r,
// which has its snapshot and names. It keeps data. Errors wrap ErrIndex.
func (r *Replay) readIndex(data []byte, stamp [sha256.Size]byte) error {
	head, err := headerOf(data)
	if err != nil {
		return err
	}
	if head.stamp != stamp {
		return indexErrorf("it is of another recording, or of the same before it changed")
	}
	body := data[sizeOf[indexHeader]():head.windows]
	if crc32.ChecksumIEEE(body) != head.checksum {
		return indexErrorf("its checksum is wrong")
	}
	directory, err := cast[tableEntry](data[head.directory:][:numTables*sizeOf[tableEntry]()])
	if err != nil {
		return err
	}
	im := &Image{}
	tables := tableReader{data: data[:head.directory], directory: directory}
	im.fragments = table[fragment](&tables, tableFragments)
	im.leaves = table[leaf](&tables, tableLeaves)
	im.nodes = table[node](&tables, tableNodes)
	im.states = table[kept](&tables, tableStates)
	im.conflicts = table[conflict](&tables, tableConflicts)
	im.claims = table[claim](&tables, tableClaims)
	im.arena = table[byte](&tables, tableArena)
	im.pages = table[uint32](&tables, tablePages)
	im.ranks = table[rank](&tables, tableRanks)
	im.coldText.cold = table[byte](&tables, tableCold)
	lives := table[savedLife](&tables, tableLives)
	liveNames := table[byte](&tables, tableNames)
	text := table[byte](&tables, tableMeta)
	services := table[byte](&tables, tableServices)
	windowSums := table[uint32](&tables, tableWindows)
	if tables.err != nil {
		return tables.err
	}
	var meta indexMeta
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&meta); err != nil || meta.Report == nil {
		return indexErrorf("its report cannot be read: %v", err)
	}
	if err := im.take(&meta, r.segments()); err != nil {
		return err
	}
	if err := im.check(); err != nil {
		return err
	}
	if err := im.takeLives(lives, liveNames); err != nil {
		return err
	}
	windows, err := readWindows(&meta, data[head.windows:], windowSums)
	if err != nil {
		return err
	}

	r.Report, r.isa = meta.Report, meta.ISA
	for _, w := range meta.Warnings {
		r.Report.Warnings = append(r.Report.Warnings, errors.New(w))
	}
	r.Report.Clock.conv, r.Report.Clock.data = meta.Conv, meta.Data
	r.Report.Clock.ownTime, r.Report.Clock.noWall = meta.OwnTime, meta.NoWall
	if r.kallsyms != nil {
		im.names = names{r.kallsyms}
	}
	r.Image = im
	r.savedWindows = windows
	r.services.saved = services
	return nil
}

// headerOf checks the frame of an index: that what its header says is inside.
func headerOf(data []byte) (*indexHeader, error) {
	n := sizeOf[indexHeader]()
	if len(data) < n {
		return nil, indexErrorf("it is %d bytes long", len(data))
	}
	heads, err := cast[indexHeader](data[:n])
	if err != nil {
		return nil, err
	}
	h := &heads[0]
	if string(h.magic[:]) != indexMagic {
		return nil, indexErrorf("it does not begin as one")
	}
	if h.version != indexVersion {
		return nil, indexErrorf("it is of version %d, this is %d", h.version, indexVersion)
	}
	need := uint64(numTables * sizeOf[tableEntry]())
	if h.directory < uint64(n) || h.windows > uint64(len(data)) || h.windows < need || h.directory > h.windows-need || h.directory%tableAlign != 0 {
		return nil, indexErrorf("it is cut off")
	}
	return h, nil
}

// A tableReader finds tables, and keeps the first error.
type tableReader struct {
	data      []byte
	directory []tableEntry
	err       error
}

// table returns the i-th table in place.
func table[T any](t *tableReader, i int) []T {
	e := t.directory[i]
	size, all := uint64(sizeOf[T]()), uint64(len(t.data))
	if t.err == nil && (e.size != size || e.offset > all || e.count > (all-e.offset)/size) {
		t.err = indexErrorf("table %d is not where it should be", i)
	}
	if t.err != nil || e.count == 0 {
		return nil
	}
	out, err := cast[T](t.data[e.offset:][:e.count*size])
	if err != nil {
		t.err = err
	}
	return out
}

// take sets what is no table.
func (im *Image) take(meta *indexMeta, segments []Segment) error {
	im.first, im.horizon, im.textLo, im.textHi = meta.First, meta.Horizon, meta.TextLo, meta.TextHi
	im.pageBase, im.doubles, im.skews = meta.PageBase, meta.Doubles, meta.Report.Skews
	im.cold = versions{meta.Cold[0], meta.Cold[1], meta.Cold[2], meta.Cold[3]}
	if len(segments) != len(meta.Segments) {
		return indexErrorf("the copy of kernel text has %d ranges, it knows %d", len(segments), len(meta.Segments))
	}
	for i := range segments {
		if (Range{segments[i].Addr, segments[i].end()}) != meta.Segments[i] {
			return indexErrorf("the copy of kernel text has other ranges")
		}
	}
	im.segments = segments
	if im.coldText.cold == nil {
		return nil
	}
	if i := meta.ColdSegment; i < 0 || int(i) >= len(segments) || segments[i].Addr > im.pageBase || im.pageBase >= segments[i].end() {
		return indexErrorf("never-poked text lies outside of the copy")
	}
	s := &segments[meta.ColdSegment]
	im.base, im.text = im.pageBase, s.Data[im.pageBase-s.Addr:]
	for n := len(im.coldText.cold); n > 0; n-- {
		if w := im.coldText.cold[n-1]; w != 0 {
			if granule*(8*(n-1)+bits.Len8(w)) > len(im.text) {
				return indexErrorf("never-poked text passes the copy")
			}
			break
		}
	}
	return nil
}

// check looks at all tables but the leaves, of which there can be very many: no
// index or number in them may lead outside.
func (im *Image) check() error {
	bad := func(what string) error { return indexErrorf("a %s leads nowhere", what) }
	switch {
	case !im.goodFragments():
		return bad("fragment")
	case !im.goodConflicts():
		return bad("conflict")
	case !im.goodPages():
		return bad("page")
	}
	return nil
}

func (im *Image) goodFragments() bool {
	// What all never-poked text shares is looked at once.
	if im.cold.count != 0 && !im.goodVersions(&im.cold) || im.cold.count == 0 && im.coldText.cold != nil {
		return false
	}
	end := uint64(0)
	for i := range im.fragments {
		f := &im.fragments[i]
		if f.addr < end || f.size == 0 || f.addr+uint64(f.size)-1 < f.addr || f.seg < -1 || int(f.seg) >= len(im.segments) {
			return false
		}
		end = f.addr + uint64(f.size)
		if f.seg >= 0 {
			if s := &im.segments[f.seg]; f.addr < s.Addr || end > s.end() {
				return false
			}
		}
		if shared := im.cold.count != 0 && f.versions == im.cold; !shared && !im.goodVersions(&f.versions) {
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

func (im *Image) goodVersions(v *versions) bool {
	leaves := uint64(leavesFor(v.count))
	if v.count == 0 || v.count > math.MaxUint32-leafSize || uint64(v.leaf)+leaves > uint64(len(im.leaves)) || v.states >= uint32(len(im.states)) {
		return false
	}
	if n := im.statesOf(v); n == 0 || uint64(v.states)+uint64(n) > uint64(len(im.states)) {
		return false
	}
	if leaves <= sideBySide {
		return true
	}
	nodes := uint64(v.node)
	sizes, top := levels(v.count)
	for _, n := range sizes[:top+1] {
		nodes += uint64(n)
	}
	return nodes <= uint64(len(im.nodes))
}

// goodState looks at a state of the i-th fragment, f.
func (im *Image) goodState(s *state, f *fragment, i uint32) bool {
	switch {
	case s.standing > Known || int(s.reason) >= len(reasons) || int(s.source) >= len(sourceNames):
		return false
	case s.standing == Conflicting || s.standing == InFlight:
		return s.content < uint32(len(im.conflicts)) && im.conflicts[s.content].fragment == i
	case s.content == snapshotContent:
		return f.seg >= 0
	}
	return s.content == noContent || uint64(s.content)+uint64(f.size) <= uint64(len(im.arena))
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
			if x.content < snapshotContent && uint64(x.content)+uint64(c.size) > uint64(len(im.arena)) ||
				x.content == snapshotContent && im.fragments[c.fragment].seg < 0 || int(x.source) >= len(sourceNames) {
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

func (im *Image) takeLives(saved []savedLife, names []byte) error {
	lives := make([]life, len(saved))
	list := make([]*life, len(saved))
	for i := range saved {
		s := &saved[i]
		if uint64(s.name)+uint64(s.nameLen) > uint64(len(names)) || s.kind > lifeOutOfLine || int(s.ended) >= len(reasons) {
			return indexErrorf("a symbol leads nowhere")
		}
		lives[i] = life{lo: s.lo, hi: s.hi, from: s.from, to: s.to, kind: s.kind, ended: s.ended, program: s.program,
			name: string(names[s.name:][:s.nameLen])}
		list[i] = &lives[i]
	}
	im.indexLives(list)
	return nil
}

// indexedWindows are the windows of an index. The checksum of each block of them is
// looked at when it is first met.
type indexedWindows struct {
	pokes   []placed
	sums    []uint32 // CRC-32 of each block
	good    []atomic.Bool
	damaged atomic.Bool
	again   func() *Windows // from the recording
}

// windowBlock is how many pokes have a checksum of their own.
const windowBlock = 1 << 10

// windowSums returns the checksums of the blocks.
func windowSums(pokes []placed) (sums []uint32) {
	for block := range slices.Chunk(pokes, windowBlock) {
		sums = append(sums, crc32.ChecksumIEEE(raw(block)))
	}
	return sums
}

// check looks at the block that the i-th poke is in.
func (x *indexedWindows) check(i int) {
	b := i / windowBlock
	if x.good[b].Load() {
		return
	}
	block := x.pokes[b*windowBlock : min((b+1)*windowBlock, len(x.pokes))]
	if crc32.ChecksumIEEE(raw(block)) != x.sums[b] {
		x.damaged.Store(true)
		return
	}
	x.good[b].Store(true)
}

// windowsOfIndex returns the windows that the index has, nil where it has none.
func (r *Replay) windowsOfIndex() *Windows {
	if r.savedWindows == nil {
		return nil
	}
	x := &indexedWindows{pokes: r.savedWindows.pokes, sums: r.savedWindows.sums,
		good: make([]atomic.Bool, len(r.savedWindows.sums))}
	x.again = sync.OnceValue(func() *Windows {
		w := r.findWindows()
		w.skew = r.Report.ClockUncertainty
		return w
	})
	return &Windows{pokes: x.pokes, stretches: r.savedWindows.stretches, indexed: x}
}

// savedWindows are what windowsOfIndex makes windows of.
type savedWindows struct {
	pokes     []placed
	sums      []uint32
	stretches []stretch
}

// readWindows finds the windows in an index, nil where it has none.
func readWindows(meta *indexMeta, data []byte, sums []uint32) (*savedWindows, error) {
	if !meta.Windows {
		return nil, nil
	}
	pokes, err := cast[placed](data)
	if err != nil {
		return nil, err
	}
	if len(sums) != (len(pokes)+windowBlock-1)/windowBlock {
		return nil, indexErrorf("its windows are cut off")
	}
	w := &savedWindows{pokes: pokes, sums: sums}
	from := 0
	for _, s := range meta.Stretches {
		if s[0] < 0 || s[1] <= s[0] || s[1] > len(pokes) || s[2] != from {
			return nil, indexErrorf("its windows are in no order")
		}
		w.stretches = append(w.stretches, stretch{s[0], s[1], s[2]})
		from += s[1] - s[0]
	}
	if from != len(pokes) {
		return nil, indexErrorf("its windows are in no order")
	}
	return w, nil
}

// IndexState tells of a replay's saved index, see [Options.Index].
type IndexState struct {
	Used  bool // the image was taken from it
	Saved bool // it was written
	// Err says why an index that was there was not used, and could not be written.
	Err error
}

// Index tells what became of [Options.Index].
func (r *Replay) Index() IndexState { return r.index }

// openIndex takes the image from the index that the options name, and reports
// whether it could.
func (r *Replay) openIndex(opts *Options) bool {
	switch {
	case opts.Index == "":
		return false
	case !canMapTables:
		r.index.Err = indexErrorf("this machine's byte order is not the one of indexes")
		return false
	case len(opts.Copies) > 0 || opts.Vmlinux != "":
		r.index.Err = indexErrorf("it is of perf's own copy of kernel text alone")
		return false
	}
	if r.stamp, r.index.Err = stampOf(r.Recording, opts); r.index.Err != nil {
		return false
	}
	r.saveTo = opts.Index
	err := r.loadIndex(opts.Index)
	if r.index.Used = err == nil; !r.index.Used && !errors.Is(err, fs.ErrNotExist) {
		r.index.Err = err
	}
	return r.index.Used
}

// loadIndex opens an index file, and makes of it what it was written from.
func (r *Replay) loadIndex(path string) error {
	data, unmap, err := mapFile(path)
	if err != nil {
		return err
	}
	if err := r.readIndex(data, r.stamp); err != nil {
		return errors.Join(err, unmap())
	}
	r.unmapIndex = unmap
	return nil
}

// savedServices are services in an index.
type savedServices struct {
	Pieces []Service
	Uses   map[int][][3]uint64 // by the number of the life
}

// savedServices finds the services, if nobody has, so that those who open the
// index need not read the recording for them.
func (r *Replay) savedServices() (s savedServices) {
	if r.Report.Arch != "x86_64" {
		return s
	}
	r.services.once.Do(func() { r.services.find(r) })
	s.Pieces, s.Uses = r.services.pieces, make(map[int][][3]uint64)
	for i, l := range r.Image.lives {
		for _, u := range r.services.uses[l] {
			s.Uses[i] = append(s.Uses[i], [3]uint64{u.site, u.from, u.to})
		}
	}
	return s
}

// take takes the services from the index that r is of, and reports whether it
// could.
func (x *services) take(r *Replay) bool {
	var s savedServices
	if len(x.saved) == 0 || json.Unmarshal(x.saved, &s) != nil {
		return false
	}
	uses := make(map[*life][]use)
	for i, list := range s.Uses {
		if i < 0 || i >= len(r.Image.lives) {
			return false
		}
		for _, u := range list {
			uses[r.Image.lives[i]] = append(uses[r.Image.lives[i]], use{u[0], u[1], u[2]})
		}
	}
	x.pieces, x.uses = s.Pieces, uses
	x.indexPieces()
	return true
}

// saveIndex writes the index, or leaves the file that was there.
func (r *Replay) saveIndex() {
	f, err := os.CreateTemp(filepath.Dir(r.saveTo), filepath.Base(r.saveTo)+".*")
	if err == nil {
		err = errors.Join(r.writeIndex(f, r.stamp), f.Chmod(0o644), f.Close())
		if err == nil {
			err = os.Rename(f.Name(), r.saveTo)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}
	r.index.Saved, r.index.Err = err == nil, err
}

// segments returns the snapshot's segments as an image has them.
func (r *Replay) segments() (out []Segment) {
	if r.Snapshot != nil && r.Snapshot.Core != nil {
		for _, s := range r.Snapshot.Core.Segments {
			out = append(out, Segment(s))
		}
	}
	return out
}
