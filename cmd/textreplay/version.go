// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/build"
)

func (a *app) versionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and what it was built from",
		Long: `version prints the program's version, its source revision, the version of Go, and
the version of the index format. An index of another version is written again.`,
		Example: `  textreplay version
  textreplay version --json | jq -r .revision`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := build.This()
			if a.json {
				return outputError(encoder(a.out).Encode(b))
			}
			_, err := a.out.WriteString(b.Text())
			return outputError(err)
		},
	}
}
