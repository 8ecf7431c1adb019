// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

const (
	standardInput = "standard input"
	defaultInput  = "perf.data"
)

// load reads the recording that the global flags name. Warnings stay in the
// report.
func (a *app) load() (*replay.Replay, error) { return a.loadFor("", 0) }

// loadFor is load for a single question about n bytes at addr, or about
// anything if addr is "". If kallsyms has the address, the image has only its
// surroundings, which takes a fraction of the time.
func (a *app) loadFor(addr string, n uint64) (*replay.Replay, error) {
	// Nearly everything that loading allocates is the image, which stays. At
	// the usual pace the collector would scan it again and again. After a single
	// question, it would begin when the program is about to end.
	if pace := debug.SetGCPercent(400); addr == "" {
		defer debug.SetGCPercent(pace)
	}
	opts, err := a.options()
	if err != nil {
		return nil, err
	}
	if err := a.indexFor(&opts, addr != ""); err != nil {
		return nil, err
	}
	opts.Windows = a.notesRuns || addr != ""
	if addr != "" {
		opts.Only = func(k *kcore.Kallsyms) []timeline.Range { return replay.Near(k, addr, n) }
	}
	if bar := a.bar(); bar != nil {
		opts.Progress = bar.update
		defer bar.clear()
	}
	path, remove, err := a.spooled(a.input)
	if err != nil {
		return nil, err
	}
	defer remove() // once mapped, the file needs no name
	r, err := replay.Load(path, opts)
	if a.input == "-" {
		err = nameStandardInput(err, path)
		if err == nil {
			for i, w := range r.Report.Warnings {
				r.Report.Warnings[i] = nameStandardInput(w, path)
			}
		}
	}
	if err == nil {
		a.reportIndex(r, opts.SaveIndex && a.index != "auto")
		a.opened = append(a.opened, r)
		if err := a.reads(r.Files()...); err != nil {
			return nil, err
		}
		return r, nil
	}
	var missing *fs.PathError
	if errors.As(err, &missing) && errors.Is(err, fs.ErrNotExist) && missing.Path == defaultInput && a.input == defaultInput {
		err = fmt.Errorf("%w; -i REC names the recording", err)
	}
	if a.input != "-" {
		if why := whyEmpty(a.input); why != "" {
			err = fmt.Errorf("%w\n%s", err, why)
		}
	}
	return nil, a.loadError(err)
}

// options are what the global flags say of a recording, apart from its index.
func (a *app) options() (replay.Options, error) {
	opts := replay.Options{Kallsyms: a.kallsyms, Modules: a.modules, Guest: a.guest.pid, CPUs: a.cpus,
		Copies: a.copies, Vmlinux: a.vmlinux, ProbeCounters: a.counters, Formats: a.formats}
	if len(a.kcore) > 0 {
		opts.KCore = a.kcore[0]
	}
	if a.windows != "" {
		var err error
		if opts.Explicit, err = readWindows(a.windows); err != nil {
			return opts, inputError(err)
		}
		a.hasWindows = len(opts.Explicit) > 0
	}
	return opts, nil
}

// noneOfOne refuses the flags that say something of one recording, where there are several.
func (a *app) noneOfOne() error {
	if cmp.Or(a.kallsyms, a.modules, a.vmlinux, a.windows, a.formats) != "" || len(a.kcore)+len(a.copies)+len(a.counters) > 0 {
		return usagef("--kcore, --kallsyms, --modules, --vmlinux, --windows, --probe-counters and --formats are for a single recording")
	}
	return a.noIndexFile()
}

// noIndexFile refuses a file for the saved index, where none is made.
func (a *app) noIndexFile() error {
	if a.index != "auto" && a.index != "never" {
		return usagef("--index %s: all is read from the recordings, and no index is saved", a.index)
	}
	return nil
}

// loadError is the error of a recording that cannot be loaded, with its exit code.
func (a *app) loadError(err error) error {
	var unknown *replay.UnknownGuestError
	var cpus *replay.CPUsError
	switch {
	case errors.As(err, &unknown):
		return &exitError{exitUsage, err}
	case errors.As(err, &cpus):
		return usagef("--cpus %d: %w", a.cpus, err)
	}
	return inputError(err)
}

// kcores splits the values of --kcore into those that have a time and the one that has none.
func (a *app) kcores() error {
	var own []string
	for _, value := range a.kcore {
		dir, when, timed := cutTime(value)
		switch {
		case !timed:
			own = append(own, dir)
			continue
		case dir == "":
			return usagef("--kcore %s: DIR is empty", value)
		}
		a.copies = append(a.copies, replay.Copy{KCore: dir, When: func(r *replay.Replay) (replay.Times, error) {
			made, err := r.ParseTime(when)
			if err != nil {
				err = fmt.Errorf("--kcore %s: %w", value, err)
			}
			return made, err
		}})
	}
	if a.kcore = own; len(own) > 1 {
		return usagef("--kcore is given %d times without a time: give the time of each snapshot (--kcore DIR@TIME)", len(own))
	}
	return nil
}

// cutTime splits a value of --kcore, DIR or DIR@TIME. A directory may have an @ in its name: it has
// no time if it is there under the whole name.
func cutTime(value string) (dir, when string, timed bool) {
	i := strings.LastIndexByte(value, '@')
	if _, err := os.Stat(value); i < 0 || err == nil {
		return value, "", false
	}
	return value[:i], value[i+1:], true
}

// nameStandardInput makes an error name standard input instead of the spool
// file.
func nameStandardInput(err error, spooled string) error {
	if err == nil || !strings.Contains(err.Error(), spooled) {
		return err
	}
	return &spooledError{err, strings.ReplaceAll(err.Error(), spooled, standardInput)}
}

// A spooledError is an error with another text.
type spooledError struct {
	err  error
	text string
}

func (e *spooledError) Error() string { return e.text }
func (e *spooledError) Unwrap() error { return e.err }

// readWindows reads a file of explicit windows.
func readWindows(path string) ([]timeline.ExplicitWindow, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	windows, err := timeline.ReadWindows(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return windows, nil
}

// inputName returns the name of the recording where it is not that of its file: standard input is read from a copy.
func (a *app) inputName() string {
	if a.input == "-" {
		return standardInput
	}
	return ""
}

// spooled returns the file of a recording, which for standard input is a copy. The caller calls
// remove when it no longer needs the file's name.
func (a *app) spooled(path string) (name string, remove func(), err error) {
	if path != "-" {
		return pathname.Plain(path), func() {}, nil
	}
	name, remove, err = spool(a.stdin)
	if err != nil {
		verb := "reading "
		if errors.Is(err, perfdata.ErrBadMagic) {
			verb = ""
		}
		return "", nil, inputError(fmt.Errorf("%s%s: %w", verb, standardInput, err))
	}
	return name, remove, nil
}

// spool copies a stream to a file, which can be mapped. The caller calls remove
// when it no longer needs the file's name. It copies nothing of a stream that does not begin as
// a recording does.
func spool(r io.Reader) (path string, remove func(), err error) {
	const magic = 16 // bytes that show whether it is a recording
	begin, err := io.ReadAll(io.LimitReader(r, magic))
	if err != nil {
		return "", nil, err
	}
	if _, err := perfdata.NewReader(bytes.NewReader(begin)); errors.Is(err, perfdata.ErrBadMagic) {
		return "", nil, err
	}
	f, remove, err := outfile.Temp()
	if err != nil {
		return "", nil, err
	}
	if _, err = f.Write(begin); err == nil {
		_, err = io.Copy(f, r)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		remove()
		return "", nil, err
	}
	return f.Name(), remove, nil
}

// loadAndWarn is load for commands that do not list the warnings in their
// output.
func (a *app) loadAndWarn() (*replay.Replay, error) { return a.warned(a.load()) }

// warnWindows says that what lists recorded changes does not have those of --windows.
func (a *app) warnWindows(what string) {
	if a.hasWindows {
		a.warnf("the changes of --windows %s are not in %s: it has what was recorded", a.windows, what)
	}
}

// warned prints the warnings of a recording that was loaded.
func (a *app) warned(r *replay.Replay, err error) (*replay.Replay, error) {
	if err == nil {
		a.warn(r)
	}
	return r, err
}

// warn prints the first warnings of a recording.
func (a *app) warn(r *replay.Replay) {
	const most = 5
	for i, w := range r.Report.Warnings {
		if i == most {
			a.warnf("and %d more (textreplay info lists them)", len(r.Report.Warnings)-most)
			break
		}
		a.warnf("%v", w)
	}
}

// openCore opens an ELF core that a flag names.
func (a *app) openCore(path string) (*kcore.Core, error) {
	c, err := kcore.OpenCore(path)
	if err == nil {
		a.opened = append(a.opened, c)
	}
	return c, inputError(err)
}

// opened is an input that stays mapped while a command uses it.
type opened interface {
	Check() error
	io.Closer
}

// unchanged returns an error if an input has changed since it was opened.
func (a *app) unchanged() error {
	for _, o := range a.opened {
		if err := o.Check(); err != nil {
			return err
		}
	}
	return nil
}

// closeAll closes the inputs.
func (a *app) closeAll() {
	for _, o := range a.opened {
		o.Close()
	}
	for _, f := range a.sources {
		f.Close()
	}
	a.opened, a.sources = nil, nil
}
