// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Symbol is a line of /proc/kallsyms, as s_show writes it (kernel/kallsyms.c).
type Symbol struct {
	Addr uint64
	// Type is the letter that nm(1) uses: upper case for a global symbol,
	// lower case for a local one; t is text, w weak, d r and b data, A an
	// absolute value (on some kernels an offset into the per-CPU area).
	Type byte
	Name string
	// Module is "" for the kernel itself. It can also be "bpf" (BPF programs,
	// trampolines and dispatchers), "__builtin__ftrace" (ftrace trampolines)
	// and "__builtin__kprobes" (instruction slots), which own no coherent area.
	Module string
}

// Pseudo reports whether Module is "bpf" or begins with "__builtin__", which
// are not modules.
func (s *Symbol) Pseudo() bool { return isPseudo(s.Module) }

// Mapping reports whether the symbol is one that an assembler makes to separate code from data, such as $x and
// $d of arm64's modules, or to name a local place. It names no function.
func (s *Symbol) Mapping() bool { return isMapping(s.Name) }

// Kallsyms is the kernel's symbol table, sorted by address. It may be used
// from many goroutines at once.
//
// The same name may have many addresses (static functions of several files) and
// the same address may have many names.
type Kallsyms struct {
	text  []byte     // what was given to ParseKallsyms
	later *laterFile // or the file that has it; nil if there is none
	saved *saved

	reading   sync.Once
	inModules count // lookups of modules' names that searched the text

	// Set by parse or taken from saved. Methods call all before they use these fields.
	parsed  sync.Once
	entries []entry
	names   []byte   // what the entries' names are in
	foreign bool     // entries and names are the memory of saved
	copied  struct { // names, if they are foreign
		asked count
		once  sync.Once
		names []byte
	}
	modules []string // modules[0] is ""
	tail    tail
	bad     skipped

	bounds struct {
		once         sync.Once
		stext, etext uint64
		ok           bool
	}
	byAddr   textIndex
	byModule moduleIndex
	byName   struct {
		asked count
		once  sync.Once
		seed  maphash.Seed
		head  []uint32 // 1 + index of the first entry with that hash; 0 is none
		next  []uint32 // likewise, for each entry, the next one
	}
}

// A tail is the last symbols of the last module in a list, all of type T, which can be those of
// freed init functions.
type tail struct {
	mod  uint32 // 0: there is none
	name uint32 // offset of the first one's name
}

// entry is a Symbol without pointers, so the garbage collector does not scan a
// table of 130,000 of them.
type entry struct {
	addr uint64
	name uint32 // offset in Kallsyms.names
	mod  uint32 // index in modules
	len  uint16 // of the name
	typ  byte
}

// isText reports whether the symbol marks kernel text.
func (e *entry) isText() bool {
	switch e.typ {
	case 't', 'T', 'w', 'W', 'i':
		return e.addr != 0
	}
	return false
}

// rank orders the aliases of one address: less is better.
func (k *Kallsyms) rank(i int) int {
	e := &k.entries[i]
	switch name := k.name(e); {
	case isSectionMark(name):
		return 4
	case e.typ == 'w', e.typ == 'W':
		return 3
	case e.typ != 'T':
		return 2
	case strings.HasPrefix(name, "__ia32_"):
		return 1 // x86's entry of a system call for 32-bit programs
	}
	return 0
}

// ParseKallsyms parses the text of /proc/kallsyms:
//
//	ffffffff81000000 T startup_64
//	ffffffffc02ba000 t virtblk_done	[virtio_blk]
//
// Lines of another form are skipped, as is a last line without an end; Warnings
// reports them. Text without a single symbol in it, unless it is empty, is a
// *[FormatError].
//
// If ftrace was in use when a module was loaded, the kernel keeps the names of the module's init
// functions, and lists them behind the symbols of all modules (ftrace_mod_get_kallsym() of
// kernel/trace/ftrace.c). Their code is freed, and other code may be there: they are left out, unless
// the symbols of modules are sorted by address.
//
// The table is built at its first use, because not every caller asks for names.
// The result keeps text and returns strings that alias it: text must never
// change again.
func ParseKallsyms(text []byte) (*Kallsyms, error) {
	if uint64(len(text)) > math.MaxUint32 {
		return nil, &FormatError{File: "kallsyms", Off: math.MaxUint32, Msg: "4 GiB of symbols or more"}
	}
	// Parse one symbol to find out whether there is any.
	first := Kallsyms{text: text}
	if first.parse(1); len(first.entries) == 0 && first.bad.n > 0 {
		return nil, first.bad.err()
	}
	return &Kallsyms{text: text}, nil
}

// all returns all entries, by address.
func (k *Kallsyms) all() []entry {
	k.parsed.Do(func() {
		if k.saved != nil && k.takeSaved() {
			return
		}
		// The shortest line has six bytes.
		k.entries = make([]entry, 0, min(bytes.Count(k.readText(), newline), len(k.text)/6+1))
		k.parse(math.MaxInt)
	})
	return k.entries
}

// readText returns the text.
func (k *Kallsyms) readText() []byte {
	k.reading.Do(func() {
		if k.later != nil {
			k.text = k.later.read()
		}
	})
	return k.text
}

// parse makes the table, of at most most symbols.
func (k *Kallsyms) parse(most int) {
	k.modules, k.names = []string{""}, k.text
	// late has the entries that are out of address order: those of modules, and
	// a few absolute ones.
	var late []entry
	var top uint64

	text := k.text
	modules := map[string]uint32{}
	lastModule := uint32(0)
	current := uint32(0)            // of the line before
	ended := map[uint32]bool{}      // modules with symbols before those of another module
	freed := map[uint32]bool{}      // offsets of the names of freed init functions
	sorted, last := true, uint64(0) // whether the symbols of modules are by address, as no kernel lists them
	for pos, line := 0, 1; pos < len(text) && len(k.entries)+len(late) < most; line++ {
		start := pos
		n := bytes.IndexByte(text[start:], '\n')
		if n < 0 {
			// A name that was cut short would look like another name.
			k.bad.add("kallsyms", start, line, "last line has no end")
			break
		}
		pos = start + n + 1
		l := text[start : start+n]

		var addr uint64
		i := 0
		for i < len(l) {
			d := hexDigit[l[i]]
			if d > 15 {
				break
			}
			addr = addr<<4 | uint64(d)
			i++
		}
		if i == 0 || i > 16 || len(l) < i+4 || l[i] != ' ' || l[i+2] != ' ' {
			k.bad.add("kallsyms", start, line, "want an address, a letter and a name")
			continue
		}
		typ := l[i+1]
		name := l[i+3:]
		mod := uint32(0)
		if name[len(name)-1] == ']' {
			if tab := bytes.Index(name, moduleStart); tab >= 0 {
				m := name[tab+len(moduleStart) : len(name)-1]
				name = name[:tab]
				if !isName(m) || bytes.IndexByte(m, ']') >= 0 {
					k.bad.add("kallsyms", start, line, "module without a name, or with one that no line can hold")
					continue
				}
				if k.modules[lastModule] != string(m) {
					var ok bool
					if lastModule, ok = modules[string(m)]; !ok {
						lastModule = uint32(len(k.modules))
						s := alias(m)
						modules[s] = lastModule
						k.modules = append(k.modules, s)
					}
				}
				mod = lastModule
			}
		}
		if !isName(name) || len(name) > math.MaxUint16 {
			k.bad.add("kallsyms", start, line, "symbol without a name, or with one that no line can hold")
			continue
		}
		at := uint32(start + i + 3) // of the name
		if mod != current {
			ended[current], current = true, mod
		}
		if mod != 0 && !isPseudo(k.modules[mod]) {
			switch {
			case typ != 'T':
				k.tail = tail{}
			case ended[mod]:
				freed[at] = true // see ParseKallsyms
			case k.tail.mod != mod:
				k.tail = tail{mod, at}
			}
			sorted, last = sorted && addr >= last, addr
		}
		e := entry{addr: addr, name: at, mod: mod, len: uint16(len(name)), typ: typ}
		if addr >= top {
			top = addr
			k.entries = append(k.entries, e)
		} else {
			late = append(late, e)
		}
	}
	if sorted {
		freed, k.tail = nil, tail{} // somebody has sorted them
	}
	if len(freed) > 0 {
		gone := func(e entry) bool { return freed[e.name] }
		k.entries, late = slices.DeleteFunc(k.entries, gone), slices.DeleteFunc(late, gone)
	}
	k.entries = mergeLate(k.entries, late)
}

// isName reports whether a line can hold b as the name of a symbol or a module.
// A damaged table can have NULs and tabs in names. Other control characters
// occur in assemblers' local labels.
func isName(b []byte) bool {
	return len(b) > 0 && bytes.IndexByte(b, 0) < 0 && bytes.IndexByte(b, '\t') < 0
}

var (
	newline     = []byte("\n")
	moduleStart = []byte("\t[")
)

// hexDigit holds the value of each hexadecimal digit and 255 for other bytes.
var hexDigit = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = byte(i)
	}
	for i, c := range []byte("ABCDEF") {
		t[c] = byte(10 + i)
	}
	return t
}()

// alias returns b as a string without a copy. b must never change.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// mergeLate merges late, in any order, into the sorted entries. Entries of one
// address stay in the order of the file, which is that of their names' offsets.
func mergeLate(entries, late []entry) []entry {
	if len(late) == 0 {
		return entries
	}
	order := func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.name, b.name))
	}
	slices.SortFunc(late, order)
	i, j := len(entries)-1, len(late)-1
	entries = append(entries, late...)
	for to := len(entries) - 1; j >= 0; to-- {
		if i >= 0 && order(entries[i], late[j]) > 0 {
			entries[to] = entries[i]
			i--
		} else {
			entries[to] = late[j]
			j--
		}
	}
	return entries
}

// Len returns the number of symbols.
func (k *Kallsyms) Len() int { return len(k.all()) }

// At returns the symbol of index i, 0 <= i < Len(), in order of address;
// symbols of the same address are in the order of the file.
func (k *Kallsyms) At(i int) Symbol {
	e := &k.all()[i]
	return Symbol{Addr: e.addr, Type: e.typ, Name: k.ownName(e), Module: k.modules[e.mod]}
}

// All yields the symbols by index.
func (k *Kallsyms) All() iter.Seq2[int, Symbol] {
	return func(yield func(int, Symbol) bool) {
		for i := range k.all() {
			if !yield(i, k.At(i)) {
				return
			}
		}
	}
}

// WriteKallsyms writes symbols as /proc/kallsyms shows them, for
// [ParseKallsyms] and for "perf script --kallsyms FILE". Errors are those of w,
// or report a name or a type that no line can hold.
func WriteKallsyms(w io.Writer, syms iter.Seq[Symbol]) error {
	out := bufio.NewWriter(w)
	for s := range syms {
		if s.Name == "" || strings.ContainsAny(s.Name, "\x00\t\n") || strings.ContainsAny(s.Module, "\x00\t\n]") {
			return fmt.Errorf("kcore: kallsyms cannot hold the name %.64q of module %.64q", s.Name, s.Module)
		}
		if s.Type <= ' ' || s.Type >= 0x7f {
			return fmt.Errorf("kcore: kallsyms cannot hold the type %q of %.64q", s.Type, s.Name)
		}
		fmt.Fprintf(out, "%016x %c %s", s.Addr, s.Type, s.Name)
		if s.Module != "" {
			fmt.Fprintf(out, "\t[%s]", s.Module)
		}
		out.WriteByte('\n')
	}
	return out.Flush()
}

// Warnings returns a *[FormatError] for the first line that was skipped.
func (k *Kallsyms) Warnings() []error {
	k.all()
	if err := k.bad.err(); err != nil {
		return []error{err}
	}
	return nil
}

// Restricted reports whether the kernel hid the addresses (the sysctl
// kptr_restrict): all are 0. Lookups then find nothing.
func (k *Kallsyms) Restricted() bool {
	entries := k.all()
	return len(entries) > 0 && entries[len(entries)-1].addr == 0
}

// Check returns the error of reading the file, if [Open] found the table in one and it has been
// read since: a *[ChangedError] if the file had changed by then.
func (k *Kallsyms) Check() error {
	if k.later == nil {
		return nil
	}
	if err := k.later.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (k *Kallsyms) name(e *entry) string { return alias(k.names[e.name:][:e.len]) }

// Lookup returns all symbols of that name, by address. One of the first calls
// builds an index.
func (k *Kallsyms) Lookup(name string) []Symbol {
	return k.lookup(name, func(string) bool { return true })
}

// LookupIn returns all symbols of that name in one module ("" is the kernel
// itself), by address.
func (k *Kallsyms) LookupIn(module, name string) []Symbol {
	return k.lookup(name, func(m string) bool { return m == module })
}

// LookupInModules returns the symbols of that name in all modules, by address. The first calls
// do not build the table if the text has no such name: most names are the kernel's.
func (k *Kallsyms) LookupInModules(name string) []Symbol {
	if k.saved == nil && k.inModules.first(fewSearches) && !bytes.Contains(k.readText(), append([]byte(name), moduleStart...)) {
		return nil
	}
	return k.lookup(name, func(m string) bool { return m != "" })
}

func (k *Kallsyms) lookup(name string, in func(module string) bool) []Symbol {
	if k.saved != nil {
		if found, sure := k.saved.lookup(name, in); sure {
			return found
		}
	}
	if len(k.all()) == 0 || k.Restricted() {
		return nil
	}
	idx := &k.byName
	if idx.asked.first(fewLookups) {
		return k.lookupOnce(name, in)
	}
	idx.once.Do(k.indexNames)
	var found []Symbol
	for i := idx.head[k.bucket(name)]; i != 0; i = idx.next[i-1] {
		if e := &k.entries[i-1]; k.name(e) == name && in(k.modules[e.mod]) {
			found = append(found, k.At(int(i-1)))
		}
	}
	return found
}

// indexNames makes the index of lookup.
func (k *Kallsyms) indexNames() {
	size := 1
	for size < 2*len(k.entries) {
		size *= 2
	}
	idx := &k.byName
	idx.seed = maphash.MakeSeed()
	idx.head = make([]uint32, size)
	idx.next = make([]uint32, len(k.entries))
	for i := len(k.entries) - 1; i >= 0; i-- { // backwards, so that chains run by address
		h := k.bucket(k.name(&k.entries[i]))
		idx.next[i] = idx.head[h]
		idx.head[h] = uint32(i) + 1
	}
}

// Index makes the indexes that [Kallsyms.Find] and [Kallsyms.Lookup] make when they have been called often, so
// that a program can do so while it does something else. It does nothing if the names are those of an index
// of a recording, see [Kallsyms.Use].
func (k *Kallsyms) Index() {
	if k.saved != nil || len(k.all()) == 0 || k.Restricted() {
		return
	}
	k.byAddr.once.Do(k.indexText)
	k.byAddr.asked.n.Store(fewFinds)
	k.byName.once.Do(k.indexNames)
	k.byName.asked.n.Store(fewLookups)
}

// How many lookups without an index are cheaper than building one.
const (
	fewLookups = 3    // by name: each goes through all symbols
	fewFinds   = 4096 // by address: each takes 50 ns more than with an index
)

// fewSearches is how many searches of the text take less time than to build the table.
const fewSearches = 16

// A count up to this limit is one of the first few lookups.
type count struct{ n atomic.Int32 }

// first reports whether this lookup is one of the first few.
func (c *count) first(few int32) bool { return c.n.Load() < few && c.n.Add(1) <= few }

// lookupOnce is lookup without the index.
func (k *Kallsyms) lookupOnce(name string, in func(module string) bool) []Symbol {
	var found []Symbol
	for i := range k.entries {
		if e := &k.entries[i]; int(e.len) == len(name) && k.name(e) == name && in(k.modules[e.mod]) {
			found = append(found, k.At(i))
		}
	}
	return found
}

func (k *Kallsyms) bucket(name string) uint64 {
	return maphash.String(k.byName.seed, name) & uint64(len(k.byName.head)-1)
}

// pageSize is the smallest page size of kernels. A symbol of unknown size
// covers at most the rest of its page.
const pageSize = 4096

// maxTextPages bounds the memory of an index: a list of symbols may say anything.
const maxTextPages = 1 << 15

// isPseudo reports whether kernel/kallsyms.c uses this module name for symbols
// that belong to no module.
func isPseudo(module string) bool {
	return module == "bpf" || strings.HasPrefix(module, "__builtin__")
}
