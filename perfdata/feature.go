// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// A Feature is the number of a feature section: enum of HEADER_* in
// tools/perf/util/header.h. In pipe form the sections are HEADER_FEATURE records.
type Feature int

// The features, HEADER_*.
const (
	FeatureTracingData    Feature = 1
	FeatureBuildID        Feature = 2
	FeatureHostname       Feature = 3
	FeatureOSRelease      Feature = 4
	FeatureVersion        Feature = 5
	FeatureArch           Feature = 6
	FeatureNRCPUs         Feature = 7
	FeatureCPUDesc        Feature = 8
	FeatureCPUID          Feature = 9
	FeatureTotalMem       Feature = 10
	FeatureCmdline        Feature = 11
	FeatureEventDesc      Feature = 12
	FeatureCPUTopology    Feature = 13
	FeatureNUMATopology   Feature = 14
	FeatureBranchStack    Feature = 15
	FeaturePMUMappings    Feature = 16
	FeatureGroupDesc      Feature = 17
	FeatureAuxtrace       Feature = 18
	FeatureStat           Feature = 19
	FeatureCache          Feature = 20
	FeatureSampleTime     Feature = 21
	FeatureMemTopology    Feature = 22
	FeatureClockID        Feature = 23
	FeatureDirFormat      Feature = 24
	FeatureBPFProgInfo    Feature = 25
	FeatureBPFBTF         Feature = 26
	FeatureCompressed     Feature = 27
	FeatureCPUPMUCaps     Feature = 28
	FeatureClockData      Feature = 29
	FeatureHybridTopology Feature = 30
	FeaturePMUCaps        Feature = 31
	FeatureCPUDomainInfo  Feature = 32
	FeatureEMachine       Feature = 33
	FeatureCLNSize        Feature = 34
)

var featureNames = [...]string{
	FeatureTracingData:    "TRACING_DATA",
	FeatureBuildID:        "BUILD_ID",
	FeatureHostname:       "HOSTNAME",
	FeatureOSRelease:      "OSRELEASE",
	FeatureVersion:        "VERSION",
	FeatureArch:           "ARCH",
	FeatureNRCPUs:         "NRCPUS",
	FeatureCPUDesc:        "CPUDESC",
	FeatureCPUID:          "CPUID",
	FeatureTotalMem:       "TOTAL_MEM",
	FeatureCmdline:        "CMDLINE",
	FeatureEventDesc:      "EVENT_DESC",
	FeatureCPUTopology:    "CPU_TOPOLOGY",
	FeatureNUMATopology:   "NUMA_TOPOLOGY",
	FeatureBranchStack:    "BRANCH_STACK",
	FeaturePMUMappings:    "PMU_MAPPINGS",
	FeatureGroupDesc:      "GROUP_DESC",
	FeatureAuxtrace:       "AUXTRACE",
	FeatureStat:           "STAT",
	FeatureCache:          "CACHE",
	FeatureSampleTime:     "SAMPLE_TIME",
	FeatureMemTopology:    "MEM_TOPOLOGY",
	FeatureClockID:        "CLOCKID",
	FeatureDirFormat:      "DIR_FORMAT",
	FeatureBPFProgInfo:    "BPF_PROG_INFO",
	FeatureBPFBTF:         "BPF_BTF",
	FeatureCompressed:     "COMPRESSED",
	FeatureCPUPMUCaps:     "CPU_PMU_CAPS",
	FeatureClockData:      "CLOCK_DATA",
	FeatureHybridTopology: "HYBRID_TOPOLOGY",
	FeaturePMUCaps:        "PMU_CAPS",
	FeatureCPUDomainInfo:  "CPU_DOMAIN_INFO",
	FeatureEMachine:       "E_MACHINE",
	FeatureCLNSize:        "CLN_SIZE",
}

// String returns the kernel's name without HEADER_, or the number.
func (f Feature) String() string {
	if f > 0 && int(f) < len(featureNames) {
		return featureNames[f]
	}
	return strconv.Itoa(int(f))
}

// Features returns the features that the recording has, ascending.
func (r *Recording) Features() []Feature {
	list := make([]Feature, 0, len(r.features))
	for f := range r.features {
		list = append(list, f)
	}
	slices.Sort(list)
	return list
}

// Feature returns a feature's section as it is in the file, in the
// recording's byte order. It aliases the recording's memory, is read-only, and
// is valid until [Recording.Close]. The error for one that is not there is
// [ErrNoFeature].
func (r *Recording) Feature(f Feature) ([]byte, error) {
	s, ok := r.features[f]
	if !ok {
		return nil, fmt.Errorf("%v: %w", f, ErrNoFeature)
	}
	return s.data, nil
}

// feature returns a cursor over a section. A section of 0 bytes means the same as a missing
// one, and gives ErrNoFeature: perf writes such a section if it was built without what the
// feature needs (BPF_PROG_INFO and BPF_BTF without libbpf).
func (r *Recording) feature(f Feature) (*cursor, error) {
	b, err := r.Feature(f)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("%v: the section is empty: %w", f, ErrNoFeature)
	}
	return &cursor{b: b, order: r.endian}, nil
}

// featureErr returns the error for damage at offset at of a section.
func (r *Recording) featureErr(f Feature, at int, format string, args ...any) *FormatError {
	return &FormatError{
		File:   r.fileName(0),
		Offset: r.features[f].offset + int64(at),
		Msg:    f.String() + " section: " + fmt.Sprintf(format, args...),
		Err:    ErrMalformed,
	}
}

// shortErr returns the error for a section that ends too early, nil if c did not run short.
func (r *Recording) shortErr(f Feature, c *cursor) error {
	if !c.short {
		return nil
	}
	return r.featureErr(f, c.off, "%d bytes are too few", len(c.b))
}

func (r *Recording) stringFeature(f Feature) (string, error) {
	c, err := r.feature(f)
	if err != nil {
		return "", err
	}
	s := c.str()
	return s, r.shortErr(f, c)
}

// Hostname returns the name of the machine that was recorded.
func (r *Recording) Hostname() (string, error) { return r.stringFeature(FeatureHostname) }

// OSRelease returns the release of the kernel that was recorded, as uname -r prints it.
func (r *Recording) OSRelease() (string, error) { return r.stringFeature(FeatureOSRelease) }

// Version returns the version of the perf that recorded.
func (r *Recording) Version() (string, error) { return r.stringFeature(FeatureVersion) }

// Arch returns the machine's architecture, as uname -m prints it.
func (r *Recording) Arch() (string, error) { return r.stringFeature(FeatureArch) }

// NRCPUs returns how many CPUs the machine had (_SC_NPROCESSORS_CONF), and how
// many of them were online when the recording ended (_SC_NPROCESSORS_ONLN).
func (r *Recording) NRCPUs() (available, online uint32, err error) {
	c, err := r.feature(FeatureNRCPUs)
	if err != nil {
		return 0, 0, err
	}
	available, online = c.u32(), c.u32()
	return available, online, r.shortErr(FeatureNRCPUs, c)
}

// Cmdline returns perf's command line, perf first.
func (r *Recording) Cmdline() ([]string, error) {
	c, err := r.feature(FeatureCmdline)
	if err != nil {
		return nil, err
	}
	var args []string
	for range c.u32() {
		arg := c.str()
		if c.short {
			break
		}
		args = append(args, arg)
	}
	return args, r.shortErr(FeatureCmdline, c)
}

// EventDesc returns the events as the EVENT_DESC section describes them:
// attrs, ids and names. [Recording.Events] has these names already.
func (r *Recording) EventDesc() ([]Event, error) {
	c, err := r.feature(FeatureEventDesc)
	if err != nil {
		return nil, err
	}
	nr, size := c.u32(), c.u32()
	if !c.short && size < attrSizeVer0 {
		return nil, r.featureErr(FeatureEventDesc, 4, "attrs of %d bytes", size)
	}
	var events []Event
	for i := range nr {
		if uint64(size) > uint64(c.rest()) {
			c.short = true
			break
		}
		attr := c.take(int(size))
		ids := c.u32()
		name := c.str()
		if uint64(ids)*8 > uint64(c.rest()) {
			c.short = true
		}
		if c.short {
			break
		}
		events = append(events, Event{
			Index: int(i),
			Attr:  parseAttr(attr, c.order),
			IDs:   c.order.u64s(c.take(int(ids) * 8)),
			Name:  name,
		})
	}
	return events, r.shortErr(FeatureEventDesc, c)
}

// nameEvents sets the names of events to those of EVENT_DESC, which lists the events in the
// same order. EVENT_DESC has their attrs and ids too. If these differ, the layout of the
// records is uncertain: the event gets no name, and nameEvents adds a warning, see [ErrEventsDiffer].
func (r *Recording) nameEvents(events []*Event) {
	desc, err := r.EventDesc()
	if err != nil && !errors.Is(err, ErrNoFeature) {
		r.warnings = append(r.warnings, err)
	}
	for i, d := range desc {
		if len(r.early) > 0 && i < len(events) && len(d.IDs) < len(events[i].IDs) {
			d.IDs = append(d.IDs, events[i].IDs[len(d.IDs):]...) // by AddID, since
		}
		if i >= len(events) || !slices.Equal(d.IDs, events[i].IDs) || d.Attr != events[i].Attr {
			err := r.featureErr(FeatureEventDesc, 0, "event %d is not the one of the attrs", i)
			err.Err = ErrEventsDiffer
			r.warnings = append(r.warnings, err)
			continue
		}
		events[i].Name = d.Name
	}
}

// SampleTime returns the times of the first and the last sample, in
// nanoseconds of the recording's clock.
func (r *Recording) SampleTime() (first, last uint64, err error) {
	c, err := r.feature(FeatureSampleTime)
	if err != nil {
		return 0, 0, err
	}
	first, last = c.u64(), c.u64()
	return first, last, r.shortErr(FeatureSampleTime, c)
}

// ClockID returns the resolution in nanoseconds of the clock that was chosen
// with perf record -k; Attr.ClockID says which one.
func (r *Recording) ClockID() (resolution uint64, err error) {
	c, err := r.feature(FeatureClockID)
	if err != nil {
		return 0, err
	}
	resolution = c.u64()
	return resolution, r.shortErr(FeatureClockID, c)
}

// A ClockData is one moment on two clocks. It converts times of the recording to wall-clock
// time.
type ClockData struct {
	ClockID uint32 // CLOCK_*, that of the recording
	WallNS  uint64 // CLOCK_REALTIME, nanoseconds since 1970
	ClockNS uint64 // the recording's clock, nanoseconds
}

const clockDataVersion = 1

// ClockData returns the CLOCK_DATA section, which recordings made with perf
// record -k have.
func (r *Recording) ClockData() (ClockData, error) {
	c, err := r.feature(FeatureClockData)
	if err != nil {
		return ClockData{}, err
	}
	version := c.u32()
	d := ClockData{ClockID: c.u32(), WallNS: c.u64(), ClockNS: c.u64()}
	if err := r.shortErr(FeatureClockData, c); err != nil {
		return ClockData{}, err
	}
	if version != clockDataVersion {
		return ClockData{}, r.featureErr(FeatureClockData, 0, "version %d", version)
	}
	return d, nil
}

// TracingData returns the TRACING_DATA section: the formats of tracepoints, as
// tools/perf/util/trace-event-info.c writes them. It aliases the recording's memory.
func (r *Recording) TracingData() ([]byte, error) { return r.Feature(FeatureTracingData) }

// DirFormat returns the version of a perf.data directory: 1 if the records are
// spread over data.0, data.1 and so on (PERF_DIR_VERSION), 0 if they are not.
func (r *Recording) DirFormat() (version uint64, err error) {
	c, err := r.feature(FeatureDirFormat)
	if err != nil {
		return 0, err
	}
	version = c.u64()
	return version, r.shortErr(FeatureDirFormat, c)
}

// CompressedZstd is the one Compressed.Type there is (PERF_COMP_ZSTD).
const CompressedZstd = 1

// A Compressed says how perf record -z compressed.
type Compressed struct {
	Version uint32
	Type    uint32 // CompressedZstd
	Level   uint32 // 1 to 22
	Ratio   uint32 // uncompressed over compressed size, rounded
	MmapLen uint32 // bytes of a ring buffer: no COMPRESSED record holds more when decompressed
}

// Compressed returns the COMPRESSED section.
func (r *Recording) Compressed() (Compressed, error) {
	c, err := r.feature(FeatureCompressed)
	if err != nil {
		return Compressed{}, err
	}
	v := Compressed{Version: c.u32(), Type: c.u32(), Level: c.u32(), Ratio: c.u32(), MmapLen: c.u32()}
	return v, r.shortErr(FeatureCompressed, c)
}
