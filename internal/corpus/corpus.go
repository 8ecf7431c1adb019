// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package corpus finds recordings of real kernels for tests: the small ones in
// the repository's testdata, and the large ones that are kept next to it.
//
// A recording is a directory with rec.data (a perf.data directory) and oracle/:
// independent copies of kernel text at known moments, listed in
// oracle/oracles.tsv, each an ELF core file.
package corpus

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Env names the environment variable that says where unpacked recordings are.
const Env = "TEXTREPLAY_CORPUS"

// Oracle is a copy of kernel text at a moment between Before and After.
type Oracle struct {
	Label         string
	Before, After uint64 // nanoseconds of the recording's clock
	Path          string // of the ELF core file
}

// Time is the moment at which the oracle is compared.
func (o Oracle) Time() uint64 { return o.Before + (o.After-o.Before)/2 }

// Outside reports whether the oracle was taken while perf did not run: the
// recording says nothing about it.
func (o Oracle) Outside() bool { return o.Label == "pre_perf" || o.Label == "post_perf" }

// Root returns the repository's root directory.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Small returns the recordings in the repository's testdata.
func Small(tb testing.TB) []string {
	tb.Helper()
	dirs, err := filepath.Glob(filepath.Join(Root(), "testdata", "*", "rec.data"))
	if err != nil || len(dirs) == 0 {
		tb.Fatalf("no recordings in testdata: %v", err)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

// Large returns the directory of a large recording such as "x86_64/storm", and
// skips the test where it is not to be had: it is looked for in $TEXTREPLAY_CORPUS,
// and unpacked from ../shared/corpus next to the repository.
func Large(tb testing.TB, name string) string {
	tb.Helper()
	if root := os.Getenv(Env); root != "" {
		dir := filepath.Join(root, name)
		if _, err := os.Stat(dir); err != nil {
			tb.Skipf("skipped: recording %s is not in $%s (%s)", name, Env, root)
		}
		return dir
	}
	if testing.Short() {
		tb.Skipf("skipped: large recording %s, because of -short", name)
	}
	unpack := filepath.Join(Root(), "..", "shared", "corpus", "unpack")
	if _, err := os.Stat(unpack); err != nil {
		tb.Skipf("skipped: the large recording %s is not here (neither $%s nor ../shared/corpus)", name, Env)
	}
	if _, err := exec.LookPath("zstd"); err != nil {
		tb.Skipf("skipped: unpacking the large recording %s needs the zstd command", name)
	}
	root := filepath.Join(os.TempDir(), "textreplay-corpus")
	if out, err := exec.Command(unpack, root, name).CombinedOutput(); err != nil {
		tb.Fatalf("unpack %s: %v\n%s", name, err, out)
	}
	return filepath.Join(root, name)
}

// All returns the directories of every recording with oracles in
// $TEXTREPLAY_CORPUS, at any depth up to two.
func All() []string {
	var out []string
	root := os.Getenv(Env)
	if root == "" {
		return nil
	}
	for _, pattern := range []string{"*/oracle", "*/*/oracle"} {
		dirs, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, d := range dirs {
			out = append(out, filepath.Dir(d))
		}
	}
	return out
}

// Oracles returns the oracles of a recording, in order of time.
func Oracles(dir string) ([]Oracle, error) {
	f, err := os.Open(filepath.Join(dir, "oracle", "oracles.tsv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Oracle
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 3 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		before, err1 := strconv.ParseUint(fields[1], 10, 64)
		after, err2 := strconv.ParseUint(fields[2], 10, 64)
		if err1 != nil || err2 != nil || after < before {
			return nil, fmt.Errorf("%s: bad line %q", f.Name(), sc.Text())
		}
		out = append(out, Oracle{fields[0], before, after, filepath.Join(dir, "oracle", fields[0]+".elf")})
	}
	return out, sc.Err()
}
