// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package web shows a recording in a browser.
//
// A [Server] serves the pages: an overview, a map of all changes over address and time,
// the instructions of a function at any time, what differs between two times, a log, and
// pprof's pages of the samples. [WriteReport] writes the same pages for a window of time as
// one file.
//
// A request is answered from a session: a recording, its image, and the changes as columns
// of plain numbers (trail.go). When the recording has grown, the next session replaces it.
//
//	recording ──► session ──► trail      each change: time, place, writer        trail.go
//	                     ├──► axis       addresses without the holes between      axis.go
//	                     └──► plane      the map, cut into tiles                  tile.go
//	request ──► guard ──► page ──► template                     guard.go, pages.go, templates/
//
// overview.go, functions.go, code.go, diff.go, log.go, search.go, map.go and profile.go have one
// page each; report.go has them in one file. data.go has the part of the search page about a
// symbol that is data, and references.go finds the code that uses it.
//
// Pages are whole without scripts, except for the map. Scripts and styles are embedded,
// and no page refers to another host.
package web

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

//go:embed static templates
var content embed.FS

// A Recording is a loaded recording with the words for what is in it.
type Recording struct {
	Replay *replay.Replay
	Text   Text
	// Close releases the recording. It is called once, when no request needs it any more.
	Close func()
	// Name is what the pages call the recording, "" for the path of its file.
	Name string
}

// Text puts what a recording holds into the words that the command line prints. It must be
// safe for concurrent use.
type Text interface {
	// Verdict returns the first line of `textreplay info` and its level: "none" if all text is
	// known at no time, "partly" if changes are missing or in conflict, else "good".
	Verdict() (line, level string)
	// Insts decodes the instructions of v in [addr, addr+n), the last one whole if the
	// image has its bytes. If over is not nil, its bytes replace those of the image at
	// addr. It returns nil if there are no bytes.
	Insts(v timeline.View, addr, n uint64, over []byte) []disasm.Inst
	// Name returns the name of an address as of v's time, "" if it has none.
	Name(v timeline.View, addr uint64) string
	// Heading is Name with the other names of a function.
	Heading(v timeline.View, addr uint64) string
	// Named returns the code that [MODULE:]NAME means, as log --symbol takes it. If there is none, the
	// error is a *replay.QuestionError.
	Named(symbol string) (*NamedCode, error)
	// Trap says what a CPU that meets the trap of a window does; "" if that is unknown.
	Trap(v timeline.View, w *timeline.Window) string
	// Diff compares two times: the code of the function symbol, or all text if it is "". It lists
	// at most most places.
	Diff(from, to replay.Times, symbol string, most int) (*Diff, error)
}

// A NamedCode is the code that a name means.
type NamedCode struct {
	// Symbols have the name at the first record; if none has it then, those of any other time.
	Symbols []timeline.Symbol
	// Has reports whether the code at addr has the name at v's time. name is the name that a record of
	// a symbol has itself, or "".
	Has func(v timeline.View, addr uint64, name string) bool
}

// A Diff is what differs between two times.
type Diff struct {
	Summary string
	Places  []DiffPlace
	More    int // places that are not listed
	// Warnings say where the answer changes within one of the two times, which may be intervals:
	// it is for their start.
	Warnings []string
}

// A DiffPlace is a place that differs.
type DiffPlace struct {
	Change        string // "bytes", "gone", "came"
	Addr, Len     uint64
	Name          string
	Before, After string // instructions; "" if it is not there
}

// Options are the options of [New].
type Options struct {
	// Open loads the recording. The server calls it again each time that a file of the recording
	// has changed, from one goroutine at a time.
	Open func() (*Recording, error)
	// Live says that the recording may grow, so that pages ask the server for a newer one.
	Live bool
	// Alone says that the process does nothing but serve the pages. Then the server sets the
	// process's memory limit to what the pages need.
	Alone bool
	// Problem, if set, returns what is wrong with the input, "" if nothing is. Each page shows it, so it
	// must be safe for concurrent use.
	Problem func() string
}

// A Server serves the pages of a recording. It is safe for concurrent use.
type Server struct {
	opts     Options
	hosts    hosts
	mux      *http.ServeMux
	profiles profiles

	mu      sync.Mutex
	current *session // nil after Close
	stop    chan struct{}
	watched sync.WaitGroup
	asked   atomic.Uint64 // how many requests there were
}

// New loads the recording and returns a server of its pages. The caller closes it. Errors are
// those of Options.Open. New lowers the process's GC percentage to 25.
func New(opts Options) (*Server, error) {
	if opts.Problem == nil {
		opts.Problem = func() string { return "" }
	}
	rec, err := opts.Open()
	if err != nil {
		return nil, err
	}
	// Nearly all that is allocated stays, so a slow collector would double the memory.
	debug.SetGCPercent(25)
	s := &Server{opts: opts, current: newSession(rec, 1), stop: make(chan struct{})}
	if opts.Alone {
		ready := s.current.ready
		go func() {
			<-ready
			limitMemory()
		}()
	}
	s.routes()
	s.watched.Add(1)
	go s.watch()
	return s, nil
}

// Close makes the server refuse further requests. The recording is released when the last
// request has been answered, which may be after Close returns. Close must be called once.
func (s *Server) Close() {
	close(s.stop)
	s.watched.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.release()
	s.current = nil
}

// Serve answers requests at l until ctx is done. Then it waits at most 2 seconds for those that
// have begun, and returns nil. A browser may name the server by l's address, localhost, or one of
// names. Serve must be called once. The error is that of [http.Server.Serve].
func (s *Server) Serve(ctx context.Context, l net.Listener, names ...string) error {
	s.hosts = hostsOf(l.Addr(), names)
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 16,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		srv.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// acquire returns the current session, which the caller releases.
func (s *Server) acquire() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, errors.New("the server is closed")
	}
	s.current.refs.Add(1)
	return s.current, nil
}

// watch loads the recording again when its files have changed. After that it waits ten times as
// long as loading took. So a recording that grows all the time takes a tenth of a CPU.
func (s *Server) watch() {
	defer s.watched.Done()
	pause := time.Second
	unloaded := uint64(0)
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(pause):
		}
		pause = time.Second
		cur := s.current // only this goroutine replaces it
		if n := s.asked.Load(); n != unloaded {
			// The pages of files that the last requests have touched are not needed soon.
			unloaded = n
			cur.r.Unload()
			debug.FreeOSMemory()
		}
		select {
		case <-cur.ready:
		default:
			continue
		}
		if !cur.changed() {
			cur.stale.Store(false)
			continue
		}
		began := time.Now()
		if s.opts.Alone {
			debug.SetMemoryLimit(math.MaxInt64) // for a while there are two sessions
		}
		rec, err := s.opts.Open()
		if err != nil {
			cur.stale.Store(true)
			if s.opts.Alone {
				limitMemory()
			}
			pause = 5 * time.Second
			continue
		}
		next := newSession(rec, cur.number+1)
		select {
		case <-next.ready:
		case <-s.stop:
		}
		s.mu.Lock()
		s.current = next
		s.mu.Unlock()
		s.profiles.forget()
		cur.release()
		if s.opts.Alone {
			go func() {
				cur.refs.Wait()
				limitMemory()
			}()
		}
		pause = max(pause, 10*time.Since(began))
	}
}

// limitMemory sets the process's memory limit a few megabytes above what it has now. So the
// collector runs more often, and the garbage of requests stays small.
func limitMemory() {
	const garbage = 4 << 20
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + garbage)
}

// A session is a recording with what its pages need.
type session struct {
	rec    *Recording
	r      *replay.Replay
	text   Text
	number int
	refs   sync.WaitGroup // requests, and the goroutine that runs prepare
	files  []openedFile   // of the recording
	large  bool           // the files should not stay in memory
	stale  atomic.Bool    // the files have changed, and cannot be read

	ready chan struct{}    // closed when prepare has ended; before, only the above may be read
	err   error            // of prepare: if it is set, the rest is not there
	whole func() *overview // the overview of the whole recording
	trail *trail
	axis  *axis
	plane *plane
	spans []lifespan
}

// name returns the name of the recording.
func (s *session) name() string { return cmp.Or(s.rec.Name, s.r.Recording.Path()) }

// An openedFile is a file of the recording, as it was when it was opened.
type openedFile struct {
	path string
	info fs.FileInfo
}

func newSession(rec *Recording, number int) *session {
	s := &session{rec: rec, r: rec.Replay, text: rec.Text, number: number, ready: make(chan struct{})}
	s.large = s.r.Recording.Size() >= 16<<20
	for i, path := range s.r.Recording.Files() {
		// Not what stat says of it now: it may have grown while it was read.
		if info := s.r.Recording.FileInfo(i); info != nil {
			s.files = append(s.files, openedFile{path, info})
		}
	}
	s.refs.Add(1)
	go func() {
		defer s.refs.Done()
		defer close(s.ready)
		s.err = replay.Guard(s.prepare)
	}()
	return s
}

// prepare reads all changes.
func (s *session) prepare() (err error) {
	// Nearly all that is allocated stays. A slow collector would double the memory.
	defer debug.FreeOSMemory()
	s.spans = lifespans(s.r.Image)
	if s.trail, err = newTrail(s.r, usualLimits); err != nil {
		return err
	}
	s.axis = newAxis(s.r.Image, s.trail.sites)
	from, to := s.extent()
	s.plane = newPlane(s.trail, s.axis, from, to)
	s.plane.windows = s.r.Windows()
	s.whole = sync.OnceValue(func() *overview { return s.overviewOf(from, to, true, true) })
	s.r.Unload()
	return nil
}

// extent returns the times of the first and of the newest record, in nanoseconds; from < to.
func (s *session) extent() (from, to uint64) {
	rep := s.r.Report
	return rep.First, max(rep.Last, rep.Horizon, rep.First+1)
}

// changed reports whether a file of the recording has changed.
func (s *session) changed() bool {
	for _, f := range s.files {
		now, err := os.Stat(f.path)
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			continue // it is mapped, and stays what it was
		}
		if err != nil || !mapfile.Unchanged(f.info, now) {
			return true
		}
	}
	return false
}

// release closes the recording when the last request has been answered.
func (s *session) release() {
	go func() {
		s.refs.Wait()
		s.rec.Close()
	}()
}

// wait waits until prepare has ended, at most for most or until ctx is done. It reports whether
// the rest of the session is there.
func (s *session) wait(ctx context.Context, most time.Duration) bool {
	select {
	case <-s.ready:
		return s.err == nil
	default:
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-s.ready:
		return s.err == nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// notReady returns the error of a page that needs what prepare makes, after wait failed.
func (s *session) notReady() error {
	select {
	case <-s.ready:
		if s.err != nil {
			return fmt.Errorf("the changes cannot be read: %w", s.err)
		}
	default:
	}
	return errNotReady
}

var errNotReady = errors.New("the changes of the recording are still being read; try again in a moment")
