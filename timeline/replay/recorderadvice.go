// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/internal/recordargs"
	"github.com/textreplay/textreplay/perfdata"
)

const (
	defaultPages = 128     // of -m of "textreplay record"
	probeBytes   = 4 << 20 // the default where probes record the changes
	leastBytes   = 4 << 20 // the least that is advised
)

// recorderAdvice derives the advice for a recording of "textreplay record".
func (rep *Report) recorderAdvice(args []string, j *recorderJournal, events []*perfdata.Event) *Advice {
	a := &Advice{}
	if rep.adviseSilent(a) {
		return a
	}
	options, workload, ok := recordargs.SplitRecorder(args)
	if !ok {
		options, workload = nil, []string{"sleep", "10"}
		a.change("", "this is a general command: the recording does not have its own, or it is not understood")
	}
	has := func(name string) bool {
		return slices.ContainsFunc(events, func(e *perfdata.Event) bool { return e.Name == name })
	}
	switch {
	case rep.Misfit != "" || rep.SnapshotBytes != 0 || len(rep.Copies) != 0:
	case j.ended == 0 && j.own == nil:
		a.change("", "the recorder was killed before it had copied kernel text, or could not read it (run as root, CAP_SYS_RAWIO)")
	case j.own != nil:
		a.change("", "kcore_dir is missing: keep it in the recording's directory")
	default:
		a.change("", "kernel text could not be copied: run as root (CAP_SYS_RAWIO, CAP_SYSLOG), and not under lockdown; "+
			"some kernels have no /proc/kcore")
	}
	if !has("module:module_load") || !has("module:module_free") {
		a.change("", "the loads and unloads of modules were not recorded: mount tracefs, and run as root")
	}
	if !j.start.FollowsCPUs {
		a.change("", "the recorder was not told of CPUs that come online: allow AF_NETLINK sockets")
	}
	// A recorder that has read some had the rights to read the others: these ended before,
	// and no option helps.
	if n := rep.BPF.Programs - rep.BPF.Interpreted; n > 0 && rep.BPF.WithBytes == 0 {
		a.change("", fmt.Sprintf("none of %d BPF programs has its code: run as root (CAP_SYS_ADMIN)", n))
	}
	if len(rep.Losses) > 0 {
		pages := strconv.Itoa(rep.largerRing(options))
		options = recordargs.SetOption(options, "-m", "--mmap-pages", pages)
		a.change("-m "+pages, "records were lost: larger ring buffers")
	}
	if len(j.gaps) > 0 {
		a.change("", "CPUs came online during the recording, which leaves gaps: bring up all before, and let them be")
	}
	if rep.Conflicts > 0 && !slices.ContainsFunc(options, func(o recordargs.Option) bool { return o.Name == "--snapshot-every" }) {
		options = recordargs.SetOption(options, "", "--snapshot-every", "10m")
		a.change("--snapshot-every 10m", "facts contradict each other: more copies show sooner where text changed with no record")
	}
	if j.ended == 0 {
		a.change("", "the recorder did not end: end it with SIGINT or SIGTERM, not SIGKILL; if it still records, there is nothing to do")
	}
	a.Command = []string{"textreplay", "record"}
	for _, o := range options {
		a.Command = append(a.Command, o.Text...)
	}
	if len(workload) > 0 {
		a.Command = append(append(a.Command, "--"), workload...)
	}
	return a
}

// largerRing returns twice the pages of -m, at least those of leastBytes, as a power of two.
// The pages of powerpc have 64 KiB mostly, those of the other architectures 4 KiB.
func (rep *Report) largerRing(options []recordargs.Option) int {
	pages, pageSize := defaultPages, 4<<10
	if strings.HasPrefix(rep.Arch, "ppc64") {
		pageSize = 64 << 10
	}
	if rep.Probes != nil {
		pages = probeBytes / pageSize
	}
	for _, o := range options {
		if o.Name == "-m" || o.Name == "--mmap-pages" {
			if n, err := strconv.Atoi(o.Value); err == nil && 0 < n && n < 1<<30 {
				pages = n
			}
		}
	}
	return max(leastBytes/pageSize, 2<<(bits.Len(uint(pages))-1))
}
