// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tracefs are the directories where tracefs may be mounted.
var tracefs = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// tracepoints are those that are recorded. They show when modules are loaded and unloaded, and
// each step of a CPU that goes offline or comes online.
var tracepoints = []string{"module:module_load", "module:module_free", hotplugPoint}

const hotplugPoint = "cpuhp:cpuhp_enter"

// A tracepoint is a tracepoint, or an event on a kprobe, that this kernel has.
type tracepoint struct {
	name   string // system:event
	id     uint64
	format []byte // the file of that name
}

// offset returns the offset in bytes of a field in the raw data of a sample, 0 if the tracepoint
// has no such field. declared is the field as the format declares it, "int idx".
func (t *tracepoint) offset(declared string) int {
	_, rest, ok := bytes.Cut(t.format, []byte("field:"+declared+";\toffset:"))
	if !ok {
		return 0
	}
	number, _, _ := bytes.Cut(rest, []byte(";"))
	n, err := strconv.ParseUint(string(number), 10, 12)
	if err != nil {
		return 0
	}
	return int(n)
}

// readTracepoint reads the id and the format of a tracepoint from tracefs. The error is that of
// the last directory.
func readTracepoint(name string) (t tracepoint, err error) {
	system, event, _ := strings.Cut(name, ":")
	for _, root := range tracefs {
		dir := filepath.Join(root, "events", system, event)
		var id []byte
		if id, err = os.ReadFile(filepath.Join(dir, "id")); err != nil {
			continue
		}
		t.name = name
		if t.id, err = strconv.ParseUint(strings.TrimSpace(string(id)), 10, 64); err != nil {
			return t, fmt.Errorf("the id of %s: %w", name, err)
		}
		t.format, err = os.ReadFile(filepath.Join(dir, "format"))
		return t, err
	}
	return t, err
}

// tracingData is the section TRACING_DATA: the formats of the tracepoints, without which
// no reader knows the fields of their raw data (read_tracing_data() of
// tools/perf/util/trace-event-info.c).
func tracingData(points []tracepoint) []byte {
	order := binary.NativeEndian
	b := []byte("\x17\x08\x44tracing0.6\x00")
	big := byte(0)
	if order.Uint16([]byte{0, 1}) == 1 {
		big = 1
	}
	b = append(b, big, 8) // bytes of a long: perf events need a 64-bit kernel here
	b = order.AppendUint32(b, uint32(os.Getpagesize()))
	file := func(name string) {
		var text []byte
		for _, root := range tracefs {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, "events", name)); err == nil {
				break
			}
		}
		b = append(append(b, name...), 0)
		b = order.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	file("header_page")
	file("header_event")
	b = order.AppendUint32(b, 0) // formats of ftrace's own events
	var systems []string
	of := make(map[string][]tracepoint)
	for _, p := range points {
		system, _, _ := strings.Cut(p.name, ":")
		if of[system] == nil {
			systems = append(systems, system)
		}
		of[system] = append(of[system], p)
	}
	b = order.AppendUint32(b, uint32(len(systems)))
	for _, system := range systems {
		b = append(append(b, system...), 0)
		b = order.AppendUint32(b, uint32(len(of[system])))
		for _, p := range of[system] {
			b = order.AppendUint64(b, uint64(len(p.format)))
			b = append(b, p.format...)
		}
	}
	b = order.AppendUint32(b, 0)    // kallsyms
	b = order.AppendUint32(b, 0)    // printk formats
	return order.AppendUint64(b, 0) // names of tasks
}
