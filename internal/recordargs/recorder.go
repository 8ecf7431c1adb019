// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recordargs

import (
	"slices"
	"strings"
)

// SetOption returns options with this one, in place of each that has its short or long name.
// Names have their dashes; short is "" if there is none. It changes the array of options.
func SetOption(options []Option, short, long, value string) []Option {
	options = slices.DeleteFunc(options, func(o Option) bool { return o.Name == long || short != "" && o.Name == short })
	name := long
	if short != "" {
		name = short
	}
	return append(options, Option{name, []string{name, value}, value})
}

// recorderOptions are the options of "textreplay record"; true if one takes a value.
var recorderOptions = map[string]bool{
	"-o": true, "--output": true, "-m": true, "--mmap-pages": true, "--snapshot-every": true, "--max-size": true,
	"--max-pieces": true, "--follow": false, "--rearm": false,
}

// SplitRecorder splits a command line of "textreplay record", whose args[1] is record. The
// name of an option is as it was written, with its dashes. ok is false if the command line is
// not understood.
func SplitRecorder(args []string) (options []Option, workload []string, ok bool) {
	if len(args) < 2 || args[1] != "record" {
		return nil, nil, false
	}
	for args = args[2:]; len(args) > 0; args = args[1:] {
		if args[0] == "--" {
			return options, args[1:], true
		}
		text := args[:1:1]
		name, value, given := args[0], "", false
		if strings.HasPrefix(name, "--") {
			name, value, given = strings.Cut(name, "=")
		} else if len(name) > 2 {
			name, value, given = name[:2], strings.TrimPrefix(name[2:], "="), true
		}
		takes, known := recorderOptions[name]
		switch {
		case !known:
			return nil, nil, false
		case takes && !given:
			if len(args) < 2 {
				return nil, nil, false
			}
			args = args[1:]
			value = args[0]
			text = append(text, value)
		}
		options = append(options, Option{name, text, value})
	}
	return options, nil, true
}
