// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Vcpuhost makes a recording look like that of a host on which a virtual
// machine runs: it adds the COMM records by which perf inject --guest-data
// learns which threads are the machine's virtual CPUs. All else stays as it was.
//
//	go run ./internal/vcpuhost -pid 7001 -vcpus 2 FROM TO
//	perf inject --guest-data=GUEST,7001 -i TO -o MERGED
//
// FROM and TO are perf.data directories. It is how testdata/guest was made,
// where host and guest are recordings of two machines that knew nothing of one
// another.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/perfdata"
)

func main() {
	log.SetFlags(0)
	pid := flag.Uint("pid", 7001, "the machine's process `id`")
	vcpus := flag.Uint("vcpus", 2, "how many virtual `CPUs` it has")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), uint32(*pid), uint32(*vcpus)); err != nil {
		log.Fatal(err)
	}
}

func run(from, to string, pid, vcpus uint32) (err error) {
	r, err := perfdata.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := os.Mkdir(to, 0o777); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(to, "data"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := perfdata.NewWriter(f, r.ByteOrder())
	if err := w.SetEvents(r.Events()); err != nil {
		return err
	}
	sc := r.Scan()
	for sc.Next() {
		rec := sc.Record()
		if rec.Type == perfdata.RecordFinishedInit {
			trailer, err := zeros(r)
			if err != nil {
				return err
			}
			for i := range vcpus {
				if err := w.WriteRecord(comm(r.ByteOrder(), pid, pid+1+i, fmt.Sprintf("CPU %d/KVM", i), trailer)); err != nil {
					return err
				}
			}
		}
		if err := w.WriteRecord(rec.Raw); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return err
	}
	for _, feature := range r.Features() {
		data, err := r.Feature(feature)
		if err != nil {
			return err
		}
		if err := w.WriteFeature(feature, data); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), os.CopyFS(filepath.Join(to, "kcore_dir"), os.DirFS(filepath.Join(from, "kcore_dir"))))
}

// zeros returns the trailer of the records that perf synthesizes, as long as
// those of the recording's own COMM records.
func zeros(r *perfdata.Recording) ([]byte, error) {
	sc := r.Scan(perfdata.Only(perfdata.RecordComm))
	for sc.Next() {
		var c perfdata.Comm
		rec := sc.Record()
		if err := r.Comm(rec, &c); err != nil {
			return nil, err
		}
		if c.Time == 0 {
			return make([]byte, len(rec.Raw)-16-(len(c.Comm)+8)&^7), nil
		}
	}
	return nil, errors.Join(sc.Err(), errors.New("no COMM record of perf's own"))
}

// comm returns a COMM record of the thread tid of the process pid.
func comm(order binary.ByteOrder, pid, tid uint32, name string, trailer []byte) []byte {
	n := (len(name) + 8) &^ 7
	raw := make([]byte, 16+n, 16+n+len(trailer))
	copy(raw[16:], name)
	raw = append(raw, trailer...)
	order.PutUint32(raw, uint32(perfdata.RecordComm))
	order.PutUint16(raw[6:], uint16(len(raw)))
	order.PutUint32(raw[8:], pid)
	order.PutUint32(raw[12:], tid)
	return raw
}
