// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

func TestModuleList(t *testing.T) {
	m := &timeline.Module{Name: "m", Addr: 0x8000}
	for _, tt := range []struct {
		name   string
		listed kcore.Module
		want   bool
	}{
		{"at its address", kcore.Module{Name: "m", Addr: 0x8000}, true},
		{"at another address", kcore.Module{Name: "m", Addr: 0xc000}, false},
		{"its address withheld", kcore.Module{Name: "m"}, true},
		{"another module at its address", kcore.Module{Name: "n", Addr: 0x8000}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := moduleList{modules: []kcore.Module{tt.listed}}
			if got := list.has(m); got != tt.want {
				t.Errorf("listed: %v, want %v", got, tt.want)
			}
		})
	}
}
