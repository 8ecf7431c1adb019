// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package outfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestModes: nobody can read an output who cannot read every input.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	gid := os.Getegid()
	for _, tt := range []struct {
		name        string
		dir, rec    fs.FileMode // of the recording's directory, and of the one above
		data, kcore fs.FileMode
		file, made  fs.FileMode // of outputs
	}{
		{"all can read all", 0o755, 0o755, 0o644, 0o644, 0o644, 0o755},
		{"all can write all", 0o777, 0o777, 0o666, 0o666, 0o666, 0o777},
		{"owner-only data", 0o755, 0o755, 0o600, 0o644, 0o600, 0o700},
		{"owner-only kcore", 0o755, 0o755, 0o644, 0o400, 0o600, 0o700},
		{"owner-only recording", 0o755, 0o700, 0o644, 0o644, 0o600, 0o700},
		{"owner-only directory above", 0o700, 0o755, 0o644, 0o644, 0o600, 0o700},
		{"group", 0o755, 0o755, 0o640, 0o644, 0o640, 0o750},
		{"group by directory", 0o750, 0o755, 0o644, 0o644, 0o640, 0o750},
		{"a directory that can be searched only", 0o711, 0o755, 0o644, 0o644, 0o644, 0o755},
		{"a directory that can be listed only", 0o744, 0o755, 0o644, 0o644, 0o600, 0o700},
		{"others but not the group", 0o755, 0o755, 0o604, 0o644, 0o600, 0o700},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, map[string]string{"in/rec/data": "", "in/rec/kcore": "", "out": "/"})
			for name, mode := range map[string]fs.FileMode{"in/rec/data": tt.data, "in/rec/kcore": tt.kcore, "in/rec": tt.rec, "in": tt.dir} {
				if err := errors.Join(os.Chmod(name, mode), os.Chown(name, -1, gid)); err != nil {
					t.Fatal(err)
				}
			}
			var o Outputs
			for _, name := range []string{"in/rec", "in/rec/data", "in/rec/kcore"} {
				o.Reads(name)
			}
			err := errors.Join(
				o.WriteFile("out/file", fills("")),
				o.WriteFile("in/file", fills("")), // next to the recording
				inDir(o.NewDir("out/dir/sub"))(func(d *Dir) error { return d.WriteFile("a/file", fills("")) }),
			)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]fs.FileMode{
				"out/file": tt.file, "in/file": tt.file,
				"out/dir": tt.made, "out/dir/sub": tt.made, "out/dir/sub/a": tt.made, "out/dir/sub/a/file": tt.file,
			} {
				if got := modeOf(t, name); got != want {
					t.Errorf("%s: mode %o, want %o", name, got, want)
				}
			}
		})
	}
}

func modeOf(t *testing.T, name string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestModeElsewhere: a directory far above an input restricts outputs that are not
// below it too.
func TestModeElsewhere(t *testing.T) {
	tree(t, map[string]string{"home/a/b/rec": "", "home/a/out": "/", "out": "/"})
	if err := os.Chmod("home", 0o700); err != nil {
		t.Fatal(err)
	}
	var o Outputs
	o.Reads("home/a/b/rec")
	if err := errors.Join(o.WriteFile("out/x", fills("")), o.WriteFile("home/a/out/x", fills(""))); err != nil {
		t.Fatal(err)
	}
	if got := modeOf(t, "out/x"); got&0o077 != 0 {
		t.Errorf("outside of the home directory: mode %o", got)
	}
	if got := modeOf(t, "home/a/out/x"); got&0o044 == 0 {
		t.Errorf("inside of the home directory: mode %o", got)
	}
}

// TestModeKept: an output that was there does not become more readable.
func TestModeKept(t *testing.T) {
	tree(t, map[string]string{"in": "", "out": ""})
	if err := os.Chmod("out", 0o600); err != nil {
		t.Fatal(err)
	}
	var o Outputs
	o.Reads("in")
	if err := o.WriteFile("out", fills("x")); err != nil {
		t.Fatal(err)
	}
	if got := modeOf(t, "out"); got != 0o600 {
		t.Errorf("mode %o", got)
	}
}

// TestGroup: the group of an output may be another one than that of the input, whose
// members can read the input.
func TestGroup(t *testing.T) {
	for _, tt := range []struct {
		mode      fs.FileMode
		same      bool
		permitted fs.FileMode
	}{
		{0o640, true, 0o740}, {0o640, false, 0o700}, {0o644, false, 0o744},
		{0o660, true, 0o760}, {0o604, true, 0o700}, {0o604, false, 0o700},
		{fs.ModeDir | 0o750, true, 0o770}, {fs.ModeDir | 0o750, false, 0o700}, {fs.ModeDir | 0o755, false, 0o777},
	} {
		gid := 1
		if !tt.same {
			gid = 2
		}
		if got := permits(fakeInfo{mode: tt.mode, gid: 1}, gid); got != tt.permitted {
			t.Errorf("%v, same group %v: %o, want %o", tt.mode, tt.same, got, tt.permitted)
		}
	}
}

// A fakeInfo is of a file that only a privileged user could make.
type fakeInfo struct {
	fs.FileInfo
	mode     fs.FileMode
	uid, gid uint32
}

func (f fakeInfo) Mode() fs.FileMode { return f.mode }
func (f fakeInfo) IsDir() bool       { return f.mode.IsDir() }
func (f fakeInfo) Sys() any          { return &syscall.Stat_t{Uid: f.uid, Gid: f.gid} }

// TestInPlace: pipes and open files are written to as they are.
func TestInPlace(t *testing.T) {
	tree(t, nil)
	if err := syscall.Mkfifo("fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		data, err := os.ReadFile("fifo")
		if err != nil {
			t.Error(err)
		}
		got <- string(data)
	}()
	var o Outputs
	if err := o.WriteFile("fifo", fills("through")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "through" {
		t.Errorf("read %q", s)
	}

	f, err := os.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o.Std = []*os.File{f}
	fmt.Fprint(f, "before ")
	if err := o.WriteFile("file", fills("and after")); err != nil {
		t.Fatal(err)
	}
	if path := fmt.Sprintf("/dev/fd/%d", f.Fd()); exists(path) {
		if err := o.WriteFile(path, fills(", the same")); err != nil {
			t.Fatal(err)
		}
		expect(t, "fifo", "file=before and after, the same")
	}
	if r, err := os.Create("other"); err != nil {
		t.Fatal(err)
	} else if path := fmt.Sprintf("/proc/self/fd/%d", r.Fd()); exists(path) {
		if err := o.WriteFile(path, fills("in place")); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r) // the file that was opened, not one that has its name
		if err != nil || string(data) != "in place" {
			t.Errorf("%q, %v", data, err)
		}
		r.Close()
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestReadOnly: a file that its owner has made read-only is not replaced. The
// superuser may write to it all the same.
func TestReadOnly(t *testing.T) {
	tree(t, map[string]string{"old": "0"})
	if err := os.Chmod("old", 0o444); err != nil {
		t.Fatal(err)
	}
	var o Outputs
	err := o.WriteFile("old", fills("x"))
	if os.Geteuid() == 0 {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v", err)
	}
	expect(t, "old=0")
}

// TestFull: where the file system takes no more, nothing is left behind.
func TestFull(t *testing.T) {
	const role = "OUTFILE_TEST_FULL"
	if os.Getenv(role) != "" {
		signal.Ignore(syscall.SIGXFSZ)
		var o Outputs
		big := func(w io.Writer) error {
			_, err := w.Write(make([]byte, 1<<20))
			return err
		}
		for _, err := range []error{
			o.WriteFile("new", big),
			o.WriteFile("old", big),
			inDir(o.NewDir("dir"))(func(d *Dir) error { return d.WriteFile("x", big) }),
		} {
			if !errors.Is(err, syscall.EFBIG) {
				fmt.Println(err)
			}
		}
		os.Exit(0)
	}
	tree(t, map[string]string{"old": "0"})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `ulimit -f 100; exec "$0" -test.run='^TestFull$'`, exe)
	cmd.Env = append(os.Environ(), role+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%s%v", out, err)
	}
	expect(t, "old=0")
}

// TestSignals: a signal leaves no file and no directory that is not complete, and
// the program dies by it.
func TestSignals(t *testing.T) {
	const role = "OUTFILE_TEST_UNFINISHED"
	if os.Getenv(role) != "" {
		unfinishedOutputs()
		os.Exit(1) // no signal ended it
	}
	all := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}
	if runtime.GOOS == "linux" {
		all = append(all, syscall.SIGQUIT)
	}
	for _, s := range all {
		t.Run(s.String(), func(t *testing.T) {
			tree(t, map[string]string{"old": "0", "dir": "/"})
			temp := t.TempDir()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			// A signal that this process catches is not ignored by the one that it
			// starts, even if this one was started with nohup.
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, s)
			defer signal.Stop(caught)
			cmd := exec.Command(exe, "-test.run=^TestSignals$")
			cmd.Env = append(os.Environ(), role+"=1", "TMPDIR="+temp)
			cmd.Stderr = os.Stderr
			startUntilLine(t, cmd)
			if len(listing(t)) < 5 {
				t.Errorf("nothing unfinished: %q", listing(t))
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != s {
				t.Errorf("%v, want it to die by %v", err, s)
			}
			expect(t, "dir", "old=0")
			if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// unfinishedOutputs begins outputs of each kind, says so, and waits for its end.
func unfinishedOutputs() {
	RemoveOnSignals()
	var o Outputs
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for _, name := range []string{"old", "new"} {
		f, err := o.Create(name)
		must(err)
		_, err = f.Write([]byte("partial"))
		must(err)
	}
	for _, name := range []string{"dir", "new/dir"} {
		d, err := o.Dir(name)
		must(err)
		must(d.WriteFile("whole", fills("x")))
		_, err = d.Create("partial")
		must(err)
	}
	_, _, err := Temp()
	must(err)
	fmt.Println("ready")
	time.Sleep(time.Minute)
}

// TestSignalIgnored: what nohup keeps from the program is not asked for. But a program that
// works until it is stopped can be stopped where a shell made it ignore SIGINT.
func TestSignalIgnored(t *testing.T) {
	const role = "OUTFILE_TEST_IGNORED"
	switch os.Getenv(role) {
	case "HUP":
		RemoveOnSignals()
		_, remove, err := Temp() // from now on signals are asked for
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		time.Sleep(100 * time.Millisecond)
		remove()
		os.Exit(0)
	case "INT":
		RemoveOnSignals()
		ctx, release := SignalContext()
		fmt.Println("ready")
		select {
		case <-ctx.Done():
			release()
			os.Exit(0)
		case <-time.After(time.Minute):
			os.Exit(1)
		}
	}
	t.Run("HUP", func(t *testing.T) { surviveIgnored(t, role, "HUP", syscall.SIGHUP) })
	t.Run("INT", func(t *testing.T) { surviveIgnored(t, role, "INT", syscall.SIGINT) })
}

// surviveIgnored starts the test again with a signal that is ignored, sends it, and wants the
// process to end by itself.
func surviveIgnored(t *testing.T, role, name string, s syscall.Signal) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `trap "" `+name+`; exec "$0" -test.run='^TestSignalIgnored$'`, exe)
	cmd.Env = append(os.Environ(), role+"="+name)
	startUntilLine(t, cmd)
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestTrusted: only a file that nobody else can change or replace is trusted.
func TestTrusted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dir     fs.FileMode // of the directory above
		file    fs.FileMode // 0 for none
		trusted bool
	}{
		{"private", 0o700, 0o600, true},
		{"readable", 0o755, 0o644, true},
		{"no file", 0o755, 0, true},
		{"writable by the group", 0o755, 0o664, false},
		{"writable by others", 0o755, 0o646, false},
		{"in a directory of the group", 0o775, 0o644, false},
		{"in a directory of all", 0o777, 0o600, false},
		{"no file in a directory of all", 0o777, 0, false},
		{"in a sticky directory", fs.ModeSticky | 0o777, 0o644, true},
		{"writable in a sticky directory", fs.ModeSticky | 0o777, 0o666, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree(t, map[string]string{"dir/below": "/"})
			for _, path := range []string{"dir/file", "dir/below/file", "dir/below/new/file"} {
				if tt.file != 0 && path != "dir/below/new/file" {
					write(t, path, "")
					if err := os.Chmod(path, tt.file); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := os.Chmod("dir", tt.dir); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"dir/file", "dir/below/file"} {
				if err := Trusted(path); (err == nil) != tt.trusted {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
	tree(t, map[string]string{"file": "", "dir": "/"})
	if err := errors.Join(os.Symlink("file", "link"), os.Symlink("nowhere", "dangling"), os.Symlink("dir", "dirlink"), syscall.Mkfifo("fifo", 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, trusted := range map[string]bool{
		"link": false, "dangling": false, "fifo": false, "dir": false, "file/below": false,
		"new": true, "dirlink/new": true, "new/dir/new": true,
	} {
		if err := Trusted(path); (err == nil) != trusted {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOwned: the owner must be the caller or root.
func TestOwned(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, tt := range []struct {
		uid    uint32
		mode   fs.FileMode
		shared bool
		owned  bool
	}{
		{0, 0o644, false, true}, {me, 0o644, false, true}, {me + 1, 0o644, false, false}, {me + 1, 0o600, true, false},
		{me, 0o664, false, false}, {me, 0o646, false, false}, {me, 0o666, true, true}, {0, 0o666, false, false},
	} {
		if err := owned(fakeInfo{mode: tt.mode, uid: tt.uid}, tt.shared); (err == nil) != tt.owned {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestOwnedLike: the owner must be the caller, root, or that of the other file.
func TestOwnedLike(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, tt := range []struct {
		uid, like uint32
		ok        bool
	}{
		{0, me + 1, true}, {me, me + 1, true}, {me + 1, me + 1, true}, {me + 1, me, false}, {me + 1, 0, false}, {me + 2, me + 1, false},
	} {
		if err := ownedLike(fakeInfo{uid: tt.uid}, fakeInfo{uid: tt.like}); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	tree(t, map[string]string{"mine": "", "recording": "/"})
	if err := errors.Join(os.Symlink("mine", "link"), os.Symlink("nowhere", "dangling")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"mine": true, "link": true, "dangling": false, "nowhere": false} {
		if err := OwnedLike(path, "recording"); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := OwnedLike("mine", "nowhere"); err == nil {
		t.Error("no error for a recording that is not there")
	}
	if os.Geteuid() != 0 {
		return // what follows needs files of another user
	}
	if err := errors.Join(os.Lchown("link", 4711, 4711), os.Chown("mine", 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := OwnedLike("link", "recording"); err == nil {
		t.Error("another user's link to a file of root is taken for root's")
	}
	if err := errors.Join(os.Lchown("link", 0, 0), os.Chown("mine", 4711, 4711)); err != nil {
		t.Fatal(err)
	}
	if err := OwnedLike("link", "recording"); err == nil {
		t.Error("another user's file is taken through a link of root")
	}
	if err := errors.Join(os.Chown("recording", 4711, 4711), OwnedLike("link", "recording"), OwnedLike("mine", "recording")); err != nil {
		t.Error(err)
	}
}

// TestEnter: the temporary files of programs that were killed are removed, if no other program
// writes there.
func TestEnter(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "below", tempName+"0123456789abcdef")
	other := filepath.Join(dir, tempName+"notes")
	if err := os.Mkdir(filepath.Dir(left), 0o777); err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(name, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(other)
	exists := func() bool {
		_, err := os.Stat(left)
		return err == nil
	}
	enter := func() func(func()) {
		t.Helper()
		leave, err := Enter(dir)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first := enter()
	write(left)
	second := enter()
	if !exists() {
		t.Error("a file of a program that writes was removed")
	}
	first(nil)
	third := enter()
	if !exists() {
		t.Error("a file was removed while another program writes")
	}
	second(nil)
	third(nil)
	enter()(nil)
	if exists() {
		t.Error("the file of a program that was killed is still there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("another file: %v", err)
	}
}

// TestLeave: directories in which nothing was written are removed, unless another program
// may be about to write there.
func TestLeave(t *testing.T) {
	root := t.TempDir()
	var out Outputs
	empty, full := filepath.Join(root, "a", "b"), filepath.Join(root, "c")
	for _, dir := range []string{empty, full} {
		if err := out.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := Enter(root)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Enter(root)
	if err != nil {
		t.Fatal(err)
	}
	first(func() { t.Error("another program writes there") })
	if _, err := os.Stat(empty); err != nil {
		t.Errorf("another program writes there: %v", err)
	}
	alone := false
	second(func() { alone = true })
	if !alone {
		t.Error("no other program writes there")
	}
	if _, err := os.Stat(filepath.Dir(empty)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty directories are still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(full, "file")); err != nil {
		t.Error(err)
	}
}

// TestSignalLeaves: a signal that ends a program removes its empty directories, unless another program may be
// about to write there.
func TestSignalLeaves(t *testing.T) {
	const role = "OUTFILE_TEST_LEAVES"
	if root := os.Getenv(role); root != "" {
		RemoveOnSignals()
		if _, err := Enter(root); err != nil {
			t.Fatal(err)
		}
		if err := new(Outputs).MkdirAll(filepath.Join(root, "empty")); err != nil {
			t.Fatal(err)
		}
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []bool{false, true} {
		root := t.TempDir()
		leave := func(func()) {}
		if other {
			if leave, err = Enter(root); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(exe, "-test.run=^TestSignalLeaves$")
		cmd.Env = append(os.Environ(), role+"="+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
			t.Fatal(err)
		}
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if _, err := os.Stat(filepath.Join(root, "empty")); (err == nil) != other {
			t.Errorf("another program writes there: %v; the directory: %v", other, err)
		}
		leave(nil)
	}
}

// TestEnterRemoved: a directory that another program removes before it is entered is not entered.
func TestEnterRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	leave, err := Enter(dir)
	if err != nil {
		t.Fatal(err)
	}
	entering := make(chan error)
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	leave(nil)
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := Enter(dir)
		entering <- err
	}()
	time.Sleep(50 * time.Millisecond) // Enter waits for the lock
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-entering; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestDirInPlace: in a directory that is there, an output that is a device is written
// directly, and the others are replaced.
func TestDirInPlace(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", filepath.Join(dir, "null")); err != nil {
		t.Fatal(err)
	}
	var o Outputs
	d, err := o.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "null", "b"} {
		if err := d.WriteFile(name, func(w io.Writer) error { _, err := io.WriteString(w, name); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if fi, err := os.Lstat(filepath.Join(dir, "null")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("null: %v, %v; want the link", fi, err)
	}
}

// TestQuit: SIGQUIT ends a program that has nothing to remove as it ends others, without a trace of the
// goroutines, once the program has run for untidyAfter.
func TestQuit(t *testing.T) {
	const role = "OUTFILE_TEST_QUIT"
	if os.Getenv(role) != "" {
		RemoveOnSignals()
		time.Sleep(5 * untidyAfter)
		fmt.Println("ready")
		time.Sleep(time.Minute)
	}
	if runtime.GOOS != "linux" {
		t.Skip("SIGQUIT prints a trace here: see toDefault")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestQuit$")
	cmd.Env = append(os.Environ(), role+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	startUntilLine(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGQUIT || stderr.Len() > 0 {
		t.Errorf("%v, %q, want it to die by SIGQUIT", err, stderr.String())
	}
}

// startUntilLine starts a program, and returns when it has printed a line.
func startUntilLine(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}
