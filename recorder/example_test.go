// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/textreplay/textreplay/recorder"
)

// Record this machine for ten seconds. It needs Linux and the rights of root, so the example
// is not run.
func ExampleStart() {
	r, err := recorder.Start(recorder.Options{Dir: "perf.data", Warn: func(err error) { log.Print(err) }})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := errors.Join(r.Run(ctx), r.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Stats().Records, "records in", r.Dir())
}

// Options that are out of bounds are refused before anything is opened.
func ExampleOptions() {
	_, err := recorder.Start(recorder.Options{Dir: "perf.data", SnapshotEvery: time.Millisecond})
	fmt.Println(errors.Is(err, recorder.ErrOptions) || errors.Is(err, errors.ErrUnsupported)) // the latter if this is not Linux
	// Output:
	// true
}
