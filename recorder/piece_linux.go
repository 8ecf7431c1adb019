// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
)

// A piece is one perf.data directory, which can be read without the others.
type piece struct {
	dir      string
	data     *os.File
	w        *perfdata.Writer
	journal  *os.File
	programs growing           // bpf_prog_info
	types    growing           // bpf_btf
	fetched  map[uint32]uint32 // id of a program that is loaded: id of its BTF
	typed    map[uint32]int    // id of a BTF that types has: how many of these programs have it
	size     int64             // bytes of records, copies of text and lines of the journal, about
	based    bool              // kcore_dir is whole
	copies   int               // later ones that were begun
	// pages has a checksum of each page of the first copy, by address: what later
	// copies are compared with.
	pages map[uint64]uint64
}

// begin creates the directory of the next piece, and begins to record into it.
func (r *Recorder) begin() error {
	r.number++
	p := &piece{dir: r.pieceDir(r.number), fetched: make(map[uint32]uint32), typed: make(map[uint32]int)}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		r.number--
		return err
	}
	r.piece = p
	r.stats.Pieces++
	return errors.Join(p.open(r), r.describe(), r.noteBlind(), r.announce(), r.ready())
}

func (p *piece) open(r *Recorder) (err error) {
	flags := os.O_RDWR | os.O_CREATE | os.O_EXCL
	if p.data, err = os.OpenFile(filepath.Join(p.dir, "data"), flags, 0o600); err != nil {
		return err
	}
	if p.journal, err = os.OpenFile(filepath.Join(p.dir, journal.Name), flags|os.O_APPEND, 0o600); err != nil {
		return err
	}
	if err := errors.Join(p.programs.open(filepath.Join(p.dir, perfdata.EarlyPrograms)), p.types.open(filepath.Join(p.dir, perfdata.EarlyTypes))); err != nil {
		return err
	}
	host, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	start := &journal.Start{
		Version: journal.Version, Program: r.opts.Program, Clock: "CLOCK_MONOTONIC",
		Time: now(), Wall: int64(clock(unix.CLOCK_REALTIME)), Host: host, BootID: strings.TrimSpace(string(boot)), FollowsCPUs: r.news >= 0, Open: r.opened,
	}
	return journal.Append(p.journal, &journal.Entry{Start: start})
}

// spareIDs is how many more ids each event may get: CPUs that come online while it is
// recorded. More than that begin a new piece.
const spareIDs = 64

// describe writes the events and what perf says about the machine.
func (r *Recorder) describe() error {
	for i, e := range r.events {
		e.IDs = nil
		for _, g := range r.rings {
			e.IDs = append(e.IDs, g.ids[i])
		}
	}
	order := binary.NativeEndian
	// perf's header and attrs are of the machine's own byte order.
	var bo binary.ByteOrder = binary.LittleEndian
	if order.Uint16([]byte{0, 1}) == 1 {
		bo = binary.BigEndian
	}
	r.w = perfdata.NewWriter(r.data, bo, perfdata.SpareIDs(spareIDs))
	if err := r.w.SetEvents(r.events); err != nil {
		return err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	text := func(s string) []byte {
		n := (len(s)/64 + 1) * 64 // do_write_string pads to 64
		b := order.AppendUint32(nil, uint32(n))
		return append(append(b, s...), make([]byte, n-len(s))...)
	}
	features := map[perfdata.Feature][]byte{
		perfdata.FeatureHostname:  text(unix.ByteSliceToString(uts.Nodename[:])),
		perfdata.FeatureOSRelease: text(unix.ByteSliceToString(uts.Release[:])),
		perfdata.FeatureArch:      text(unix.ByteSliceToString(uts.Machine[:])),
		perfdata.FeatureVersion:   text(r.opts.Program),
		perfdata.FeatureDirFormat: order.AppendUint64(nil, 0), // one data file
		perfdata.FeatureClockID:   order.AppendUint64(nil, 1), // resolution in ns
	}
	available, err := os.ReadFile("/sys/devices/system/cpu/present")
	if err != nil {
		return err
	}
	present, err := parseCPUs(strings.TrimSpace(string(available)))
	if err != nil {
		return err
	}
	features[perfdata.FeatureNRCPUs] = order.AppendUint32(order.AppendUint32(nil, uint32(len(present))), uint32(len(r.rings)))
	wall := order.AppendUint32(nil, 1) // version of CLOCK_DATA
	wall = order.AppendUint32(wall, unix.CLOCK_MONOTONIC)
	wall = order.AppendUint64(wall, clock(unix.CLOCK_REALTIME))
	features[perfdata.FeatureClockData] = order.AppendUint64(wall, now())
	args := order.AppendUint32(nil, uint32(len(r.opts.Args)))
	for _, a := range r.opts.Args {
		args = append(args, text(a)...)
	}
	features[perfdata.FeatureCmdline] = args
	if len(r.points) > 0 {
		features[perfdata.FeatureTracingData] = tracingData(r.points)
	}
	for f, data := range features {
		if err := r.w.WriteFeature(f, data); err != nil {
			return err
		}
	}
	return create(filepath.Join(r.dir, perfdata.EarlyFeatures), func(w io.Writer) error {
		return r.w.WriteEarlyFeatures(w)
	})
}

// sampleID is what a record ends with that the recorder itself makes, as perf's own
// records do: all zeros, the time too.
func (r *Recorder) sampleID() perfdata.SampleID { return perfdata.SampleID{Event: r.events[0]} }

// index writes on which CPU each id was opened.
func (r *Recorder) index(rings []*ring) error {
	var x perfdata.IDIndex
	for i := range r.events {
		for _, g := range rings {
			x.Entries = append(x.Entries, perfdata.IDIndexEntry{ID: g.ids[i], Idx: uint64(g.cpu), CPU: int64(g.cpu), TID: -1, VCPU: -1})
		}
	}
	// A record holds 64 KiB, so some 2,000 entries.
	for part := range slices.Chunk(x.Entries, 1024) {
		if err := r.w.IDIndex(&perfdata.IDIndex{Entries: part}); err != nil {
			return err
		}
	}
	return nil
}

// ready ends the beginning of a piece: the first round, the journal, the copy of text.
func (r *Recorder) ready() error {
	if err := r.round(); err != nil {
		return err
	}
	// The first round may have records that are older than those above. The second round takes
	// all records up to at, from which on nothing is missing.
	at := now()
	if err := r.round(); err != nil {
		return err
	}
	if err := journal.Append(r.journal, &journal.Entry{Ready: &journal.Ready{Time: at}}); err != nil {
		return err
	}
	if err := r.noteFirst(); err != nil {
		return err
	}
	r.copy()
	releaseMemory() // of the lists of names and tasks, which are large
	return r.flush()
}

// flush writes the records that were taken to the file.
func (r *Recorder) flush() error { return r.w.Flush() }

// end completes the piece, which has all records before ended (ns).
func (r *Recorder) end(ended uint64) (err error) {
	p := r.piece
	for _, g := range r.rings {
		err = errors.Join(err, r.countLost(g))
	}
	if err != nil {
		return err
	}
	programs, err := p.programs.section()
	if err == nil && programs != nil {
		err = p.w.WriteFeature(perfdata.FeatureBPFProgInfo, programs)
	}
	types, typesErr := p.types.section()
	err = errors.Join(err, typesErr)
	if err == nil && types != nil {
		err = p.w.WriteFeature(perfdata.FeatureBPFBTF, types)
	}
	if err == nil {
		err = p.w.Close()
	}
	if err == nil {
		// Only now: the line says that data has all records.
		err = journal.Append(p.journal, &journal.Entry{End: &journal.End{Time: ended}})
	}
	for _, b := range [][]byte{programs, types} {
		if b != nil {
			unix.Munmap(b)
		}
	}
	err = errors.Join(err, p.close())
	if err == nil {
		// They are in data now.
		err = errors.Join(os.Remove(p.programs.path), os.Remove(p.types.path), os.Remove(filepath.Join(p.dir, perfdata.EarlyFeatures)))
	}
	releaseMemory() // of what was only needed to end it
	return err
}

// countLost writes how many records each event of a CPU has lost since the last call, as
// perf does when it ends (record__read_lost_samples() of tools/perf/builtin-record.c).
func (r *Recorder) countLost(g *ring) error {
	for i, e := range r.events {
		lost, err := lostRecords(g.fds[i], &e.Attr)
		if err != nil {
			r.warn(err)
			continue
		}
		lost, g.lost[i] = lost-g.lost[i], lost
		if lost == 0 {
			continue
		}
		id := perfdata.SampleID{Event: r.events[0], ID: g.ids[i], CPU: uint32(g.cpu), Time: g.last}
		if err := r.w.LostSamples(&perfdata.LostSamples{Lost: lost, SampleID: id}); err != nil {
			return err
		}
	}
	return nil
}

// A growing file is a section of a perf.data file while it is made: u32 number of items,
// and the items.
type growing struct {
	path  string
	f     *os.File
	items uint32
}

func (g *growing) open(path string) (err error) {
	g.path = path
	if g.f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	_, err = g.f.Write(make([]byte, 4))
	return err
}

// add adds an item. The number in front is raised last, so that a reader of the file finds
// whole items.
func (g *growing) add(item []byte) error {
	if _, err := g.f.Write(item); err != nil {
		return err
	}
	g.items++
	_, err := g.f.WriteAt(binary.NativeEndian.AppendUint32(nil, g.items), 0)
	return err
}

// section maps the section; nil if it has no items. The caller unmaps it.
func (g *growing) section() ([]byte, error) {
	size, err := g.f.Seek(0, io.SeekEnd)
	if err != nil || g.items == 0 {
		return nil, err
	}
	return unix.Mmap(int(g.f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func (p *piece) close() error {
	var errs []error
	for _, f := range []**os.File{&p.data, &p.journal, &p.programs.f, &p.types.f} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(errs...)
}

// addProgram adds a program, which is loaded, and its types.
func (p *piece) addProgram(prog *program) error {
	btf := prog.info.BTFID
	p.fetched[prog.info.ID] = btf
	if btf != 0 {
		if p.typed[btf]++; p.typed[btf] == 1 {
			if b, err := fetchBTF(btf); err == nil { // else nobody knows the types, and the code is as good
				item := binary.NativeEndian.AppendUint32(nil, btf)
				item = binary.NativeEndian.AppendUint32(item, uint32(len(b)))
				if err := p.types.add(append(item, b...)); err != nil {
					return err
				}
			}
		}
	}
	return p.programs.add(prog.encode())
}

// forget forgets a program that is not loaded any more: else the maps would grow for ever.
func (p *piece) forget(id uint32) {
	if btf := p.fetched[id]; btf != 0 {
		if p.typed[btf]--; p.typed[btf] == 0 {
			delete(p.typed, btf)
		}
	}
	delete(p.fetched, id)
}
