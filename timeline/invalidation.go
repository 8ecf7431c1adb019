// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"iter"
)

// An Invalidation is a time at which the answer for a range of addresses changes. What a
// decoder has cached of the range is no longer valid from then on.
type Invalidation struct {
	Range
	// Validity is that of the new answer: the change is at Since.
	Validity
	// Standing is that of the new answer.
	Standing Standing
	// Bytes reports whether the bytes change, or whether there are any. If not, only what
	// is known of them changes: their standing, its reason, or the fact that gives them.
	Bytes bool
}

// Invalidations yields the changes of all answers for [lo, hi) at times t with after < t
// and t <= until: what a decoder has to drop from its caches when its time goes from after
// to until. They are in the order of addresses, and those of one place in the order of
// time. Neighbours that change at the same time and in the same way are one.
func (im *Image) Invalidations(lo, hi, after, until uint64) iter.Seq[Invalidation] {
	return func(yield func(Invalidation) bool) {
		// The invalidations of the fragment before, which may go on in the next one.
		var pending, next []Invalidation
		flush := func() bool {
			for _, v := range pending {
				if !yield(v) {
					return false
				}
			}
			pending = pending[:0]
			return true
		}
		for i := im.find(lo); i < len(im.fragments) && im.fragments[i].addr < hi; i++ {
			f := &im.fragments[i]
			own := Range{max(lo, f.addr), min(hi, f.addr+uint64(f.size))}
			next = next[:0]
			var last versionAt
			if after < until {
				last = im.at(&f.versions, after)
			}
			for k := im.indexAt(&f.versions, after) + 1; after < until && k < f.count; k++ {
				v := im.version(&f.versions, k)
				if v.since > until {
					break
				}
				if v.since > after {
					next = append(next, Invalidation{own, Validity{v.since, v.until}, v.standing, im.bytesDiffer(f, &last, &v)})
				}
				last = v
			}
			if sameChanges(pending, next) {
				for k := range pending {
					pending[k].Hi = own.Hi
				}
				continue
			}
			if !flush() {
				return
			}
			pending, next = next, pending
		}
		flush()
	}
}

// sameChanges reports whether b are the changes a, of the addresses directly behind.
func sameChanges(a, b []Invalidation) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if x, y := &a[i], &b[i]; x.Hi != y.Lo || x.Validity != y.Validity || x.Standing != y.Standing || x.Bytes != y.Bytes {
			return false
		}
	}
	return true
}

// bytesDiffer reports whether two versions of f differ in more than in what is known of
// their bytes.
func (im *Image) bytesDiffer(f *fragment, a, b *versionAt) bool {
	x, y := im.givenBy(f, a), im.givenBy(f, b)
	if x == nil || y == nil {
		return x != nil || y != nil || a.standing != b.standing || a.standing == Conflicting
	}
	return (a.standing == Retired) != (b.standing == Retired) || !bytes.Equal(x, y)
}

// givenBy returns the bytes of a version of f; nil if facts do not give one content.
func (im *Image) givenBy(f *fragment, v *versionAt) []byte {
	switch {
	case !v.standing.HasBytes():
		return nil
	case v.standing == InFlight:
		return im.contentBytes(f, im.after(v.content))
	}
	return im.contentBytes(f, v.content)
}

// LastChange returns the last time at which the bytes of any of [addr, addr+n) change, or
// come or go; 0 if they never do. So nothing of [addr, addr+n) ever changes after t if
// LastChange is not after t. A change of what is known of the same bytes does not count:
// at the latest, they are unconfirmed from [Image.Horizon] on.
func (im *Image) LastChange(addr, n uint64) uint64 {
	last := uint64(0)
	for i := im.find(addr); i < len(im.fragments) && (im.fragments[i].addr <= addr || im.fragments[i].addr-addr < n); i++ {
		last = max(last, im.lastChange(&im.fragments[i]))
	}
	return last
}

func (im *Image) lastChange(f *fragment) uint64 {
	after := im.version(&f.versions, f.count-1)
	for k := f.count - 1; k > 0; k-- {
		v := im.version(&f.versions, k-1)
		if im.bytesDiffer(f, &v, &after) {
			return after.since
		}
		after = v
	}
	return 0
}

// ChangingPages yields the addresses of the pages, of pageSize bytes each, in which any
// byte ever changes, comes or goes (see [Image.LastChange]), by address. pageSize is a
// power of two.
func (im *Image) ChangingPages(pageSize uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		next := uint64(0) // the first page that was not yielded
		for i := range im.fragments {
			f := &im.fragments[i]
			end := f.addr + uint64(f.size-1)
			first := max(f.addr&^(pageSize-1), next)
			if first > end || im.lastChange(f) == 0 {
				continue
			}
			for page := first; ; page += pageSize {
				if !yield(page) {
					return
				}
				if next = page + pageSize; next > end || next == 0 {
					break
				}
			}
			if next == 0 {
				return
			}
		}
	}
}
