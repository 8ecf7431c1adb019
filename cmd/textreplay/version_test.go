// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestBuildString: a version is followed by its revision where it does not have it.
func TestBuildString(t *testing.T) {
	revision := "0123456789abcdef0123456789abcdef01234567"
	for _, tt := range []struct {
		b    build
		want string
	}{
		{build{Version: "(devel)"}, "(devel)"},
		{build{Version: "(devel)", Revision: &revision}, "(devel) " + revision},
		{build{Version: "v1.2.3", Revision: &revision}, "v1.2.3 " + revision},
		{build{Version: "v0.0.0-20261121225958-0123456789ab", Revision: &revision}, "v0.0.0-20261121225958-0123456789ab"},
	} {
		if got := tt.b.String(); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.b, got, tt.want)
		}
	}
}
