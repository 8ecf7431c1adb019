// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// groupDesc returns a GROUP_DESC section with n groups that have all of the first events.
func groupDesc(n, events uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, n)
	group := binary.LittleEndian.AppendUint32(make([]byte, 8), events) // no name, the leader is event 0
	return append(b, bytes.Repeat(group, int(n))...)
}

// TestManyGroups: of groups that overlap, and of GROUP_DESCs that come again and again, not each goes
// through all events. perf writes neither.
func TestManyGroups(t *testing.T) {
	const events, many = 1 << 16, 1 << 18
	for name, read := range map[string]func(r *Recording, d *description){
		"groups": func(r *Recording, d *description) {
			d.feature(FeatureGroupDesc, 0, groupDesc(many, events))
		},
		"sections": func(r *Recording, d *description) {
			for range many {
				d.feature(FeatureGroupDesc, 0, groupDesc(1, events))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Recording{endian: little}
			list := make([]*Event, events)
			for i := range list {
				list[i] = &Event{Attr: Attr{SampleType: SampleIdentifier}, IDs: []uint64{uint64(i) + 1}}
			}
			r.setEvents(list)
			d := newDescription(r)
			done := make(chan struct{})
			go func() {
				defer close(done)
				read(r, d)
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("not read after a minute")
			}
			if groups, err := r.GroupDesc(); err != nil || len(groups) == 0 {
				t.Errorf("%d groups, %v", len(groups), err)
			}
		})
	}
}
