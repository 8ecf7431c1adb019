// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernelsource_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/textreplay/textreplay/timeline/kernelsource"
)

// The source of an address of a kernel that ran with its text at 0xffffffffaea00000. The
// debug information of a kernel is too large for a repository, so the example is not run.
func ExampleFile_Frames() {
	src, err := kernelsource.Open("/usr/lib/debug/boot/vmlinux-6.1.0-10-amd64", 0xffffffffaea00000)
	if errors.Is(err, kernelsource.ErrNoDebugInfo) {
		log.Fatal("install the kernel's package for debugging")
	}
	if err != nil {
		log.Fatal(err)
	}
	defer src.Close()

	frames, err := src.Frames(0xffffffffaecdbcb1)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range frames { // innermost first: what is inlined, then what it is inlined into
		fmt.Printf("%s at %s:%d\n", f.Func, f.File, f.Line)
	}
}
