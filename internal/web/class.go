// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import "github.com/textreplay/textreplay/timeline"

// classes says by which mechanism each poke was made.
type classes struct {
	t     *trail
	names []string // of the classes, in the order of their colors
}

// The names are those that the log of the command line prints.
var kindNames = []string{
	timeline.PokeBatch:       "in place",
	timeline.PokeArmed:       "kprobe armed",
	timeline.PokeDisarmed:    "kprobe disarmed",
	timeline.PokeUnoptimised: "kprobe unoptimised",
	timeline.PokeCreated:     "new code",
	timeline.PokeRemoved:     "code removed",
}

func newClasses(t *trail) *classes { return &classes{t: t, names: kindNames} }

// of returns the class of the i-th poke, an index of names.
func (c *classes) of(i int) uint8 { return c.t.kind[i] }
