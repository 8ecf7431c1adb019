// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// guestFlag returns the value of --guest that names a guest.
func guestFlag(pid int) string {
	g := replay.Guest{PID: pid}
	return g.Name()
}

// A guest is the value of the flag --guest.
type guest struct{ pid int }

func (g *guest) String() string {
	if g.pid == 0 {
		return ""
	}
	return guestFlag(g.pid)
}

func (g *guest) Type() string { return "PID" }

func (g *guest) Set(s string) error {
	if s == guestFlag(replay.DefaultGuest) {
		g.pid = replay.DefaultGuest
		return nil
	}
	pid, err := strconv.ParseUint(s, 10, 31)
	if err != nil || pid == 0 {
		return fmt.Errorf("must be the process ID of the guest's hypervisor, or default (textreplay info lists the guests)")
	}
	g.pid = int(pid)
	return nil
}

// guestFlagOf adds the flag --guest to cmd and all of its commands.
func (a *app) guestFlagOf(cmd *cobra.Command) {
	cmd.PersistentFlags().Var(&a.guest, "guest", "answer for the kernel of a virtual machine, named by its hypervisor's `PID` or \"default\" (textreplay info lists them)")
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.completeGuests(), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("guest", complete); err != nil {
		panic(err)
	}
}

// completeGuests returns the guests that have a directory in the recording.
// Reading the recording would take too long for a shell completion.
func (a *app) completeGuests() []string {
	dirs, _ := filepath.Glob(filepath.Join(a.input, "kcore_dir__*"))
	for i := range dirs {
		dirs[i] = strings.TrimPrefix(filepath.Base(dirs[i]), "kcore_dir__")
	}
	return dirs
}

// guestText describes a guest in one line.
func guestText(g *replay.Guest) string {
	var parts []string
	if g.VCPUs > 0 {
		parts = append(parts, count(g.VCPUs, "virtual CPU"))
	}
	parts = append(parts, count(g.Records, "record"))
	if g.Pokes > 0 {
		parts = append(parts, count(g.Pokes, "text poke"))
	}
	if g.Samples > 0 {
		parts = append(parts, count(g.Samples, "sample"))
	}
	if g.First != 0 {
		parts = append(parts, fmt.Sprintf("from %s to %s", replay.Seconds(g.First), replay.Seconds(g.Last)))
	}
	if g.KCore == "" {
		parts = append(parts, "no copy of its kernel text")
	} else {
		parts = append(parts, "its text is in "+filepath.Base(g.KCore))
	}
	return strings.Join(parts, ", ")
}

type jsonGuest struct {
	Guest   string            `json:"guest"` // as for --guest
	PID     *int              `json:"pid"`
	VCPUs   *int              `json:"vcpus"`
	KCore   *string           `json:"kcore"`
	From    *string           `json:"from"`
	To      *string           `json:"to"`
	Records map[string]uint64 `json:"records"` // "total" and some types
}

func guestsJSON(guests []replay.Guest) []jsonGuest {
	out := []jsonGuest{}
	for i := range guests {
		g := &guests[i]
		j := jsonGuest{Guest: g.Name(), From: since(g.First), To: since(g.Last), Records: map[string]uint64{
			"total":                          g.Records,
			perfdata.RecordTextPoke.String(): g.Pokes,
			perfdata.RecordKSymbol.String():  g.Symbols,
			perfdata.RecordSample.String():   g.Samples,
		}}
		if g.PID > 0 {
			j.PID = &g.PID
		}
		if g.VCPUs > 0 {
			j.VCPUs = &g.VCPUs
		}
		if g.KCore != "" {
			j.KCore = &g.KCore
		}
		out = append(out, j)
	}
	return out
}
