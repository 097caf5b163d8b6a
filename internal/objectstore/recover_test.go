package objectstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
	if err := os.WriteFile(filepath.Join(old, "half.tmp"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(old, "bad.obj"), []byte("no header"), 0o600); err != nil {
		t.Fatal(err)
	}

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
	defer closeStore(t, foreign)
	if got := foreign.Recovered(); len(got) != 0 {
		t.Errorf("read the files of another cluster: %v", got)
	}
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
