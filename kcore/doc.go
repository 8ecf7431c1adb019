// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package kcore reads the copy of the running kernel that "perf record --kcore"
// leaves next to a recording, in the directory kcore_dir:
//
//   - kcore, an ELF core file whose PT_LOAD segments are the kernel's text and
//     the area of its modules;
//   - kallsyms, a copy of /proc/kallsyms: every symbol with its address;
//   - modules, a copy of /proc/modules: every module with its place.
//
// perf writes them in kcore_copy (tools/perf/util/symbol-elf.c). The copy has
// no time and is not atomic; the caller decides what its bytes prove. The
// package also writes such core files, see [WriteCore].
//
// The parsers check every size in a file. From a damaged file they return what
// is intact, and a [FormatError] that names the place of the damage.
package kcore
