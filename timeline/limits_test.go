// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/textreplay/textreplay/internal/cputime"
)

// TestCrowded: of symbols that overlap by the thousand an image says nothing,
// instead of taking memory for each of them at each of their edges. Text and
// other symbols are answered as ever.
func TestCrowded(t *testing.T) {
	const n = 40_000
	b := kernel()
	b.Extent(first, 100_000)
	b.Poke(pokeAt(0x1100, 500, "9090", "eb02"))
	page := SymbolEvent{Kind: SymbolOutOfLine, Name: "kprobe_insn_page", Len: 8}
	page.Time, page.Addr = 300, 0x9000
	b.Symbol(page)
	b.Poke(pokeAt(0x9000, 400, "", "90cccccccccccc90"))
	for i := range uint64(n) {
		page.Time, page.Addr, page.Len = 300+i, 0x10_0000+16*i, 1<<24
		b.Symbol(page)
	}
	page.Time, page.Addr, page.Len = 300, 1<<32, 8
	b.Symbol(page)
	b.Poke(pokeAt(1<<32, 400, "", "cccccccccccccc90"))

	began := cputime.Start()
	im := mustBuild(t, b)
	began.AtMost(t, time.Minute)
	st := im.Stats()
	if most := (spareBytes + n*spareOfSymbol) * 2 / bytesOfFact; st.Versions > most {
		t.Errorf("%d versions, want %d at most", st.Versions, most)
	}
	if st.Crowded == 0 {
		t.Error("no place is too crowded")
	}
	for _, tt := range []struct {
		addr uint64
		want string
	}{
		{0x10_0000 + 1<<23, "0.. unknown too-many-facts\n"},
		{0x1100, lines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..100001 known eb02",
			"100001.. unconfirmed beyond-horizon eb02")},
		{0x9000, lines(
			"0..300 unmapped",
			"300..400 unknown out-of-line-gap",
			"400..100001 known 90cc",
			"100001.. unconfirmed beyond-horizon 90cc")},
		{1 << 32, lines(
			"0..300 unmapped",
			"300..400 unknown out-of-line-gap",
			"400..100001 known cccc",
			"100001.. unconfirmed beyond-horizon cccc")},
	} {
		if d := cmp.Diff(tt.want, history(im, tt.addr, 2)); d != "" {
			t.Errorf("%#x (-want +got):\n%s", tt.addr, d)
		}
	}
}

// TestCrowdedPokes: the same of long pokes that overlap many places, whose text
// has its own room.
func TestCrowdedPokes(t *testing.T) {
	b := kernel()
	b.limits.spare = 1000 * bytesOfFact
	long := make([]byte, textHi-textLo)
	for i := range uint64(50) {
		b.Poke(&Poke{Addr: textLo, Time: 300 + i, Old: long, New: long})
	}
	for a := uint64(textLo); a < textHi; a += 4 {
		b.Poke(pokeAt(a, 600, "00", "01"))
	}
	for i := range uint64(60) { // more than any of them
		b.Poke(pokeAt(0x9000, 400+i, "", "9090"))
	}
	im := mustBuild(t, b)
	if n := im.Stats().Versions; n > 50_000 {
		t.Errorf("%d versions", n)
	}
	if got := history(im, textHi-8, 1); got != "0.. unknown too-many-facts\n" {
		t.Errorf("the last bytes of text are %s", got)
	}
	if got, want := history(im, 0x9000, 2), lines("0..400 unmapped", "400.. retired nothing-alive 9090"); got != want {
		t.Errorf("a place with room is %s, want %s", got, want)
	}
}

// TestCrowdedTables: pokes that contradict one another wherever they overlap take the room for their
// tables, not only for their number. These are larger where the order of the pokes is not known. What
// lies before them, or has few of them, is answered as ever.
func TestCrowdedTables(t *testing.T) {
	const n = 180
	content := make([]byte, 2*n)
	for i := range content {
		content[i] = byte(i)
	}
	for _, tt := range []struct {
		name    string
		poke    func(i uint64) *Poke
		crowded uint64 // where
	}{
		{"in order", func(i uint64) *Poke { return &Poke{Addr: 0x1100 + i, Old: content[:n], New: content[n-i:][:n]} }, n},
		{"in no order", func(i uint64) *Poke {
			return &Poke{Addr: 0x1100, Old: content[i:][:i+1], New: content[i/2:][:i+1], CPU: int(i % 2)}
		}, n / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := kernel()
			b.Extent(first, 100_000)
			b.ClockSetBack(0, []Interval{{1000, 1060}, {2000, 2060}, {3000, 3060}})
			b.limits.spare = 0
			b.Poke(pokeAt(textLo, 500, "9090", "eb02"))
			for i := range uint64(n) {
				p := tt.poke(i)
				p.Time = 1000*(1+i/60) + i%60
				b.Poke(p)
			}
			im := mustBuild(t, b)
			if got, most := im.sizes().bytes(), 2*(n+1)*spareOfPoke; got > most {
				t.Errorf("the tables have %d bytes, want %d at most", got, most)
			}
			for _, w := range []struct {
				addr uint64
				want string
			}{
				{textLo, "500..100001 known eb\n"},
				{0x1100, "conflicting"},
				{0x1100 + tt.crowded, "0.. unknown too-many-facts\n"},
			} {
				if got := history(im, w.addr, 1); !strings.Contains(got, w.want) {
					t.Errorf("%#x is %.1000s, want %s", w.addr, got, w.want)
				}
			}
		})
	}
}

// TestCrowdedHides: facts that are left out because there are too many may contradict
// each other. So nothing is known where one contradiction in text is enough for that.
func TestCrowdedHides(t *testing.T) {
	hidden := lines(
		"0..300 unconfirmed silent-writers 9090",
		"300..400 unconfirmed silent-writers eb02",
		"400.. unconfirmed silent-writers eb04")
	for _, tt := range []struct {
		spare int
		want  string
	}{
		{1000, lines(
			"0..300 unconfirmed silent-writers 9090",
			"300..400 known eb02",
			"400.. unconfirmed silent-writers eb04")},
		{5 * bytesOfFact, hidden}, // but not for its tables
		{5*bytesOfFact - 1, hidden},
	} {
		b := kernel()
		b.Gap(GapPokes, 0, MaxTime, SilentWriters)
		b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
		b.Poke(pokeAt(0x1100, 400, "eb02", "eb04"))
		for i := range uint64(5) {
			b.Poke(pokeAt(0x1200, 300+i, "9090", "9090"))
		}
		b.limits.spare = tt.spare - 7*spareOfPoke
		if d := cmp.Diff(tt.want, history(mustBuild(t, b), 0x1100, 2)); d != "" {
			t.Errorf("room for %d (-want +got):\n%s", tt.spare, d)
		}
	}
}

// TestDropped: pokes beyond the limits are as if they had been lost, when they
// came. What is proven before and after stays.
func TestDropped(t *testing.T) {
	usual := []*Poke{
		pokeAt(0x1100, 300, "9090", "eb02"),
		pokeAt(0x1200, 310, "9090", "eb04"),
		pokeAt(0x1300, 400, "9090", "eb06"), // the third site
		pokeAt(0x1100, 410, "eb02", "eb08"), // the fourth poke
		pokeAt(0x1400, 450, "9090", "eb06"),
		pokeAt(0x1100, 500, "eb08", "eb0a"),
	}
	lost := lines(
		"0..100 unconfirmed outside-recording 9090",
		"100..310 known 9090",
		"310..400 known eb04",
		"400..1001 unconfirmed too-many-facts eb04",
		"1001.. unconfirmed beyond-horizon eb04")
	for _, tt := range []struct {
		name string
		set  func(b *Builder)
		n    uint64
		want string // at 0x1100
	}{
		{"places", func(b *Builder) { b.Limit(1000, 2) }, 2, lines(
			"0..100 unconfirmed outside-recording 9090",
			"100..300 known 9090",
			"300..400 known eb02",
			"400..410 unconfirmed too-many-facts eb02",
			"410..451 unconfirmed too-many-facts eb08",
			"451..500 known eb08",
			"500..1001 known eb0a",
			"1001.. unconfirmed beyond-horizon eb0a")},
		{"pokes", func(b *Builder) { b.Limit(2, 1000) }, 4, lines(
			"0..100 unconfirmed outside-recording 9090",
			"100..300 known 9090",
			"300..400 known eb02",
			"400..1001 unconfirmed too-many-facts eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
		{"contents", func(b *Builder) { b.limits.content = 8 }, 4, lines(
			"0..100 unconfirmed outside-recording 9090",
			"100..300 known 9090",
			"300..400 known eb02",
			"400..1001 unconfirmed too-many-facts eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := kernel()
			tt.set(b)
			for _, p := range usual {
				b.Poke(p)
			}
			if n, from, to := b.Dropped(); n != tt.n || from != 400 || to < 401 {
				t.Errorf("%d pokes dropped from %d to %d, want %d", n, from, to, tt.n)
			}
			im := mustBuild(t, b)
			if d := cmp.Diff(tt.want, history(im, 0x1100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if tt.name != "places" {
				if d := cmp.Diff(lost, history(im, 0x1200, 2)); d != "" {
					t.Errorf("another place (-want +got):\n%s", d)
				}
			}
		})
	}
}

// TestLimitsModel: an image with little room says the same as one with enough,
// or that it says nothing.
func TestLimitsModel(t *testing.T) {
	crowded, same := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := genModel(t)
		whole := m.image(t)
		b := m.builder(t)
		b.limits.spare = rapid.IntRange(0, 2000).Draw(t, "spare") - spareOfPoke*len(m.pokes) - spareOfSymbol*(len(m.symbols)+len(m.modules))
		im, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, base := range []uint64{0x1000, 0x8000, 0x9000} {
			for a := base - 1; a < base+24; a++ {
				for q := uint64(0); q <= lastTick; q += 3 {
					want, valid := replyOf(whole, a, q)
					got, v := replyOf(im, a, q)
					switch {
					case got.reason == TooManyFacts, got.reason == SilentWriters:
						crowded++ // what is left out may show a silent writer
					case got != want || v != valid:
						t.Fatalf("byte %#x at %d: %v [%d, %d), want %v [%d, %d)\n%v", a, q, got, v.Since, v.Until, want, valid.Since, valid.Until, m)
					default:
						same++
					}
				}
			}
		}
	})
	if crowded == 0 || same == 0 {
		t.Errorf("%d answers are missing, %d are the same", crowded, same)
	}
}

// TestManyRivals: very many changes of one place, each recorded by several CPUs in no order, take
// neither the square of their number in time nor in memory. They fit in another order, or in none.
func TestManyRivals(t *testing.T) {
	const n = 20_000
	for _, tt := range []struct {
		name          string
		before, after func(i int) int // the number of the content
		want          string          // when half of them are made
	}{
		{"in another order", func(i int) int { return i * 7919 % n }, func(i int) int { return i*7919%n + 1 }, "unknown too-many-facts"},
		{"in none", func(i int) int { return 2 * i }, func(i int) int { return 2*i + 1 }, "unknown too-many-facts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := kernel()
			b.Extent(first, 1e9)
			content := func(i int) string { return fmt.Sprintf("%08x", i) }
			for i := range n {
				p := pokeAt(0x1100, uint64(1000+i), content(tt.before(i)), content(tt.after(i)))
				p.CPU = i % 3
				b.Poke(p)
			}
			began := cputime.Start()
			im := mustBuild(t, b)
			began.AtMost(t, time.Minute)
			if got, most := len(im.claims), leastClaims+(claimsOfPoke+2)*n; got > most {
				t.Errorf("%d claims, want %d at most", got, most)
			}
			a := im.At(1000+n/2).Read(0x1100, make([]byte, 2))
			if got := fmt.Sprint(a.Standing, " ", a.Reason); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestManyUncertain: of very many changes whose times are uncertain, no two of them close, each takes as
// long as one of few.
func TestManyUncertain(t *testing.T) {
	const n = 100_000
	b := kernel()
	b.Extent(first, 1e9)
	b.ClockSetBack(1, nil)
	old, new := "9090", "eb02"
	for i := range uint64(n) {
		b.Poke(pokeAt(0x1100, 1000+10*i, old, new))
		old, new = new, old
	}
	began := cputime.Start()
	im := mustBuild(t, b)
	began.AtMost(t, time.Minute)
	for at, want := range map[uint64]string{
		1000 + 10*n/2 - 2: "known",
		1000 + 10*n/2 + 1: "in_flight clock-uncertainty",
		1000 + 10*n/2 + 2: "known",
	} {
		a := im.At(at).Read(0x1100, make([]byte, 2))
		if got := strings.TrimSpace(fmt.Sprint(a.Standing, " ", a.Reason)); got != want {
			t.Errorf("at %d %s, want %s", at, got, want)
		}
	}
}

// TestManyContents: the claims of at most so many different contents are kept that may be there at
// one time, because the times of the changes are uncertain.
func TestManyContents(t *testing.T) {
	for _, tt := range []struct {
		n    int // contents
		want string
	}{
		{2 * mostRivals, "1950..2177 in_flight clock-uncertainty"},
		{2*mostRivals + 1, "1950..2178 unknown too-many-facts\n"},
	} {
		b := kernel()
		b.Extent(first, 10_000)
		b.ClockSetBack(50, nil)
		content := func(i int) string { return fmt.Sprintf("%04x", 0x9090+i) }
		for i := range tt.n - 1 {
			b.Poke(pokeAt(0x1100, uint64(2000+i), content(i), content(i+1)))
		}
		got := history(mustBuild(t, b), 0x1100, 2)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%d contents: %.300s, want %s", tt.n, got, tt.want)
		}
		for _, side := range []string{"100..1950 known 9090", "known " + content(tt.n-1)} {
			if !strings.Contains(got, side) {
				t.Errorf("%d contents: %.300s, want %s", tt.n, got, side)
			}
		}
	}
}

// TestManyContradictions: changes of one place by one CPU that do not fit together, very many of them within a
// second, do not take the square of their number.
func TestManyContradictions(t *testing.T) {
	const n = 200_000
	b := kernel()
	b.Extent(first, 1_000*n)
	for i := range uint64(n) {
		b.Poke(&Poke{Time: 1_000 + 1_000*i, Addr: 0x1100, Old: []byte{byte(2*i + 1)}, New: []byte{byte(2 * i)}, CPU: 1})
	}
	began := cputime.Start()
	im := mustBuild(t, b)
	began.AtMost(t, 10*time.Second)
	for _, i := range []uint64{0, 1, n / 2, n - 2} {
		var got [1]byte
		if a := im.At(1_000+1_000*i).Read(0x1100, got[:]); a.Standing != Conflicting {
			t.Errorf("after change %d: %v", i, a.Standing)
		}
	}
}
