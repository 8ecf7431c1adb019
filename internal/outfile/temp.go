// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// unfinished are the temporary files and directories of the process, and the directories
// that [Outputs.MkdirAll] made. The lock is held while any is made, renamed or removed, so
// that a signal finds all of them.
var unfinished struct {
	sync.Mutex
	paths map[string]bool
	dirs  []string
}

// removeEmpty removes the directories that MkdirAll made and that are empty: nothing was
// written there, because of an error or of a signal. It is called with the lock.
func removeEmpty() {
	for _, dir := range slices.Backward(unfinished.dirs) {
		os.Remove(dir) // fails if it is not empty
	}
	unfinished.dirs = nil
}

// tempName is how the names of temporary files begin.
const tempName = ".textreplay-"

// temporary makes a file or directory of a new name in dir, by create, and returns its path.
// A signal removes it until it is renamed or removed.
func temporary(dir string, create func(path string) error) (path string, err error) {
	unfinished.Lock()
	defer unfinished.Unlock()
	watchSignals()
	for range 100 {
		path = filepath.Join(dir, fmt.Sprintf("%s%016x", tempName, rand.Uint64()))
		if err = create(path); err == nil {
			if unfinished.paths == nil {
				unfinished.paths = make(map[string]bool)
			}
			unfinished.paths[path] = true
			return path, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return "", err
}

// IsTemporary reports whether a name is that of an output, a file or a directory, that a run of the
// program has not finished.
func IsTemporary(name string) bool {
	digits, ok := strings.CutPrefix(name, tempName)
	return ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// making calls fn, which makes something inside of a temporary directory, or a directory of
// unfinished.dirs.
func making(fn func() error) error {
	unfinished.Lock()
	defer unfinished.Unlock()
	watchSignals()
	return fn()
}

// renamed gives files their names, in order. If one cannot be renamed, it removes that one
// and those after it.
func renamed(files ...*File) error {
	unfinished.Lock()
	defer unfinished.Unlock()
	for i, f := range files {
		if f.temp == "" {
			continue // a pipe or a device, which was written directly
		}
		if err := os.Rename(f.temp, f.path); err != nil {
			for _, f := range files[i:] {
				if f.temp == "" {
					continue
				}
				os.Remove(f.temp)
				delete(unfinished.paths, f.temp)
			}
			return err
		}
		delete(unfinished.paths, f.temp)
		if !f.out.Unsynced && (i+1 == len(files) || filepath.Dir(files[i+1].path) != filepath.Dir(f.path)) {
			syncDir(filepath.Dir(f.path))
		}
	}
	return nil
}

// removed removes a temporary file or directory.
func removed(path string) {
	unfinished.Lock()
	defer unfinished.Unlock()
	os.RemoveAll(path)
	delete(unfinished.paths, path)
}

// Temp creates a file in the directory for temporary files that only the caller can read.
// The caller closes it. remove removes it; so does a signal, as for outputs.
func Temp() (f *os.File, remove func(), err error) {
	path, err := temporary(os.TempDir(), func(path string) (err error) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return f, func() { removed(path) }, nil
}

// signals is where the signals arrive that end a program.
var signals = make(chan os.Signal, 1)

// caught is where the signals go that end a program, nil if they end it.
var caught atomic.Pointer[chan os.Signal]

// SignalContext returns a context that ends with the first signal that would end the
// program, and that does not end it then. The second one ends it. It is for a program that
// works until it is stopped, and has called [RemoveOnSignals]. After release, the context
// has ended, and signals end the program again.
//
// Shells start a script's background jobs with SIGINT ignored. It ends such a program all the
// same, as it ends perf record, because nothing else would.
func SignalContext() (ctx context.Context, release func()) {
	unfinished.Lock()
	watchSignals()
	unfinished.Unlock()
	signal.Notify(signals, os.Interrupt)
	ctx, stop := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 1)
	caught.Store(&ch)
	go func() {
		select {
		case <-ch:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { caught.Store(nil); stop() }
}

// watch is which signals the program has asked for. It is used with the lock of unfinished.
var watch struct {
	wanted  bool // RemoveOnSignals was called
	all     bool // all of deadly are asked for
	waiting bool // removeOnSignal runs
}

// untidyAfter is how long a program runs before it asks for the signals in untidy.
const untidyAfter = 20 * time.Millisecond

// RemoveOnSignals makes the signals that end a program remove its unfinished
// outputs before they do so. Signals that the program was started to ignore, as by
// nohup, stay ignored. It is for main, to be called once.
//
// To ask for the first signal takes 0.2 ms: the Go runtime starts a thread for it. Most runs write no
// file, and many are over in a few milliseconds. So all signals are asked for when there is something
// to remove. Those that end a Go program in another way than die does are asked for after untidyAfter
// anyway. Within that time nobody sees how such a signal ends the program.
func RemoveOnSignals() {
	unfinished.Lock()
	defer unfinished.Unlock()
	watch.wanted = true
	if len(untidy) > 0 {
		time.AfterFunc(untidyAfter, func() {
			unfinished.Lock()
			defer unfinished.Unlock()
			ask(untidy)
		})
	}
}

// watchSignals asks for the signals that end the program, once, if the program has called
// RemoveOnSignals. It is called with the lock of unfinished, before anything is made.
func watchSignals() {
	if watch.wanted && !watch.all {
		watch.all = true
		ask(deadly)
	}
}

// ask asks for signals. It is called with the lock of unfinished.
func ask(list []os.Signal) {
	for _, s := range list {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	if !watch.waiting && len(list) > 0 {
		watch.waiting = true
		go removeOnSignal()
	}
}

// removeOnSignal waits for a signal, removes what is not complete, and ends the program.
func removeOnSignal() {
	s := <-signals
	if ch := caught.Swap(nil); ch != nil {
		*ch <- s
		s = <-signals
	}
	// The lock is kept: nothing is made from now on, or gets its name.
	unfinished.Lock()
	for path := range unfinished.paths {
		os.RemoveAll(path)
	}
	if areAlone() {
		removeEmpty()
	}
	die(s)
}
