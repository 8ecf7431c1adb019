// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport_test

import (
	"fmt"
	"log"
	"os"

	"github.com/textreplay/textreplay/timeline/pprofexport"
	"github.com/textreplay/textreplay/timeline/replay"
)

func Example() {
	r, err := replay.Load("../../testdata/callgraph/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	f, err := os.CreateTemp("", "*.pb.gz")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	stats, err := pprofexport.Write(f, r, pprofexport.Options{Labels: pprofexport.LabelComm})
	if err != nil {
		log.Fatal(err)
	}
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	for _, e := range stats.Events {
		fmt.Printf("%s: %d samples, %d %s\n", e.Name, e.Samples, e.Total, e.Unit)
	}
	fmt.Printf("%d different stacks\n", stats.Stacks)
	// Output:
	// cpu-clock: 495 samples, 26052631110 nanoseconds
	// 117 different stacks
}

func ExampleProfile() {
	r, err := replay.Load("../../testdata/callgraph/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	p, _, err := pprofexport.Profile(r, pprofexport.Options{Comms: []string{"swapper"}})
	if err != nil {
		log.Fatal(err)
	}
	self := make(map[string]int64)
	for _, s := range p.Sample {
		if line := s.Location[0].Line; len(line) > 0 {
			self[line[0].Function.Name] += s.Value[0]
		}
	}
	fmt.Println("idle:", self["native_safe_halt"], "samples")
	// Output:
	// idle: 299 samples
}
