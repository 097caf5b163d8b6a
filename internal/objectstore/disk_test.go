package objectstore_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/objectstore"
)

func TestDiskFull(t *testing.T) {
	cases := map[string]func(f *faultyFS){
		"writes":  func(f *faultyFS) { f.room = 100 * kib },
		"none":    func(f *faultyFS) { f.room = 0 },
		"reserve": func(f *faultyFS) { f.fault = failing("reserve") },
		"create":  func(f *faultyFS) { f.fault = failing("create") },
		"mkdir":   func(f *faultyFS) { f.fault = failing("mkdir") },
		"lock":    func(f *faultyFS) { f.fault = failing("lock") },
		"rename":  func(f *faultyFS) { f.fault = failing("rename") },
	}
	for what, spoil := range cases {
		t.Run(what, func(t *testing.T) {
			f := newFaulty()
			spoil(f)
			var told []string
			s := open(t, objectstore.Config{Budget: 2 * mib, FS: f, Hooks: objectstore.Hooks{Trouble: func(what string, err error) { told = append(told, what) }}})
			v := newValue(content(1, mib))
			o := add(t, s, 1, v)
			p := add(t, s, 2, newValue(content(2, mib)))
			_, err := s.Add(context.Background(), id(3), 1, newValue(content(3, mib)))
			if !errors.Is(err, raysys.ErrStoreFull) || !errors.Is(err, errNoSpace) {
				t.Fatalf("%v", err)
			}
			t.Log(err)
			if len(told) == 0 {
				t.Error("nobody was told")
			}
			if in, err := s.Receive(context.Background(), version(4, content(4, mib)), objectstore.Segment); err == nil {
				// The room for it is made sure of in the beginning, where the file system can.
				if what != "writes" && what != "none" && what != "rename" {
					t.Error("it is received, to where?")
				}
				for _, i := range in.Missing() {
					err = come(in, i, content(4, mib))
				}
				if !errors.Is(err, raysys.ErrStoreFull) || !errors.Is(in.Done(context.Background()), raysys.ErrStoreFull) {
					t.Errorf("receive: %v", err)
				}
			} else if !errors.Is(err, raysys.ErrStoreFull) {
				t.Errorf("receive: %v", err)
			}
			// What is here stays, and when the disk has room again everything goes on.
			if s.Lookup(id(3)) != nil || s.Lookup(id(4)) != nil || v.gone.Load() {
				t.Error("what did not fit is found, or what did was forgotten")
			}
			same(t, o, v.bytes)
			f.set(func(f *faultyFS) { f.room, f.fault = -1, nil })
			q := add(t, s, 3, newValue(content(3, mib)))
			same(t, q, content(3, mib))
			empty(t, s, o, p, q)
			if left := spillFiles(t, objectstore.DirOf(s)); len(left) != 0 {
				t.Errorf("files stayed: %v", left)
			}
		})
	}
}

// failing fails one operation.
func failing(op string) fault {
	return func(o, _ string) error {
		if o == op {
			return errNoSpace
		}
		return nil
	}
}

func TestDiskBudget(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 2 * mib, Disk: 5 * mib})
	var objects []*objectstore.Object
	for n := range 6 {
		objects = append(objects, add(t, s, n, newValue(content(n, mib))))
	}
	// Two in memory, four on disk: 4 MiB and four headers.
	if _, err := s.Add(context.Background(), id(9), 1, newValue(content(9, 2*mib))); !errors.Is(err, raysys.ErrStoreFull) {
		t.Errorf("%v", err)
	}
	if _, err := s.Receive(context.Background(), version(9, content(9, 6*mib)), objectstore.Disk); !errors.Is(err, raysys.ErrStoreFull) {
		t.Errorf("%v", err)
	}
	for n, o := range objects {
		same(t, o, content(n, mib))
		o.Release()
	}
	empty(t, s)
}

func TestDiskBudgetDropsCopies(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 2 * mib, Disk: 5 * mib})
	a := receive(t, s, 1, content(1, 2*mib), objectstore.Disk)
	b := receive(t, s, 2, content(2, 2*mib), objectstore.Disk)
	b.SetPrimary(true)
	c := receive(t, s, 3, content(3, 2*mib), objectstore.Disk)
	if s.Lookup(id(1)) != nil || s.Lookup(id(2)) != b {
		t.Error("the wrong one went")
	}
	empty(t, s, a, b, c)
}

// TestVanishedDirectoryIsAskedForItsSpace: where the disk says how much there is, the directory is made again too.
func TestVanishedDirectoryIsAskedForItsSpace(t *testing.T) {
	s, err := objectstore.Open(objectstore.Config{Budget: 2 * mib, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old := spilled(t, s, 1, content(1, mib))
	if err := os.RemoveAll(objectstore.DirOf(s)); err != nil {
		t.Fatal(err)
	}
	fresh := spilled(t, s, 2, content(2, mib))
	same(t, fresh, content(2, mib))
	old.Release()
	fresh.Release()
}

// TestGarbageMakesRoomInAFullStore: before a call fails because there is no room, a collection is asked for, although nothing
// could be added since the last; but not more than once a second.
func TestGarbageMakesRoomInAFullStore(t *testing.T) {
	for what, c := range map[string]struct {
		fault   fault
		objects int // of 1 MiB, that fill the store
		form    objectstore.Form
	}{
		"disk full, to memory": {nil, 4, objectstore.Heap},
		"disk full, to disk":   {nil, 4, objectstore.Disk},
		"disk broken":          {failing("create"), 3, objectstore.Heap},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFaulty()
			f.fault = c.fault
			now := time.Unix(1000, 0)
			pressed := 0
			var garbage []*objectstore.Object
			s := open(t, objectstore.Config{Budget: 3 * mib, Disk: 2 * mib, FS: f, Now: func() time.Time { return now }, Pressure: func() {
				pressed++
				for _, o := range garbage {
					o.Release()
				}
				garbage = nil
			}})
			var held []*objectstore.Object
			for n := range c.objects {
				held = append(held, add(t, s, n, newValue(content(n, mib))))
			}
			receive := func() error {
				in, err := s.Receive(context.Background(), version(9, content(9, mib)), c.form)
				if err == nil {
					in.Abort(nil)
				}
				return err
			}
			pressed = 0
			for range 5 {
				if err := receive(); !errors.Is(err, raysys.ErrStoreFull) {
					t.Fatalf("receive 1 MiB in a full store: %v", err)
				}
			}
			if pressed > 1 {
				t.Errorf("%d collections for 5 calls that failed within a second, want 1 at most", pressed)
			}
			garbage, held = held[:1], held[1:]
			now = now.Add(time.Second)
			if err := receive(); err != nil {
				t.Errorf("receive 1 MiB, with 1 MiB of garbage in the store: %v", err)
			}
			empty(t, s, held...)
		})
	}
}
