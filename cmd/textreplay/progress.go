// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A progressBar shows how much of a recording has been read, if reading takes
// long.
type progressBar struct {
	w     io.Writer
	start time.Time
	after time.Duration // show nothing before
	last  time.Time
	shown bool
}

// bar returns a progress bar, or nil if none is wanted.
func (a *app) bar() *progressBar {
	always := a.progress.value == "always"
	if !always && (a.progress.value != "auto" || !isTerminal(a.stderr)) {
		return nil
	}
	bar := &progressBar{w: a.stderr, start: time.Now()}
	if !always {
		bar.after = 500 * time.Millisecond
	}
	return bar
}

const progressWidth = 40

// update draws the bar for done of total bytes, at most every 100 ms.
func (p *progressBar) update(done, total int64) {
	now := time.Now()
	if total <= 0 || now.Sub(p.start) < p.after || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	full := int(done * progressWidth / total)
	fmt.Fprintf(p.w, "\rreading [%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(".", progressWidth-full), done*100/total)
}

// clear removes the bar from the screen.
func (p *progressBar) clear() {
	if p.shown {
		fmt.Fprintf(p.w, "\r%*s\r", len("reading [] 100%")+progressWidth, "")
		p.shown = false
	}
}
