package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
)

// spillFiles lists the finished files below dir.
func spillFiles(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".obj") {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func removeSpillFiles(t testing.TB, s *objectstore.Store) {
	t.Helper()
	names := spillFiles(t, objectstore.DirOf(s))
	if len(names) == 0 {
		t.Fatal("there is no spill file")
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
}

// spilled returns a primary that is only on disk.
func spilled(t testing.TB, s *objectstore.Store, n int, b []byte) *objectstore.Object {
	t.Helper()
	o := receive(t, s, n, b, objectstore.Disk)
	o.SetPrimary(true)
	if f := forms(o); !slices.Equal(f, []string{"file"}) {
		t.Fatalf("forms %v", f)
	}
	return o
}

var reads = map[string]func(o *objectstore.Object) error{
	"bytes": func(o *objectstore.Object) error { _, err := o.Bytes(context.Background()); return err },
	"map": func(o *objectstore.Object) error {
		m, err := o.Map(context.Background())
		if err == nil {
			m.Close()
		}
		return err
	},
	"share": func(o *objectstore.Object) error { _, err := o.Share(context.Background()); return err },
}

func TestDamagedSpillFile(t *testing.T) {
	damage := map[string]func(t *testing.T, name string){
		"missing": func(t *testing.T, name string) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		},
		"shorter": func(t *testing.T, name string) {
			if err := os.Truncate(name, 1*mib); err != nil {
				t.Fatal(err)
			}
		},
		"empty": func(t *testing.T, name string) {
			if err := os.Truncate(name, 0); err != nil {
				t.Fatal(err)
			}
		},
		"longer": func(t *testing.T, name string) {
			if err := os.Truncate(name, 9*mib); err != nil {
				t.Fatal(err)
			}
		},
		"bit": func(t *testing.T, name string) {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var b [1]byte
			if _, err := f.ReadAt(b[:], 2*mib); err != nil {
				t.Fatal(err)
			}
			b[0] ^= 0x10
			if _, err := f.WriteAt(b[:], 2*mib); err != nil {
				t.Fatal(err)
			}
		},
	}
	for what, spoil := range damage {
		for how, read := range reads {
			t.Run(what+"/"+how, func(t *testing.T) {
				var lost []raysys.TaskID
				s := open(t, objectstore.Config{Budget: 16 * mib, Hooks: objectstore.Hooks{Lost: func(id raysys.TaskID, err error) { lost = append(lost, id) }}})
				o := spilled(t, s, 1, content(1, 3*mib))
				spoil(t, spillFiles(t, objectstore.DirOf(s))[0])
				err := read(o)
				if !errors.Is(err, raysys.ErrObjectLost) {
					t.Fatalf("%v", err)
				}
				t.Log(err)
				if len(lost) != 1 || o.Lost() == nil {
					t.Error("nobody was told")
				}
				if again := read(o); !errors.Is(again, raysys.ErrObjectLost) {
					t.Errorf("the second time: %v", again)
				}
				empty(t, s, o)
			})
		}
	}
}

func TestDamagedFileBesideALiveValue(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 16 * mib})
	want := content(1, 2*mib)
	o := spilled(t, s, 1, want)
	o.Revive(newValue(want))
	removeSpillFiles(t, s)
	same(t, o, want)
	if o.Lost() != nil {
		t.Error("an object with a live value is lost")
	}
	empty(t, s, o)
}

func TestReadErrorsThatPass(t *testing.T) {
	f := newFaulty()
	s := open(t, objectstore.Config{Budget: 16 * mib, FS: f})
	want := content(1, 2*mib)
	o := spilled(t, s, 1, want)
	f.set(func(f *faultyFS) {
		f.fault = func(op, name string) error {
			if op == "open" {
				return tooManyFiles
			}
			return nil
		}
	})
	for how, read := range reads {
		if err := read(o); !errors.Is(err, raysys.ErrOverloaded) || !raysys.Retriable(err) {
			t.Errorf("%s: %v", how, err)
		}
	}
	f.set(func(f *faultyFS) { f.fault = nil })
	same(t, o, want)
	empty(t, s, o)
}

func TestFlippedBitsOnTheWay(t *testing.T) {
	for _, plain := range []bool{false, true} {
		f := newFaulty()
		f.plain = plain
		s := open(t, objectstore.Config{Budget: 16 * mib, FS: f})
		for n, read := range []func(o *objectstore.Object) error{reads["bytes"], reads["map"], reads["share"]} {
			o := spilled(t, s, n, content(n, mib))
			f.set(func(f *faultyFS) { f.flip = true })
			if err := read(o); !errors.Is(err, raysys.ErrObjectLost) {
				t.Errorf("reader %d: %v", n, err)
			}
			f.set(func(f *faultyFS) { f.flip = false })
			o.Release()
		}
		empty(t, s)
	}
}

func TestFilesThatCannotBeMapped(t *testing.T) {
	f := newFaulty()
	f.plain = true
	s := open(t, objectstore.Config{Budget: 4 * mib, FS: f})
	want := content(1, 9*mib)
	o := spilled(t, s, 1, want)
	same(t, o, want)
	in, err := s.Receive(context.Background(), version(2, want), objectstore.Disk)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, in, want[:])
	same(t, in.Object(), want)
	in.Object().Release()
	empty(t, s, o)
}

func TestVanishedDirectory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, objectstore.Config{Budget: 2 * mib, Dir: dir})
	old := spilled(t, s, 1, content(1, mib))
	m, err := old.Map(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(objectstore.DirOf(s)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Bytes(), content(1, mib)) {
		t.Error("what is mapped is gone")
	}
	m.Close()
	if _, err := old.Bytes(context.Background()); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("%v", err)
	}
	fresh := spilled(t, s, 2, content(2, mib)) // the directory is made again
	same(t, fresh, content(2, mib))
	// A file in its place cannot be helped.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(context.Background(), version(3, content(3, mib)), objectstore.Disk); !errors.Is(err, raysys.ErrStoreFull) {
		t.Errorf("%v", err)
	}
	o := receive(t, s, 3, content(3, mib), objectstore.Heap)
	same(t, o, content(3, mib))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	empty(t, s, old, fresh, o)
}

func TestCancelledSpillLeavesNothing(t *testing.T) {
	f := newFaulty()
	ctx, cancel := context.WithCancel(context.Background())
	writes := 0
	f.fault = func(op, _ string) error {
		if op == "write" {
			if writes++; writes == 2 {
				cancel()
			}
		}
		return nil
	}
	s := open(t, objectstore.Config{Budget: 4 * mib, FS: f})
	v := newValue(content(1, 4*mib))
	o := add(t, s, 1, v)
	if _, err := s.Add(ctx, id(2), 1, newValue(content(2, 2*mib))); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if v.gone.Load() || s.Stats().Disk != 0 || len(spillFiles(t, objectstore.DirOf(s))) != 0 {
		t.Errorf("after a cancelled spill: %+v", s.Stats())
	}
	same(t, o, v.bytes)
	empty(t, s, o)
}

func TestOneRestoreForAll(t *testing.T) {
	f := newFaulty()
	s := open(t, objectstore.Config{Budget: 16 * mib, FS: f})
	o := spilled(t, s, 1, content(1, 3*mib))
	f.opens = 0
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			if b, err := o.Bytes(context.Background()); err != nil || !bytes.Equal(b, content(1, 3*mib)) {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	if f.opens != 1 || s.Stats().Restored != 1 {
		t.Errorf("%d opens, %d restores", f.opens, s.Stats().Restored)
	}
	empty(t, s, o)
}

func TestRoomThatIsPromisedIsNotGivenTwice(t *testing.T) {
	f := newFaulty()
	s := open(t, objectstore.Config{Budget: 4 * mib, FS: f})
	a := spilled(t, s, 1, content(1, 3*mib))
	started, goOn := f.gate("read")
	read := make(chan error, 1)
	go func() { _, err := a.Bytes(context.Background()); read <- err }()
	<-started
	b := receive(t, s, 2, content(2, 2*mib), objectstore.Heap)
	if f := forms(b); !slices.Equal(f, []string{"file"}) {
		t.Errorf("forms %v while %+v", f, s.Stats())
	}
	close(goOn)
	if err := <-read; err != nil {
		t.Error(err)
	}
	empty(t, s, a, b)
}

func TestMapDuringASpill(t *testing.T) {
	for what, form := range map[string]objectstore.Form{"heap": objectstore.Heap, "segment": objectstore.Segment} {
		f := newFaulty()
		s := open(t, objectstore.Config{Budget: 8 * mib, Warm: -1, FS: f})
		want := content(1, 3*mib)
		o := receive(t, s, 1, want, form)
		o.SetPrimary(true)
		started, goOn := f.gate("write")
		ended := make(chan error, 1)
		go func() { ended <- objectstore.Spill(o) }()
		<-started
		m, err := o.Map(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		close(goOn)
		if err := <-ended; err == nil {
			t.Errorf("%s: spilled while it is looked at", what)
		}
		if !bytes.Equal(m.Bytes(), want) {
			t.Errorf("%s: the mapping changed", what)
		}
		if f := forms(o); len(f) != 2 {
			t.Errorf("forms %v", f)
		}
		m.Close()
		empty(t, s, o)
	}
}

func TestMappingOfAFileThatWasGivenUp(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 8 * mib})
	want := content(1, 3*mib)
	o := spilled(t, s, 1, want)
	m, err := o.Map(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	removeSpillFiles(t, s)
	if _, err := o.Bytes(context.Background()); !errors.Is(err, raysys.ErrObjectLost) {
		t.Fatalf("%v", err)
	}
	if !bytes.Equal(m.Bytes(), want) {
		t.Error("the mapping changed")
	}
	m.Close()
	if n := objectstore.Idle(s); n != 0 {
		t.Errorf("%d mappings stay", n)
	}
	empty(t, s, o)
}

func TestMappedFilesStayMappedForAWhile(t *testing.T) {
	f := newFaulty()
	s := open(t, objectstore.Config{Budget: mib, FS: f})
	var objects []*objectstore.Object
	look := func(n int) {
		m, err := objects[n].Map(context.Background())
		if err != nil || !bytes.Equal(m.Bytes(), content(n, 2*mib)) {
			t.Fatal(err)
		}
		m.Close()
	}
	for n := range 10 {
		objects = append(objects, spilled(t, s, n, content(n, 2*mib)))
	}
	f.opens = 0
	for range 3 {
		for n := range 8 {
			look(n)
		}
	}
	if f.opens != 8 {
		t.Errorf("8 files were opened %d times", f.opens)
	}
	look(8) // the ninth takes the place of the first
	look(1)
	look(0)
	if f.opens != 10 {
		t.Errorf("%d opens", f.opens)
	}
	empty(t, s, objects...)
	if n := objectstore.Idle(s); n != 0 {
		t.Errorf("%d mappings stay", n)
	}
}

func TestCloseWaitsForASpill(t *testing.T) {
	f := newFaulty()
	started, goOn := f.gate("rename")
	s := open(t, objectstore.Config{Budget: 2 * mib, FS: f})
	add(t, s, 1, newValue(content(1, 2*mib)))
	added, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Add(context.Background(), id(2), 1, newValue(content(2, mib)))
		added <- err
	}()
	<-started
	go func() { closed <- s.Close() }()
	eventually(t, "the store is closed for new calls", func() bool {
		_, err := s.Add(context.Background(), id(3), 1, newValue(nil))
		return errors.Is(err, raysys.ErrClosed)
	})
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(goOn)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := <-added; !errors.Is(err, raysys.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func spillFilesIn(dir string) (n int) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".obj") || strings.HasSuffix(name, ".tmp") {
			n++
		}
		return nil
	})
	return n
}
