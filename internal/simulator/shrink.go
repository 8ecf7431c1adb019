// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
)

// A simplification makes a run smaller.
type simplification struct {
	name  string
	apply func(c *Config)
}

var simplifications = []simplification{
	{"one-worker", func(c *Config) { c.Kernel.Activity.Workers = 1 }},
	{"two-cpus", func(c *Config) { c.Kernel.CPUs, c.Kernel.BootCPUs = 2, min(c.Kernel.BootCPUs, 2) }},
	{"small-text", func(c *Config) { c.Kernel.TextSize = kernel.PageSize }},
	{"no-bursts", func(c *Config) { c.Kernel.Activity.Burst = 1 }},
	{"no-keys", without(kernel.ChangeKey)},
	{"no-calls", without(kernel.ChangeCall)},
	{"no-tracers", without(kernel.ChangeTracer)},
	{"no-probes", without(kernel.ChangeProbe)},
	{"no-programs", without(kernel.ChangeProgram)},
	{"no-trampolines", without(kernel.ChangeTrampoline)},
	{"no-modules", without(kernel.ChangeModule)},
	{"no-tail-calls", without(kernel.ChangeTailCall)},
	{"no-dispatcher", without(kernel.ChangeDispatcher)},
	{"slow", func(c *Config) { c.Kernel.Activity.Pause *= 4 }},
}

func without(kind int) func(*Config) {
	return func(c *Config) { c.Kernel.Activity.Weights[kind] = 0 }
}

// simplify applies simplifications by their names.
func simplify(c *Config, names []string) error {
	for _, name := range names {
		i := slices.IndexFunc(simplifications, func(s simplification) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("no simplification is called %q", name)
		}
		simplifications[i].apply(c)
	}
	return nil
}

// shrink returns the simplifications with which a seed of a variant still has a fault of
// this kind. dir returns a new directory.
func shrink(v *Variant, seed uint64, kind string, dir func() string) (names []string) {
	for _, s := range simplifications {
		c := v.config(seed)
		if simplify(c, append(slices.Clone(names), s.name)) != nil {
			continue
		}
		t, err := try(v, seed, dir(), c)
		if err == nil && slices.ContainsFunc(t.faults, func(f Fault) bool { return f.Kind == kind }) {
			names = append(names, s.name)
		}
	}
	return names
}
