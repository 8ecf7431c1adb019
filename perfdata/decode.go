// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "fmt"

// Decode decodes a record of any type that has a typed form and returns a
// pointer to the struct: *[Mmap] for MMAP and MMAP2, *[TextPoke] for TEXT_POKE,
// and so on; a *[Sample] for SAMPLE. It returns nil without an error for
// FINISHED_ROUND and FINISHED_INIT, which have no content, for COMPRESSED
// records, whose content the [Scanner] hands over, and for types that this
// package does not know.
//
// The struct is newly allocated. A caller that needs a few types only should call
// their methods, which do not allocate. A record that cannot be decoded gives nil
// and the error of its method.
func (r *Recording) Decode(rec *Record) (any, error) {
	switch rec.Type {
	case RecordMMAP, RecordMMAP2:
		return decoded(rec, r.Mmap)
	case RecordLost:
		return decoded(rec, r.Lost)
	case RecordComm:
		return decoded(rec, r.Comm)
	case RecordExit, RecordFork:
		return decoded(rec, r.Task)
	case RecordThrottle, RecordUnthrottle:
		return decoded(rec, r.Throttle)
	case RecordRead:
		return decoded(rec, r.Read)
	case RecordSample:
		return decoded(rec, r.Sample)
	case RecordAux:
		return decoded(rec, r.Aux)
	case RecordItraceStart:
		return decoded(rec, r.ItraceStart)
	case RecordLostSamples:
		return decoded(rec, r.LostSamples)
	case RecordSwitch, RecordSwitchCPUWide:
		return decoded(rec, r.Switch)
	case RecordNamespaces:
		return decoded(rec, r.Namespaces)
	case RecordKSymbol:
		return decoded(rec, r.KSymbol)
	case RecordBPFEvent:
		return decoded(rec, r.BPFEvent)
	case RecordCgroup:
		return decoded(rec, r.Cgroup)
	case RecordTextPoke:
		return decoded(rec, r.TextPoke)
	case RecordAuxOutputHWID:
		return decoded(rec, r.AuxOutputHWID)
	case RecordCallchainDeferred:
		return decoded(rec, r.CallchainDeferred)
	case RecordHeaderAttr:
		return decoded(rec, r.HeaderAttr)
	case RecordHeaderEventType:
		return decoded(rec, r.HeaderEventType)
	case RecordHeaderTracingData:
		return decoded(rec, r.HeaderTracingData)
	case RecordHeaderBuildID:
		return decoded(rec, r.BuildID)
	case RecordIDIndex:
		return decoded(rec, r.IDIndex)
	case RecordAuxtraceInfo:
		return decoded(rec, r.AuxtraceInfo)
	case RecordAuxtrace:
		return decoded(rec, r.Auxtrace)
	case RecordAuxtraceError:
		return decoded(rec, r.AuxtraceError)
	case RecordThreadMap:
		return decoded(rec, r.ThreadMap)
	case RecordCPUMap:
		return decoded(rec, r.CPUMap)
	case RecordStatConfig:
		return decoded(rec, r.StatConfig)
	case RecordStat:
		return decoded(rec, r.Stat)
	case RecordStatRound:
		return decoded(rec, r.StatRound)
	case RecordEventUpdate:
		return decoded(rec, r.EventUpdate)
	case RecordTimeConv:
		return decoded(rec, r.TimeConv)
	case RecordHeaderFeature:
		return decoded(rec, r.HeaderFeature)
	case RecordBPFMetadata:
		return decoded(rec, r.BPFMetadata)
	case RecordSchedstatCPU:
		return decoded(rec, r.SchedstatCPU)
	case RecordSchedstatDomain:
		return decoded(rec, r.SchedstatDomain)
	}
	return nil, nil
}

func decoded[T any](rec *Record, decode func(*Record, *T) error) (any, error) {
	v := new(T)
	if err := decode(rec, v); err != nil {
		return nil, err
	}
	return v, nil
}

// unsupported makes the error for a record that is well-formed, but of a kind
// that is not known.
func (r *Recording) unsupported(rec *Record, format string, args ...any) error {
	return &FormatError{File: r.fileName(rec.File), Offset: rec.Offset, Record: rec.Type, Msg: fmt.Sprintf(format, args...), Err: ErrUnsupported}
}
