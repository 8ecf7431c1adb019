// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
)

// writeJournal writes the lines of the journal of "textreplay record" that are kept, and the
// later copies of text that they name.
func (c *cut) writeJournal(d *outfile.Dir) error {
	entries, bad := c.r.Journal()
	if entries == nil && bad == nil {
		return nil
	}
	kept := make(map[string]bool) // directories of copies
	var text bytes.Buffer
	for _, e := range entries {
		if ok := c.keepsEntry(&e); !ok {
			continue
		}
		switch {
		case e.Copy != nil:
			kept[e.Copy.Dir] = true
		case e.Counters != nil:
			x := *e.Counters
			x.Data = 0 // all samples that are kept are there
			e.Counters = &x
		}
		if err := journal.Append(&text, &e); err != nil {
			return err
		}
	}
	switch {
	case bad != nil:
		text.WriteString("damaged\n")
	case c.opts.To > 0:
		// Nothing is missing before the end of what is kept.
		end := c.opts.To - 1
		if n := len(entries); n > 0 && entries[n-1].End != nil {
			end = min(end, entries[n-1].End.Time)
		}
		if end >= timeline.MaxTime-1 {
			break // the recorder did not say when it ended
		}
		if err := journal.Append(&text, &journal.Entry{End: &journal.End{Time: end}}); err != nil {
			return err
		}
	}
	if err := writeText(d, journal.Name, text.Bytes()); err != nil {
		return err
	}
	for dir, snap := range c.r.JournaledCopies() {
		if !kept[dir] {
			continue
		}
		if err := c.writeCopy(d, dir, snap); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// keepsEntry reports whether a line of the journal is kept. What was read, counted or copied
// after the end of what is kept would be of another time.
func (c *cut) keepsEntry(e *journal.Entry) bool {
	switch {
	case e.End != nil:
		return false
	case e.Ready != nil:
		return e.Ready.Time < c.opts.To
	case e.Copy != nil:
		return e.Copy.To < c.opts.To && (e.Copy.Base != "" || c.keepsSnapshot())
	case e.Gap != nil:
		return e.Gap.From < c.opts.To
	case e.Bytes != nil:
		return e.Bytes.To < c.opts.To
	case e.Counters != nil:
		return e.Counters.To < c.opts.To
	}
	return true
}

// writeCopy writes a later copy of text.
func (c *cut) writeCopy(d *outfile.Dir, dir string, snap *kcore.Snapshot) error {
	if core := snap.Core; core != nil {
		if err := d.WriteFile(filepath.Join(dir, "kcore"), func(w io.Writer) error {
			return kcore.WriteCore(w, core.Machine, core.Class, core.Data, c.segments(core), nil)
		}); err != nil {
			return err
		}
	}
	if k := snap.Kallsyms; k != nil {
		// The kernel's own symbols are those of the first copy.
		var lines bytes.Buffer
		for _, s := range k.All() {
			if s.Module != "" || slices.Contains([]string{"_stext", "_etext", "_text"}, s.Name) {
				fmt.Fprintln(&lines, symbolLine(s))
			}
		}
		if err := writeText(d, filepath.Join(dir, "kallsyms"), lines.Bytes()); err != nil {
			return err
		}
	}
	if snap.Modules == nil {
		return nil
	}
	return d.WriteFile(filepath.Join(dir, "modules"), func(w io.Writer) error { return kcore.WriteModules(w, snap.Modules) })
}
