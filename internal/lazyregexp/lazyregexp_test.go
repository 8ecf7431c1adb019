// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package lazyregexp_test

import (
	"testing"

	"github.com/textreplay/textreplay/internal/lazyregexp"
)

func TestNew(t *testing.T) {
	word := lazyregexp.New(`^\w+$`)
	if first, second := word(), word(); first != second {
		t.Error("the expression was compiled twice")
	}
	if !word().MatchString("poke") || word().MatchString("a poke") {
		t.Error("the expression matches something else")
	}
	invalid := lazyregexp.New(`(`) // compiled when it is used, not before
	defer func() {
		if recover() == nil {
			t.Error("an invalid expression does not panic")
		}
	}()
	invalid()
}
