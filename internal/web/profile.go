// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/pprofexport"
	"github.com/textreplay/textreplay/timeline/replay"
)

// profilePath is where pprof's pages are.
const profilePath = "/profile/"

// profiles has pprof's handlers of one session, mostly the current one. pprof keeps its
// configuration in global variables, so its handlers are made under a lock.
type profiles struct {
	mu       sync.Mutex
	number   int // of the session; 0: none
	handlers map[string]http.Handler
	err      error
}

func (p *profiles) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number, p.handlers, p.err = 0, nil, nil
}

// serveProfile answers with one of pprof's pages.
func (s *Server) serveProfile(w http.ResponseWriter, r *http.Request) {
	ses, err := s.acquire()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer ses.refs.Done()
	path := "/" + strings.TrimPrefix(r.URL.Path, profilePath)
	if path == "/" {
		// The graph, which is pprof's first page, needs graphviz.
		http.Redirect(w, r, profilePath+"flamegraph", http.StatusSeeOther)
		return
	}
	if path == "/saveconfig" || path == "/deleteconfig" {
		http.Error(w, "this server does not keep settings", http.StatusForbidden)
		return
	}
	err = replay.Guard(func() error {
		handlers, err := s.profiles.of(ses)
		if err != nil {
			return err
		}
		h := handlers[path]
		if h == nil {
			http.NotFound(w, r)
			return nil
		}
		h.ServeHTTP(w, r)
		return nil
	})
	if err != nil {
		q := &request{Request: r, session: ses, srv: s}
		text := "The samples cannot be shown: " + err.Error() + "."
		if errors.Is(err, pprofexport.ErrNoSamples) {
			text = "The recording has no samples. Record with an event that samples, for example -e cycles."
		}
		if q.page("error", "Profile", &errorPage{Err: text}) == nil {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(http.StatusNotFound)
			w.Write(q.body.Bytes())
		}
	}
}

// of returns the handlers of a session.
func (p *profiles) of(s *session) (map[string]http.Handler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.number == s.number {
		return p.handlers, p.err
	}
	p.number, p.handlers = s.number, nil
	prof, _, err := pprofexport.Profile(s.r, pprofexport.Options{Labels: pprofexport.LabelComm | pprofexport.LabelCPU})
	if err != nil {
		p.err = err
		return nil, err
	}
	// Kernel code is disassembled by the image. Nothing else is looked for on this machine.
	f := flag.NewFlagSet("pprof", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	p.err = driver.PProf(&driver.Options{
		Flagset: &flags{FlagSet: f, args: []string{"-http=localhost:0", "-no_browser", "-symbolize=none", "recording"}},
		Fetch:   fetched{prof},
		Obj:     &objects{s, sampledIn(prof)},
		Sym:     noSymbols{},
		UI:      quiet{},
		HTTPServer: func(args *driver.HTTPServerArgs) error {
			p.handlers = args.Handlers
			return nil
		},
	})
	if p.err == nil && p.handlers == nil {
		p.err = errors.New("pprof has no pages")
	}
	return p.handlers, p.err
}

// flags are pprof's arguments.
type flags struct {
	*flag.FlagSet
	args []string
}

func (f *flags) StringList(name, def, usage string) *[]*string {
	list := &[]*string{}
	f.Func(name, usage, func(s string) error { *list = append(*list, &s); return nil })
	return list
}

func (f *flags) ExtraUsage() string   { return "" }
func (f *flags) AddExtraUsage(string) {}

func (f *flags) Parse(usage func()) []string {
	if f.FlagSet.Parse(f.args) != nil {
		return nil
	}
	return f.Args()
}

// fetched is a profile that is in memory.
type fetched struct{ p *profile.Profile }

func (f fetched) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return f.p.Copy(), "", nil
}

// noSymbols leaves the names as they are.
type noSymbols struct{}

func (noSymbols) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

// objects disassembles kernel code as it was at the end of the recording.
type objects struct {
	s       *session
	sampled []uint64 // the addresses of the profile, ascending
}

// sampledIn returns the addresses of a profile, ascending.
func sampledIn(p *profile.Profile) (addrs []uint64) {
	for _, l := range p.Location {
		addrs = append(addrs, l.Address)
	}
	slices.Sort(addrs)
	return addrs
}

func (o *objects) Open(file string, start, limit, offset uint64, relocation string) (driver.ObjFile, error) {
	return &object{o, file, start, limit}, nil
}

func (o *objects) Disasm(file string, start, end uint64, intel bool) ([]driver.Inst, error) {
	const most = 1 << 18
	if end < start || end-start > most {
		return nil, fmt.Errorf("%s: %#x bytes are too many", file, end-start)
	}
	v := o.s.r.Image.At(o.s.r.Report.Horizon)
	var out []driver.Inst
	for at := start; at < end; {
		insts := o.s.text.Insts(v, at, end-at, nil)
		if len(insts) == 0 {
			break
		}
		for _, in := range insts {
			name := ""
			if sym, ok := v.Symbol(in.Addr); ok {
				name = sym.Name
			}
			out = append(out, driver.Inst{Addr: in.Addr, Text: in.Text, Function: name})
			at = in.Addr + uint64(max(len(in.Bytes), 1))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the recording has no bytes of %#x..%#x", start, end)
	}
	return out, nil
}

// object is the code of a mapping, whose addresses are those of the kernel.
type object struct {
	*objects
	name         string
	start, limit uint64 // the mapping has the addresses from start up to limit
}

func (o *object) Name() string                              { return o.name }
func (o *object) ObjAddr(addr uint64) (uint64, error)       { return addr, nil }
func (o *object) BuildID() string                           { return "" }
func (o *object) SourceLine(uint64) ([]driver.Frame, error) { return nil, nil }
func (o *object) Close() error                              { return nil }

// Symbols returns the function of the mapping with an address, whatever its name. If addr is 0, it
// returns the functions of the mapping with samples whose names match. pprof asks for those of each
// mapping, and goes through all addresses of the profile for each function.
func (o *object) Symbols(r *regexp.Regexp, addr uint64) ([]*driver.Sym, error) {
	var out []*driver.Sym
	add := func(s *timeline.Symbol) {
		if s.Size > 0 && o.start <= s.Addr && s.Addr < o.limit {
			out = append(out, &driver.Sym{Name: []string{s.Name}, File: o.name, Start: s.Addr, End: s.Addr + s.Size - 1})
		}
	}
	if addr != 0 {
		if s, ok := o.s.r.Image.At(o.s.r.Report.Horizon).Symbol(addr); ok && addr-s.Addr < s.Size {
			add(&s)
		}
		return out, nil
	}
	for s := range o.s.r.TableSymbols {
		i, _ := slices.BinarySearch(o.sampled, s.Addr)
		if i < len(o.sampled) && o.sampled[i]-s.Addr < s.Size && (r == nil || r.MatchString(s.Name)) {
			add(&s.Symbol)
		}
	}
	return out, nil
}

// quiet is pprof's way to print; it prints nothing.
type quiet struct{}

func (quiet) ReadLine(string) (string, error)     { return "", io.EOF }
func (quiet) Print(...any)                        {}
func (quiet) PrintErr(...any)                     {}
func (quiet) IsTerminal() bool                    { return false }
func (quiet) WantBrowser() bool                   { return false }
func (quiet) SetAutoComplete(func(string) string) {}
