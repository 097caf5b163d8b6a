package objectstore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
)

// incarnation opens a store of one node's k-th incarnation over dir, without the checks of open.
func incarnation(t *testing.T, dir string, k uint64) *objectstore.Store {
	t.Helper()
	s, err := objectstore.Open(objectstore.Config{Budget: 4 * mib, Disk: 1 << 40, Dir: dir, Cluster: "c", Node: "n/1", Incarnation: k})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *objectstore.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRecoversEarlierIncarnation(t *testing.T) {
	dir := t.TempDir()
	first := incarnation(t, dir, 1)
	for n := range 3 {
		receive(t, first, n, content(n, mib+n), objectstore.Disk).SetPrimary(true)
	}
	receive(t, first, 3, content(3, mib), objectstore.Disk) // a copy: its file goes
	old := objectstore.DirOf(first)
	closeStore(t, first)
	madeFile(t, old, id(8).String()+"-1-7.tmp")
	madeFile(t, old, id(9).String()+"-1-8.obj") // without a header

	second := incarnation(t, dir, 2)
	found := map[raysys.TaskID]objectstore.Version{}
	for _, v := range second.Recovered() {
		found[v.ID] = v.Version
	}
	if len(found) != 3 {
		t.Fatalf("recovered %v", found)
	}
	if second.Stats().Disk == 0 {
		t.Error("the files of the earlier incarnation take no disk")
	}
	o, err := second.Adopt(context.Background(), found[id(1)], true)
	if err != nil {
		t.Fatal(err)
	}
	wrong := found[id(2)]
	wrong.Attempt++
	if _, err := second.Adopt(context.Background(), wrong, true); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("another attempt was adopted: %v", err)
	}
	wrong = found[id(2)]
	wrong.Nonce++
	if _, err := second.Adopt(context.Background(), wrong, true); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("another run of the attempt was adopted: %v", err)
	}
	if _, err := second.Adopt(context.Background(), found[id(1)], true); !errors.Is(err, objectstore.ErrPresent) {
		t.Errorf("adopted twice: %v", err)
	}
	if err := second.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old directory is still there: %v", err)
	}
	if len(second.Recovered()) != 0 {
		t.Error("recovered after Sweep")
	}
	same(t, o, content(1, mib+1))
	o.Release()
	empty(t, second)
	closeStore(t, second)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRecoveredFileThatRotted(t *testing.T) {
	dir := t.TempDir()
	first := incarnation(t, dir, 1)
	receive(t, first, 1, content(1, mib), objectstore.Disk).SetPrimary(true)
	name := spillFiles(t, objectstore.DirOf(first))[0]
	closeStore(t, first)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("rot"), mib/2); err != nil {
		t.Fatal(err)
	}
	f.Close()
	second := incarnation(t, dir, 2)
	defer closeStore(t, second)
	o, err := second.Adopt(context.Background(), second.Recovered()[0].Version, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Bytes(context.Background()); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("%v", err)
	}
	o.Release()
}

func TestLivingIncarnationIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	first := incarnation(t, dir, 1)
	o := receive(t, first, 1, content(1, mib), objectstore.Disk)
	o.SetPrimary(true)
	second := incarnation(t, dir, 1) // the same number even
	if got := second.Recovered(); len(got) != 0 {
		t.Errorf("recovered from a living process: %v", got)
	}
	receive(t, second, 2, content(2, mib), objectstore.Disk)
	if objectstore.DirOf(first) == objectstore.DirOf(second) {
		t.Error("two stores share a directory")
	}
	if err := second.Sweep(); err != nil {
		t.Fatal(err)
	}
	closeStore(t, second)
	same(t, o, content(1, mib))
	closeStore(t, first)
}

func TestOthersFilesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	first := incarnation(t, dir, 1)
	receive(t, first, 1, content(1, mib), objectstore.Disk).SetPrimary(true)
	old := objectstore.DirOf(first)
	closeStore(t, first)
	foreign, err := objectstore.Open(objectstore.Config{Budget: mib, Dir: dir, Cluster: "another", Node: "n/1", Incarnation: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := foreign.Recovered(); len(got) != 0 {
		t.Errorf("read the files of another cluster: %v", got)
	}
	if err := foreign.Sweep(); err != nil {
		t.Fatal(err)
	}
	closeStore(t, foreign)
	other, err := objectstore.Open(objectstore.Config{Budget: mib, Dir: dir, Cluster: "c", Node: "n", Incarnation: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Sweep(); err != nil {
		t.Fatal(err)
	}
	if got := other.Recovered(); len(got) != 0 {
		t.Errorf("read the files of another node: %v", got)
	}
	closeStore(t, other)
	again := incarnation(t, dir, 2)
	if got := again.Recovered(); len(got) != 1 {
		t.Errorf("after others looked there are %d files", len(got))
	}
	closeStore(t, again)
	// A directory that was put where another cluster looks: its files say whose they are.
	if err := os.Rename(old, filepath.Join(dir, strings.Replace(filepath.Base(old), "c@", "another@", 1))); err != nil {
		t.Fatal(err)
	}
	foreign, err = objectstore.Open(objectstore.Config{Budget: mib, Dir: dir, Cluster: "another", Node: "n/1", Incarnation: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := foreign.Recovered(); len(got) != 0 {
		t.Errorf("read the files of another cluster: %v", got)
	}
	if err := foreign.Sweep(); err != nil {
		t.Fatal(err)
	}
	closeStore(t, foreign)
	if err := os.Rename(strings.Replace(old, "c@", "another@", 1), old); err != nil {
		t.Fatal(err)
	}
	again = incarnation(t, dir, 3)
	if got := again.Recovered(); len(got) != 1 {
		t.Errorf("another cluster, in whose place they were put, has left %d files", len(got))
	}
	closeStore(t, again)
}

func TestNodesWhoseNamesBeginAlike(t *testing.T) {
	dir := t.TempDir()
	config := objectstore.Config{Budget: mib, Dir: dir, Cluster: "c", Node: "a-b"}
	s, err := objectstore.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	receive(t, s, 1, content(1, mib), objectstore.Disk).SetPrimary(true)
	closeStore(t, s)
	config.Node = "a"
	other, err := objectstore.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if got := other.Recovered(); len(got) != 0 {
		t.Errorf("node a found the files of a-b: %v", got)
	}
	closeStore(t, other)
}

func TestTemporaryDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	base := filepath.Join(os.TempDir(), "raysys-"+strconv.Itoa(os.Getuid()))
	s, err := objectstore.Open(objectstore.Config{Budget: mib})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(base); !errors.Is(err, os.ErrNotExist) {
		t.Error("a store that never spilled made a directory")
	}
	// One that a process which was killed left behind goes with the first that spills.
	dead := filepath.Join(base, "@dead-0000000000000001")
	madeFile(t, dead, "lock")
	// What is not of a node stays: a folder of another name, a file, and a folder without a lock file.
	others := []string{filepath.Join(base, "dead-1", "lock"), filepath.Join(base, "a@b-0000000000000002", "notes"), filepath.Join(base, "c@d-000000000000000g", "lock")}
	for _, file := range others {
		madeFile(t, filepath.Dir(file), filepath.Base(file))
	}
	living, err := objectstore.Open(objectstore.Config{Budget: mib, Node: "living"})
	if err != nil {
		t.Fatal(err)
	}
	o := receive(t, living, 1, content(1, mib), objectstore.Disk)
	receive(t, s, 1, content(1, mib), objectstore.Disk).SetPrimary(true)
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Error("the directory of a dead process is still there")
	}
	same(t, o, content(1, mib))
	closeStore(t, s)
	closeStore(t, living)
	for _, file := range others {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(base); len(left) != len(others) {
		t.Errorf("left: %v", left)
	}
}

// madeFile makes a folder with a file in it.
func madeFile(t *testing.T, dir, file string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTemporaryDirectoryIsALink: nothing is made or removed where it leads.
func TestTemporaryDirectoryIsALink(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	target := t.TempDir()
	madeFile(t, filepath.Join(target, "@dead-0000000000000001"), "lock")
	madeFile(t, filepath.Join(target, "photos"), "lock")
	if err := os.Symlink(target, filepath.Join(os.TempDir(), "raysys-"+strconv.Itoa(os.Getuid()))); err != nil {
		t.Fatal(err)
	}
	s, err := objectstore.Open(objectstore.Config{Budget: mib})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	if _, err := s.Receive(context.Background(), version(1, content(1, mib)), objectstore.Disk); !errors.Is(err, raysys.ErrStoreFull) || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("%v", err)
	}
	left, _ := os.ReadDir(target)
	if len(left) != 2 {
		t.Errorf("left in the link's target: %v", left)
	}
}

// inFolder lists all that is below a folder, with what the files have.
func inFolder(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, err := os.ReadFile(path)
			list = append(list, strings.TrimPrefix(path, dir)+": "+string(b))
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestOnlyOwnFilesAreRemoved: in the place for spill files a store touches nothing that a store did not make, and says what that is: neither
// through a link by the name of an incarnation, of a file or of the lock, nor a file or folder of another name, nor what is a copy by its name.
func TestOnlyOwnFilesAreRemoved(t *testing.T) {
	object := id(1).String() + "-1-1.obj"
	for what, c := range map[string]struct {
		old    string                      // a directory by the name of an incarnation; "" for a link to home
		put    func(in, home string) error // what is put there
		stays  string                      // of it
		silent bool
	}{
		"a linked directory": {put: func(in, home string) error { return os.Symlink(home, in) }, stays: "is a link"},
		"a file":             {put: func(in, home string) error { return os.WriteFile(in, []byte("mine"), 0o600) }, stays: "is no folder"},
		"a copy":             {old: ".bak", put: func(in, home string) error { return os.Link(filepath.Join(home, "thesis"), filepath.Join(in, object)) }, stays: object, silent: true},
		"another file": {old: ".3", put: func(in, home string) error {
			return os.Link(filepath.Join(home, "thesis"), filepath.Join(in, "notes.obj"))
		}, stays: "notes.obj"},
		"a folder": {old: ".3", put: func(in, home string) error { return os.CopyFS(filepath.Join(in, "photos"), os.DirFS(home)) }, stays: "photos"},
		"a linked object": {old: ".3", put: func(in, home string) error {
			return os.Symlink(filepath.Join(home, "thesis"), filepath.Join(in, object))
		}, stays: object},
		"a linked lock": {old: ".3", put: func(in, home string) error {
			return os.Symlink(filepath.Join(home, "thesis"), filepath.Join(in, "lock"))
		}, stays: "is a link"},
		"a lock to be": {old: ".3", put: func(in, home string) error { return os.Symlink(filepath.Join(home, "new"), filepath.Join(in, "lock")) }, stays: "is a link"},
	} {
		for _, temporary := range []bool{false, true} {
			home, base := t.TempDir(), filepath.Join(t.TempDir(), "raysys-"+strconv.Itoa(os.Getuid()))
			madeFile(t, filepath.Join(home, "2024"), object)
			if err := errors.Join(os.WriteFile(filepath.Join(home, "thesis"), []byte("years"), 0o600), os.Mkdir(base, 0o700)); err != nil {
				t.Fatal(err)
			}
			in := filepath.Join(base, "c@n%2F1-0000000000000001"+c.old)
			if c.old != "" {
				madeFile(t, in, id(7).String()+"-1-1.tmp")
				if !strings.Contains(what, "lock") {
					madeFile(t, in, "lock")
				}
			}
			if err := c.put(in, home); err != nil {
				t.Fatal(err)
			}
			before, there := inFolder(t, home), inFolder(t, base)
			var said []string
			cfg := objectstore.Config{Budget: 4 * mib, Disk: 1 << 40, Dir: base, Cluster: "c", Node: "n/1", Incarnation: 2}
			cfg.Hooks.Trouble = func(what string, err error) { said = append(said, what+": "+err.Error()) }
			if temporary {
				t.Setenv("TMPDIR", filepath.Dir(base))
				cfg.Dir = ""
			}
			s, err := objectstore.Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			receive(t, s, 1, content(1, mib), objectstore.Disk)
			if err := s.Sweep(); err != nil {
				t.Error(err)
			}
			closeStore(t, s)
			if now := inFolder(t, home); !slices.Equal(now, before) {
				t.Errorf("%s, temporary %v: of %q there is %q", what, temporary, before, now)
			}
			for _, file := range inFolder(t, base) {
				there = slices.DeleteFunc(there, func(f string) bool { return f == file })
			}
			// The store's own unfinished file and its lock may go; nothing else.
			there = slices.DeleteFunc(there, func(f string) bool { return strings.Contains(f, ".tmp: ") || strings.Contains(f, "lock: ") })
			if len(there) > 0 {
				t.Errorf("%s, temporary %v: %q is gone", what, temporary, there)
			}
			goes := temporary && what == "a linked object" // which is a name that a store gives: the link goes, not what it leads to
			if _, err := os.Lstat(in); (err != nil) != goes {
				t.Errorf("%s, temporary %v: %v", what, temporary, err)
			}
			silent := c.silent || goes || temporary && strings.Contains(what, "lock") // a directory without a lock file is of no store
			if all := strings.Join(said, "\n"); !silent && !strings.Contains(all, c.stays) || c.silent && all != "" {
				t.Errorf("%s, temporary %v: it says %q, want %q", what, temporary, all, c.stays)
			}
		}
	}
}

func TestTemporaryDirectoryOfAnother(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	base := filepath.Join(os.TempDir(), "raysys-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := objectstore.Open(objectstore.Config{Budget: mib})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	if _, err := s.Receive(context.Background(), version(1, content(1, mib)), objectstore.Disk); !errors.Is(err, raysys.ErrStoreFull) {
		t.Errorf("%v", err)
	}
}
