// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

type jsonInfo struct {
	Trusted   jsonTrust               `json:"trusted"`
	Producer  string                  `json:"producer"`
	Kernel    string                  `json:"kernel"`
	BuildID   *string                 `json:"build_id"` // of the kernel, in hex; null if it is not recorded
	Arch      string                  `json:"arch"`
	Clock     jsonClock               `json:"clock"`
	Coverage  map[string]jsonCoverage `json:"coverage"`
	Horizon   string                  `json:"horizon"`
	Copy      *jsonInterval           `json:"copy"`
	Records   map[string]uint64       `json:"records"`
	Snapshots []jsonSnapshot          `json:"snapshots"`
	// Pokes counts changes: total, and each shape of them. Both have those that perf wrote twice (doubles),
	// which log shows once; neither has copies, which are of other events.
	Pokes   map[string]uint64 `json:"pokes"`
	BPF     jsonBPF           `json:"bpf"`
	Assumed []string          `json:"assumed"` // writers that leave no record: known holds if none wrote
	// AlsoAssumed is what known assumes of how perf was run and of the machine.
	AlsoAssumed []string   `json:"also_assumed,omitempty"`
	Lost        []jsonLoss `json:"lost"`
	// MoreLost is the number of losses that are left out, beyond the first 10,000.
	MoreLost  int            `json:"more_lost,omitempty"`
	Conflicts []jsonConflict `json:"conflicts"` // the first maxConflicts
	Total     int            `json:"conflicts_total"`
	Skew      []jsonSkew     `json:"skew"`
	Guest     *string        `json:"guest"` // null: the host
	Guests    []jsonGuest    `json:"guests"`
	Warnings  []string       `json:"warnings"`
	Advice    *jsonAdvice    `json:"advice"`           // null for a guest
	Probes    *jsonProbes    `json:"probes,omitempty"` // of kernels that record no pokes
}

// jsonAdvice is how to record what the recording lacks.
type jsonAdvice struct {
	Command []string            `json:"command"` // null if no option helps
	Changes []jsonAdvisedChange `json:"changes"` // none: the recording lacks nothing
}

type jsonAdvisedChange struct {
	Option *string `json:"option"`
	Why    string  `json:"why"`
}

type jsonTrust struct {
	From    *string  `json:"from"`
	To      *string  `json:"to"`
	Because []string `json:"because"`
}

type jsonClock struct {
	Name string `json:"name"`
	TSC  bool   `json:"tsc"`
	Wall bool   `json:"wall"`
}

// mostRows is how many losses, and how many reasons, info --json lists.
const mostRows = 10_000

type jsonCoverage struct {
	Verdict string      `json:"verdict"`
	Reasons []jsonLimit `json:"reasons"`
	// More is the number of reasons that are left out, beyond the first 10,000.
	More int `json:"more,omitempty"`
}

type jsonLimit struct {
	jsonReason
	From *string `json:"from"`
	To   *string `json:"to"`
}

type jsonSnapshot struct {
	From     *string     `json:"from"`
	To       *string     `json:"to"`
	Segments []jsonRange `json:"segments"`
}

type jsonRange struct {
	Addr string `json:"addr"`
	Len  uint64 `json:"len"`
}

type jsonBPF struct {
	// Programs is the number of programs that were loaded.
	Programs int `json:"programs"`
	// WithBytes is the number of those whose code an info has, or samples of a probe on __text_poke.
	WithBytes int `json:"with_bytes"`
	// Interpreted is the number of those that have no code, since the kernel interprets them.
	Interpreted int `json:"interpreted"`
	Images      int `json:"images"`
	// ImagesWithBytes is the number of images whose code "textreplay record" read, or samples of a probe on __text_poke have.
	ImagesWithBytes int           `json:"images_with_bytes"`
	Lives           []jsonProgram `json:"lives"`
}

type jsonProgram struct {
	Name  string  `json:"name"`
	Addr  string  `json:"addr"`
	From  *string `json:"from"`
	To    *string `json:"to"`
	Bytes bool    `json:"bytes"`
}

type jsonLoss struct {
	CPU     int64   `json:"cpu"`
	From    *string `json:"from"`
	To      *string `json:"to"`
	Records uint64  `json:"records"`
}

type jsonSkew struct {
	Addr      string `json:"addr"`
	First     string `json:"first"`
	FirstCPU  int    `json:"first_cpu"`
	Second    string `json:"second"`
	SecondCPU int    `json:"second_cpu"`
	By        string `json:"by"`
}

type jsonConflict struct {
	Addr       string          `json:"addr"`
	Len        uint64          `json:"len"`
	Symbol     *jsonSymbol     `json:"symbol"`
	From       *string         `json:"from"`
	To         *string         `json:"to"`
	Reason     *jsonReason     `json:"reason"`
	Candidates []jsonCandidate `json:"candidates"`
}

func (d *digest) json() jsonInfo {
	out := jsonInfo{
		Trusted:     jsonTrust{Because: list(d.Trusted.Because)},
		Producer:    d.Producer,
		Kernel:      d.Kernel,
		BuildID:     nonEmpty(d.BuildID),
		Arch:        d.Arch,
		Guests:      guestsJSON(d.Guests),
		Clock:       jsonClock{d.Clock.Name, d.tsc() == nil, d.wall() == nil},
		Coverage:    make(map[string]jsonCoverage),
		Horizon:     decTime(d.Horizon),
		Records:     make(map[string]uint64),
		Snapshots:   []jsonSnapshot{},
		Pokes:       map[string]uint64{"total": d.Pokes.Total},
		BPF:         jsonBPF{d.BPF.Programs, d.BPF.WithBytes, d.BPF.Interpreted, d.BPF.Images, d.BPF.ImagesWithBytes, []jsonProgram{}},
		Lost:        []jsonLoss{},
		Conflicts:   []jsonConflict{},
		Skew:        []jsonSkew{},
		Total:       d.Report.Conflicts,
		Warnings:    []string{},
		Assumed:     unseenWriters,
		AlsoAssumed: d.assumptions(),
	}
	if d.Probes != nil {
		out.Probes = probesJSON(d.Probes)
	}
	if d.Guest != 0 {
		name := guestFlag(d.Guest)
		out.Guest = &name
	}
	if d.Trusted.To != 0 {
		out.Trusted.From, out.Trusted.To = since(d.Trusted.From), until(d.Trusted.To)
	}
	for _, k := range d.kinds() {
		out.Coverage[k.name] = coverageJSON(k.coverage)
	}
	for _, c := range d.records() {
		out.Records[c.typ.String()] = c.n
	}
	if d.Copied != nil {
		out.Copy = &jsonInterval{since(d.Copied.From), until(d.Copied.To)}
		out.Snapshots = append(out.Snapshots, snapshotJSON(*d.Copied, d.Segments))
	}
	for _, c := range d.Copies {
		out.Snapshots = append(out.Snapshots, snapshotJSON(c.Made, c.Segments))
	}
	for _, k := range pokeKinds(&d.Pokes) {
		out.Pokes[k.key] = k.n
	}
	for _, p := range d.programs {
		out.BPF.Lives = append(out.BPF.Lives, jsonProgram{p.name, hexAddr(p.addr), since(p.from), until(p.to), p.bytes})
	}
	shown := min(len(d.Losses), mostRows)
	out.MoreLost = len(d.Losses) - shown
	for _, l := range d.Losses[:shown] {
		out.Lost = append(out.Lost, jsonLoss{l.CPU, since(l.From), until(l.To), l.Records})
	}
	for _, c := range d.conflicts {
		out.Conflicts = append(out.Conflicts, conflictJSON(d.r, c))
	}
	for _, s := range d.Skews {
		out.Skew = append(out.Skew, jsonSkew{hexAddr(s.Addr), decTime(s.First), s.FirstCPU, decTime(s.Second), s.SecondCPU, decTime(s.By())})
	}
	for _, w := range d.Warnings {
		out.Warnings = append(out.Warnings, w.Error())
	}
	if advice := d.r.Advice(); advice != nil {
		out.Advice = &jsonAdvice{advice.Command, []jsonAdvisedChange{}}
		for _, c := range advice.Changes {
			out.Advice.Changes = append(out.Advice.Changes, jsonAdvisedChange{nonEmpty(c.Option), c.Why})
		}
	}
	return out
}

// coverageJSON returns a coverage with its first mostRows reasons.
func coverageJSON(c replay.Coverage) jsonCoverage {
	out := jsonCoverage{Verdict: string(c.Verdict), Reasons: []jsonLimit{}, More: max(0, len(c.Limits)-mostRows)}
	for _, l := range c.Limits[:len(c.Limits)-out.More] {
		out.Reasons = append(out.Reasons, jsonLimit{jsonReason{l.Reason.String(), l.Text}, since(l.From), until(l.To)})
	}
	return out
}

// snapshotJSON returns a copy of memory that was made at some time of an interval.
func snapshotJSON(made replay.Times, segments []timeline.Range) jsonSnapshot {
	out := jsonSnapshot{From: since(made.From), To: until(made.To), Segments: []jsonRange{}}
	for _, g := range segments {
		out.Segments = append(out.Segments, jsonRange{hexAddr(g.Lo), g.Hi - g.Lo})
	}
	return out
}

// jsonProbes is what probes on text writers recorded.
type jsonProbes struct {
	Events     []jsonProbeEvent   `json:"events"`
	Writes     int                `json:"writes"`
	Unknown    int                `json:"unknown"`
	Unpaired   int                `json:"unpaired"`
	Duplicates int                `json:"duplicates"`
	Accounted  bool               `json:"early_hits_accounted"`
	Readings   []jsonProbeReading `json:"readings"`
}

type jsonProbeEvent struct {
	Name     string `json:"name"`
	Function string `json:"function"`
	Samples  uint64 `json:"samples"`
}

type jsonProbeReading struct {
	From   *string  `json:"from"`
	To     *string  `json:"to"`
	Hits   []uint64 `json:"hits"`
	Missed []uint64 `json:"missed"`
}

func probesJSON(p *replay.Probes) *jsonProbes {
	out := &jsonProbes{Events: []jsonProbeEvent{}, Writes: p.Writes, Unknown: p.Unknown, Unpaired: p.Unpaired,
		Duplicates: p.Duplicates, Accounted: p.Accounted, Readings: []jsonProbeReading{}}
	for _, e := range p.Events {
		out.Events = append(out.Events, jsonProbeEvent(e))
	}
	for _, r := range p.Readings {
		out.Readings = append(out.Readings, jsonProbeReading{since(r.From), until(r.To), r.Hits, r.Missed})
	}
	return out
}

func conflictJSON(r *replay.Replay, c timeline.Conflict) jsonConflict {
	return jsonConflict{hexAddr(c.Addr), c.Len, placeOf(r.Image.At(c.From), c.Addr).json(),
		since(c.From), until(c.To), reasonJSON(c.Reason), candidatesJSON(c.Candidates)}
}

// list returns an empty list for nil, which JSON would print as null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
