// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A kernelFile is the content of a vmlinux file for tests.
type kernelFile struct {
	text    uint64 // address of _stext and .text
	data    []byte
	rela    []elf.Rela64
	buildID []byte
	strip   bool // without symbols, as in a boot image
	machine elf.Machine
}

func (v *kernelFile) write(t *testing.T) string {
	t.Helper()
	order := binary.LittleEndian
	var body bytes.Buffer
	names := "\x00.text\x00.rela.text\x00.notes\x00.symtab\x00.strtab\x00.shstrtab\x00"
	sections := []elf.Section64{{}}
	add := func(name string, s elf.Section64, data any) {
		s.Name = uint32(strings.Index(names, "\x00"+name+"\x00") + 1)
		s.Off = uint64(64 + body.Len())
		if err := binary.Write(&body, order, data); err != nil {
			t.Fatal(err)
		}
		s.Size = uint64(64+body.Len()) - s.Off
		sections = append(sections, s)
	}
	add(".text", elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: v.text}, v.data)
	if v.rela != nil {
		add(".rela.text", elf.Section64{Type: uint32(elf.SHT_RELA), Info: 1, Entsize: 24}, v.rela)
	}
	if v.buildID != nil {
		note := append(order.AppendUint32(order.AppendUint32(order.AppendUint32(nil, 4), uint32(len(v.buildID))), 3), "GNU\x00"...)
		add(".notes", elf.Section64{Type: uint32(elf.SHT_NOTE)}, append(note, v.buildID...))
	}
	if !v.strip {
		add(".symtab", elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: uint32(len(sections) + 1), Entsize: 24},
			[]elf.Sym64{{}, {Name: 1, Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_NOTYPE), Shndx: 1, Value: v.text}})
		add(".strtab", elf.Section64{Type: uint32(elf.SHT_STRTAB)}, []byte("\x00_stext\x00"))
	}
	add(".shstrtab", elf.Section64{Type: uint32(elf.SHT_STRTAB)}, []byte(names))

	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(cmp.Or(v.machine, elf.EM_X86_64)), Version: 1, Shoff: uint64(64 + body.Len()),
		Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1)}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var out bytes.Buffer
	for _, part := range []any{h, body.Bytes(), sections} {
		if err := binary.Write(&out, order, part); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVmlinux: a vmlinux file is linked at other addresses than the kernel ran at. It gives
// the bytes that no poke gives.
func TestVmlinux(t *testing.T) {
	const dir = "../../testdata/rich/rec.data"
	whole, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	tapeTextLo, _ := whole.Image.Text()
	const size = 0x2000
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i * 7)
	}
	const linked = 0xffffffff81000000
	by := tapeTextLo - linked
	want := bytes.Clone(data)
	binary.LittleEndian.PutUint32(data[0x10:], 0x81000040)
	binary.LittleEndian.PutUint32(want[0x10:], 0x81000040+uint32(by))
	binary.LittleEndian.PutUint64(data[0x20:], linked+0x80)
	binary.LittleEndian.PutUint64(want[0x20:], tapeTextLo+0x80)
	rela := func(at uint64, typ elf.R_X86_64) elf.Rela64 {
		return elf.Rela64{Off: at, Info: elf.R_INFO(1, uint32(typ))}
	}
	v := kernelFile{text: linked, data: data, rela: []elf.Rela64{
		rela(linked+0x10, elf.R_X86_64_32S), rela(linked+0x20, elf.R_X86_64_64), rela(linked+0x30, elf.R_X86_64_PC32)}}
	for b, err := range whole.Recording.BuildIDs() {
		if err == nil && string(b.Filename) == "[kernel.kallsyms]" {
			v.buildID = bytes.Clone(b.BuildID)
		}
	}
	if v.buildID == nil {
		t.Fatal("the recording has no build id of its kernel")
	}

	// The recording without its copy of text.
	bare := filepath.Join(t.TempDir(), "perf.data")
	in, err := os.Open(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(bare)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}

	opts := Options{Kallsyms: filepath.Join(dir, "kcore_dir", "kallsyms"), Vmlinux: v.write(t)}
	r, err := Load(bare, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make([]byte, size)
	at := r.Report.First + (r.Report.Horizon-r.Report.First)/2
	if b := r.Image.At(at).Read(tapeTextLo, got); b.Standing != timeline.Unconfirmed || b.Reason != timeline.FromVmlinux || !bytes.Equal(got, want) {
		t.Errorf("%+v, as moved: %v", b, bytes.Equal(got, want))
	}
	poked := pokedPlace(t, whole.Image)
	if b := r.Image.At(at).Read(poked, got[:5]); b.Standing != timeline.Known {
		t.Errorf("at a poked place: %+v", b)
	}
	if len(r.Report.Warnings) != 0 {
		t.Errorf("warnings: %v", r.Report.Warnings)
	}

	for _, tt := range []struct {
		name       string
		change     func(v *kernelFile)
		err, warns string
	}{
		{"another kernel", func(v *kernelFile) { v.buildID = []byte("another kernel, ok")[:16] }, "build ID 616e6f74686572206b65726e656c2c20, but the recorded kernel has", ""},
		{"another architecture", func(v *kernelFile) { v.machine, v.buildID = elf.EM_AARCH64, nil }, "a kernel for EM_AARCH64, but the recorded one is for EM_X86_64", ""},
		{"a program", func(v *kernelFile) { v.text, v.strip, v.rela, v.buildID = 0x4000, true, nil, nil }, "vmlinux: not a kernel: its text is linked at 0x4000", ""},
		{"no build id", func(v *kernelFile) { v.buildID = nil }, "", "no build ID, so it may be of another kernel"},
		{"no relocations", func(v *kernelFile) { v.rela = nil }, "", "absolute addresses in instructions are those of the file"},
		{"linked above the running kernel", func(v *kernelFile) { v.text, v.rela = tapeTextLo+0x200000, nil }, "", ": the kernel was moved by -0x200000 when it booted; "},
		{"from a boot image", func(v *kernelFile) { v.strip, v.rela = true, nil }, "", "absolute addresses in instructions are those of the file"},
		{"a relocation outside", func(v *kernelFile) { v.rela = []elf.Rela64{rela(linked+size-2, elf.R_X86_64_32)} }, "is outside of its section", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := v
			tt.change(&w)
			opts.Vmlinux = w.write(t)
			r, err := Load(bare, opts)
			if err != nil {
				if tt.err == "" || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			defer r.Close()
			if tt.err != "" || len(r.Report.Warnings) != 1 || !strings.Contains(r.Report.Warnings[0].Error(), tt.warns) {
				t.Errorf("error %q wanted, warnings %v", tt.err, r.Report.Warnings)
			}
		})
	}
}

// pokedPlace returns a place in core text that was poked.
func pokedPlace(t *testing.T, im *timeline.Image) uint64 {
	t.Helper()
	lo, hi := im.Text()
	for r := range im.Fragments() {
		if r.Lo >= lo+0x2000 && r.Lo < hi && r.Hi-r.Lo == 5 {
			return r.Lo
		}
	}
	t.Fatal("no poked place")
	return 0
}

// TestKernelBuildID: which build id is that of the image's kernel.
func TestKernelBuildID(t *testing.T) {
	order := binary.LittleEndian
	var section []byte
	for i, e := range []struct {
		misc uint16
		pid  int32
		name string
	}{
		{perfdata.MiscUser, -1, "/bin/true"},
		{perfdata.MiscGuestKernel, 7001, "[kernel.kallsyms]"},
		{perfdata.MiscKernel, -1, "[kernel.kallsyms]"},
		{perfdata.MiscGuestKernel, 7002, "[guest.kernel.kallsyms.7002]"},
		{perfdata.MiscGuestKernel, 0, "[guest.kernel.kallsyms]"},
		{perfdata.MiscGuestUser, 7003, "[kernel.kallsyms]"},
	} {
		rec := make([]byte, 36+(len(e.name)+8)&^7)
		order.PutUint16(rec[4:], e.misc)
		order.PutUint16(rec[6:], uint16(len(rec)))
		order.PutUint32(rec[8:], uint32(e.pid))
		rec[12] = byte(i)
		copy(rec[36:], e.name)
		section = append(section, rec...)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := perfdata.NewWriter(f, order)
	err = errors.Join(w.SetEvents([]*perfdata.Event{{IDs: []uint64{1}}}), w.WriteFeature(perfdata.FeatureBuildID, section), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := perfdata.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	for machine, want := range map[int]int{0: 2, 7001: 1, 7002: 3, DefaultGuest: 4, 7003: -1} {
		s := newScan(rec, nil, nil)
		s.machine = machine
		got := -1
		if id := s.kernelBuildID(); id != nil {
			got = int(id[0])
		}
		if got != want {
			t.Errorf("machine %d: build id of entry %d, want %d", machine, got, want)
		}
	}
}

// TestKernelBuildIDRecords: without a BUILD_ID feature, records have the kernel's build id:
// the kernel's MMAP2 of perf record --buildid-mmap, or HEADER_BUILD_ID records of a pipe.
func TestKernelBuildIDRecords(t *testing.T) {
	id := []byte("twenty bytes of an id")[:20]
	kernel := func(misc uint16, name string) func(w *tape) {
		return func(w *tape) {
			w.begin()
			w.must(w.w.Mmap(perfdata.RecordMMAP2, misc, &perfdata.Mmap{PID: 0xffffffff, Addr: tapeTextLo, Len: tapeTextHi - tapeTextLo,
				BuildID: id, Filename: []byte(name), SampleID: perfdata.SampleID{Event: w.made[0]}}))
		}
	}
	record := func(misc uint16, name string) func(w *tape) {
		return func(w *tape) {
			w.begin()
			le := binary.LittleEndian
			b := le.AppendUint32(nil, uint32(perfdata.RecordHeaderBuildID))
			b = le.AppendUint16(b, misc|perfdata.MiscBuildIDSize)
			b = le.AppendUint16(b, uint16(36+len(name)+8)&^7)
			b = append(le.AppendUint32(b, ^uint32(0)), id...)
			b = append(b, byte(len(id)), 0, 0, 0)
			b = append(b, name...)
			w.must(w.w.WriteRecord(append(b, make([]byte, (36+len(name)+8)&^7-len(b))...)))
		}
	}
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want []byte
	}{
		{"the kernel's map", kernel(perfdata.MiscKernel|perfdata.MiscMmapBuildID, "[kernel.kallsyms]_text"), id},
		{"a map without one", kernel(perfdata.MiscKernel, "[kernel.kallsyms]_text"), nil},
		{"a module's map", kernel(perfdata.MiscKernel|perfdata.MiscMmapBuildID, "[virtio]"), nil},
		{"a guest's map", kernel(perfdata.MiscGuestKernel|perfdata.MiscMmapBuildID, "[kernel.kallsyms]_text"), nil},
		{"a record of a pipe", record(perfdata.MiscKernel, "[kernel.kallsyms]"), id},
		{"a record about a program", record(perfdata.MiscUser, "/bin/true"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			tt.tape(w)
			w.ticks(100, 1000)
			rec, err := perfdata.New(w.bytes())
			if err != nil {
				t.Fatal(err)
			}
			s := newScan(rec, nil, nil)
			s.run()
			if got := s.kernelBuildID(); !bytes.Equal(got, tt.want) {
				t.Errorf("got %x, want %x", got, tt.want)
			}
			// A vmlinux of another kernel is refused if the recording shows that.
			v := kernelFile{text: tapeTextLo, data: make([]byte, 64), buildID: []byte("another kernel, ok")[:16]}
			_, err = New(rec, nil, Options{Vmlinux: v.write(t)})
			if (err != nil) != (tt.want != nil) || err != nil && !strings.Contains(err.Error(), "but the recorded kernel has") {
				t.Errorf("with a vmlinux of another kernel: %v", err)
			}
		})
	}
}
