// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The histories that images are made of: the function tracer is switched on and
// off again and again.
var (
	fewPokes  = genperf.History{Pokes: 10_000, Sites: 50_000}
	somePokes = genperf.History{Pokes: 1_000_000, Sites: 50_000}
	manyPokes = genperf.History{Pokes: 10_000_000, Sites: 50_000}
	fewSites  = genperf.History{Pokes: 10_000_000, Sites: 500}
	samples   = genperf.History{Pokes: 100_000, Sites: 50_000, Samples: 10_000_000}

	// The same number of pokes, not in the order of addresses. CPUs that change text at
	// the same time have their records in several ring buffers, so the file is not in the
	// order of time either.
	randomPokes = genperf.History{Pokes: 10_000_000, Sites: 20_000, Order: genperf.Random, CPUs: 4}
	zipfPokes   = genperf.History{Pokes: 10_000_000, Sites: 50_000, Order: genperf.Zipf, CPUs: 4}
	cpuPokes    = genperf.History{Pokes: 10_000_000, Sites: 50_000, CPUs: 4}
	lossyPokes  = genperf.History{Pokes: 1_000_000, Sites: 20_000, Order: genperf.Random, CPUs: 4, Lossy: true}
	birthPokes  = genperf.History{Pokes: 10_000_000, Sites: 50_000, Births: 5}
)

// An allBench is a run of "bench all". docs/performance.md has its rows.
type allBench struct {
	dir        string
	self       string // this program
	textreplay string
	hop        string
	perf       string // "" where it is not installed
	storm      string // a real recording with many pokes, or ""
	runs       int
	missed     int
}

// benchAll prints each row: our figure, the yardstick's in the same run, their
// ratio, and the bound.
func benchAll(storm string, runs int) error {
	if err := checkRecording(storm); err != nil {
		return err // before minutes are spent on other rows
	}
	dir, err := os.MkdirTemp("", "bench-all-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &allBench{dir: dir, storm: storm, runs: runs, hop: filepath.Join(dir, "hop")}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	b.perf, _ = exec.LookPath("perf")
	if b.textreplay, err = buildCommand(dir); err != nil {
		return err
	}
	cc := exec.Command("cc", "-O2", "-x", "c", "-o", b.hop, "-")
	cc.Stdin, cc.Stderr = strings.NewReader(hopSource), os.Stderr
	if err := cc.Run(); err != nil {
		return fmt.Errorf("cc: %w", err)
	}
	return b.run(b.building, b.shuffled, b.sampling, b.scaling, b.reading, b.starting, b.asking, b.exporting)
}

// run prints the rows of steps.
func (b *allBench) run(steps ...func() error) error {
	fmt.Printf("%s, %s/%s, %d CPUs; CPU time, the least of %d runs\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.runs)
	fmt.Printf("%-46s %-14s %-34s %8s %8s\n", "", "textreplay", "yardstick", "ratio", "bound")
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if b.missed > 0 {
		return fmt.Errorf("%d bounds missed", b.missed)
	}
	return nil
}

// row prints a row. most is the bound; 0 is none.
func (b *allBench) row(what, ours, yard string, ratio, most float64) {
	b.print(what, ours, yard, ratio, most, ratio > most)
}

func (b *allBench) print(what, ours, yard string, ratio, bound float64, missed bool) {
	limit := "-"
	if bound > 0 {
		if limit = part(bound); missed {
			limit += " MISSED"
			b.missed++
		}
	}
	fmt.Printf("%-46s %-14s %-34s %8s %8s\n", what, ours, yard, part(ratio), limit)
}

// part prints a ratio, a small one as a fraction.
func part(x float64) string {
	if x < 0.25 {
		return fmt.Sprintf("1/%.0f", 1/x)
	}
	return fmt.Sprintf("%.2f", x)
}

func (b *allBench) generate(name string, h genperf.History) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, h.Write(dir)
}

// process returns the CPU time of a process, the least of all runs.
func (b *allBench) process(args ...string) (time.Duration, error) { return leastCPU(b.runs, args...) }

// figures runs this program for one measurement, several times, and returns
// the least of each figure.
func (b *allBench) figures(args ...string) (map[string]float64, error) {
	least := make(map[string]float64)
	for range b.runs {
		cmd := exec.Command(b.self, append([]string{"figures"}, args...)...)
		cmd.Stderr = os.Stderr // it says what failed
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", args, err)
		}
		var got map[string]float64
		if err := json.Unmarshal(out, &got); err != nil {
			return nil, err
		}
		for k, v := range got {
			if old, ok := least[k]; !ok || v < old {
				least[k] = v
			}
		}
	}
	return least, nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
}
func secondsOf(s float64) string    { return fmt.Sprintf("%.4f s", s) }
func nanoseconds(ns float64) string { return fmt.Sprintf("%.1f ns", ns) }

// building: images of pokes, and the index.
func (b *allBench) building() error {
	for _, h := range []struct {
		name string
		genperf.History
		bound float64
	}{{"10 thousand pokes", fewPokes, 0}, {"1 million pokes", somePokes, 0}, {"10 million pokes", manyPokes, 1. / 30}} {
		path, err := b.generate("history", h.History)
		if err != nil {
			return err
		}
		ours, err := b.process(b.self, "figures", "image", path)
		if err != nil {
			return err
		}
		if b.perf != "" {
			theirs, err := b.process(b.perf, "script", "--show-text-poke-events", "-i", path)
			if err != nil {
				return err
			}
			b.row("image of "+h.name+", whole process", seconds(ours), seconds(theirs)+" perf script", ours.Seconds()/theirs.Seconds(), h.bound)
		}
		if h.Pokes == manyPokes.Pokes {
			f, err := b.figures("heap", path)
			if err != nil {
				return err
			}
			per := f["heap"] / float64(h.Pokes)
			b.row("heap of that image, for each poke", fmt.Sprintf("%.1f B", per), "1 B", per, 16)
			if f, err = b.figures("index", path, filepath.Join(b.dir, "index")); err != nil {
				return err
			}
			b.row("its index opened until the first answer", secondsOf(f["open"]), secondsOf(f["build"])+" building it", f["open"]/f["build"], 1./30)
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// checkRecording returns an error that explains why a path is not a recording with text
// pokes. An empty path is none, which is allowed.
func checkRecording(path string) error {
	if path == "" {
		return nil
	}
	const want = "the argument RECORDING is to be a perf.data file or directory with many text pokes"
	rec, err := perfdata.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", want, err)
	}
	defer rec.Close()
	s := rec.Scan(perfdata.Only(perfdata.RecordTextPoke))
	const enough = 100_000
	n := 0
	for n < enough && s.Next() {
		n++
	}
	if n < enough {
		return fmt.Errorf("%s: %s has only %d", want, path, n)
	}
	return nil
}

// shuffled: images of pokes that are not in the order of addresses.
func (b *allBench) shuffled() error {
	for _, h := range []struct {
		name string
		genperf.History
		bound float64
	}{{"10 million pokes in random order, 4 CPUs", randomPokes, 1. / 10},
		{"10 million pokes Zipf over sites, 4 CPUs", zipfPokes, 1. / 8},
		{"10 million pokes by address, 4 CPUs", cpuPokes, 1. / 10},
		{"10 million pokes 5 % births and deaths", birthPokes, 0},
		{"1 million pokes, random, 4 CPUs, records lost", lossyPokes, 0.6}} {
		path, err := b.generate("shuffled", h.History)
		if err != nil {
			return err
		}
		if b.perf != "" {
			ours, err := b.process(b.self, "figures", "image", path)
			if err != nil {
				return err
			}
			theirs, err := b.process(b.perf, "script", "--show-text-poke-events", "-i", path)
			if err != nil {
				return err
			}
			b.row(h.name, seconds(ours), seconds(theirs)+" perf script", ours.Seconds()/theirs.Seconds(), h.bound)
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// sampling: an image of pokes among many samples.
func (b *allBench) sampling() error {
	path, err := b.generate("samples", samples)
	if err != nil {
		return err
	}
	defer os.RemoveAll(path)
	ours, err := b.process(b.self, "figures", "image", path)
	if err != nil {
		return err
	}
	theirs, err := b.process(b.hop, filepath.Join(path, "data"), "fresh", "1")
	if err != nil {
		return err
	}
	const what = "image of 10 million samples, 100,000 pokes"
	b.row(what+", process", seconds(ours), seconds(theirs)+" C loop", ours.Seconds()/theirs.Seconds(), 2)
	f, err := b.figures("mapped", path)
	if err != nil {
		return err
	}
	hop, err := run([]string{b.hop, filepath.Join(path, "data"), "mapped", "3"})
	if err != nil {
		return err
	}
	b.row("the same, pages mapped before", secondsOf(f["mapped"]), secondsOf(hop.cpu/3)+" C loop", f["mapped"]/(hop.cpu/3), 0)
	return nil
}

// reading: what one answer costs.
func (b *allBench) reading() error {
	var paths []string
	for i, h := range []genperf.History{somePokes, manyPokes, fewSites} {
		path, err := b.generate(fmt.Sprint("read", i), h)
		if err != nil {
			return err
		}
		defer os.RemoveAll(path)
		paths = append(paths, path)
	}
	f, err := b.figures(append([]string{"reads"}, paths...)...)
	if err != nil {
		return err
	}
	copied := nanoseconds(f["copy"]) + " copy of 16 bytes"
	b.row("View, never-poked text", nanoseconds(f["unpatched"]), copied, f["unpatched"]/f["copy"], 1.5)
	b.row("View, poked text, 1 million pokes", nanoseconds(f["poked1M"]), copied, f["poked1M"]/f["copy"], 5)
	b.row("View, poked text, 10 million pokes", nanoseconds(f["poked10M"]), nanoseconds(f["loads"])+" three dependent loads", f["poked10M"]/f["loads"], 1.5)
	b.row("View, 10 million pokes over 500 sites", nanoseconds(f["poked500"]), nanoseconds(f["poked10M"])+" over 50,000", f["poked500"]/f["poked10M"], 2)
	scaling := f["view1"] / f["view2"] / (f["copy1"] / f["copy2"])
	b.print("two goroutines beside one", fmt.Sprintf("%.2f times", 2*f["view1"]/f["view2"]), fmt.Sprintf("%.2f times, copying", 2*f["copy1"]/f["copy2"]), scaling, 0.95, scaling < 0.95)

	walk, name := b.storm, "storm"
	if walk == "" {
		walk, name = paths[0], "1 million pokes"
	}
	if f, err = b.figures("walk", walk); err != nil {
		return err
	}
	b.row("Cursor, 50 KiB round and round, "+name, nanoseconds(f["cursor"]), nanoseconds(f["call"])+" flat, behind a call", f["cursor"]/f["call"], 2)
	b.row("", "", nanoseconds(f["flat"])+" flat, in the loop", f["cursor"]/f["flat"], 0)
	return nil
}

// benchStart prints the rows of starting alone, with a recording that has many text pokes.
func benchStart(storm string, runs int) error {
	if err := checkRecording(storm); err != nil {
		return err
	}
	return benchStep(runs, func(b *allBench) (err error) {
		b.storm = storm
		if b.textreplay, err = buildCommand(b.dir); err != nil {
			return err
		}
		return b.starting()
	})
}

// starting: processes that do nearly nothing. The yardstick is a Go program that prints a line. Like them, it
// mostly waits for page faults and system calls, which take ten times as long on one machine as on another.
// All take turns, so that they have the same neighbors.
func (b *allBench) starting() error {
	line, err := build(b.dir, "line", "./internal/bench/yardstick/line")
	if err != nil {
		return err
	}
	type side struct {
		what  string
		args  []string
		bound float64
		least leasts
	}
	sides := []side{
		{args: []string{line}},
		{what: "textreplay version", args: []string{b.textreplay, "version"}, bound: 2},
	}
	if b.storm != "" {
		index := filepath.Join(b.dir, "start.index")
		defer os.Remove(index)
		at := []string{b.textreplay, "-i", b.storm, "--index", index, "at", "vfs_read", "50%"}
		if err := exec.Command(at[0], at[1:]...).Run(); err != nil {
			return err
		}
		sides = append(sides, side{what: "textreplay at, storm, with a saved index", args: at, bound: 8})
	}
	for i := range sides {
		sides[i].least = noLeasts
	}
	for range max(10*b.runs, 50) { // some milliseconds each
		for i := range sides {
			if err := sides[i].least.run(1, nil, sides[i].args...); err != nil {
				return err
			}
		}
	}
	theirs := sides[0].least.cpu
	for _, s := range sides[1:] {
		b.row(s.what, milliseconds(s.least.cpu), milliseconds(theirs)+" a Go program", s.least.cpu.Seconds()/theirs.Seconds(), s.bound)
	}
	return nil
}

// asking: whole processes of the command.
func (b *allBench) asking() error {
	if b.storm == "" || b.perf == "" {
		return nil
	}
	theirs, err := b.process(b.perf, "script", "--show-text-poke-events", "-i", b.storm)
	if err != nil {
		return err
	}
	index := filepath.Join(b.dir, "storm.index")
	if err := exec.Command(b.textreplay, "-i", b.storm, "--index", index, "info").Run(); err != nil {
		return err
	}
	for _, format := range [][]string{nil, {"--json"}} {
		ours, err := b.process(append([]string{b.textreplay, "-i", b.storm, "--index", "never", "log"}, format...)...)
		if err != nil {
			return err
		}
		b.row(strings.Join(append([]string{"textreplay log, storm"}, format...), " "), seconds(ours), seconds(theirs)+" perf script", ours.Seconds()/theirs.Seconds(), 0)
	}
	for _, q := range []struct {
		what, index string
		bound       float64
	}{{"textreplay at, storm", "never", 1. / 12}, {"the same with a saved index", index, 1. / 150}} {
		ours, err := b.process(b.textreplay, "-i", b.storm, "--index", q.index, "at", "vfs_read", "50%")
		if err != nil {
			return err
		}
		b.row(q.what, seconds(ours), seconds(theirs)+" perf script", ours.Seconds()/theirs.Seconds(), q.bound)
	}
	return nil
}

// exporting: the tables of a recording, in a new directory, beside its image. Both are whole
// processes, and take turns.
func (b *allBench) exporting() error {
	if b.storm == "" {
		return nil
	}
	image := leasts{1<<63 - 1, 1<<63 - 1, 1<<63 - 1}
	export := image
	dir := filepath.Join(b.dir, "tables")
	for range max(b.runs, 7) {
		for _, side := range []struct {
			to   *leasts
			args []string
		}{{&image, []string{b.self, "figures", "image", b.storm}}, {&export, []string{b.textreplay, "--index", "never", "export", "-o", dir, b.storm}}} {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			u, err := leastOf(1, nil, side.args...)
			if err != nil {
				return err
			}
			side.to.cpu, side.to.wall = min(side.to.cpu, u.cpu), min(side.to.wall, u.wall)
		}
	}
	b.row("textreplay export, storm", seconds(export.cpu), seconds(image.cpu)+" its image", export.cpu.Seconds()/image.cpu.Seconds(), 3.6)
	b.row("  wall time", seconds(export.wall), seconds(image.wall)+" its image", export.wall.Seconds()/image.wall.Seconds(), 3.6)
	size := int64(0)
	names, err := filepath.Glob(filepath.Join(dir, "changes", "*", "*", "*.parquet"))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	rec, openErr := perfdata.Open(b.storm)
	if err := errors.Join(err, openErr); err != nil {
		return err
	}
	defer rec.Close()
	pokes := 0
	for s := rec.Scan(perfdata.Only(perfdata.RecordTextPoke)); s.Next(); pokes++ {
	}
	per := float64(size) / float64(max(pokes, 1))
	b.row("  its table of changes, for each poke", fmt.Sprintf("%.1f B", per), "1 B", per, 10)
	return nil
}

// figures makes one measurement and prints its figures as JSON.
func figures(args []string) error {
	debug.SetGCPercent(400) // as the command does
	f := make(map[string]float64)
	load := func(path string, opts replay.Options) (*replay.Replay, error) {
		r, err := replay.Load(path, opts)
		if err == nil && r.Report.Coverage.Pokes.Verdict != replay.Complete {
			fmt.Fprintf(os.Stderr, "bench: pokes of %s are %s\n", path, r.Report.Coverage.Pokes.Verdict)
		}
		return r, err
	}
	switch what, path := args[0], args[1]; what {
	case "image":
		_, err := load(path, replay.Options{})
		return err
	case "zstd":
		return zstdAlone(path)
	case "follow":
		if err := followFigures(path, f); err != nil {
			return err
		}
	case "mapped":
		if err := mappedFigures(path, f); err != nil {
			return err
		}
	case "heap":
		before := heap()
		r, err := load(path, replay.Options{})
		if err != nil {
			return err
		}
		f["heap"] = heap() - before
		runtime.KeepAlive(r)
	case "index":
		if err := indexFigures(path, args[2], f); err != nil {
			return err
		}
	case "reads":
		if err := readFigures(args[1:], f); err != nil {
			return err
		}
	case "walk":
		if err := walkFigures(path, f); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// heap returns what is in use once all garbage is gone.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
