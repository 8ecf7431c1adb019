// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/textreplay/textreplay/timeline/replay"
)

// WriteFolded writes the samples as folded stacks, which flamegraph.pl and most viewers
// of flame graphs read: a line for each different stack, from the name of the thread to
// the innermost function, separated by ";", and after a space the number of samples.
// Lines are sorted. Threads are left out without [LabelComm]; other labels are ignored.
//
// Functions of the kernel end in "_[k]", as flamegraph.pl expects. An address of a
// program is "[FILE]", because the recording has no names of programs; one without a
// file is "[unknown]". ";" in a name becomes ":".
//
// If the options mean several events, their samples are added. Errors are those of
// [Write]; memory grows as that of [Profile].
func WriteFolded(w io.Writer, r *replay.Replay, opts Options) (*Stats, error) {
	p, stats, err := checkedProfile(r, opts)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int64)
	for _, s := range p.Sample {
		var n int64
		for i := 0; i < len(s.Value); i += 2 { // each event has the number of samples and its own value
			n += s.Value[i]
		}
		counts[strings.Join(frames(s, opts.Labels), ";")] += n
	}
	lines := make([]string, 0, len(counts))
	for stack, n := range counts {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s %d\n", stack, n))
		}
	}
	slices.Sort(lines)
	b := bufio.NewWriter(w)
	for _, line := range lines {
		b.WriteString(line)
	}
	return stats, b.Flush()
}

// checkedProfile is Profile without labels other than threads, guarded against inputs
// that change.
func checkedProfile(r *replay.Replay, opts Options) (p *profile.Profile, stats *Stats, err error) {
	opts.Labels &= LabelComm
	err = replay.Guard(func() (err error) {
		p, stats, err = Profile(r, opts)
		return err
	})
	if err == nil {
		err = r.Check()
	}
	return p, stats, err
}

// frames returns the names of a stack, the outermost first.
func frames(s *profile.Sample, labels Labels) []string {
	var out []string
	if labels&LabelComm != 0 {
		comm := "[unknown]"
		if names := s.Label["comm"]; len(names) > 0 && names[0] != "" {
			comm = names[0]
		}
		out = append(out, plain(comm))
	}
	for _, l := range slices.Backward(s.Location) {
		if len(l.Line) == 0 {
			name := "[unknown]"
			if l.Mapping != nil && l.Mapping.File != "" {
				name = "[" + strings.Trim(path.Base(l.Mapping.File), "[]") + "]"
			}
			out = append(out, plain(name))
			continue
		}
		for _, line := range slices.Backward(l.Line) {
			name := "[unknown]"
			if line.Function != nil {
				name = line.Function.Name
			}
			out = append(out, plain(name)+"_[k]")
		}
	}
	return out
}

// plain replaces what ends a name or a line in folded stacks.
func plain(name string) string {
	return strings.NewReplacer(";", ":", "\n", " ", "\r", " ").Replace(name)
}

// The file format of speedscope: https://www.speedscope.app/file-format-schema.json.
type (
	speedscopeFile struct {
		Schema   string              `json:"$schema"`
		Exporter string              `json:"exporter"`
		Name     string              `json:"name"`
		Active   int                 `json:"activeProfileIndex"`
		Shared   speedscopeShared    `json:"shared"`
		Profiles []speedscopeProfile `json:"profiles"`
	}
	speedscopeShared struct {
		Frames []speedscopeFrame `json:"frames"`
	}
	speedscopeFrame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int64  `json:"line,omitempty"`
	}
	speedscopeProfile struct {
		Type    string  `json:"type"`
		Name    string  `json:"name"`
		Unit    string  `json:"unit"`
		Start   int64   `json:"startValue"`
		End     int64   `json:"endValue"`
		Samples [][]int `json:"samples"`
		Weights []int64 `json:"weights"`
	}
)

// WriteSpeedscope writes the samples as a file for speedscope (https://speedscope.app),
// with a profile for each event. Stacks begin with the name of the thread if opts has
// [LabelComm]; other labels are ignored. The weight of a stack is the sum of its periods,
// in nanoseconds for clocks. Equal stacks are one, so there is no order of time. Frames
// are named as by [WriteFolded], without "_[k]"; functions of BPF programs have their
// source.
//
// Errors are those of [Write]; memory grows as that of [Profile].
func WriteSpeedscope(w io.Writer, r *replay.Replay, opts Options) (*Stats, error) {
	p, stats, err := checkedProfile(r, opts)
	if err != nil {
		return nil, err
	}
	file := speedscopeFile{Schema: "https://www.speedscope.app/file-format-schema.json", Exporter: "textreplay",
		Name: "kernel " + r.Report.Kernel, Profiles: []speedscopeProfile{}}
	ids := make(map[speedscopeFrame]int)
	id := func(f speedscopeFrame) int {
		i, ok := ids[f]
		if !ok {
			i = len(ids)
			ids[f] = i
			file.Shared.Frames = append(file.Shared.Frames, f)
		}
		return i
	}
	stacks := make([][]int, len(p.Sample))
	for i, s := range p.Sample {
		names := frames(s, opts.Labels)
		k := 0
		if opts.Labels&LabelComm != 0 {
			stacks[i], k = append(stacks[i], id(speedscopeFrame{Name: names[0]})), 1
		}
		for _, l := range slices.Backward(s.Location) {
			if len(l.Line) == 0 {
				f := speedscopeFrame{Name: names[k]}
				if l.Mapping != nil {
					f.File = l.Mapping.File
				}
				stacks[i] = append(stacks[i], id(f))
				k++
			}
			for _, line := range slices.Backward(l.Line) {
				f := speedscopeFrame{Name: strings.TrimSuffix(names[k], "_[k]"), Line: line.Line}
				if line.Function != nil {
					f.File = line.Function.Filename
				}
				stacks[i] = append(stacks[i], id(f))
				k++
			}
		}
	}
	for i, t := range p.SampleType {
		if i%2 == 0 {
			continue // the number of samples of the event that follows
		}
		out := speedscopeProfile{Type: "sampled", Name: t.Type, Unit: "none", Samples: [][]int{}, Weights: []int64{}}
		if t.Unit == "nanoseconds" {
			out.Unit = t.Unit
		}
		for k, s := range p.Sample {
			if s.Value[i] == 0 {
				continue
			}
			out.Samples, out.Weights = append(out.Samples, stacks[k]), append(out.Weights, s.Value[i])
			out.End += s.Value[i]
		}
		file.Profiles = append(file.Profiles, out)
	}
	if file.Shared.Frames == nil {
		file.Shared.Frames = []speedscopeFrame{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return stats, e.Encode(file)
}
