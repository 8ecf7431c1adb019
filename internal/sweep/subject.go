// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A command is what is asked about a variant.
type command struct {
	name string
	args []string // IN is the recording, OUT a file that may be made
	self bool     // it is this program that runs
}

// A subject is a recording whose variants are swept.
type subject struct {
	*options
	path     string // absolute
	tmp      string
	commands []command
	usual    map[string]result // of each command, asked about the whole recording
	codes    map[int]int       // how often a command ended so
	refused  int               // variants without a header that can be read
	failures int
}

// newSubject looks at the whole recording for what can be asked about it, and asks.
func newSubject(o *options, path, oracles, tmp string) (*subject, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &subject{options: o, path: path, tmp: tmp, usual: make(map[string]result), codes: make(map[int]int)}
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	where := place(r)
	addr := fmt.Sprintf("%#x", where)
	at := func(part uint64) string {
		return fmt.Sprintf("%dns", r.Report.First+(r.Report.Horizon-r.Report.First)/4*part)
	}
	oops := filepath.Join(tmp, "oops")
	if err := os.WriteFile(oops, oopsAt(r, where), 0o600); err != nil {
		return nil, err
	}
	cpus := 0
	if r.Report.CPUsOnline == r.Report.CPUsAvailable {
		cpus = r.Report.CPUsAvailable
	}
	for _, c := range []command{
		{name: "at", args: []string{"at", addr, at(2)}},
		{name: "at --json", args: []string{"--json", "at", addr, "50%"}},
		{name: "info", args: []string{"info"}},
		{name: "info --json", args: []string{"info", "--json"}},
		{name: "log", args: []string{"log"}},
		{name: "log --summary", args: []string{"log", "--summary"}},
		{name: "history", args: []string{"history", addr, "-n", "64"}},
		{name: "diff", args: []string{"diff", at(1), at(3)}},
		{name: "symbols", args: []string{"symbols", "--at", at(2)}},
		{name: "image", args: []string{"image", "--at", at(2), "-o", "OUT"}},
		{name: "image --kcore-dir", args: []string{"image", "--at", "50%", "--kcore-dir", "OUT"}},
		{name: "verify", args: []string{"verify"}},
		{name: "audit", args: []string{"audit", "--json"}},
		{name: "perfetto", args: []string{"perfetto", "-o", "OUT"}},
		{name: "pprof", args: []string{"pprof", "-o", "OUT"}},
		{name: "report", args: []string{"report", "-o", "OUT", "--max-size", "1"}},
		{name: "export", args: []string{"export", "-o", "OUT"}},
		{name: "trim", args: []string{"trim", "-o", "OUT"}},
		{name: "log --json", args: []string{"log", "--json"}},
		{name: "history --json", args: []string{"history", addr, "--json"}},
		{name: "at start..end", args: []string{"at", addr, "start..end", "--insns", "4"}},
		{name: "symbols --json", args: []string{"symbols", "--json"}},
		{name: "verify --json", args: []string{"verify", "--json"}},
		{name: "audit --explain", args: []string{"audit", "--explain", "0x10", "90e9"}},
		{name: "oops", args: []string{"oops", "--at", at(2), oops}},
		{name: "oops --json", args: []string{"oops", "--json", oops}},
		{name: "trim --time", args: []string{"trim", "-o", "OUT", "--time", at(1) + "," + at(3), "--samples", "--aux"}},
		{name: "web", self: true, args: []string{"-judge", "web", s.binary, "IN", addr, at(2)}},
		{name: "judge", self: true, args: []string{"-judge", "answers", "IN", oracles, fmt.Sprint(cpus)}},
	} {
		if !o.command.MatchString(c.name) {
			continue
		}
		if !c.self {
			c.args = append([]string{"-i", "IN", "--index", "never"}, c.args...)
		}
		s.commands = append(s.commands, c)
		s.usual[c.name] = s.ask(&c, path)
	}
	return s, nil
}

// place returns an address at which text changed, or one in kernel text.
func place(r *replay.Replay) uint64 {
	sc := r.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	var p perfdata.TextPoke
	for sc.Next() {
		if r.Recording.TextPoke(sc.Record(), &p) == nil && len(p.Old) > 0 {
			return p.Addr
		}
	}
	lo, hi := r.Image.Text()
	return lo + (hi-lo)/2
}

// oopsAt returns what the kernel prints of a place.
func oopsAt(r *replay.Replay, addr uint64) []byte {
	name, off := "0x", addr
	if sym, ok := r.Image.At(r.Report.First).Symbol(addr); ok {
		name, off = sym.Name, addr-sym.Addr
	}
	seconds := replay.Seconds(r.Report.First/2 + r.Report.Horizon/2)
	var b bytes.Buffer
	for _, line := range []string{
		"BUG: unable to handle page fault for address: 0000000000000010",
		fmt.Sprintf("RIP: 0010:%s+%#x/0x1000", name, off),
		"Code: 90 90 90 90 <e9> 00 00 00 00 0f 1f 44",
		"Call Trace:",
		fmt.Sprintf(" [<%016x>] %s+%#x/0x1000", addr, name, off),
	} {
		fmt.Fprintf(&b, "[%s] %s\n", seconds, line)
	}
	return b.Bytes()
}

// A result is how a command ended.
type result struct {
	code   int // -1: it was killed
	took   time.Duration
	memory int64 // the most that it had, in bytes
	errors string
}

// ask runs a command.
func (s *subject) ask(c *command, path string) result {
	out := filepath.Join(s.tmp, "out")
	defer os.RemoveAll(out)
	program := s.binary
	if c.self {
		program, _ = os.Executable()
	}
	args := slices.Clone(c.args)
	for i, a := range args {
		switch a {
		case "IN":
			args[i] = path
		case "OUT":
			args[i] = out
		}
	}
	began := time.Now() // before the limit begins, or what is killed by it has taken less
	ctx, cancel := context.WithTimeout(context.Background(), s.longest(c))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	err := cmd.Run()
	r := result{took: time.Since(began), errors: errors.String()}
	if cmd.ProcessState == nil {
		r.code, r.errors = -1, err.Error()
		return r
	}
	r.code, r.memory = cmd.ProcessState.ExitCode(), memoryOf(cmd.ProcessState)
	return r
}

// longest is how long a command may take: as on a machine that has become ten
// times slower since it was asked about the whole recording, and some time more.
func (s *subject) longest(c *command) time.Duration {
	if usual, ok := s.usual[c.name]; ok {
		return 10*usual.took + s.limit
	}
	return 10 * s.limit // this is the whole recording
}

// spare is how much more memory than for the whole recording a command may take.
const spare = 512 << 20

// wrong returns what is wrong with the end of a command, "" if nothing is. A recording may
// be refused (exit code 3) only if its header is not readable.
func (s *subject) wrong(c *command, r *result, readable bool) string {
	usual := s.usual[c.name]
	switch {
	case !readable && r.code == 3:
		return ""
	case strings.Contains(r.errors, "goroutine "):
		return "panic"
	case r.took >= s.longest(c):
		return fmt.Sprintf("still running after %v, %v for the whole recording", r.took, usual.took)
	case r.code < 0:
		return "killed"
	case r.code > 1 && usual.code <= 1:
		return fmt.Sprintf("exit code %d", r.code)
	case r.memory > 2*usual.memory+spare:
		return fmt.Sprintf("%d MiB of memory, %d for the whole recording", r.memory>>20, usual.memory>>20)
	}
	return ""
}

// sweep makes all variants and returns how many commands failed.
func (s *subject) sweep() int {
	data, other, err := files(s.path)
	if err != nil {
		s.fail("", err.Error())
		return s.failures
	}
	began := time.Now()
	for i := range s.n {
		s.try(s.cutVariant(data, i))
		s.try(s.damageVariant(data, other, i))
	}
	fmt.Printf("%s: %d failures; %d of %d cannot be read; exit codes", s.path, s.failures, s.refused, 2*s.n)
	for _, code := range slices.Sorted(maps.Keys(s.codes)) {
		fmt.Printf(" %d: %d times", code, s.codes[code])
	}
	fmt.Printf("; %v\n", time.Since(began).Round(time.Second))
	return s.failures
}

// isReadable reports whether a recording has a header, and a record if it has any.
func isReadable(dir string) bool {
	rec, err := perfdata.Open(dir)
	if err != nil {
		return false
	}
	defer rec.Close()
	sc := rec.Scan()
	return sc.Next() || sc.Err() == nil
}

func (s *subject) fail(name, what string) {
	s.failures++
	fmt.Printf("%s: %s: %s\n", s.path, name, what)
}

// try makes a variant and runs all commands on it.
func (s *subject) try(v *variant, err error) {
	if err != nil {
		s.fail("", err.Error())
		return
	}
	if !s.only.MatchString(v.name) {
		return
	}
	dir := filepath.Join(s.tmp, "variant")
	defer os.RemoveAll(dir)
	if err := v.write(s.path, dir); err != nil {
		s.fail(v.name, err.Error())
		return
	}
	readable := true
	if !isReadable(dir) {
		readable = false
		s.refused++
	}
	before := s.failures
	for i := range s.commands {
		c := &s.commands[i]
		if c.name == "judge" && !(v.cut && readable) {
			continue // what was changed can be what a known byte rests on
		}
		r := s.ask(c, dir)
		s.codes[r.code]++
		if what := s.wrong(c, &r, readable); what != "" {
			s.fail(v.name, fmt.Sprintf("%s, %s: %s: %s\n%s", v.file, v.what, c.name, what, head(r.errors)))
		}
	}
	if s.failures > before && s.keep != "" {
		to := filepath.Join(s.keep, strings.ReplaceAll(strings.Trim(s.path, "/")+" "+v.name, "/", "_"))
		if err := os.Rename(dir, to); err != nil {
			s.fail(v.name, err.Error())
		}
	}
}

// head returns the first lines of text.
func head(text string) string {
	lines := strings.SplitAfterN(text, "\n", 20)
	return "\t" + strings.Join(lines[:min(len(lines), 19)], "\t")
}
