// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Cutoracle makes a recording of testdata out of a large one: it trims the
// recording and cuts the oracles, the independent copies of kernel text, to the
// same pages and to those of code that was there then.
//
//	go run ./internal/cutoracle -symbols vfs_read,vfs_write FROM TO
//
// FROM and TO are directories with rec.data and oracle. It is how the
// recordings in testdata were made; testdata.sh has the arguments.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

const pageSize = 4096

func main() {
	log.SetFlags(0)
	symbols := flag.String("symbols", "", "keep only the pages of these `functions`, separated by commas")
	oracles := flag.String("oracles", "", "keep only these `oracles`, separated by commas")
	samples := flag.Bool("samples", false, "keep samples")
	to := flag.String("to", "", "keep nothing from this `time` on")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), split(*symbols), split(*oracles), *to, *samples); err != nil {
		log.Fatal(err)
	}
}

func split(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func run(from, into string, symbols, labels []string, to string, samples bool) error {
	r, err := replay.Load(filepath.Join(from, "rec.data"), replay.Options{})
	if err != nil {
		return err
	}
	defer r.Close()
	opts := trim.Options{Samples: samples}
	if to != "" {
		t, err := r.ParseTime(to)
		if err != nil {
			return err
		}
		opts.To = t.From
	}
	for _, name := range symbols {
		found := r.Image.At(r.Report.First).Lookup(name)
		if len(found) == 0 {
			return fmt.Errorf("no symbol %s", name)
		}
		for _, s := range found {
			opts.Ranges = append(opts.Ranges, timeline.Range{Lo: s.Addr, Hi: s.Addr + max(s.Size, 1)})
		}
	}
	if err := os.MkdirAll(filepath.Join(into, "oracle"), 0o777); err != nil {
		return err
	}
	if _, err := trim.Write(filepath.Join(into, "rec.data"), r, opts); err != nil {
		return err
	}
	after, err := replay.Load(filepath.Join(into, "rec.data"), replay.Options{})
	if err != nil {
		return err
	}
	defer after.Close()

	list, err := corpus.Oracles(from)
	if err != nil {
		return err
	}
	table, err := os.Create(filepath.Join(into, "oracle", "oracles.tsv"))
	if err != nil {
		return err
	}
	defer table.Close()
	fmt.Fprintf(table, "# label\tt_before_ns\tt_after_ns\n")
	for _, o := range list {
		if o.Outside() || labels != nil && !slices.Contains(labels, o.Label) {
			continue
		}
		if err := cutOracle(o, after, filepath.Join(into, "oracle", o.Label+".elf")); err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%d\n", o.Label, o.Before, o.After)
	}
	return table.Close()
}

// cutOracle keeps of an oracle the pages of the recording's snapshot and those
// of dynamic code.
func cutOracle(o corpus.Oracle, r *replay.Replay, path string) error {
	core, err := kcore.OpenCore(o.Path)
	if err != nil {
		return err
	}
	defer core.Close()
	pages := make(map[uint64]bool)
	add := func(lo, hi uint64) {
		for p := lo &^ (pageSize - 1); p < hi; p += pageSize {
			pages[p] = true
		}
	}
	for _, s := range r.Report.Segments {
		add(s.Lo, s.Hi)
	}
	for s := range r.Image.Symbols {
		if s.From <= o.Time() && o.Time() < s.To {
			add(s.Addr, s.Addr+s.Size)
		}
	}
	var segs []kcore.Segment
	for _, s := range core.Segments {
		for i := 0; i < len(s.Data); {
			n := min(pageSize-int((s.Addr+uint64(i))%pageSize), len(s.Data)-i)
			a := s.Addr + uint64(i)
			if pages[a&^(pageSize-1)] {
				if k := len(segs); k > 0 && segs[k-1].Addr+uint64(len(segs[k-1].Data)) == a && i > 0 {
					segs[k-1].Data = s.Data[segs[k-1].Addr-s.Addr : uint64(i+n)]
				} else {
					segs = append(segs, kcore.Segment{Addr: a, Data: s.Data[i : i+n]})
				}
			}
			i += n
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(kcore.WriteCore(w, core.Machine, core.Class, core.Data, segs, nil), w.Flush(), f.Close())
}
