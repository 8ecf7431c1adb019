// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

// An instruction, as insns.txt has it.
type instruction struct {
	ip    uint64
	bytes []byte
}

// An executionList is insns.txt: the instructions of a log by number, and the entries of the
// kernel, at which an exception arrives.
type executionList struct {
	insns   []instruction
	phys    []string // physical addresses, as in the file
	entries []string // lines
}

// readList reads insns.txt of the log in dir.
func readList(t *testing.T, dir string) *executionList {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "insns.txt"))
	if err != nil {
		t.Fatal(err)
	}
	l := &executionList{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch f[0] {
		case "I":
			ip, err := strconv.ParseUint(f[2], 16, 64)
			code, err2 := hex.DecodeString(f[4])
			if err != nil || err2 != nil {
				t.Fatalf("insns.txt: %q", line)
			}
			l.insns, l.phys = append(l.insns, instruction{ip, code}), append(l.phys, f[3])
		case "E":
			l.entries = append(l.entries, line)
		}
	}
	return l
}

// entryNames returns the names of the entries by address.
func (l *executionList) entryNames(t *testing.T) map[uint64]string {
	t.Helper()
	names := make(map[uint64]string, len(l.entries))
	for _, line := range l.entries {
		f := strings.Fields(line)
		ip, err := strconv.ParseUint(f[1], 16, 64)
		if err != nil {
			t.Fatalf("insns.txt: %q", line)
		}
		names[ip] = f[2]
	}
	return names
}

// logRecord is the size of a record of trace.bin.
const logRecord = 16

// A logged is a record of trace.bin: an instruction that a CPU executed or, if kind is not 0,
// what an exception left there, which the README of the log describes.
type logged struct {
	value uint64 // of an instruction: the counter
	id    uint32 // of the instruction
	cpu   uint8
	kind  uint8
	index uint8 // of a word of a frame
}

func loggedOf(raw []byte) logged {
	return logged{binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint32(raw[8:]), raw[12], raw[13], raw[14]}
}

// eachRecord calls f with each record of trace.bin in dir.
func eachRecord(t *testing.T, dir string, f func(raw []byte, rec logged)) {
	t.Helper()
	log, err := os.Open(filepath.Join(dir, "trace.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r := bufio.NewReaderSize(log, 1<<20)
	var raw [logRecord]byte
	for {
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			if err != io.EOF {
				t.Fatalf("trace.bin: %v", err)
			}
			return
		}
		f(raw[:], loggedOf(raw[:]))
	}
}

// bestRun returns the run of n records of one CPU with the highest score, of those that begin
// with an instruction each stride records. score returns false for one that is of no use.
func bestRun(t *testing.T, dir string, n, stride int, score func(run []byte) (int, bool)) (run []byte, best int) {
	t.Helper()
	byCPU := make([][]byte, 256)
	eachRecord(t, dir, func(raw []byte, rec logged) { byCPU[rec.cpu] = append(byCPU[rec.cpu], raw...) })
	for _, all := range byCPU {
		for at := 0; at+n*logRecord <= len(all); at += stride * logRecord {
			x := all[at : at+n*logRecord]
			if loggedOf(x).kind != 0 {
				continue
			}
			if s, ok := score(x); ok && (run == nil || s > best) {
				run, best = x, s
			}
		}
	}
	if run == nil {
		t.Fatal("the log has no such run")
	}
	return run, best
}

// writeCut writes a run of records as a log of its own, as of CPU 0 and with instructions
// numbered anew, and the part of the recording that has their text.
func (l *executionList) writeCut(t *testing.T, run []byte, r *replay.Replay, to string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var text, log bytes.Buffer
	var ranges []timeline.Range
	number := make(map[uint32]uint32)
	for raw := range slices.Chunk(run, logRecord) {
		id := loggedOf(raw).id
		n, ok := number[id]
		if !ok {
			n = uint32(len(number))
			number[id] = n
			x := &l.insns[id]
			fmt.Fprintf(&text, "I %d %016x %s %x\n", n, x.ip, l.phys[id], x.bytes)
			ranges = append(ranges, timeline.Range{Lo: x.ip, Hi: x.ip + uint64(len(x.bytes))})
		}
		raw = bytes.Clone(raw)
		binary.LittleEndian.PutUint32(raw[8:], n)
		raw[12] = 0
		log.Write(raw)
	}
	for _, line := range l.entries {
		text.WriteString(line)
	}
	must(os.MkdirAll(to, 0o777))
	must(os.WriteFile(filepath.Join(to, "trace.bin"), log.Bytes(), 0o666))
	must(os.WriteFile(filepath.Join(to, "insns.txt"), text.Bytes(), 0o666))
	must(os.RemoveAll(filepath.Join(to, "cut.data")))
	_, err := trim.Write(filepath.Join(to, "cut.data"), r, trim.Options{Ranges: ranges})
	must(err)
}

// eachDecoded runs a decoder that writes what it decodes to a pipe, and calls f with each
// record of this size. It returns what the decoder prints.
func eachDecoded(t *testing.T, size int, f func(raw []byte), exe string, args ...string) (out, errOut []byte) {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "stream")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v %s", err, out)
	}
	cmd := exec.Command(exe, append([]string{"-o", pipe}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(in, 1<<20)
	raw := make([]byte, size)
	for {
		if _, err := io.ReadFull(r, raw); err != nil {
			break
		}
		f(raw)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes(), stderr.Bytes()
}
