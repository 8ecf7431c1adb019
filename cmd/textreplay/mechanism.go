// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

func mechanismNames() []string {
	var out []string
	for _, m := range mechanism.All() {
		out = append(out, m.String())
	}
	return out
}

// classify returns a classifier for r's changes, with the tables of the vmlinux file if
// one is given.
func (a *app) classify(r *replay.Replay) (*mechanism.Classifier, error) {
	tables, err := a.tables(r)
	if err != nil {
		return nil, err
	}
	return mechanism.NewClassifier(r, tables), nil
}

// tables reads the kernel's tables from the vmlinux file; nil if none is given or if it
// has no tables.
func (a *app) tables(r *replay.Replay) (*mechanism.Tables, error) {
	if a.vmlinux == "" {
		return nil, nil
	}
	f, err := os.Open(a.vmlinux)
	if err != nil {
		return nil, inputError(err)
	}
	defer f.Close()
	t, err := mechanism.ReadTables(r, f)
	if errors.Is(err, mechanism.ErrNoTables) || errors.Is(err, replay.ErrNoKallsyms) {
		return nil, nil
	}
	if err != nil {
		return nil, inputError(fmt.Errorf("%s: %w", a.vmlinux, err))
	}
	return t, nil
}
