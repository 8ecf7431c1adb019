// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/lazyregexp"
	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/internal/memory"
	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/internal/printable"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/tables"
)

// An export is the state of the command export.
type export struct {
	*app
	output, from, watch string
	table               choice
	shipped             []string
	jobs                int
	every               time.Duration

	dir   *tables.Dir
	alone bool // a single recording is exported

	mu    sync.Mutex               // guards the fields below, and all output
	worst *exitError               // has the greatest exit code; nil if nothing has failed
	adds  map[string]chan struct{} // closed when a recording was tried that is being added, by its name in the tables
	names map[string]string        // of recordings that are being exported, in the tables, by path
	again map[string]refusal       // with --watch: recordings that could not be written, by path
	stuck bool                     // the last recording that was to be written could not be
}

// A refusal is that a recording could not be written.
type refusal struct {
	text string // the error
	name string // of the recording in the tables, "" if it is not known
	due  bool   // it was not tried again since
}

func (a *app) exportCmd() *cobra.Command {
	e := &export{app: a, adds: make(map[string]chan struct{}), names: make(map[string]string), again: make(map[string]refusal)}
	cmd := &cobra.Command{
		Use:   "export -o DIR [flags] [REC...]",
		Short: "Write recordings as Parquet tables for DuckDB, ClickHouse, Spark",
		Long: `export adds recordings to a directory of tables in Parquet, for questions across many
machines. docs/fleet.md has the schema and queries. The tables are

  recordings   what each recording is, and how far it can be trusted
  changes      every change of text: when, where, which bytes, by whom
  gaps         where and when the answer is not what pages and changes give: not known, and
               why; code of BPF programs
  symbols      names with lifetimes
  programs     BPF programs
  pages        which pages the copy of text of a recording has
  text         the pages, each once for all machines

The tables are in partitions by date and build id (changes/date=.../build_id=...). A
recording's name in them follows from its content. So a recording that was exported is
not exported again, and files are only added. A file appears when it is complete, and
manifest/ID.json when all files of the recording are. export can be killed at any moment
and started again, or run by a scheduler that does so. When it adds a recording, it removes
the temporary files of programs that were killed, unless another one writes into DIR at the
same time.

A directory has tables of one version. If this program writes another one, export refuses
the directory: export into a new one. The rules by which answers are derived change more
often, with the version of the index ("textreplay version"). What is exported keeps its
answers; manifest/ID.json and the table recordings have the version as "rules".

REC is a recording, or - for a stream on standard input; the default is that of -i.
--files-from reads the names of recordings, one on each line. --watch looks for
recordings in a directory and in those below it again and again, until SIGTERM or Ctrl-C:
the pieces that "textreplay record --max-size" has finished, and what perf has finished.
It follows symbolic links. A recording that replaces another one is exported too. What
cannot be written is tried again. Streams and directories of "perf record --threads" do
not show that they have ended: name them as REC. Move other recordings there as a whole
(mv): while a directory is copied, its data may be complete before the rest. With --table
and -o -, one table of one recording is written to standard output.

Exit codes: 0 every recording is in the tables; 2 usage; 3 a recording cannot be read:
the others are in the tables, and trying again does not help; 4 an output cannot be
written: try again when the cause is gone.`,
		Example: `  textreplay export -o /data/kernels /recordings/*.data
  textreplay export -o /data/kernels --watch /var/lib/textreplay
  find /recordings -name '*.data' | textreplay export -o /data/kernels --files-from - --json
  textreplay export --table changes -o - -i rec.data >changes.parquet`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return e.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&e.output, "output", "o", "", "the `DIR` of the tables, - for standard output (with --table)")
	f.StringVar(&e.from, "files-from", "", "read the names of recordings from this `FILE`, - for standard input")
	f.StringVar(&e.watch, "watch", "", "export the finished recordings in and below this `DIR`, and those that come")
	f.DurationVar(&e.every, "every", 10*time.Second, "with --watch: look again after this `TIME`")
	a.choice(cmd, &e.table, "table", "write only this `TABLE` of one recording, to standard output", "", tables.Names()...)
	f.StringArrayVar(&e.shipped, "shipped", nil, "add the text of this vmlinux `FILE` as the table shipped (repeatable)")
	f.IntVarP(&e.jobs, "jobs", "j", runtime.GOMAXPROCS(0), "export `N` recordings at the same time")
	cmd.MarkFlagRequired("output")
	return cmd
}

// jsonExported is what export prints for each recording.
type jsonExported struct {
	Input string `json:"input"`
	New   bool   `json:"new"` // false: it was in the tables already
	tables.Manifest
}

// mostJobs limits how many recordings are exported at the same time: each takes memory.
const mostJobs = 1024

func (e *export) run(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed("input")
	switch {
	case e.jobs < 1 || e.jobs > mostJobs:
		return usagef("--jobs %d: must be from 1 to %d", e.jobs, mostJobs)
	case e.watch == "" && cmd.Flags().Changed("every"):
		return usagef("--every goes with --watch DIR")
	case e.every <= 0:
		return usagef("--every %v: must be more than 0", e.every)
	case given && (len(args) > 0 || e.from != "" || e.watch != ""):
		return usagef("-i and other names of recordings: give one of them")
	case (e.output == "-") != (e.table.value != ""):
		return usagef("--table and -o - need each other")
	}
	if err := e.noIndexFile(); err != nil {
		return err
	}
	several := len(args) > 1 || e.from != "" || e.watch != ""
	if several {
		if err := e.noneOfOne(); err != nil {
			return err
		}
	}
	if len(args) == 0 && e.from == "" && e.watch == "" && (given || len(e.shipped) == 0) {
		args = []string{e.input}
	}
	if e.table.value != "" && len(args) != 1 {
		return usagef("--table needs one recording")
	}
	if err := e.named(&args); err != nil {
		return err
	}
	if e.table.value != "" {
		return e.writeTable(args[0])
	}
	e.alone = !several
	e.dir = tables.Open(e.output)
	defer e.dir.Close()
	if err := e.addShipped(); err != nil {
		return err
	}
	ctx := context.Background()
	if e.watch != "" {
		var release func()
		ctx, release = outfile.SignalContext()
		defer release()
	}
	work := make(chan string)
	var running sync.WaitGroup
	for range e.jobs {
		running.Go(func() {
			for path := range work {
				e.failed(path, e.export(path))
			}
		})
	}
	err := e.feed(ctx, work, args)
	close(work)
	running.Wait()
	switch {
	case err != nil:
		return err
	case len(e.again) > 0:
		return &exitError{code: exitOutput} // the greatest
	case e.worst != nil:
		return e.worst
	}
	return nil
}

// named adds the names in the file of --files-from to args, and refuses a standard output that
// is appended to anything that is read. Names that come through a pipe are looked at when they
// come.
func (e *export) named(args *[]string) error {
	if e.from != "" && !e.fromPipe() {
		var list []byte
		var err error
		if e.from == "-" {
			list, err = mapfile.ReadList(e.stdin, "standard input")
		} else {
			list, err = mapfile.ReadListFile(e.from)
		}
		if err != nil {
			return inputError(err)
		}
		for path := range strings.Lines(string(list)) {
			if path = strings.TrimRight(path, "\r\n"); path != "" {
				*args = append(*args, path)
			}
		}
	}
	in := slices.Concat(*args, e.shipped)
	if e.from != "" {
		in = append(in, e.from)
	}
	for _, path := range *args {
		if files, err := recordingFiles(path); err == nil { // else it says so when it is read
			in = append(in, files...)
		}
	}
	return e.reads(in...)
}

// fromPipe reports whether names come on standard input one at a time.
func (e *export) fromPipe() bool {
	if e.from != "-" {
		return false
	}
	f, ok := e.stdin.(*os.File)
	if !ok {
		return true
	}
	info, err := f.Stat()
	return err != nil || !info.Mode().IsRegular()
}

// feed sends the names of the recordings to work: args, then those that come through a pipe, then
// those that appear in the directory of --watch, until ctx is done.
func (e *export) feed(ctx context.Context, work chan<- string, args []string) error {
	for _, path := range args {
		select {
		case work <- path:
		case <-ctx.Done():
			return nil
		}
	}
	if e.fromPipe() {
		if err := e.feedNames(ctx, work); err != nil {
			return inputError(fmt.Errorf("reading the names on %s: %w", standardInput, err))
		}
	}
	if e.watch == "" {
		return nil
	}
	if _, err := os.Stat(e.watch); err != nil {
		return inputError(err)
	}
	sent := make(map[string]fs.FileInfo) // what Stat said of those that are there
	tick := time.NewTicker(e.every)
	defer tick.Stop()
	for {
		before := sent
		sent = make(map[string]fs.FileInfo)
		tried := false
		for _, path := range finishedRecordings(e.watch) {
			info := statData(path)
			if was, ok := before[path]; ok && was != nil && info != nil && mapfile.Unchanged(was, info) && !e.isDue(path, &tried) {
				sent[path] = info
				continue
			}
			select {
			case work <- path:
				sent[path] = info
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// statData returns what Stat says of the data of a recording, nil if it is gone.
func statData(path string) fs.FileInfo {
	info, err := os.Stat(filepath.Join(path, "data"))
	if err != nil {
		info, _ = os.Stat(path)
	}
	return info
}

// isDue reports whether a recording that could not be written must be tried again. From then on it
// is not, until it fails again. While nothing can be written, only the first of a look is tried, which
// has set tried then: each costs the time of an export.
func (e *export) isDue(path string, tried *bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.again[path]
	if !r.due || *tried && e.stuck {
		return false
	}
	*tried = true
	r.due = false
	e.again[path] = r
	return true
}

// feedNames sends the names that come on standard input, until ctx is done.
func (e *export) feedNames(ctx context.Context, work chan<- string) error {
	names, failed := make(chan string), make(chan error, 1)
	go func() { // it may wait for a name for ever
		defer close(failed)
		defer close(names)
		lines := bufio.NewScanner(e.stdin)
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			select {
			case names <- lines.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- lines.Err()
	}()
	for {
		select {
		case path, ok := <-names:
			if !ok {
				return <-failed
			}
			if path == "" {
				continue
			}
			select {
			case work <- path:
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// failed notes that a recording was tried. It prints the error, if there is one, and keeps the greatest
// exit code. With --watch, a recording that could not be written is tried again, and its error is printed
// once.
func (e *export) failed(path string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := e.names[path]
	delete(e.names, path)
	if err == nil {
		return
	}
	text := message(err)
	if !strings.Contains(text, path) {
		text = path + ": " + text
	}
	again := e.watch != "" && exitCode(err) == exitOutput
	if !silent(err) && !(again && e.again[path].text == text) {
		e.sayf("%s", text)
	}
	if again {
		e.again[path], e.stuck = refusal{text, name, true}, true
		return
	}
	if e.worst == nil || exitCode(err) > e.worst.code {
		e.worst = &exitError{code: exitCode(err)}
	}
}

// An exportInput is a recording that is exported.
type exportInput struct {
	path   string   // that of a copy if the recording comes through a pipe
	files  []string // see recordingFiles
	beside []string // see replay.FilesBeside
	remove func()   // removes the copy
}

func (e *export) openInput(path string) (in exportInput, err error) {
	if in.path, in.remove, err = e.spooled(path); err != nil {
		return in, err
	}
	if in.files, err = recordingFiles(in.path); err != nil {
		in.remove()
		return in, inputError(err)
	}
	in.beside = replay.FilesBeside(in.path)
	return in, nil
}

// export adds a recording to the tables.
func (e *export) export(path string) error {
	in, err := e.openInput(path)
	if err != nil {
		return err
	}
	defer in.remove()
	files := slices.Concat(in.files, in.beside)
	out, inputs := &outfile.Outputs{Std: e.outputs.Std}, []string{in.path}
	for _, name := range append(files, e.inputs()...) {
		if name != e.input {
			inputs = append(inputs, name)
		}
	}
	for _, name := range inputs {
		out.Reads(name)
	}
	if err := out.Check(e.output); err != nil {
		return outputError(err)
	}
	if err := e.reserveStdout(out); err != nil {
		return err
	}
	size := sizeOf(files)
	small := e.alone && size <= smallRecording
	if small {
		// Nearly everything that is allocated for a recording stays until it is exported.
		defer debug.SetGCPercent(debug.SetGCPercent(300))
	}
	read := make(map[string]fs.FileInfo)
	id := sync.OnceValues(func() (string, error) { return e.nameOf(&in, read) })
	end := func() {} // it was tried
	defer func() { end() }()
	isDone := func() (done bool, err error) {
		name, err := id()
		if err == nil {
			end, done, err = e.begin(path, name)
		}
		return done, err
	}
	// A recording that is exported alone is loaded while its name in the tables is derived, unless they
	// may have it already: then it would be loaded in vain.
	parallel := e.alone && e.jobs > 1
	early := parallel && !e.dir.MayHave(files)
	if early {
		go id()
		defer id() // the files may be removed afterwards
	} else if done, err := isDone(); done || err != nil {
		return err
	}
	if small {
		memory.Reserve(int(min(size+2*max(0, size-fewBytes), smallRecording))) // about as much is needed
	}
	var manifest *tables.Manifest
	loaded := false
	err = e.withReplay(in.path, path, func(r *replay.Replay, t *mechanism.Tables) error {
		if loaded = true; early {
			if done, err := isDone(); done || err != nil {
				return err
			}
		}
		name, err := id()
		if err != nil {
			return err
		}
		if err := r.CheckSame(read); err != nil {
			return inputError(err)
		}
		manifest, err = e.dir.Add(r, name, tables.Options{Tables: t, Parallel: parallel, Inputs: inputs})
		return outputError(err)
	})
	if early && !loaded { // for want of an option that was there when it was exported
		if done, err := isDone(); done || err != nil {
			return err
		}
	}
	if err != nil || manifest == nil {
		return err
	}
	return e.print(path, manifest, true)
}

// fewBytes is up to how many bytes of a recording no more than these are reserved: a huge page that is never
// filled is memory, too.
const fewBytes = 40 << 20

// smallRecording is the most bytes of a recording for whose export memory is cheaper than time.
const smallRecording = 256 << 20

// sizeOf returns how many bytes files have. Those that are missing have none.
func sizeOf(files []string) (n int64) {
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			n += info.Size()
		}
	}
	return n
}

// begin reports whether the tables have the recording with this name in them, and then prints a line. If
// not, the caller tries to add it, and calls end afterwards: a recording of the same content waits until
// then, and is tried if this one could not be added.
func (e *export) begin(path, name string) (end func(), done bool, err error) {
	for {
		e.mu.Lock()
		other := e.adds[name]
		if other == nil {
			other = make(chan struct{})
			e.adds[name], e.names[path] = other, name
			e.mu.Unlock()
			end = sync.OnceFunc(func() {
				e.mu.Lock()
				defer e.mu.Unlock()
				delete(e.adds, name)
				close(other)
			})
			break
		}
		e.mu.Unlock()
		<-other
	}
	m, err := e.dir.Has(name)
	switch {
	case err != nil:
		return end, false, outputError(err)
	case m != nil:
		return end, true, e.print(path, m, false)
	}
	return end, false, nil
}

// withReplay calls use with a recording, which is closed afterwards. use checks that no file of it
// has changed. path is the name for messages.
func (e *export) withReplay(input, path string, use func(*replay.Replay, *mechanism.Tables) error) error {
	opts, err := e.options()
	if err != nil {
		return err
	}
	opts.Windows = true
	r, err := replay.Load(input, opts)
	if err != nil {
		if path == "-" {
			err = nameStandardInput(err, input)
		}
		return e.loadError(err)
	}
	defer r.Close()
	e.warnWindows("the tables of changes")
	err = replay.Guard(func() error {
		t, err := e.tables(r)
		if err != nil {
			return err
		}
		return use(r, t)
	})
	if err == nil {
		return nil
	}
	if changed := r.Check(); changed != nil {
		return inputError(changed)
	}
	return err
}

// print prints what was written of a recording, or that the tables had it already.
func (e *export) print(path string, m *tables.Manifest, isNew bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.again, func(p string, r refusal) bool { return p == path || r.name == m.Recording })
	e.stuck = e.stuck && !isNew
	defer e.out.Flush()
	if e.json {
		return outputError(encoder(e.out).Encode(jsonExported{path, isNew, *m}))
	}
	if !isNew {
		rules := ""
		if m.Rules != replay.IndexVersion {
			rules = fmt.Sprintf(", by the rules of index version %d; a new directory gets those of %d", m.Rules, replay.IndexVersion)
		}
		_, err := fmt.Fprintf(e.out, "%s: is in the tables already, as %s%s\n", printable.Name(path), m.Recording, rules)
		return outputError(err)
	}
	changes, gaps, size := int64(0), int64(0), int64(0)
	for _, f := range m.Files {
		switch table, _, _ := strings.Cut(f.Path, "/"); table {
		case "changes":
			changes += f.Rows
		case "gaps":
			gaps += f.Rows
		}
		size += f.Bytes
	}
	_, err := fmt.Fprintf(e.out, "%s: %s, %s; %s in %s, as %s\n", printable.Name(path), count(uint64(changes), "change"), count(uint64(gaps), "gap"),
		count(uint64(size), "byte"), count(len(m.Files), "file"), m.Recording)
	return outputError(err)
}

// nameOf returns the name of a recording in the tables, which follows from the content of its files.
// It notes in read which files it has read: the image must be of the same ones.
func (e *export) nameOf(in *exportInput, read map[string]fs.FileInfo) (string, error) {
	id, err := tables.IDAndFiles(in.files, in.beside, e.guest.pid, read)
	return id, inputError(err)
}

// recordingFiles returns the files of a recording whose content its name in the tables follows
// from: all in its directory but what this program leaves there, or the file itself. Symbolic links are
// followed.
func recordingFiles(path string) ([]string, error) {
	path = pathname.Plain(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := filesBelow(path, 8)
	files = slices.DeleteFunc(files, func(f string) bool { return isOurs(path, f) })
	if slices.ContainsFunc(files, func(f string) bool { return isEarly(path, f) }) && hasEnded(path) {
		files = slices.DeleteFunc(files, func(f string) bool { return isEarly(path, f) })
	}
	return files, err
}

// indexName matches the name of an index that a command has saved which was given a recording's file data.
var indexName = lazyregexp.New(`^data(\.\d+)?\.textreplay-index(\.\d+)?$`)

// isOurs reports whether a file in a recording's directory is a saved index, or a temporary file of a program
// that was killed.
func isOurs(recording, file string) bool {
	dir, name := filepath.Split(file)
	return filepath.Clean(dir) == filepath.Clean(recording) && indexName().MatchString(name) || outfile.IsTemporary(name)
}

// isEarly reports whether a file of a recording is one that its recorder removes when it has ended
// the recording. Nothing reads it from then on.
func isEarly(recording, file string) bool {
	dir, name := filepath.Split(file)
	return filepath.Clean(dir) == filepath.Clean(recording) && (name == perfdata.EarlyFeatures || name == perfdata.EarlyPrograms || name == perfdata.EarlyTypes)
}

// filesBelow returns the files in a directory, by name. Directories that are deeper than depth
// have no file of a recording; symbolic links can make a circle.
func filesBelow(dir string, depth int) (files []string, err error) {
	if depth == 0 {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink != 0:
			continue // it leads nowhere
		case err != nil:
			return nil, err
		case info.IsDir():
			below, err := filesBelow(name, depth-1)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case info.Mode().IsRegular():
			files = append(files, name)
		}
	}
	return files, nil
}

// spooled is that of app, and copies a pipe that has a name, too: it is read more than once.
func (e *export) spooled(path string) (name string, remove func(), err error) {
	if path == "-" {
		return e.app.spooled(path)
	}
	plain := pathname.Plain(path)
	if info, err := os.Stat(plain); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return e.app.spooled(path)
	}
	f, err := os.Open(plain)
	if err == nil {
		defer f.Close()
		name, remove, err = spool(f)
	}
	return name, remove, inputError(err)
}

// writeTable writes one table of a recording to standard output.
func (e *export) writeTable(path string) error {
	in, err := e.openInput(path)
	if err != nil {
		return err
	}
	defer in.remove()
	read := make(map[string]fs.FileInfo)
	id, err := e.nameOf(&in, read)
	if err != nil {
		return err
	}
	return e.withReplay(in.path, path, func(r *replay.Replay, t *mechanism.Tables) error {
		if err := r.CheckSame(read); err != nil {
			return inputError(err)
		}
		if err := tables.Write(e.out, r, id, e.table.value, tables.Options{Tables: t}); err != nil {
			return outputError(err)
		}
		return inputError(r.Check())
	})
}

// addShipped adds the vmlinux files of --shipped.
func (e *export) addShipped() error {
	for _, name := range e.shipped {
		s, err := tables.ReadShipped(name)
		if err != nil {
			return inputError(err)
		}
		has, err := e.dir.Has(s.ID())
		if err != nil {
			return outputError(err)
		}
		m, err := e.dir.AddShipped(s)
		if err != nil {
			return outputError(err)
		}
		if err := e.print(name, m, has == nil); err != nil {
			return err
		}
	}
	return nil
}
