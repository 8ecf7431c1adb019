// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/textreplay/textreplay/timeline/replay"
)

var armExecution = flag.String("arm-execution", "", "TestOpenCSDExecution: decode the execution in `DIR`, which has the form of testdata/etm")

func csdecode(t *testing.T) string {
	return compile(t, "csdecode", "opencsd/c_api/opencsd_c_api.h", "opencsd/csdecode.c", "opencsd/textreplay_ocsd.c", "-lopencsd_c_api", "-lopencsd")
}

var armStatsPattern = regexp.MustCompile(`: (\d+) instructions, (\d+) errors, (\d+) traps, (\d+) gaps; (\d+) choices, (\d+) replays`)

// An armResult is what csdecode made of the trace of one CPU.
type armResult struct {
	decoded, errors, traps, gaps, choices, replays int

	same    int // instructions that were executed, in this order
	unknown int // left out: the recording has no bytes there
	differ  int // the first one that differs; -1: none
}

func (a *armResult) add(b armResult) {
	a.decoded += b.decoded
	a.errors += b.errors
	a.traps += b.traps
	a.gaps += b.gaps
	a.choices += b.choices
	a.replays += b.replays
	a.same += b.same
	a.unknown += b.unknown
	if a.differ <= 0 {
		a.differ = b.differ
	}
}

// decodeETM decodes the trace of one CPU and compares it with what it executed.
func decodeETM(t *testing.T, exe string, r *replay.Replay, insns []instruction, steps []armStep, trace []byte, flags ...string) armResult {
	t.Helper()
	file := filepath.Join(t.TempDir(), "etm.bin")
	if err := os.WriteFile(file, trace, 0o600); err != nil {
		t.Fatal(err)
	}
	res := armResult{differ: -1}
	at := 0 // in steps
	out, errOut := eachDecoded(t, 12, func(raw []byte) {
		defer func() { res.decoded++ }()
		is := func(k int) bool {
			x := &insns[steps[k].id]
			return binary.LittleEndian.Uint64(raw) == x.ip && bytes.Equal(raw[8:], x.bytes)
		}
		for at < len(steps) && !is(at) && !hasBytes(t, r, &insns[steps[at].id], steps[at].time) {
			at++
			res.unknown++
		}
		if at < len(steps) && is(at) {
			at++
			res.same++
			return
		}
		if res.differ < 0 {
			res.differ = res.decoded
			if res.decoded < len(steps) {
				t.Logf("instruction %d: decoded %x %x, executed %x %x", res.decoded, binary.LittleEndian.Uint64(raw), raw[8:], insns[steps[res.decoded].id].ip, insns[steps[res.decoded].id].bytes)
			}
		}
		// Where the decoder lost its way it left some out: find the next one that is the same.
		for k := at; k < min(at+3000, len(steps)); k++ {
			if is(k) {
				at = k + 1
				res.same++
				break
			}
		}
	}, exe, append(slices.Clone(flags), r.Recording.Path(), file)...)
	m := armStatsPattern.FindSubmatch(out)
	if m == nil {
		t.Fatalf("%s%s", out, errOut)
	}
	for i, p := range []*int{nil, &res.errors, &res.traps, &res.gaps, &res.choices, &res.replays} {
		if p != nil {
			*p, _ = strconv.Atoi(string(m[i+1]))
		}
	}
	if res.errors > 0 {
		t.Logf("%.1500s", errOut)
	}
	return res
}

// hasBytes reports whether the recording has bytes of an instruction when it was executed. There are
// none of what was written before perf began and is in no copy: the slot of the recorder's own
// kprobe.
func hasBytes(t *testing.T, r *replay.Replay, x *instruction, counter uint64) bool {
	at, err := r.Report.Clock.TSC(counter)
	if err != nil {
		t.Fatal(err)
	}
	var buf [4]byte
	return r.Image.At(at).Read(x.ip, buf[:]).Given == 4
}

// TestOpenCSDExecution: three CPUs run an arm64 kernel while static keys, ftrace and kprobes
// change its text. What OpenCSD decodes of their traces over the recording is what they executed,
// with all BRK of changes found. Over perf's copy of text it is not.
//
//	go test ./examples -run TestOpenCSDExecution -arm-execution DIR -v
func TestOpenCSDExecution(t *testing.T) {
	dir, rec := filepath.Join("..", "testdata", "etm"), "cut.data"
	if *armExecution != "" {
		dir, rec = *armExecution, "rec.data"
	}
	exe := csdecode(t)
	insns, cpus, traps := readArmExecution(t, dir)
	r, err := replay.Load(filepath.Join(dir, rec), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// One outcome in a packet and many times; several outcomes, and a time only now and then,
	// so that changes have an uncertain place in the trace.
	for _, form := range []etmForm{{1, 16, 1 << 12}, {3, 100, 1 << 12}, {3, 3000, 1 << 11}, {2, 30000, 1 << 13}} {
		t.Run(fmt.Sprintf("%d outcomes, a timestamp each %d ticks", form.atoms, form.timestamp), func(t *testing.T) {
			var all, plain, first armResult
			executed := 0
			for cpu, steps := range cpus {
				if len(steps) < 2 {
					continue
				}
				trace, covered := encodeETM(insns, steps, form)
				executed += covered
				d := decodeETM(t, exe, r, insns, steps, trace)
				if d.errors > 0 || d.differ >= 0 || d.decoded+d.unknown != covered || d.unknown > 2*d.gaps {
					t.Errorf("cpu %d: %d of %d instructions decoded, %d have no bytes, the first that differs is %d; %d errors", cpu, d.decoded, covered, d.unknown, d.differ, d.errors)
				}
				all.add(d)
				plain.add(decodeETM(t, exe, r, insns, steps, trace, "-p"))
				first.add(decodeETM(t, exe, r, insns, steps, trace, "-1"))
			}
			t.Logf("executed %d, of them %d BRK; %+v", executed, traps, all)
			t.Logf("over perf's copy of text: %+v", plain)
			t.Logf("with the first of several values always: %+v", first)
			if *armExecution == "" && (all.replays == 0 || first.differ < 0) {
				t.Error("the first value is always the right one")
			}
			if plain.errors == 0 || plain.same == executed {
				t.Error("no errors over perf's copy of text")
			}
		})
	}
}
