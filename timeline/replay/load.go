// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Options of [Load]. The zero value reads a recording as perf left it.
type Options struct {
	// Guest is the virtual machine whose kernel the image shows: the process id of
	// its hypervisor, as in Report.Guests, or DefaultGuest. 0 is the host. The
	// image of one machine uses no records of another.
	Guest int
	// KCore is a kcore_dir that is not in the recording's directory. Load does not
	// know when it was made: before, during or after the recording. Alone it
	// therefore proves nothing. If the recording has a copy of text, Load only
	// checks KCore. For [Follow], KCore is the copy that perf made when it began to
	// record.
	KCore string
	// CPUs is the number of CPUs of the machine, all online, for a recording that
	// does not have it. perf writes the number at the end of a file, so it is
	// missing while perf is still writing and after perf was killed. 0: unknown.
	// errors.As finds a *[CPUsError] in the error of [Load] and [Follower.Image] if the
	// recording has another number, or events on more CPUs.
	CPUs int
	// Kallsyms and Modules name files to use instead of those in kcore_dir.
	Kallsyms, Modules string
	// Only, if set, returns the ranges of addresses to which the image is
	// restricted; a small image is faster to build. nil restricts nothing. Load
	// calls Only before it reads the recording. k is the symbol table, nil if there
	// is none. Bytes at other addresses are Unknown, for the reason OutsideImage.
	// Report.Conflicts counts only those inside. Where the copy of kernel text has bytes without a
	// name, the reason is NotText or HoleInSnapshot by all of those next to one another inside, so it may be the
	// other one in the whole image; both are Unknown. See [Near].
	Only func(k *kcore.Kallsyms) []timeline.Range
	// Copies are more copies of the same kernel, each made at a known time.
	Copies []Copy
	// Vmlinux names the kernel's ELF file. It supplies bytes that nothing in the
	// recording gives. Those bytes are at most Unconfirmed.
	Vmlinux string
	// ProbeCounters are files with readings of the hit counters of probes on text
	// writers, see docs/probes.md of this project. If there are none, Load looks for files
	// kprobe_profile.* in the recording's directory and next to it.
	ProbeCounters []string
	// Formats is a file with the formats of the recording's tracepoints, each after a line
	// "system: GROUP", for a recording that does not have them yet, see docs/probes.md. If
	// there is none, Load looks for the file tracing_formats in the recording's directory.
	Formats string
	// Explicit are explicit windows, see [timeline.ReadWindows].
	Explicit []timeline.ExplicitWindow
	// Windows keeps what [Replay.Windows] needs while Load reads the recording.
	// Without it, Replay.Windows reads the recording once more.
	Windows bool
	// Index names a file with a saved image. Load uses it if it is of this
	// unchanged recording and of the same other options, and if only the caller and
	// root can write to it. It holds the whole image, whatever Only says. Otherwise
	// Load reads the recording. An index is not used with Copies or Vmlinux, or with a
	// KCore that Load only checks. It is neither used nor saved by [New] if the recording
	// or its copy of the kernel was not opened from files.
	//
	// With SaveIndex, Load then writes the whole image to the file, for the next
	// call. It does not overwrite a file that is not an index. With MakeIndexDir,
	// Load makes the missing directory of the file, for the owner alone.
	// [Replay.Index] returns what Load did with the file.
	//
	// A file is unchanged if its inode, size, modification time, change time (ctime) and
	// some parts of its content are the same. On systems without inodes or ctime, all of its
	// content must be the same.
	Index        string
	SaveIndex    bool
	MakeIndexDir bool
	// Progress, if set, is called from time to time with the number of bytes read
	// so far and the size of the recording, by one goroutine at a time.
	Progress func(done, total int64)
}

// Replay is a recording and its image. It is safe for concurrent use, except
// for Close. Its fields, and what they point to, must not be changed.
type Replay struct {
	Recording *perfdata.Recording
	Snapshot  *kcore.Snapshot // nil if the recording has none
	Image     *timeline.Image
	Report    *Report
	kallsyms  *kcore.Kallsyms
	modules   []kcore.Module // of the snapshot or of Options.Modules
	undated   undated
	journal   *recorderJournal // nil if perf made the recording
	misfit    error            // why the recording's own copy is left out; nil if it is not
	copies    []openCopy
	arch      architecture
	scan      *scan // nil if the image is from an index and nothing has needed a scan
	scanOnce  sync.Once
	guest     int
	cpus      int // as in Options
	files     []string

	index         IndexState
	stamp         [sha256.Size]byte
	saves         bool                     // load writes the index
	counters      []probeReading           // of the hit counters of probes
	foreign       []error                  // why files with readings were left out
	formats       []byte                   // of tracepoints, if the recording has none
	given         []stampedFile            // files outside of the snapshots: of the options, the journal, or found by name
	badModules    error                    // why a part of Options.Modules is unusable
	givenKallsyms *kcore.Kallsyms          // of Options.Kallsyms
	givenModules  []kcore.Module           // of Options.Modules
	savedWindows  *timeline.EncodedWindows // of the index
	indexFile     *mapfile.File
	releaseNames  func() // ends that kallsyms uses the names in the index; nil if it does not

	explicit    []timeline.ExplicitWindow
	windows     *timeline.Windows
	windowsOnce sync.Once
	unmade      func() *timeline.Windows // makes windows of what the scan kept; nil if it kept nothing
	fewWindows  atomic.Int32             // how many questions were asked before windows were made

	unseen     []unseenFork
	unseenOnce sync.Once

	sequences     *Sequences
	sequencesOnce sync.Once

	trampolines trampolines
	sources     sources
}

// Close unmaps the recording, its snapshots and the index. The image must not be
// used afterwards.
func (r *Replay) Close() error {
	r.releaseIndex()
	err := r.closeCopies()
	if r.indexFile != nil {
		err = errors.Join(err, r.indexFile.Close())
	}
	if r.Snapshot != nil {
		err = errors.Join(err, r.Snapshot.Close())
	}
	return errors.Join(err, r.Recording.Close())
}

// Unload lets go of the memory that the mapped files take: the recording, its copy
// of kernel text and the index. Nothing becomes invalid: what is touched later is read from
// the files again. A program that runs for long and is seldom asked calls it after an answer.
func (r *Replay) Unload() {
	r.Recording.Unload()
	if r.indexFile != nil {
		r.indexFile.Split()
		r.indexFile.Unload()
	}
	if s := r.Snapshot; s != nil && s.Core != nil {
		s.Core.Unload()
	}
}

// closeCopies closes all copies but Replay.Snapshot.
func (r *Replay) closeCopies() (err error) {
	for _, c := range r.copies {
		err = errors.Join(err, c.Close())
	}
	r.copies = nil
	return err
}

// undated reports which inputs have no known time. They may be from before the
// recording began or after it ended.
type undated struct{ snapshot, kallsyms, modules bool }

// Kallsyms returns the kernel's symbol table at the time of the snapshot, or nil if
// there is none. The caller must not change it.
func (r *Replay) Kallsyms() *kcore.Kallsyms { return r.kallsyms }

// Load opens a recording and its kcore_dir, and makes an image of both. It also
// loads a recording that is damaged but readable. Report lists what is missing, and
// the image calls known only what the damage cannot have changed. If no record can
// be read, the error wraps [perfdata.ErrNothing] and a [*perfdata.FormatError] with
// the place. If a copy or a list that the options name is of another kernel or another
// boot, errors.As finds a *[MisfitError] in the error. It also finds a *[CPUsError] or an
// *[UnknownGuestError] there.
//
// The caller closes the Replay. Until then, the recording, the copy of text and the
// index are mapped into memory. If one of these files is cut short, Load returns a
// *[ChangedError]. A program that must survive this uses the Replay and its Image
// only inside [Guard]. [Replay.Check] reports whether earlier answers still hold.
func Load(path string, opts Options) (*Replay, error) {
	path, opts.KCore = pathname.Plain(path), pathname.Plain(opts.KCore)
	opts.Copies = slices.Clone(opts.Copies)
	for i := range opts.Copies {
		opts.Copies[i].KCore = pathname.Plain(opts.Copies[i].KCore)
	}
	rec, err := perfdata.Open(path)
	if err != nil {
		return nil, err
	}
	snap, err := OpenSnapshot(rec, opts)
	var given *kcore.Snapshot
	switch {
	case err != nil || opts.KCore == "":
	case snap != nil && sameDir(opts.KCore, snap.Dir()):
		snap.Close()
		snap, err = kcore.Open(opts.KCore) // the caller named it: use all of it
	case snap == nil && opts.Guest == 0 && filepath.Base(path) == "data" && sameDir(opts.KCore, filepath.Join(filepath.Dir(path), "kcore_dir")):
		snap, err = kcore.Open(opts.KCore) // path is the data file of a directory that perf made
	default:
		given, err = kcore.Open(opts.KCore)
	}
	var r *Replay
	if err == nil {
		r, err = newReplay(rec, snap, given, opts)
	}
	if err != nil {
		for _, s := range []*kcore.Snapshot{snap, given} {
			if s != nil {
				s.Close()
			}
		}
		rec.Close()
		return nil, err
	}
	return r, nil
}

// sameDir reports whether two paths name one directory.
func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// OpenSnapshot opens the kcore_dir of a recording, or of the guest in opts. It
// returns nil and no error if there is none. It leaves out files that are damaged
// throughout and adds a warning for each. The caller closes the snapshot.
func OpenSnapshot(rec *perfdata.Recording, opts Options) (*kcore.Snapshot, error) {
	dir := snapshotDir(rec, opts)
	if dir == "" {
		return nil, nil
	}
	snap, err := kcore.OpenUsable(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return snap, err
}

// New makes an image of an open recording and of the copy of the kernel that
// perf made when it began to record. snap may be nil. New ignores Options.KCore.
// Replay.Close closes rec and snap. If New fails, the caller closes them.
func New(rec *perfdata.Recording, snap *kcore.Snapshot, opts Options) (*Replay, error) {
	opts.KCore = ""
	return newReplay(rec, snap, nil, opts)
}

// newReplay is New with one more copy, given, whose time is not known. newReplay
// uses given if the recording has no copy.
func newReplay(rec *perfdata.Recording, snap, given *kcore.Snapshot, opts Options) (*Replay, error) {
	r := &Replay{Recording: rec, Snapshot: snap, guest: opts.Guest, explicit: opts.Explicit, files: filesOf(rec, &opts)}
	err := r.openCopies(opts.Copies)
	if err == nil {
		err = r.readJournal()
	}
	if err == nil {
		err = r.openJournaled()
	}
	switch {
	case given == nil:
	case snap != nil && snap.Core != nil:
		r.copies = append(r.copies, openCopy{Snapshot: given, name: opts.KCore, unused: true})
	default:
		if snap != nil {
			r.copies = append(r.copies, openCopy{Snapshot: snap, name: snap.Dir(), unused: true, own: true})
		}
		r.Snapshot, r.undated.snapshot = given, true
	}
	if err == nil {
		err = r.readSymbols(opts)
	}
	if err == nil {
		err = r.readFormats(&opts)
	}
	if err == nil {
		err = r.readCounters(&opts, false)
	}
	for _, f := range r.stampedFiles() {
		if f.path != "" && f.info != nil && !slices.Contains(r.files, f.path) {
			r.files = append(r.files, f.path)
		}
	}
	if err == nil {
		err = Guard(func() error { return r.load(opts) })
	}
	if err != nil {
		// The caller closes what it opened.
		r.copies = slices.DeleteFunc(r.copies, func(c openCopy) bool { return c.unused || c.Snapshot == given })
		return nil, errors.Join(err, r.closeCopies())
	}
	return r, nil
}

// load builds the image or reads it from the index.
func (r *Replay) load(opts Options) error {
	s, err := r.begin(opts)
	if err != nil {
		return err
	}
	if r.misfit == nil && r.openIndex(&opts) {
		return nil
	}
	warnings := r.readNames(opts)
	defer warnings()
	r.prepare(s, opts)
	if !s.readAll() {
		late := s
		if s, err = r.begin(opts); err != nil {
			return err
		}
		r.prepare(s, opts)
		s.reopen(late)
		s.readAll()
	}
	s.warnFirst(warnings())
	if err := s.nothing(s.stopped); err != nil {
		return err
	}
	s.finish()
	if err := s.checkCPUs(opts.CPUs); err != nil {
		return err
	}
	if s.keepPlaced {
		if r.unmade = s.newWindows; r.saves {
			r.windows, r.unmade = s.newWindows(), nil
			s.placed.pokes, s.writers = nil, writers{}
		}
	}
	if r.Snapshot != nil && !r.undated.snapshot {
		if err := s.misfit(cmp.Or(r.Snapshot.Dir(), "kcore_dir"), r.Snapshot, nil); err != nil {
			r.leaveOut(err, opts)
			return r.load(opts)
		}
	}
	r.Report = s.report
	if err := s.facts(r, opts); err != nil {
		return err
	}
	s.freeChunks = nil
	// Who asks for windows reads all text afterwards. Of a small recording it then stays in memory.
	if snap := r.Snapshot; snap != nil && snap.Core != nil && !(opts.Windows && s.rec.Size() <= unloadAbove) {
		s.b.Unloads(snap.Core.Unload)
	}
	im, err := s.b.Finish()
	if err != nil {
		return err
	}
	r.Image = im
	r.scan = s
	s.b = nil // the image has all of it now
	s.finishReport(im)
	if err := r.Check(); err != nil {
		return err
	}
	if r.saves {
		r.saveIndex(&opts)
	}
	return nil
}

// begin returns a scan that has read nothing yet.
func (r *Replay) begin(opts Options) (*scan, error) {
	s := newScan(r.Recording, r.formats, opts.Progress)
	s.cpus, r.cpus = opts.CPUs, opts.CPUs
	if opts.Guest != 0 {
		if err := s.selectGuest(opts.Guest); err != nil {
			return nil, err
		}
	}
	s.callees.k = r.kallsyms
	r.listModules(s)
	return s, nil
}

// readNames begins to parse the names of the snapshot. It takes milliseconds, in which another CPU can read
// the recording. The function that it returns waits until that is done, and returns the snapshot's
// warnings.
func (r *Replay) readNames(opts Options) (warnings func() []error) {
	warnings = sync.OnceValue(func() (found []error) {
		if r.Snapshot != nil {
			found = r.Snapshot.Warnings()
		}
		if r.kallsyms != nil && opts.Only == nil && sizeOfRecords(r.Recording) >= manyNames {
			r.kallsyms.Index()
		}
		return found
	})
	go warnings()
	return warnings
}

// sizeOfRecords returns about how many bytes of records a recording has, those that were compressed included.
func sizeOfRecords(rec *perfdata.Recording) int64 {
	if _, err := rec.Compressed(); err != nil {
		return rec.Size()
	}
	const usual = 4 // records take at least so many times as many bytes as zstd leaves
	return usual * rec.Size()
}

// manyNames is from how many bytes of records on the image of a recording needs so many
// names that it is certain to need an index of them.
const manyNames = 16 << 20

// prepare gives a scan what it needs to build the image.
func (r *Replay) prepare(s *scan, opts Options) {
	for _, w := range r.foreign {
		s.warn(w)
	}
	s.describe(r)
	if opts.Only != nil && !r.saves { // a saved index has the whole image
		if only := opts.Only(r.kallsyms); only != nil {
			s.b.Only(only)
		}
	}
	s.tellArchitecture()
	r.arch = s.arch
	if s.keepPlaced = opts.Windows || r.saves; r.saves {
		s.placed.pokes = make([]timeline.InPlacePoke, 0, s.expected())
	}
}

// scanned returns what a scan finds in the recording, except for the image. If the
// image is from an index, scanned reads the recording on its first call.
func (r *Replay) scanned() *scan {
	r.scanOnce.Do(func() {
		if r.scan != nil {
			return
		}
		s := r.rescan(func(*scan) {})
		s.finish()
		if s.probes != nil {
			s.coverage() // reads code of the kernel, too: ProbedCode
		}
		s.b = nil
		r.scan = s
	})
	return r.scan
}

// rescan reads the recording once more, and builds no image. options changes what the
// scan keeps.
func (r *Replay) rescan(options func(*scan)) *scan {
	s := r.newRescan()
	options(s)
	if !s.readAll() {
		late := s
		s = r.newRescan()
		options(s)
		s.reopen(late)
		s.readAll()
	}
	return s
}

// newRescan returns a scan that builds no image.
func (r *Replay) newRescan() *scan {
	s := newScan(r.Recording, r.formats, nil)
	if r.guest != 0 {
		// The guest was in the recording when the index was made.
		if err := s.selectGuest(r.guest); err != nil {
			s.warn(err)
		}
	}
	s.callees.k, s.cpus = r.kallsyms, r.cpus
	s.b.Only([]timeline.Range{}) // builds no image
	s.describe(r)
	return s
}

// readSymbols reads the lists that the options name. It reads each once: it may be a pipe.
func (r *Replay) readSymbols(opts Options) error {
	if opts.Kallsyms != "" {
		text, err := r.readGiven("kallsyms", opts.Kallsyms)
		if err != nil {
			return err
		}
		r.givenKallsyms, err = kcore.ParseKallsyms(text)
		if len(text) == 0 { // every kernel has symbols; only a kernel without modules has an empty list of them
			err = &kcore.FormatError{File: "kallsyms", Line: 1, Msg: "the file is empty"}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", opts.Kallsyms, err)
		}
	}
	if opts.Modules != "" {
		text, err := r.readGiven("modules", opts.Modules)
		if err != nil {
			return err
		}
		r.givenModules, r.badModules = kcore.ParseModules(text)
		if len(r.givenModules) == 0 && r.badModules != nil {
			return fmt.Errorf("%s: %w", opts.Modules, r.badModules)
		}
	}
	r.chooseSymbols(opts)
	return nil
}

// chooseSymbols takes kallsyms and the list of modules from the files that the options
// name, or else from the snapshot.
func (r *Replay) chooseSymbols(opts Options) {
	u := &r.undated
	r.kallsyms, r.modules = nil, nil
	if r.Snapshot != nil {
		r.kallsyms, r.modules = r.Snapshot.Kallsyms, r.Snapshot.Modules
	}
	u.kallsyms, u.modules = u.snapshot, u.snapshot
	for i := range r.copies {
		if c := &r.copies[i]; r.kallsyms == nil && !c.unused {
			r.kallsyms, u.kallsyms = c.Kallsyms, true // made later than the beginning
		}
	}
	if opts.Kallsyms != "" {
		r.kallsyms, u.kallsyms = r.givenKallsyms, true
	}
	if opts.Modules != "" {
		r.modules, u.modules = r.givenModules, true
	}
}

// leaveOut drops the recording's own copy of the kernel, for the reason why. If the
// caller gave a copy without a time, leaveOut uses that one instead.
func (r *Replay) leaveOut(why error, opts Options) {
	own := openCopy{Snapshot: r.Snapshot, name: r.Snapshot.Dir(), unused: true, own: true}
	r.Snapshot, r.misfit = nil, why
	for i := range r.copies {
		if c := &r.copies[i]; c.unused && !c.own {
			r.Snapshot, r.undated.snapshot = c.Snapshot, true
			r.copies = slices.Delete(r.copies, i, i+1)
			break
		}
	}
	r.copies = append(r.copies, own)
	r.chooseSymbols(opts)
}

// listModules gives a scan the list of modules.
func (r *Replay) listModules(s *scan) {
	s.modules = slices.Clone(r.modules)
	if r.badModules != nil {
		s.warn(r.badModules)
	}
}

// readGiven returns the content of a file that the options name. It may be a pipe.
func (r *Replay) readGiven(what, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return r.readStamped(f, info, what, path)
}

// readFound is readGiven for a file that is used because of its name. Anybody may have put
// something else there: nothing but a regular file is read.
func (r *Replay) readFound(what, path string) ([]byte, error) {
	f, info, err := mapfile.Regular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return r.readStamped(f, info, what, path)
}

// readStamped reads an open file, and notes which one it is: a saved index holds for these
// files only.
func (r *Replay) readStamped(f *os.File, info fs.FileInfo, what, path string) ([]byte, error) {
	r.given = append(r.given, stampedFile{"given " + what, path, info})
	return mapfile.ReadList(f, path)
}
