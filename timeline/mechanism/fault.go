// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import "fmt"

// A Fault is why a change is not accounted for: why no mechanism explains it, or what
// contradicts it. Scripts may rely on the codes.
type Fault uint8

const (
	_ Fault = iota
	// NoForm: no mechanism writes these bytes.
	NoForm
	// CodeOutside: new code outside of the pages that the kernel makes for it.
	CodeOutside
	// ProbeOutside: a probe where the kernel allows none, such as in a BPF program.
	ProbeOutside
	// ProbeInside: a probe that is not at the beginning of an instruction.
	ProbeInside
	// NoSlot: a probe's trap, but no slot holds the instruction that it replaces.
	NoSlot
	// SlotChanged: the slot of a probe was changed in place.
	SlotChanged
	// ProgramChanged: a BPF program was changed where it neither calls a program nor
	// can be attached to.
	ProgramChanged
	// NotInTable: the kernel's table of such places does not have this one.
	NotInTable
	// NotEntry: a call of a tracer or a BPF trampoline that is not at the entry of a
	// function or a program.
	NotEntry
	// WrongTarget: the instruction leads to where its mechanism never leads.
	WrongTarget
	// NoSuchCall: a static call's site got a function that no static call has.
	NoSuchCall
	// UnknownCallee: a function's entry calls code of a module. A module can ask ftrace for
	// that (register_ftrace_direct); nothing shows that it did.
	UnknownCallee
	// Unrecorded: text changed without a record.
	Unrecorded
	// NotAsLinked: text at the start of the recording differs from the file that the kernel
	// was linked to, and no mechanism explains it.
	NotAsLinked
	// Contradiction: records of symbols, programs or modules contradict one another.
	Contradiction
	// Ambiguous: a form that two mechanisms have, where nothing shows which it is. Such a
	// change is [Other], but it is accounted for.
	Ambiguous

	numFaults
)

var faults = [numFaults]struct{ code, text string }{
	NoForm:         {"no-form", "no mechanism of the kernel writes these bytes"},
	CodeOutside:    {"code-outside", "new code outside of the pages that the kernel makes for it"},
	ProbeOutside:   {"probe-outside", "a probe where the kernel allows none"},
	ProbeInside:    {"probe-inside", "a probe inside an instruction"},
	NoSlot:         {"no-slot", "a trap without the slot that a probe has"},
	SlotChanged:    {"slot-changed", "a probe's slot was changed in place"},
	ProgramChanged: {"program-changed", "a BPF program was changed where the kernel does not change programs"},
	NotInTable:     {"not-in-table", "the kernel's table of such places does not have this one"},
	NotEntry:       {"not-entry", "a tracer's call that is not at the entry of a function"},
	WrongTarget:    {"wrong-target", "the instruction leads to where its mechanism never leads"},
	NoSuchCall:     {"no-such-call", "no static call has this function at that time"},
	UnknownCallee:  {"unknown-callee", "a function's entry leads to a module, and nothing shows that ftrace made it so"},
	Unrecorded:     {"unrecorded", "text changed without a record"},
	NotAsLinked:    {"not-as-linked", "text at the start differs from the kernel's file, and no mechanism explains it"},
	Contradiction:  {"contradiction", "records contradict one another"},
	Ambiguous:      {"ambiguous", "two mechanisms have this form"},
}

// String returns the code, for example "no-form"; "" for 0.
func (f Fault) String() string {
	if f >= numFaults {
		return fmt.Sprintf("Fault(%d)", uint8(f))
	}
	return faults[f].code
}

// Text describes the fault in a few words; "" for 0.
func (f Fault) Text() string {
	if f >= numFaults {
		return ""
	}
	return faults[f].text
}

// Faults yields every fault that a [Violation] can have, with its code and text, in a
// fixed order, for listings.
func Faults(yield func(code, text string) bool) {
	for _, f := range faults[1:Ambiguous] {
		if !yield(f.code, f.text) {
			return
		}
	}
}
