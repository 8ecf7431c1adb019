// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"flag"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/web"
)

var hostile = flag.Int("hostile", 12, "how many forged indexes TestHostileIndex makes of each recording")

// TestHostileIndex: an index that somebody has forged, with checksums that are right,
// can make answers wrong; that is why only trusted ones are used. But it does not
// crash the program, nor keep it busy without end.
func TestHostileIndex(t *testing.T) {
	commands := [][]string{
		{"info"}, {"info", "--json"}, {"verify"}, {"verify", "--json"}, {"audit", "--json"}, {"log", "--summary"}, {"log"}, {"log", "--json"}, {"symbols", "--json"},
		{"at", "do_sys_openat2", "50%", "--json"}, {"at", "do_sys_openat2", "start..end"}, {"history", "do_sys_openat2", "-n", "64"},
		{"diff", "20%", "80%"}, {"image", "--at", "50%", "-o", "image", "--unknown", "unknown", "--fill", "0"},
		{"image", "--at", "end", "--require", "any", "--kcore-dir", "dir"}, {"pprof", "-o", "profile"},
		{"perfetto", "-o", "trace"}, {"report", "-o", "report", "--max-size", "1"},
		{"export", "--table", "changes", "-o", "-"}, {"export", "--table", "gaps", "-o", "-"}, {"export", "--table", "symbols", "-o", "-"},
		{"oops", "oops"}, {"audit", "--explain", "0x10", "e9"},
	}
	pages := []string{"/", "/map", "/map/tile?zx=1&zy=1&x=0&y=0", "/at?addr=do_sys_openat2&t=50%25", "/functions", "/diff?from=20%25&to=80%25", "/log", "/search?q=open",
		"/suggest?q=open", "/profile/flamegraph"}
	oops, err := os.ReadFile("../../testdata/small/oops.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"small", "rich", "callgraph", "s390x", "lossy"} {
		t.Run(name, func(t *testing.T) {
			rec, err := filepath.Abs(filepath.Join("../../testdata", name, "rec.data"))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			if err := os.WriteFile("oops", oops, 0o600); err != nil {
				t.Fatal(err)
			}
			quietly := func(args ...string) int {
				return run(append(args, "-i", rec, "--index", "index"), strings.NewReader(""), io.Discard, io.Discard)
			}
			if code := quietly("info"); code > exitBelow {
				t.Fatalf("exit code %d", code)
			}
			whole, err := os.ReadFile("index")
			if err != nil {
				t.Fatal(err)
			}
			seeds := *hostile
			if testing.Short() {
				seeds = (seeds + 4) / 5
			}
			for seed := range seeds {
				forged := forge(whole, rand.New(rand.NewPCG(uint64(seed), 1)))
				if err := os.WriteFile("index", forged, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, args := range commands {
					t.Logf("%d: %v", seed, args)
					quietly(args...) // to whatever end
					// It is made anew if the program would not have it.
					if now, err := os.ReadFile("index"); err != nil || !bytes.Equal(now, forged) {
						break
					}
				}
				if seed%4 != 0 {
					continue
				}
				srv, err := web.New(web.Options{Open: (&webInput{app: &app{stdin: strings.NewReader(""), stderr: io.Discard, input: rec, index: "index"}}).open})
				if err != nil {
					continue
				}
				base := serve(t, srv)
				for _, path := range pages {
					// A connection without an answer is a panic.
					answer, err := http.Get(base + path)
					if err != nil {
						t.Fatalf("%d: %s: %v", seed, path, err)
					}
					answer.Body.Close()
				}
			}
		})
	}
}

// forge changes a few numbers of an index, and makes its checksums right again.
func forge(index []byte, rng *rand.Rand) []byte {
	const (
		header    = 128
		sums      = 20 // places in the header
		directory = 24
		windows   = 32
		sections  = 72
		entry     = 24 // bytes: place, length, and size of an element
		block     = 1 << 10
		poke      = 24 // bytes
	)
	data := bytes.Clone(index)
	u64 := binary.LittleEndian.Uint64
	n := int(binary.LittleEndian.Uint32(data[sections:]))
	section := func(i int) []byte {
		e := data[u64(data[directory:])+uint64(i)*entry:]
		return data[u64(e):][:u64(e[8:])]
	}
	pokes := data[u64(data[windows:]):]
	for range 1 + rng.IntN(3) {
		part := pokes
		if i := rng.IntN(n + 1); i < n {
			part = section(i)
		}
		switch {
		case len(part) < 8:
		case part[0] == '{': // JSON
			forgeNumber(part, rng)
		default:
			at := rng.IntN(len(part)-7) &^ (1<<rng.IntN(4) - 1)
			value := []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, u64(part[at:]) + 1, u64(part[at:]) - 1, rng.Uint64(), uint64(rng.IntN(300))}[rng.IntN(8)]
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], value)
			copy(part[at:], b[:1<<rng.IntN(4)])
		}
	}
	checks := section(n - 1) // of the windows, a block each
	for i := 0; i*block*poke < len(pokes); i++ {
		b := pokes[i*block*poke:]
		binary.LittleEndian.PutUint32(checks[4*i:], crc32.ChecksumIEEE(b[:min(len(b), block*poke)]))
	}
	binary.LittleEndian.PutUint32(data[sums:], crc32.ChecksumIEEE(data[header:u64(data[windows:])]))
	return data
}

var jsonNumber = regexp.MustCompile(`[:\[,]-?[0-9]+`)

// forgeNumber changes a number of a text in JSON to another one of as many digits.
func forgeNumber(text []byte, rng *rand.Rand) {
	all := jsonNumber.FindAllIndex(text, -1)
	if len(all) == 0 {
		return
	}
	m := all[rng.IntN(len(all))]
	place := text[m[0]+1 : m[1]]
	for i := range place {
		place[i] = '9'
		if rng.IntN(2) == 0 {
			place[i] = strconv.Itoa(rng.IntN(10))[0]
		}
	}
	if len(place) > 1 && place[0] == '0' {
		place[0] = []byte("-1")[rng.IntN(2)]
	}
}
