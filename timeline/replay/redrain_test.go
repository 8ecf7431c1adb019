// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// redrain writes a recording as perf writes it to a pipe, if perf drains the ring
// buffers once in each period, one CPU after the other. The records of a CPU keep their
// order. A FINISHED_ROUND follows each round that drained something.
//
//	time      0        period   2*period
//	CPU 0     a b      c        d          a b e f ROUND c ROUND d g ROUND
//	CPU 1     e f               g
func redrain(tb testing.TB, rec *perfdata.Recording, period time.Duration) []byte {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	type record struct {
		time uint64 // when it is in the buffer: of equal times on one CPU, the later in the file comes later
		raw  []byte
	}
	buffers := make(map[uint32][]record) // by CPU
	var out bytes.Buffer
	w := perfdata.NewPipeWriter(&out, rec.ByteOrder())
	must(w.SetEvents(rec.Events()))
	for _, f := range []perfdata.Feature{perfdata.FeatureHostname, perfdata.FeatureOSRelease, perfdata.FeatureVersion,
		perfdata.FeatureArch, perfdata.FeatureNRCPUs, perfdata.FeatureCmdline, perfdata.FeatureTracingData} {
		if data, err := rec.Feature(f); err == nil {
			must(w.WriteFeature(f, data))
		}
	}
	var end uint64
	sc := rec.Scan()
	for sc.Next() {
		r := sc.Record()
		var id perfdata.SampleID
		switch {
		case r.Type == perfdata.RecordFinishedRound, r.Type == perfdata.RecordLostSamples:
			continue // perf writes no LOST_SAMPLES to a pipe that ends early
		case r.Type < 64:
			must(rec.SampleID(r, &id))
		}
		if id.Time == 0 {
			must(w.WriteRecord(r.Raw))
			continue
		}
		b := buffers[id.CPU]
		at := id.Time
		if n := len(b); n > 0 {
			at = max(at, b[n-1].time)
		}
		buffers[id.CPU] = append(b, record{at, bytes.Clone(r.Raw)})
		end = max(end, at)
	}
	must(sc.Err())
	cpus := make([]uint32, 0, len(buffers))
	now := end
	for cpu, b := range buffers {
		cpus = append(cpus, cpu)
		now = min(now, b[0].time)
	}
	slices.Sort(cpus)
	for now < end {
		now += uint64(period)
		wrote := false
		for _, cpu := range cpus {
			b := buffers[cpu]
			n, _ := slices.BinarySearchFunc(b, now, func(r record, t uint64) int { return cmp.Compare(r.time, t) })
			for _, r := range b[:n] {
				must(w.WriteRecord(r.raw))
			}
			buffers[cpu], wrote = b[n:], wrote || n > 0
		}
		if wrote {
			must(w.FinishedRound())
		}
	}
	for _, cpu := range cpus {
		for _, r := range buffers[cpu] {
			must(w.WriteRecord(r.raw))
		}
	}
	must(w.Close())
	return out.Bytes()
}

// killed returns a recording in file form as a killed perf leaves it: its header has no
// length and no features.
func killed(tb testing.TB, data []byte) []byte {
	tb.Helper()
	const dataOffset, dataSize, features = 40, 48, 72 // of struct perf_file_header
	le := binary.LittleEndian
	end := le.Uint64(data[dataOffset:]) + le.Uint64(data[dataSize:])
	out := bytes.Clone(data[:end])
	clear(out[dataSize:][:8])
	clear(out[features:][:32])
	return out
}

// TestSilentWithoutEnd: a CPU that went offline and came back is no longer recorded. If
// the recording has no clean end, its rounds guarantee nothing about that CPU. This
// holds while it is read and after.
func TestSilentWithoutEnd(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dir     string
		periods []time.Duration
	}{
		{"small", testdata("hotplug"), []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}},
		{"large", "x86_64/hotplug", []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tt.dir
			if !filepath.IsAbs(dir) {
				dir = corpus.Large(t, dir)
			}
			rec, err := perfdata.Open(filepath.Join(dir, "rec.data"))
			if err != nil {
				t.Fatal(err)
			}
			defer rec.Close()
			for _, period := range tt.periods {
				t.Run(fmt.Sprint(period), func(t *testing.T) {
					pipe := redrain(t, rec, period)
					t.Run("pipe", func(t *testing.T) { judgeWithoutEnd(t, dir, pipe, replay.Options{}) })
					again, err := perfdata.New(pipe)
					if err != nil {
						t.Fatal(err)
					}
					t.Run("killed", func(t *testing.T) {
						judgeWithoutEnd(t, dir, killed(t, asFile(t, again)), replay.Options{CPUs: 2})
					})
				})
			}
		})
	}
}

// asFile writes a recording in file form.
func asFile(tb testing.TB, rec *perfdata.Recording) []byte {
	tb.Helper()
	var out memoryFile
	w := perfdata.NewWriter(&out, rec.ByteOrder())
	if err := w.SetEvents(rec.Events()); err != nil {
		tb.Fatal(err)
	}
	sc := rec.Scan()
	for sc.Next() {
		switch r := sc.Record(); r.Type {
		case perfdata.RecordHeaderAttr, perfdata.RecordHeaderFeature, perfdata.RecordEventUpdate, perfdata.RecordHeaderTracingData:
		default:
			if err := w.WriteRecord(r.Raw); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.b
}

// judgeWithoutEnd compares the image of a recording with its oracles. A follower that has
// read the whole recording must make the same image.
func judgeWithoutEnd(t *testing.T, dir string, data []byte, opts replay.Options) {
	kcoreDir := filepath.Join(dir, "rec.data", "kcore_dir")
	whole := replayOf(t, data, kcoreDir, opts)
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		t.Fatal(err)
	}
	opts.KCore = kcoreDir
	f, err := replay.Follow(bytes.NewReader(data), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for f.Next() {
	}
	followed, err := f.Image()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := whole.Report.Horizon, f.Report().Horizon; a != b {
		t.Errorf("the horizon is %s, of a follower %s", replay.Seconds(a), replay.Seconds(b))
	}
	sum, also := score{}, score{}
	for _, o := range oracles {
		if !o.Outside() {
			judge(t, whole.Image, o, sum)
			judge(t, followed, o, also)
		}
	}
	if a, b := sum.String(), also.String(); a != b {
		t.Errorf("%s\nof a follower: %s", a, b)
	}
	if sum.of("kernel").known == 0 {
		t.Error("nothing is known")
	}
	t.Logf("horizon %s: %v", replay.Seconds(whole.Report.Horizon), sum)
}

// A memoryFile is a file in memory.
type memoryFile struct {
	b  []byte
	at int64
}

func (m *memoryFile) Write(p []byte) (int, error) {
	if n := m.at + int64(len(p)) - int64(len(m.b)); n > 0 {
		m.b = append(m.b, make([]byte, n)...)
	}
	n := copy(m.b[m.at:], p)
	m.at += int64(n)
	return n, nil
}

func (m *memoryFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case 1:
		offset += m.at
	case 2:
		offset += int64(len(m.b))
	}
	m.at = offset
	return offset, nil
}
