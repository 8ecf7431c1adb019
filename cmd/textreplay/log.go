// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/printable"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The kinds of entries.
const (
	kindPoke    = "poke"
	kindKSymbol = "ksymbol"
	kindBPF     = "bpf"
	kindLost    = "lost"
)

// log is the state of the command log.
type log struct {
	*app
	r *replay.Replay
	c *coder

	timeFlag, addrFlag, symbol string
	named                      *symbolFilter // of symbol, nil without one
	kinds                      words
	hidden                     int // losses that are not printed because of kinds
	times, addrs               interval
	shown                      map[*replay.Sequence]bool

	comms      []string
	pids       pids
	mechanisms words
	summary    bool
	format     choice
	classifier *mechanism.Classifier // nil if no mechanism is asked for

	current    logPoke               // the one that is being printed
	renderings map[string]*rendering // by address and bytes
	last       *rendering            // the one that was used last
	key        []byte                // scratch
}

// interval is half-open.
type interval struct{ from, to uint64 }

func (i interval) has(x uint64) bool { return i.from <= x && (x < i.to || i.to == timeline.MaxTime) }

// meets reports whether i has the address, or one of the n bytes from there on.
func (i interval) meets(addr, n uint64) bool {
	return i.has(addr) || addr < i.from && n > i.from-addr && i.from < i.to
}

func (a *app) logCmd() *cobra.Command {
	l := &log{app: a, shown: make(map[*replay.Sequence]bool), renderings: make(map[string]*rendering)}
	cmd := &cobra.Command{
		Use:   "log [flags]",
		Short: "Print every change of kernel text in time order",
		Long: `log prints every change of kernel text in time order: when, on which CPU, by which
thread, and the instruction before and after, with names as they were at that time.

The kinds of entries are poke (a text poke), ksymbol (a BPF program, trampoline or
out-of-line page is registered or unregistered), bpf (a BPF program is loaded or
unloaded) and lost (records are missing between two times). No filter hides a loss that
may have been of what is asked for, but --kind without lost, and then a warning counts
them. Its entry is at the time at which it ends.

If the kernel changes a site in several steps, such as powerpc's mflr and the branch
after it, log prints one entry with the steps.

Each change was made by one of the kernel's mechanisms: a static key, a static call,
ftrace, a kprobe, BPF. No record names it. log derives it from the bytes and from where
the instructions lead, for --mechanism and --json; it is other if these do not show it.

With --summary, log prints one screen instead of the changes: how many there were by
mechanism, by process, by site and over time, and the largest runs. A run is what one
thread changed by one mechanism without a pause of more than 0.1 s; also a guess. The
mechanism module is only there: the log has no entries of modules.

Consecutive pokes of one thread at ascending addresses are shown as a batch. The
kernel does not record where a batch begins and ends, so this is a guess.`,
		Example: `  textreplay log --time 12.5,13
  textreplay log --symbol schedule --kind poke
  textreplay log --summary
  textreplay log --comm insmod --mechanism static-key,static-call
  textreplay log --addr 0xffffffff81000000,0xffffffff81001000 --json
  textreplay log --kind poke --format csv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return l.run() },
	}
	f := cmd.Flags()
	f.StringVar(&l.timeFlag, "time", "", "only from time A up to but not including time B (`A,B`; either may be empty)")
	f.StringVar(&l.addrFlag, "addr", "", "only changes in the addresses from A up to but not including B (`A,B`)")
	f.StringVar(&l.symbol, "symbol", "", "only changes of this `SYMBOL` ([MODULE:]NAME; all places that have the name)")
	a.words(cmd, &l.kinds, "kind", "only these `KINDS`", kindPoke, kindKSymbol, kindBPF, kindLost)
	f.BoolVar(&l.summary, "summary", false, "print how many changes there were: by mechanism, writer, site, run and over time")
	f.StringSliceVar(&l.comms, "comm", nil, "only changes by threads with one of these `NAMES`")
	f.Var(&l.pids, "pid", "only changes by processes with one of these `PIDS`")
	a.words(cmd, &l.mechanisms, "mechanism", "only changes by these `MECHANISMS`", mechanismNames()...)
	a.formatFlag(cmd, &l.format)
	cmd.MarkFlagsMutuallyExclusive("summary", "format")
	return cmd
}

func (l *log) run() (err error) {
	if l.r, err = l.loadAndWarn(); err != nil {
		return err
	}
	if l.c, err = newCoder(l.r); err != nil {
		return err
	}
	if err := l.filters(); err != nil {
		return err
	}
	if l.json || l.csv || l.summary || len(l.mechanisms.given) > 0 {
		if l.classifier, err = l.classify(l.r); err != nil {
			return err
		}
	}
	p := printer(&logText{log: l})
	switch {
	case l.summary:
		p = l.newSummary()
	case l.csv:
		p = l.newCSV()
	case l.json:
		p = &logJSON{log: l, enc: encoder(l.out)}
	}
	for c := range l.r.Changes() {
		if !l.within(c) || !l.wantsWriter(c) {
			continue
		}
		if err := l.change(c, p); err != nil {
			return outputError(err)
		}
	}
	if l.hidden > 0 {
		l.warnf("records were lost in %s that --kind leaves out, and changes of these kinds may be missing", count(l.hidden, "place"))
	}
	l.warnWindows("the log")
	switch p := p.(type) {
	case *logSummary:
		return p.finish()
	case *logCSV:
		return outputError(p.table.begin()) // the names of the columns, if there is no entry
	}
	return nil
}

// filters reads the flags that need the recording.
func (l *log) filters() error {
	times, err := windowOf(l.r, l.timeFlag)
	if err != nil {
		return err
	}
	l.times, l.addrs = times, interval{0, timeline.MaxTime}
	err = halves("--addr", l.addrFlag, &l.addrs, func(s string) (uint64, error) {
		return l.r.ParseAddr(s, l.r.Report.First)
	})
	if err != nil || l.symbol == "" {
		return err
	}
	l.named, err = newSymbolFilter(l.r, l.symbol)
	return err
}

// A symbolFilter says which changes are of a symbol.
type symbolFilter struct {
	symbol  string            // [MODULE:]NAME
	found   []timeline.Symbol // that have the name at the first record; if there is none, those of any time
	aliases []place           // other names that addresses in symbol may be printed with
}

// newSymbolFilter returns the filter of [MODULE:]NAME. If nothing ever has that name, the error is that of
// symbolsNamed.
func newSymbolFilter(r *replay.Replay, symbol string) (*symbolFilter, error) {
	v := r.Image.At(r.Report.First)
	found, err := symbolsNamed(r, symbol, v)
	if err != nil {
		return nil, err
	}
	f := &symbolFilter{symbol: symbol, found: found}
	for _, s := range found {
		// Places are printed with one of a function's names, which can be
		// another one.
		if p := placeOf(v, s.Addr); p.offset == 0 && p.name != s.Name && !s.Dynamic {
			f.aliases = append(f.aliases, p)
		}
	}
	return f, nil
}

// has reports whether addr is in the symbol at v's time. name is the one that a record has itself, or "".
func (f *symbolFilter) has(v timeline.View, addr uint64, name string) bool {
	if name != "" && isNamed(f.symbol, "", name) {
		return true
	}
	p := placeOf(v, addr)
	p.offset = 0
	return p.name != "" && (isNamed(f.symbol, p.module, p.name) || slices.Contains(f.aliases, p))
}

// oneTime reads a time of a command that answers for one moment. Of an interval A..B it would give the
// answer for A alone. A time with fewer than nine digits is a short interval, too; what changes in
// it is warned of.
func oneTime(r *replay.Replay, what, s string) (replay.Times, error) {
	if strings.Contains(s, "..") {
		return replay.Times{}, usagef("%s %s: want one time, not an interval A..B", what, s)
	}
	return r.ParseTime(s)
}

// windowOf reads the option --time of a recording: "A,B". Without it, the window is all time.
func windowOf(r *replay.Replay, s string) (interval, error) {
	window := interval{0, timeline.MaxTime}
	err := halves("--time", s, &window, func(s string) (uint64, error) {
		t, err := oneTime(r, "--time", s)
		return t.From, err
	})
	return window, err
}

// bounds returns the interval for packages to which an end of 0 means none: an interval that ends at 0
// is empty.
func (i interval) bounds() (from, to uint64) {
	if i.to == 0 {
		return 1, 1
	}
	return i.from, i.to
}

// halves reads an option of the form "A,B".
func halves(flag, s string, i *interval, parse func(string) (uint64, error)) (err error) {
	if s == "" {
		return nil
	}
	a, b, ok := strings.Cut(s, ",")
	if !ok {
		return usagef("%s %s: want A,B; either may be empty", flag, s)
	}
	if a != "" {
		if i.from, err = parse(a); err != nil {
			return err
		}
	}
	if b != "" {
		if i.to, err = parse(b); err != nil {
			return err
		}
	}
	if i.from > i.to {
		return usagef("%s %s: B is before A", flag, s)
	}
	return nil
}

// within reports whether an entry is of the asked time. A loss is at the time at which it ends, but
// changes may be missing from its beginning on.
func (l *log) within(c *replay.Change) bool {
	return l.times.has(c.Time) || c.Loss != nil && c.Loss.From < l.times.to && l.times.from <= c.Loss.To
}

// wants reports whether an entry of this kind, at these addresses, is asked for.
func (l *log) wants(kind string, v timeline.View, addr, n uint64, name string) bool {
	if !l.kinds.has(kind) {
		return false
	}
	if kind == kindBPF {
		return l.addrFlag == "" && l.symbol == "" // it has no address
	}
	if !l.addrs.meets(addr, n) {
		return false
	}
	return l.named == nil || l.named.has(v, addr, name)
}

// wantsWriter reports whether a change by this thread and mechanism is asked for. A loss
// may hide any change.
func (l *log) wantsWriter(c *replay.Change) bool {
	if c.Loss != nil {
		return true
	}
	if len(l.comms) > 0 && !slices.Contains(l.comms, c.Comm) {
		return false
	}
	if id := c.SampleID(); len(l.pids) > 0 && (c.Time == 0 || id.Has&perfdata.SampleTID == 0 || !slices.Contains(l.pids, id.PID)) {
		return false
	}
	return len(l.mechanisms.given) == 0 || l.mechanisms.has(l.classifier.Of(c).String())
}

// A logPoke is a poke with the image before and after it.
type logPoke struct {
	*perfdata.TextPoke
	c             *replay.Change
	before, after timeline.View
}

func (p *logPoke) kind() timeline.PokeKind { return p.c.Kind }

// A printer prints the entries of the log in one format.
type printer interface {
	poke(p *logPoke) error
	sequence(c *replay.Change) error // a sequence of several steps
	ksymbol(c *replay.Change) error
	bpf(c *replay.Change) error
	lost(l *replay.Loss) error
}

// change prints an entry if the flags ask for it.
func (l *log) change(c *replay.Change, to printer) error {
	v := l.r.Image.At(c.Time)
	switch {
	case c.Loss != nil && !l.kinds.has(kindLost) && !l.summary:
		l.hidden++
		return nil
	case c.Loss != nil: // it may hide any change
		return to.lost(c.Loss)
	case c.Sequence != nil && !c.Sequence.Single():
		if l.shown[c.Sequence] || !l.wants(kindPoke, v, c.Sequence.Site, 8, "") {
			return nil
		}
		l.shown[c.Sequence] = true
		return to.sequence(c)
	case c.Poke != nil && l.wants(kindPoke, v, c.Poke.Addr, uint64(max(len(c.Poke.Old), len(c.Poke.New))), ""):
		l.current = logPoke{c.Poke, c, l.r.Image.At(max(c.Time, 1) - 1), v}
		return to.poke(&l.current)
	case c.KSymbol != nil && l.wants(kindKSymbol, v, c.KSymbol.Addr, uint64(c.KSymbol.Len), string(c.KSymbol.Name)):
		return to.ksymbol(c)
	case c.BPF != nil && l.wants(kindBPF, v, 0, 0, ""):
		return to.bpf(c)
	}
	return nil
}

// logText prints for people.
type logText struct {
	*log
	batch int // number of the batch being printed
}

var pokeWords = [...]string{
	timeline.PokeBatch:       "poke",
	timeline.PokeArmed:       "kprobe armed",
	timeline.PokeDisarmed:    "kprobe disarmed",
	timeline.PokeUnoptimised: "kprobe unoptimised",
	timeline.PokeCreated:     "new code",
	timeline.PokeRemoved:     "code removed",
}

func (t *logText) poke(p *logPoke) error {
	run := p.c.Batch
	inBatch := run != nil && run.Sites > 1
	r := t.render(p)
	b := t.out.AvailableBuffer()
	switch {
	case !inBatch:
		t.batch = 0
		word := pokeWords[p.kind()]
		if s := p.c.Sequence; s != nil {
			word = s.Kind.String()
		}
		b = append(append(append(t.appendHead(b, p.c), "  "...), word...), "  "...)
	default:
		if t.batch != run.Number {
			t.batch = run.Number
			b = fmt.Appendf(t.appendHead(b, p.c), "  batch of %s until %s\n", count(run.Sites, "site"), replay.Seconds(run.To))
		}
		b = append(appendSeconds(append(b, "    "...), p.Time), "  "...)
	}
	b = append(append(b, r.label...), ' ')
	switch p.kind() {
	case timeline.PokeCreated:
		b = fmt.Appendf(b, "(%s) %s", count(len(p.New), "byte"), r.new)
	case timeline.PokeRemoved:
		b = fmt.Appendf(b, "(%s) %s", count(len(p.Old), "byte"), r.old)
	default:
		b = append(append(append(b, r.old...), "  ->  "...), r.new...)
	}
	_, err := t.out.Write(append(b, '\n'))
	return err
}

// head returns the time, CPU and thread of an entry.
func (l *log) head(c *replay.Change) string { return string(l.appendHead(nil, c)) }

func (l *log) appendHead(b []byte, c *replay.Change) []byte {
	if c.Time == 0 {
		return append(b, "before the start"...)
	}
	id := c.SampleID()
	const width = 16
	n := len(b)
	for b = appendSeconds(b, c.Time); len(b)-n < width; {
		b = append(b, ' ')
	}
	if id.Has&perfdata.SampleCPU != 0 {
		b = strconv.AppendUint(append(b, "  cpu "...), uint64(id.CPU), 10)
	}
	if id.Has&perfdata.SampleTID != 0 {
		b = append(append(b, "  "...), printable.Name(c.Comm)...)
		b = append(strconv.AppendUint(append(b, '['), uint64(id.TID), 10), ']')
	}
	return b
}

// appendSeconds appends replay.Seconds(ns).
func appendSeconds(b []byte, ns uint64) []byte {
	b = append(strconv.AppendUint(b, ns/1e9, 10), '.')
	n := len(b)
	b = strconv.AppendUint(b, ns%1e9+1e9, 10)
	return append(b[:n], b[n+1:]...)
}

func (t *logText) ksymbol(c *replay.Change) error {
	k := c.KSymbol
	verb := "registered"
	if k.Flags&perfdata.KSymbolUnregister != 0 {
		verb = "unregistered"
	}
	if k.IsInterpreted() {
		_, err := fmt.Fprintf(t.out, "%s  symbol %s  %s a BPF program without code, which is interpreted\n", t.head(c), verb,
			label(t.r.Image.At(c.Time), k.Addr))
		return err
	}
	_, err := fmt.Fprintf(t.out, "%s  symbol %s  %016x <%s>: %s of %s\n", t.head(c), verb,
		k.Addr, k.Name, count(int(k.Len), "byte"), ksymbolWords[k.Kind])
	return err
}

var ksymbolWords = map[perfdata.KSymbolKind]string{
	perfdata.KSymbolBPF: "BPF code",
	perfdata.KSymbolOOL: "out-of-line code",
}

func (t *logText) bpf(c *replay.Change) error {
	b := c.BPF
	_, err := fmt.Fprintf(t.out, "%s  BPF program %s  id %d, tag %x\n", t.head(c), bpfWords[b.Kind], b.ID, b.Tag)
	return err
}

var bpfWords = map[uint16]string{perfdata.BPFLoad: "load", perfdata.BPFUnload: "unload"}

func (t *logText) lost(l *replay.Loss) error {
	text := fmt.Sprintf("%-16s  %s  %s LOST since %s: their changes are not known",
		replay.Seconds(l.To), strings.Replace(l.Where(), "CPU", "cpu", 1), count(l.Records, "record"), replay.Seconds(l.From))
	_, err := fmt.Fprintln(t.out, t.style.paint(red, text))
	return err
}
