// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "fmt"

// architecture returns what the report's Arch names.
func (r *Report) architecture() architecture { return architectureOf(nil, r.Arch) }

// whatFollows explains what the silence of the architecture means for the
// answers: what they still rest on.
func (r *Report) whatFollows() []string {
	if !r.architecture().silent() {
		return nil
	}
	var out []string
	switch {
	case r.SnapshotBytes == 0 && r.Pokes.inPlace() == 0:
		out = append(out, "without a copy beside the recording (kcore_dir) nothing is told of kernel text")
	case r.SnapshotBytes == 0:
		out = append(out, "without a copy beside the recording (kcore_dir) nothing is told of kernel text but what was poked")
	case r.Copied != nil:
		out = append(out, fmt.Sprintf("answers give it as perf copied it, by %s, as unconfirmed: what was patched since is not seen", Seconds(r.Copied.To)))
	}
	if r.Pokes.inPlace() > 0 {
		out = append(out, "only between two pokes of the same place, of which the later one found what the earlier one left, is that place known")
	}
	if r.BPF.WithBytes > 0 {
		out = append(out, fmt.Sprintf("BPF programs do not depend on it: %d of %d have bytes, known while they live, save what this kernel patches in them",
			r.BPF.WithBytes, r.BPF.Programs))
	}
	return out
}
