// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"testing"
	"time"
)

// A machine is what pages take on it, of HugePage bytes each.
type machine struct {
	huge, usual func(n int) time.Duration // of the n-th
	pages       []bool                    // whether each is a huge one
}

func (m *machine) want(huge bool, first, end int) {
	for range end - first {
		m.pages = append(m.pages, huge)
	}
}

func (m *machine) touch(page int, part float64) time.Duration {
	n := len(m.pages) - 1
	if m.pages[n] {
		return m.huge(n)
	}
	return time.Duration(float64(m.usual(n)) * part)
}

// spent is what all pages took.
func (m *machine) spent() (sum time.Duration) {
	for n, huge := range m.pages {
		if huge {
			sum += m.huge(n)
		} else {
			sum += m.usual(n)
		}
	}
	return sum
}

// TestCheaper: whatever pages take, those that are chosen take little more than the cheaper ones would,
// in pieces of any size.
func TestCheaper(t *testing.T) {
	const fast, middle, slow = 200 * time.Microsecond, 900 * time.Microsecond, 5 * time.Millisecond
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	change := func(at int, before, then time.Duration) func(int) time.Duration {
		return func(n int) time.Duration {
			if n < at {
				return before
			}
			return then
		}
	}
	const pages = 200
	for name, tt := range map[string]struct {
		huge, usual func(int) time.Duration
		most        float64 // times the least
	}{
		"huge pages are cheap":                 {always(fast), always(middle), 1},
		"the host has to find them":            {always(slow), always(middle), 1.1},
		"from some page on":                    {change(30, fast, slow), always(middle), 1.15},
		"up to some page":                      {change(30, slow, fast), always(middle), 1.4},
		"the host has to find usual pages too": {always(slow), always(slow + middle), 1.01},
		"from some usual page on":              {always(slow), change(50, middle, 3*slow), 1.05},
		"all are slow":                         {always(2 * middle), always(3 * middle), 1.01},
		"they are there":                       {always(present / 2), always(middle), 1},
	} {
		for _, size := range []int{1, 2, 10} {
			m, p := &machine{huge: tt.huge, usual: tt.usual}, &prices{}
			for range pages / size {
				p.choose(m, size)
			}
			if len(m.pages) != pages {
				t.Fatalf("%s: %d pages were asked for of %d", name, len(m.pages), pages)
			}
			least := time.Duration(0)
			for n := range pages {
				least += min(tt.huge(n), tt.usual(n))
			}
			if ratio := float64(m.spent()) / float64(least); ratio > tt.most {
				t.Errorf("%s, %d at a time: %.3f times the least, at most %.2f expected", name, size, ratio, tt.most)
			}
		}
	}
}
