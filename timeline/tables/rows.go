// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import "strings"

// Version is the version of the tables. It rises if a column gets another meaning, or if recordings get other
// names: they would be exported again.
const Version = 3

// utf8Text returns text of a recording as a column has it. Names of threads, machines and symbols may be
// any bytes, and the kernel cuts long ones in the middle of a letter. Parquet has UTF-8 only: a database
// may refuse to read a column because of one value.
func utf8Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// The rows of the tables. Times are nanoseconds of the recording's clock; the greatest
// int64 means that nothing bounds them. Wall-clock times have microseconds, as databases
// do; WallOffset converts exactly. Offsets are addresses minus that of _text.

// A recordingRow describes a recording.
type recordingRow struct {
	Recording string `parquet:"recording"`
	Version   int32  `parquet:"version"` // of the tables
	Rules     int32  `parquet:"rules"`   // replay.IndexVersion
	Host      string `parquet:"host"`
	BootID    string `parquet:"boot_id,optional"`
	Kernel    string `parquet:"kernel"`
	Arch      string `parquet:"arch"`
	BuildID   string `parquet:"kernel_build_id,optional"`
	Guest     int32  `parquet:"guest"`
	Producer  string `parquet:"producer"`
	TextBase  uint64 `parquet:"text_base"`
	TextLow   int64  `parquet:"text_low"` // offsets
	TextHigh  int64  `parquet:"text_high"`
	Names     string `parquet:"names"`    // the owner of the kernel's names in symbols
	TextSet   string `parquet:"text_set"` // the key of the copy of text in pages, "" if there is none

	Clock      string `parquet:"clock"`
	WallOffset *int64 `parquet:"wall_offset,optional"` // wall-clock time minus the clock's; nil: the clock does not convert
	FirstTime  int64  `parquet:"first_time"`
	BeginTime  int64  `parquet:"begin_time"`
	LastTime   int64  `parquet:"last_time"`
	Horizon    int64  `parquet:"horizon"`
	FirstWall  *int64 `parquet:"first_wall,optional,timestamp(microsecond)"`
	LastWall   *int64 `parquet:"last_wall,optional,timestamp(microsecond)"`
	Clean      bool   `parquet:"clean"`
	TrustedAt  int64  `parquet:"trusted_from"`
	TrustedTo  int64  `parquet:"trusted_to"`

	Pokes            string   `parquet:"coverage_pokes"`
	KSymbols         string   `parquet:"coverage_ksymbols"`
	BPF              string   `parquet:"coverage_bpf"`
	Modules          string   `parquet:"coverage_modules"`
	CPUs             int32    `parquet:"cpus"`
	Changes          int64    `parquet:"changes"`
	Lost             int64    `parquet:"lost"`
	ClockUncertainty int64    `parquet:"clock_uncertainty"`
	Warnings         []string `parquet:"warnings,list"`
}

// A changeRow is a change of text. What a change has from its site, its bytes or its writer has
// a dictionary in each row group. Times are encoded as differences, and zstd would not make them
// smaller, wall-clock times aside: by a quarter of a byte.
type changeRow struct {
	Recording    string `parquet:"recording,dict"`
	Time         int64  `parquet:"time,delta,uncompressed"`
	WallTime     int64  `parquet:"wall_time,optional,timestamp(microsecond),delta,uncompressed"`
	Address      uint64 `parquet:"address,dict"`
	Offset       int64  `parquet:"text_offset,dict"`
	Symbol       string `parquet:"symbol,dict"`
	SymbolOffset int64  `parquet:"symbol_offset,dict"`
	Module       string `parquet:"module,dict"`
	Mechanism    string `parquet:"mechanism,dict"`
	Kind         string `parquet:"kind,dict"`
	Old          []byte `parquet:"old_bytes,dict"`
	New          []byte `parquet:"new_bytes,dict"`
	CPU          int32  `parquet:"cpu,dict"` // -1: not recorded
	PID          int32  `parquet:"pid,dict"`
	TID          int32  `parquet:"tid,dict"`
	Comm         string `parquet:"comm,dict"`
	WindowFrom   int64  `parquet:"window_from,delta,uncompressed"`
	WindowTo     int64  `parquet:"window_to,delta,uncompressed"`
}

// A gapRow is a range of addresses and a time in which the answer is not the derived one:
// it has another standing than known, or other bytes. Rows with Everywhere set apply to all
// addresses for which there are derived bytes; a row with addresses overrides them.
type gapRow struct {
	Recording  string   `parquet:"recording,dict"`
	Everywhere bool     `parquet:"everywhere"`
	Offset     int64    `parquet:"text_offset"`
	Length     int64    `parquet:"length"`
	Since      int64    `parquet:"since"`
	Until      int64    `parquet:"until"`
	Standing   string   `parquet:"standing,dict"`
	Reason     string   `parquet:"reason,dict"`
	Source     string   `parquet:"source,dict"`
	Bytes      []byte   `parquet:"bytes,optional"` // null: the derived ones, if the standing has any
	Before     []byte   `parquet:"before,optional"`
	After      []byte   `parquet:"after,optional"`
	Candidates [][]byte `parquet:"candidates,list"`
}

// A symbolRow is a name and when it was valid. Owner is a recording, or a set of names that
// recordings of one kernel share.
type symbolRow struct {
	Owner   string `parquet:"owner,dict"`
	Offset  int64  `parquet:"text_offset,delta"`
	Size    int64  `parquet:"size,delta"`
	Name    string `parquet:"name"`
	Module  string `parquet:"module,dict"`
	Kind    string `parquet:"kind,dict"`
	AliasOf string `parquet:"alias_of,optional"`
	Since   int64  `parquet:"since,dict"`
	Until   int64  `parquet:"until,dict"`
}

// A programRow is a BPF program that was loaded during the recording, or before it.
type programRow struct {
	Recording  string `parquet:"recording,dict"`
	ID         int64  `parquet:"id"`
	Tag        string `parquet:"tag"` // hex
	Name       string `parquet:"name"`
	Type       int32  `parquet:"type"` // -1: not recorded
	Loaded     int64  `parquet:"loaded"`
	Unloaded   int64  `parquet:"unloaded"`
	Offset     int64  `parquet:"text_offset,optional"` // of its main function
	Length     int64  `parquet:"length"`               // of its machine code; 0: not recorded
	CodeHash   string `parquet:"code_hash,optional"`
	XlatedHash string `parquet:"xlated_hash,optional"`
}

// A pageRow says which page a copy of text has at an offset. The page is the one with the hash
// Base in the table text, with the bytes Patch at PatchAt and the addresses RelocTo at RelocAt.
// Where both apply, the address counts. Hash is that of the resulting page.
type pageRow struct {
	Set     string    `parquet:"text_set,dict"`
	Offset  int64     `parquet:"text_offset,delta"`
	Hash    [16]byte  `parquet:"page_hash"`
	Base    *[16]byte `parquet:"base_hash,optional"` // nil: Hash
	PatchAt []int32   `parquet:"patch_at,list"`
	Patch   []byte    `parquet:"patch"`
	RelocAt []int32   `parquet:"patch_reloc_at,list"`
	RelocTo []int32   `parquet:"patch_reloc_to,list"`
}

// A textRow is a page, once for all recordings. Absolute addresses of the kernel in it are
// zero; RelocAt has their places, and RelocTo what they are, as offsets from _text. So a page
// is the same wherever the kernel was loaded. Pages take a seventh of the time to compress with
// snappy that they take with zstd, and are 27 % larger.
type textRow struct {
	Hash    [16]byte `parquet:"page_hash"`
	Offset  int64    `parquet:"text_offset"` // where it was first found
	Page    []byte   `parquet:"page,snappy"`
	RelocAt []int32  `parquet:"reloc_at,list"`
	RelocTo []int32  `parquet:"reloc_to,list"`
}

// A shippedRow is a page of a vmlinux file, in the form of textRow.
type shippedRow struct {
	Offset  int64    `parquet:"text_offset,delta"`
	Hash    [16]byte `parquet:"page_hash"`
	Page    []byte   `parquet:"page"`
	RelocAt []int32  `parquet:"reloc_at,list"`
	RelocTo []int32  `parquet:"reloc_to,list"`
}
