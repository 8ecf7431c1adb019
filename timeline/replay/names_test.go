// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestModuleNames: modules are unloaded and loaded again at other addresses. With copies of
// the kernel from different times, each module function has the name that kallsyms
// had then. Without copies, no function has the name of code that was replaced.
func TestModuleNames(t *testing.T) {
	for _, name := range []string{"x86_64/modfull", "x86_64/rich", "x86_64/hotplug", "arm64/rich", "ppc64le/rich"} {
		t.Run(name, func(t *testing.T) { judgeNames(t, corpus.Large(t, name)) })
	}
	// Recordings in $TEXTREPLAY_OTHER.
	others, _ := filepath.Glob(filepath.Join(os.Getenv("TEXTREPLAY_OTHER"), "*", "oracle", "begin.kallsyms"))
	for _, file := range others {
		dir := filepath.Dir(filepath.Dir(file))
		t.Run(filepath.Base(dir), func(t *testing.T) { judgeNames(t, dir) })
	}
}

// judgeNames compares a recording with each oracle's own symbols: once with all oracles as
// further snapshots, once with none.
func judgeNames(t *testing.T, dir string) {
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		t.Fatal(err)
	}
	oracles = slices.DeleteFunc(oracles, corpus.Oracle.Outside)
	var copies []replay.Copy
	for _, o := range oracles {
		copies = append(copies, replay.Copy{KCore: kcoreDirOf(t, o), Made: replay.Times{From: o.Before, To: o.After}})
	}
	for what, opts := range map[string]replay.Options{"with copies": {Copies: copies}, "without": {}} {
		r, err := replay.Load(filepath.Join(dir, "rec.data"), opts)
		if err != nil {
			t.Fatal(err)
		}
		named, unnamed := 0, 0
		sum := score{}
		for _, o := range oracles {
			judge(t, r.Image, o, sum)
			k, there := symbolsOf(t, o)
			v := r.Image.At(o.Time())
			for _, sym := range k.All() {
				if sym.Type != 't' && sym.Type != 'T' || !there(sym) {
					continue
				}
				want, size, ok := k.Find(sym.Addr)
				if !ok {
					continue // $x
				}
				got, ok := v.Symbol(sym.Addr)
				if !ok || got.To <= v.Time() {
					unnamed++
					continue
				}
				if named++; got.Name != want.Name || got.Module != want.Module || got.Addr != want.Addr || got.Size != size && got.Size*size != 0 {
					t.Errorf("%s, %s: %#x is %s:%s+%d, want %s:%s+%d", what, o.Label, sym.Addr, got.Module, got.Name, got.Size, want.Module, want.Name, size)
				}
			}
		}
		t.Logf("%s: %d names, %d functions without", what, named, unnamed)
		if named == 0 || what == "with copies" && unnamed > 0 {
			t.Errorf("%s: %d functions of modules have a name, %d have none", what, named, unnamed)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// symbolsOf returns the symbols of an oracle. there reports whether a module's symbol was
// still loaded: kallsyms may list an init section after it is freed.
func symbolsOf(t *testing.T, o corpus.Oracle) (k *kcore.Kallsyms, there func(kcore.Symbol) bool) {
	read := func(ending string) []byte {
		text, err := os.ReadFile(strings.TrimSuffix(o.Path, ".elf") + ending)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	k, err := kcore.ParseKallsyms(read(".kallsyms"))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := kcore.ParseModules(read(".modules"))
	if err != nil {
		t.Fatal(err)
	}
	return k, func(sym kcore.Symbol) bool {
		return slices.ContainsFunc(modules, func(m kcore.Module) bool {
			return m.Name == sym.Module && sym.Addr-m.Addr < m.Size
		})
	}
}

// kcoreDirOf makes a kcore_dir from an oracle.
func kcoreDirOf(t *testing.T, o corpus.Oracle) string {
	dir := t.TempDir()
	base := strings.TrimSuffix(o.Path, ".elf")
	for file, from := range map[string]string{"kcore": o.Path, "kallsyms": base + ".kallsyms", "modules": base + ".modules"} {
		if err := os.Symlink(from, filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestModulesAtEnd: modules whose unload is not recorded are loaded at the end of time too.
func TestModulesAtEnd(t *testing.T) {
	r := load(t, "small")
	last, end := r.ModulesAt(timeline.MaxTime-1), r.ModulesAt(timeline.MaxTime)
	if len(last) == 0 || len(end) != len(last) {
		t.Errorf("%d modules at the end, %d right before it", len(end), len(last))
	}
	for _, m := range end {
		if !r.Image.At(timeline.MaxTime).InModule(m.Addr) {
			t.Errorf("%s is not in the image", m.Name)
		}
	}
}
