// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/timeline/replay"
)

var (
	firstSeed = flag.Uint64("first", 0, "the first seed of each variant")
	seedCount = flag.Uint64("seeds", 0, "how many seeds each variant is run with; 0: so many that all take about a minute")
	simpler   = flag.String("simplify", "", "simplifications, separated by commas, as a failure names them")
	keep      = flag.String("keep", "", "a directory to leave the recordings in")
)

// TestVariants simulates recordings of every kind and checks every answer about every
// byte at every time.
func TestVariants(t *testing.T) {
	n := *seedCount
	switch {
	case n > 0:
	case testing.Short():
		n = 1
	default:
		n = defaultSeeds
	}
	for i := range Variants {
		v := &Variants[i]
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			var known, all float64
			var sum tally
			bad, none := 0, uint64(0)
			for seed := *firstSeed; seed < *firstSeed+n; seed++ {
				trial := tryOnce(t, v, seed)
				if trial == nil {
					none++
					continue
				}
				known, all = known+trial.known, all+trial.all
				sum.compared, sum.known = sum.compared+trial.tally.compared, sum.known+trial.tally.known
				if len(trial.faults) > 0 {
					if bad++; bad <= 2 {
						explain(t, trial)
					}
				}
			}
			if bad > 0 {
				t.Errorf("%d of %d seeds have faults", bad, n)
			}
			if none > 1+n/10 {
				t.Errorf("perf made no recording with %d of %d seeds", none, n)
			}
			if none == n {
				return
			}
			percent := 100 * known / all
			t.Logf("%d seeds, %d bytes compared, %d known; %.1f %% of kernel text is known", n, sum.compared, sum.known, percent)
			// How much is known depends on when a recording loses something for the first
			// time: what nothing patches is known until then only. So the mean of other
			// seeds may be far below. What is proven of each recording is checked one by one.
			first := n >= defaultSeeds && *firstSeed == 0 && *simpler == ""
			if first && percent < v.Least {
				t.Errorf("%.1f %% of kernel text is known, less than %v", percent, v.Least)
			}
			share := 100 * float64(sum.known) / float64(sum.compared)
			if least := leastBytes[v.Name]; first && share < least {
				t.Errorf("%.2f %% of all bytes are known, less than %v", share, least)
			}
		})
	}
}

// defaultSeeds is how many seeds take all variants about a minute of one CPU.
const defaultSeeds = 12

func tryOnce(t *testing.T, v *Variant, seed uint64) *trial {
	t.Helper()
	dir := t.TempDir()
	if *keep != "" {
		dir = filepath.Join(*keep, fmt.Sprintf("%s-%d", v.Name, seed))
	}
	c := v.config(seed)
	if *simpler != "" {
		if err := simplify(c, strings.Split(*simpler, ",")); err != nil {
			t.Fatal(err)
		}
	}
	trial, err := try(v, seed, dir, c)
	if errors.Is(err, errGaveUp) {
		return nil
	}
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return trial
}

// explain reports the first fault of each kind, and how to see it again.
func explain(t *testing.T, trial *trial) {
	t.Helper()
	var b strings.Builder
	seen := make(map[string]bool)
	for i := range trial.faults {
		f := &trial.faults[i]
		if !seen[f.Kind] && len(seen) < 3 {
			fmt.Fprintf(&b, "  %s\n", f)
		}
		seen[f.Kind] = true
	}
	again := fmt.Sprintf("go test ./internal/simulator -run 'TestVariants/%s$' -args -first %d -seeds 1 -keep /tmp/simulated", trial.variant.Name, trial.seed)
	if *simpler == "" {
		if names := shrink(trial.variant, trial.seed, trial.faults[0].Kind, t.TempDir); len(names) > 0 {
			again += " -simplify " + strings.Join(names, ",")
		}
	}
	t.Errorf("seed %d: %d faults\n%s  %s\n  again: %s", trial.seed, len(trial.faults), &b, trial.run.times(), again)
}

// TestEqualSeeds checks that a variant and a seed name one recording.
func TestEqualSeeds(t *testing.T) {
	v := &Variants[0]
	var data [2][]byte
	for i := range data {
		run, err := simulate(v.config(7))
		if err != nil {
			t.Fatal(err)
		}
		data[i] = run.Recording.Pieces[0].Data
	}
	if !slices.Equal(data[0], data[1]) {
		t.Error("two runs with one seed differ")
	}
}

// TestFaultsAreFound checks that the comparison finds what is wrong: recordings are
// changed so that answers about them cannot be right, or less is known.
func TestFaultsAreFound(t *testing.T) {
	for name, change := range map[string]func(run *Run){
		"wrong byte: a byte of the copy": func(run *Run) {
			f := run.Kernel.Text.Funcs[5] // ends with what nothing patches
			run.Recording.Copy.KCore[kernel.PageSize+f.Addr+f.Size-1-run.Kernel.Text.Lo] ^= 0xff
		},
		"wrong byte: a clock that is ahead": func(run *Run) {
			run.Kernel.Clock.Base += 50e6
		},
		"not known: another number of CPUs": func(run *Run) {
			run.Config.Record.Available = run.Config.Kernel.CPUs + 1
			again, err := simulate(run.Config)
			if err != nil {
				t.Fatal(err)
			}
			*run = *again
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := &Variants[0]
			run, err := simulate(v.config(2))
			if err != nil {
				t.Fatal(err)
			}
			change(run)
			trial := newTrial(v, 2, t.TempDir(), run)
			paths, err := run.write(trial.dir)
			if err != nil {
				t.Fatal(err)
			}
			trial.load(paths[0], replay.Options{Windows: true}, true)
			kind, _, _ := strings.Cut(name, ":")
			if !slices.ContainsFunc(trial.faults, func(f Fault) bool { return f.Kind == kind }) {
				t.Errorf("no fault %q among %v", kind, trial.faults)
			}
		})
	}
}

// TestPiecesAreCompared checks that what is looked at of a file of --switch-output is enough
// to find what is wrong in it, although the clock was set back.
func TestPiecesAreCompared(t *testing.T) {
	v := Variants[slices.IndexFunc(Variants, func(v Variant) bool { return v.Name == "clock-set-back" })]
	c := v.config(2)
	c.Record.Pieces = 4
	run, err := simulate(c)
	if err != nil {
		t.Fatal(err)
	}
	// The changes were made at other times than recorded, by more than the clock was set back.
	run.Kernel.Clock.Base += 2e9
	trial := newTrial(&v, 2, t.TempDir(), run)
	paths, err := run.write(trial.dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range paths {
		trial.faults = nil
		all := trial.piece(i)
		from, until := trial.truth.from, trial.truth.until
		trial.load(path, replay.Options{Windows: true, KCore: filepath.Join(paths[0], "kcore_dir")}, false)
		all()
		if len(trial.faults) == 0 {
			t.Errorf("no fault in piece %d, of true times %d to %d", i, from, until)
		}
		if i > 0 && from == 0 || i+1 < len(paths) && until <= from {
			t.Errorf("piece %d is of true times %d to %d", i, from, until)
		}
	}
	if trial.truth.from != 0 || trial.truth.until != 0 {
		t.Error("the limits of the last piece are left")
	}
}
