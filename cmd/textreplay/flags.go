// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
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
		return usagef("%s: want a time with its unit, such as 10s, of at most 292 years", name)
	case errors.Is(why, strconv.ErrRange):
		return usagef("%s: the number is too large", name)
	case errors.As(why, &number):
		return usagef("%s: want a number", name)
	}
	return usagef("%s: %w", name, why)
}

// An exactValue is the value of a flag whose text exactly rewrites for the library, which reads some texts
// in another way.
type exactValue struct {
	pflag.Value
	exactly func(s string) (string, error)
}

func (v exactValue) Set(s string) error {
	s, err := v.exactly(s)
	if err != nil {
		return err
	}
	return v.Value.Set(s)
}

// exactInt returns a number in decimal. The library reads 010 as eight.
func exactInt(s string) (string, error) {
	digits, negative := strings.CutPrefix(s, "-")
	v, err := numbers.Parse(digits, 64)
	if err != nil {
		return "", err
	}
	if s = strconv.FormatUint(v, 10); negative {
		s = "-" + s
	}
	return s, nil
}

// exactUint is exactInt for numbers that are not negative.
func exactUint(s string) (string, error) {
	s, err := exactInt(s)
	if err == nil && strings.HasPrefix(s, "-") {
		return "", errors.New("must not be negative")
	}
	return s, err
}

// exactDuration returns a span of time in nanoseconds. The library cuts off what is below one. It says what
// is wrong with a text that is no span of time.
func exactDuration(s string) (string, error) {
	unsigned := strings.TrimLeft(s, "+-")
	ns, err := numbers.Duration(unsigned)
	switch {
	case errors.Is(err, numbers.ErrFraction):
		return "", err
	case err != nil:
		return s, nil
	}
	return s[:len(s)-len(unsigned)] + strconv.FormatUint(ns, 10) + "ns", nil
}

// pids is the value of a flag that takes a comma-separated list of process IDs.
type pids []uint32

func (p *pids) Type() string { return "PIDS" }

func (p *pids) String() string {
	var ids []string
	for _, id := range *p {
		ids = append(ids, strconv.FormatUint(uint64(id), 10))
	}
	return strings.Join(ids, ",")
}

func (p *pids) Set(s string) error {
	for id := range strings.SplitSeq(s, ",") {
		v, err := numbers.Parse(id, 32)
		if err != nil {
			return fmt.Errorf("%q is not a process ID", id)
		}
		*p = append(*p, uint32(v))
	}
	return nil
}

// setNumbers lets all flags of cmd and of the commands below it that take a number read it as
// offsets and --fill are read: decimal, or hexadecimal with 0x. Those that take a span of time read
// it exactly.
func setNumbers(cmd *cobra.Command) {
	set := func(f *pflag.Flag) {
		if _, ok := f.Value.(exactValue); ok {
			return // a flag of the command above, which this one shares
		}
		switch f.Value.Type() {
		case "int":
			f.Value = exactValue{f.Value, exactInt}
		case "uint", "uint64":
			f.Value = exactValue{f.Value, exactUint}
		case "duration":
			f.Value = exactValue{f.Value, exactDuration}
		}
	}
	cmd.PersistentFlags().VisitAll(set)
	cmd.Flags().VisitAll(set) // LocalNonPersistentFlags would sort and copy all sets of flags
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

// checkBytes returns an error if -n, which has the value n, asks for no byte. Without -n, n is 0.
func checkBytes(cmd *cobra.Command, n uint64) error {
	if n == 0 && cmd.Flags().Changed("bytes") {
		return usagef("--bytes 0: must be at least 1")
	}
	return nil
}

// checkArgs returns an error if an argument is empty, for the reason of hasEmptyValue. What comes after
// -- is the command line of another program, which may have empty arguments.
func checkArgs(cmd *cobra.Command, args []string) error {
	if cmd.DisableFlagParsing {
		return nil // a shell asks for completions of an empty word
	}
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		args = args[:n]
	}
	if i := slices.Index(args, ""); i >= 0 {
		return usagef("argument %d is empty", i+1)
	}
	return nil
}

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
