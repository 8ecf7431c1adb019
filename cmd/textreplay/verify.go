// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline"
)

// verify is the state of the command verify.
type verify struct {
	*app
	against, at string
	limit       int
	format      choice
}

func (a *app) verifyCmd() *cobra.Command {
	v := &verify{app: a}
	cmd := &cobra.Command{
		Use:   "verify [flags]",
		Short: "Check a recording against itself, or against another copy of kernel text",
		Long: `verify checks a recording against itself:

  - contradictions: the old bytes of a change differ from what the recording gave
    before it, so a change was not recorded
  - illegal states: a site that is changed in several steps is in a state that no
    CPU may run
  - symbols, BPF program loads and program infos that do not fit together

The exit code is 1 if it finds one of these, unless a lost record explains it.

With --against it compares kernel text at a time with another copy of the same
kernel's memory, an ELF core such as /proc/kcore. Only known bytes can be wrong. The
other bytes are counted as not known, and how many of them are equal. The exit code
is 1 if a known byte is wrong, and 3 if the copy has nothing where the recording has
code: it is of another boot.

--json lists everything that was found; --limit shortens the lists of the text.`,
		Example: `  textreplay verify
  textreplay verify --against kcore.copy --at 12.345678901`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return v.run() },
	}
	f := cmd.Flags()
	a.formatFlag(cmd, &v.format)
	f.StringVar(&v.against, "against", "", "compare with this ELF core `FILE`")
	f.StringVar(&v.at, "at", "", "the `TIME` of that copy")
	f.IntVar(&v.limit, "limit", 10, "list at most `N` places (0: all); --json lists all of them")
	return cmd
}

func (v *verify) run() error {
	if v.limit < 0 {
		return usagef("--limit %d: must be 0 or more", v.limit)
	}
	switch {
	case v.against != "" && v.at == "":
		return usagef("--against needs --at TIME, the time of that copy")
	case v.at != "" && v.against == "":
		return usagef("--at needs --against FILE, the copy to compare with")
	}
	if v.against != "" {
		if err := v.reads(v.against); err != nil {
			return err
		}
	}
	v.notesRuns = v.against == ""
	r, err := v.loadAndWarn()
	if err != nil {
		return err
	}
	if v.against != "" {
		return v.compare(r)
	}
	return v.itself(r)
}

// within cuts a list to --limit.
func within[T any](v *verify, list []T) []T {
	if v.limit > 0 && len(list) > v.limit {
		return list[:v.limit]
	}
	return list
}

func (v *verify) writeMore(n int) {
	if v.limit > 0 && n > v.limit {
		fmt.Fprintf(v.out, "  and %s more (--limit 0 lists all)\n", thousands(n-v.limit))
	}
}

// A placeCount counts places with one name.
type placeCount struct {
	Symbol string `json:"symbol"`
	Count  uint64 `json:"count"`
}

func mostFirst(n map[string]uint64) []placeCount {
	out := []placeCount{}
	for _, name := range slices.Sorted(maps.Keys(n)) {
		out = append(out, placeCount{name, n[name]})
	}
	slices.SortStableFunc(out, func(a, b placeCount) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// symbolName names the symbol of an address, without an offset.
func symbolName(view timeline.View, addr uint64) string {
	p := placeOf(view, addr)
	p.offset = 0
	if p.name == "" {
		return "(no symbol)"
	}
	return p.String()
}

func (v *verify) writeBySymbol(what string, list []placeCount) {
	fmt.Fprintf(v.out, "\n%s by symbol:\n", what)
	for _, c := range within(v, list) {
		fmt.Fprintf(v.out, "  %10s  %s\n", thousands(c.Count), c.Symbol)
	}
	v.writeMore(len(list))
}
