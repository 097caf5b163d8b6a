package system_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	await "github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// fill makes n bytes that differ with seed.
//
//go:norace
func fill(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8)*31 + byte(i)*7 + seed
	}
	return b
}

var (
	makeBytes = tasks.DefineIn(table, "objects.make", func(_ context.Context, n int) ([]byte, error) { return fill(n, byte(n)), nil })
	sumBytes  = tasks.DefineIn(table, "objects.sum", func(_ context.Context, b []byte) (int, error) {
		return sum(b), nil
	})
	viewSum = tasks.DefineIn(table, "objects.view", func(ctx context.Context, h raysys.Handle[[]byte]) (n int, err error) {
		err = raysys.View(ctx, h.Ref(), func(b []byte) error {
			n = sum(b)
			return nil
		})
		return n, err
	})
)

// sum is one of the bytes. The race detector looks at one of 512: at each of 20 MiB it would take a test's whole time.
func sum(b []byte) (n int) {
	for i := 0; i < len(b); i += 512 {
		n += int(b[i])
	}
	return n + unwatchedSum(b)
}

//go:norace
func unwatchedSum(b []byte) (n int) {
	for _, v := range b {
		n += int(v)
	}
	return n
}

// eventually polls cond.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	await.Holds(t, 20*time.Second, what, cond)
}

// TestObjectsAcross: values of every size travel as results, arguments and references, and come back the same.
func TestObjectsAcross(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	f.join("w2", system.Worker)
	_, ctx := f.join("d", system.Driver)
	for _, n := range []int{0, 1, 65535, 65537, 1 << 20, 5<<20 + 3, long.Form(9, 20) << 20} {
		r := makeBytes.Go(ctx, n)
		b, err := r.Get(ctx)
		if err != nil || !bytes.Equal(b, fill(n, byte(n))) {
			t.Fatalf("result of %d bytes: %d bytes, %v", n, len(b), err)
		}
		for what, ref := range map[string]raysys.Ref[int]{
			"argument": sumBytes.Go(ctx, b), "reference": sumBytes.On(ctx, makeBytes.Go(ctx, n)), "put": sumBytes.On(ctx, raysys.Put(ctx, b)),
			"view": viewSum.Go(ctx, makeBytes.Go(ctx, n).Handle()), "view of a put": viewSum.Go(ctx, raysys.Put(ctx, b).Handle()),
		} {
			if got, err := ref.Get(ctx); err != nil || got != sum(b) {
				t.Errorf("%s of %d bytes: %d, %v, not %d", what, n, got, err, sum(b))
			}
		}
		if err := raysys.View(ctx, makeBytes.Go(ctx, n), func(v []byte) error {
			if !bytes.Equal(v, b) {
				return errors.New("other bytes")
			}
			return nil
		}); err != nil {
			t.Errorf("view of %d bytes: %v", n, err)
		}
	}
}

// TestSpill: what a node holds beyond its budget goes to disk and comes back.
func TestSpill(t *testing.T) {
	n, err := system.New(system.Config{Table: table, Namespace: "test", Objects: system.ObjectConfig{Memory: 4 << 20, Spill: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(t.Context())
	refs := make([]raysys.Ref[[]byte], 20)
	for i := range refs {
		refs[i] = raysys.Put(ctx, fill(1<<20, byte(i)))
	}
	if s := n.Objects(); s.Spilled == 0 {
		t.Errorf("nothing was spilled: %+v", s)
	}
	for round := range 2 {
		for i, r := range refs {
			b, err := r.Get(ctx)
			if err != nil || !bytes.Equal(b, fill(1<<20, byte(i))) {
				t.Fatalf("round %d: object %d: %d bytes, %v", round, i, len(b), err)
			}
			if err := raysys.View(ctx, r, func(b []byte) error {
				if !bytes.Equal(b, fill(1<<20, byte(i))) {
					return errors.New("other bytes")
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := sumBytes.On(ctx, refs[3]).Get(ctx); err != nil || got != sum(fill(1<<20, 3)) {
		t.Error(got, err)
	}
	huge := raysys.Put(ctx, fill(20<<20, 9)) // larger than the budget
	if err := raysys.View(ctx, huge, func(b []byte) error {
		if !bytes.Equal(b, fill(20<<20, 9)) {
			return errors.New("other bytes")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for _, r := range refs {
		r.Release()
	}
	huge.Release()
	eventually(t, "the store is empty", func() bool { return n.Objects().Objects == 0 })
}

// TestObjectsFreed: when no reference to an object is left, no node holds it.
func TestObjectsFreed(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.join("w1", system.Worker)
	w2, _ := f.join("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	for i := range 30 {
		r := makeBytes.Go(ctx, 1<<20+i)
		if got, err := sumBytes.On(ctx, r).Get(ctx); err != nil || got != sum(fill(1<<20+i, byte(i))) {
			t.Fatal(got, err)
		}
		if err := raysys.View(ctx, r, func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	nodes := []*system.Node{w1, w2, d}
	settles(t, "all objects are freed", func() bool {
		for _, n := range nodes {
			if n.Objects().Objects != 0 {
				return false
			}
		}
		return true
	})
}

// TestOwnerDies: a copy elsewhere serves; without one the error names the dead owner.
func TestOwnerDies(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	_, ctx := f.join("d", system.Driver)
	// Only a driver of its own can put and die.
	owner, octx := f.join("o", system.Driver)
	b := fill(3<<20, 1)
	if _, err := raysys.Put(octx, b, raysys.Named("kept"), raysys.Replicas(2)).Get(octx); err != nil {
		t.Fatal(err)
	}
	if _, err := raysys.Put(octx, b, raysys.Named("alone")).Get(octx); err != nil {
		t.Fatal(err)
	}
	kept, alone := raysys.Lookup[[]byte](ctx, "kept"), raysys.Lookup[[]byte](ctx, "alone")
	if err := owner.Kill(context.Background(), errors.New("test")); err != nil {
		t.Fatal(err)
	}
	got, err := kept.Get(ctx)
	if err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := alone.Get(ctx); !errors.Is(err, raysys.ErrObjectLost) || !bytes.Contains([]byte(err.Error()), []byte("o (incarnation")) {
		t.Errorf("the object without a copy: %v", err)
	}
	again, err := raysys.Lookup[[]byte](ctx, "kept").Get(ctx)
	if err != nil || !bytes.Equal(again, b) {
		t.Errorf("%d bytes, %v", len(again), err)
	}
}

// TestNames: a name finds the object that has it, goes to another, and is free again.
func TestNames(t *testing.T) {
	f := newFleet(t)
	w, _ := f.join("w1", system.Worker)
	d, ctx := f.join("d", system.Driver)
	e, ectx := f.join("e", system.Driver)
	for _, n := range []int{3, 100_000} {
		first, second := fill(n, 1), fill(n, 2)
		for i, b := range [][]byte{first, second} {
			c := ctx
			if i == 1 {
				c = ectx
			}
			if _, err := raysys.Put(c, b, raysys.Named("weights")).Get(c); err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]context.Context{"d": ctx, "e": ectx} {
				if got, err := raysys.Lookup[[]byte](c, "weights").Get(c); err != nil || !bytes.Equal(got, b) {
					t.Errorf("%s: version %d: %d bytes, %v", name, i, len(got), err)
				}
			}
		}
		if _, err := raysys.Lookup[string](ctx, "weights").Get(ctx); err == nil {
			t.Error("a reference of another type")
		}
		if err := raysys.Forget(ctx, "weights"); err != nil {
			t.Fatal(err)
		}
		if _, err := raysys.Lookup[[]byte](ectx, "weights").Get(ectx); !errors.Is(err, raysys.ErrNotFound) {
			t.Error(err)
		}
		if err := raysys.Forget(ctx, "weights"); !errors.Is(err, raysys.ErrNotFound) {
			t.Error(err)
		}
	}
	settles(t, "nothing is kept", func() bool {
		for _, n := range []*system.Node{w, d, e} {
			if s := n.Objects(); s.Objects != 0 {
				return false
			}
		}
		return true
	})
	if _, err := raysys.Put(ctx, 1, raysys.Replicas(9)).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Error(err)
	}
}

// shelf keeps references in its State.
type shelf struct {
	Items grains.State[map[string]item]
}

type item struct {
	Note  string
	Bytes raysys.Ref[[]byte]
	Inner raysys.Ref[[]raysys.Ref[[]byte]]
}

var (
	shelves = grains.DefineIn[shelf](table, "objects.shelf")
	putOn   = grains.Action(shelves, "put", func(s *shelf, ctx context.Context, n int) error {
		const name = "x"
		if s.Items.Value == nil {
			s.Items.Value = map[string]item{}
		}
		if n < 0 {
			delete(s.Items.Value, name)
			return s.Items.Write(ctx)
		}
		r := makeBytes.Go(ctx, n)
		s.Items.Value[name] = item{name, r, raysys.Put(ctx, []raysys.Ref[[]byte]{r, raysys.Put(ctx, fill(n+1, 1))})}
		return s.Items.Write(ctx)
	})
	takeFrom = grains.Method(shelves, "take", func(s *shelf, ctx context.Context, name string) (int, error) {
		i, ok := s.Items.Value[name]
		if !ok {
			return 0, raysys.ErrNotFound
		}
		b, err := i.Bytes.Get(ctx)
		if err != nil {
			return 0, err
		}
		inner, err := i.Inner.Get(ctx)
		if err != nil {
			return 0, err
		}
		n := sum(b)
		for _, r := range inner {
			b, err := r.Get(ctx)
			if err != nil {
				return 0, err
			}
			n += sum(b)
		}
		return n, nil
	})
	leaveShelf = grains.Action0(shelves, "leave", func(_ *shelf, ctx context.Context) error { return grains.Deactivate(ctx) })
)

// TestReferencesInState: a State holds what its references refer to, over deactivation and collection, until it is
// written without them.
func TestReferencesInState(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.join("w1", system.Worker)
	w2, _ := f.join("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	g := shelves.Get("s")
	for _, n := range []int{10, 200_000} {
		if _, err := putOn.Call(ctx, g, n).Get(ctx); err != nil {
			t.Fatal(err)
		}
		want := 2*sum(fill(n, byte(n))) + sum(fill(n+1, 1))
		for range 3 {
			if got, err := takeFrom.Call(ctx, g, "x").Get(ctx); err != nil || got != want {
				t.Fatalf("%d bytes: %d, %v, not %d", n, got, err, want)
			}
			if _, err := leaveShelf.Call(ctx, g).Get(ctx); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				runtime.GC()
			}
		}
		if _, err := putOn.Call(ctx, g, -1).Get(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := takeFrom.Call(ctx, g, "x").Get(ctx); !errors.Is(err, raysys.ErrNotFound) {
			t.Fatal(err)
		}
		if _, err := leaveShelf.Call(ctx, g).Get(ctx); err != nil {
			t.Fatal(err)
		}
		settles(t, "what it held is freed", func() bool {
			for _, n := range []*system.Node{w1, w2, d} {
				if n.Objects().Objects != 0 {
					return false
				}
			}
			return true
		})
	}
}

// damage cuts the files of objects in dir, of which there are at least so many.
func damage(t *testing.T, dir string, least int) {
	t.Helper()
	files := 0
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "lock" {
			files++
			err = os.Truncate(path, 100)
		}
		return err
	}); err != nil || files < least {
		t.Fatal(files, err)
	}
}

// TestDamagedFileHasACopy: when the owner's file is gone, a copy on another node brings the value back; without one it
// is lost.
func TestDamagedFileHasACopy(t *testing.T) {
	f := newFleet(t)
	w, _ := f.join("w1", system.Worker)
	dir := t.TempDir()
	d, ctx := f.join("d", system.Driver, func(cfg *system.Config) { cfg.Objects = system.ObjectConfig{Memory: 3 << 20, Spill: dir} })
	copied, alone := raysys.Put(ctx, fill(1<<20, 1)), raysys.Put(ctx, fill(1<<20, 2))
	kept := keepers.Get("k")
	if n, err := keepIt.Call(ctx, kept, copied.Handle()).Get(ctx); err != nil || n != 1<<20 {
		t.Fatal(n, err)
	}
	var more []raysys.Ref[[]byte]
	for i := range 4 {
		more = append(more, raysys.Put(ctx, fill(1<<20, byte(10+i))))
	}
	if d.Objects().Spilled < 2 || w.Objects().Objects == 0 {
		t.Fatalf("%+v, and on w1 %+v", d.Objects(), w.Objects())
	}
	damage(t, dir, 2)
	if b, err := copied.Get(ctx); err != nil || !bytes.Equal(b, fill(1<<20, 1)) {
		t.Errorf("with a copy: %d bytes, %v", len(b), err)
	}
	if b, err := alone.Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("without one: %d bytes, %v", len(b), err)
	}
	runtime.KeepAlive(more)
}

// keeper holds a reference and what it brought.
type keeper struct {
	ref   raysys.Ref[[]byte]
	bytes []byte
}

var (
	keepers = grains.DefineIn[keeper](table, "objects.keeper")
	keepIt  = grains.Method(keepers, "keep", func(k *keeper, ctx context.Context, h raysys.Handle[[]byte]) (n int, err error) {
		k.ref = h.Ref()
		k.bytes, err = k.ref.Get(ctx)
		return len(k.bytes), err
	})
)

// TestDrainOfADamagedFile: a node whose file of an object is damaged, as another node found out, says so when it
// drains.
func TestDrainOfADamagedFile(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	dir := t.TempDir()
	d, ctx := f.join("d", system.Driver, func(cfg *system.Config) { cfg.Objects = system.ObjectConfig{Memory: 3 << 20, Spill: dir} })
	r := raysys.Put(ctx, fill(1<<20, 1))
	var more []raysys.Ref[[]byte]
	for i := range 4 {
		more = append(more, raysys.Put(ctx, fill(1<<20, byte(10+i))))
	}
	damage(t, dir, 1)
	if n, err := keepIt.Call(ctx, keepers.Get("k"), r.Handle()).Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Fatal(n, err)
	}
	brief, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := d.Drain(brief); err != nil || brief.Err() != nil {
		t.Errorf("drained: %v", err)
	}
	if came := d.Drained(); came.Lost != 1 || !strings.Contains(came.Why, raysys.ErrObjectLost.Error()) {
		t.Errorf("a drain that lost one object says %+v", came)
	}
	runtime.KeepAlive(more)
}

// TestReplicasFreed: the nodes that keep copies let them go with the object, whether it had a name or not.
func TestReplicasFreed(t *testing.T) {
	f := newFleet(t)
	w1, _ := f.join("w1", system.Worker)
	w2, _ := f.join("w2", system.Worker)
	d, ctx := f.join("d", system.Driver)
	all := func() (n int) {
		for _, node := range []*system.Node{w1, w2, d} {
			n += node.Objects().Objects
		}
		return n
	}
	for i := range 4 {
		for _, o := range [][]raysys.PutOption{{raysys.Replicas(2)}, {raysys.Replicas(2), raysys.Named("weights")}} {
			if _, err := raysys.Put(ctx, fill(200_000+i, 1), o...).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	settles(t, "the last version of the name is all that is left", func() bool { return all() == 2 })
	if err := raysys.Forget(ctx, "weights"); err != nil {
		t.Fatal(err)
	}
	settles(t, "all are freed", func() bool { return all() == 0 })
	// Only two of the three that it asks for can be had.
	if _, err := raysys.Put(ctx, fill(200_000, 2), raysys.Replicas(4)).Get(ctx); !errors.Is(err, raysys.ErrNoCapacity) {
		t.Fatal(err)
	}
	settles(t, "those of a Put that failed are freed", func() bool { return all() == 0 })
}

// TestNameNeverEntered: a node that keeps a copy for a name waits for the owner to enter it, and no longer when that is
// gone.
func TestNameNeverEntered(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		w, wctx := b.join("w", system.Worker)
		d, ctx := b.join("d", system.Driver)
		r := raysys.Put(ctx, fill(200_000, 1), raysys.Replicas(1)) // with an option it is in the store
		if err := system.LendNamed(ctx, d, "w", "weights", core.FutureOf(r.Link)); err != nil {
			t.Fatal(err)
		}
		named := func() bool {
			m, err := w.Memory(wctx, "w", 10)
			if err != nil || len(m.Nodes) != 1 {
				t.Fatal(m, err)
			}
			o := m.Nodes[0].Objects
			return len(o) == 1 && len(o[0].Names) == 1
		}
		if <-time.After(5 * time.Minute); !named() {
			t.Error("not kept although its owner may enter the name yet")
		}
		if err := d.Kill(context.Background(), errors.New("test")); err != nil {
			t.Fatal(err)
		}
		if <-time.After(5 * time.Minute); named() {
			t.Error("still kept for a name that no node will enter")
		}
		runtime.KeepAlive(r)
	})
}

// TestFreedWithItsName: an object whose last reference went while it had a name is freed with that name.
func TestFreedWithItsName(t *testing.T) {
	n, err := system.New(system.Config{Table: raysys.NewTable()})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx := n.Context(t.Context())
	r := raysys.Put(ctx, make([]byte, 1<<20), raysys.Named("kept"))
	if _, err := r.Get(ctx); err != nil {
		t.Fatal(err)
	}
	if r.Release(); n.Objects().Objects != 1 {
		t.Fatal("the object went with its reference, though it has a name")
	}
	if err := raysys.Forget(ctx, "kept"); err != nil {
		t.Fatal(err)
	}
	if s := n.Objects(); s.Objects != 0 {
		t.Errorf("%d objects stay that have neither a reference nor a name", s.Objects)
	}
}
