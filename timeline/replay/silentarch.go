// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "fmt"

// architecture returns the architecture that Report.Arch names.
func (r *Report) architecture() architecture { return architectureOf(nil, r.Arch) }

// whatFollows explains what the answers depend on if the architecture does not record
// its pokes.
func (r *Report) whatFollows() []string {
	if !r.architecture().silent() {
		return nil
	}
	if r.Probes != nil {
		return r.Probes.whatFollows()
	}
	var out []string
	switch {
	case r.SnapshotBytes == 0 && r.Pokes.inPlace() == 0:
		out = append(out, "without a copy of kernel text (kcore_dir) there are no answers about it")
	case r.SnapshotBytes == 0:
		out = append(out, "without a copy of kernel text (kcore_dir) only poked places have answers")
	case r.Copied != nil:
		out = append(out, fmt.Sprintf("answers give the text that perf copied by %s as unconfirmed: later changes were not recorded", Seconds(r.Copied.To)))
	}
	if r.Pokes.inPlace() > 0 {
		out = append(out, "a place is known only between two pokes of it, if the later one's old bytes are the earlier one's new bytes")
	}
	if r.BPF.WithBytes > 0 {
		out = append(out, fmt.Sprintf("BPF programs do not depend on this: %d of %d have bytes, which are known while the program is loaded, except where this kernel patches them",
			r.BPF.WithBytes, r.BPF.Programs))
	}
	return out
}
