// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
)

// A Recorder records the running kernel. Its methods must be called by one goroutine.
type Recorder struct {
	opts   Options
	points []tracepoint
	events []*perfdata.Event // the dummy event, then one for each of points
	rings  []*ring           // by CPU
	poll   int               // epoll: rings, and news of the CPUs
	wake   int               // eventfd: Run is to look at done
	waking sync.Mutex        // of wake, which others may write to when the recorder is closed
	news   int               // netlink socket: CPUs that go online and offline; -1 if there is none
	mem    *memory           // nil if it cannot be read

	*piece
	number int  // of the piece
	made   bool // it has made the directory of the pieces

	opened   uint64       // when all events of the piece recorded
	listed   uint64       // when the CPUs without events were offline, but for those of blind
	blind    map[int]bool // CPUs whose events could not be opened when they were online
	awake    uint64       // CLOCK_BOOTTIME - CLOCK_MONOTONIC in ns: grows while the machine is suspended
	slept    bool         // the machine was suspended since awake was read
	copying  bool         // a copy is being made
	tried    time.Time    // when the last copy was begun
	again    bool         // and another one is to follow
	closing  bool         // no more copies are to be made than those that were asked for
	done     chan copied
	births   []uint32 // ids of programs that were loaded and not fetched yet
	images   images
	probes   *probes           // nil if the kernel records its changes of text itself, or none can be made
	steps    map[int]*cpuState // of CPUs that went offline since their events were opened
	stats    Stats
	warned   map[string]bool
	modified bool // a record was taken in this round
	lossy    bool // a LOST record was taken in this round
	told     bool // news has messages to read
	missed   bool // a LOST record was ever taken: steps of CPUs may be among the lost records
	failed   bool // a file could not be written, or a ring buffer not be read: the recording does not end cleanly
}

// copied is a finished copy, or why there is none.
type copied struct {
	entry journal.Copy
	bytes int
	err   error
	of    *piece
}

// now returns the time of the records' clock in nanoseconds.
func now() uint64 { return clock(unix.CLOCK_MONOTONIC) }

func clock(id int32) uint64 {
	var t unix.Timespec
	unix.ClockGettime(id, &t) // fails only for clocks that do not exist
	return uint64(t.Nano())
}

// Start opens the events and begins a recording. From its return on, everything is
// recorded; [Recorder.Run] must be called soon, or the ring buffers fill up. If Start
// fails it leaves nothing behind. Errors wrap [ErrOptions], [ErrLocked], or those of
// perf_event_open(2), or are *[os.PathError] of the directory.
func Start(opts Options) (*Recorder, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	opts.Dir = pathname.Plain(opts.Dir)
	releaseMemory() // of the program's start
	r := &Recorder{opts: opts, done: make(chan copied, 1), warned: make(map[string]bool), images: images{unread: make(map[uint64]image)}, blind: make(map[int]bool), steps: make(map[int]*cpuState), poll: -1, wake: -1, news: -1, awake: asleep()}
	if err := r.start(); err != nil {
		return nil, errors.Join(err, r.Discard())
	}
	return r, nil
}

// Discard ends a recorder that did not run, as where the command to be recorded cannot be started,
// and removes what it has made. It is called in place of [Recorder.Close].
func (r *Recorder) Discard() error {
	if r.copying {
		<-r.done // it would make files again
	}
	err := r.closeAll()
	if r.piece != nil {
		r.piece.close()
		os.RemoveAll(r.piece.dir)
	}
	if r.made {
		os.Remove(r.opts.Dir) // unless others use it
	}
	return err
}

func (r *Recorder) start() (err error) {
	if r.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if err := r.watch(r.wake, pollWake); err != nil {
		return err
	}
	r.listenForCPUs()
	r.check()
	switch {
	case r.opts.Pages != 0:
	case r.probes != nil:
		r.opts.Pages = max(DefaultPages, probeBytes/os.Getpagesize())
	default:
		r.opts.Pages = DefaultPages
	}
	r.events = []*perfdata.Event{sideBand()}
	for _, p := range r.points {
		r.events = append(r.events, tracepointEvent(p.name, p.id))
	}
	if err := r.openOnline(); err != nil {
		return err
	}
	r.opened = r.firstReading()
	r.listOffline()
	dir := r.opts.Dir
	if r.opts.MaxSize > 0 {
		err := os.Mkdir(dir, 0o700)
		if r.made = err == nil; err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if r.number, err = lastPiece(dir); err != nil {
			return err
		}
	}
	return r.begin()
}

// lastPiece returns the highest number of a piece in dir, 0 if there is none: a recorder that
// is started again continues behind it.
func lastPiece(dir string) (n int, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if i, err := strconv.Atoi(e.Name()); err == nil && e.Name() == PieceName(i) {
			n = max(n, i)
		}
	}
	return n, err
}

// asleep returns how long the machine has been suspended since it was booted, in nanoseconds.
func asleep() uint64 {
	t := now()
	return clock(unix.CLOCK_BOOTTIME) - t
}

// What epoll says is ready: the ring of a CPU by the CPU's number, or one of these.
const (
	pollWake = -1 - iota
	pollNews
)

func (r *Recorder) watch(fd int, what int32) error {
	return unix.EpollCtl(r.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: what})
}

func (r *Recorder) warn(err error) {
	if err == nil || r.opts.Warn == nil || r.warned[err.Error()] {
		return
	}
	r.warned[err.Error()] = true
	r.opts.Warn(err)
}

// onlineCPUs returns the numbers of the CPUs that are online, ascending.
func onlineCPUs() ([]int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return parseCPUs(strings.TrimSpace(string(b)))
}

// parseCPUs reads a list of CPUs as the kernel prints it, as 0-3,8.
func parseCPUs(s string) (cpus []int, err error) {
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi >= maxCPUs {
			return nil, fmt.Errorf("a list of CPUs: %q", s)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

const maxCPUs = 1 << 16

// openOnline opens the events on the CPUs that are online, and maps their ring buffers. It fails
// if that is not allowed, or not possible on any. A CPU on which the kernel has no room for them
// is not recorded; the journal says so.
func (r *Recorder) openOnline() error {
	var blind []*Limit
	for again := true; again; { // until all that are in the list are open: the others are offline
		again = false
		r.listed = now()
		cpus, err := onlineCPUs()
		if err != nil {
			return err
		}
		for _, cpu := range cpus {
			if r.ringOf(cpu) >= 0 || r.blind[cpu] {
				continue
			}
			g, err := r.newRing(cpu)
			switch {
			case err == nil:
				r.insert(g)
				again = true
			case errors.Is(err, unix.ENODEV): // it went offline
			case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES): // all that is known would be lost
				return err
			default:
				r.blind[cpu] = true
				blind = append(blind, blindLimit(cpu, err))
			}
		}
	}
	switch {
	case len(r.rings) > 0:
	case len(blind) > 0:
		return fmt.Errorf("%w; %s", blind[0].Err, blind[0].Remedy)
	default:
		return errors.New("no CPU is online")
	}
	for _, l := range blind {
		r.warn(l)
	}
	return nil
}

// blindLimit says that the events of a CPU cannot be opened.
func blindLimit(cpu int, err error) *Limit {
	remedy := "start a new recording"
	switch {
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
		remedy = "allow more open files (ulimit -n, fs.file-max), and start a new recording"
	case errors.Is(err, unix.ENOMEM):
		remedy = "make the ring buffers smaller (-m), and start a new recording"
	}
	return &Limit{What: fmt.Sprintf("what CPU %d changes from now on is unknown, and so is all kernel text", cpu), Remedy: remedy, Err: err}
}

// listOffline notes that each CPU without events is offline now, if that is so.
func (r *Recorder) listOffline() {
	at := now()
	cpus, err := onlineCPUs()
	if err == nil && !slices.ContainsFunc(cpus, func(cpu int) bool { return r.ringOf(cpu) < 0 && !r.blind[cpu] }) {
		r.listed = at
	}
}

// insert adds a ring buffer, in the order of CPUs.
func (r *Recorder) insert(g *ring) {
	at := 0
	for at < len(r.rings) && r.rings[at].cpu < g.cpu {
		at++
	}
	r.rings = slices.Insert(r.rings, at, g)
}

// newRing opens the events on a CPU, which write into one new ring buffer. If there is no room for
// a waker, each record wakes the recorder.
func (r *Recorder) newRing(cpu int) (*ring, error) {
	if waker, err := openWaker(cpu); err == nil {
		if g, err := r.openRing(cpu, waker); err == nil {
			return g, nil
		}
	}
	return r.openRing(cpu, nil)
}

// openRing opens the events on a CPU. waker may be nil; if openRing fails, waker is closed.
func (r *Recorder) openRing(cpu int, waker *ring) (g *ring, err error) {
	g = &ring{cpu: cpu, waker: waker}
	r.events[0].Attr.WakeupEvents = 1 // bytes
	if waker != nil {
		r.events[0].Attr.WakeupEvents = uint32(r.opts.Pages * os.Getpagesize() / wakePart)
	}
	for i, e := range r.events {
		var fd int
		if fd, err = openEvent(e, cpu); err != nil {
			break
		}
		if i == 0 {
			var mapped *ring
			if mapped, err = mapRing(fd, cpu, r.opts.Pages); err != nil {
				unix.Close(fd)
				break
			}
			mapped.waker = waker
			g = mapped
		}
		g.fds = append(g.fds, fd)
		var id uint64
		if id, err = eventID(fd); err != nil {
			break
		}
		g.ids, g.lost = append(g.ids, id), append(g.lost, 0)
		if i > 0 {
			if err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, g.fds[0]); err != nil {
				err = fmt.Errorf("PERF_EVENT_IOC_SET_OUTPUT on CPU %d: %w", cpu, err)
				break
			}
		}
	}
	if err == nil {
		err = r.watch(g.fds[0], int32(cpu))
	}
	if err == nil && waker != nil {
		err = r.watch(waker.fds[0], int32(cpu))
	}
	if err != nil {
		g.close()
		return nil, err
	}
	g.opened = now()
	return g, nil
}

// Run records until ctx is done, and then returns nil. Every 0.2 s it writes the records that
// it has taken to the files, so that a killed recorder loses no more than those of that time.
// Errors are those of writing the files and of epoll_wait(2). [Recorder.Close] must follow in
// each case.
func (r *Recorder) Run(ctx context.Context) error {
	err := r.run(ctx)
	r.failed = r.failed || err != nil
	return err
}

func (r *Recorder) run(ctx context.Context) error {
	if err := r.removeOld(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, r.nudge)
	defer stop()
	next := time.Now().Add(r.opts.SnapshotEvery)
	flush := time.Now()
	for ctx.Err() == nil {
		if err := r.turn(); err != nil {
			return err
		}
		if r.opts.SnapshotEvery > 0 && time.Now().After(next) {
			r.copy()
			next = time.Now().Add(r.opts.SnapshotEvery)
		}
		if err := r.count(false); err != nil {
			return err
		}
		if time.Since(flush) >= flushInterval {
			if err := r.flush(); err != nil {
				return err
			}
			flush = time.Now()
			r.slept = asleep() > r.awake+suspendLeast
			if !r.based && !r.copying && time.Since(r.tried) >= retryAfter {
				r.copy() // the first copy has failed
			}
			if r.opts.MaxSize > 0 && r.size >= r.opts.MaxSize && !r.copying {
				if err := r.rotate(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// turn waits until there is something to take, for flushInterval at most, and takes it: records,
// and a copy that is finished.
func (r *Recorder) turn() error {
	var ready [16]unix.EpollEvent
	n, err := unix.EpollWait(r.poll, ready[:], int(flushInterval/time.Millisecond))
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("epoll_wait: %w", err)
	}
	r.woken(ready[:max(n, 0)])
	if err := r.round(); err != nil {
		return err
	}
	select {
	case c := <-r.done:
		return r.finishCopy(c)
	default:
		return nil
	}
}

// woken handles what epoll_wait(2) returned. All ring buffers are drained afterwards.
func (r *Recorder) woken(events []unix.EpollEvent) {
	for _, e := range events {
		switch {
		case e.Fd == pollNews:
			r.told = true
		case e.Fd == pollWake:
			var b [8]byte
			unix.Read(r.wake, b[:])
		case e.Fd >= 0 && e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0:
			// The event is dead since its CPU went offline. epoll would report that at once,
			// again and again, until the CPU is back and has new events.
			if i := r.ringOf(int(e.Fd)); i >= 0 {
				unix.EpollCtl(r.poll, unix.EPOLL_CTL_DEL, r.rings[i].fds[0], nil)
				if w := r.rings[i].waker; w != nil {
					unix.EpollCtl(r.poll, unix.EPOLL_CTL_DEL, w.fds[0], nil)
				}
			}
		}
	}
}

// ringOf returns the index of a CPU's ring buffer, -1 if it has none.
func (r *Recorder) ringOf(cpu int) int {
	return slices.IndexFunc(r.rings, func(g *ring) bool { return g.cpu == cpu })
}

const flushInterval = 200 * time.Millisecond

// retryAfter is the time after which a first copy that failed is tried again. Tests change it.
var retryAfter = time.Minute

// nudge makes Run look at what changed. Any goroutine may call it, also when the recorder is closed.
func (r *Recorder) nudge() {
	r.waking.Lock()
	defer r.waking.Unlock()
	if r.wake >= 0 { // else another file may have its number
		unix.Write(r.wake, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// Stats returns what was recorded so far. Like the other methods, it must not be called
// during Run.
func (r *Recorder) Stats() Stats { return r.stats }

// Close waits for a copy of text that is being made, takes the records that the ring buffers
// still have, ends the recording, closes the events and removes the probes. It must be called
// once. If something could not be written, the recording is left as a recorder that is killed
// leaves it: it is known up to the last round, and does not say that it has all records.
func (r *Recorder) Close() error {
	var err error
	r.closing = true
	for r.copying && err == nil && !r.failed {
		err = r.turn() // else the ring buffers would be full before the copy is made
	}
	if r.copying {
		<-r.done
	}
	if r.failed = r.failed || err != nil; r.failed {
		err = errors.Join(err, r.piece.close())
	} else {
		err = r.lastRound()
	}
	return errors.Join(err, r.closeAll())
}

// closeAll closes the events, and removes the probes that they were on.
func (r *Recorder) closeAll() error {
	for _, g := range r.rings {
		g.close()
	}
	r.rings = nil
	r.waking.Lock()
	defer r.waking.Unlock()
	for _, fd := range []*int{&r.poll, &r.wake, &r.news} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	if r.mem != nil {
		r.mem.close()
		r.mem = nil
	}
	return r.removeProbes()
}

// rotate ends the piece and begins the next one. The events stay open, so that no record is
// missed: those that are taken from now on go into the next piece.
func (r *Recorder) rotate() error {
	if err := r.lastRound(); err != nil {
		return err
	}
	r.openBlind()
	r.opened = r.firstReading()
	r.listOffline()
	if err := r.begin(); err != nil {
		return err
	}
	return r.removeOld()
}

// removeOld removes the oldest pieces if there are too many.
func (r *Recorder) removeOld() error {
	if r.opts.MaxPieces == 0 {
		return nil
	}
	entries, err := os.ReadDir(r.opts.Dir)
	for _, e := range entries {
		if i, bad := strconv.Atoi(e.Name()); e.IsDir() && bad == nil && e.Name() == PieceName(i) && i <= r.number-r.opts.MaxPieces {
			err = errors.Join(err, removePiece(r.pieceDir(i)))
		}
	}
	return err
}

// removePiece removes a piece that a recorder made. The user may keep other directories there
// whose names are numbers: without a recorder's journal, only an empty one is removed. The
// journal is removed last, so that the next recorder can finish what a killed one began.
func removePiece(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has removed it
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		if fi, err := os.Lstat(filepath.Join(dir, journal.Name)); err != nil || !fi.Mode().IsRegular() {
			return nil
		}
	}
	for _, e := range entries {
		if e.Name() != journal.Name {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// Dir returns the directory of the recording, or of the piece that is being written.
func (r *Recorder) Dir() string { return r.dir }

// lastRound takes the records that the ring buffers have, and ends the piece. If it fails, the
// piece has no end.
func (r *Recorder) lastRound() error {
	if err := errors.Join(r.round(), r.count(true)); err != nil {
		return errors.Join(err, r.piece.close())
	}
	ended := now()
	if err := errors.Join(r.round(), r.end(ended)); err != nil {
		return errors.Join(err, r.piece.close())
	}
	return nil
}

// pieceDir returns the directory of a piece, which is counted from 1.
func (r *Recorder) pieceDir(n int) string {
	if r.opts.MaxSize == 0 {
		return r.opts.Dir
	}
	return filepath.Join(r.opts.Dir, PieceName(n))
}
