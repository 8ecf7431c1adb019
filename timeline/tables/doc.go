// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package tables writes recordings as tables, in Parquet, for databases that ask across
// machines. docs/fleet.md of this project has the schema and queries.
//
// Two tables give the bytes of most places at most times: the pages of the copy of kernel
// text, and the changes. This package calls that answer the derived one:
//
//	the new bytes of the last change at or before the time, or else
//	the old bytes of the first change after it, or else
//	the byte of the page, or else nothing
//
// The image knows more: gaps in what was recorded, code of BPF programs, further snapshots of
// text, clocks that differ. So the table of gaps has a row wherever and whenever the
// image's answer is not the derived one. The rows come from a comparison of the two
// answers, for each version of each place, so a query cannot claim more than the image does.
package tables
