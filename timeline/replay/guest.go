// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// DefaultGuest is a guest that is known only by the CPU mode of its records, as in
// recordings of `perf kvm --guest record` (DEFAULT_GUEST_KERNEL_ID of
// tools/perf/util/machine.h).
const DefaultGuest = -1

// A Guest is a virtual machine whose records are in a recording. Its kernel is not the
// host's: see [Options].Guest.
type Guest struct {
	// PID is the process id, on the host, of the hypervisor that runs the
	// guest, or DefaultGuest.
	PID int
	// VCPUs is how many virtual CPUs the guest has, by the names of the
	// hypervisor's threads; 0 if they do not say.
	VCPUs int
	// KCore is the directory with the copy of the guest's kernel text
	// (kcore_dir__PID), "" if there is none.
	KCore string
	// First and Last are the times of the guest's first and newest record, 0 if none
	// has a time.
	First, Last uint64
	// How many records are the guest's, and how many of them are text pokes,
	// symbols and samples.
	Records, Pokes, Symbols, Samples uint64
}

// Name returns what the command line calls the guest: its PID, or "default".
func (g *Guest) Name() string { return guestName(g.PID) }

// guestName returns what the command line calls the guest of a process.
func guestName(pid int) string {
	if pid == DefaultGuest {
		return "default"
	}
	return strconv.Itoa(pid)
}

// An UnknownGuestError says that the recording does not have the guest of Options.Guest.
// errors.As finds an *UnknownGuestError in the error of [Load] or [New].
type UnknownGuestError struct {
	PID    int
	Guests []Guest // those that the recording has
}

func (e *UnknownGuestError) Error() string {
	if len(e.Guests) == 0 {
		return fmt.Sprintf("the recording has no guest %s; it has no guests", guestName(e.PID))
	}
	names := make([]string, len(e.Guests))
	for i := range e.Guests {
		names[i] = e.Guests[i].Name()
	}
	return fmt.Sprintf("the recording has no guest %s; it has %s", guestName(e.PID), strings.Join(names, ", "))
}

// guests is what a recording says about guests.
type guests struct {
	byPID map[int]*Guest
	// ids is true if some event ids are guests'. These have machine_pid and vcpu in
	// the ID_INDEX record that perf inject --guest-data adds (guest_session__add_attr
	// of tools/perf/builtin-inject.c).
	ids bool
	// threads are the numbers of the virtual CPUs that threads of the host run, by process.
	threads map[uint32]map[uint64]bool
	// hostLost is true if the host lost records, which may have been names of threads.
	hostLost bool
}

// guest returns the guest of a process, and adds it if it is new.
func (g *guests) guest(pid int) *Guest {
	x := g.byPID[pid]
	if x == nil {
		if g.byPID == nil {
			g.byPID = make(map[int]*Guest)
		}
		x = &Guest{PID: pid}
		g.byPID[pid] = x
	}
	return x
}

// saw counts a record of a guest. Of the host's records only LOST matters, which may
// have been names of threads. pid is 0 for the host.
func (g *guests) saw(pid int, typ perfdata.RecordType, t uint64) {
	if pid == 0 {
		g.hostLost = g.hostLost || typ == perfdata.RecordLost
		return
	}
	x := g.guest(pid)
	x.Records++
	switch typ {
	case perfdata.RecordTextPoke:
		x.Pokes++
	case perfdata.RecordKSymbol:
		x.Symbols++
	case perfdata.RecordSample:
		x.Samples++
	}
	if t != 0 {
		if x.First == 0 {
			x.First = t
		}
		x.First, x.Last = min(x.First, t), max(x.Last, t)
	}
}

// comm notes the virtual CPU that a thread of the host runs, by the thread's name. QEMU
// gives such names (-name debug-threads=on), and perf inject relies on them as well
// (host_peek_vm_comms_cb of tools/perf/builtin-inject.c).
func (g *guests) comm(pid uint32, name []byte) {
	rest, ok := bytes.CutPrefix(name, []byte("CPU "))
	if !ok {
		return
	}
	digits, ok := bytes.CutSuffix(rest, []byte("/KVM"))
	if !ok {
		return
	}
	n, err := strconv.ParseUint(string(digits), 10, 31)
	if err != nil {
		return
	}
	if g.threads == nil {
		g.threads = make(map[uint32]map[uint64]bool)
	}
	if g.threads[pid] == nil {
		g.threads[pid] = make(map[uint64]bool)
	}
	g.threads[pid][n] = true
}

// vcpus returns how many virtual CPUs a guest has. It returns 0 if that is not
// recorded, or if a number below the highest is missing.
func (g *guests) vcpus(pid int) int {
	if pid <= 0 {
		return 0
	}
	threads := g.threads[uint32(pid)]
	for n := range threads {
		if n >= uint64(len(threads)) {
			return 0
		}
	}
	return len(threads)
}

// list returns the guests in the order of PIDs. dir is the recording's directory, which
// may have copies of guests' text.
func (g *guests) list(dir string) []Guest {
	if dir != "" {
		entries, _ := os.ReadDir(dir) // what cannot be listed cannot be opened either
		for _, e := range entries {
			digits, ok := strings.CutPrefix(e.Name(), guestKCore)
			if pid, err := strconv.ParseUint(digits, 10, 31); ok && err == nil && pid > 0 {
				g.guest(int(pid)).KCore = filepath.Join(dir, e.Name())
			}
		}
	}
	var out []Guest
	for _, x := range g.byPID {
		x.VCPUs = g.vcpus(x.PID)
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b Guest) int { return cmp.Compare(a.PID, b.PID) })
	return out
}

// guestKCore begins the names of directories with guests' text
// (guest_session__copy_kcore_dir of tools/perf/builtin-inject.c).
const guestKCore = "kcore_dir__"

// snapshotDir returns the directory of the copy of kernel text that the options ask
// for, "" if the recording cannot have one.
func snapshotDir(rec *perfdata.Recording, opts Options) string {
	switch {
	case rec.Dir() == "":
		return ""
	case opts.Guest == 0:
		return filepath.Join(rec.Dir(), "kcore_dir")
	case opts.Guest > 0:
		return filepath.Join(rec.Dir(), guestKCore+strconv.Itoa(opts.Guest))
	}
	return "" // perf keeps no copy of a guest that it does not know
}

// selectGuest makes the scan read for the image of a guest. It reads the recording once
// to find which ids are the guest's.
func (s *scan) selectGuest(pid int) error {
	var found guests
	sc := s.rec.Scan()
	var id perfdata.SampleID
	machines := make(map[uint64]int) // by event id
	for sc.Next() {
		rec := sc.Record()
		switch {
		case rec.Type == perfdata.RecordIDIndex:
			var ix perfdata.IDIndex
			if s.rec.IDIndex(rec, &ix) != nil {
				continue // the scan reports it
			}
			for _, e := range ix.Entries {
				if m := machinePID(&e); m != 0 {
					found.ids = true
					machines[e.ID] = m
					found.guest(m)
				}
			}
		case isGuestMode(rec) && rec.Type < 64 && s.rec.SampleID(rec, &id) == nil:
			m, ok := machines[id.ID]
			if !ok {
				m = guestOf(s.rec, rec)
			}
			found.guest(m)
		}
	}
	list := found.list(s.rec.Dir())
	if !slices.ContainsFunc(list, func(g Guest) bool { return g.PID == pid }) {
		return &UnknownGuestError{PID: pid, Guests: list}
	}
	s.machine = pid
	if slices.Contains(slices.Collect(maps.Values(machines)), pid) {
		s.listens = pid
	}
	return nil
}

// machinePID returns the guest that an id belongs to, 0 for the host.
func machinePID(e *perfdata.IDIndexEntry) int {
	if e.MachinePID <= 0 || e.MachinePID > 1<<31-1 {
		return 0
	}
	return int(e.MachinePID)
}

// isGuestMode reports whether the CPU mode in the record's header is a guest's.
func isGuestMode(rec *perfdata.Record) bool {
	m := rec.CPUMode()
	return m == perfdata.MiscGuestKernel || m == perfdata.MiscGuestUser
}

// guestOf returns the guest of a record that has a guest's CPU mode, and an id that
// does not say which guest. Only the map of the guest's kernel has the PID
// (perf_event__synthesize_guest_os of tools/perf/util/synthetic-events.c).
func guestOf(r *perfdata.Recording, rec *perfdata.Record) int {
	var m perfdata.Mmap
	if (rec.Type == perfdata.RecordMMAP || rec.Type == perfdata.RecordMMAP2) && r.Mmap(rec, &m) == nil &&
		m.Time == 0 && m.PID > 0 && m.PID <= 1<<31-1 {
		return int(m.PID)
	}
	return DefaultGuest
}

// machineOfID returns the guest that an event id belongs to, 0 for the host.
func (s *scan) machineOfID(id uint64) int {
	if s.guests.ids {
		if ch := s.channels.get(id); ch != nil {
			return ch.machine
		}
	}
	return 0
}

// machineOf returns the machine that a record is about: 0 for the host, or a
// guest. It is safe for concurrent use after the scan.
func (s *scan) machineOf(rec *perfdata.Record, id *perfdata.SampleID) int {
	if machine := s.machineOfID(id.ID); machine != 0 {
		return machine
	}
	if isGuestMode(rec) {
		return guestOf(s.rec, rec)
	}
	return 0
}

// MachineOf returns the machine that a record is about: 0 for the host, a guest's PID,
// or DefaultGuest. id is the record's trailer. Records of other machines than
// Report.Guest say nothing about the image.
func (r *Replay) MachineOf(rec *perfdata.Record, id *perfdata.SampleID) int {
	return r.scanned().machineOf(rec, id)
}

// TaskMachineOf returns the machine whose kernel numbered the tasks of a record: that of its event. It
// is the host, 0, also if an event of the host recorded while a guest ran: the task is then the thread
// that ran the virtual CPU. id is the record's trailer.
func (r *Replay) TaskMachineOf(id *perfdata.SampleID) int {
	return r.scanned().machineOfID(id.ID)
}

// silentGuest reports whether the image is of a guest in which nothing was recorded.
func (s *scan) silentGuest() bool { return s.machine != s.listens }

// describeGuest fills in the report of a guest. All features of the header are the
// host's, except for build ids.
func (s *scan) describeGuest(core *kcore.Core) {
	rep := s.report
	rep.Guest = s.machine
	rep.Kernel, rep.Host = "", ""
	rep.CPUsAvailable, rep.CPUsOnline = s.cpus, s.cpus
	if core != nil {
		s.arch = architectureOf(core, "")
		rep.Arch = cmp.Or(s.arch.name, rep.Arch)
		s.arch.name = rep.Arch
	} // else it is the host's: KVM runs no other
}

// countVCPUs finds how many CPUs the guest has, and how many of them have events. It
// needs the names of all threads of the host.
func (s *scan) countVCPUs(whole bool) {
	if s.guests.hostLost || !whole {
		return
	}
	online := make(map[int64]bool)
	for _, ch := range s.channels.all {
		if ch.machine == s.machine && ch.cpu >= 0 {
			online[ch.cpu] = true
		}
	}
	if n := s.guests.vcpus(s.machine); n > 0 {
		s.report.CPUsAvailable, s.report.CPUsOnline = n, len(online)
	}
}

// coverGuest limits the coverage to the guest's records that perf inject keeps:
// guest_session__start of tools/perf/builtin-inject.c lists their types.
func (s *scan) coverGuest() {
	c := &s.report.Coverage
	if s.silentGuest() {
		for _, x := range []*Coverage{&c.Pokes, &c.KSymbols, &c.BPF, &c.Modules} {
			*x = Coverage{}
			x.none("nothing was recorded inside of this guest: that needs perf record in the guest, and perf inject --guest-data on the host")
		}
		return
	}
	c.BPF = Coverage{}
	c.BPF.none("perf inject leaves out what a guest records of BPF programs")
	c.Modules = Coverage{}
	c.Modules.none("perf inject leaves out a guest's samples, so also those of module loads and unloads")
	c.Modules.Limits[0].Reason = timeline.ModuleMayHaveGone
}
