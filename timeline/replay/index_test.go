// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
)

func testRecording(name string) string {
	return filepath.Join("..", "..", "testdata", name, "rec.data")
}

// loadWith loads a recording. The end of the test closes it.
func loadWith(tb testing.TB, path string, opts Options) *Replay {
	tb.Helper()
	r, err := Load(path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

// indexed writes an index of a recording and loads the recording with it.
func indexed(tb testing.TB, path string, opts Options) (made, used *Replay) {
	tb.Helper()
	opts.Index, opts.SaveIndex = filepath.Join(tb.TempDir(), "index"), true
	made = loadWith(tb, path, opts)
	if s := made.Index(); s.Used || !s.Saved || s.Err != nil {
		tb.Fatalf("first load: %+v", s)
	}
	used = loadWith(tb, path, opts)
	if s := used.Index(); !s.Used || s.Err != nil {
		tb.Fatalf("second load: %+v", s)
	}
	return made, used
}

// places returns addresses and times all over an image, more of them where it changes.
func places(im *timeline.Image, n int) (out []struct{ addr, time uint64 }) {
	rng := rand.New(rand.NewPCG(1, 2))
	first, horizon := im.Extent()
	span := horizon - first
	type version struct {
		timeline.Range
		Since uint64
	}
	var fragments [][]version
	for r, v := range im.Fragments() {
		if n := len(fragments); n == 0 || fragments[n-1][0].Range != r {
			fragments = append(fragments, nil)
		}
		f := &fragments[len(fragments)-1]
		*f = append(*f, version{r, v.Since})
	}
	for range n {
		f := fragments[rng.IntN(len(fragments))]
		v := f[rng.IntN(len(f))]
		addr := v.Lo + rng.Uint64N(v.Hi-v.Lo+8) - 4
		for _, t := range []uint64{v.Since, v.Since - 1, first + rng.Uint64N(span+span/10+1)} {
			out = append(out, struct{ addr, time uint64 }{addr, t})
		}
	}
	return out
}

// TestIndex: an image from an index equals the image that was saved, and so do all other
// answers of the Replay.
func TestIndex(t *testing.T) {
	for _, name := range []string{"small", "rich", "lossy", "hotplug", "modfull", "smalldup", "storm", "thunks", "uponline", "arm64", "ppc64le", "s390x"} {
		t.Run(name, func(t *testing.T) {
			made, used := indexed(t, testRecording(name), Options{})
			text := cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })
			if diff := cmp.Diff(made.Report, used.Report, text, cmp.AllowUnexported(Clock{})); diff != "" {
				t.Errorf("report:\n%s", diff)
			}
			a, b := made.Image, used.Image
			for _, im := range []*timeline.Image{a, b} {
				if err := im.CheckValid(); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(a.Stats(), b.Stats()); diff != "" {
				t.Errorf("stats:\n%s", diff)
			}
			if made.Machine() != used.Machine() {
				t.Errorf("machine %v, want %v", used.Machine(), made.Machine())
			}
			var x, y [24]byte
			for _, p := range places(a, 2000) {
				want, got := a.At(p.time).Read(p.addr, x[:]), b.At(p.time).Read(p.addr, y[:])
				if want != got || x != y {
					t.Fatalf("%#x at %d: %+v %x, want %+v %x", p.addr, p.time, got, y, want, x)
				}
				var spans [2][]timeline.Span
				for i, im := range []*timeline.Image{a, b} {
					for s := range im.At(p.time).Spans(p.addr, 24) {
						spans[i] = append(spans[i], s)
					}
				}
				if diff := cmp.Diff(spans[0], spans[1]); diff != "" {
					t.Fatalf("%#x at %d: spans\n%s", p.addr, p.time, diff)
				}
				s1, ok1 := a.At(p.time).Symbol(p.addr)
				s2, ok2 := b.At(p.time).Symbol(p.addr)
				if s1 != s2 || ok1 != ok2 {
					t.Fatalf("%#x at %d: %v, want %v", p.addr, p.time, s2, s1)
				}
				if diff := cmp.Diff(made.Windows().At(p.addr, 8, p.time), used.Windows().At(p.addr, 8, p.time)); diff != "" {
					t.Fatalf("%#x at %d: windows\n%s", p.addr, p.time, diff)
				}
				v1, ok1 := made.TrampolineAt(p.addr, p.time)
				v2, ok2 := used.TrampolineAt(p.addr, p.time)
				if diff := cmp.Diff(v1, v2); diff != "" || ok1 != ok2 {
					t.Fatalf("%#x at %d: trampolines\n%s", p.addr, p.time, diff)
				}
			}
			var conflicts, symbols, changes [2]int
			for i, r := range []*Replay{made, used} {
				for range r.Image.Conflicts() {
					conflicts[i]++
				}
				for range r.Image.Symbols {
					symbols[i]++
				}
				for range r.Changes() {
					changes[i]++
				}
			}
			if conflicts[0] != conflicts[1] || symbols[0] != symbols[1] || changes[0] != changes[1] {
				t.Errorf("conflicts %v, symbols %v, changes %v: each must be equal", conflicts, symbols, changes)
			}
		})
	}
}

// TestIndexNear: an image for one question from an index gives the same answers as the whole image,
// and none outside of it.
func TestIndexNear(t *testing.T) {
	for _, name := range []string{"small", "rich", "lossy", "hotplug", "modfull", "smalldup", "storm", "thunks", "uponline", "s390x"} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Index: filepath.Join(t.TempDir(), "index"), SaveIndex: true}
			whole := loadWith(t, testRecording(name), opts)
			rng := rand.New(rand.NewPCG(1, 2))
			list := places(whole.Image, 400)
			parts := 0
			for range 40 {
				addr := list[rng.IntN(len(list))].addr
				opts.Only = func(k *kcore.Kallsyms) []timeline.Range { return Near(k, fmt.Sprintf("%#x", addr), 32) }
				only := Near(whole.kallsyms, fmt.Sprintf("%#x", addr), 32)
				near := loadWith(t, testRecording(name), opts)
				if s := near.Index(); !s.Used {
					t.Fatalf("%+v", s)
				}
				if err := near.Image.CheckValid(); err != nil {
					t.Fatal(err)
				}
				if outside := near.Image.At(0).Read(addr^1<<40, make([]byte, 1)); outside.Reason == timeline.OutsideImage {
					parts++
					if only == nil || outside.Standing != timeline.Unknown {
						t.Fatalf("%#x: %+v outside of %v", addr, outside, only)
					}
				}
				sameAnswers(t, whole, near, addr, rng)
				near.Close()
			}
			if parts == 0 {
				t.Error("no image was a part")
			}
		})
	}
}

// sameAnswers compares what two replays say of some bytes at addr.
func sameAnswers(t *testing.T, whole, near *Replay, addr uint64, rng *rand.Rand) {
	t.Helper()
	var x, y [32]byte
	for range 60 {
		at := rng.Uint64N(whole.Report.Horizon + 1e9)
		want, got := whole.Image.At(at).Read(addr, x[:]), near.Image.At(at).Read(addr, y[:])
		if want != got || x != y {
			t.Fatalf("%#x at %d: %+v %x, want %+v %x", addr, at, got, y, want, x)
		}
		var spans [2][]timeline.Span
		for i, r := range []*Replay{whole, near} {
			for s := range r.Image.At(at).Spans(addr, 32) {
				spans[i] = append(spans[i], s)
			}
		}
		if diff := cmp.Diff(spans[0], spans[1]); diff != "" {
			t.Fatalf("%#x at %d: spans\n%s", addr, at, diff)
		}
		s1, ok1 := whole.Image.At(at).Symbol(addr)
		s2, ok2 := near.Image.At(at).Symbol(addr)
		if s1 != s2 || ok1 != ok2 {
			t.Fatalf("%#x at %d: %v, want %v", addr, at, s2, s1)
		}
		if diff := cmp.Diff(whole.Windows().At(addr, 8, at), near.Windows().At(addr, 8, at)); diff != "" {
			t.Fatalf("%#x at %d: windows\n%s", addr, at, diff)
		}
		v1, ok1 := whole.TrampolineAt(addr, at)
		v2, ok2 := near.TrampolineAt(addr, at)
		if diff := cmp.Diff(v1, v2); diff != "" || ok1 != ok2 {
			t.Fatalf("%#x at %d: trampolines\n%s", addr, at, diff)
		}
	}
}

// TestIndexNames: the names in an index are those of kallsyms, also after the index is closed.
func TestIndexNames(t *testing.T) {
	all := func(r *Replay) (out []kcore.Symbol) {
		for _, s := range r.Kallsyms().All() {
			out = append(out, s)
		}
		return out
	}
	for _, name := range []string{"small", "rich", "storm", "arm64", "ppc64le", "s390x"} {
		made, used := indexed(t, testRecording(name), Options{})
		want := all(made)
		if got := all(used); len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %d symbols, want %d", name, len(got), len(want))
		}
		used.Close()
		if got := all(used); !slices.Equal(got, want) {
			t.Errorf("%s, closed: %d symbols, want %d", name, len(got), len(want))
		}
	}
}

// TestIndexModuleNames: modules that only later copies have keep their names, those of the copy
// that has them.
func TestIndexModuleNames(t *testing.T) {
	w := newTape(t)
	text := "0000000000001000 T _stext\n0000000000001100 T do_work\n0000000000002000 T _etext\n"
	w.copied, w.kallsyms = true, text
	w.ticks(100, 2000)
	path := t.TempDir()
	w.must(os.WriteFile(filepath.Join(path, "data"), w.bytes(), 0o600))
	w.must(os.Rename(w.kcoreDir(), filepath.Join(path, OwnCopy)))
	w.must(os.Mkdir(filepath.Join(path, "copies"), 0o700))
	lines := `{"start":{"version":1,"program":"textreplay test","clock":"CLOCK_MONOTONIC","time":1,"wall":2,"follows_cpus":true,"open":100}}
{"ready":{"time":150}}
{"copy":{"dir":"kcore_dir","from":300,"to":320,"read":[{"lo":"0x1000","hi":"0x2000"}]}}
`
	for i, name := range []string{"old", "new"} { // one in the place of the other
		w.modules = []kcore.Module{{Name: name, Addr: 0x8000, Size: 0x1000, State: "Live"}}
		w.kallsyms = text + fmt.Sprintf("0000000000008010 t do_%s\t[%[1]s]\n0000000000008010 t alias_%[1]s\t[%[1]s]\n", name)
		w.must(os.Rename(w.kcoreDir(), filepath.Join(path, "copies", name)))
		lines += fmt.Sprintf(`{"copy":{"dir":"copies/%s","from":%d,"to":%[2]d,"read":[{"lo":"0x1000","hi":"0x2000"},{"lo":"0x8000","hi":"0x9000"}]}}`+"\n", name, 500+500*i)
	}
	w.must(os.WriteFile(filepath.Join(path, journal.Name), []byte(lines+`{"end":{"time":2000}}`+"\n"), 0o600))
	var opts Options
	opts.Index, opts.SaveIndex = filepath.Join(t.TempDir(), "index"), true
	for _, only := range []func(*kcore.Kallsyms) []timeline.Range{nil, nil, func(*kcore.Kallsyms) []timeline.Range { return []timeline.Range{{Lo: 0x1000, Hi: 0x2000}} }} {
		opts.Only = only
		r := loadWith(t, path, opts)
		if state := r.Index(); state.Err != nil {
			t.Error(state.Err)
		}
		var got []string
		for _, at := range []uint64{700, 1500} {
			v := r.Image.At(at)
			s, _ := v.Symbol(0x8018)
			got = append(got, fmt.Sprint(s.Name, v.Aliases(s), len(v.Lookup(s.Module+":"+s.Name)), len(v.Lookup("do_work"))))
		}
		for s := range r.TableSymbols {
			if s.Module != "" {
				got = append(got, s.Name)
			}
		}
		if want := []string{"do_old[alias_old] 1 1", "do_new[alias_new] 1 1", "do_old", "alias_old", "do_new", "alias_new"}; !slices.Equal(got, want) {
			t.Errorf("index %+v: %q, want %q", r.Index(), got, want)
		}
	}
}

// TestIndexStale: an index is not used after any input of the image has changed. It is
// then written anew.
func TestIndexStale(t *testing.T) {
	later := func(path string) error {
		return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))
	}
	for _, tt := range []struct {
		name   string
		change func(dir string, opts *Options) error
	}{
		{"recording touched", func(dir string, _ *Options) error { return later(filepath.Join(dir, "data")) }},
		{"recording longer", func(dir string, _ *Options) error {
			data, err := os.ReadFile(filepath.Join(dir, "data"))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "data"), append(data, 0), 0o644))
		}},
		{"a byte changed, the time restored", func(dir string, _ *Options) error { return flipByte(filepath.Join(dir, "data")) }},
		{"a byte of the copy of text changed, the time restored", func(dir string, _ *Options) error {
			return flipByte(filepath.Join(dir, "kcore_dir", "kcore"))
		}},
		{"replaced by a copy with the same times", func(dir string, _ *Options) error {
			path := filepath.Join(dir, "data")
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".new", data, 0o644),
				os.Chtimes(path+".new", info.ModTime(), info.ModTime()), os.Rename(path+".new", path))
		}},
		{"copy of text touched", func(dir string, _ *Options) error { return later(filepath.Join(dir, "kcore_dir", "kcore")) }},
		{"no symbols any more", func(dir string, _ *Options) error { return os.Remove(filepath.Join(dir, "kcore_dir", "kallsyms")) }},
		{"other symbols", func(dir string, opts *Options) error {
			opts.Kallsyms = filepath.Join(dir, "kcore_dir", "kallsyms")
			return nil
		}},
		{"explicit window", func(_ string, opts *Options) error {
			opts.Explicit = []timeline.ExplicitWindow{{Addr: 0xffffffff81000000, From: 1, To: 2, Before: []byte{1}, After: []byte{2}}}
			return nil
		}},
		{"other rules", func(_ string, opts *Options) error {
			data, err := os.ReadFile(opts.Index)
			binary.LittleEndian.PutUint32(data[16:], IndexVersion+1)
			return errors.Join(err, os.WriteFile(opts.Index, data, 0o644))
		}},
		{"cut off", func(_ string, opts *Options) error { return os.Truncate(opts.Index, 16) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rec.data")
			if err := os.CopyFS(dir, os.DirFS(testRecording("small"))); err != nil {
				t.Fatal(err)
			}
			opts := Options{Index: dir + ".index", SaveIndex: true}
			if r := loadWith(t, dir, opts); !r.Index().Saved {
				t.Fatalf("%+v", r.Index())
			}
			if err := tt.change(dir, &opts); err != nil {
				t.Fatal(err)
			}
			only := opts
			only.SaveIndex = false
			if s := loadWith(t, dir, only).Index(); s.Used || s.Saved || !errors.Is(s.Err, ErrIndex) {
				t.Errorf("without SaveIndex: %+v", s)
			}
			if s := loadWith(t, dir, opts).Index(); s.Used || !s.Saved {
				t.Errorf("%+v, want it made anew", s)
			}
			if s := loadWith(t, dir, opts).Index(); !s.Used {
				t.Errorf("%+v, want the new one used", s)
			}
		})
	}
}

// TestIndexStaleBeside: the files that are found beside the records count as the recording does.
func TestIndexStaleBeside(t *testing.T) {
	// killed makes the directory of a recorder that was killed: the features are in a file.
	killed := func(dir string) error {
		path := filepath.Join(dir, "data")
		rec, err := perfdata.Open(path)
		if err != nil {
			return err
		}
		defer rec.Close()
		out, err := os.Create(path + ".whole")
		if err != nil {
			return err
		}
		defer out.Close()
		w := perfdata.NewWriter(out, rec.ByteOrder())
		if err := w.SetEvents(rec.Events()); err != nil {
			return err
		}
		for _, feature := range rec.Features() {
			data, err := rec.Feature(feature)
			if err := errors.Join(err, w.WriteFeature(feature, data)); err != nil {
				return err
			}
		}
		var early bytes.Buffer
		return errors.Join(w.WriteEarlyFeatures(&early), os.WriteFile(filepath.Join(dir, perfdata.EarlyFeatures), early.Bytes(), 0o600),
			os.Remove(out.Name()), os.Truncate(path, rec.Size()*6/10))
	}
	// beside moves the readings out of the directory.
	beside := func(dir string) error {
		for i := range 3 {
			name := fmt.Sprintf("kprobe_profile.%d", i+1)
			if err := os.Rename(filepath.Join(dir, name), filepath.Join(filepath.Dir(dir), name)); err != nil {
				return err
			}
		}
		return nil
	}
	flip := func(name string) func(string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			text[len(text)/2] ^= 1
			return os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
	}
	remove := func(name string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	write := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	for _, tt := range []struct {
		name, rec    string
		make, change func(dir string) error
	}{
		{"a byte of the features", "small", killed, flip(perfdata.EarlyFeatures)},
		{"no features any more", "small", killed, remove(perfdata.EarlyFeatures)},
		{"programs", "small", killed, write(perfdata.EarlyPrograms, "abcd")},
		{"a journal", "small", nil, write(journal.Name, "{}\n")},
		{"formats", "small", nil, write(formatsName, "system: s\nname: n\nID: 1\nprint fmt: \n")},
		{"a byte of a reading", "probe612", nil, flip("kprobe_profile.2")},
		{"a reading less", "probe612", nil, remove("kprobe_profile.2")},
		{"a byte of a reading next to it", "probe612", beside, flip("../kprobe_profile.3")},
		{"a reading less next to it", "probe612", beside, remove("../kprobe_profile.3")},
		{"a reading in the directory instead", "probe612", beside, write("kprobe_profile.1", "pid 1\n")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rec.data")
			err := os.CopyFS(dir, os.DirFS(testRecording(tt.rec)))
			if tt.make != nil {
				err = errors.Join(err, tt.make(dir))
			}
			if err != nil {
				t.Fatal(err)
			}
			opts := Options{Index: dir + ".index", SaveIndex: true}
			if r := loadWith(t, dir, opts); !r.Index().Saved {
				t.Fatalf("%+v", r.Index())
			}
			if s := loadWith(t, dir, opts).Index(); !s.Used {
				t.Errorf("unchanged: %+v", s)
			}
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			if s := loadWith(t, dir, opts).Index(); s.Used || !s.Saved {
				t.Errorf("%+v, want it made anew", s)
			}
		})
	}
}

// flipByte changes a byte in the middle of a file, and restores the file's times.
func flipByte(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [1]byte
	// Change a byte that the stamp does not sample.
	at := info.Size()/2 + 5000
	if _, err := f.ReadAt(b[:], at); err != nil {
		return err
	}
	b[0] ^= 1
	_, err = f.WriteAt(b[:], at)
	return errors.Join(err, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// TestIndexReplaced: if a file was replaced after it was opened, its image is not saved
// for the new file of the same name.
func TestIndexReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(dir, os.DirFS(testRecording("small"))); err != nil {
		t.Fatal(err)
	}
	opts := Options{Index: dir + ".index", SaveIndex: true}
	data := filepath.Join(dir, "data")
	for _, replaced := range []string{"data", "kcore_dir/kcore", "kcore_dir/kallsyms", "kcore_dir/modules"} {
		path := filepath.Join(dir, replaced)
		rec, err := perfdata.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := OpenSnapshot(rec, opts)
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		other[len(other)/2] ^= 1
		if err := errors.Join(os.WriteFile(path+".new", other, 0o644), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		r, err := New(rec, snap, opts)
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Index(); s.Used || s.Saved || !errors.Is(s.Err, ErrIndex) {
			t.Errorf("%s: %+v", replaced, s)
		}
		r.Close()
		if s := loadWith(t, dir, opts).Index(); s.Used || !s.Saved {
			t.Errorf("%s: %+v, want an index of the new file", replaced, s)
		}
		if err := os.Remove(opts.Index); err != nil {
			t.Fatal(err)
		}
	}

	// A recording that perf is still writing grows.
	if err := os.Truncate(data, 40_000); err != nil {
		t.Fatal(err)
	}
	rec, err := perfdata.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(data, 41_000); err != nil {
		t.Fatal(err)
	}
	r, err := New(rec, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if s := r.Index(); s.Used || s.Saved || !errors.Is(s.Err, ErrIndex) {
		t.Errorf("growing: %+v", s)
	}
}

// TestIndexOver: saving overwrites only an index, or creates a new file.
func TestIndexOver(t *testing.T) {
	dir := t.TempDir()
	path := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, is := range map[string]bool{
		path("text", "hello"):                        false,
		path("empty", ""):                            false,
		path("short", indexMagic[:8]):                false,
		path("cut", indexMagic):                      true,
		path("other version", indexMagic+"\x01\x02"): true,
		filepath.Join(dir, "none"):                   true,
		dir:                                          false,
		os.DevNull:                                   false,
	} {
		before, _ := os.ReadFile(path)
		var no *NotIndexError
		if err := CheckIndexFile(path); errors.As(err, &no) == is || is && err != nil {
			t.Errorf("%s: %v", path, err)
		}
		s := loadWith(t, testRecording("small"), Options{Index: path, SaveIndex: true}).Index()
		if s.Saved != is || !is && !errors.As(s.Err, &no) {
			t.Errorf("%s: %+v", path, s)
		}
		if after, _ := os.ReadFile(path); !is && !bytes.Equal(before, after) {
			t.Errorf("%s was overwritten", path)
		}
	}
}

// TestIndexUntrusted: an index that others can write to is not used.
func TestIndexUntrusted(t *testing.T) {
	opts := Options{Index: filepath.Join(t.TempDir(), "index"), SaveIndex: true}
	loadWith(t, testRecording("small"), opts)
	if s := loadWith(t, testRecording("small"), opts).Index(); !s.Used {
		t.Fatalf("%+v", s)
	}
	if err := os.Chmod(opts.Index, 0o646); err != nil {
		t.Fatal(err)
	}
	if s := loadWith(t, testRecording("small"), opts).Index(); s.Used || !s.Saved {
		t.Errorf("%+v", s)
	}
	if info, err := os.Stat(opts.Index); err != nil || info.Mode().Perm()&0o022 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestReleased: only the build information of an exact version identifies a build.
func TestReleased(t *testing.T) {
	ours := func(version, sum string) debug.Module {
		return debug.Module{Path: modulePath, Version: version, Sum: sum}
	}
	theirs := debug.Module{Path: "example.com/their/program", Version: "(devel)"}
	settings := func(revision, modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
	}
	dep := &debug.Module{Path: "example.com/dep", Version: "v1.0.0", Sum: "h1:x"}
	for _, tt := range []struct {
		name string
		info debug.BuildInfo
		want bool
	}{
		{"a commit", debug.BuildInfo{Main: ours("(devel)", ""), Settings: settings("abc", "false")}, true},
		{"a changed commit", debug.BuildInfo{Main: ours("(devel)", ""), Settings: settings("abc", "true")}, false},
		{"no version control", debug.BuildInfo{Main: ours("(devel)", "")}, false},
		{"a version", debug.BuildInfo{Main: ours("v1.2.3", "h1:x")}, true},
		{"a version without checksum", debug.BuildInfo{Main: ours("v1.2.3", "")}, false},
		{"another program with a version of this module", debug.BuildInfo{Main: theirs, Deps: []*debug.Module{{Path: modulePath, Version: "v1.2.3", Sum: "h1:x"}}}, true},
		{"another program with a directory of this module", debug.BuildInfo{Main: theirs, Settings: settings("abc", "false"),
			Deps: []*debug.Module{{Path: modulePath, Version: "v1.2.3", Sum: "h1:x", Replace: &debug.Module{Path: "../textreplay"}}}}, false},
		{"another program in a workspace", debug.BuildInfo{Main: theirs, Settings: settings("abc", "false"), Deps: []*debug.Module{{Path: modulePath}}}, false},
		{"a dependency", debug.BuildInfo{Main: ours("(devel)", ""), Settings: settings("abc", "false"), Deps: []*debug.Module{dep}}, true},
		{"a changed dependency", debug.BuildInfo{Main: ours("(devel)", ""), Settings: settings("abc", "false"),
			Deps: []*debug.Module{{Path: dep.Path, Version: dep.Version, Sum: dep.Sum, Replace: &debug.Module{Path: "../dep"}}}}, false},
	} {
		if got := released(&tt.info); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	sum, err := executableSum()
	if again, _ := executableSum(); err != nil || sum == "" || sum != again {
		t.Errorf("%q, %q, %v", sum, again, err)
	}
}

// TestBuildID: an ID that go build made is used, and none that is shorter or damaged.
func TestBuildID(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other programs are not ELF files")
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	id := buildID(bytes.NewReader(program))
	if strings.Count(id, "/") != 3 {
		t.Fatalf("the test's own ID is %q", id)
	}
	if sum, _ := executableSum(); !strings.Contains(sum, id) {
		t.Errorf("%q is not in %q", id, sum)
	}
	note := bytes.Index(program, []byte("Go\x00\x00"+id))
	if note < 12 {
		t.Fatal("no note has the ID")
	}
	for name, change := range map[string]func(p []byte) []byte{
		"shorter":      func(p []byte) []byte { p[note-8] = byte(len(id) - 1); return p },
		"too long":     func(p []byte) []byte { p[note-5] = 0xff; return p },
		"given":        func(p []byte) []byte { p[note+4+20] = 'x'; return p },
		"no ELF":       func(p []byte) []byte { p[0] = 0; return p },
		"cut":          func(p []byte) []byte { return p[:note+10] },
		"not a header": func(p []byte) []byte { return p[:10] },
	} {
		if got := buildID(bytes.NewReader(change(slices.Clone(program)))); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestIndexNowhere: if an index cannot be saved, the answers are the same, and no file
// is left over.
func TestIndexNowhere(t *testing.T) {
	dir := t.TempDir()
	r := loadWith(t, testRecording("small"), Options{Index: filepath.Join(dir, "none", "index"), SaveIndex: true})
	if s := r.Index(); s.Used || s.Saved || s.Err == nil {
		t.Errorf("%+v", s)
	}
	if r.Image.Stats().Versions == 0 {
		t.Error("no image")
	}
	path := filepath.Join(dir, "index")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if s := loadWith(t, testRecording("small"), Options{Index: path, SaveIndex: true}).Index(); s.Saved || s.Err == nil {
		t.Errorf("over a directory: %+v", s)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v left, %v", left, err)
	}
}

// TestIndexInMemory: an index is neither made nor used of what was not opened from files. Nothing would
// show later that it is of another recording.
func TestIndexInMemory(t *testing.T) {
	open := func(name string, memory bool) *perfdata.Recording {
		t.Helper()
		path := testRecording(name)
		rec, err := perfdata.Open(path)
		if memory {
			var data []byte
			if data, err = os.ReadFile(filepath.Join(path, "data")); err == nil {
				rec, err = perfdata.New(data)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	path := filepath.Join(t.TempDir(), "index")
	load := func(rec *perfdata.Recording, snap *kcore.Snapshot) *Replay {
		t.Helper()
		r, err := New(rec, snap, Options{Index: path, SaveIndex: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	none := func(r *Replay) {
		t.Helper()
		if s := r.Index(); s.Used || s.Saved || !errors.Is(s.Err, ErrIndex) {
			t.Errorf("%+v", s)
		}
		if r.Image.Stats().Versions == 0 {
			t.Error("no image")
		}
	}
	none(load(open("small", true), nil))
	none(load(open("smalldup", true), nil))
	snap, err := kcore.Open(filepath.Join(testRecording("small"), "kcore_dir"))
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	for _, s := range []*kcore.Snapshot{{Core: snap.Core}, {Kallsyms: snap.Kallsyms}, {Modules: snap.Modules}} {
		r, err := New(open("small", false), s, Options{Index: path, SaveIndex: true})
		if err != nil {
			t.Fatal(err)
		}
		none(r)
		r.Recording.Close()
	}
	if s := load(open("small", false), nil).Index(); !s.Saved || s.Err != nil {
		t.Errorf("of a file: %+v", s)
	}
	none(load(open("small", true), nil))
}

// TestIndexDamage: a flipped bit anywhere in an index changes no answer.
func TestIndexDamage(t *testing.T) {
	path := testRecording("small")
	made := loadWith(t, path, Options{Windows: true})
	opts := Options{Index: filepath.Join(t.TempDir(), "index"), SaveIndex: true}
	loadWith(t, path, opts)
	whole, err := os.ReadFile(opts.Index)
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := made.stampOf(&opts)
	if err != nil {
		t.Fatal(err)
	}
	pokes := made.Windows()
	inBatches := batches(pokes)
	poked := places(made.Image, 500)
	symbols, err := os.ReadFile(filepath.Join(path, "kcore_dir", "kallsyms"))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	used, parts := 0, 0
	for range 300 {
		data := bytes.Clone(whole)
		if at := rng.IntN(len(data)); rng.IntN(4) == 0 {
			data = data[:at]
		} else {
			data[at] ^= 1 << rng.IntN(8)
		}
		// Kallsyms that has parsed nothing uses the names in the index.
		k, err := kcore.ParseKallsyms(symbols)
		if err != nil {
			t.Fatal(err)
		}
		r := &Replay{Recording: made.Recording, Snapshot: made.Snapshot, kallsyms: k, scan: made.scan, arch: made.arch}
		near, ranges := poked[rng.IntN(len(poked))], []timeline.Range(nil)
		only := Options{Only: func(k *kcore.Kallsyms) []timeline.Range {
			ranges = Near(k, fmt.Sprintf("%#x", near.addr), 16)
			return ranges
		}}
		if err := r.readIndex(data, stamp, &only); err == nil && ranges != nil {
			parts++
			var x, y [16]byte
			want, got := made.Image.At(near.time).Read(near.addr, x[:]), r.Image.At(near.time).Read(near.addr, y[:])
			if want != got || x != y {
				t.Fatalf("%#x at %d: %+v, want %+v", near.addr, near.time, got, want)
			}
		}
		if k.Len() != made.kallsyms.Len() {
			t.Fatalf("%d symbols, not %d", k.Len(), made.kallsyms.Len())
		}
		for i, s := range made.kallsyms.All() {
			if k.At(i) != s {
				t.Fatalf("%+v, want %+v", k.At(i), s)
			}
		}
		r = &Replay{Recording: made.Recording, Snapshot: made.Snapshot, kallsyms: made.kallsyms, scan: made.scan, arch: made.arch}
		if err := r.readIndex(data, stamp, &Options{}); err != nil {
			if !errors.Is(err, ErrIndex) {
				t.Errorf("%v is no ErrIndex", err)
			}
			continue
		}
		used++ // the damage is in the windows, the names or in an unused part
		for range 20 {
			p := poked[rng.IntN(len(poked))]
			if diff := cmp.Diff(pokes.At(p.addr, 5, p.time), r.Windows().At(p.addr, 5, p.time)); diff != "" {
				t.Fatal(diff)
			}
		}
		if got := batches(r.Windows()); !slices.Equal(got, inBatches) {
			t.Fatalf("%d pokes in batches, which are not the %d of the recording", len(got), len(inBatches))
		}
	}
	if used == 0 || used == 300 {
		t.Errorf("%d of 300 damaged indexes used", used)
	}
	if parts <= used {
		t.Errorf("%d of 300 damaged indexes used for one question, %d for all", parts, used)
	}
}

// batchPoke is a poke as [timeline.Windows.Batches] yields it.
type batchPoke struct {
	poke   timeline.InPlacePoke
	begins bool
}

func batches(w *timeline.Windows) (all []batchPoke) {
	for p, begins := range w.Batches() {
		all = append(all, batchPoke{*p, begins})
	}
	return all
}

// TestIndexConcurrent: many goroutines can read one image from an index.
func TestIndexConcurrent(t *testing.T) {
	made, used := indexed(t, testRecording("rich"), Options{})
	list := places(made.Image, 200)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := used.Image.Cursor()
			var x, y [16]byte
			for _, p := range list {
				want, got := made.Image.At(p.time).Read(p.addr, x[:]), c.Read(p.addr, p.time, y[:])
				if want != got || x != y {
					t.Errorf("%#x at %d: %+v, want %+v", p.addr, p.time, got, want)
				}
				used.Windows().At(p.addr, 5, p.time)
			}
		})
	}
	wg.Wait()
}

// FuzzIndex: no index with offsets outside the file is used, even if its checksum is right.
func FuzzIndex(f *testing.F) {
	path := testRecording("s390x")
	opts := Options{Index: filepath.Join(f.TempDir(), "index"), SaveIndex: true}
	made := loadWith(f, path, opts)
	if !made.Index().Saved {
		f.Fatal(made.Index().Err)
	}
	whole, err := os.ReadFile(opts.Index)
	if err != nil {
		f.Fatal(err)
	}
	symbols, err := os.ReadFile(filepath.Join(path, "kcore_dir", "kallsyms"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte{})
	f.Add(uint32(16), []byte{2})
	f.Add(uint32(130), []byte{0xff, 0xff, 0xff})
	f.Add(uint32(len(whole)-300), bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		data := bytes.Clone(whole)
		copy(data[int(at)%len(data):], patch)
		r := &Replay{Recording: made.Recording, Snapshot: made.Snapshot, kallsyms: made.kallsyms, scan: made.scan, arch: made.arch}
		if err := r.readIndex(data, made.stamp, &Options{}); err == nil {
			for _, p := range places(r.Image, 10) {
				var x, y [16]byte
				want, got := made.Image.At(p.time).Read(p.addr, x[:]), r.Image.At(p.time).Read(p.addr, y[:])
				if want != got || x != y {
					t.Fatalf("%#x at %d: %+v %x, want %+v %x", p.addr, p.time, got, y, want, x)
				}
			}
		}
		// Nothing outside of the index is read either if all checksums are right.
		h, err := headerOf(data)
		if err != nil {
			return
		}
		for i, sum := range sumsOf([][]byte{data[headerSize:h.Sums]}) {
			binary.LittleEndian.PutUint32(data[int(h.Sums)+4*i:], sum)
		}
		binary.LittleEndian.PutUint32(data[20:], crc32.ChecksumIEEE(data[h.Sums:h.Windows]))
		for _, only := range []func(k *kcore.Kallsyms) []timeline.Range{nil, func(k *kcore.Kallsyms) []timeline.Range {
			textLo, textHi := made.Image.Text()
			return []timeline.Range{{Lo: textLo + uint64(at), Hi: textLo + uint64(at) + 4096}, {Lo: textHi - 4096, Hi: textHi + 4096}}
		}} {
			k, err := kcore.ParseKallsyms(symbols)
			if err != nil {
				t.Fatal(err)
			}
			r := &Replay{Recording: made.Recording, Snapshot: made.Snapshot, kallsyms: k, scan: made.scan, arch: made.arch}
			if err := r.readIndex(data, made.stamp, &Options{Only: only}); err != nil {
				if !errors.Is(err, ErrIndex) {
					t.Fatal(err)
				}
				continue
			}
			for _, p := range places(made.Image, 100) {
				var x [16]byte
				r.Image.At(p.time).Read(p.addr, x[:])
				for range r.Image.At(p.time).Spans(p.addr, 16) {
				}
				r.Image.At(p.time).Symbol(p.addr)
				k.Find(p.addr)
			}
			k.Lookup("schedule")
		}
	})
}
