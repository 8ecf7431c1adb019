// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

// A fit says how the content of a record agrees with the size in its header. Only the
// header gives the end of a record. So a damaged size swallows records that follow, or
// puts the next header in the middle of a record. The content shows this.
type fit uint8

const (
	misfit fit = iota // the content has another size, or contradicts itself
	loose             // the content does not show the size
	exact             // the content and its trailer have exactly this size
)

// leastSize has the least size in bytes of each type of record, header included; 0 for types
// that this package does not know. perf writes FINISHED_ROUND and FINISHED_INIT with this size.
// The size in the header of a COMPRESSED2 record may have overflowed to 0.
var leastSize = [...]uint8{
	RecordMMAP:              mmapName,
	RecordLost:              lostBody,
	RecordComm:              commName,
	RecordExit:              taskBody,
	RecordThrottle:          throttleBody,
	RecordUnthrottle:        throttleBody,
	RecordFork:              taskBody,
	RecordRead:              readBody,
	RecordSample:            headerSize,
	RecordMMAP2:             mmap2Old,
	RecordAux:               auxBody,
	RecordItraceStart:       itraceStartBody,
	RecordLostSamples:       lostSamplesBody,
	RecordSwitch:            headerSize,
	RecordSwitchCPUWide:     switchWideBody,
	RecordNamespaces:        namespacesLinks,
	RecordKSymbol:           ksymbolName,
	RecordBPFEvent:          bpfEventBody,
	RecordCgroup:            cgroupPath,
	RecordTextPoke:          textPokeBytes,
	RecordAuxOutputHWID:     auxOutputHWIDBody,
	RecordCallchainDeferred: callchainDeferredIPs,
	RecordHeaderAttr:        headerAttrAttr + attrSizeVer0,
	RecordHeaderEventType:   headerEventTypeName,
	RecordHeaderTracingData: tracingData,
	RecordHeaderBuildID:     buildIDFilename,
	RecordFinishedRound:     headerSize,
	RecordIDIndex:           idIndexEntries,
	RecordAuxtraceInfo:      auxtraceInfoPriv,
	RecordAuxtrace:          headerSize + 8,
	RecordAuxtraceError:     headerSize,
	RecordThreadMap:         threadMapEntries,
	RecordCPUMap:            headerSize + cpuMapCPUs,
	RecordStatConfig:        statConfigTerms,
	RecordStat:              statBody,
	RecordStatRound:         statRoundBody,
	RecordEventUpdate:       eventUpdateData,
	RecordTimeConv:          timeConvShort,
	RecordHeaderFeature:     headerFeatureData,
	RecordCompressed:        headerSize + 1,
	RecordFinishedInit:      headerSize,
	RecordCompressed2:       headerSize,
	RecordBPFMetadata:       headerSize + 8,
	RecordSchedstatCPU:      schedstatFields,
	RecordSchedstatDomain:   schedstatFields,
}

// isPlausible reports whether h may be the header of a record whose type this
// package knows.
func (h header) isPlausible() bool {
	if uint64(h.typ) >= uint64(len(leastSize)) || leastSize[h.typ] == 0 || h.misc&MiscCPUModeMask > MiscGuestUser {
		return false
	}
	switch h.typ {
	case RecordFinishedRound, RecordFinishedInit:
		return h.size == headerSize
	case RecordCompressed2:
		return h.size&7 == 0
	}
	return h.size >= int(leastSize[h.typ]) && (h.size&7 == 0 || !h.typ.aligned())
}

// perf's types so far are less than 128, so newer ones are taken to be less than newTypesEnd.
// A header that is read one byte too early or too late has a type of 256 or more.
// simpleperf's types begin with 32768 and are less than typesEnd.
const (
	newTypesEnd = 256
	typesEnd    = 1 << 16
)

// mayBeUnknown reports whether h may be the header of a record whose type this
// package does not know: that of a newer perf, or of simpleperf.
func (h header) mayBeUnknown() bool {
	const vendors = 1 << 15
	newer := h.typ > RecordCallchainDeferred && h.typ < firstUserRecord || h.typ > RecordSchedstatDomain && h.typ < newTypesEnd
	return (newer || h.typ >= vendors && h.typ < typesEnd) && h.size >= headerSize && (h.size&7 == 0 || !h.typ.aligned())
}

// fitOf compares the content of a record with its size; raw is the whole record.
// It allocates only for records that perf itself wrote, which are few.
func (r *Recording) fitOf(h header, raw []byte) fit {
	switch {
	case h.typ == RecordSample:
		return r.fitSample(h, raw)
	case h.typ < firstUserRecord:
		return r.fitKernel(h, raw)
	}
	return r.fitTool(h, raw)
}

// isExact reports whether a record of the kernel fits exactly. It is a fast path of fitOf
// for nearly all records: little-endian, with one layout of trailers and one of samples
// that have an id.
func (r *Recording) isExact(h header, raw []byte) bool {
	var id uint64
	switch f := &r.quickFit; {
	case mayBeStrange>>h.typ&1 != 0 && r.isStrange(h, raw):
		return false
	case !f.ok:
		return r.fitOf(h, raw) == exact
	case h.typ == RecordSample:
		if len(raw) < f.sample || h.misc&MiscCPUModeMask == 0 { // isStrange
			return false
		}
		id = binary.LittleEndian.Uint64(raw[f.sampleID:])
	case h.typ == RecordTextPoke && len(raw) >= textPokeBytes:
		lens := binary.LittleEndian.Uint32(raw[16:])
		if len(raw)-align8(textPokeBytes+int(lens&0xffff)+int(lens>>16)) != f.trailer {
			return false // several listeners, or damaged
		}
		if lens>>16 == 0 && r.isStrange(h, raw) {
			return false
		}
		id = binary.LittleEndian.Uint64(raw[len(raw)-f.trailerID:])
	case fixedBody[h.typ&(firstUserRecord-1)] != 0:
		if len(raw)-int(fixedBody[h.typ&(firstUserRecord-1)]) != f.trailer {
			return false
		}
		id = binary.LittleEndian.Uint64(raw[len(raw)-f.trailerID:])
	default:
		return r.fitOf(h, raw) == exact
	}
	if i := id - r.ids.base; i < uint64(len(r.ids.dense)) && r.ids.dense[i] != nil {
		if h.typ != RecordSample {
			return true
		}
		switch ev := r.ids.dense[i]; ev.shape {
		case shapeFixed:
			return len(raw) == ev.fixed
		case shapeChain:
			return len(raw) >= ev.fixed+8 && binary.LittleEndian.Uint64(raw[ev.fixed:]) == uint64(len(raw)-ev.fixed-8)/8
		}
	}
	return r.fitOf(h, raw) == exact
}

// A quickFit is what isExact needs, in bytes: the size of a trailer, and how far before its
// end the id is; the size of a sample up to its CPU, header included, and the offset of the id.
type quickFit struct {
	ok                 bool
	trailer, trailerID int
	sample, sampleID   int
}

// A sampleShape says what follows the fixed fields of an event's samples.
type sampleShape uint8

const (
	shapeOther sampleShape = iota
	shapeFixed             // nothing
	shapeChain             // a call chain, and nothing behind it
)

// prepareFit prepares what fitOf needs of an event.
func (ev *Event) prepareFit() {
	typ := ev.Attr.SampleType
	ev.fixed = headerSize + 8*bits.OnesCount64(uint64(typ&(beforePeriod|SamplePeriod)))
	switch typ &^ (beforePeriod | SamplePeriod) {
	case 0:
		ev.shape = shapeFixed
	case SampleCallchain:
		ev.shape = shapeChain
	default:
		ev.shape = shapeOther
	}
}

// prepareFit prepares what isExact and plain records need of all events.
func (r *Recording) prepareFit() {
	r.quickFit = quickFit{}
	r.plainPokes, r.plainSamples = r.placesIn(r.trailers, 0), r.placesIn(r.samples, headerSize)
	if r.endian == big || len(r.trailers) != 1 || len(r.samples) != 1 {
		return
	}
	if t, s := r.trailers[0], r.samples[0]; t.id >= 0 && s.id >= 0 && !r.noIDs {
		r.quickFit = quickFit{true, t.size, t.size - t.id, headerSize + s.size, headerSize + s.id}
	}
}

// fitKernel is fitOf for a record of the kernel that is no SAMPLE.
func (r *Recording) fitKernel(h header, raw []byte) fit {
	if len(r.events) == 0 {
		return loose // nothing shows which trailer it has
	}
	end := r.bodyEnd(h, raw)
	if end == 0 {
		return loose
	}
	if end < 0 || end > len(raw) {
		return misfit
	}
	if r.endian == little && len(r.trailers) == 1 && r.trailers[0].id >= 0 && len(raw)-end == r.trailers[0].size {
		// The path of nearly all records.
		if id := binary.LittleEndian.Uint64(raw[end+r.trailers[0].id:]); id != 0 && r.ids.find(id) != nil {
			return exact
		}
	}
	f := r.fitTrailer(h, raw, end)
	if f == misfit && h.typ == RecordMMAP2 && h.misc&MiscMmapBuildID == 0 && len(raw) >= mmap2Name {
		// A name of less than 8 bytes in the place of protection and flags.
		f = r.fitTrailer(h, raw, mmap2Name)
	}
	return f
}

// fitTrailer compares what follows the body of a record, which ends at end, with
// the trailers of the recording's events.
func (r *Recording) fitTrailer(h header, raw []byte, end int) fit {
	l, ev := r.locate(r.trailers, raw, end)
	if l == nil {
		return misfit
	}
	if excess := len(raw) - end - l.size; excess > 0 {
		switch h.typ {
		case RecordTextPoke, RecordKSymbol, RecordBPFEvent:
			if excess&7 == 0 {
				return loose // of several listeners, see TextPoke
			}
		case RecordMMAP, RecordMMAP2, RecordComm, RecordCgroup:
			// simpleperf pads names to more than 8 bytes.
			if at := len(raw) - l.size; isZero(raw[end:at]) {
				return r.fitTrailer(h, raw, at)
			}
		}
		return misfit
	}
	if l.id >= 0 {
		id := r.endian.u64(raw[end+l.id:])
		switch {
		case id != 0 && ev == nil && !r.noIDs:
			return misfit
		case id == 0 && l.time >= 0 && r.endian.u64(raw[end+l.time:]) != 0:
			return loose
		}
	}
	return exact
}

// fixedBody has the ends of bodies whose length depends on the type only; 0 for other types.
var fixedBody = [firstUserRecord]uint8{
	RecordLost:          lostBody,
	RecordExit:          taskBody,
	RecordThrottle:      throttleBody,
	RecordUnthrottle:    throttleBody,
	RecordFork:          taskBody,
	RecordAux:           auxBody,
	RecordItraceStart:   itraceStartBody,
	RecordLostSamples:   lostSamplesBody,
	RecordSwitch:        headerSize,
	RecordSwitchCPUWide: switchWideBody,
	RecordBPFEvent:      bpfEventBody,
	RecordAuxOutputHWID: auxOutputHWIDBody,
}

// bodyEnd returns where the body of a record of the kernel ends by its content: 0 if
// the content does not show it, and below 0 if the content contradicts itself. The end
// may be beyond raw.
func (r *Recording) bodyEnd(h header, raw []byte) int {
	if end := fixedBody[h.typ]; end != 0 {
		return int(end)
	}
	switch h.typ {
	case RecordTextPoke:
		return textPokeBody(raw, r.endian)
	case RecordKSymbol:
		return namedEnd(raw, ksymbolName)
	case RecordMMAP:
		return namedEnd(raw, mmapName)
	case RecordComm:
		return namedEnd(raw, commName)
	case RecordCgroup:
		if len(raw) > cgroupPath && raw[cgroupPath] != '/' && raw[cgroupPath] != 0 { // perf writes the root as ""
			return -1
		}
		return namedEnd(raw, cgroupPath)
	case RecordRead:
		return r.readEnd(raw)
	case RecordMMAP2:
		if h.misc&MiscMmapBuildID == 0 && len(raw) >= mmap2Name && bytes.IndexByte(raw[mmap2Prot:mmap2Name], 0) < 0 {
			return namedEnd(raw, mmap2Old)
		}
		return namedEnd(raw, mmap2Name)
	case RecordNamespaces:
		return r.countedEnd(raw, 16, namespacesLinks, namespacesLink)
	case RecordCallchainDeferred:
		return r.countedEnd(raw, 16, callchainDeferredIPs, 8)
	}
	return 0
}

// readEnd returns the end of the body of a READ record, or below 0 if no event of the recording
// has values and a trailer of this size.
func (r *Recording) readEnd(raw []byte) int {
	fits := -1
	for _, ev := range r.events {
		format := ev.Attr.ReadFormat
		if format&^readKnown != 0 || len(raw) < readBody+8 {
			return 0
		}
		size := r.endian.readSize(format, raw[readBody:])
		for _, l := range r.trailers {
			if size <= uint64(len(raw)) && readBody+int(size)+l.size == len(raw) {
				fits = readBody + int(size)
			}
		}
	}
	return fits
}

// namedEnd returns the end of a body whose last field is a NUL-terminated string at at,
// or below 0 if the string has no end.
func namedEnd(raw []byte, at int) int {
	if at > len(raw) {
		return -1
	}
	n := bytes.IndexByte(raw[at:], 0)
	if n < 0 {
		return -1
	}
	return align8(at + n + 1)
}

// countedEnd returns the end of a body whose last field is an array at at. The u64 at nr
// is the number of elements. The result is below 0 if raw has no room for them.
func (r *Recording) countedEnd(raw []byte, nr, at int, element uint64) int {
	if at > len(raw) {
		return -1
	}
	n := arraySize(r.endian.u64(raw[nr:]), element, len(raw)-at)
	if n > uint64(len(raw)-at) {
		return -1
	}
	return at + int(n)
}

// fitSample is fitOf for a SAMPLE.
func (r *Recording) fitSample(h header, raw []byte) fit {
	if len(r.events) == 0 {
		return loose
	}
	l, ev := r.locate(r.samples, raw, headerSize)
	if l == nil || ev == nil {
		return misfit
	}
	switch ev.shape {
	case shapeFixed:
		if len(raw) == ev.fixed {
			return exact
		}
		return misfit
	case shapeChain:
		if len(raw) >= ev.fixed+8 && r.endian.u64(raw[ev.fixed:]) == uint64(len(raw)-ev.fixed-8)/8 {
			return exact
		}
		return misfit
	}
	rec, s := Record{Type: RecordSample, Misc: h.misc, Raw: raw}, Sample{}
	if r.Sample(&rec, &s) != nil {
		return misfit
	}
	rest, err := s.Rest()
	switch {
	case err != nil:
		return misfit
	case len(rest) == 0:
		return exact
	case ev.Attr.SampleType&^knownSampleTypes != 0:
		return loose
	}
	return misfit
}

// knownSampleTypes are the bits of a sample_type whose fields this package knows.
const knownSampleTypes = SampleWeightStruct<<1 - 1

// fitTool is fitOf for a record that perf itself wrote.
func (r *Recording) fitTool(h header, raw []byte) fit {
	e, n := r.endian, len(raw)
	sized := func(sizes ...int) fit {
		for _, size := range sizes {
			if n == size {
				return exact
			}
		}
		return misfit
	}
	array := func(first, element int) fit { // of as many elements as the u64 behind the header says
		if nr := e.u64(raw[headerSize:]); nr <= uint64(n) && n == first+int(nr)*element {
			return exact
		}
		return misfit
	}
	if n < int(leastSize[min(uint64(h.typ), uint64(len(leastSize)-1))]) {
		return misfit
	}
	switch h.typ {
	case RecordFinishedRound, RecordFinishedInit:
		return sized(headerSize)
	case RecordAuxtraceInfo, RecordHeaderTracingData:
		return loose
	case RecordCPUMap:
		end := headerSize + e.cpuMapSize(raw[headerSize:])
		return sized(end, align8(end))
	case RecordCompressed:
		if isBlocks(raw[headerSize:], true) {
			return exact
		}
		return misfit // or the rest of a block, where a buffer was full
	case RecordCompressed2:
		return exact // frame has compared both sizes
	case RecordHeaderEventType:
		if n > headerEventTypeName+headerEventTypeLen {
			return misfit
		}
		return loose
	case RecordAuxtrace:
		return sized(auxtraceBody)
	case RecordStat:
		return sized(statBody)
	case RecordStatRound:
		return sized(statRoundBody)
	case RecordTimeConv:
		return sized(timeConvShort, align8(timeConvLong))
	case RecordStatConfig:
		return array(statConfigTerms, statConfigTerm)
	case RecordThreadMap:
		return array(threadMapEntries, threadMapEntry)
	case RecordIDIndex:
		return max(array(idIndexEntries, idIndexEntry), array(idIndexEntries, idIndexEntry+idIndexGuest))
	case RecordEventUpdate:
		if EventUpdateKind(e.u64(raw[8:])) > EventUpdateCPUs {
			return misfit
		}
		return loose
	}
	if !h.typ.known() {
		return loose
	}
	if _, err := r.Decode(&Record{Type: h.typ, Misc: h.misc, Raw: raw}); err != nil && !errors.Is(err, ErrUnsupported) {
		return misfit
	}
	return loose
}

// isEmpty reports whether records of this type have no content. perf uses no more than the
// header of such a record, however large it is (perf_session__process_user_event() in
// tools/perf/util/session.c).
func (t RecordType) isEmpty() bool { return t == RecordFinishedRound || t == RecordFinishedInit }

// isOther reports whether the content of a record that should have none is exactly that of
// another type: the type is damaged. Types whose size alone fits do not count. For compressed data
// see inflater.mayMiss.
func (r *Recording) isOther(h header, raw []byte) bool {
	if isZero(raw[headerSize:]) {
		return false
	}
	for t := range RecordType(len(leastSize)) {
		shown := t < firstUserRecord || t == RecordIDIndex || t == RecordThreadMap || t == RecordStatConfig
		if h.typ = t; shown && h.isPlausible() && r.fitOf(h, raw) == exact {
			return true
		}
	}
	return false
}

// mayBeStrange is the set of types that isStrange knows.
const mayBeStrange = 1<<RecordMMAP | 1<<RecordComm | 1<<RecordExit | 1<<RecordFork | 1<<RecordRead |
	1<<RecordThrottle | 1<<RecordUnthrottle | 1<<RecordAux | 1<<RecordKSymbol | 1<<RecordCgroup | 1<<RecordLost

// isStrange reports whether a record, whatever its size, has what none of its type has, but what
// one of a change, a birth, a death or a loss would have there.
func (r *Recording) isStrange(h header, raw []byte) bool {
	const pidMaxLimit = 4 << 20 // include/linux/threads.h
	if h.typ == RecordSample {
		return h.misc&MiscCPUModeMask == 0 // the kernel gives each sample its mode (perf_misc_flags)
	}
	if len(raw) < ksymbolName {
		return false
	}
	switch h.typ {
	case RecordMMAP, RecordComm, RecordExit, RecordFork, RecordRead:
		// -1 stands for the kernel, and for a task that is gone.
		pid := r.endian.u32(raw[headerSize:])
		if h.typ == RecordComm && pid != 0 && r.endian.u32(raw[12:]) == 0 {
			return true // no thread of a process has the number 0
		}
		return pid > pidMaxLimit && pid != math.MaxUint32
	case RecordCgroup:
		return raw[16] != '/' // a path (perf_event_cgroup)
	case RecordTextPoke:
		return r.isNamed(h, raw)
	case RecordTimeConv:
		return r.endian.u64(raw[8:]) > 63 || len(raw) >= timeConvLong && (raw[48] > 1 || raw[49] > 1)
	case RecordThrottle, RecordUnthrottle, RecordAux, RecordLost: // a time, an offset or an id
		return r.endian.u64(raw[headerSize:])>>63 == 1
	case RecordKSymbol:
		return KSymbolKind(r.endian.u16(raw[20:])) > KSymbolOOL
	}
	return false
}

// isNamed reports whether a text poke that writes nothing has the content of a symbol: what it removes
// would begin with a kind and flags, and be a name.
func (r *Recording) isNamed(h header, raw []byte) bool {
	var k KSymbol
	rec := Record{Type: RecordKSymbol, Misc: h.misc, Raw: raw}
	if r.endian.u16(raw[18:]) != 0 || r.KSymbol(&rec, &k) != nil || k.Kind == 0 || k.Kind > KSymbolOOL || k.Flags > KSymbolUnregister {
		return false
	}
	for _, c := range k.Name {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(k.Name) > 2
}

// isZero reports whether all bytes are 0.
func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// sampleEnd returns where a SAMPLE ends by its content, 0 if the content does not fit in raw.
func (r *Recording) sampleEnd(h header, raw []byte) int {
	rec, s := Record{Type: RecordSample, Misc: h.misc, Raw: raw}, Sample{}
	if r.Sample(&rec, &s) != nil {
		return 0
	}
	rest, err := s.Rest()
	if err != nil {
		return 0
	}
	return len(raw) - len(rest)
}
