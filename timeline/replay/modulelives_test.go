// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestModuleLives: a list that may be of before a module's load, or of after its unload, may have another module of
// the name, if that can have gone, or come, with no record (rule modules). The recording begins at 100.
func TestModuleLives(t *testing.T) {
	load, free := moduleEvent{200, true}, moduleEvent{200, false}
	for _, tt := range []struct {
		name   string
		listed Times
		event  moduleEvent
		limit  Limit
		want   moduleLife
	}{
		{"a load while the list may have been made", Times{150, 300}, load, Limit{}, moduleLife{loaded: 200, certain: true}},
		{"a list that may be of before the recording", Times{50, 300}, load, Limit{}, moduleLife{}},
		{"an unload may be missing before the load", Times{150, 300}, load, Limit{From: 160, To: 170}, moduleLife{}},
		{"it may have been missing before the list", Times{150, 300}, load, Limit{From: 140, To: 150}, moduleLife{loaded: 200, certain: true}},
		{"perf's own list is not of before the recording", Times{0, 300}, load, Limit{}, moduleLife{loaded: 200, certain: true}},
		{"an unload while the list may have been made", Times{150, 300}, free, Limit{From: 160, To: 170}, moduleLife{freed: 200, certain: true}},
		{"a load may be missing behind it", Times{150, 300}, free, Limit{From: 250, To: 260}, moduleLife{}},
		{"perf's own list is not of after the recording", Times{0, timeline.MaxTime}, free, Limit{From: 1001, To: timeline.MaxTime}, moduleLife{freed: 200, certain: true}},
	} {
		t.Run("modules: "+tt.name, func(t *testing.T) {
			s := &scan{moduleEvents: map[string][]moduleEvent{"m": {tt.event}}, report: &Report{First: 100, Horizon: 1000}}
			if tt.limit.To > 0 {
				s.report.Coverage.Modules.Limits = []Limit{tt.limit}
			}
			if got := s.moduleLives(tt.listed).of("m"); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
