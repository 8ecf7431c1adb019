// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
)

// classNames are the names of the mechanisms, by number. Of several changes in one place of
// the map, the one with the greatest number gives the color.
var classNames = func() (names []string) {
	for _, m := range mechanism.All() {
		names = append(names, m.String())
	}
	return names
}()

// stepNames say what pokes do, by kind; "" for those that only change code in place.
var stepNames = [...]string{
	timeline.PokeArmed:       "armed",
	timeline.PokeDisarmed:    "disarmed",
	timeline.PokeUnoptimised: "unoptimised",
	timeline.PokeCreated:     "new code",
	timeline.PokeRemoved:     "code removed",
}
