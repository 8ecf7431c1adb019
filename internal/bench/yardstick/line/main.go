// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Line prints a line. It is what a Go program takes at least.
package main

import "fmt"

func main() { fmt.Println("line") }
