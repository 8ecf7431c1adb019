// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/textreplay/textreplay/internal/lazyregexp"
	"github.com/textreplay/textreplay/internal/numbers"
)

// noArgs is for commands that take no arguments. The library's check speaks of an unknown
// command.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) != 0 {
		return usagef("want no arguments, got %s", count(len(args), "argument"))
	}
	return nil
}

// flagError is the error of flags that cannot be parsed.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usagef("%w", err)
	}
	name, why := "--"+invalid.GetFlag().Name+" "+invalid.GetValue(), invalid.Unwrap()
	var number *strconv.NumError
	_, isTime := time.ParseDuration(invalid.GetValue())
	switch {
	case invalid.GetFlag().Value.Type() == "bool":
		return usagef("%s: want true or false, or no value", name)
	case invalid.GetFlag().Value.Type() == "duration" && isTime != nil:
		return usagef("%s: want a time with its unit, such as 10s", name)
	case errors.As(why, &number) && errors.Is(why, strconv.ErrRange):
		return usagef("%s: the number is too large", name)
	case errors.As(why, &number):
		return usagef("%s: want a number", name)
	}
	return usagef("%s: %w", name, why)
}

// A number is the value of a flag that takes a number. The library reads 010 as eight.
type number struct{ pflag.Value }

func (n number) Set(s string) error {
	digits, sign := s, ""
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		digits, sign = rest, "-"
	}
	v, err := numbers.Parse(digits, 64)
	if err != nil {
		return err
	}
	return n.Value.Set(sign + strconv.FormatUint(v, 10))
}

// setNumbers lets all flags of cmd and of the commands below it that take a number read it as
// offsets and --fill are read: decimal, or hexadecimal with 0x.
func setNumbers(cmd *cobra.Command) {
	set := func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "uint", "uint64":
			f.Value = number{f.Value}
		}
	}
	cmd.PersistentFlags().VisitAll(set)
	cmd.LocalNonPersistentFlags().VisitAll(set)
	for _, c := range cmd.Commands() {
		setNumbers(c)
	}
}

// flagName returns a flag as its command's help has it, with the name of its value.
func flagName(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand
	}
	if value, _ := pflag.UnquoteUsage(f); value != "" {
		name += " " + value
	}
	return name
}

// checkDir returns an error if a directory to write is -, which is standard output for files.
func checkDir(flag, dir string) error {
	if dir == "-" {
		return usagef("%s -: a directory cannot go to standard output; ./- is a directory of that name", flag)
	}
	return nil
}

// flagGroup matches the names of flags in an error of the library.
var flagGroup = lazyregexp.New(`\[([^]]*)\]`)

// hasEmptyValue reports whether a flag was given an empty text. A script that gives one forgot
// to set a variable: it must not get an answer as if the flag were not there.
func hasEmptyValue(f *pflag.Flag) bool {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values := list.GetSlice() // none of an empty text
		return len(values) == 0 || slices.Contains(values, "")
	}
	return f.Value.Type() == "string" && f.Value.String() == ""
}

// checkFlags returns an error if a flag is missing or empty, or if flags exclude each other. The
// library finds what is missing and what excludes, too, later and in other words.
func checkFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if err == nil && f.Changed && hasEmptyValue(f) {
			err = usagef("%s: the value is empty", flagName(f))
		}
		if err == nil && !f.Changed && len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 {
			err = usagef("%s is required", flagName(f))
		}
	})
	if err != nil {
		return err
	}
	if err = cmd.ValidateFlagGroups(); err == nil {
		return nil
	}
	// "any flags in the group [a b c] are set ...; [a b] were all set" or "the group [a b] is
	// required"
	groups := flagGroup().FindAllStringSubmatch(err.Error(), -1)
	if len(groups) == 0 {
		return usagef("%w", err)
	}
	var names []string
	for _, name := range strings.Fields(groups[len(groups)-1][1]) {
		names = append(names, flagName(cmd.Flags().Lookup(name)))
	}
	if len(groups) == 1 {
		return usagef("%s is required", strings.Join(names, " or "))
	}
	return usagef("%s exclude each other", strings.Join(names, " and "))
}
