// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Sweep cuts and damages recordings, and asks every command about what is left.
// A command must answer, or say why it cannot: no panic, no hang, no exit code
// that is not documented, no more time and memory than the whole recording takes
// by far, and of a recording that was cut no wrong byte that is called known.
//
//	go run ./internal/sweep                    # the recordings of testdata
//	go run ./internal/sweep -n 5 DIR...        # five cuts and five damages of others
//	go run ./internal/sweep -only 'cut 17' -keep /tmp/kept DIR
//
// DIR holds recordings, rec.data, cut.data (files or directories), pipe.data, merged.data or
// rec.data in directories of its own. It may hold oracle, the independent copies of kernel
// text that known bytes are compared with. The places are the same ones for the same
// recording, -n and -seed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/textreplay/textreplay/internal/corpus"
)

// options are the flags.
type options struct {
	n       int            // cuts of each recording, and damages
	seed    uint64         // of the places
	only    *regexp.Regexp // names of variants
	command *regexp.Regexp // names of commands
	keep    string         // directory for variants that fail
	binary  string         // textreplay
	limit   time.Duration  // see subject.longest
}

func main() {
	var o options
	n := flag.Int("n", 100, "make `n` cuts and n damages of each recording")
	seed := flag.Uint64("seed", 1, "choose other places for another `number`")
	only := flag.String("only", "", "make only variants whose names match this `regexp`")
	command := flag.String("command", "", "run only commands whose names match this `regexp`")
	keep := flag.String("keep", "", "keep variants that fail in this `directory`")
	binary := flag.String("textreplay", "", "use this textreplay `program` instead of building one")
	limit := flag.Duration("limit", time.Minute, "a command hangs that takes so much `longer` than ten times what it takes for the whole recording")
	judge := flag.Bool("judge", false, "")
	flag.Usage = usage
	flag.Parse()
	if *judge {
		if flag.Arg(0) == "web" {
			os.Exit(judgeWeb(flag.Args()[1:]))
		}
		os.Exit(judgeVariant(flag.Args()[1:]))
	}
	o = options{n: *n, seed: *seed, keep: *keep, binary: *binary, limit: *limit}
	if err := run(&o, *only, *command, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: sweep [flags] [DIR...]")
	flag.VisitAll(func(f *flag.Flag) {
		if f.Usage != "" {
			name, text := flag.UnquoteUsage(f)
			fmt.Fprintf(os.Stderr, "  -%s %s\n        %s (%s)\n", f.Name, name, text, f.DefValue)
		}
	})
}

func run(o *options, only, command string, dirs []string) (err error) {
	if o.only, err = regexp.Compile(only); err != nil {
		return err
	}
	if o.command, err = regexp.Compile(command); err != nil {
		return err
	}
	if len(dirs) == 0 {
		if dirs, err = filepath.Glob(filepath.Join(corpus.Root(), "testdata", "*")); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp("", "sweep")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if o.binary == "" {
		o.binary = filepath.Join(tmp, "textreplay")
		build := exec.Command("go", "build", "-o", o.binary, "./cmd/textreplay")
		build.Dir = corpus.Root()
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
	}
	var bad []error
	for _, dir := range dirs {
		paths, err := recordings(dir)
		if err != nil {
			return err
		}
		for _, path := range paths {
			s, err := newSubject(o, path, filepath.Join(dir, "oracle"), tmp)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if n := s.sweep(); n > 0 {
				bad = append(bad, fmt.Errorf("%s: %d failures", path, n))
			}
		}
	}
	return errors.Join(bad...)
}

// recordings returns the recordings in a directory of the corpus or of testdata.
func recordings(dir string) ([]string, error) {
	var paths []string
	for _, name := range []string{"rec.data", "pipe.data", "merged.data", "cut.data", "*/rec.data"} {
		found, err := filepath.Glob(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	if info, err := os.Stat(dir); len(paths) == 0 && (err != nil || info.IsDir()) {
		return nil, fmt.Errorf("%s: no recording is there", dir)
	}
	return paths, nil
}
