// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/pprofexport"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/tables"
)

// pprof is the state of the command pprof.
type pprof struct {
	*app
	output, times string
	labels        words
	opts          pprofexport.Options
	pids          pids

	folded, speedscope bool
	byHost, otlp       bool
}

// noLabels is the value of --labels for no labels.
const noLabels = "none"

var labelWords = []struct {
	word  string
	label pprofexport.Labels
}{
	{"cpu", pprofexport.LabelCPU},
	{"pid", pprofexport.LabelPID},
	{"tid", pprofexport.LabelTID},
	{"comm", pprofexport.LabelComm},
}

func (a *app) pprofCmd() *cobra.Command {
	p := &pprof{app: a}
	cmd := &cobra.Command{
		Use:   "pprof -o FILE [flags] [REC...]",
		Short: "Write the samples as a profile for pprof",
		Long: `pprof writes the recording's samples, with their call chains, as a profile for
"go tool pprof". It names each kernel address as of the time of its sample. So an
unloaded BPF program keeps its name even if another program used the address later.
User-space addresses have no names; pprof finds them by file and build ID. With
--vmlinux and a file that has debug information, kernel text has lines of source and
inlined functions.

Each event has two values: the number of samples and the sum of their periods. The
labels cpu, pid, tid and comm separate samples of the same stack; pprof filters by
them (-tagfocus) and groups by them (-tagroot). With fewer labels, the profile of a
large recording is smaller.

In a call chain, the address of the call replaces the return address. After a call
of a function that never returns, the return address belongs to another function.

Of several recordings, of one machine or of many, pprof makes one profile. Each address is
named as of its sample's time in its own recording. Kernel text of the same build id and
offset is one place, wherever each machine had loaded its kernel. --by-host adds the
machine's name as the label host, "unknown" if the recording does not have it. Recordings of
other events are refused: --event. A recording that is given twice, also as a copy, counts once.

--otlp writes the same samples for OpenTelemetry, with one profile for each value: the
protocol's profiles signal, which is in development, as of version 1.11.

--folded and --speedscope write the same stacks for flame graphs. The outermost frame is
the name of the thread, unless --labels is none. They have no other labels.`,
		Example: `  textreplay pprof -o prof.pb.gz && go tool pprof -top prof.pb.gz
  textreplay pprof -o prof.pb.gz --time 12.5,13 --labels comm
  textreplay pprof -o fleet.pb.gz --labels none --by-host /recordings/*.data
  textreplay pprof -o out.folded --folded && flamegraph.pl out.folded > out.svg
  textreplay pprof -o out.speedscope.json --speedscope
  textreplay pprof -o fleet.otlp --otlp --by-host /recordings/*.data
  perf record -g -a -o - -- sleep 5 | textreplay pprof -i - -o prof.pb.gz
  textreplay image --at end --exec -o text.elf && go tool pprof -disasm vfs_read text.elf prof.pb.gz`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && cmd.Flags().Changed("input"):
				return usagef("-i and other names of recordings: give one of them")
			case len(args) == 1 && !p.byHost:
				p.input = pathname.Plain(args[0])
				p.outputs.Reads(p.input)
			case len(args) > 0:
				return p.merge(args)
			}
			return p.run()
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.output, "output", "o", "", "the `FILE` to write, - for standard output")
	f.StringVar(&p.times, "time", "", "only samples from time A up to but not including B (`A,B`; either may be empty)")
	f.StringArrayVar(&p.opts.Events, "event", nil, "only samples of this `EVENT` (repeatable)")
	f.Var(&p.pids, "pid", "only samples of processes with one of these `PIDS`")
	f.StringSliceVar(&p.opts.Comms, "comm", nil, "only samples of threads with one of these `NAMES`; with --pid, of either")
	var choices []string
	for _, l := range labelWords {
		choices = append(choices, l.word)
	}
	f.BoolVar(&p.byHost, "by-host", false, "add the name of the machine as the label host (recordings named as REC)")
	f.BoolVar(&p.folded, "folded", false, "write folded stacks instead, for flamegraph.pl")
	f.BoolVar(&p.speedscope, "speedscope", false, "write a file for speedscope instead")
	f.BoolVar(&p.otlp, "otlp", false, "write an OpenTelemetry profile instead: a ProfilesData message")
	cmd.MarkFlagsMutuallyExclusive("folded", "speedscope", "otlp")
	a.words(cmd, &p.labels, "labels", "the `LABELS` of samples (default all)", append(choices, noLabels)...)
	cmd.MarkFlagRequired("output")
	return cmd
}

// profileSummary counts what was written.
type profileSummary struct {
	Events    []profileEvent `json:"events"`
	Stacks    int            `json:"stacks"`
	Locations int            `json:"locations"`
	Functions int            `json:"functions"`
	Mappings  int            `json:"mappings"`
	Lost      uint64         `json:"lost"`
	Damaged   uint64         `json:"damaged"`
}

type profileEvent struct {
	Name    string `json:"name"`
	Unit    string `json:"unit"`
	Samples uint64 `json:"samples"`
	Total   string `json:"total"` // of the values, decimal
}

// merge writes one profile of several recordings.
func (p *pprof) merge(paths []string) error {
	switch {
	case p.folded || p.speedscope:
		return usagef("--folded and --speedscope are for a single recording; pprof reads the merged profile")
	case p.times != "":
		return usagef("--time is for a single recording: each has its own clock")
	}
	if err := p.noneOfOne(); err != nil {
		return err
	}
	if err := p.choose(); err != nil {
		return err
	}
	if err := p.reads(paths...); err != nil {
		return err
	}
	if err := p.reserve(p.output); err != nil {
		return err
	}
	var all pprofexport.Merger
	p.opts.Silent = true
	lost, damaged := uint64(0), uint64(0)
	met := make(metRecordings)
	for _, path := range paths {
		err := p.mergeOne(&all, path, met, &lost, &damaged)
		var event *pprofexport.EventError
		switch {
		case errors.Is(err, pprofexport.ErrNoSamples):
			p.sayf("%s: no sample matches", path)
		case errors.As(err, &event):
			return usagef("%s: --event: %w", path, event)
		case errors.Is(err, pprofexport.ErrOtherEvents):
			return usagef("%s: %w; --event chooses one", path, err)
		case err != nil:
			return err
		}
	}
	write := all.Write
	if p.otlp {
		write = all.WriteOTLP
	}
	err := p.writeFile(p.output, write)
	if errors.Is(err, pprofexport.ErrNoSamples) {
		return belowf("no sample matches: no profile was written")
	}
	if err != nil {
		return err
	}
	if lost > 0 {
		p.warnf("%s lost while recording; samples may be among them", count(lost, "record"))
	}
	if p.output == "-" {
		return nil
	}
	stats := all.Stats()
	stats.Lost, stats.Damaged = lost, damaged
	return outputError(p.summary(stats))
}

// mergeOne adds the samples of one recording, which is closed afterwards.
func (p *pprof) mergeOne(all *pprofexport.Merger, path string, met metRecordings, lost, damaged *uint64) error {
	input, remove, err := p.spooled(path)
	if err != nil {
		return err
	}
	defer remove()
	if first, err := met.add(path, input); err != nil {
		return inputError(err)
	} else if first != "" {
		p.sayf("%s: the same recording as %s, which counts once", path, first)
		return nil
	}
	r, err := replay.Load(input, replay.Options{Guest: p.guest.pid, CPUs: p.cpus})
	if err != nil {
		if path == "-" {
			err = nameStandardInput(err, input)
		}
		return p.loadError(fmt.Errorf("%s: %w", path, err))
	}
	defer r.Close()
	if path == "-" {
		for i, w := range r.Report.Warnings {
			r.Report.Warnings[i] = nameStandardInput(w, input)
		}
	}
	p.warn(r)
	if err := p.reads(r.Files()...); err != nil {
		return err
	}
	var out bytes.Buffer
	stats, err := pprofexport.Write(&out, r, p.opts)
	if err != nil {
		return err
	}
	*lost, *damaged = *lost+stats.Lost, *damaged+stats.Damaged
	p.warnOf(r, stats, path == "-")
	host := ""
	if p.byHost {
		host = cmp.Or(r.Report.Host, "unknown")
	}
	return all.Add(&out, host)
}

// warnOf prints what is damaged among the samples of a recording, unless it has been printed with the
// recording's own warnings.
func (p *pprof) warnOf(r *replay.Replay, stats *pprofexport.Stats, spooled bool) {
	for _, w := range stats.Warnings {
		if files := r.Recording.Files(); spooled && len(files) > 0 {
			w = nameStandardInput(w, files[0])
		}
		if !slices.ContainsFunc(r.Report.Warnings, func(known error) bool { return known.Error() == w.Error() }) {
			p.warnf("%v", w)
		}
	}
}

// metRecordings has the recordings that were met so far, by the sizes of their files. Only
// recordings whose files have the same sizes are read as a whole, to tell whether they are the same.
type metRecordings map[string][]*metRecording

type metRecording struct {
	path  string // the argument that named it
	files []string
	id    string // its name in export's tables, which follows from its content; "" until it is needed
}

func (m *metRecording) identify() (err error) {
	if m.id == "" {
		m.id, err = tables.ID(m.files, 0)
	}
	return err
}

// add adds a recording, and returns the name of the same one if it was met before.
func (m metRecordings) add(path, input string) (first string, err error) {
	is := &metRecording{path: path}
	if is.files, err = recordingFiles(input); err != nil {
		return "", err
	}
	var sizes []byte
	for _, name := range is.files {
		info, err := os.Stat(name)
		if err != nil {
			return "", err
		}
		sizes = fmt.Appendf(sizes, "%d ", info.Size())
	}
	same := m[string(sizes)]
	if len(same) > 0 || input != path { // a copy of standard input is removed before the next one comes
		if err := is.identify(); err != nil {
			return "", err
		}
	}
	for _, other := range same {
		if err := other.identify(); err != nil {
			return "", err
		}
		if other.id == is.id {
			return other.path, nil
		}
	}
	m[string(sizes)] = append(same, is)
	return "", nil
}

// converted calls write with w, and with --otlp converts what it writes.
func (p *pprof) converted(w io.Writer, write func(io.Writer) error) error {
	if !p.otlp {
		return write(w)
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return pprofexport.WriteOTLP(w, &b)
}

func (p *pprof) run() error {
	if p.byHost {
		return usagef("--by-host needs the names of recordings as arguments, not as -i")
	}
	if err := p.choose(); err != nil {
		return err
	}
	if err := p.reserve(p.output); err != nil {
		return err
	}
	return p.write()
}

// choose reads the flags that choose samples and labels.
func (p *pprof) choose() error {
	if len(p.labels.given) > 1 && slices.Contains(p.labels.given, noLabels) {
		return usagef("--labels: %s excludes other labels", noLabels)
	}
	if p.folded || p.speedscope {
		for _, w := range p.labels.given {
			if w != "comm" && w != noLabels {
				return usagef("--labels %s: --folded and --speedscope have no labels but the name of the thread, comm", w)
			}
		}
	}
	for _, l := range labelWords {
		if p.labels.has(l.word) {
			p.opts.Labels |= l.label
		}
	}
	p.opts.PIDs = p.pids
	return nil
}

// write writes the profile of a single recording.
func (p *pprof) write() error {
	r, err := p.loadAndWarn()
	if err != nil {
		return err
	}
	window, err := windowOf(r, p.times)
	if err != nil {
		return err
	}
	p.opts.From, p.opts.To = window.bounds()
	debug, err := p.debugInfo(r)
	if err != nil {
		return err
	}
	if debug != nil {
		p.opts.Source = func(addr uint64) (out []pprofexport.SourceFrame) {
			for _, f := range debug.frames(addr) {
				out = append(out, pprofexport.SourceFrame{Func: f.Func, File: f.File, Line: f.Line})
			}
			return out
		}
	}
	if bar := p.bar(); bar != nil {
		p.opts.Progress = bar.update
		defer bar.clear()
	}
	var stats *pprofexport.Stats
	err = p.writeFile(p.output, func(w io.Writer) (err error) {
		write := pprofexport.Write
		switch {
		case p.folded:
			write = pprofexport.WriteFolded
		case p.speedscope:
			write = pprofexport.WriteSpeedscope
		}
		return p.converted(w, func(w io.Writer) (err error) {
			stats, err = write(w, r, p.opts)
			return err
		})
	})
	var event *pprofexport.EventError
	switch {
	case errors.Is(err, pprofexport.ErrNoSamples) && r.Report.Records[perfdata.RecordSample] == 0:
		return belowf("the recording has no samples: no profile was written")
	case errors.Is(err, pprofexport.ErrNoSamples):
		return belowf("no sample matches: no profile was written")
	case errors.As(err, &event):
		return usagef("--event: %w", event)
	case err != nil:
		return err
	}
	p.warnOf(r, stats, p.input == "-")
	if stats.Lost > 0 {
		p.warnf("%s lost while recording; samples may be among them", count(stats.Lost, "record"))
	}
	if p.output == "-" {
		return nil
	}
	return outputError(p.summary(stats))
}

func (p *pprof) summary(stats *pprofexport.Stats) error {
	if p.json {
		sum := profileSummary{
			Stacks: stats.Stacks, Locations: stats.Locations, Functions: stats.Functions,
			Mappings: stats.Mappings, Lost: stats.Lost, Damaged: stats.Damaged,
		}
		for _, e := range stats.Events {
			sum.Events = append(sum.Events, profileEvent{e.Name, e.Unit, e.Samples, strconv.FormatUint(e.Total, 10)})
		}
		return encoder(p.out).Encode(sum)
	}
	for _, e := range stats.Events {
		fmt.Fprintf(p.out, "%s: %s of %s, %s %s\n", p.output, count(e.Samples, "sample"), e.Name, thousands(e.Total), e.Unit)
	}
	_, err := fmt.Fprintf(p.out, "%s: %s, %s, %s\n", p.output,
		count(stats.Stacks, "stack"), count(stats.Locations, "location"), count(stats.Functions, "function")+" of the kernel")
	return err
}
