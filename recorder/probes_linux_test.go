// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/recorder/journal"
)

// fakeTracefs makes a directory with the files of tracefs that the recorder uses, in place of
// tracefs. Writing to kprobe_events does not change the other files.
func fakeTracefs(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	was := tracefs
	tracefs = []string{filepath.Join(root, "absent"), root}
	t.Cleanup(func() { tracefs = was })
	return root
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fakeMemory is kernel memory with some text.
func fakeMemory(t *testing.T) *memory {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kcore")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 2*os.Getpagesize())
	copy(text[16:], "\x1f\x20\x03\xd5")
	err = kcore.WriteCore(f, elf.EM_AARCH64, elf.ELFCLASS64, elf.ELFDATA2LSB, []kcore.Segment{{Addr: 0xffff800080000000, Data: text}}, nil)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	m, err := openMemory(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.close() })
	return m
}

// TestDefineProbes: the definitions get names of this recorder, and their events are recorded
// behind the others. They are removed at the end.
func TestDefineProbes(t *testing.T) {
	n := probesMade.Load() + 1
	clr, mapped := fmt.Sprintf("clr_%d_%d", os.Getpid(), n), fmt.Sprintf("map_%d_%d", os.Getpid(), n)
	root := fakeTracefs(t, map[string]string{
		"kprobe_events":                           "",
		"kprobe_profile":                          fmt.Sprintf("  other_1_1  3  4\n  %s  5  0\n  %s  7 1\n", clr, mapped),
		"events/textreplay/" + clr + "/id":        "71\n",
		"events/textreplay/" + clr + "/format":    "name: clr\n",
		"events/textreplay/" + mapped + "/id":     "72\n",
		"events/textreplay/" + mapped + "/format": "name: map\n",
	})
	r := &Recorder{warned: make(map[string]bool), mem: fakeMemory(t), points: []tracepoint{{name: "module:module_load"}}}
	r.opts.Warn = func(err error) { t.Error(err) }
	r.opts.Probes = func() ([]Probe, error) {
		return []Probe{{"p:tp/clr unmap lr=%link:x64", false}, {"p:tp/map __set_fixmap phys=%x1:x64 st=+0($stack):x64[10]", true}}, nil
	}
	r.defineProbes()
	define := "p:textreplay/" + clr + " unmap lr=%link:x64\np:textreplay/" + mapped + " __set_fixmap phys=%x1:x64 st=+0($stack):x64[10]\n"
	if got := readFile(t, root+"/kprobe_events"); got != define {
		t.Errorf("%q", got)
	}
	if len(r.points) != 3 || r.points[1].id != 71 || r.points[2].name != "textreplay:"+mapped || r.points[2].id != 72 || string(r.points[2].format) != "name: map\n" {
		t.Errorf("%+v", r.points)
	}
	x, err := r.probes.read()
	if err != nil || x.from == 0 || x.to < x.from || len(x.hits) != 2 || x.hits[mapped] != (journal.Hits{Hits: 7, Missed: 1}) || x.hits[clr] != (journal.Hits{Hits: 5}) {
		t.Errorf("%+v, %v", x, err)
	}
	// Nothing is hit when text is changed. The test's own probe cannot be opened here either.
	if err := r.testProbes(); err == nil {
		t.Error("the probes seem to work")
	}
	if err := r.closeAll(); err != nil || r.probes != nil {
		t.Error(err)
	}
	if got := readFile(t, root+"/kprobe_events"); !strings.HasPrefix(got, define) || !strings.HasSuffix(got, "-:textreplay/"+clr+"\n-:textreplay/"+mapped+"\n") {
		t.Errorf("%q", got)
	}
}

// TestStaleProbes: the probes of recorders that are gone are removed, and no others.
func TestStaleProbes(t *testing.T) {
	const gone = 1<<31 - 2 // no process has so high an id
	list := fmt.Sprintf("p:textreplay/map_%d_1 __set_fixmap phys=%%x1:x64\np:textreplay/map_%d_1 __set_fixmap\np:tp/map_%d_1 __set_fixmap\np:textreplay/mine vfs_read\nr8:textreplay/x_%d_1 vfs_read\n",
		gone, os.Getppid(), gone, gone)
	root := fakeTracefs(t, map[string]string{"kprobe_events": list})
	p := &probes{root: root}
	if err := p.removeStale(); err != nil {
		t.Error(err)
	}
	if got := strings.TrimPrefix(readFile(t, root+"/kprobe_events"), list); got != fmt.Sprintf("-:textreplay/map_%d_1\n", gone) {
		t.Errorf("%q", got)
	}
}

// TestProbeLimits: if no probes can be made, the recorder says why, and what helps.
func TestProbeLimits(t *testing.T) {
	mem := fakeMemory(t)
	plan := func() ([]Probe, error) {
		return []Probe{{"p:tp/map __set_fixmap", true}}, nil
	}
	errPlan := errors.New("no writer could be decoded")
	for _, tt := range []struct {
		name   string
		files  map[string]string
		probes func() ([]Probe, error)
		mem    *memory
		want   string
	}{
		{"nobody plans", nil, nil, mem, "help probes"},
		{"no memory", nil, plan, nil, "cannot be read"},
		{"an unknown kernel", nil, func() ([]Probe, error) { return nil, errPlan }, mem, errPlan.Error()},
		{"tracefs is not mounted", nil, plan, mem, "mount tracefs"},
		{"no kprobe events", map[string]string{"events/enable": ""}, plan, mem, "CONFIG_KPROBE_EVENTS"},
		{"the kernel refuses", map[string]string{"kprobe_events": "", "events/enable": ""}, plan, mem, "error_log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fakeTracefs(t, tt.files)
			var warnings []string
			r := &Recorder{warned: make(map[string]bool), mem: tt.mem}
			r.opts.Probes = tt.probes
			r.opts.Warn = func(err error) { warnings = append(warnings, err.Error()) }
			r.defineProbes()
			if len(warnings) != 1 || !strings.Contains(warnings[0], unknownChanges) || !strings.Contains(warnings[0], tt.want) {
				t.Errorf("%q, want %s", warnings, tt.want)
			}
			if r.probes != nil || len(r.points) != 0 {
				t.Errorf("%+v, %+v", r.probes, r.points)
			}
		})
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "kprobe_events", Err: unix.EROFS}, "read-only"},
		{&fs.PathError{Op: "write", Path: "kprobe_events", Err: unix.EINVAL}, "error_log"},
		{&fs.PathError{Op: "write", Path: "kprobe_events", Err: unix.EPERM}, map[bool]string{true: "locked down", false: "root"}[os.Geteuid() == 0]},
	} {
		if got := remedyOf(tt.err); !strings.Contains(got, tt.want) {
			t.Errorf("%v: %s", tt.err, got)
		}
	}
}

// TestSampledIn: a reading of the counters is compared with samples that were not taken yet.
func TestSampledIn(t *testing.T) {
	data := make([]byte, 256)
	g := &ring{data: data, page: &unix.PerfEventMmapPage{}}
	at := 0
	record := func(typ, size int, time uint64) {
		b := make([]byte, size)
		b[0], b[6] = byte(typ), byte(size)
		for i := range 8 {
			b[sampleTime+i] = byte(time >> (8 * i))
		}
		for i, x := range b {
			data[(at+i)%len(data)] = x
		}
		at += size
		g.page.Data_head = uint64(at)
	}
	const lost, sample = 2, 9
	record(sample, 64, 100)
	g.page.Data_tail = 64 // it was taken
	record(lost, 64, 300)
	record(sample, 64, 500)
	record(sample, 96, 700) // around the end
	for _, tt := range []struct {
		from, to uint64
		want     bool
	}{{90, 110, false}, {290, 310, false}, {400, 499, false}, {400, 500, true}, {500, 600, true}, {501, 699, false}, {600, 800, true}, {701, 900, false}} {
		if got := g.sampledIn(tt.from, tt.to); got != tt.want {
			t.Errorf("%d to %d: %v", tt.from, tt.to, got)
		}
	}
}
