// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
)

// TestWithoutTracepoints: what a recorder says that has not all tracepoints.
func TestWithoutTracepoints(t *testing.T) {
	point := func(names ...string) map[string]string {
		files := map[string]string{"events/header_page": ""}
		for i, n := range names {
			dir := "events/" + strings.ReplaceAll(n, ":", "/")
			files[dir+"/id"], files[dir+"/format"] = fmt.Sprintf("%d\n", i+1), "name: x\n"
		}
		return files
	}
	for _, tt := range []struct {
		name   string
		files  map[string]string
		points int
		want   []string
	}{
		{"tracefs is not mounted", nil, 0, []string{withoutModules + ", and " + withoutHotplug + ": tracefs is not mounted; "}},
		{"a kernel without modules", point(hotplugPoint), 1, nil},
		{"a kernel without cpuhp", point("module:module_load", "module:module_free"), 2, []string{withoutHotplug + ": " + hotplugPoint}},
		{"all", point(tracepoints...), 3, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fakeTracefs(t, tt.files)
			var warnings []string
			r := &Recorder{warned: make(map[string]bool), opts: Options{Warn: func(err error) { warnings = append(warnings, err.Error()) }}}
			r.checkTracepoints()
			ok := len(warnings) == len(tt.want) && len(r.points) == tt.points
			for i := 0; ok && i < len(warnings); i++ {
				ok = strings.HasPrefix(warnings[i], tt.want[i])
			}
			if !ok {
				t.Errorf("%d tracepoints, want %d; warnings %q, want %q", len(r.points), tt.points, warnings, tt.want)
			}
		})
	}
}

// TestNoRoom: if the kernel has no room for the events of any CPU, nothing is recorded, and there is
// one error, which says what would help.
func TestNoRoom(t *testing.T) {
	t.Cleanup(func() { openEvent = open })
	openEvent = func(*perfdata.Event, int) (int, error) { return -1, unix.EMFILE }
	dir := filepath.Join(t.TempDir(), "rec")
	_, err := Start(Options{Dir: dir, Warn: func(err error) {
		if strings.Contains(err.Error(), "CPU 0") {
			t.Error(err)
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("Start: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}
