// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "fmt"

// An AuxtraceType says which hardware made a trace (enum auxtrace_type of
// tools/perf/util/auxtrace.h).
type AuxtraceType uint32

// The types of trace.
const (
	AuxtraceUnknown AuxtraceType = iota
	AuxtraceIntelPT
	AuxtraceIntelBTS
	AuxtraceCoreSight // ETM, ETE
	AuxtraceArmSPE
	AuxtraceS390CPUMSF
	AuxtraceHiSiPTT
	AuxtracePowerVPADTL
)

// An AuxtraceInfo is an AUXTRACE_INFO record: what a decoder of the trace must
// know. Its content depends on the type; that of Intel PT and of CoreSight is
// read by [AuxtraceInfo.IntelPT] and [AuxtraceInfo.CoreSight].
type AuxtraceInfo struct {
	Type AuxtraceType
	Priv Words // aliases Record.Raw
}

const auxtraceInfoPriv = 16 // header, u32 type, reserved

// AuxtraceInfo decodes an AUXTRACE_INFO record into a, without allocating. The
// error, where the record is too short, is a [*FormatError].
func (r *Recording) AuxtraceInfo(rec *Record, a *AuxtraceInfo) error {
	*a = AuxtraceInfo{}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordAuxtraceInfo || len(raw) < auxtraceInfoPriv {
		return r.notA(rec, RecordAuxtraceInfo, "record of %d bytes is too short", len(raw))
	}
	a.Type = AuxtraceType(e.u32(raw[8:]))
	a.Priv = e.words(raw[auxtraceInfoPriv:], len(raw[auxtraceInfoPriv:])/8)
	return nil
}

// An IntelPTInfo is what AUXTRACE_INFO says about Intel PT (enum of
// tools/perf/util/intel-pt.h). The bits are those of the attr's config; a mask
// of 0 says that the CPU has no such feature. Fields that the recorder's perf
// did not write are zero.
type IntelPTInfo struct {
	PMUType          uint64
	TimeConv         TimeConv // TSC and perf's clock; Mult is 0 if it is not known
	TSCBit           uint64
	NoRetCompBit     uint64
	HaveSchedSwitch  uint64 // 1: by the tracepoint, 2 and 3: by SWITCH records
	SnapshotMode     bool
	PerCPUMmaps      bool // queues are CPUs, not tasks
	MTCBit           uint64
	MTCFreqBits      uint64
	TSCCTCN, TSCCTCD uint64 // TSC ticks are N/D crystal ticks
	CYCBit           uint64
	MaxNonTurboRatio uint64
	Filter           string // address filter
}

// The indices of AuxtraceInfo.Priv for Intel PT.
const (
	intelPTPMUType = iota
	intelPTTimeShift
	intelPTTimeMult
	intelPTTimeZero
	intelPTCapTimeZero
	intelPTTSCBit
	intelPTNoRetCompBit
	intelPTHaveSchedSwitch
	intelPTSnapshotMode
	intelPTPerCPUMmaps
	intelPTMTCBit
	intelPTMTCFreqBits
	intelPTTSCCTCN
	intelPTTSCCTCD
	intelPTCYCBit
	intelPTMaxNonTurboRatio
	intelPTFilterLen
	intelPTFilter
)

// IntelPT reads the information of a trace of type AuxtraceIntelPT. The error
// wraps [ErrUnsupported] for another type and [ErrMalformed] where the
// information is cut.
func (a *AuxtraceInfo) IntelPT() (IntelPTInfo, error) {
	if a.Type != AuxtraceIntelPT {
		return IntelPTInfo{}, fmt.Errorf("trace of type %d as Intel PT: %w", a.Type, ErrUnsupported)
	}
	n := a.Priv.Len()
	if n <= intelPTPerCPUMmaps {
		return IntelPTInfo{}, fmt.Errorf("information about Intel PT of %d words: %w", n, ErrMalformed)
	}
	at := func(i int) uint64 {
		if i >= n {
			return 0
		}
		return a.Priv.At(i)
	}
	info := IntelPTInfo{
		PMUType: at(intelPTPMUType), TSCBit: at(intelPTTSCBit), NoRetCompBit: at(intelPTNoRetCompBit),
		HaveSchedSwitch: at(intelPTHaveSchedSwitch), SnapshotMode: at(intelPTSnapshotMode) != 0, PerCPUMmaps: at(intelPTPerCPUMmaps) != 0,
		MTCBit: at(intelPTMTCBit), MTCFreqBits: at(intelPTMTCFreqBits), TSCCTCN: at(intelPTTSCCTCN), TSCCTCD: at(intelPTTSCCTCD),
		CYCBit: at(intelPTCYCBit), MaxNonTurboRatio: at(intelPTMaxNonTurboRatio),
	}
	if shift := at(intelPTTimeShift); shift <= 63 && at(intelPTTimeMult) != 0 {
		info.TimeConv = TimeConv{Shift: shift, Mult: at(intelPTTimeMult), Zero: at(intelPTTimeZero), CapTimeZero: at(intelPTCapTimeZero) != 0}
	}
	if size := at(intelPTFilterLen); size > 0 {
		// A NUL-terminated string; its length counts the padding to whole words.
		b := a.Priv.b[8*intelPTFilter:]
		if size > uint64(len(b)) {
			return IntelPTInfo{}, fmt.Errorf("address filter of %d bytes in %d: %w", size, len(b), ErrMalformed)
		}
		info.Filter = string(untilNUL(b[:size]))
	}
	return info, nil
}

// A CoreSightKind is the magic number that begins a CPU's part of the
// information about CoreSight trace (tools/perf/util/cs-etm.h).
type CoreSightKind uint64

// The kinds of CoreSight trace.
const (
	CoreSightETMv3 CoreSightKind = 0x3030303030303030 // and PTM
	CoreSightETMv4 CoreSightKind = 0x4040404040404040
	CoreSightETE   CoreSightKind = 0x5050505050505050
)

// A CoreSightInfo is what AUXTRACE_INFO says about CoreSight trace.
type CoreSightInfo struct {
	Version  uint64 // of the layout: 0, 1, or 2; with 2 the trace ids are in AUX_OUTPUT_HW_ID records
	PMUType  uint32
	Snapshot bool
	CPUs     []CoreSightCPU
}

// A CoreSightCPU is the configuration of one CPU's trace source.
type CoreSightCPU struct {
	Kind CoreSightKind
	CPU  uint64
	// Params are registers in the order of the enums in tools/perf/util/cs-etm.h:
	// of ETMv3 ETMCR, ETMTRACEIDR, ETMCCER, ETMIDR; of ETMv4 TRCCONFIGR,
	// TRCTRACEIDR, TRCIDR0, 1, 2, 8, TRCAUTHSTATUS, and of newer perfs the source
	// of timestamps; of ETE TRCDEVARCH before that source. They alias Record.Raw.
	Params Words
}

// The number of parameters in version 0, which does not record it, and the
// indices of the parameters that are read here.
const (
	etmv3ParamsV0  = 4
	etmv4ParamsV0  = 7
	etmTraceID     = 1
	etmv4TSSource  = 7
	eteTSSource    = 8
	tsVirtual      = 1
	traceIDMask    = 0x7f
	traceIDUnused  = 1 << 31 // CORESIGHT_TRACE_ID_UNUSED_FLAG
	coreSightWords = 3       // version, nr_cpus and PMU type, snapshot
)

// CoreSight reads the information of a trace of type AuxtraceCoreSight. The
// error wraps [ErrUnsupported] for another type or a kind that is not known,
// and [ErrMalformed] where the information is cut.
func (a *AuxtraceInfo) CoreSight() (CoreSightInfo, error) {
	if a.Type != AuxtraceCoreSight {
		return CoreSightInfo{}, fmt.Errorf("trace of type %d as CoreSight: %w", a.Type, ErrUnsupported)
	}
	w := a.Priv
	if w.Len() < coreSightWords {
		return CoreSightInfo{}, fmt.Errorf("information about CoreSight of %d words: %w", w.Len(), ErrMalformed)
	}
	nr := uint32(w.At(1))
	info := CoreSightInfo{Version: w.At(0), PMUType: uint32(w.At(1) >> 32), Snapshot: w.At(2) != 0}
	at := coreSightWords
	for range nr {
		if w.Len()-at < 3 {
			return CoreSightInfo{}, fmt.Errorf("information about %d CPUs ends after %d: %w", nr, len(info.CPUs), ErrMalformed)
		}
		cpu := CoreSightCPU{Kind: CoreSightKind(w.At(at)), CPU: w.At(at + 1)}
		at += 2
		var n uint64
		switch {
		case cpu.Kind != CoreSightETMv3 && cpu.Kind != CoreSightETMv4 && cpu.Kind != CoreSightETE:
			return CoreSightInfo{}, fmt.Errorf("trace source of kind %#x: %w", uint64(cpu.Kind), ErrUnsupported)
		case info.Version > 0:
			n = w.At(at)
			at++
		case cpu.Kind == CoreSightETMv3:
			n = etmv3ParamsV0
		default:
			n = etmv4ParamsV0
		}
		if n > uint64(w.Len()-at) {
			return CoreSightInfo{}, fmt.Errorf("%d parameters of CPU %d in %d words: %w", n, cpu.CPU, w.Len()-at, ErrMalformed)
		}
		cpu.Params = w.order.words(w.b[8*at:], int(n))
		at += int(n)
		info.CPUs = append(info.CPUs, cpu)
	}
	return info, nil
}

// TraceID returns the id that marks the CPU's trace within a buffer, 1 to 127.
// It returns 0 if AUX_OUTPUT_HW_ID records have the id instead.
func (c *CoreSightCPU) TraceID() uint8 {
	if c.Params.Len() <= etmTraceID {
		return 0
	}
	v := c.Params.At(etmTraceID)
	if v&traceIDUnused != 0 {
		return 0
	}
	return uint8(v & traceIDMask)
}

// VirtualTimestamps reports whether the timestamps in the CPU's trace are
// known to be those of the virtual counter, which the recording's TIME_CONV
// converts ([TimeConv.ToPerf], [TimeConv.Frequency]). Older perfs did not say.
func (c *CoreSightCPU) VirtualTimestamps() bool {
	at := etmv4TSSource
	switch c.Kind {
	case CoreSightETE:
		at = eteTSSource
	case CoreSightETMv3:
		return false
	}
	return c.Params.Len() > at && c.Params.At(at) == tsVirtual
}
