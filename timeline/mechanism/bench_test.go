// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// BenchmarkPoke classifies the changes of a large recording, again and again.
func BenchmarkPoke(b *testing.B) {
	r, err := replay.Load(filepath.Join(corpus.Large(b, "x86_64/rich"), "rec.data"), replay.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	type poke struct {
		perfdata.TextPoke
		kind timeline.PokeKind
	}
	var pokes []poke
	for c := range r.Changes() {
		if c.Poke != nil {
			p := poke{*c.Poke, c.Kind}
			p.Old, p.New = bytes.Clone(p.Old), bytes.Clone(p.New)
			pokes = append(pokes, p)
		}
	}
	c := NewClassifier(r, nil)
	b.ResetTimer()
	for i := range b.N {
		p := &pokes[i%len(pokes)]
		c.Poke(&p.TextPoke, p.kind)
	}
}
