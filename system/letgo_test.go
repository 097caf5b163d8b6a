package system_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// TestCopiesOfADriver: the copies of a driver that ended in good order are let go at once, but for objects to which another node holds
// references; names keep theirs. The copies of a driver that died stay.
func TestCopiesOfADriver(t *testing.T) {
	for _, c := range []struct {
		name        string
		end         func(*system.Node) error
		least, most int // copies that are kept for the driver; the replaced name's may have gone before
	}{
		{"closed", func(d *system.Node) error { return d.Close(context.Background()) }, 1, 1},
		{"killed", func(d *system.Node) error { return d.Kill(context.Background(), errors.New("test")) }, 5, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			w1, ctx := f.join("w1", system.Worker)
			w2, _ := f.join("w2", system.Worker)
			d, dctx := f.join("d", system.Driver)
			put := func(n int, opts ...raysys.PutOption) raysys.Ref[[]byte] {
				r := raysys.Put(dctx, fill(n, byte(n)), append(opts, raysys.Replicas(2))...)
				if _, err := r.Get(dctx); err != nil {
					t.Fatal(err)
				}
				return r
			}
			mine := []raysys.Ref[[]byte]{put(200_000), put(100)}
			put(200_001, raysys.Named("stays"))
			put(200_002, raysys.Named("again"))
			mine = append(mine, put(200_003, raysys.Named("again"))) // the first has lost its name
			held := put(200_004)
			if _, err := keepIt.Call(dctx, keepers.Get("k"), held.Handle()).Get(dctx); err != nil {
				t.Fatal(err)
			}
			copies := func() (n int) {
				for _, w := range []*system.Node{w1, w2} {
					m, err := w.Memory(ctx, w.Name(), 20)
					if err != nil || len(m.Nodes) != 1 {
						t.Fatal(m, err)
					}
					for _, o := range m.Nodes[0].Objects {
						if o.KeptFor == "d" {
							n++
						}
					}
				}
				return n
			}
			if n := copies(); n < 5 {
				t.Fatalf("%d copies are kept for the driver, want 5 at least", n)
			}
			if err := c.end(d); err != nil {
				t.Fatal(err)
			}
			if n := copies(); n < c.least || n > c.most {
				t.Errorf("%d copies are kept for the driver, want %d to %d", n, c.least, c.most)
			}
			for name, n := range map[string]int{"stays": 200_001, "again": 200_003} {
				if b, err := raysys.Lookup[[]byte](ctx, name).Get(ctx); err != nil || !bytes.Equal(b, fill(n, byte(n))) {
					t.Errorf("%s: %d bytes, %v", name, len(b), err)
				}
			}
			runtime.KeepAlive(mine)
		})
	}
}

// TestLargeArgumentOfADriver: the task of a driver that ended in good order goes on where other nodes hold references to it. Its large
// argument is an object of the driver, to which no node holds a reference: the record names it.
func TestLargeArgumentOfADriver(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	arg, want := loaded(gate, 200<<10)
	r := measure.With(on("w1")).Go(sctx, arg)
	f.holdRecorded(sctx, t, r.Handle())
	small(t, f.node("s"), r)
	if err := f.node("s").Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	openGate(gate)
	if a, b := summed(ctx, t, "w2"), summed(ctx, t, "w3"); a != want || b != want {
		t.Errorf("w2 has %d, w3 has %d, want %d", a, b, want)
	}
}

// signpost is an argument that leads to an object: by itself, or by a value that has the handle.
type signpost struct{ To raysys.Handle[[]byte] }

var (
	sizeOfLink = tasks.DefineIn(table, "letgo.link", func(ctx context.Context, s signpost) (int, error) {
		b, err := s.To.Ref().Get(ctx)
		return len(b), err
	})
	sizeBehind = tasks.DefineIn(table, "letgo.signpost", func(ctx context.Context, h raysys.Handle[signpost]) (int, error) {
		s, err := h.Ref().Get(ctx)
		if err != nil {
			return 0, err
		}
		b, err := s.To.Ref().Get(ctx)
		return len(b), err
	})
)

// TestTaskOfADriver: a task with a name outlives a driver that ends in good order. The copies of what its argument leads to stay for it.
func TestTaskOfADriver(t *testing.T) {
	for name, begin := range map[string]func(ctx context.Context, name string, to raysys.Handle[[]byte]){
		"direct": func(ctx context.Context, name string, to raysys.Handle[[]byte]) {
			sizeOfLink.With(raysys.Detached(name)).Go(ctx, signpost{to})
		},
		"in a value": func(ctx context.Context, name string, to raysys.Handle[[]byte]) {
			sizeBehind.With(raysys.Detached(name)).Go(ctx, raysys.Put(ctx, signpost{to}).Handle())
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			_, ctx := f.join("w1", system.Worker)
			f.join("w2", system.Worker)
			d, dctx := f.join("d", system.Driver)
			r := raysys.Put(dctx, fill(200_000, 1), raysys.Replicas(2))
			if _, err := r.Get(dctx); err != nil {
				t.Fatal(err)
			}
			begin(dctx, "letgo "+name, r.Handle())
			if err := d.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			runtime.KeepAlive(r)
			if n, err := raysys.Lookup[int](ctx, "letgo "+name).Get(ctx); err != nil || n != 200_000 {
				t.Errorf("the task has %d bytes, %v", n, err)
			}
		})
	}
}

// TestOwnerIsAskedToKeep: a node that drains leaves its copy to the only other one, which is the object's owner. That keeps the object for itself,
// as before: it goes with its reference, and not after the grace for what a dead node's object has.
func TestOwnerIsAskedToKeep(t *testing.T) {
	f := newFleet(t)
	w1, ctx := f.join("w1", system.Worker)
	w2, _ := f.join("w2", system.Worker)
	r := raysys.Put(ctx, fill(200_000, 1), raysys.Replicas(2))
	if _, err := r.Get(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w2.Drain(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	list := func(n *system.Node) []inspect.HeldObject {
		m, err := w1.Memory(ctx, n.Name(), 20)
		if err != nil || len(m.Nodes) != 1 {
			t.Fatal(m, err)
		}
		return m.Nodes[0].Objects
	}
	if l := list(w1); len(l) != 1 || l[0].KeptFor != "" {
		t.Errorf("the owner has %+v, want its object, kept for no other node", l)
	}
	r.Release()
	settles(t, "the object goes with its reference", func() bool { return len(list(w1)) == 0 })
	settles(t, "the copy goes with the object", func() bool { return len(list(w2)) == 0 })
}

// TestPutsOfOneName: of a driver that has put 20 objects under one name, one after the other, the last one's copy is what stays.
func TestPutsOfOneName(t *testing.T) {
	f := newFleet(t)
	w1, ctx := f.join("w1", system.Worker)
	w2, _ := f.join("w2", system.Worker)
	d, dctx := f.join("d", system.Driver)
	var mine []raysys.Ref[[]byte]
	for i := range 20 {
		r := raysys.Put(dctx, fill(200_000+i, byte(i)), raysys.Named("one"), raysys.Replicas(2))
		if _, err := r.Get(dctx); err != nil {
			t.Fatal(err)
		}
		mine = append(mine, r)
	}
	objects := func() int { // of which the workers have copies: the name's caretaker makes another of the last
		ids := map[string]bool{}
		for _, w := range []*system.Node{w1, w2} {
			m, err := w.Memory(ctx, w.Name(), 100)
			if err != nil || len(m.Nodes) != 1 {
				t.Fatal(m, err)
			}
			for _, o := range m.Nodes[0].Objects {
				ids[o.ID] = true
			}
		}
		return len(ids)
	}
	if n := objects(); n != 20 {
		t.Fatalf("copies of %d objects, of 20 in use", n)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := objects(); n != 1 {
		t.Errorf("%d objects stay, want that of the name", n)
	}
	if b, err := raysys.Lookup[[]byte](ctx, "one").Get(ctx); err != nil || len(b) != 200_019 {
		t.Errorf("the name: %d bytes, %v", len(b), err)
	}
	runtime.KeepAlive(mine)
}
