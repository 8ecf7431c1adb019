// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/textreplay/textreplay/timeline/replay"
)

// hosts are the names by which a browser may ask. Another site can make its own name resolve to
// 127.0.0.1, and its pages could then read the answers (DNS rebinding). Their requests have the
// name of that site in the Host header, so that they can be refused.
type hosts struct {
	port  string
	names map[string]bool
	// anyAddress allows all numeric addresses: the server was asked to listen at all
	// addresses of the machine. DNS rebinding needs a name.
	anyAddress bool
}

func hostsOf(addr net.Addr, names []string) hosts {
	h := hosts{names: map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return h
	}
	h.port = port
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		h.anyAddress = true
		if name, err := os.Hostname(); err == nil {
			h.names[strings.ToLower(name)] = true
		}
	}
	h.names[strings.ToLower(host)] = true
	for _, name := range names {
		h.names[strings.ToLower(name)] = true
	}
	return h
}

// allows reports whether a Host header names the server.
func (h *hosts) allows(header string) bool {
	host, port, err := net.SplitHostPort(header)
	if err != nil {
		host, port = strings.Trim(header, "[]"), "80"
	}
	if port != h.port {
		return false
	}
	if h.names[strings.ToLower(strings.TrimSuffix(host, "."))] {
		return true
	}
	_, err = netip.ParseAddr(host)
	return h.anyAddress && err == nil
}

// refusal returns why a request is refused, "" if it is answered. A page of another site must
// not read anything. It may link to a page of this server.
func (s *Server) refusal(r *http.Request) string {
	if !s.hosts.allows(r.Host) {
		return "this server does not have the name " + r.Host
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return "another site asked"
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return ""
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return ""
	}
	return "another site asked"
}

// The content security policies. Everything is of this server.
const (
	ownPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	// pprof's pages have their scripts and styles inside.
	profilePolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// ServeHTTP answers a request, or refuses it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", ownPolicy)
	if strings.HasPrefix(r.URL.Path, profilePath) {
		h.Set("Content-Security-Policy", profilePolicy)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if why := s.refusal(r); why != "" {
		http.Error(w, "refused: "+why, http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// mostResponse is the greatest size of a response in bytes, except for static files and pprof's
// pages.
const mostResponse = 1 << 20

// A handler writes a page or data of a session into a buffer.
type handler func(q *request) error

// A request is a request for a page of a session.
type request struct {
	*http.Request
	*session
	srv    *Server
	body   bytes.Buffer
	typ    string // content type
	to     string // where to redirect, "" for nowhere
	status int
	early  bool // the answer was made before all changes were read
	kept   keptTime
}

// wait is that of the session. It notes whether the answer is made too early: its page is pending
// then, even if all changes have been read by the time when the frame of the page is written.
func (q *request) wait(ctx context.Context, most time.Duration) bool {
	if q.session.wait(ctx, most) {
		return true
	}
	select {
	case <-q.ready:
		q.early = q.session.err == nil // else they never will be
	default:
		q.early = true
	}
	return false
}

// handle returns a handler that answers from the current session. If the recording's file is
// truncated meanwhile, the answer is an error.
func (s *Server) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ses, err := s.acquire()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer ses.refs.Done()
		if r.URL.Path != "/state" {
			s.asked.Add(1)
		}
		stop := func() {}
		if r.URL.Path != "/map/tile" && ses.large {
			// Tiles touch none of the files, and come in great numbers.
			stop = unloading(ses.r.Unload)
		}
		q := &request{Request: r, session: ses, srv: s, typ: "text/html; charset=utf-8", status: http.StatusOK}
		q.kept = q.keptTime()
		err = func() error {
			defer stop() // also after a panic, which net/http recovers
			return replay.Guard(func() error { return h(q) })
		}()
		var question *replay.QuestionError
		var changed *replay.ChangedError
		switch {
		case err == nil && q.to != "":
			http.Redirect(w, r, q.to, http.StatusSeeOther)
			return
		case err == nil && q.body.Len() > mostResponse:
			err = errors.New("the answer would be larger than 1 MB; ask for less")
			fallthrough
		case err != nil:
			q.status = http.StatusInternalServerError
			if errors.As(err, &question) || errors.As(err, new(*RequestError)) {
				q.status = http.StatusBadRequest
			}
			if errors.As(err, &changed) {
				q.status = http.StatusServiceUnavailable
			}
			if errors.Is(err, errNotReady) {
				q.status = http.StatusServiceUnavailable
				w.Header().Set("Retry-After", "2")
			}
			if q.typ != "text/html; charset=utf-8" {
				http.Error(w, err.Error(), q.status)
				return
			}
			q.body.Reset()
			if e := q.page("error", "Error", &errorPage{Err: err.Error()}); e != nil {
				http.Error(w, err.Error(), q.status)
				return
			}
		}
		w.Header().Set("Content-Type", q.typ)
		w.WriteHeader(q.status)
		if r.Method == http.MethodGet {
			w.Write(q.body.Bytes())
		}
	}
}

// A RequestError is an error in a request, such as a parameter that is no number.
type RequestError struct{ Msg string }

func (e *RequestError) Error() string { return e.Msg }
