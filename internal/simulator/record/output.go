// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// An output is the recording that perf is writing.
type output struct {
	r       *recorder
	data    []byte
	threads [][]byte
	packer  *rawperf.Compressor
	packers []*rawperf.Compressor // of the threads
	begin   uint64
	rounds  []Round
}

// start begins a file.
func (o *output) start(r *recorder) {
	*o = output{r: r, begin: r.k.Now}
	if r.Compress {
		o.packer = o.compressor()
	}
	if r.Form == FormThreads {
		o.threads = make([][]byte, len(r.rings))
		o.packers = make([]*rawperf.Compressor, len(r.rings))
		for i := range o.packers {
			if r.Compress {
				o.packers[i] = o.compressor()
			}
		}
	}
	if r.Form != FormPipe {
		return
	}
	o.data = r.f.PipeHeader()
	for _, e := range r.evsels {
		o.record(r.f.Record(rawperf.TypeHeaderAttr, 0, r.f.HeaderAttr(&e.attr, e.ids()), nil))
	}
	for _, e := range r.evsels {
		o.record(r.f.Record(rawperf.TypeEventUpdate, 0, r.f.EventUpdateName(e.ids()[0], e.name), nil))
	}
	features := r.features(false)
	for n := range rawperf.Feature(64) {
		if section, ok := features[n]; ok && n != rawperf.FeatureTracingData {
			o.record(r.f.Record(rawperf.TypeFeature, 0, r.f.FeatureRecord(n, section), nil))
		}
	}
	o.record(r.f.Record(rawperf.TypeFeature, 0, r.f.FeatureRecord(0, nil), nil))
	if tracing, ok := features[rawperf.FeatureTracingData]; ok {
		o.record(r.f.TracingDataRecord(tracing))
	}
}

func (o *output) compressor() *rawperf.Compressor {
	c, err := o.r.f.NewCompressor(o.r.Compressed2)
	if err != nil {
		panic(err) // the options are constant
	}
	return c
}

// record appends whole records of perf itself, which are never compressed.
func (o *output) record(b []byte) { o.data = append(o.data, b...) }

// synthesized appends a record as of the kernel, with a trailer of zeros.
func (o *output) synthesized(t rawperf.Type, misc uint16, body []byte) {
	zeros := o.r.f.Trailer(o.r.evsels[0].attr.SampleType, rawperf.SampleID{})
	o.record(o.r.f.Record(t, misc, body, zeros))
}

// ring appends what ring buffer i held.
func (o *output) ring(i int, b []byte) {
	data, packer := &o.data, o.packer
	if o.threads != nil {
		data, packer = &o.threads[i], o.packers[i]
	}
	if packer != nil {
		var err error
		if b, err = packer.Records(b); err != nil {
			panic(err) // a bytes.Buffer takes everything
		}
	}
	*data = append(*data, b...)
}

func (o *output) finishedRound() {
	if o.threads == nil {
		o.record(o.r.f.Record(rawperf.TypeFinishedRound, 0, nil, nil))
	}
}

// finish ends the file.
func (o *output) finish() { o.end(false) }

// kill leaves the file as it is when perf is killed.
func (o *output) kill() { o.end(true) }

func (o *output) end(killed bool) {
	r := o.r
	piece := Piece{Data: o.data, Live: o.data, Records: o.data, Threads: o.threads, Begin: o.begin, Rounds: o.rounds}
	if r.Form != FormPipe {
		c := &rawperf.File{Events: r.described(), Data: o.data, Features: r.features(true), Unfinished: true}
		piece.Live = r.f.File(c)
		c.Unfinished = killed
		piece.Data = r.f.File(c)
	}
	if r.Injected {
		piece.Data = o.injected()
	}
	r.rec.Pieces = append(r.rec.Pieces, piece)
}

// injected returns the file that perf inject makes of the first part of the pipe: it ends
// like a recording that is whole. Its events come after the records (write_attrs_after_data
// of perf_session__inject_header), and those of the pipe that describe them are left out.
func (o *output) injected() []byte {
	f := o.r.f
	var records []byte
	left := len(o.data)/4 + o.r.p.IntN(len(o.data)*3/4)
	for b := o.data[len(f.PipeHeader()):]; len(b) > 0; {
		n := int(f.Order.Uint16(b[6:]))
		if left -= n; left < 0 {
			break
		}
		if t := rawperf.Type(f.Order.Uint32(b)); t != rawperf.TypeHeaderAttr {
			records = append(records, b[:n]...)
		}
		b = b[n:]
	}
	return f.File(&rawperf.File{Events: o.r.described(), Data: records, Features: o.r.features(false), AttrsLast: true})
}

func (e *evsel) ids() (ids []uint64) {
	for _, ev := range e.events {
		ids = append(ids, ev.ID)
	}
	return ids
}

// described returns the events as the header has them.
func (r *recorder) described() (events []rawperf.Event) {
	for _, e := range r.evsels {
		events = append(events, rawperf.Event{Attr: e.attr, IDs: e.ids(), Name: e.name})
	}
	return events
}

// features returns the sections of the header's features. Some are only known at the
// end.
func (r *recorder) features(end bool) map[rawperf.Feature][]byte {
	f := r.f
	available := r.Available
	if available == 0 {
		available = len(r.k.AllCPUs)
	}
	m := map[rawperf.Feature][]byte{
		rawperf.FeatureHostname:  f.String("simulated"),
		rawperf.FeatureRelease:   f.String("6.1.0-simulated"),
		rawperf.FeatureVersion:   f.String(r.Version),
		rawperf.FeatureArch:      f.String("x86_64"),
		rawperf.FeatureCPUs:      f.CPUs(available, len(r.k.OnlineCPUs())),
		rawperf.FeatureCmdline:   f.Strings(r.cmdline()),
		rawperf.FeatureEventDesc: f.EventDesc(r.described()),
	}
	if r.Modules != NoModules {
		m[rawperf.FeatureTracingData] = f.TracingData([]rawperf.Tracepoint{
			{System: "module", Name: "module_load", ID: kernel.ConfigModuleLoad,
				Fields: "\tfield:unsigned int taints;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:1;\n"},
			{System: "module", Name: "module_free", ID: kernel.ConfigModuleFree,
				Fields: "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n"},
		})
	}
	if end {
		m[rawperf.FeatureBPFProgInfo] = f.BPFProgInfo(r.infos, r.Packed, r.InfoSize)
	}
	if r.ClockID >= 0 {
		m[rawperf.FeatureClockID] = f.Words64(1)
		m[rawperf.FeatureClockData] = f.ClockData(uint32(r.ClockID), 1700000000e9, r.k.Clock.Read(0, r.k.Now))
	}
	if r.Compress {
		m[rawperf.FeatureCompressed] = f.Words32(1, 1, 1, 2, uint32(r.RingPages*kernel.PageSize))
	}
	if r.Form == FormThreads {
		m[rawperf.FeatureDirFormat] = f.Words64(1)
	}
	return m
}

// cmdline returns the command line.
func (r *recorder) cmdline() []string {
	args := []string{"/usr/bin/perf"}
	if r.KernelMmap2 {
		return args
	}
	args = append(args, "record")
	add := func(when bool, option ...string) {
		if when {
			args = append(args, option...)
		}
	}
	add(!r.PerTask, "-a")
	add(r.KCore, "--kcore")
	add(r.CPUClock, "-e", "cpu-clock")
	add(!r.CPUClock, "-e", "dummy")
	switch r.Modules {
	case AllModules:
		add(true, "-e", "module:module_load", "-e", "module:module_free")
	case SampledModules:
		add(true, "-F", "99", "-e", "module:module_load", "-e", "module:module_free")
	case PeriodModules:
		add(true, "-c", "2", "-e", "module:module_load", "-e", "module:module_free")
	case FilteredModules:
		add(true, "-e", "module:module_load", "--filter", "name ~ mod*", "-e", "module:module_free", "--filter", "name ~ mod*")
	case UserModules:
		add(true, "-e", "module:module_load:u", "-e", "module:module_free:u")
	}
	add(r.Callchain, "-g")
	add(r.Compress, "-z")
	add(r.Delay > 0, "-D", fmt.Sprint(r.Delay/1e6))
	add(r.Control, "-D", "-1", "--control", "fifo:ctl")
	add(r.Overwrite, "--overwrite")
	add(r.SampleOverwrite, "-e", "cpu-clock/overwrite/")
	add(r.Pieces > 1, "--switch-output=1s")
	add(r.Tail, "--tail-synthesize")
	add(r.Form == FormThreads, "--threads")
	add(r.CPUList != nil, "-C", "listed")
	add(r.ClockID >= 0, "-k", fmt.Sprint(r.ClockID))
	add(r.Form == FormPipe, "-o", "-")
	add(r.Workload, "--", "workload")
	return args
}

// synthesize writes what is there already (record__synthesize). A trailer of zeros and
// time 0 mark the records.
func (r *recorder) synthesize() {
	o, f := &r.out, r.f
	if r.ClockID < 0 && r.k.Clock.Offset == nil { // else sched_clock_stable() is false
		o.record(f.Record(rawperf.TypeTimeConv, 0, f.TimeConv(31, 1<<31, 0), nil))
	}
	if r.IDIndex && !r.NoIDIndex {
		var entries []rawperf.IndexEntry
		for i, e := range r.evsels {
			for _, ev := range e.events {
				tid := ^uint64(0)
				if ev.Task != nil {
					tid = uint64(ev.Task.PID)
				}
				entries = append(entries, rawperf.IndexEntry{ID: ev.ID, Idx: uint64(i), CPU: uint64(ev.CPU.Number), TID: tid})
			}
		}
		o.record(f.Record(rawperf.TypeIDIndex, 0, f.IDIndex(entries, r.Machines), nil))
	}
	r.synthesizeMaps()
	r.p.Pause(1e5, 3e6)
	if r.UpdateCPUs {
		for _, e := range r.evsels {
			if e.ownCPUs {
				o.record(f.Record(rawperf.TypeEventUpdate, 0, f.EventUpdateCPUs(e.ids()[0], f.CPUMap(numbers(e.cpus))), nil))
			}
		}
	}
	if r.PerTask || r.TaskPokeFirst { // no evlist has events of tasks without one
		o.record(f.Record(rawperf.TypeThreadMap, 0, f.ThreadMap(uint64(r.workload.PID), "perf"), nil))
	} else {
		o.record(f.Record(rawperf.TypeThreadMap, 0, f.ThreadMap(^uint64(0), ""), nil))
	}
	cpuMap := f.CPUMap
	if r.CPUMask {
		cpuMap = f.CPUMask
	}
	o.record(f.Record(rawperf.TypeCPUMap, 0, cpuMap(r.mapCPUs()), nil))
	r.synthesizePrograms()
	r.p.Pause(1e5, 3e6)
	for pid, comm := range map[uint32]string{1: "init"} {
		o.synthesized(rawperf.TypeFork, 0, f.Task(pid, 0, pid, 0, 0))
		o.synthesized(rawperf.TypeComm, 0, f.Comm(pid, pid, comm))
	}
	if r.FinishedInit {
		o.record(f.Record(rawperf.TypeFinishedInit, 0, nil, nil))
	}
}

// mapCPUs returns the CPUs of CPU_MAP: those of -C, or all that are online.
func (r *recorder) mapCPUs() []int {
	for _, e := range r.evsels {
		if !e.ownCPUs {
			return numbers(e.cpus)
		}
	}
	return nil
}

func numbers(cpus []*kernel.CPU) (n []int) {
	for _, c := range cpus {
		n = append(n, c.Number)
	}
	return n
}

// synthesizeMaps writes the maps of the kernel and of its modules.
func (r *recorder) synthesizeMaps() {
	o, f, text := &r.out, r.f, r.k.Text
	const kernelPID = ^uint32(0)
	if r.KernelMmap2 {
		id := []byte("simulated build id 1")
		o.synthesized(rawperf.TypeMmap2, rawperf.MiscKernel|rawperf.MiscMmapBuildID,
			f.MmapBuildID(kernelPID, 0, text.Lo, r.k.DataEnd-text.Lo, text.Lo, id, 5, "[kernel.kallsyms]_text"))
	} else {
		o.synthesized(rawperf.TypeMmap, rawperf.MiscKernel, f.Mmap(kernelPID, 0, text.Lo, text.Hi-text.Lo, text.Lo, "[kernel.kallsyms]_text"))
	}
	for _, m := range r.k.ModuleMaps() {
		o.synthesized(rawperf.TypeMmap, rawperf.MiscKernel, f.Mmap(kernelPID, 0, m.Addr, m.Len, 0, "["+m.Name+"]"))
	}
}

// synthesizePrograms writes the symbols and loads of BPF programs, and the images that
// kallsyms lists (perf_event__synthesize_bpf_events).
func (r *recorder) synthesizePrograms() {
	o, f := &r.out, r.f
	for _, g := range r.fetchPrograms(r.p) {
		for _, pf := range g.Funcs {
			o.synthesized(rawperf.TypeKSymbol, 0, f.KSymbol(pf.Life.Addr, uint32(pf.Life.Len), rawperf.KSymbolBPF, 0, pf.Life.Name))
			r.rec.Announced[pf.Life] = true
		}
		o.synthesized(rawperf.TypeBPFEvent, 0, f.BPFEvent(rawperf.BPFLoad, g.ID, g.Tag))
	}
	for _, l := range r.k.Images() {
		o.synthesized(rawperf.TypeKSymbol, 0, f.KSymbol(l.Addr, kernel.PageSize, rawperf.KSymbolBPF, 0, l.Name))
	}
}
