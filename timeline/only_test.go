// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// An onlyChecker compares images of some addresses with whole images of the same facts.
type onlyChecker struct {
	compared, known int // versions
}

// ranges returns ranges that begin and end anywhere in places of the whole image and around them; some are
// empty, some overlap.
func (c *onlyChecker) ranges(whole *Image, rng *rand.Rand) (ranges []Range) {
	for r := range whole.Answers() {
		addr, n := r.Range()
		if rng.IntN(4) > 0 {
			continue
		}
		lo := addr + rng.Uint64N(min(n, 16))
		if hi := lo + rng.Uint64N(12); hi < lo || rng.IntN(8) == 0 {
			ranges = append(ranges, Range{hi, lo})
		} else {
			ranges = append(ranges, Range{lo, hi})
		}
	}
	return ranges
}

// compare returns the first difference of the answers for ranges.
func (c *onlyChecker) compare(whole, im *Image, ranges []Range) string {
	for _, r := range ranges {
		for addr := r.Lo; addr < r.Hi; addr++ {
			var a, b [1]byte
			for x := range whole.Versions(addr, a[:], 0, MaxTime) {
				c.compared++
				if x.Standing == Known {
					c.known++
				}
				for y := range im.Versions(addr, b[:], x.Since, x.Until) {
					if x.Standing != y.Standing || x.Reason != y.Reason || x.Given != y.Given || a != b {
						return fmt.Sprintf("ranges %x: at %#x from %d is %v (%v) % x, and %v (%v) % x in the whole image",
							ranges, addr, y.Since, y.Standing, y.Reason, b, x.Standing, x.Reason, a)
					}
				}
			}
		}
	}
	return ""
}

// TestOnlyOfHistories: an image of some addresses says of them what the whole image says, whatever ranges are
// asked for: of the made-up histories of TestTruth, whose CPUs' clocks differ, and in which pokes and code
// overlap with the ends of the ranges.
func TestOnlyOfHistories(t *testing.T) {
	n := uint64(3_000)
	if testing.Short() {
		n = 300
	}
	var c onlyChecker
	for seed := range n + 1 {
		if seed == n {
			seed = 534 // code whose orders are looked for with those of its neighbour
		}
		w := newTinyWorld(seed)
		w.losesText, w.anyClock = seed%4 == 1, seed%3 == 0
		switch seed % 3 {
		case 0:
			w.run()
		case 1:
			w.runText()
		default:
			w.runSlots()
		}
		facts := w.facts()
		whole := imageOf(t, facts)
		ranges := c.ranges(whole, rand.New(rand.NewPCG(seed, 31)))
		if diff := c.compare(whole, imageOf(t, facts, ranges...), ranges); diff != "" {
			t.Fatalf("seed %d: %s\n%s", seed, diff, w.history())
		}
	}
	if c.compared < 10*int(n) || c.known < int(n) {
		t.Errorf("%d versions compared, %d of them known", c.compared, c.known)
	}
}

// TestOnlyOfModule: a change of a module that does not fit says something of all of the module.
func TestOnlyOfModule(t *testing.T) {
	facts := []string{"extent 100..1000", "text 0x1000..0x2000", "snapshot 100..200 0x1000..0x2000=90 0x9000..0xb000=90",
		"module m text=0x9000..0xb000 listed=100..201", "poke 500 0x9100 cc11 -> 9090"}
	var c onlyChecker
	whole, ranges := imageOf(t, facts), []Range{{0xa100, 0xa102}}
	if got := whole.At(600).Read(0xa100, make([]byte, 2)).Standing; got != Conflicting {
		t.Errorf("the whole image says %v", got)
	}
	if diff := c.compare(whole, imageOf(t, facts, ranges...), ranges); diff != "" {
		t.Error(diff)
	}
}

// TestOnlyOfRules is TestOnlyOfHistories of the histories in testdata/rules.
func TestOnlyOfRules(t *testing.T) {
	files, err := filepath.Glob("testdata/rules/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	var c onlyChecker
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, rule := range ruleCases(file, archive) {
			var facts []string
			for line := range strings.Lines(rule.setup + rule.text) {
				if line = withoutComment(line); isQuestion(line) {
					break
				} else if line != "" {
					facts = append(facts, line)
				}
			}
			whole := imageOf(t, facts)
			for round := range uint64(8) {
				ranges := c.ranges(whole, rand.New(rand.NewPCG(uint64(i), round)))
				if diff := c.compare(whole, imageOf(t, facts, ranges...), ranges); diff != "" {
					t.Errorf("%s: %s: %s", file, rule.name, diff)
					break
				}
			}
		}
	}
	t.Logf("%d versions compared, %d of them known", c.compared, c.known)
	if c.compared < 10_000 || c.known < 1_000 {
		t.Errorf("%d versions compared, %d of them known", c.compared, c.known)
	}
}
