// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/textreplay/textreplay/internal/fields"
	"github.com/textreplay/textreplay/internal/indexversion"
	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// An index is an image in a file. It holds the tables as they are in memory, so opening
// an index takes little more than mapping the file.
//
//	header     magic, version, places of what follows, checksum of all between the
//	           sections and the windows, stamp of what the image was made of
//	sections   each at a multiple of 64 bytes: the tables of the image, the report
//	           and all else that is not a table (internal/fields), kallsyms
//	sums       a checksum for each block of the sections
//	directory  for each section its place, its length, and the size of an element
//	windows    the in-place pokes, in blocks with a checksum each
//
// A block is compared with its checksum before anything in it is read. A program that asks
// about one place ([Options.Only]) reads few of them.
//
// An index is only read on a machine of the same byte order and table layout, and
// only if its stamp fits the recording. In all other cases the image is built anew.

// IndexVersion is the version of the index format. It changes with the meaning of
// anything in an index, also with the rules by which images are made. An index of
// another version is not used.
const IndexVersion = indexversion.Number

const indexMagic = "textreplay index"

// ErrIndex is wrapped by the errors of an index that cannot be used: it is of
// another version or of another recording, or it is damaged.
var ErrIndex = errors.New("replay: the saved index cannot be used")

// indexErrorf returns an error that wraps ErrIndex.
func indexErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrIndex, fmt.Sprintf(format, args...))
}

// An indexHeader is the start of an index. Checksums are CRC-32 as of IEEE 802.3: on
// processors with carry-less multiplication it takes half as long as Castagnoli's.
type indexHeader struct {
	Magic     [16]byte
	Version   uint32
	Checksum  uint32 // of the file from Sums to Windows
	Directory uint64 // its offset; it ends at Windows
	Windows   uint64 // offset of the windows, which are the rest of the file
	Stamp     [sha256.Size]byte
	Sections  uint32 // number of entries in the directory
	_         [4]byte
	Sums      uint64 // offset of the checksums of the blocks from the end of the header to here
	_         [40]byte
}

// headerSize is the size of an indexHeader in the file, in bytes.
const headerSize = 128

// A sectionEntry is an entry of the directory: offset and length in bytes, and
// the size of an element.
type sectionEntry struct{ Offset, Len, Size uint64 }

// The sections of the directory: the tables of the image, then these.
const (
	sectionMeta        = iota // an indexMeta
	sectionTrampolines        // savedTrampolines
	sectionWindows            // checksums
	sectionIdle               // moments that bound windows
	sectionSymbols            // of kallsyms
	sectionNames              // of the symbols
	sectionByName             // where the symbols of a name are
	numSections
)

const tableAlign = 64

// indexMeta is the part of a replay that is not in tables.
type indexMeta struct {
	Image timeline.EncodedMeta
	ISA   elf.Machine

	Report   *Report
	Warnings []string
	Conv     *perfdata.TimeConv
	Data     *perfdata.ClockData
	OwnTime  bool
	NoWall   string

	Stretches [][3]int // of the windows
	Slow      uint64   // of the windows
	Windows   bool     // the file has windows

	Kallsyms *kcore.EncodedKallsyms // nil: the file has no names
	Tables   []int                  // the copies with the other tables of names: see tablesOf
}

// writeIndex writes an index of r to w.
func (r *Replay) writeIndex(w io.Writer, stamp [sha256.Size]byte) error {
	image := r.Image.Encode()
	meta := indexMeta{
		Image: image.Meta, ISA: r.arch.machine,
		Conv: r.Report.Clock.conv, Data: r.Report.Clock.data, OwnTime: r.Report.Clock.ownTime, NoWall: r.Report.Clock.noWall,
		Tables: r.copiesOf(r.Image.SavedTables()[1:]),
	}
	report := *r.Report
	report.Warnings = nil
	meta.Report = &report
	for _, w := range r.Report.Warnings {
		meta.Warnings = append(meta.Warnings, w.Error())
	}
	var windows timeline.EncodedWindows
	if r.windows != nil {
		windows, meta.Windows = r.windows.Encode()
		meta.Stretches, meta.Slow = windows.Stretches, windows.Slow
	}
	var symbols kcore.EncodedKallsyms
	if r.kallsyms != nil {
		if meta.Kallsyms = r.kallsyms.Encode(); meta.Kallsyms != nil {
			symbols = *meta.Kallsyms
			meta.Kallsyms = &kcore.EncodedKallsyms{Modules: symbols.Modules, Text: symbols.Text, Size: symbols.Size} // its tables are sections
		}
	}

	trampolines := r.savedTrampolines()
	sections := append(image.Tables, []timeline.EncodedTable{
		sectionMeta:        {Data: fields.Append(nil, &meta), Size: 1},
		sectionTrampolines: {Data: fields.Append(nil, &trampolines), Size: 1},
		sectionWindows:     {Data: windows.Sums, Size: 1},
		sectionIdle:        {Data: windows.Idle, Size: 1},
		sectionSymbols:     {Data: symbols.Symbols, Size: 1},
		sectionNames:       {Data: symbols.Names, Size: 1},
		sectionByName:      {Data: symbols.ByName, Size: 1},
	}...)
	head := indexHeader{Version: IndexVersion, Sections: uint32(len(sections)), Stamp: stamp}
	copy(head.Magic[:], indexMagic)
	at := uint64(headerSize)
	directory := make([]sectionEntry, len(sections))
	var pad [tableAlign]byte
	var parts [][]byte
	add := func(data []byte) {
		parts = append(parts, data, pad[:-(at+uint64(len(data)))%tableAlign])
		at += uint64(len(data)) + uint64(len(parts[len(parts)-1]))
	}
	for i := range sections {
		t := &sections[i]
		directory[i] = sectionEntry{at, uint64(len(t.Data)), uint64(t.Size)}
		add(t.Data)
	}
	head.Sums = at
	body := len(parts)
	add(encoded(sumsOf(parts)))
	head.Directory = at
	add(encoded(directory))
	head.Windows = at
	for _, p := range parts[body:] {
		head.Checksum = crc32.Update(head.Checksum, crc32.IEEETable, p)
	}
	parts = append(parts, windows.Pokes)

	if _, err := w.Write(encoded(&head)); err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// encoded returns a value of fixed size in the encoding of the index.
func encoded(v any) []byte {
	out, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err) // its type has no fixed size
	}
	return out
}

// readIndex sets the fields of r from data, an index in memory. r has its snapshot and
// names already. r keeps data. Errors wrap ErrIndex.
func (r *Replay) readIndex(data []byte, stamp [sha256.Size]byte, opts *Options) error {
	head, err := headerOf(data)
	if err != nil {
		return err
	}
	if head.Stamp != stamp {
		return indexErrorf("it is of another recording, or of the same before it changed")
	}
	if crc32.ChecksumIEEE(data[head.Sums:head.Windows]) != head.Checksum {
		return indexErrorf("its checksum is wrong")
	}
	sections, err := sectionsOf(data, head)
	if err != nil {
		return err
	}
	tables, own := sections[:len(sections)-numSections], sections[len(sections)-numSections:]
	for i := range own[:sectionSymbols] {
		if err := own[i].good(); err != nil {
			return err
		}
	}
	var meta indexMeta
	if err := fields.Read(own[sectionMeta].Data, &meta); err != nil || meta.Report == nil {
		return indexErrorf("its report cannot be read: %v", err)
	}
	if why := meta.Report.Misfit; why != "" && r.Snapshot != nil {
		r.leaveOut(errors.New(why), *opts)
	}
	r.useNames(meta.Kallsyms, own[sectionSymbols:])
	im, err := r.readImage(tables, &meta, opts)
	if err != nil {
		return err
	}
	var windows *timeline.EncodedWindows
	if meta.Windows {
		windows = &timeline.EncodedWindows{Pokes: data[head.Windows:], Sums: own[sectionWindows].Data, Idle: own[sectionIdle].Data, Stretches: meta.Stretches, Slow: meta.Slow}
		if _, err := timeline.DecodeWindows(*windows, nil); err != nil {
			return fmt.Errorf("%w: %w", ErrIndex, err)
		}
	}

	r.Report, r.arch = meta.Report, architecture{meta.Report.Arch, meta.ISA}
	for _, w := range meta.Warnings {
		r.Report.Warnings = append(r.Report.Warnings, errors.New(w))
	}
	r.Report.Clock.conv, r.Report.Clock.data = meta.Conv, meta.Data
	r.Report.Clock.ownTime, r.Report.Clock.noWall = meta.OwnTime, meta.NoWall
	r.Image = im
	r.savedWindows = windows
	r.trampolines.saved = own[sectionTrampolines].Data
	return nil
}

// useNames lets kallsyms use the names in an index, in the sections of its tables. Each part of them
// is compared with its checksum before it is looked at. If that fails, kallsyms is read.
func (r *Replay) useNames(e *kcore.EncodedKallsyms, tables []section) {
	if r.kallsyms == nil || e == nil {
		return
	}
	e.Symbols, e.Names, e.ByName = tables[kcore.SavedSymbols].Data, tables[kcore.SavedNames].Data, tables[kcore.SavedByName].Data
	r.releaseNames = r.kallsyms.Use(e, func(t kcore.SavedTable, from, to int) bool { return tables[t].check(from, to) == nil })
}

// copiesOf returns the places in r.copies of those whose kallsyms the tables are.
func (r *Replay) copiesOf(tables []timeline.Names) (copies []int) {
	for _, t := range tables {
		copies = append(copies, slices.IndexFunc(r.copies, func(c openCopy) bool { return t == names{c.Kallsyms, true} }))
	}
	return copies
}

// tablesOf returns the tables of names of an image: kallsyms, which may be nil, and that of each of
// the copies. The stamp says that they are the copies that the index was made with.
func (r *Replay) tablesOf(copies []int) ([]timeline.Names, error) {
	tables := []timeline.Names{nil}
	if r.kallsyms != nil {
		tables[0] = Names(r.kallsyms)
	}
	for _, i := range copies {
		if i < 0 || i >= len(r.copies) || r.copies[i].Kallsyms == nil {
			return nil, indexErrorf("a copy that it has names of is missing")
		}
		tables = append(tables, names{r.copies[i].Kallsyms, true})
	}
	return tables, nil
}

// readImage makes an image of the tables in an index. If opts.Only restricts it, only what it
// needs is read. Errors wrap ErrIndex.
func (r *Replay) readImage(sections []section, meta *indexMeta, opts *Options) (*timeline.Image, error) {
	e := timeline.Encoded{Meta: meta.Image}
	for i := range sections {
		e.Tables = append(e.Tables, sections[i].EncodedTable)
	}
	tables, err := r.tablesOf(meta.Tables)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*timeline.Image, error) {
		if !errors.Is(err, ErrIndex) {
			err = fmt.Errorf("%w: %w", ErrIndex, err)
		}
		return nil, err
	}
	if opts.Only != nil {
		if only := opts.Only(r.kallsyms); only != nil {
			im, err := timeline.DecodePart(e, r.segments(), tables, only, func(i, from, to int) error { return sections[i].check(from, to) })
			if err == nil {
				return im, nil
			}
			if !errors.Is(err, timeline.ErrWhole) {
				return fail(err)
			}
		}
	}
	for i := range sections {
		if err := sections[i].good(); err != nil {
			return nil, err
		}
	}
	im, err := timeline.DecodeImage(e, r.segments(), tables)
	if err != nil {
		return fail(err)
	}
	return im, nil
}

// headerOf returns the header of an index and checks that its offsets are inside data.
func headerOf(data []byte) (*indexHeader, error) {
	if len(data) < headerSize {
		return nil, indexErrorf("it is %d bytes long", len(data))
	}
	var h indexHeader
	if _, err := binary.Decode(data, binary.LittleEndian, &h); err != nil {
		return nil, indexErrorf("its header cannot be read: %v", err)
	}
	if string(h.Magic[:]) != indexMagic {
		return nil, indexErrorf("it does not begin with the magic bytes of an index")
	}
	if h.Version != IndexVersion {
		return nil, indexErrorf("it is of version %d, this is %d", h.Version, IndexVersion)
	}
	need := uint64(h.Sections) * uint64(binary.Size(sectionEntry{}))
	if h.Sections < numSections || h.Sums < headerSize || h.Sums > h.Directory || h.Windows > uint64(len(data)) || h.Windows < need ||
		h.Directory > h.Windows-need || h.Directory%tableAlign != 0 || (h.Directory-h.Sums)/4 < (h.Sums-headerSize+sumBlock-1)/sumBlock {
		return nil, indexErrorf("it is cut off")
	}
	return &h, nil
}

// sectionsOf returns the sections in the directory. They share data's memory.
func sectionsOf(data []byte, h *indexHeader) ([]section, error) {
	directory := make([]sectionEntry, h.Sections)
	if _, err := binary.Decode(data[h.Directory:h.Windows], binary.LittleEndian, directory); err != nil {
		return nil, indexErrorf("its directory cannot be read: %v", err)
	}
	n := (int(h.Sums) - headerSize + sumBlock - 1) / sumBlock
	body := &indexBody{data: data[headerSize:h.Sums], sums: make([]uint32, n), good: make([]atomic.Bool, n)}
	if _, err := binary.Decode(data[h.Sums:h.Directory], binary.LittleEndian, body.sums); err != nil {
		return nil, indexErrorf("its checksums cannot be read: %v", err)
	}
	out := make([]section, len(directory))
	for i, e := range directory {
		if e.Offset < headerSize || e.Offset > h.Sums || e.Len > h.Sums-e.Offset || e.Offset%tableAlign != 0 || e.Size == 0 || e.Size > e.Len && e.Len > 0 || e.Len%e.Size != 0 {
			return nil, indexErrorf("section %d is not where it should be", i)
		}
		out[i] = section{timeline.EncodedTable{Data: data[e.Offset:][:e.Len], Size: int(e.Size)}, int(e.Offset) - headerSize, body}
	}
	return out, nil
}

// windowsOfIndex returns the windows in the index, or nil if it has none.
func (r *Replay) windowsOfIndex() *timeline.Windows {
	if r.savedWindows == nil {
		return nil
	}
	w, err := timeline.DecodeWindows(*r.savedWindows, func() *timeline.Windows {
		w := r.findWindows()
		w.Widen(r.Report.ClockUncertainty)
		return w
	})
	if err != nil {
		return nil
	}
	return w
}

// IndexState describes what Load did with a saved index, see [Options.Index].
type IndexState struct {
	Used  bool // the image is from the index
	Saved bool // Load wrote the index
	// Path is Options.Index. Bytes is the size of the index that was saved.
	Path  string
	Bytes int64
	// Err is why Load did not use the index that was there, or could not write it.
	Err error
}

// Index returns what Load did with [Options.Index].
func (r *Replay) Index() IndexState { return r.index }

// givenCopies returns how many copies of text there are that the recording did not name
// itself.
func (r *Replay) givenCopies() (n int) {
	for i := range r.copies {
		if c := &r.copies[i]; !c.journaled {
			n++
		}
	}
	return n
}

// openIndex reads the image from the index in opts, and reports whether it
// could.
func (r *Replay) openIndex(opts *Options) bool {
	if opts.Index == "" {
		return false
	}
	r.index.Path = opts.Index
	switch {
	case !timeline.CanMapTables:
		r.index.Err = indexErrorf("this machine's byte order is not the one of indexes")
		return false
	case r.givenCopies() > 0 && r.misfit == nil || r.givenCopies() > 1 || opts.Vmlinux != "":
		r.index.Err = indexErrorf("an index can hold only perf's own copy of kernel text")
		return false
	}
	err := r.loadIndex(opts)
	if r.index.Used = err == nil; !r.index.Used && !errors.Is(err, fs.ErrNotExist) {
		r.index.Err = err
	}
	if r.saves = !r.index.Used && opts.SaveIndex; r.saves {
		r.settle()
		if r.stamp, err = r.stampOf(opts); err != nil {
			r.saves, r.index.Err = false, err
		}
	}
	return r.index.Used
}

// loadIndex opens an index file and sets the fields of r from it.
func (r *Replay) loadIndex(opts *Options) error {
	f, err := mapfile.OpenRegular(opts.Index)
	if errors.Is(err, mapfile.ErrNotRegular) {
		return indexErrorf("%v", err)
	}
	if err != nil {
		return err
	}
	if err = outfile.Owned(f.Info()); err != nil {
		err = indexErrorf("%v", err)
	} else if r.stamp, err = r.stampOf(opts); err == nil {
		err = Guard(func() error { return r.readIndex(f.Data, r.stamp, opts) })
	}
	if err != nil {
		r.releaseIndex()
		return errors.Join(err, f.Close())
	}
	r.indexFile = f
	return nil
}

// releaseIndex ends the use of the index's memory by kallsyms, which stays usable.
func (r *Replay) releaseIndex() {
	if r.releaseNames != nil {
		r.releaseNames()
		r.releaseNames = nil
	}
}

// badTrampoline reports whether a saved trampoline is impossible.
func badTrampoline(s Trampoline) bool {
	return int(s.Kind) >= len(trampolineKinds) || s.Len == 0 || len(s.Places) == 0 && s.Func == 0
}

// saveIndex writes the index. If that fails, the old file stays.
func (r *Replay) saveIndex(opts *Options) {
	r.index.Bytes, r.index.Err = r.writeIndexFile(opts)
	r.index.Saved = r.index.Err == nil
}

// writeIndexFile writes the index to its file, and returns its size in bytes.
func (r *Replay) writeIndexFile(opts *Options) (size int64, err error) {
	if err := CheckIndexFile(opts.Index); err != nil {
		return 0, err
	}
	if opts.MakeIndexDir {
		if err := os.MkdirAll(filepath.Dir(opts.Index), 0o700); err != nil {
			return 0, err
		}
	}
	out := outfile.Outputs{Unsynced: true, Private: true}
	for _, name := range r.files {
		out.Reads(name)
	}
	err = out.WriteFile(opts.Index, func(w io.Writer) error {
		c := &counter{w: w}
		if err := r.writeIndex(c, r.stamp); err != nil {
			return err
		}
		size = c.n
		return r.unchanged()
	})
	return size, err
}

// A counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// A NotIndexError is returned if the index would overwrite a file that is not an
// index.
type NotIndexError struct{ Path string }

func (e *NotIndexError) Error() string {
	return e.Path + " exists and is not an index; it is not overwritten"
}

// CheckIndexFile returns nil if there is nothing at path, or an index of any recording
// or version, damaged or not. If there is another file, the error is a *[NotIndexError].
// Other errors are those of opening and reading the file.
func CheckIndexFile(path string) error {
	f, _, err := mapfile.Regular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, mapfile.ErrNotRegular):
		return &NotIndexError{path}
	case err != nil:
		return err
	}
	defer f.Close()
	var magic [len(indexMagic)]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(magic[:]) != indexMagic {
		return &NotIndexError{path}
	}
	return nil
}

// savedTrampolines are the trampolines in an index.
type savedTrampolines struct {
	Pieces []Trampoline
	Uses   map[int][][3]uint64 // by the number of the lifetime
}

// savedTrampolines returns the trampolines for the index. Without them, a program that
// opens the index would have to read the recording.
func (r *Replay) savedTrampolines() (s savedTrampolines) {
	if !r.arch.readsTrampolines() {
		return s
	}
	r.trampolines.once.Do(func() { r.trampolines.find(r) })
	s.Pieces, s.Uses = r.trampolines.pieces, make(map[int][][3]uint64)
	i := 0
	for l := range r.Image.Lifetimes {
		for _, u := range r.trampolines.uses[l] {
			s.Uses[i] = append(s.Uses[i], [3]uint64{u.site, u.from, u.to})
		}
		i++
	}
	return s
}

// take reads the trampolines from the index of r, and reports whether it could.
func (x *trampolines) take(r *Replay) bool {
	var s savedTrampolines
	if len(x.saved) == 0 || fields.Read(x.saved, &s) != nil || slices.ContainsFunc(s.Pieces, badTrampoline) {
		return false
	}
	uses := make(map[*timeline.Lifetime][]use)
	lives := slices.Collect(r.Image.Lifetimes)
	for i, list := range s.Uses {
		if i < 0 || i >= len(lives) {
			return false
		}
		for _, u := range list {
			uses[lives[i]] = append(uses[lives[i]], use{u[0], u[1], u[2]})
		}
	}
	x.pieces, x.uses = s.Pieces, uses
	x.indexPieces()
	return true
}

// segments returns the snapshot's segments in the form that an image uses.
func (r *Replay) segments() (out []timeline.Segment) {
	if r.Snapshot != nil && r.Snapshot.Core != nil {
		for _, s := range r.Snapshot.Core.Segments {
			out = append(out, timeline.Segment(s))
		}
	}
	return out
}
