// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/internal/web"
	"github.com/textreplay/textreplay/timeline/replay"
)

// webServer is the state of the command web.
type webServer struct {
	*app
	http      string
	noBrowser bool
	signals   func() (ctx context.Context, release func())
}

func (a *app) webCmd() *cobra.Command {
	w := &webServer{app: a, signals: outfile.SignalContext}
	cmd := &cobra.Command{
		Use:   "web [flags]",
		Short: "Show the recording in a browser",
		Long: `web serves pages about the recording and opens the browser: the verdict with coverage
over time, a map of all changes by address and time, the functions that changed, the
instructions of any function at any time, what differs between two times, the log, and
pprof's pages of the samples.

The server listens on 127.0.0.1 at a free port. Any program of this machine can connect to
it. --http names another address; with a host other than this machine's own, anyone who can
reach it can read the recording. A page of another site cannot. No page needs the network.

While perf writes the recording, or with -i - while it arrives, the pages show what is
there so far. Ctrl-C ends the server.`,
		Example: `  textreplay web
  textreplay web -i run7.data --http localhost:8080 --no-browser
  sudo perf record -a --kcore -e dummy -o - -- sleep 60 | textreplay web -i - --kcore kcore_dir`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return w.run() },
	}
	f := cmd.Flags()
	f.StringVar(&w.http, "http", "127.0.0.1:0", "listen at `HOST:PORT`; without HOST only this machine can connect, and port 0 is any free port")
	f.BoolVar(&w.noBrowser, "no-browser", false, "only print the address")
	return cmd
}

func (w *webServer) run() error {
	host, port, err := net.SplitHostPort(w.http)
	if err != nil {
		return usagef("--http %s: want HOST:PORT", w.http)
	}
	if host == "" {
		host = "localhost"
	}
	name := host
	if host == "localhost" {
		host = "127.0.0.1"
	}
	in := &webInput{app: w.app}
	defer in.close()
	if err := in.begin(); err != nil {
		return err
	}
	srv, err := web.New(web.Options{Alone: true, Open: in.open, Live: true, Problem: in.problem})
	if err != nil {
		return err
	}
	defer srv.Close()
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return outputError(err)
	}
	ctx, release := w.signals()
	defer release()
	go in.report(ctx)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	if ip, err := netip.ParseAddr(name); err == nil && ip.IsUnspecified() {
		w.warnf("anyone who can reach this machine can read the recording")
		name = "localhost"
	}
	url := "http://" + net.JoinHostPort(name, port) + "/"
	fmt.Fprintf(w.out, "%s\n", url)
	if err := w.out.Flush(); err != nil {
		return outputError(err)
	}
	if !w.noBrowser {
		if err := openBrowser(url); err != nil {
			w.sayf("the browser cannot be opened (%v): open the address above", err)
		}
	}
	return outputError(srv.Serve(ctx, l, name))
}

// openBrowser opens the browser of the desktop.
func openBrowser(url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait()
	return nil
}

// A webInput opens the recording, and opens it again when it has grown.
type webInput struct {
	*app
	spool   string // where standard input goes, "" if the recording is a file
	remove  func()
	arrived atomic.Bool // standard input has ended
	failed  chan error  // has the error of reading it, nil at its end
	broken  atomic.Pointer[string]
	opens   int // how often the recording was opened
}

// begin starts to read standard input.
func (in *webInput) begin() error {
	if in.input != "-" {
		return nil
	}
	f, remove, err := outfile.Temp()
	if err != nil {
		return outputError(err)
	}
	in.spool, in.remove, in.failed = f.Name(), remove, make(chan error, 1)
	go func() {
		_, err := io.Copy(f, in.stdin)
		in.failed <- errors.Join(err, f.Close())
		in.arrived.Store(true)
	}()
	return nil
}

func (in *webInput) close() {
	if in.remove != nil {
		in.remove()
	}
}

// report waits until standard input has ended. If it ended with an error, report writes a warning,
// and the pages show it.
func (in *webInput) report(ctx context.Context) {
	select {
	case <-ctx.Done():
	case err := <-in.failed: // never, if the recording is a file
		if err != nil {
			text := fmt.Sprintf("reading %s: %v: the pages show what came before", standardInput, err)
			in.broken.Store(&text)
			in.warnf("%s", text)
		}
	}
}

// problem returns what went wrong with standard input, "" if nothing did.
func (in *webInput) problem() string {
	if text := in.broken.Load(); text != nil {
		return *text
	}
	return ""
}

// open loads the recording as it is now.
func (in *webInput) open() (*web.Recording, error) {
	in.opens++
	for {
		last := in.spool == "" || in.arrived.Load()
		rec, err := in.load()
		if err == nil || last || in.opens > 1 {
			return rec, err
		}
		select {
		case err := <-in.failed:
			if err != nil {
				return nil, inputError(fmt.Errorf("reading %s: %w", standardInput, err))
			}
			in.arrived.Store(true)
		case <-time.After(200 * time.Millisecond):
			// Not enough has arrived.
		}
	}
}

func (in *webInput) load() (*web.Recording, error) {
	// A run of its own, which closes only what it opened.
	a := *in.app
	a.opened = nil
	if in.spool != "" {
		a.input, a.index = in.spool, "never"
	}
	if in.opens > 1 {
		a.progress.value = "never"
		a.index = "never" // it may grow again
	}
	var r *replay.Replay
	var err error
	if in.opens == 1 && in.spool == "" {
		if r, err = a.loadAndWarn(); err == nil {
			a.warnWindows("the lists of changes")
		}
	} else {
		r, err = a.load()
	}
	if err != nil {
		a.closeAll()
		return nil, err
	}
	if r.Index().Saved {
		// What was loaded stays in memory. The index, which has just been written, is
		// mapped, and pages touch little of it.
		a.closeAll()
		a.outputs = in.app.outputs // the index is not another output now
		if r, err = a.load(); err != nil {
			a.closeAll()
			return nil, err
		}
		debug.FreeOSMemory()
	}
	text, err := newWebText(&a, r)
	if err != nil {
		a.closeAll()
		return nil, err
	}
	return &web.Recording{Replay: r, Name: in.app.inputName(), Text: text, Close: a.closeAll}, nil
}
