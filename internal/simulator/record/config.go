// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package record simulates perf record on a simulated kernel: it opens events, copies
// kernel text, synthesizes records, drains ring buffers, and writes a recording. The
// order of its steps is that of tools/perf/builtin-record.c.
package record

import "github.com/textreplay/textreplay/internal/simulator/kernel"

// A Perf is what differs between versions of perf and of the kernel that it runs on.
type Perf struct {
	Version string
	// Packed: arrays in BPF_PROG_INFO are not padded (before 5.16).
	Packed bool
	// IDIndex: there is an ID_INDEX (6.0 and newer), with room for machines if
	// Machines is set.
	IDIndex, Machines bool
	// CountsLost: events count their losses, and perf writes them as LOST_SAMPLES
	// (6.1 and newer).
	CountsLost bool
	// PokeEvent: text pokes have a separate event, which is not the one that
	// tracks tasks (5.19 and newer).
	PokeEvent bool
	// UpdateCPUs: an EVENT_UPDATE names the CPUs of the events that have their own.
	UpdateCPUs bool
	// KernelMmap2: the kernel's map is a MMAP2 with its build id and ends at _edata,
	// and CMDLINE is the program alone (7.2).
	KernelMmap2 bool
	// Compressed2: -z makes COMPRESSED2 records (6.16 and newer).
	Compressed2  bool
	FinishedInit bool
	CPUMask      bool // CPU_MAP is a bitmap
	AttrSize     uint32
	InfoSize     int // of struct bpf_prog_info
}

// Versions of perf.
var (
	Perf510 = Perf{Version: "5.10.259", Packed: true, AttrSize: 120, InfoSize: 216, CPUMask: true}
	Perf61  = Perf{Version: "6.1.192", IDIndex: true, Machines: true, CountsLost: true, PokeEvent: true, FinishedInit: true, AttrSize: 128, InfoSize: 224}
	Perf612 = Perf{Version: "6.12.48", IDIndex: true, Machines: true, CountsLost: true, PokeEvent: true, UpdateCPUs: true, FinishedInit: true,
		AttrSize: 136, InfoSize: 232}
	Perf72 = Perf{Version: "7.2.1", IDIndex: true, Machines: true, CountsLost: true, PokeEvent: true, UpdateCPUs: true, FinishedInit: true,
		KernelMmap2: true, Compressed2: true, AttrSize: 144, InfoSize: 232}
)

// A Form is how the recording is kept.
type Form int

const (
	FormFile    Form = iota // one file, in a directory if there is a kcore_dir
	FormPipe                // perf record -o -
	FormThreads             // perf record --threads: a file for each CPU
)

// Modules says how loads and unloads of modules are recorded.
type Modules int

const (
	NoModules       Modules = iota
	AllModules              // -e module:module_load -e module:module_free
	SampledModules          // the same with -F
	PeriodModules           // the same with -c 2
	FilteredModules         // the same with --filter, which lets some pass
	UserModules             // module:module_load:u
)

// A Config is a command line of perf record, and what happens to it.
type Config struct {
	Perf
	Form
	Name         string // on the command line
	KCore        bool   // --kcore
	PerTask      bool   // no -a
	NoIdentifier bool   // sample_type has ID in place of IDENTIFIER
	NoIDIndex    bool
	Workload     bool // there is one, else perf runs until it is interrupted
	CPUClock     bool // -e cpu-clock, else -e dummy
	Callchain    bool // -g
	Modules      Modules
	RingPages    int
	Compress     bool
	ClockID      int32 // -k, -1 for perf's own clock
	// Delay is -D: events begin to sample so late. Control is --control with
	// --delay=-1: they begin when somebody says so.
	Delay   uint64
	Control bool
	// CPUList is -C; text pokes are recorded on all CPUs nevertheless.
	CPUList []int
	// Overwrite is --overwrite; SampleOverwrite only that of the sampling event.
	Overwrite, SampleOverwrite bool
	// Pieces is how many files --switch-output makes.
	Pieces int

	// TwoPokeEvents adds a second event of the same CPUs that takes text pokes.
	// SecondSession adds an event of another program, on the first CPU.
	TwoPokeEvents, SecondSession bool
	// TaskPokeFirst adds an event that takes the text pokes of one task only, with
	// lower ids.
	TaskPokeFirst bool
	// PokesDisabled: the event of text pokes is disabled when it is opened.
	PokesDisabled bool

	// Open is how long perf takes to open an event, at most; Copy how long to copy a
	// page; Drain how long from one round over the ring buffers to the next, at least
	// and at most.
	Open, Copy uint64
	Drain      [2]uint64
	// DoubleWrites is how many rounds of 100 write what came meanwhile twice.
	DoubleWrites int
	// InfoPause is the time between two looks for new BPF programs, at least and at
	// most; InfoFails how many infos of 100 cannot be had.
	InfoPause [2]uint64
	InfoFails int
	// Length is how long the workload runs.
	Length uint64
	// Kill ends perf before it writes the end of the file.
	Kill bool
	// Tail is --tail-synthesize: what is there already is written at the end.
	Tail bool
	// StopsCounting: reading an event's losses fails, and perf reads no further ones.
	StopsCounting bool
	// Injected makes a file of a pipe that was cut off, as perf inject does.
	Injected bool
	// Available is the number of available CPUs in NRCPUS; 0: as many as there are.
	Available int
}

// A Moment is a true time at which perf did something.
type Moment = uint64

// A Recording is what perf wrote, and when it did what.
type Recording struct {
	// Pieces are the files of --switch-output; of other recordings there is one.
	Pieces []Piece
	Copy   *Copy
	Events []*kernel.Event
	Rings  []*kernel.Ring
	// Fetched has the functions of BPF programs whose code perf has, with the code.
	Fetched map[*kernel.Life][]byte
	// Announced has the functions of BPF programs that were there when perf listed them.
	Announced map[*kernel.Life]bool

	Opened  Moment // all events are open and mapped
	Enabled Moment // all events are enabled
	Exec    Moment // the workload began
	Ended   Moment // the first event was disabled
	Closed  Moment // perf has written everything
}

// A Round is a time at which perf began to drain the ring buffers, with the size of all
// records when it had, and of those that it read of each ring buffer.
type Round struct {
	At    Moment
	Size  int
	Rings []int
}

// A Piece is one recording on disk: the file of this name is the recording itself, or
// "data" in its directory.
type Piece struct {
	Data    []byte
	Live    []byte   // what it is while perf records
	Records []byte   // all records that are not in Threads
	Threads [][]byte // data.N of --threads
	Begin   Moment
	Rounds  []Round
}
