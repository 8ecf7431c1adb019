// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// tree makes files (name: content) and directories (name: "/") in a directory of the
// test, and enters it.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		dir := filepath.Dir(name)
		if content == "/" {
			dir = name
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if content != "/" {
			write(t, name, content)
		}
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// listing lists what the current directory holds, with the files' contents.
func listing(t *testing.T) (out []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		line := path
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += "=" + string(data)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func expect(t *testing.T, want ...string) {
	t.Helper()
	if got := listing(t); !slices.Equal(got, want) {
		t.Errorf("have %q, want %q", got, want)
	}
}

func fills(content string) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}
}

func TestRefused(t *testing.T) {
	tree(t, map[string]string{
		"rec/data": "in", "rec/kcore_dir/kcore": "in", "file": "in", "beside/x": "out", "spared/page": "in",
	})
	for _, link := range []struct {
		make     func(old, new string) error
		old, new string
	}{
		{os.Symlink, "file", "symlink"},
		{os.Symlink, "symlink", "symlink2"},
		{os.Symlink, "rec", "reclink"},
		{os.Symlink, "rec/new", "dangling"},
		{os.Symlink, "nowhere", "free"},
		{os.Link, "file", "hardlink"},
		{os.Link, "rec/data", "beside/hardlink"},
		{os.Symlink, "loop", "loop"},
	} {
		if err := link.make(link.old, link.new); err != nil {
			t.Fatal(err)
		}
	}
	before := listing(t)
	var o Outputs
	o.Reads("rec")
	o.Reads("rec/data")
	o.Reads("file")
	o.Spares("spared")
	o.Reads("missing")
	for _, tt := range []struct {
		path string
		why  string // "" for an output that is not refused
	}{
		{"file", "the input file"},
		{"./beside/../file", "the input file"},
		{"symlink", "the input file"},
		{"symlink2", "the input file"},
		{"hardlink", "the input file"},
		{"beside/hardlink", "the input rec/data"},
		{"rec", "the input rec"},
		{"reclink", "the input rec"},
		{"rec/data", "the input rec/data"},
		{"rec/new", "inside the input rec"},
		{"rec/new/deep", "inside the input rec"},
		{"reclink/kcore_dir/kcore", "inside the input rec"},
		{"dangling", "inside the input rec"},
		{"spared/page", "inside the input spared"},
		{"free", ""},
		{"recnot", ""},
		{"beside/x", ""},
		{"missing", ""},
	} {
		err := o.Reserve(tt.path)
		var refused *RefusedError
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%s: %v, want no error", tt.path, err)
		case tt.why != "" && (!errors.As(err, &refused) || refused.Why != tt.why || refused.Path != tt.path):
			t.Errorf("%s: %v, want it refused as %s", tt.path, err, tt.why)
		}
		if tt.why != "" {
			for name, err := range map[string]error{
				"WriteFile": o.WriteFile(tt.path, fills("out")),
				"Dir":       second(o.Dir(tt.path)),
				"NewDir":    second(o.NewDir(tt.path)),
			} {
				if !errors.As(err, &refused) {
					t.Errorf("%s(%s): %v, want a RefusedError", name, tt.path, err)
				}
			}
		}
	}
	if err := o.Reserve("loop"); err == nil {
		t.Error("a loop of links has no target")
	}
	if got := listing(t); !slices.Equal(got, before) {
		t.Errorf("have %q, want %q", got, before)
	}
}

func second(_ *Dir, err error) error { return err }

// TestReserveTwice: two outputs must not be one file.
func TestReserveTwice(t *testing.T) {
	tree(t, map[string]string{"old": "", "dir": "/"})
	if err := errors.Join(os.Symlink("old", "link"), os.Symlink("new", "newlink")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		a, b    string
		refused bool
	}{
		{"old", "link", true},
		{"new", "dir/../new", true},
		{"new", "newlink", true},
		{"old", "new", false},
		{"/dev/null", "/dev/null", false},
	} {
		var o Outputs
		if err := o.Reserve(tt.a); err != nil {
			t.Fatal(err)
		}
		var refused *RefusedError
		if err := o.Reserve(tt.b); errors.As(err, &refused) != tt.refused {
			t.Errorf("%s and %s: %v", tt.a, tt.b, err)
		}
	}
}

// TestStreamRefused: a standard output that is appended to an input would change it.
func TestStreamRefused(t *testing.T) {
	tree(t, map[string]string{"file": "in", "out": ""})
	var o Outputs
	o.Reads("file")
	for name, refused := range map[string]bool{"file": true, "out": false, os.DevNull: false} {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var e *RefusedError
		if err := o.ReserveStream(f); errors.As(err, &e) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhole: an output is there whole, or what was there before is.
func TestWhole(t *testing.T) {
	failing := errors.New("failing")
	fail := func(w io.Writer) error {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		return failing
	}
	for _, tt := range []struct {
		name string
		run  func(o *Outputs) error
		want []string
		err  error
	}{
		{"new file", func(o *Outputs) error { return o.WriteFile("new", fills("x")) }, []string{"dir", "dir/a=1", "new=x", "old=0"}, nil},
		{"old file", func(o *Outputs) error { return o.WriteFile("old", fills("x")) }, []string{"dir", "dir/a=1", "old=x"}, nil},
		{"failing", func(o *Outputs) error { return o.WriteFile("old", fail) }, []string{"dir", "dir/a=1", "old=0"}, failing},
		{"a directory", func(o *Outputs) error { return o.WriteFile("dir", fills("x")) }, []string{"dir", "dir/a=1", "old=0"}, errors.ErrUnsupported},
		{"a name of a directory", func(o *Outputs) error { return o.WriteFile("new/", fills("x")) }, []string{"dir", "dir/a=1", "old=0"}, errors.ErrUnsupported},
		{"in no directory", func(o *Outputs) error { return o.WriteFile("none/new", fills("x")) }, []string{"dir", "dir/a=1", "old=0"}, fs.ErrNotExist},
		{"new directory", func(o *Outputs) error {
			return inDir(o.NewDir("n/e/w"))(func(d *Dir) error {
				return errors.Join(d.WriteFile("a", fills("x")), d.WriteFile("b/c", fills("y")))
			})
		}, []string{"dir", "dir/a=1", "n", "n/e", "n/e/w", "n/e/w/a=x", "n/e/w/b", "n/e/w/b/c=y", "old=0"}, nil},
		{"new directory, failing", func(o *Outputs) error {
			return inDir(o.NewDir("n/e/w"))(func(d *Dir) error {
				return errors.Join(d.WriteFile("a", fills("x")), d.WriteFile("b/c", fail))
			})
		}, []string{"dir", "dir/a=1", "old=0"}, failing},
		{"new directory that exists", func(o *Outputs) error { return second(o.NewDir("dir")) },
			[]string{"dir", "dir/a=1", "old=0"}, fs.ErrExist},
		{"old directory", func(o *Outputs) error {
			return inDir(o.Dir("dir"))(func(d *Dir) error {
				return errors.Join(d.WriteFile("a", fills("x")), d.WriteFile("b", fills("y")))
			})
		}, []string{"dir", "dir/a=x", "dir/b=y", "old=0"}, nil},
		{"old directory, failing", func(o *Outputs) error {
			return inDir(o.Dir("dir"))(func(d *Dir) error {
				return errors.Join(d.WriteFile("a", fills("x")), d.WriteFile("b", fail))
			})
		}, []string{"dir", "dir/a=1", "old=0"}, failing},
		{"directory over a file", func(o *Outputs) error { return second(o.Dir("old")) },
			[]string{"dir", "dir/a=1", "old=0"}, fs.ErrExist},
		{"directory below a file", func(o *Outputs) error { return second(o.Dir("old/new")) },
			[]string{"dir", "dir/a=1", "old=0"}, errors.ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, map[string]string{"old": "0", "dir/a": "1"})
			var o Outputs
			err := tt.run(&o)
			if !errors.Is(err, tt.err) && (err == nil || tt.err != errors.ErrUnsupported) {
				t.Errorf("%v, want %v", err, tt.err)
			}
			expect(t, tt.want...)
		})
	}
}

// inDir lets fill write a directory, and commits or discards it.
func inDir(d *Dir, err error) func(fill func(d *Dir) error) error {
	return func(fill func(d *Dir) error) error {
		if err != nil {
			return err
		}
		defer d.Discard()
		if err := fill(d); err != nil {
			return err
		}
		return d.Commit()
	}
}

// TestErrorsNameTheOutput: a user who reads of an error does not know the names of
// temporary files.
func TestErrorsNameTheOutput(t *testing.T) {
	tree(t, nil)
	var o Outputs
	for _, name := range []string{"none/file", "none/"} {
		err := o.WriteFile(name, fills(""))
		var pe *fs.PathError
		if !errors.As(err, &pe) || pe.Path != name {
			t.Errorf("%v, want it to name %s", err, name)
		}
	}
	f, err := o.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	f.f.Close()
	if _, err := f.Write([]byte("x")); err == nil || err.Error() != "write file: file already closed" {
		t.Errorf("%v", err)
	}
	f.Discard()
	expect(t)
}

// TestThroughLink: a link that names an output is kept.
func TestThroughLink(t *testing.T) {
	tree(t, map[string]string{"dir/old": "0"})
	if err := errors.Join(os.Symlink("dir/old", "a"), os.Symlink("dir/new", "b")); err != nil {
		t.Fatal(err)
	}
	var o Outputs
	if err := errors.Join(o.WriteFile("a", fills("x")), o.WriteFile("b", fills("y"))); err != nil {
		t.Fatal(err)
	}
	expect(t, "a", "b", "dir", "dir/new=y", "dir/old=x")
}

func ExampleOutputs() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	input := filepath.Join(dir, "perf.data")
	if err := os.WriteFile(input, []byte("records"), 0o600); err != nil {
		panic(err)
	}
	var out Outputs
	out.Reads(input)
	var refused *RefusedError
	fmt.Println(errors.As(out.Reserve(input), &refused))

	output := filepath.Join(dir, "text.elf")
	err = out.WriteFile(output, func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		return err
	})
	if err != nil {
		panic(err)
	}
	info, err := os.Stat(output)
	if err != nil {
		panic(err)
	}
	fmt.Println(info.Mode())
	// Output:
	// true
	// -rw-------
}
