package objectstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
)

// persisted is the one file of an earlier incarnation that s has found.
func persisted(t *testing.T, s *objectstore.Store, label string) objectstore.Version {
	t.Helper()
	list := s.Recovered()
	if len(list) != 1 || list[0].Label != label {
		t.Fatalf("recovered %+v, not one file with the label %q", list, label)
	}
	return list[0].Version
}

// TestPersistedOutlives: whatever form an object has, its file is found by the next incarnation, with its label and its
// bytes.
func TestPersistedOutlives(t *testing.T) {
	want := content(1, mib+1)
	for name, make := range map[string]func(t *testing.T, s *objectstore.Store) *objectstore.Object{
		"a live value": func(t *testing.T, s *objectstore.Store) *objectstore.Object { return add(t, s, 1, newValue(want)) },
		"a value that was spilled": func(t *testing.T, s *objectstore.Store) *objectstore.Object {
			o := add(t, s, 1, newValue(want))
			if err := objectstore.Spill(o); err != nil {
				t.Fatal(err)
			}
			return o
		},
		"a copy in memory": func(t *testing.T, s *objectstore.Store) *objectstore.Object {
			return receive(t, s, 1, want, objectstore.Heap)
		},
		"a copy on disk": func(t *testing.T, s *objectstore.Store) *objectstore.Object {
			return receive(t, s, 1, want, objectstore.Disk)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := incarnation(t, dir, 1)
			o := make(t, first)
			o.SetPrimary(true)
			for range 2 { // the second time it is there
				if err := o.Persist(t.Context(), "label"); err != nil {
					t.Fatal(err)
				}
			}
			if !o.Persisted() || len(spillFiles(t, objectstore.DirOf(first))) != 1 {
				t.Errorf("persisted %v, in %v", o.Persisted(), spillFiles(t, objectstore.DirOf(first)))
			}
			closeStore(t, first)
			second := incarnation(t, dir, 2)
			if err := second.Sweep(); err != nil {
				t.Fatal(err)
			}
			v := persisted(t, second, "label")
			adopted, err := second.Adopt(t.Context(), v, true)
			if err != nil {
				t.Fatal(err)
			}
			same(t, adopted, want)
			if err := second.Sweep(); err != nil {
				t.Fatal(err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("left beside the second incarnation's directory: %v", left)
			}
			closeStore(t, second) // and again: an adopted file keeps its label
			third := incarnation(t, dir, 3)
			third.Discard(persisted(t, third, "label"))
			if err := third.Sweep(); err != nil {
				t.Fatal(err)
			}
			empty(t, third)
			closeStore(t, third)
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("after Discard and Sweep there are %v", left)
			}
		})
	}
}

// TestPersistSyncs: the bytes are synced before the file has its name, and the directory after that.
func TestPersistSyncs(t *testing.T) {
	var ops []string
	fs := newFaulty()
	fs.fault = func(op, name string) error {
		if slices.Contains([]string{"sync", "rename", "syncdir"}, op) {
			ops = append(ops, op)
		}
		return nil
	}
	s := open(t, objectstore.Config{Budget: 4 * mib, FS: fs})
	o := add(t, s, 1, newValue(content(1, mib)))
	if err := o.Persist(t.Context(), "label"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ops, " "); got != "sync rename syncdir syncdir" {
		t.Errorf("a file that shall outlive a crash was made by: %s", got)
	}
	o.Release()
	empty(t, s)
}

// TestPersistFails: what cannot be made safe is an error, and leaves no file behind.
func TestPersistFails(t *testing.T) {
	broken := errors.New("the disk is broken")
	for _, op := range []string{"create", "write", "reserve", "sync", "rename", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			fs := newFaulty()
			dir := t.TempDir()
			s := open(t, objectstore.Config{Budget: 4 * mib, FS: fs, Dir: dir})
			o := add(t, s, 1, newValue(content(1, mib)))
			fs.set(func(f *faultyFS) {
				f.fault = func(now, _ string) error {
					if now == op {
						return broken
					}
					return nil
				}
			})
			if err := o.Persist(t.Context(), "label"); !errors.Is(err, raysys.ErrStoreFull) || !errors.Is(err, broken) {
				t.Errorf("%v", err)
			}
			if o.Persisted() || len(spillFiles(t, objectstore.DirOf(s))) != 0 {
				t.Errorf("persisted %v, in %v", o.Persisted(), spillFiles(t, objectstore.DirOf(s)))
			}
			fs.set(func(f *faultyFS) { f.fault = nil })
			if err := o.Persist(t.Context(), "label"); err != nil {
				t.Errorf("once the disk is whole again: %v", err)
			}
			same(t, o, content(1, mib))
			o.Release()
			empty(t, s)
		})
	}
	t.Run("no directory", func(t *testing.T) {
		s, err := objectstore.Open(objectstore.Config{Budget: 4 * mib})
		if err != nil {
			t.Fatal(err)
		}
		o := add(t, s, 1, newValue(content(1, mib)))
		if err := o.Persist(t.Context(), "label"); !errors.Is(err, raysys.ErrNoStore) {
			t.Errorf("%v", err)
		}
		o.Release()
		closeStore(t, s)
	})
	t.Run("label too long", func(t *testing.T) {
		s := open(t, objectstore.Config{Budget: 4 * mib})
		o := add(t, s, 1, newValue(content(1, mib)))
		if err := o.Persist(t.Context(), strings.Repeat("l", 5000)); !errors.Is(err, raysys.ErrTooLarge) {
			t.Errorf("%v", err)
		}
		o.Release()
	})
}

// TestPersistedIsNoRoom: a full disk takes copies and spill files that lie beside memory, and no file with a label.
func TestPersistedIsNoRoom(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 16 * mib, Disk: 3 * mib})
	kept := add(t, s, 1, newValue(content(1, mib)))
	if err := kept.Persist(t.Context(), "label"); err != nil {
		t.Fatal(err)
	}
	for n := 2; n < 6; n++ {
		o := add(t, s, n, newValue(content(n, mib)))
		err := o.Persist(t.Context(), "label")
		if n == 2 && err != nil || n > 2 && !errors.Is(err, raysys.ErrStoreFull) {
			t.Errorf("file %d: %v", n, err)
		}
		defer o.Release()
	}
	if !kept.Persisted() {
		t.Error("a file with a label went to make room")
	}
	kept.Release()
}

// TestPersistDamaged: an object whose spill file rotted is not persisted with other bytes.
func TestPersistDamaged(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	o := add(t, s, 1, newValue(content(1, mib)))
	if err := objectstore.Spill(o); err != nil {
		t.Fatal(err)
	}
	rot(t, spillFiles(t, objectstore.DirOf(s))[0])
	if err := o.Persist(t.Context(), "label"); !errors.Is(err, raysys.ErrObjectLost) || o.Persisted() {
		t.Errorf("persisted %v: %v", o.Persisted(), err)
	}
	o.Release()
	empty(t, s)
}

// rot changes bytes in the middle of a file.
func rot(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("rot"), mib/2); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedIsRemembered: a file that an earlier incarnation left in pieces is deleted, and the store says which it was.
func TestDamagedIsRemembered(t *testing.T) {
	dir := t.TempDir()
	first := incarnation(t, dir, 1)
	if err := add(t, first, 1, newValue(content(1, mib))).Persist(t.Context(), "label"); err != nil {
		t.Fatal(err)
	}
	name := spillFiles(t, objectstore.DirOf(first))[0]
	closeStore(t, first)
	if err := os.Truncate(name, mib/2); err != nil {
		t.Fatal(err)
	}
	second := incarnation(t, dir, 2)
	defer closeStore(t, second)
	if err := second.Damaged(id(1)); err == nil || !strings.Contains(err.Error(), filepath.Base(name)) {
		t.Errorf("%v", err)
	}
	if err := second.Damaged(id(2)); err != nil {
		t.Errorf("of an object without a file: %v", err)
	}
	if err := second.Sweep(); err != nil || len(second.Recovered()) != 0 {
		t.Errorf("%v, %v", second.Recovered(), err)
	}
}

// TestUnreadableFileStays: a file that cannot be read for a passing reason is not deleted.
func TestUnreadableFileStays(t *testing.T) {
	dir := t.TempDir()
	first := incarnation(t, dir, 1)
	if err := add(t, first, 1, newValue(content(1, mib))).Persist(context.Background(), "label"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, first)
	fs := newFaulty()
	fs.fault = func(op, _ string) error {
		if op == "open" {
			return tooManyFiles
		}
		return nil
	}
	second, err := objectstore.Open(objectstore.Config{Budget: 4 * mib, Disk: 1 << 40, Dir: dir, Cluster: "c", Node: "n/1", Incarnation: 2, FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Sweep(); err != nil || len(second.Recovered()) != 0 {
		t.Errorf("%v, %v", second.Recovered(), err)
	}
	closeStore(t, second)
	third := incarnation(t, dir, 3)
	defer closeStore(t, third)
	o, err := third.Adopt(t.Context(), persisted(t, third, "label"), true)
	if err != nil {
		t.Fatal(err)
	}
	same(t, o, content(1, mib))
	o.Release()
}

// TestAdoptFails: a file with a label is not deleted because it cannot be adopted now.
func TestAdoptFails(t *testing.T) {
	for _, op := range []string{"rename", "syncdir"} {
		dir := t.TempDir()
		first := incarnation(t, dir, 1)
		if err := add(t, first, 1, newValue(content(1, mib))).Persist(t.Context(), "label"); err != nil {
			t.Fatal(err)
		}
		closeStore(t, first)
		fs := newFaulty()
		fs.fault = func(now, _ string) error {
			if now == op {
				return errNoSpace
			}
			return nil
		}
		second, err := objectstore.Open(objectstore.Config{Budget: 4 * mib, Disk: 1 << 40, Dir: dir, Cluster: "c", Node: "n/1", Incarnation: 2, FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := second.Adopt(t.Context(), persisted(t, second, "label"), true); !errors.Is(err, errNoSpace) {
			t.Errorf("%s: %v", op, err)
		}
		if err := second.Sweep(); err != nil {
			t.Error(err)
		}
		closeStore(t, second)
		third := incarnation(t, dir, 3)
		o, err := third.Adopt(t.Context(), persisted(t, third, "label"), true)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		same(t, o, content(1, mib))
		o.Release()
		closeStore(t, third)
	}
}

// TestAdoptMeetsAReader: a reader stores the object while its file is moved. The file is not adopted, and Discard
// deletes it where it is.
func TestAdoptMeetsAReader(t *testing.T) {
	dir := t.TempDir()
	first := incarnation(t, dir, 1)
	if err := add(t, first, 1, newValue(content(1, mib))).Persist(t.Context(), "label"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, first)
	fs := newFaulty()
	second, err := objectstore.Open(objectstore.Config{Budget: 4 * mib, Disk: 1 << 40, Dir: dir, Cluster: "c", Node: "n/1", Incarnation: 2, FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	v := persisted(t, second, "label")
	fs.set(func(fs *faultyFS) {
		fs.fault = func(op, _ string) error {
			if op == "rename" {
				add(t, second, 1, newValue(content(1, mib)))
			}
			return nil
		}
	})
	if _, err := second.Adopt(t.Context(), v, true); !errors.Is(err, objectstore.ErrPresent) {
		t.Errorf("a file of an object that a reader has stored was adopted: %v", err)
	}
	second.Discard(v)
	second.Lookup(v.ID).Release()
	closeStore(t, second)
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*.obj")); err != nil || len(left) > 0 {
		t.Errorf("files are left after Discard: %q, %v", left, err)
	}
}
