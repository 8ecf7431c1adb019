// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "strconv"

// A RecordType is the type field of a record's header: enum perf_event_type of
// include/uapi/linux/perf_event.h below 64, enum perf_user_event_type of
// tools/lib/perf/include/perf/event.h from 64 on.
type RecordType uint32

// Records that the kernel writes.
const (
	RecordMMAP              RecordType = 1
	RecordLost              RecordType = 2
	RecordComm              RecordType = 3
	RecordExit              RecordType = 4
	RecordThrottle          RecordType = 5
	RecordUnthrottle        RecordType = 6
	RecordFork              RecordType = 7
	RecordRead              RecordType = 8
	RecordSample            RecordType = 9
	RecordMMAP2             RecordType = 10
	RecordAux               RecordType = 11
	RecordItraceStart       RecordType = 12
	RecordLostSamples       RecordType = 13
	RecordSwitch            RecordType = 14
	RecordSwitchCPUWide     RecordType = 15
	RecordNamespaces        RecordType = 16
	RecordKSymbol           RecordType = 17
	RecordBPFEvent          RecordType = 18
	RecordCgroup            RecordType = 19
	RecordTextPoke          RecordType = 20
	RecordAuxOutputHWID     RecordType = 21
	RecordCallchainDeferred RecordType = 22
)

// Records that perf's tools write.
const (
	RecordHeaderAttr        RecordType = 64
	RecordHeaderEventType   RecordType = 65
	RecordHeaderTracingData RecordType = 66
	RecordHeaderBuildID     RecordType = 67
	RecordFinishedRound     RecordType = 68
	RecordIDIndex           RecordType = 69
	RecordAuxtraceInfo      RecordType = 70
	RecordAuxtrace          RecordType = 71
	RecordAuxtraceError     RecordType = 72
	RecordThreadMap         RecordType = 73
	RecordCPUMap            RecordType = 74
	RecordStatConfig        RecordType = 75
	RecordStat              RecordType = 76
	RecordStatRound         RecordType = 77
	RecordEventUpdate       RecordType = 78
	RecordTimeConv          RecordType = 79
	RecordHeaderFeature     RecordType = 80
	RecordCompressed        RecordType = 81
	RecordFinishedInit      RecordType = 82
	RecordCompressed2       RecordType = 83
	RecordBPFMetadata       RecordType = 84
	RecordSchedstatCPU      RecordType = 85
	RecordSchedstatDomain   RecordType = 86
)

// The names are those of perf_event__names in tools/perf/util/event.c.
var recordNames = [...]string{
	RecordMMAP:              "MMAP",
	RecordLost:              "LOST",
	RecordComm:              "COMM",
	RecordExit:              "EXIT",
	RecordThrottle:          "THROTTLE",
	RecordUnthrottle:        "UNTHROTTLE",
	RecordFork:              "FORK",
	RecordRead:              "READ",
	RecordSample:            "SAMPLE",
	RecordMMAP2:             "MMAP2",
	RecordAux:               "AUX",
	RecordItraceStart:       "ITRACE_START",
	RecordLostSamples:       "LOST_SAMPLES",
	RecordSwitch:            "SWITCH",
	RecordSwitchCPUWide:     "SWITCH_CPU_WIDE",
	RecordNamespaces:        "NAMESPACES",
	RecordKSymbol:           "KSYMBOL",
	RecordBPFEvent:          "BPF_EVENT",
	RecordCgroup:            "CGROUP",
	RecordTextPoke:          "TEXT_POKE",
	RecordAuxOutputHWID:     "AUX_OUTPUT_HW_ID",
	RecordCallchainDeferred: "CALLCHAIN_DEFERRED",
	RecordHeaderAttr:        "ATTR",
	RecordHeaderEventType:   "EVENT_TYPE",
	RecordHeaderTracingData: "TRACING_DATA",
	RecordHeaderBuildID:     "BUILD_ID",
	RecordFinishedRound:     "FINISHED_ROUND",
	RecordIDIndex:           "ID_INDEX",
	RecordAuxtraceInfo:      "AUXTRACE_INFO",
	RecordAuxtrace:          "AUXTRACE",
	RecordAuxtraceError:     "AUXTRACE_ERROR",
	RecordThreadMap:         "THREAD_MAP",
	RecordCPUMap:            "CPU_MAP",
	RecordStatConfig:        "STAT_CONFIG",
	RecordStat:              "STAT",
	RecordStatRound:         "STAT_ROUND",
	RecordEventUpdate:       "EVENT_UPDATE",
	RecordTimeConv:          "TIME_CONV",
	RecordHeaderFeature:     "FEATURE",
	RecordCompressed:        "COMPRESSED",
	RecordFinishedInit:      "FINISHED_INIT",
	RecordCompressed2:       "COMPRESSED2",
	RecordBPFMetadata:       "BPF_METADATA",
	RecordSchedstatCPU:      "SCHEDSTAT_CPU",
	RecordSchedstatDomain:   "SCHEDSTAT_DOMAIN",
}

// String returns the name that `perf report -D` prints, without PERF_RECORD_;
// a type without a name is UNKNOWN_n.
func (t RecordType) String() string {
	if int64(t) < int64(len(recordNames)) && recordNames[t] != "" {
		return recordNames[t]
	}
	return "UNKNOWN_" + strconv.FormatUint(uint64(t), 10)
}

// The bits of Record.Misc, PERF_RECORD_MISC_*. Some bits mean different
// things in different records.
const (
	MiscCPUModeMask   = 7 // of the five that follow, as Record.CPUMode returns them
	MiscKernel        = 1
	MiscUser          = 2
	MiscHypervisor    = 3
	MiscGuestKernel   = 4
	MiscGuestUser     = 5
	MiscMmapData      = 1 << 13 // MMAP, MMAP2: not executable
	MiscCommExec      = 1 << 13 // COMM: because of an exec
	MiscSwitchOut     = 1 << 13 // SWITCH, SWITCH_CPU_WIDE
	MiscMmapBuildID   = 1 << 14 // MMAP2: carries a build id
	MiscExactIP       = 1 << 14 // SAMPLE
	MiscSwitchPreempt = 1 << 14 // SWITCH, SWITCH_CPU_WIDE
)

const (
	headerSize      = 8  // sizeof(struct perf_event_header)
	firstUserRecord = 64 // PERF_RECORD_USER_TYPE_START: from here on perf's own, without trailer
)

// A Record is one record as it is in the file: struct perf_event_header and what follows.
type Record struct {
	Type RecordType
	Misc uint16
	// File is the index of the data file in Recording.Files: 0 is the file itself
	// or DIR/data; DIR/data.N follow in the order of N.
	File int
	// Offset is the offset in bytes of the record's header in its data file. A
	// record that was compressed has the Offset of its COMPRESSED record.
	Offset int64
	// Raw is the whole record, header included, in the recording's byte order.
	// It aliases the recording's memory, is read-only, and is valid until
	// [Recording.Close]. That of a record that was compressed is valid until the
	// next [Scanner.Next] only.
	Raw []byte
}

// Body returns the record without its header.
func (r *Record) Body() []byte {
	if len(r.Raw) < headerSize {
		return nil
	}
	return r.Raw[headerSize:]
}

// CPUMode returns the low bits of Misc: MiscKernel, MiscUser and so on, 0 where unknown.
func (r *Record) CPUMode() uint16 { return r.Misc & MiscCPUModeMask }
