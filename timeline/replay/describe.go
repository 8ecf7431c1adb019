// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/hex"
	"strings"

	"github.com/textreplay/textreplay/internal/recordargs"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// describe fills in the part of the report that the recording's header gives.
func (s *scan) describe(r *Replay) {
	rep, rec := s.report, s.rec
	if s.follows {
		s.tracepoints()
	}
	rep.Kernel, _ = rec.OSRelease()
	rep.Arch, _ = rec.Arch()
	rep.Host, _ = rec.Hostname()
	var core *kcore.Core
	if r.Snapshot != nil {
		core = r.Snapshot.Core
	}
	s.arch = architectureOf(core, rep.Arch)
	if p := s.probes; p != nil {
		if w := &p.writer; w.arm == nil || w.core != core || w.k != r.kallsyms {
			*w = newProbeCode(core, r.kallsyms)
		}
		p.sources = r.counters
	}
	rep.Arch = s.arch.name
	rep.Producer = ""
	if v, err := rec.Version(); err == nil {
		rep.Producer = "perf " + v
	}
	args, err := rec.Cmdline()
	confined := s.options.Cgroup
	s.options, s.disabled = recordargs.Limits{}, nil
	if s.machine == 0 {
		s.options = recordargs.LimitsOf(args) // a guest's perf had another command line
		s.codeReads = newCodeReads(r.journal)
		if s.journal = r.journal; s.journal != nil {
			s.options = recordargs.Limits{Known: true} // perf did not record this
			rep.Producer = strings.TrimPrefix(rep.Producer, "perf ")
		}
	}
	if s.options.Cgroup != confined {
		s.chosen = false
	}
	if err == nil && len(args) > 0 {
		rep.Producer = strings.TrimSpace(rep.Producer + ": " + strings.Join(args, " "))
	}
	if available, online, err := rec.NRCPUs(); err == nil {
		rep.CPUsAvailable, rep.CPUsOnline = int(available), int(online)
	} else {
		rep.CPUsAvailable, rep.CPUsOnline = s.cpus, s.cpus
	}
	rep.Clock.describe(rec)
	if s.machine != 0 {
		s.describeGuest(core)
	}
}

// conclude fills in the part of the report that the records give.
func (s *scan) conclude() {
	rep := s.report
	if rep.First == timeline.MaxTime { // of what overwrites its oldest records, if there is nothing else
		for _, b := range s.buffers {
			if b.first != 0 {
				rep.First = min(rep.First, b.first)
			}
		}
	}
	if rep.First == timeline.MaxTime {
		rep.First = 0
	}
	rep.Last = s.newest
	rep.Clean = s.clean
	rep.BuildID = hex.EncodeToString(s.kernelBuildID())
	rep.Guests = s.guests.list(s.rec.Dir())
	rep.Records = make(map[perfdata.RecordType]uint64)
	for t, n := range s.counts {
		if n > 0 {
			rep.Records[perfdata.RecordType(t)] = n
		}
	}
	for t, n := range s.others {
		rep.Records[t] = n
	}
}
