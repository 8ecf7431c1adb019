// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A MisfitError says that a copy is not of the recorded kernel, or is of another boot of it, or
// that a vmlinux is of another kernel. errors.As finds a *MisfitError in the error of [Load].
type MisfitError struct {
	Path string // of the copy, or of the vmlinux
	Msg  string
}

func (e *MisfitError) Error() string { return e.Path + ": " + e.Msg }

// running is what a recording says about its kernel.
type running struct {
	symbol  string // whose address perf's map of the kernel has, "" if none
	addr    uint64 // of symbol
	end     uint64 // of perf's map of the kernel
	modules map[string]uint64
	late    bool // the maps of modules come after perf had drained the ring buffers
}

// kernelMap reads the map of the kernel, named [kernel.kallsyms]SYMBOL. perf writes the
// symbol's address as its offset (perf_event__synthesize_kernel_mmap() in
// tools/perf/util/synthetic-events.c). perf itself finds out from it how far the kernel
// was moved.
func (k *running) kernelMap(m *perfdata.Mmap) {
	_, symbol, _ := strings.Cut(string(m.Filename), "]")
	k.symbol, k.addr, k.end = symbol, m.Pgoff, m.Addr+m.Len
	if k.addr == 0 {
		k.addr = m.Addr
	}
}

// ModuleOfMap returns the name of the module whose MMAP record has this file name: the name in brackets, or the path of
// the module's file.
func ModuleOfMap(filename string) string {
	name, _, _ := strings.Cut(path.Base(strings.Trim(filename, "[]")), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// moduleMap reads the map of a module.
func (s *scan) moduleMap(m *perfdata.Mmap) {
	k := &s.running
	k.late = k.late || s.drained() != timeline.MaxTime
	if k.modules == nil {
		k.modules = make(map[string]uint64)
	}
	k.modules[ModuleOfMap(string(m.Filename))] = m.Addr
}

// misfit returns why a copy cannot be of the recorded kernel, or nil. Every boot puts text
// and modules at other addresses. Without that (nokaslr), another kernel has another end of
// text, build id or release. name is the name of the copy in the error. made is the time in which
// it was made, nil if that is not given.
func (s *scan) misfit(name string, snap *kcore.Snapshot, made *Times) error {
	msg := s.misfitSymbols(snap.Kallsyms)
	if msg == "" && !s.running.late && !(made != nil && s.missesLoads(made.To)) {
		msg = s.misfitModules(snap.Modules)
	}
	if msg == "" && snap.Core != nil {
		msg = s.misfitCore(snap.Core, snap.Kallsyms)
	}
	if msg == "" && snap.Core != nil {
		msg = s.misfitPlace(snap, made != nil)
	}
	if msg == "" {
		return nil
	}
	return &MisfitError{name, msg}
}

// misfitSymbols compares kallsyms with the kernel's map.
func (s *scan) misfitSymbols(k *kcore.Kallsyms) string {
	if k == nil || s.running.symbol == "" || s.running.addr == 0 {
		return ""
	}
	lo, hi, ok := k.Text()
	if !ok {
		return "" // kallsyms has no addresses
	}
	at, given := addressOf(k, s.running.symbol)
	switch {
	case given && at != s.running.addr:
		return fmt.Sprintf("of another boot: kernel text is at %#x, in the recording at %#x", at, s.running.addr)
	case !given && (lo < s.running.addr || lo-s.running.addr > imageHead):
		return fmt.Sprintf("of another boot: kernel text is at %#x, in the recording at %#x", lo, s.running.addr)
	}
	// The map ends at _etext, or since perf 6.12 at _edata. In some versions it ends at
	// the first module, or has no end.
	data, given := addressOf(k, "_edata")
	end := s.running.end
	if end < hi || given && end < data && end != hi && end != (hi+textPage-1)&^(textPage-1) {
		return fmt.Sprintf("of another kernel: its text ends at %#x, in the recording the kernel's map ends at %#x", hi, end)
	}
	return ""
}

// imageHead is the most bytes that precede _stext in a kernel's image.
const imageHead = 1 << 20

// addressOf returns the address of one of the kernel's symbols.
func addressOf(k *kcore.Kallsyms, name string) (uint64, bool) {
	for _, sym := range k.LookupIn("", name) {
		return sym.Addr, sym.Addr != 0
	}
	return 0, false
}

// misfitModules compares a list of modules with the maps of modules, except for those that
// were loaded again meanwhile. Some loads may not be recorded.
func (s *scan) misfitModules(modules []kcore.Module) string {
	again := make(map[string]bool)
	for name, events := range s.moduleEvents {
		again[name] = slices.ContainsFunc(events, func(e moduleEvent) bool { return e.loaded })
	}
	same, differ := 0, 0
	for _, m := range modules {
		at, ok := s.running.modules[m.Name]
		switch {
		case !ok || at == 0 || m.Addr == 0:
		case again[m.Name]: // perhaps elsewhere
		case at == m.Addr, s.arch.mapsModuleText() && at > m.Addr && at-m.Addr < m.Size:
			same++
		default:
			differ++
		}
	}
	if differ < 2 || differ <= same {
		return ""
	}
	return fmt.Sprintf("of another boot: %d of %d modules are elsewhere in the recording", differ, same+differ)
}

// missesLoads reports whether modules may have been loaded without a record before time t. Beyond the
// horizon, as in a later file of --switch-output, they may always have been. So they may with -D and
// --control, which enable the events long after perf maps the modules.
func (s *scan) missesLoads(t uint64) bool {
	if t > s.report.Horizon || s.options.Known && !s.options.AtStart() {
		return true
	}
	cpus := make(map[int64]bool) // on which all loads are recorded
	for _, ch := range s.channels.all {
		if ch.kinds&takesModuleLoad == 0 || !ch.system || ch.machine != s.listens {
			continue
		}
		a := &ch.event.Attr
		if a.SamplePeriod == 1 && a.Flags&(perfdata.FlagFreq|perfdata.FlagWriteBackward) == 0 && s.confined(ch.event) == "" {
			cpus[ch.cpu] = true
		}
	}
	if len(cpus) == 0 || len(cpus) < s.report.CPUsAvailable || s.moduleLoad == (tracepoint{}) {
		return true
	}
	from, _ := s.listensFrom(takesModuleLoad)
	if from == timeline.MaxTime || slices.ContainsFunc(s.buffers, func(b *ringBuffer) bool { return len(b.losses) > 0 }) {
		return true
	}
	var c Coverage
	if !s.followsCPUs() {
		s.silence(&c, takesModuleLoad)
	}
	return slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.From < t })
}

// misfitCore compares the build id and the release in a core with those of the
// recording.
func (s *scan) misfitCore(core *kcore.Core, k *kcore.Kallsyms) string {
	id, release := identify(core, k)
	if want := s.kernelBuildID(); id != nil && want != nil && !bytes.Equal(id, want) {
		return fmt.Sprintf("of another kernel: its build id is %x, in the recording %x", id, want)
	}
	if want := s.report.Kernel; release != "" && want != "" && release != want {
		return fmt.Sprintf("of another kernel: of release %s, the recording of %s", release, want)
	}
	return ""
}

// misfitPlace compares the place of the text in a copy with that of its kallsyms, or, if it has
// none with addresses, with the kernel's map. perf copies from the page of _stext on. A copy of all
// of /proc/kcore begins before it, and has notes. One that was cut to some pages may begin
// anywhere behind it. A copy that was made while perf recorded may have a part of text only.
func (s *scan) misfitPlace(snap *kcore.Snapshot, during bool) string {
	const largestPage = 64 << 10
	lo, hi, named := uint64(0), uint64(0), false
	if snap.Kallsyms != nil {
		lo, hi, named = snap.Kallsyms.Text()
	}
	least := lo - min(lo, imageHead)
	if !named {
		lo, hi, least = s.textLo, s.textHi, s.textLo&^(largestPage-1)
	}
	for _, seg := range snap.Core.Segments {
		if seg.Addr >= hi || seg.Addr+uint64(len(seg.Data)) <= lo {
			continue
		}
		before := seg.Addr < least && len(snap.Core.Note("VMCOREINFO")) == 0
		if !during && (before || seg.Addr > lo+imageHead && len(seg.Data) >= imageHead) {
			return fmt.Sprintf("of another boot: kernel text is at %#x, in the recording at %#x", seg.Addr, lo)
		}
		return ""
	}
	if !named {
		return ""
	}
	for _, seg := range snap.Core.Segments {
		if large := len(seg.Data) >= imageHead; large && !hasSymbol(snap.Kallsyms, seg) {
			return fmt.Sprintf("of another boot than its kallsyms: this has no symbol at %#x, where %d bytes are", seg.Addr, len(seg.Data))
		}
	}
	return ""
}

// hasSymbol reports whether kallsyms has a symbol inside of a segment.
func hasSymbol(k *kcore.Kallsyms, seg kcore.Segment) bool {
	for _, sym := range k.All() {
		if sym.Addr >= seg.Addr && sym.Addr-seg.Addr < uint64(len(seg.Data)) {
			return true
		}
	}
	return false
}

// identify returns the build id and the release of the kernel in a core. They are in the
// notes of a copy of /proc/kcore, or in memory. Both may be missing.
func identify(core *kcore.Core, k *kcore.Kallsyms) (id []byte, release string) {
	for line := range bytes.Lines(core.Note("VMCOREINFO")) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), "=")
		switch key {
		case "OSRELEASE":
			release = value
		case "BUILD-ID":
			id = unhexID(value)
		}
	}
	if k == nil {
		return id, release
	}
	lo, ok1 := addressOf(k, "__start_notes")
	hi, ok2 := addressOf(k, "__stop_notes")
	if ok1 && ok2 && lo < hi && hi-lo < 1<<20 && id == nil {
		id = buildIDNote(core.ByteOrder(), core.Bytes(lo, int(hi-lo)))
	}
	if at, ok := addressOf(k, "linux_banner"); ok && release == "" {
		const banner = "Linux version "
		if text, ok := bytes.CutPrefix(core.Bytes(at, len(banner)+65), []byte(banner)); ok { // __NEW_UTS_LEN is 64
			if word, _, ok := bytes.Cut(text, []byte(" ")); ok {
				release = string(word)
			}
		}
	}
	return id, release
}

// unhexID returns the bytes of a build id in hex, or nil if it is none.
func unhexID(s string) []byte {
	var id []byte
	if _, err := fmt.Sscanf(s, "%x", &id); err != nil {
		return nil
	}
	return id
}

// buildIDNote returns the GNU build id in ELF notes, or nil.
func buildIDNote(order binary.ByteOrder, data []byte) []byte {
	for len(data) >= 12 {
		name, desc := order.Uint32(data), order.Uint32(data[4:])
		typ := order.Uint32(data[8:])
		data = data[12:]
		n, d := (uint64(name)+3)&^3, (uint64(desc)+3)&^3
		if n+d > uint64(len(data)) {
			break
		}
		if typ == 3 && string(data[:name]) == "GNU\x00" {
			return data[n:][:desc]
		}
		data = data[n+d:]
	}
	return nil
}

// misfitText compares the text of two copies. Text never changes by more than a small part.
func (r *Replay) misfitText(name string, snap *kcore.Snapshot) error {
	if r.Snapshot == nil || r.Snapshot == snap || r.Snapshot.Core == nil || snap.Core == nil || r.kallsyms == nil {
		return nil
	}
	lo, hi, ok := r.kallsyms.Text()
	if !ok {
		return nil
	}
	if snap.Kallsyms != nil {
		if at, _, ok := snap.Kallsyms.Text(); ok && lo != at {
			return &MisfitError{name, fmt.Sprintf("of another boot: kernel text is at %#x, in the recording at %#x", at, lo)}
		}
	}
	segments := func(core *kcore.Core) (out []timeline.Segment) {
		for _, seg := range core.Segments {
			out = append(out, timeline.Segment(seg))
		}
		return timeline.Overlapping(out, lo, hi)
	}
	mine, compared, differ := segments(r.Snapshot.Core), 0, 0
	for _, seg := range segments(snap.Core) {
		for _, o := range timeline.Overlapping(mine, seg.Addr, seg.End()) {
			for i, b := range seg.Data[o.Addr-seg.Addr:][:len(o.Data)] {
				if b != o.Data[i] {
					differ++
				}
			}
			compared += len(o.Data)
		}
	}
	if differ > compared/4 {
		return &MisfitError{name, fmt.Sprintf("of another kernel: %d of %d bytes of kernel text differ", differ, compared)}
	}
	return nil
}

// checkCopies returns an error if a copy or list that the caller named is not of the
// recorded kernel. It runs when the horizon is known.
func (s *scan) checkCopies(r *Replay, opts *Options) error {
	if r.undated.snapshot || s.follows && r.Snapshot != nil {
		if err := s.misfit(opts.KCore, r.Snapshot, nil); err != nil {
			return err
		}
	}
	for i := range r.copies {
		c := &r.copies[i]
		if c.own {
			continue
		}
		var made *Times
		if !c.unused {
			if c.When != nil {
				var err error
				if c.Made, err = c.When(r); err != nil {
					return err
				}
			}
			made = &c.Made
		}
		err := s.misfit(c.name, c.Snapshot, made)
		if err == nil {
			err = r.misfitText(c.name, c.Snapshot)
		}
		if err != nil {
			return err
		}
	}
	if err := s.misfit(opts.Kallsyms, &kcore.Snapshot{Kallsyms: r.givenKallsyms}, nil); err != nil {
		return err
	}
	return s.misfit(opts.Modules, &kcore.Snapshot{Modules: r.givenModules}, nil)
}
