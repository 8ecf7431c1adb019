// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"strings"
)

// Similar returns at most this many names of code that look like name, the most similar
// first: compiler's clones of it (name.isra.0), names that end with it
// (__x64_sys_name), and names that differ in a few letters. They are from kallsyms and
// from the recording's KSYMBOL records, of all times.
func (r *Replay) Similar(name string, most int) []string {
	if name == "" || most < 1 {
		return nil
	}
	type scored struct {
		name  string
		score int
	}
	var found []scored
	add := func(candidate string) {
		if score, ok := similarity(name, candidate); ok {
			found = append(found, scored{candidate, score})
		}
	}
	if r.kallsyms != nil {
		for _, s := range r.kallsyms.All() {
			switch s.Type {
			case 't', 'T', 'w', 'W', 'i':
				add(s.Name)
			}
		}
	}
	for s := range r.Image.Symbols {
		add(s.Name)
	}
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, f := range found {
		if len(out) == most {
			break
		}
		if len(out) == 0 || out[len(out)-1] != f.name {
			out = append(out, f.name)
		}
	}
	return out
}

// similarity compares a name that does not exist with one that does; less is more
// similar. ok is false if they are not similar.
func similarity(name, candidate string) (score int, ok bool) {
	const (
		clone = 0
		end   = 3 // less similar than names that differ in one or two letters
	)
	plain, _, _ := strings.Cut(candidate, ".")
	switch {
	case plain == name, strings.EqualFold(candidate, name):
		return clone, true
	case strings.HasSuffix(candidate, "_"+name) && len(name) > 3:
		return end, true
	}
	// A quarter of the letters may differ, but in a short name a letter makes another name.
	most := min(len(name)/4, 3)
	d := distance(name, candidate, most)
	return d, d <= most
}

// distance returns how many letters must be inserted, deleted, replaced or swapped with
// their neighbour to make b of a; more than most if it takes more than that.
func distance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most || len(b) > 1<<10 {
		return most + 1
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > most {
			return most + 1
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
