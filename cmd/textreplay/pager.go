// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

// A pager shows standard output page by page if it is a terminal, as git and perf do. It
// starts at the first write, so that warnings and the progress bar are on the terminal
// before it.
type pager struct {
	out     io.Writer   // standard output
	enabled bool        // this command has a pager
	raw     bool        // the output is bytes, not text
	decided bool        // whether to start one, at the first write
	shown   *screenText // nil unless standard output is a terminal
	cmd     *exec.Cmd
	pipe    io.WriteCloser // to the pager, nil if there is none
}

// errPagerLeft is the error of a write after the user has left the pager.
var errPagerLeft = errors.New("the pager has ended")

// Write writes to the pager, or to standard output if there is none. What goes to a terminal has
// no control sequences but those of style.
func (p *pager) Write(b []byte) (int, error) {
	if !p.decided {
		p.decided = true
		if isTerminal(p.out) {
			if !p.raw {
				p.shown = new(screenText)
			}
			if p.enabled {
				p.start()
			}
		}
	}
	if p.shown == nil {
		return p.write(b)
	}
	if _, err := p.write(p.shown.next(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p *pager) write(b []byte) (int, error) {
	if p.pipe == nil {
		return p.out.Write(b)
	}
	n, err := p.pipe.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		err = errPagerLeft
	}
	return n, err
}

// pagerCommand returns the command line of the pager, "" for none: $TEXTREPLAY_PAGER,
// else $PAGER, else less. cat and "" mean none.
func pagerCommand() string {
	for _, name := range []string{"TEXTREPLAY_PAGER", "PAGER"} {
		if command, ok := os.LookupEnv(name); ok {
			if command = strings.TrimSpace(command); command == "cat" {
				return ""
			}
			return command
		}
	}
	if _, err := exec.LookPath("less"); err == nil {
		return "less"
	}
	return ""
}

func (p *pager) start() {
	command := pagerCommand()
	if command == "" {
		return
	}
	cmd := exec.Command("sh", "-c", command)
	if runtime.GOOS == "windows" {
		args := strings.Fields(command)
		cmd = exec.Command(args[0], args[1:]...)
	}
	cmd.Stdout, cmd.Stderr = p.out, os.Stderr
	cmd.Env = os.Environ()
	for name, value := range map[string]string{
		"LESS": "FRX", // leave if all fits on a screen, show colors, keep the screen
		"LV":   "-c",
	} {
		if _, ok := os.LookupEnv(name); !ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	pipe, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return // without a pager then
	}
	// Ctrl-C belongs to the pager, which ends this program by leaving.
	signal.Ignore(os.Interrupt)
	p.cmd, p.pipe = cmd, pipe
}

// wait ends the output and waits until the pager has ended. It returns an error if the pager
// could not run.
func (p *pager) wait() error {
	if p.shown != nil {
		p.write(p.shown.rest()) // of a character that is cut off
	}
	if p.pipe == nil {
		return nil
	}
	p.pipe.Close()
	err := p.cmd.Wait()
	p.pipe = nil
	const notFound, notExecutable = 127, 126 // of the shell
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && (exit.ExitCode() == notFound || exit.ExitCode() == notExecutable):
		return fmt.Errorf("the pager %q cannot be run (--no-pager prints without one)", pagerCommand())
	case errors.As(err, &exit), err == nil:
		return nil // its exit code says nothing of the output
	}
	return err
}
