// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"fmt"
)

// A Mechanism is a part of the kernel that changes kernel text.
type Mechanism uint8

const (
	Other           Mechanism = iota // the facts do not show which one
	StaticKey                        // a jump label: NOP and jump
	StaticCall                       // a static call: its trampoline, or a call or jump of its function
	Ftrace                           // the call at a function's entry, ftrace's trampolines and their code
	Kprobe                           // a kprobe's trap and its slot
	OptimisedKprobe                  // a kprobe's jump and its slot
	BPFProgram                       // a BPF program is loaded, unloaded, or one of its tail calls changes
	// BPFTrampoline: a BPF trampoline, dispatcher or struct_ops image comes, goes or
	// changes, or a function or program begins or ends to call a trampoline.
	BPFTrampoline
	Module       // a module is loaded or unloaded
	Relocation   // the calls of a module that is being loaded get their targets (powerpc)
	FeatureFixup // a mitigation such as rfi_flush or entry_flush is switched (powerpc)

	numMechanisms
)

var names = [numMechanisms]string{"other", "static-key", "static-call", "ftrace", "kprobe", "optimised-kprobe",
	"bpf-program", "bpf-trampoline", "module", "relocation", "feature-fixup"}

// String returns the name of the mechanism, for example "static-key". Scripts may rely
// on the names.
func (m Mechanism) String() string {
	if m >= numMechanisms {
		return fmt.Sprintf("Mechanism(%d)", uint8(m))
	}
	return names[m]
}

// All returns every mechanism, in a fixed order.
func All() []Mechanism {
	all := make([]Mechanism, numMechanisms)
	for i := range all {
		all[i] = Mechanism(i)
	}
	return all
}
