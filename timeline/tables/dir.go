// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/s2"
	kzstd "github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/internal/pathname"
)

// A Dir is a directory of tables. It only grows:
//
//	recordings/date=2026-11-20/build_id=BUILD/RECORDING.parquet and changes, gaps, programs
//	symbols/build_id=BUILD/RECORDING.parquet                    names that came and went
//	symbols/build_id=BUILD/NAMES.parquet                        the kernel's own, once
//	pages/build_id=BUILD/SET.parquet                            which pages a copy has, once
//	text/build_id=BUILD/PAGES.parquet                           pages that no file had before
//	shipped/build_id=BUILD/SET.parquet                          pages of vmlinux files
//	manifest/RECORDING.json                                     written last
//	version.json                                                written first
//
// Every name is derived from the content of the recording, and a file appears only when it is
// complete. So a program that was killed at any moment writes only the missing files when it
// runs again. A Dir is safe for concurrent use.
//
// If a recording cannot be added, because of an error, Close removes its files again: those that only
// it has, and a new directory to which nothing else was added.
type Dir struct {
	path string

	beginMu sync.Mutex
	begun   bool               // begin has succeeded
	leave   func(alone func()) // called by Close; nil before begin

	newMu sync.Mutex
	// newFiles are the files of a directory that this program made, by path, until a recording
	// or a text was added. It is nil afterwards, and for other directories.
	newFiles map[string]bool
	// failed are the files that this program made for recordings that could not be added, by the
	// recording. Pages and names are not among them: other recordings may need these.
	failed map[string][]string

	mu   sync.Mutex             // held while pages are written
	text map[string]*storedText // by directory
	last *storedText            // the one that was last used: only this one keeps the content of pages
}

// Open returns the directory at path, which need not exist.
func Open(path string) *Dir {
	return &Dir{path: pathname.Plain(path), text: make(map[string]*storedText)}
}

// Close says that this program adds nothing more. It must be called after all other calls have
// returned.
func (d *Dir) Close() {
	if d.leave != nil {
		d.leave(d.withdraw)
	}
}

// withdraw removes the files of recordings that could not be added, and all files of a new directory
// to which nothing was added. No other program writes into the directory meanwhile.
func (d *Dir) withdraw() {
	d.newMu.Lock()
	defer d.newMu.Unlock()
	for id, files := range d.failed {
		if _, err := os.Stat(d.manifestPath(id)); !errors.Is(err, fs.ErrNotExist) {
			continue // it was added all the same, by another try
		}
		for _, path := range slices.Backward(files) {
			os.Remove(path)
			delete(d.newFiles, path)
		}
	}
	d.withdrawNew()
}

// withdrawNew removes the files of a new directory to which nothing was added. If another program has
// written any, all stay.
func (d *Dir) withdrawNew() {
	if len(d.newFiles) == 0 {
		return
	}
	root, err := filepath.EvalSymlinks(d.path) // WalkDir does not follow the directory itself
	if err != nil {
		return
	}
	if err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil && !d.newFiles[filepath.Join(d.path, name)] {
			err = fs.ErrExist
		}
		return err
	}); err != nil {
		return
	}
	begin := filepath.Join(d.path, versionFile)
	for path := range d.newFiles {
		if path != begin {
			os.Remove(path)
		}
	}
	os.Remove(begin) // it was the first, so it is the last
}

// hasFailed notes that a recording could not be added. files are those that were written for it.
func (d *Dir) hasFailed(id string, files []string) {
	d.newMu.Lock()
	defer d.newMu.Unlock()
	if d.failed == nil {
		d.failed = make(map[string][]string)
	}
	d.failed[id] = append(d.failed[id], files...)
}

// isNew notes that a file was written.
func (d *Dir) isNew(path string) {
	d.newMu.Lock()
	defer d.newMu.Unlock()
	if d.newFiles != nil {
		d.newFiles[path] = true
	}
}

// A VersionError means that a directory has tables of another version.
type VersionError struct {
	Dir  string
	Have int // the version of its tables
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has tables of version %d, and this program writes version %d: export into a new directory", e.Dir, e.Have, Version)
}

// versionFile is the first file of a directory. It has the version of its tables.
const versionFile = "version.json"

// begin makes the directory, cleans up after programs that were killed, and checks the version
// of the tables. It does so once, unless that fails: the caller may try again when the cause is gone.
func (d *Dir) begin(out *outfile.Outputs) error {
	d.beginMu.Lock()
	defer d.beginMu.Unlock()
	if d.begun {
		return nil
	}
	err := d.doBegin(out)
	d.begun = err == nil
	return err
}

func (d *Dir) doBegin(out *outfile.Outputs) (err error) {
	for try := 0; d.leave == nil; try++ {
		if err := out.MkdirAll(d.path); err != nil {
			return err
		}
		d.leave, err = outfile.Enter(d.path)
		if err != nil && (try == 100 || !errors.Is(err, fs.ErrNotExist)) { // else the program that made it removed it
			return err
		}
	}
	var has struct {
		Version int `json:"version"`
	}
	path := filepath.Join(d.path, versionFile)
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &has); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		if _, err := os.Stat(filepath.Join(d.path, manifestDir)); err == nil {
			has.Version = 1 // it had no such file
			break
		}
		d.newFiles = make(map[string]bool)
		if err := out.WriteFile(path, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "{\"version\":%d}\n", Version)
			return err
		}); err != nil {
			return err
		}
		d.isNew(path)
		return nil
	}
	if has.Version != Version {
		return &VersionError{d.path, has.Version}
	}
	return nil
}

// unknownPartition is how Hive writes a partition whose value is null.
const unknownPartition = "__HIVE_DEFAULT_PARTITION__"

// partition returns the directory of a table's partition, relative to the tables. An empty date
// or build is unknown. A date of "-" means that the table has no partitions by date.
func partition(table, date, build string) string {
	known := func(s string) string {
		if s == "" {
			return unknownPartition
		}
		return s
	}
	dir := table
	if date != "-" {
		dir = filepath.Join(dir, "date="+known(date))
	}
	return filepath.Join(dir, "build_id="+known(build))
}

// A Manifest lists the files with the tables of a recording. It is written after them.
type Manifest struct {
	Recording string         `json:"recording"` // see ID
	Version   int            `json:"version"`   // of the tables
	Rules     int            `json:"rules"`     // the index version: the rules by which the answers were derived
	Host      string         `json:"host"`
	BuildID   string         `json:"build_id"`
	Date      string         `json:"date"`
	Files     []ManifestFile `json:"files"`
}

// A ManifestFile is a file of tables.
type ManifestFile struct {
	Path   string `json:"path"` // in the directory
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	Shared bool   `json:"shared"` // other recordings may need it too
}

// manifestDir has the manifests.
const manifestDir = "manifest"

func (d *Dir) manifestPath(id string) string {
	return filepath.Join(d.path, manifestDir, id+".json")
}

// begunPath returns the name of the empty file that is there while a recording is added.
func (d *Dir) begunPath(id string) string {
	return filepath.Join(d.path, manifestDir, id+".begun")
}

// Has returns the manifest of a recording, nil if the recording was not exported. The error is
// that of the file, or a [*VersionError].
func (d *Dir) Has(id string) (*Manifest, error) {
	text, err := os.ReadFile(d.manifestPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", d.manifestPath(id), err)
	}
	if m.Version != Version {
		return nil, &VersionError{d.path, m.Version}
	}
	os.Remove(d.begunPath(id)) // of a program that was killed when it had written the manifest
	return &m, nil
}

// MayHave reports whether a recording with these files may have been exported, without reading them:
// something was exported after they were last written. It is a guess: a copy of a file may be newer
// than the export.
func (d *Dir) MayHave(files []string) bool {
	dir, err := os.Stat(filepath.Join(d.path, manifestDir))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(dir.ModTime()) {
			return false
		}
	}
	return true
}

// ID returns the key of a recording in the tables, 32 hex digits: a hash of the content of its
// files, in this order. guest is the virtual machine that is exported, 0 for the host. The names
// of several files are part of the hash, from the directory on that has all of them: a kcore_dir of another
// name is none. The name of a single file is not: the file may be standard input. A file that does not exist
// counts as one that the recording does not have.
//
// The hash is XXH64 with two seeds, which takes a third of the time of SHA-256. Two recordings do not have
// the same one by chance. It does not withstand who wants it: who writes recordings can make two that have
// the same name, and only the first gets into the tables. Pages of text, which other machines' recordings refer
// to, have SHA-256.
func ID(files []string, guest int) (string, error) {
	return IDAndFiles(files, nil, guest, make(map[string]fs.FileInfo))
}

// IDAndFiles is [ID] of a recording that also has files beside it, see [replay.FilesBeside]. It notes in read
// what Stat said of each file that it opened, by its name. [replay.Replay.CheckSame] compares them with those
// of which an image is.
func IDAndFiles(files, beside []string, guest int, read map[string]fs.FileInfo) (string, error) {
	h := newRecordingHash()
	fmt.Fprintf(h, "tables of guest %d\n", guest)
	root := directoryOf(files)
	for i, path := range slices.Concat(files, beside) {
		name := ""
		switch {
		case i >= len(files):
			name = filepath.Base(path)
		case len(files) > 1:
			name = nameIn(root, path)
		}
		info, err := hashFile(h, path, name)
		if err != nil {
			return "", err
		}
		if info != nil {
			read[path] = info
		}
	}
	return hex.EncodeToString(h.sum()), nil
}

// directoryOf returns the directory that has all files, or has their directories. It is "" if there is none.
func directoryOf(files []string) (dir string) {
	for i, path := range files {
		for above := filepath.Dir(path); ; above = filepath.Dir(above) {
			if i == 0 || strings.HasPrefix(dir+string(filepath.Separator), above+string(filepath.Separator)) {
				dir = above
				break
			}
			if above == filepath.Dir(above) {
				return ""
			}
		}
	}
	return dir
}

// nameIn returns the name of a file of the recording in a directory. In the directories that every recorder
// makes, it is the base name.
func nameIn(recording, path string) string {
	name, err := filepath.Rel(recording, path)
	if err != nil || recording == "" {
		return filepath.Base(path)
	}
	dir, base := filepath.Split(name)
	if dir = filepath.Clean(dir); dir == "." || dir == "kcore_dir" || strings.HasPrefix(dir, "kcore_dir__") || filepath.Dir(dir) == "copies" {
		return base
	}
	return filepath.ToSlash(name)
}

// A recordingHash is the hash of [ID].
type recordingHash [2]*xxhash.Digest

func newRecordingHash() recordingHash {
	return recordingHash{xxhash.NewWithSeed(0), xxhash.NewWithSeed(1)}
}

// hashPiece is how many bytes are hashed twice while they are in the cache.
const hashPiece = 128 << 10

// Write adds content. It never fails.
func (h recordingHash) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, hashPiece) {
		_, _ = h[0].Write(part)
		_, _ = h[1].Write(part)
	}
	return len(b), nil
}

func (h recordingHash) sum() []byte { return h[1].Sum(h[0].Sum(nil)) }

// hashFile adds a file to a hash: its name, its size and its content. It returns what Stat said of
// the open file. Missing files and directories add nothing.
func hashFile(h io.Writer, path, name string) (fs.FileInfo, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return nil, err
	}
	fmt.Fprintf(h, "%q %d\n", name, info.Size())
	if m, err := mapfile.OpenRegular(path); err == nil {
		defer m.Close()
		if os.SameFile(info, m.Info()) && m.Info().Size() == info.Size() {
			return info, hashContent(h, m)
		}
	}
	_, err = io.Copy(h, f)
	return info, err
}

// hashContent adds the content of a file to a hash. It reads the file through a buffer that stays in the cache:
// to copy it takes less time than to map its pages.
func hashContent(h io.Writer, m *mapfile.File) error {
	size := m.Info().Size()
	piece := make([]byte, min(size, hashPiece))
	for at := int64(0); at < size; {
		n, err := m.ReadAt(piece[:min(size-at, hashPiece)], at)
		h.Write(piece[:n])
		if at += int64(n); err != nil && at < size {
			return cmp.Or(m.Check(true), err)
		}
	}
	return m.Check(true)
}

// pageBytes is the most bytes of a column that are compressed together. A tracer changes its
// sites in the same order again and again, so a page must have several such rounds.
const pageBytes = 4 << 20

// rowsPerGroup is the most rows of a row group. It bounds the memory of a reader and a writer. Tests
// change it.
var rowsPerGroup = 2 << 20

// codec compresses all tables.
var codec = &zstdCodec{}

// A zstdCodec is parquet-go's codec with a smaller window. It keeps its encoders, which need some memory
// each: twice the window.
type zstdCodec struct {
	zstd.Codec
	encoders sync.Pool
}

// zstdWindow is how far back an encoder looks. Each round of a tracer, which changes all its sites, takes some
// 100 KiB of indices, and the bytes of a site are the same again after several rounds.
const zstdWindow = 2 << 20

func (c *zstdCodec) Encode(to, content []byte) ([]byte, error) {
	e, _ := c.encoders.Get().(*kzstd.Encoder)
	if e == nil {
		var err error
		if e, err = kzstd.NewWriter(nil, kzstd.WithEncoderConcurrency(1), kzstd.WithEncoderLevel(kzstd.SpeedFastest), kzstd.WithWindowSize(zstdWindow),
			kzstd.WithZeroFrames(true), kzstd.WithEncoderCRC(false)); err != nil {
			return nil, err
		}
	}
	defer c.encoders.Put(e)
	return e.EncodeAll(content, slices.Grow(to[:0], len(content)/4)), nil
}

// A textCodec compresses pages of text. parquet-go's codec of this format takes more than twice the time,
// for 10 % fewer bytes.
type textCodec struct{ snappy.Codec }

func (*textCodec) Encode(to, page []byte) ([]byte, error) {
	return s2.EncodeSnappy(to[:cap(to)], page), nil
}

// textPageBytes is about the most bytes of a page of text. snappy looks back 64 KiB.
const textPageBytes = 512 << 10

// fewRows is the most rows of a table whose columns get the smallest buffers. parquet-go allocates
// the buffers of all columns at once, each of a page.
const fewRows = 8192

func writerOptions(rows int) []parquet.WriterOption {
	buffer := min(pageBytes, 16*max(rows, fewRows))
	return []parquet.WriterOption{
		parquet.Compression(codec), parquet.PageBufferSize(buffer),
		parquet.MaxRowsPerRowGroup(int64(rowsPerGroup)), parquet.CreatedBy("textreplay", fmt.Sprint(Version), ""),
		parquet.DataPageStatistics(false), // the index of pages has them
	}
}

// newWriter returns a writer of a table of so many rows.
func newWriter[T any](w io.Writer, rows int) *parquet.GenericWriter[T] {
	return parquet.NewGenericWriter[T](w, writerOptions(rows)...)
}

// writeRows writes a table whose rows are all in memory.
func writeRows[T any](w io.Writer, rows []T) error {
	out := newWriter[T](w, len(rows))
	if err := writeAlike(out, rows); err != nil {
		return err
	}
	return out.Close()
}

// writeAlike writes rows, as many at once as are alike.
func writeAlike[T any](out *parquet.GenericWriter[T], rows []T) error {
	for len(rows) > 0 {
		n := alike(rows)
		if _, err := out.Write(rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// alike returns how many rows at the beginning have the same columns null. parquet-go 0.32 writes
// zero values for nulls if the rows of one call differ in that.
func alike[T any](rows []T) int {
	if _, has := any(&rows[0]).(nullable); !has {
		return len(rows)
	}
	first := any(&rows[0]).(nullable).nulls()
	n := 1
	for n < len(rows) && any(&rows[n]).(nullable).nulls() == first {
		n++
	}
	return n
}

// A nullable is a row that has columns which may be null, in a table with several rows in a file.
type nullable interface {
	nulls() [3]bool // which of those columns are
}

func (r *gapRow) nulls() [3]bool {
	return [3]bool{r.Bytes == nil, r.Before == nil, r.After == nil}
}

func (r *programRow) nulls() [3]bool {
	return [3]bool{r.Offset == 0, r.CodeHash == "", r.XlatedHash == ""}
}

// An addition adds the tables of one recording to a directory.
type addition struct {
	*Dir
	out      *outfile.Outputs
	manifest Manifest
	written  []string // the files that are not shared

	begunMu sync.Mutex
	begun   map[string]*begunFile // by name
}

// A filler writes the content of a file, and returns how many rows it has.
type filler func(w io.Writer) (rows int64, err error)

// A begunFile is a file that is written in the background.
type begunFile struct {
	*outfile.File
	written func() filled // waits until it is
}

// filled is what a filler has returned.
type filled struct {
	rows int64
	err  error
}

// begin begins to write the file name, relative to the directory, in the background: write waits for it.
// If the file is shared and exists, or cannot be begun, begin does nothing.
func (a *addition) begin(name string, shared bool, fill filler) {
	path := filepath.Join(a.path, name)
	if shared {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	if a.out.MkdirAll(filepath.Dir(path)) != nil {
		return
	}
	out, err := a.out.Create(path)
	if err != nil {
		return
	}
	written := background(func() filled {
		w := bufio.NewWriterSize(out, 1<<18)
		rows, err := fill(w)
		if err == nil {
			err = w.Flush()
		}
		if err == nil {
			err = out.Sync() // so that Commit need not wait
		}
		return filled{rows, err}
	})
	a.begunMu.Lock()
	defer a.begunMu.Unlock()
	if a.begun == nil {
		a.begun = make(map[string]*begunFile)
	}
	a.begun[name] = &begunFile{out, written}
}

// drop drops the files that were begun, unless they were committed.
func (a *addition) drop() {
	a.begunMu.Lock()
	defer a.begunMu.Unlock()
	for _, f := range a.begun {
		settle(f.written)
		f.Discard()
	}
}

// write writes the file name, relative to the directory, and adds it to the manifest. If begin was
// called for the file, that is what writes it. A shared file that exists is not written again. Any other
// that exists is replaced: it is of a program that was killed, which may have derived other answers, by
// other rules or with other options.
func (a *addition) write(name string, shared bool, fill filler) error {
	var rows int64
	path := filepath.Join(a.path, name)
	info, err := os.Stat(path)
	if !shared || errors.Is(err, fs.ErrNotExist) {
		if err = a.out.MkdirAll(filepath.Dir(path)); err != nil {
			return err
		}
		a.begunMu.Lock()
		begun := a.begun[name]
		a.begunMu.Unlock()
		if begun != nil {
			got := begun.written()
			if rows, err = got.rows, got.err; err == nil {
				err = begun.Commit()
			}
		} else {
			err = a.out.WriteFile(path, func(w io.Writer) (err error) {
				rows, err = fill(w)
				return err
			})
		}
		if err != nil {
			return err
		}
		if a.isNew(path); !shared {
			a.written = append(a.written, path)
		}
		info, err = os.Stat(path)
	} else if err == nil {
		rows, err = rowsIn(path)
	}
	if err != nil {
		return err
	}
	a.manifest.Files = append(a.manifest.Files, ManifestFile{filepath.ToSlash(name), rows, info.Size(), shared})
	return nil
}

// rowsIn returns how many rows a file has.
func rowsIn(path string) (rows int64, err error) {
	err = readParquet(path, func(file *parquet.File) error {
		rows = file.NumRows()
		return nil
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return rows, err
}

// commit writes the manifest.
func (a *addition) commit() error {
	slices.SortFunc(a.manifest.Files, func(x, y ManifestFile) int { return strings.Compare(x.Path, y.Path) })
	text, err := json.MarshalIndent(&a.manifest, "", "\t")
	if err != nil {
		return err
	}
	path := a.manifestPath(a.manifest.Recording)
	if err := a.out.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	err = a.out.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	os.Remove(a.begunPath(a.manifest.Recording)) // it says nothing beside the manifest
	a.newMu.Lock()
	defer a.newMu.Unlock()
	a.newFiles = nil
	return nil
}

// addPages writes the pages that no file of the directory has. If pages is empty, it writes a file
// without rows. It sets the patches of pages that are like stored ones.
func (a *addition) addPages(build string, pages []page) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := partition("text", "-", build)
	full := filepath.Join(a.path, dir)
	if err := a.out.MkdirAll(full); err != nil {
		return err
	}
	unlock, err := outfile.Lock(full)
	if err != nil {
		return err
	}
	defer unlock()
	stored := a.storedText(full)
	written := false
	defer func() {
		if !written { // by an error, or by a panic: see replay.Guard. It does not have what it says
			delete(a.text, full)
		}
	}()
	if err := stored.readNew(); err != nil {
		return err
	}
	var added []*page
	h := sha256.New()
	files := make(map[uint32]bool)
	for i := range pages {
		p := &pages[i]
		if file, ok := stored.pages[p.Hash]; ok {
			files[file] = true
			continue
		}
		bases, err := stored.basesAt(p.Offset)
		if err != nil {
			return err
		}
		if p.usePatch(bases) {
			files[p.patch.base.file] = true
			continue
		}
		stored.pages[p.Hash] = missing
		added = append(added, p)
		h.Write(p.Hash[:])
	}
	delete(files, missing) // a page that is missing, and twice in this copy
	var names []string
	for file := range files {
		names = append(names, stored.files[file])
	}
	name := ""
	if len(added) > 0 || len(pages) == 0 {
		name = filepath.Join(full, hex.EncodeToString(h.Sum(nil)[:16])+".parquet")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, file := range names {
		rel, err := filepath.Rel(a.path, file)
		if err != nil {
			return err
		}
		if err := a.write(rel, true, func(w io.Writer) (int64, error) { return writeText(w, added) }); err != nil {
			return err
		}
	}
	written = true
	if name != "" && !stored.seen[name] {
		file := stored.addFile(name)
		for _, p := range added {
			stored.addPage(p.Hash, p.Offset, file)
		}
	}
	return nil
}

// storedText returns what is known of the pages in a directory. Of all others it forgets the content.
func (d *Dir) storedText(dir string) *storedText {
	t := d.text[dir]
	if t == nil {
		t = newStoredText(dir)
		d.text[dir] = t
	}
	if d.last != nil && d.last != t {
		d.last.forgetBases()
	}
	d.last = t
	return t
}

// globSafe returns a pattern that matches only path.
func globSafe(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
