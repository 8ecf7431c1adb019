// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// judgeVariant compares the bytes that are called known of a recording that was cut with
// the independent copies of kernel text. It does so after loading the recording, and while
// following it. The arguments are the word answers, the recording, the directory of the
// copies, and the number of CPUs, 0 if that is not known. It returns the exit code.
func judgeVariant(args []string) int {
	cpus, err := strconv.Atoi(args[2])
	if err == nil {
		err = errors.Join(judgeLoaded(args[0], args[1], cpus), judgeFollowed(args[0], args[1], cpus), judgeFollowed(args[0], args[1], 0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// oraclesOf returns the copies in the directory dir that were made while perf ran; none if
// there is no such directory.
func oraclesOf(dir string) (out []corpus.Oracle, err error) {
	all, err := corpus.Oracles(filepath.Dir(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, o := range all {
		if !o.Outside() {
			out = append(out, o)
		}
	}
	return out, err
}

// compare returns an error if the image calls a byte known where a copy has another one.
func compare(im *timeline.Image, o corpus.Oracle) error {
	core, err := kcore.OpenCore(o.Path)
	if err != nil {
		return err
	}
	defer core.Close()
	var segs []timeline.Segment
	for _, s := range core.Segments {
		segs = append(segs, timeline.Segment(s))
	}
	for span, want := range im.At(o.Time()).Against(segs) {
		if span.Standing == timeline.Known && string(span.Bytes) != string(want) {
			return fmt.Errorf("%s: wrong bytes at %#x: known are %.16x, the copy has %.16x", o.Label, span.Addr, span.Bytes, want)
		}
	}
	return nil
}

// compareAll compares an image with all copies, most of which are beyond its horizon
// if little is left of the recording.
func compareAll(im *timeline.Image, dir string) error {
	oracles, err := oraclesOf(dir)
	if err != nil {
		return err
	}
	for _, o := range oracles {
		if o.Time() <= im.Horizon() {
			if err := compare(im, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func judgeLoaded(path, oracles string, cpus int) error {
	r, err := replay.Load(path, replay.Options{CPUs: cpus})
	if err != nil {
		return err
	}
	defer r.Close()
	return compareAll(r.Image, oracles)
}

// judgeFollowed makes an image when a third and two thirds of the rounds were
// read, and at the end.
func judgeFollowed(path, oracles string, cpus int) error {
	opts := replay.Options{CPUs: cpus}
	if info, err := os.Stat(path); err != nil {
		return err
	} else if info.IsDir() {
		if more, _ := filepath.Glob(filepath.Join(path, "data.*")); len(more) > 0 {
			return nil // several files are no stream
		}
		if dir := filepath.Join(path, "kcore_dir"); exists(dir) {
			opts.KCore = dir
		}
		path = filepath.Join(path, "data")
	}
	rounds, err := follow(path, opts, nil)
	if err != nil {
		return err
	}
	_, err = follow(path, opts, func(n int, f *replay.Follower) error {
		if n != rounds && n != rounds/3 && n != 2*rounds/3 {
			return nil
		}
		im, err := f.Image()
		if err != nil {
			return fmt.Errorf("while reading, after round %d of %d: %w", n, rounds, err)
		}
		if err := compareAll(im, oracles); err != nil {
			return fmt.Errorf("while reading, after round %d of %d: %w", n, rounds, err)
		}
		return nil
	})
	return err
}

// follow reads a recording round by round, and returns how many rounds there are.
// The end of the recording counts as a round.
func follow(path string, opts replay.Options, visit func(n int, f *replay.Follower) error) (rounds int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	f, err := replay.Follow(file, opts)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for more := true; more; rounds++ {
		more = f.Next()
		if visit != nil {
			if err := visit(rounds+1, f); err != nil {
				return 0, err
			}
		}
	}
	return rounds, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
