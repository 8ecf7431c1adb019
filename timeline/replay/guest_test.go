// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

const (
	guestPID  = 7001
	guestLate = 10_000_000_000 // how much later the guest's times are in testdata/guest
)

func loadWith(tb testing.TB, path string, opts replay.Options) *replay.Replay {
	tb.Helper()
	r, err := replay.Load(path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

func testdata(parts ...string) string {
	return filepath.Join(append([]string{corpus.Root(), "testdata"}, parts...)...)
}

// history returns all versions of the bytes at addr as text.
func history(im *timeline.Image, addr uint64, n int) string {
	var b bytes.Buffer
	buf := make([]byte, n)
	for v := range im.Versions(addr, buf, 0, timeline.MaxTime) {
		fmt.Fprintf(&b, "%d..%d %v %v %x\n", v.Since, v.Until, v.Standing, v.Reason, buf[:v.Given])
	}
	return b.String()
}

// sameImage compares two images over the first one's snapshot and symbols.
func sameImage(t *testing.T, a, b *replay.Replay) {
	t.Helper()
	const step = 8
	n := 0
	for _, g := range slices.Concat(a.Report.Segments, symbolRanges(a.Image)) {
		for addr := g.Lo; addr < g.Hi; addr += step {
			n++
			if d := cmp.Diff(history(a.Image, addr, step), history(b.Image, addr, step)); d != "" {
				t.Fatalf("at %#x (-want +got):\n%s", addr, d)
			}
		}
	}
	if n == 0 {
		t.Fatal("nothing to compare")
	}
}

func symbolRanges(im *timeline.Image) (out []timeline.Range) {
	for s := range im.Symbols {
		out = append(out, timeline.Range{Lo: s.Addr, Hi: s.Addr + s.Size})
	}
	return out
}

// TestGuestHost: the guest's records that perf inject merged into a recording do not
// change the host's image.
func TestGuestHost(t *testing.T) {
	want := loadWith(t, testdata("storm", "rec.data"), replay.Options{})
	got := loadWith(t, testdata("guest", "merged.data"), replay.Options{})
	sameImage(t, want, got)
	a, b := *want.Report, *got.Report
	for _, r := range []*replay.Report{&a, &b} {
		r.Producer, r.Records, r.Guests = "", nil, nil
		r.Clock = replay.Clock{}
	}
	if d := cmp.Diff(a, b, cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() }), cmp.AllowUnexported(replay.Clock{})); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	guests := got.Report.Guests
	for i := range guests {
		guests[i].KCore = filepath.Base(guests[i].KCore)
	}
	if d := cmp.Diff([]replay.Guest{{PID: guestPID, VCPUs: 2, KCore: "kcore_dir__7001",
		First: 16_712_319_015, Last: 35_299_470_955, Records: 262, Pokes: 70, Symbols: 2}}, guests); d != "" {
		t.Errorf("guests (-want +got):\n%s", d)
	}
}

// TestGuest: up to its horizon, the image of a guest equals that of the guest's own
// recording, except for what perf left out.
func TestGuest(t *testing.T) {
	plain := loadWith(t, testdata("small", "rec.data"), replay.Options{})
	guest := loadWith(t, testdata("guest", "merged.data"), replay.Options{Guest: guestPID})
	atMost(t, guest, plain, guestLate)

	rep := guest.Report
	if rep.Guest != guestPID || rep.CPUsAvailable != 2 || rep.CPUsOnline != 2 || rep.Clean || rep.Kernel != "" || rep.Arch != "x86_64" {
		t.Errorf("report: %+v", rep)
	}
	if v := rep.Coverage.Pokes.Verdict; v != replay.Complete {
		t.Errorf("coverage of pokes is %v: %v", v, rep.Coverage.Pokes.Limits)
	}
	if rep.Horizon <= rep.First || rep.Horizon > plain.Report.Horizon+guestLate {
		t.Errorf("horizon %d of the guest, %d of its own recording", rep.Horizon, plain.Report.Horizon)
	}
	for name, v := range map[string]replay.Verdict{"bpf": rep.Coverage.BPF.Verdict, "modules": rep.Coverage.Modules.Verdict} {
		if v != replay.None {
			t.Errorf("coverage of %s is %v", name, v)
		}
	}

	sum := score{}
	oracles, err := corpus.Oracles(testdata("small"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range oracles {
		o.Before, o.After = o.Before+guestLate, o.After+guestLate
		judge(t, guest.Image, o, sum)
	}
	// Two pages in five oracles, and the slot of the kprobe.
	if k, p := sum.of("kernel").known, sum.of("kprobe").known; k != 2*5*4096 || p != 115 {
		t.Errorf("known bytes: %v", sum)
	}
}

// atMost compares a guest's image with the image of the guest's own recording, late
// nanoseconds later. Up to the horizon, kernel text has the same standing and bytes.
// Elsewhere, only what is known in the second image is known in the first.
func atMost(t *testing.T, guest, plain *replay.Replay, late uint64) {
	t.Helper()
	lo, hi := guest.Image.Text()
	if a, b := plain.Image.Text(); lo != a || hi != b {
		t.Fatalf("text %x..%x, want %x..%x", lo, hi, a, b)
	}
	var same, known int
	const step = 8
	var want, got [step]byte
	for _, g := range slices.Concat(guest.Report.Segments, symbolRanges(plain.Image)) {
		for addr := g.Lo; addr < g.Hi; addr += step {
			for b := range plain.Image.Versions(addr, want[:], 0, timeline.MaxTime-late-1) {
				for _, at := range []uint64{b.Since + late, b.Until - 1 + late} {
					if b.Until == timeline.MaxTime && at == b.Until-1+late || b.Since == 0 && at == late {
						continue // outside the recording
					}
					v := guest.Image.At(at).Read(addr, got[:])
					if lo <= addr && addr < hi && at <= guest.Report.Horizon && at >= guest.Report.First {
						same++
						if v.Standing != b.Standing || v.Reason != b.Reason || got != want {
							t.Fatalf("%#x at %d: %v (%v) %x, want %v (%v) %x", addr, at, v.Standing, v.Reason, got, b.Standing, b.Reason, want)
						}
					}
					if v.Standing == timeline.Known {
						if known++; b.Standing != timeline.Known || got != want {
							t.Fatalf("%#x at %d: known as %x, want %v %x", addr, at, got, b.Standing, want)
						}
					}
				}
			}
		}
	}
	if same == 0 || known == 0 {
		t.Errorf("%d questions with the same answer, %d known", same, known)
	}
	t.Logf("%d questions about kernel text with the same answer, %d answers known", same, known)
}

// TestGuestUnknown: the error for an unknown guest lists the known ones.
func TestGuestUnknown(t *testing.T) {
	for _, tt := range []struct{ dir, name, want string }{
		{"guest", "merged.data", "the recording has no guest 12; it has 7001"},
		{"storm", "rec.data", "the recording has no guest 12; it has no guests"},
	} {
		_, err := replay.Load(testdata(tt.dir, tt.name), replay.Options{Guest: 12})
		var unknown *replay.UnknownGuestError
		if !errors.As(err, &unknown) || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", tt.dir, err, tt.want)
		}
	}
}

// rewrite makes a recording from the records of another one. change may alter each record
// in place, or drop it.
func rewrite(tb testing.TB, path string, change func(r *perfdata.Recording, rec *perfdata.Record) (keep bool)) []byte {
	tb.Helper()
	r, err := perfdata.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	f, err := os.CreateTemp(tb.TempDir(), "")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	w := perfdata.NewWriter(f, r.ByteOrder())
	if err := w.SetEvents(r.Events()); err != nil {
		tb.Fatal(err)
	}
	sc := r.Scan()
	for sc.Next() {
		rec := *sc.Record()
		rec.Raw = bytes.Clone(rec.Raw)
		if !change(r, &rec) {
			continue
		}
		if err := w.WriteRecord(rec.Raw); err != nil {
			tb.Fatal(err)
		}
	}
	for _, feature := range r.Features() {
		data, err := r.Feature(feature)
		if err != nil {
			tb.Fatal(err)
		}
		if err := w.WriteFeature(feature, data); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func replayOf(tb testing.TB, data []byte, kcoreDir string, opts replay.Options) *replay.Replay {
	tb.Helper()
	rec, err := perfdata.New(data)
	if err != nil {
		tb.Fatal(err)
	}
	snap, err := kcore.Open(kcoreDir)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := replay.New(rec, snap, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

// TestGuestMode: records whose header marks them as a guest's, as perf kvm writes them, do
// not affect the host's image, even if no id marks them.
func TestGuestMode(t *testing.T) {
	path := testdata("small", "rec.data")
	isGuest := func(rec *perfdata.Record) bool {
		switch rec.Type {
		case perfdata.RecordTextPoke, perfdata.RecordKSymbol, perfdata.RecordBPFEvent:
			return rec.Offset%16 == 0
		}
		return false
	}
	n := 0
	marked := rewrite(t, path, func(r *perfdata.Recording, rec *perfdata.Record) bool {
		if isGuest(rec) {
			n++
			misc := rec.Misc&^perfdata.MiscCPUModeMask | perfdata.MiscGuestKernel
			r.ByteOrder().PutUint16(rec.Raw[4:], misc)
		}
		return true
	})
	without := rewrite(t, path, func(_ *perfdata.Recording, rec *perfdata.Record) bool { return !isGuest(rec) })
	if n < 100 {
		t.Fatalf("only %d records marked", n)
	}
	kcoreDir := filepath.Join(path, "kcore_dir")
	host := replayOf(t, marked, kcoreDir, replay.Options{})
	sameImage(t, replayOf(t, without, kcoreDir, replay.Options{}), host)
	changes := 0
	for range host.Changes() {
		changes++
	}
	want := 0
	for range replayOf(t, without, kcoreDir, replay.Options{}).Changes() {
		want++
	}
	if changes != want {
		t.Errorf("%d changes, want %d", changes, want)
	}
	if g := host.Report.Guests; len(g) != 1 || g[0].PID != replay.DefaultGuest || g[0].Records != uint64(n) {
		t.Errorf("guests %+v, want the default one with %d records", g, n)
	}

	// The default guest's image has those records, but proves nothing: its other changes
	// are unknown.
	guest := replayOf(t, marked, kcoreDir, replay.Options{Guest: replay.DefaultGuest})
	if p := guest.Report.Pokes.Total; p == 0 || p != host.Report.Guests[0].Pokes {
		t.Errorf("the guest has %d pokes, its records are %+v", p, host.Report.Guests[0])
	}
	var b [8]byte
	for _, g := range guest.Report.Segments {
		for addr := g.Lo; addr < g.Hi; addr += 8 {
			for v := range guest.Image.Versions(addr, b[:], 0, timeline.MaxTime) {
				if v.Standing == timeline.Known && v.Until-v.Since > 1 {
					t.Fatalf("%#x is known from %d to %d", addr, v.Since, v.Until)
				}
			}
		}
	}
}

// TestGuestSamples: the host's events also sample a guest. These samples are the host's
// records with the host's times, but the report counts them for the guest.
func TestGuestSamples(t *testing.T) {
	path := testdata("hotplug", "rec.data") // whose samples show that a CPU fell silent
	n := uint64(0)
	data := rewrite(t, path, func(r *perfdata.Recording, rec *perfdata.Record) bool {
		if rec.Type == perfdata.RecordSample && rec.Offset%16 == 0 {
			n++
			r.ByteOrder().PutUint16(rec.Raw[4:], rec.Misc&^perfdata.MiscCPUModeMask|perfdata.MiscGuestKernel)
		}
		return true
	})
	host := replayOf(t, data, filepath.Join(path, "kcore_dir"), replay.Options{})
	sameImage(t, loadWith(t, path, replay.Options{}), host)
	if g := host.Report.Guests; n < 100 || len(g) != 1 || g[0].PID != replay.DefaultGuest || g[0].Samples != n {
		t.Errorf("guests %+v, want the default one with %d samples", g, n)
	}
}

// TestGuestMap: perf kvm writes the map of a guest's kernel. If perf knows the hypervisor's
// pid, the map has that pid. It is not the map of the host's kernel.
func TestGuestMap(t *testing.T) {
	path := testdata("small", "rec.data")
	const lo, hi = 0xffffffff81000000, 0xffffffff82000000
	for _, tt := range []struct {
		pid   uint32
		guest int
		name  string
	}{
		{0, replay.DefaultGuest, "[guest.kernel.kallsyms]_text"},
		{4242, 4242, "[guest.kernel.kallsyms.4242]_text"},
	} {
		data := rewrite(t, path, func(r *perfdata.Recording, rec *perfdata.Record) bool {
			var m perfdata.Mmap
			if rec.Type != perfdata.RecordMMAP || r.Mmap(rec, &m) != nil || !bytes.HasPrefix(m.Filename, []byte("[virtio]")) {
				return true
			}
			order := r.ByteOrder()
			trailer := rec.Raw[40+(len(m.Filename)+8)&^7:]
			rec.Raw = append(rec.Raw[:40:40], make([]byte, (len(tt.name)+8)&^7)...)
			copy(rec.Raw[40:], tt.name)
			rec.Raw = append(rec.Raw, trailer...)
			order.PutUint16(rec.Raw[4:], perfdata.MiscGuestKernel)
			order.PutUint16(rec.Raw[6:], uint16(len(rec.Raw)))
			order.PutUint32(rec.Raw[8:], tt.pid)
			order.PutUint64(rec.Raw[16:], lo)
			order.PutUint64(rec.Raw[24:], hi-lo)
			return true
		})
		rec, err := perfdata.New(data)
		if err != nil {
			t.Fatal(err)
		}
		r, err := replay.New(rec, nil, replay.Options{Guest: tt.guest})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if a, b := r.Image.Text(); a != lo || b != hi {
			t.Errorf("text of guest %d is %#x..%#x, want %#x..%#x", tt.guest, a, b, uint64(lo), uint64(hi))
		}
		if v := r.Report.Coverage.Pokes.Verdict; v != replay.None {
			t.Errorf("coverage of pokes of guest %d is %v", tt.guest, v)
		}
		host := replayOf(t, data, filepath.Join(path, "kcore_dir"), replay.Options{})
		sameImage(t, loadWith(t, path, replay.Options{}), host)
	}
}

// TestGuestVCPUs: it is unknown whether every CPU of the guest was recorded if a virtual
// CPU's thread has no name, or if the host lost records.
func TestGuestVCPUs(t *testing.T) {
	path := testdata("guest", "merged.data")
	for _, tt := range []struct {
		name   string
		change func(r *perfdata.Recording, rec *perfdata.Record) bool
		reason timeline.Reason
	}{
		{"no names", func(_ *perfdata.Recording, rec *perfdata.Record) bool {
			return !bytes.Contains(rec.Raw, []byte("/KVM"))
		}, timeline.CPUCountsMissing},
		{"second name only", func(_ *perfdata.Recording, rec *perfdata.Record) bool {
			return !bytes.Contains(rec.Raw, []byte("CPU 0/KVM"))
		}, timeline.CPUCountsMissing},
		{"a third", func(_ *perfdata.Recording, rec *perfdata.Record) bool {
			// The host has a thread that the guest has no event for.
			if rec.Type == perfdata.RecordComm && bytes.Contains(rec.Raw, []byte("perf-exec")) && rec.CPUMode() == 0 {
				copy(rec.Raw[8:], []byte{byte(guestPID & 0xff), byte(guestPID >> 8), 0, 0})
				copy(rec.Raw[16:], "CPU 2/KVM")
			}
			return true
		}, timeline.PartialCoverage},
		{"the host lost records", func() func(r *perfdata.Recording, rec *perfdata.Record) bool {
			done := false
			return func(r *perfdata.Recording, rec *perfdata.Record) bool {
				if rec.Type == perfdata.RecordTextPoke && rec.CPUMode() == perfdata.MiscKernel && !done {
					done = true
					trailer := rec.Raw[len(rec.Raw)-32:]
					order := r.ByteOrder()
					rec.Raw = append(make([]byte, 24), trailer...)
					order.PutUint32(rec.Raw, uint32(perfdata.RecordLost))
					order.PutUint16(rec.Raw[6:], uint16(len(rec.Raw)))
					order.PutUint64(rec.Raw[16:], 3)
				}
				return true
			}
		}(), timeline.CPUCountsMissing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := replayOf(t, rewrite(t, path, tt.change), filepath.Join(path, "kcore_dir__7001"), replay.Options{Guest: guestPID})
			c := r.Report.Coverage.Pokes
			if c.Verdict != replay.Partial || !slices.ContainsFunc(c.Limits, func(l replay.Limit) bool { return l.Reason == tt.reason }) {
				t.Errorf("coverage %+v, want partial for the reason %v", c, tt.reason)
			}
		})
	}
}

// TestGuestSynthesized: records that perf made when the guest's recording began have
// time 0. They do not affect the host's image. The guest's ring buffers do not limit the
// horizon of a host's recording without a clean end.
func TestGuestSynthesized(t *testing.T) {
	path := testdata("guest", "merged.data")
	guestExec := ""
	n := 0
	change := func(r *perfdata.Recording, rec *perfdata.Record) bool {
		// Move the symbol's registration to before the recording.
		var k perfdata.KSymbol
		if rec.Type == perfdata.RecordKSymbol && rec.CPUMode() == perfdata.MiscGuestKernel && r.KSymbol(rec, &k) == nil {
			n++
			r.ByteOrder().PutUint64(rec.Raw[len(rec.Raw)-24:], 0) // TID, TIME, CPU, IDENTIFIER
			if err := r.KSymbol(rec, &k); err != nil || k.Time != 0 || k.ID == 0 {
				t.Fatalf("%+v, %v", k, err)
			}
			guestExec = string(k.Name)
		}
		return true
	}
	data := rewrite(t, path, change)
	if n == 0 {
		t.Fatal("the guest has no symbols")
	}
	kcoreDir := filepath.Join(path, "kcore_dir")
	host := replayOf(t, data, kcoreDir, replay.Options{})
	for s := range host.Image.Symbols {
		if s.Name == guestExec && s.From == 0 {
			t.Errorf("the guest's %s is among the host's symbols", s.Name)
		}
	}
	sameImage(t, loadWith(t, testdata("storm", "rec.data"), replay.Options{}), host)
	guest := replayOf(t, data, filepath.Join(path, "kcore_dir__7001"), replay.Options{Guest: guestPID})
	found := 0
	for s := range guest.Image.Symbols {
		if s.Name == guestExec && s.From == 0 {
			found++
		}
	}
	if found == 0 {
		t.Errorf("%s is not among the guest's symbols", guestExec)
	}
}

// TestGuestTimes: a guest's times and ring buffers do not affect the host's. Here the
// guest's records continue for longer and come from a CPU that the host does not have.
func TestGuestTimes(t *testing.T) {
	path := testdata("guest", "merged.data")
	const last = 30_000_000_000
	data := rewrite(t, path, func(r *perfdata.Recording, rec *perfdata.Record) bool {
		var x perfdata.IDIndex
		if rec.Type == perfdata.RecordIDIndex && r.IDIndex(rec, &x) == nil && x.Entries[0].MachinePID != 0 {
			for i := range x.Entries {
				r.ByteOrder().PutUint64(rec.Raw[16+32*len(x.Entries)+16*i+8:], 5) // vcpu
			}
		}
		if rec.Type == perfdata.RecordFinishedRound {
			return false
		}
		var id perfdata.SampleID
		return rec.Type >= 64 || rec.CPUMode() >= perfdata.MiscGuestKernel || r.SampleID(rec, &id) == nil && id.Time < last
	})
	kcoreDir := filepath.Join(path, "kcore_dir")
	rep := replayOf(t, data, kcoreDir, replay.Options{}).Report
	if g := rep.Guests[0]; g.Last < last || rep.Last >= last || rep.Horizon >= last {
		t.Errorf("the host's last record is of %d, its horizon %d; the guest's last of %d", rep.Last, rep.Horizon, g.Last)
	}
	// Without a clean end, the slowest ring buffer gives the horizon: another record with
	// its newest time may follow.
	rec, err := perfdata.New(data)
	if err != nil {
		t.Fatal(err)
	}
	var end int64
	for sc := rec.Scan(); sc.Next(); {
		end = sc.Record().Offset
	}
	rep = replayOf(t, data[:end], kcoreDir, replay.Options{}).Report
	var slowest uint64 = last
	newest := make(map[uint32]uint64)
	for sc := rec.Scan(perfdata.Only(perfdata.RecordTextPoke, perfdata.RecordComm, perfdata.RecordKSymbol)); sc.Next(); {
		var id perfdata.SampleID
		if r := sc.Record(); r.CPUMode() < perfdata.MiscGuestKernel && rec.SampleID(r, &id) == nil && id.Time != 0 {
			newest[id.CPU] = max(newest[id.CPU], id.Time)
		}
	}
	for _, t := range newest {
		slowest = min(slowest, t)
	}
	if rep.Clean || len(newest) != 2 || rep.Horizon != slowest-1 {
		t.Errorf("the host's horizon is %d, want %d", rep.Horizon, slowest-1)
	}
}

// TestGuestDamage: a recording is cut, or a byte is changed. Neither image has a wrong
// byte, except for those that the changed byte affects directly.
func TestGuestDamage(t *testing.T) {
	path := testdata("guest", "merged.data")
	whole, err := os.ReadFile(filepath.Join(path, "data"))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := perfdata.New(whole)
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{data: whole}
	for sc := rec.Scan(); sc.Next(); {
		r := sc.Record()
		v.records = append(v.records, victimRecord{int(r.Offset), int(r.Offset) + len(r.Raw)})
	}
	type machine struct {
		opts    replay.Options
		snap    *kcore.Snapshot
		oracles []victimOracle
	}
	var machines []machine
	for _, m := range []struct {
		dir, kcore string
		guest      int
		late       uint64
	}{{"storm", "kcore_dir", 0, 0}, {"small", "kcore_dir__7001", guestPID, guestLate}} {
		snap, err := kcore.Open(filepath.Join(path, m.kcore))
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Close()
		oracles, err := corpus.Oracles(testdata(m.dir))
		if err != nil {
			t.Fatal(err)
		}
		x := machine{opts: replay.Options{Guest: m.guest}, snap: snap}
		for _, o := range oracles {
			o.Before, o.After = o.Before+m.late, o.After+m.late
			x.oracles = append(x.oracles, victimOracle{Oracle: o, segs: segments(t, o.Path)})
		}
		machines = append(machines, x)
	}
	answered, known := 0, uint64(0)
	check := func(data []byte, excused []timeline.Range, what string, off int) {
		for _, m := range machines {
			rec, err := perfdata.New(data)
			if err != nil {
				continue
			}
			r, err := replay.New(rec, m.snap, m.opts)
			if err != nil {
				continue
			}
			answered++
			for _, o := range m.oracles {
				for span, want := range r.Image.At(o.Time()).Against(o.segs) {
					if span.Standing != timeline.Known {
						continue
					}
					known += span.Len
					for k := range want {
						a := span.Addr + uint64(k)
						if want[k] != span.Bytes[k] && !slices.ContainsFunc(excused, func(e timeline.Range) bool { return e.Lo <= a && a < e.Hi }) {
							t.Fatalf("%s at %d (%s): guest %d has a wrong byte at %#x at %s", what, off, v.where(off), m.opts.Guest, a, o.Label)
						}
					}
				}
			}
		}
	}
	rng := rand.New(rand.NewPCG(11, 12))
	for range rounds(t, 100) {
		at := rng.IntN(len(whole))
		check(whole[:at:at], nil, "cut", at)
	}
	data := bytes.Clone(whole)
	for range rounds(t, 300) {
		off, with := rng.IntN(len(data)), byte(1+rng.IntN(255))
		data[off] ^= with
		check(data, v.excuses(data, off), fmt.Sprintf("changed by %#x", with), off)
		data[off] ^= with
	}
	if answered < 200 || known == 0 {
		t.Errorf("%d images, %d bytes known", answered, known)
	}
	t.Logf("%d images, %d bytes known", answered, known)
}

// TestGuestInject merges large recordings with perf inject, and compares host and guest
// with their oracles.
func TestGuestInject(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("skipped: merging recordings needs perf")
	}
	for _, tt := range []struct {
		host, guest string
		offset      int64
	}{
		{"x86_64/small", "x86_64/rich", 0},
		{"x86_64/rich", "x86_64/lossy", -3_000_000_000},
	} {
		t.Run(tt.guest, func(t *testing.T) {
			hostDir, guestDir := corpus.Large(t, tt.host), corpus.Large(t, tt.guest)
			dir := t.TempDir()
			run := func(name string, args ...string) {
				t.Helper()
				if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
					t.Fatalf("%s %v: %v\n%s", name, args, err, out)
				}
			}
			host, merged := filepath.Join(dir, "host"), filepath.Join(dir, "merged")
			run("go", "run", filepath.Join(corpus.Root(), "internal", "vcpuhost"), "-pid", "7001", filepath.Join(hostDir, "rec.data"), host)
			run(perf, "inject", fmt.Sprintf("--guest-data=%s,7001,%d", filepath.Join(guestDir, "rec.data"), tt.offset), "-i", host, "-o", merged)

			for _, m := range []struct {
				dir  string
				opts replay.Options
				late int64
			}{
				{hostDir, replay.Options{}, 0},
				{guestDir, replay.Options{Guest: guestPID}, -tt.offset},
			} {
				r := loadWith(t, merged, m.opts)
				oracles, err := corpus.Oracles(m.dir)
				if err != nil {
					t.Fatal(err)
				}
				sum := score{}
				for _, o := range oracles {
					if o.Outside() {
						continue
					}
					o.Before, o.After = o.Before+uint64(m.late), o.After+uint64(m.late)
					judge(t, r.Image, o, sum)
				}
				if sum.wrong() != 0 || sum.of("kernel").known == 0 {
					t.Errorf("guest %d: %v", m.opts.Guest, sum)
				}
				t.Logf("guest %d: %v", m.opts.Guest, sum)
			}
		})
	}
}
