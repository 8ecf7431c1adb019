// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A followed recording is read as if perf was still writing it.
type followed struct {
	data    []byte
	opts    replay.Options
	oracles []corpus.Oracle
	sites   []uint64 // addresses of pokes, without repetitions
	final   *replay.Replay
}

// follow prepares the recording in directory dir of testdata or the corpus.
func follow(tb testing.TB, dir string, cpus int) *followed {
	tb.Helper()
	f := &followed{opts: replay.Options{CPUs: cpus}}
	path := filepath.Join(dir, "rec.data", "data")
	if _, err := os.Stat(path); err == nil {
		f.opts.KCore = filepath.Join(dir, "rec.data", "kcore_dir")
		f.final = loadWith(tb, filepath.Join(dir, "rec.data"), replay.Options{})
	} else {
		path = filepath.Join(dir, "pipe.data")
		f.final = loadWith(tb, path, replay.Options{})
	}
	var err error
	if f.data, err = os.ReadFile(path); err != nil {
		tb.Fatal(err)
	}
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		tb.Fatal(err)
	}
	for _, o := range oracles {
		if !o.Outside() {
			f.oracles = append(f.oracles, o)
		}
	}
	var p perfdata.TextPoke
	sc := f.final.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	for sc.Next() {
		if f.final.Recording.TextPoke(sc.Record(), &p) == nil {
			f.sites = append(f.sites, p.Addr)
		}
	}
	slices.Sort(f.sites)
	f.sites = slices.Compact(f.sites)
	return f
}

// begin starts a Follower.
func (f *followed) begin(tb testing.TB) *replay.Follower {
	tb.Helper()
	fo, err := replay.Follow(bytes.NewReader(f.data), f.opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { fo.Close() })
	return fo
}

// rounds returns the number of rounds.
func (f *followed) rounds(tb testing.TB) (n int) {
	fo := f.begin(tb)
	for fo.Next() {
		n++
	}
	if err := fo.Err(); err != nil {
		tb.Fatal(err)
	}
	return n
}

// agreement compares an early image with the final one.
type agreement struct {
	known  int // known in the final image, with the same bytes
	doubts int // not known in the final image
}

// agree checks that no known byte of an early image is known as another byte in the
// final image.
func agree(tb testing.TB, early *timeline.Image, rep *replay.Report, final *timeline.Image, addrs []uint64) (a agreement) {
	tb.Helper()
	const n = 5
	var b, c [n]byte
	for _, addr := range addrs {
		for v := range early.Versions(addr, b[:], rep.First, rep.Horizon+1) {
			if v.Standing != timeline.Known {
				continue
			}
			if v.Since > rep.Horizon {
				tb.Fatalf("%#x is known from %d on, beyond the horizon %d", addr, v.Since, rep.Horizon)
			}
			from, to := max(v.Since, rep.First), min(v.Until-1, rep.Horizon)
			for _, t := range []uint64{from, from + (to-from)/2, to} {
				w := final.At(t).Read(addr, c[:])
				switch {
				case w.Standing != timeline.Known:
					a.doubts++
				case b != c:
					tb.Fatalf("%#x at %d: known as %x up to the horizon %d, at the end as %x", addr, t, b, rep.Horizon, c)
				default:
					a.known++
				}
			}
		}
	}
	return a
}

// places returns up to n addresses of pokes, and as many addresses of the snapshot.
func (f *followed) places(n int) []uint64 {
	rng := rand.New(rand.NewPCG(3, 4))
	out := slices.Clone(f.sites)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	out = out[:min(n, len(out))]
	for range min(n, 2000) {
		if segs := f.final.Report.Segments; len(segs) > 0 {
			s := segs[rng.IntN(len(segs))]
			out = append(out, s.Lo+rng.Uint64N(s.Hi-s.Lo))
		}
	}
	return out
}

// check follows a recording and compares up to most of its images with the oracles and
// with the image of the whole recording.
func (f *followed) check(t *testing.T, most, places int) (sum score, total agreement, images int, last *replay.Report) {
	t.Helper()
	rounds := f.rounds(t)
	addrs := f.places(places)
	sum = score{}
	fo := f.begin(t)
	horizon := uint64(0)
	for i := 0; ; i++ {
		more := fo.Next()
		if h := fo.Horizon(); h < horizon {
			t.Errorf("the horizon went back from %d to %d", horizon, h)
		} else {
			horizon = h
		}
		if more && i*most/(rounds+1) == (i+1)*most/(rounds+1) {
			continue
		}
		im, err := fo.Image()
		if err != nil {
			t.Fatal(err)
		}
		images++
		last = fo.Report()
		if last.Horizon != horizon {
			t.Errorf("the image's horizon is %d, not %d", last.Horizon, horizon)
		}
		for _, o := range f.oracles {
			if o.Time() <= last.Horizon {
				judge(t, im, o, sum)
			}
		}
		a := agree(t, im, last, f.final.Image, addrs)
		total.known += a.known
		total.doubts += a.doubts
		if !more {
			break
		}
	}
	if sum.wrong() != 0 {
		t.Errorf("wrong bytes: %v", sum)
	}
	return sum, total, images, last
}

// TestFollow: images made while a recording is read have no wrong byte and do not contradict
// the image of the whole recording. They also have known bytes.
func TestFollow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		doubts bool // the whole recording shows unrecorded changes
		knows  bool
	}{
		{name: "small", knows: true},
		{name: "rich", knows: true},
		{name: "storm", knows: true},
		{name: "lossy", doubts: true, knows: true},
		{name: "hotplug", doubts: true, knows: true},
		{name: "modfull", knows: true},
		{name: "smalldup", knows: true},
		{name: "thunks", knows: true},
		{name: "uponline"},
		{name: "probe612", doubts: true, knows: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := follow(t, testdata(tt.name), 2)
			sum, a, images, last := f.check(t, 20, 1<<20)
			t.Logf("%d images up to %s: %+v; %v", images, replay.Seconds(last.Horizon), a, sum)
			if tt.knows != (a.known > 0) {
				t.Errorf("%d answers known", a.known)
			}
			if !tt.doubts && a.doubts > 0 {
				t.Errorf("%d answers that were known are not at the end", a.doubts)
			}
		})
	}
}

// roundsAsked is the number of images that tests make of each large recording:
// $TEXTREPLAY_ROUNDS, or a few.
func roundsAsked(t *testing.T) int {
	s := os.Getenv("TEXTREPLAY_ROUNDS")
	if s == "" {
		return 6
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("$TEXTREPLAY_ROUNDS is %q", s)
	}
	return n
}

// TestFollowOther is TestFollow for the recordings in $TEXTREPLAY_OTHER.
func TestFollowOther(t *testing.T) {
	root := os.Getenv("TEXTREPLAY_OTHER")
	if root == "" {
		t.Skip("skipped: $TEXTREPLAY_OTHER names no directory with further recordings")
	}
	dirs, err := filepath.Glob(filepath.Join(root, "*", "rec.data", "data"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings in %s: %v", root, err)
	}
	for _, d := range dirs {
		dir := filepath.Dir(filepath.Dir(d))
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if more, _ := filepath.Glob(filepath.Join(dir, "rec.data", "data.*")); len(more) > 0 {
				t.Skip("skipped: a recording of several files is no stream")
			}
			f := follow(t, dir, 0)
			f.opts.CPUs = f.final.Report.CPUsAvailable
			sum, a, images, last := f.check(t, roundsAsked(t), 3000)
			t.Logf("%d images up to %s: %+v; %v", images, replay.Seconds(last.Horizon), a, sum)
		})
	}
}

// TestFollowCorpus is TestFollow for large recordings.
func TestFollowCorpus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		doubts bool
	}{
		{"x86_64/small", false},
		{"x86_64/rich", false},
		{"x86_64/storm", false},
		{"x86_64/pipe", false},
		{"x86_64/task", false},
		{"x86_64/local", true},
		{"x86_64/modfull", false},
		{"x86_64/hotplug", true},
		{"x86_64/lossy", true},
		{"x86_64/smalldup", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := follow(t, corpus.Large(t, tt.name), 2)
			sum, a, images, last := f.check(t, roundsAsked(t), 3000)
			t.Logf("%d images up to %s: %+v; %v", images, replay.Seconds(last.Horizon), a, sum)
			if a.known == 0 {
				t.Error("nothing known")
			}
			if !tt.doubts && a.doubts > 0 {
				t.Errorf("%d answers that were known are not at the end", a.doubts)
			}
		})
	}
}

// TestFollowPrefix: up to its horizon, an image made while reading equals the image of a
// recording that ends there. Its horizon is not later.
func TestFollowPrefix(t *testing.T) {
	f := follow(t, testdata("rich"), 2)
	rec, err := perfdata.New(f.data)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int64
	sc := rec.Scan(perfdata.Only(perfdata.RecordFinishedRound))
	for sc.Next() {
		ends = append(ends, sc.Record().Offset+8)
	}
	fo := f.begin(t)
	same := 0
	for i := 0; fo.Next(); i++ {
		im, err := fo.Image()
		if err != nil {
			t.Fatal(err)
		}
		cut := replayOf(t, f.data[:ends[i]], f.opts.KCore, f.opts)
		horizon := fo.Report().Horizon
		if horizon > cut.Report.Horizon {
			t.Fatalf("round %d: horizon %d, want at most %d", i, horizon, cut.Report.Horizon)
		}
		var a, b [5]byte
		for _, addr := range f.places(300) {
			for v := range im.Versions(addr, a[:], 0, horizon) {
				w := cut.Image.At(v.Since).Read(addr, b[:])
				if same++; w.Standing != v.Standing || w.Reason != v.Reason || a != b || min(v.Until, horizon) != min(w.Until, horizon) {
					t.Fatalf("round %d, %#x: %+v %x, want %+v %x", i, addr, v, a, w, b)
				}
			}
		}
	}
	if same < 1000 {
		t.Errorf("only %d answers compared", same)
	}
}

// TestFollowOld: earlier images do not change while the follower reads on.
func TestFollowOld(t *testing.T) {
	f := follow(t, testdata("storm"), 2)
	f.opts.Windows = true
	fo, err := replay.Follow(iotest.OneByteReader(bytes.NewReader(f.data)), f.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer fo.Close()
	addrs := f.places(20)
	all := func(im *timeline.Image) string {
		var b bytes.Buffer
		for _, addr := range addrs {
			fmt.Fprintf(&b, "%#x\n%s", addr, history(im, addr, 5))
		}
		return b.String()
	}
	var images []*timeline.Image
	var want []string
	var readers sync.WaitGroup
	for fo.Next() {
		im, err := fo.Image()
		if err != nil {
			t.Fatal(err)
		}
		if fo.Windows() == nil {
			t.Fatal("no windows")
		}
		then := all(im)
		images, want = append(images, im), append(want, then)
		readers.Go(func() {
			if now := all(im); now != then {
				t.Errorf("an image has changed:\n%s", cmp.Diff(then, now))
			}
		})
	}
	readers.Wait()
	for i, im := range images {
		if d := cmp.Diff(want[i], all(im)); d != "" {
			t.Errorf("image %d has changed:\n%s", i, d)
		}
	}
	if len(images) < 4 || want[len(want)-1] == want[0] {
		t.Errorf("%d images, all alike", len(images))
	}
}

// TestFollowGrowing follows a file while it is written. Its header has no length yet, and
// the features are missing.
func TestFollowGrowing(t *testing.T) {
	f := follow(t, testdata("small"), 2)
	path := filepath.Join(t.TempDir(), "data")
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// perf writes the length of the records at the very end.
	const size = 48
	head := bytes.Clone(f.data[:104])
	copy(head[size:], make([]byte, 8))
	at := 0
	fo, err := replay.Follow(perfdata.NewTail(file, func() error {
		part := f.data[at:min(at+1000, len(f.data))]
		if at == 0 {
			part = append(head, part[len(head):]...)
		}
		if len(part) == 0 {
			_, err := w.WriteAt(f.data[:104], 0)
			return err
		}
		n, err := w.WriteAt(part, int64(at))
		at += n
		return err
	}), f.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer fo.Close()
	rounds := 0
	for fo.Next() {
		rounds++
	}
	if err := fo.Err(); err != nil {
		t.Fatal(err)
	}
	im, err := fo.Image()
	if err != nil {
		t.Fatal(err)
	}
	whole := f.begin(t)
	for whole.Next() {
	}
	want, err := whole.Image()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range f.places(100) {
		if d := cmp.Diff(history(want, addr, 5), history(im, addr, 5)); d != "" {
			t.Fatalf("%#x (-want +got):\n%s", addr, d)
		}
	}
	if rounds != 2 || fo.Report().Horizon == 0 {
		t.Errorf("%d rounds, horizon %d", rounds, fo.Report().Horizon)
	}
}

// TestFollowErrors: a guest cannot be followed, nor can a file that is not a recording.
func TestFollowErrors(t *testing.T) {
	f := follow(t, testdata("small"), 2)
	if _, err := replay.Follow(bytes.NewReader(f.data), replay.Options{Guest: 1}); err == nil {
		t.Error("a guest was followed")
	}
	if _, err := replay.Follow(bytes.NewReader(nil), replay.Options{}); err == nil {
		t.Error("nothing was followed")
	}
	if _, err := replay.Follow(bytes.NewReader(f.data), replay.Options{KCore: t.TempDir()}); err == nil {
		t.Error("an empty kcore_dir was taken")
	}
	for _, cpus := range []int{1, -1} { // events are on two
		fo, err := replay.Follow(bytes.NewReader(f.data), replay.Options{KCore: f.opts.KCore, CPUs: cpus})
		if err != nil {
			t.Fatal(err)
		}
		defer fo.Close()
		for fo.Next() {
		}
		var other *replay.CPUsError
		if im, err := fo.Image(); !errors.As(err, &other) || other.Given != cpus || im != nil {
			t.Errorf("%d CPUs: %v", cpus, err)
		}
	}
	// What was read before an error stays.
	fo, err := replay.Follow(io.MultiReader(bytes.NewReader(f.data[:40000]), iotest.ErrReader(io.ErrClosedPipe)), f.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer fo.Close()
	for fo.Next() {
	}
	if fo.Err() == nil {
		t.Error("no error")
	}
	if _, err := fo.Image(); err != nil || fo.Report().Pokes.Total == 0 || len(fo.Report().Warnings) == 0 {
		t.Errorf("%v; %+v", err, fo.Report())
	}
}

// TestFollowCopy: without a workload, the time of the copy of kernel text is unknown until
// perf has drained the ring buffers a second time.
func TestFollowCopy(t *testing.T) {
	path := testdata("storm", "rec.data")
	n := 0
	data := rewrite(t, path, func(_ *perfdata.Recording, rec *perfdata.Record) bool {
		exec := rec.Type == perfdata.RecordComm && rec.Misc&perfdata.MiscCommExec != 0
		waits := rec.Type == perfdata.RecordComm && bytes.Contains(rec.Raw, []byte("perf-exec"))
		if exec || waits {
			n++
		}
		return !exec && !waits
	})
	if n < 2 {
		t.Fatal("no exec in the recording, or no process that waits for it")
	}
	kcoreDir := filepath.Join(path, "kcore_dir")
	f, err := replay.Follow(bytes.NewReader(data), replay.Options{KCore: kcoreDir, CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	var bound uint64
	for f.Next() {
		im, err := f.Image()
		if err != nil {
			t.Fatal(err)
		}
		rep := f.Report()
		known := 0
		var b [8]byte
		for _, g := range rep.Segments {
			for addr := g.Lo; addr < g.Hi; addr += 8 {
				for v := range im.Versions(addr, b[:], rep.First, rep.Horizon) {
					if v.Standing == timeline.Known && v.Since <= rep.First {
						known++
					}
				}
			}
		}
		switch {
		case rep.Copied.To == timeline.MaxTime:
			got = append(got, "no bound")
		case rep.Copied.To > rep.Horizon:
			got = append(got, "bound beyond the horizon")
		default:
			got = append(got, "bound")
			if rep.Copied.To < rep.First {
				t.Errorf("the copy was made before %d, the first record is of %d", rep.Copied.To, rep.First)
			}
		}
		if bound != 0 && rep.Copied.To != bound {
			t.Errorf("the bound moved from %d to %d", bound, rep.Copied.To)
		}
		if rep.Copied.To != timeline.MaxTime {
			bound = rep.Copied.To
		}
		if settled := rep.Copied.To <= rep.Horizon; settled != (rep.Trusted.To != 0) || settled != (known > 100) {
			t.Errorf("%s: trusted %+v, %d places known from the start", got[len(got)-1], rep.Trusted, known)
		}
	}
	want := []string{"no bound", "bound", "bound", "bound", "bound", "bound"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
