// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/timeline/pprofexport"
	"github.com/textreplay/textreplay/timeline/replay"
)

func loadCallgraph(t *testing.T) *replay.Replay {
	t.Helper()
	r, err := replay.Load("../../testdata/callgraph/rec.data", replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestFolded: folded stacks and a file of speedscope have the samples of the profile.
func TestFolded(t *testing.T) {
	r := loadCallgraph(t)
	opts := pprofexport.Options{Labels: pprofexport.AllLabels}
	var folded, scope bytes.Buffer
	stats, err := pprofexport.WriteFolded(&folded, r, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pprofexport.WriteSpeedscope(&scope, r, opts); err != nil {
		t.Fatal(err)
	}

	counts := make(map[string]uint64)
	var samples uint64
	for line := range strings.Lines(folded.String()) {
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseUint(strings.TrimSpace(line[i+1:]), 10, 64)
		if err != nil || n == 0 || counts[line[:i]] != 0 {
			t.Fatalf("line %q: %v", line, err)
		}
		counts[line[:i]] = n
		samples += n
	}
	if samples != stats.Samples || samples != 495 {
		t.Errorf("%d samples, want %d", samples, stats.Samples)
	}
	if !strings.Contains(folded.String(), "\nswapper;secondary_startup_64_no_verify_[k];start_secondary_[k];cpu_startup_entry_[k];do_idle_[k];default_idle_call_[k];amd_e400_idle_[k];native_safe_halt_[k] ") ||
		!strings.Contains(folded.String(), "scenario.sh;[busybox];[busybox] ") {
		t.Errorf("a stack is missing:\n%s", &folded)
	}

	var file struct {
		Shared struct {
			Frames []struct{ Name, File string }
		}
		Profiles []struct {
			Type, Name, Unit     string
			StartValue, EndValue int64
			Samples              [][]int
			Weights              []int64
		}
	}
	if err := json.Unmarshal(scope.Bytes(), &file); err != nil || len(file.Profiles) != 1 {
		t.Fatalf("%v: %.200s", err, &scope)
	}
	p := &file.Profiles[0]
	if p.Type != "sampled" || p.Name != "cpu-clock" || p.Unit != "nanoseconds" || p.StartValue != 0 || p.EndValue != 26052631110 || len(p.Samples) != len(p.Weights) {
		t.Errorf("%+v", p)
	}
	weights := make(map[string]int64)
	var total int64
	for i, stack := range p.Samples {
		var names []string
		for k, id := range stack {
			name := file.Shared.Frames[id].Name
			if k > 0 && !strings.HasPrefix(name, "[") {
				name += "_[k]"
			}
			names = append(names, name)
		}
		weights[strings.Join(names, ";")] += p.Weights[i]
		total += p.Weights[i]
	}
	if total != p.EndValue || len(weights) != len(counts) {
		t.Errorf("%d ns in %d stacks, want %d in %d", total, len(weights), p.EndValue, len(counts))
	}
	for stack, n := range counts {
		if w := weights[stack]; w != int64(n)*52631578 {
			t.Errorf("%s: %d ns, %d samples", stack, w, n)
		}
	}

	opts.Labels = 0
	folded.Reset()
	if _, err := pprofexport.WriteFolded(&folded, r, opts); err != nil || strings.Contains(folded.String(), "swapper") {
		t.Errorf("%v: threads without their label:\n%.200s", err, &folded)
	}
	for _, write := range []func() error{
		func() error {
			_, err := pprofexport.WriteFolded(&folded, r, pprofexport.Options{PIDs: []uint32{1 << 31}})
			return err
		},
		func() error {
			_, err := pprofexport.WriteSpeedscope(&folded, r, pprofexport.Options{PIDs: []uint32{1 << 31}})
			return err
		},
	} {
		if err := write(); !errors.Is(err, pprofexport.ErrNoSamples) {
			t.Errorf("no sample: %v", err)
		}
	}
}
