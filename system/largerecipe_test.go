package system_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// load is an argument of any size.
type load struct {
	Gate string
	Data []byte
}

// measure returns the sum of its argument once the gate is open.
var measure = tasks.DefineIn(table, "measure", func(ctx context.Context, l load) (sum int, err error) {
	nights.Store(l.Gate+" "+newGate(), l.Gate)
	select {
	case <-gateOf(l.Gate):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for _, b := range l.Data {
		sum += int(b)
	}
	return sum, nil
})

// measured is a large object made of the same argument.
var measured = tasks.DefineIn(table, "measured", func(ctx context.Context, l load) (parcel, error) {
	n := 0
	for _, b := range l.Data {
		n += int(b)
	}
	return newParcel(n%1000, large), nil
})

// loaded is an argument of so many bytes, with the outcome of measure.
func loaded(gate string, size int) (l load, sum int) {
	l = load{Gate: gate, Data: make([]byte, size)}
	for i := range l.Data {
		l.Data[i] = byte(i)
		sum += i % 256
	}
	return l, sum
}

// mostInRecord is the most that the record of a task may have of its recipe.
const mostInRecord = 5 << 10

// small wants the record of a task to be small.
func small(t *testing.T, n *system.Node, r raysys.Ref[int]) {
	t.Helper()
	rec, err := system.TaskRecord(n, core.FutureOf(r.Link))
	if size := len(rec.Recipe); size == 0 || size > mostInRecord || err != nil {
		t.Errorf("the record has %d bytes of the recipe, %v; want 1 to %d: large arguments are objects", size, err, mostInRecord)
	}
}

// stored is how many objects the nodes have, together.
func (f *fleet) stored(names ...raysys.NodeID) (n int64) {
	for _, name := range names {
		n += int64(f.node(name).Objects().Objects)
	}
	return n
}

// holdRecorded has grains on w2 and w3 hold a task once it is recorded. It is given to one before, which may get it after 1 s and
// before it is recorded: copies of a large recipe take a while on a slow machine.
func (f *fleet) holdRecorded(ctx context.Context, t *testing.T, h raysys.Handle[int]) {
	t.Helper()
	hold(ctx, t, "w2", h)
	settles(t, "the task is recorded", func() bool { return f.recordedAt("s") == 1 })
	hold(ctx, t, "w2", h)
	hold(ctx, t, "w3", h)
}

// TestAdoptedLargeArgument: a recorded task with an argument of any size outlives its submitter, and the argument is not in the
// record.
func TestAdoptedLargeArgument(t *testing.T) {
	for name, size := range map[string]int{"4 KiB": 4 << 10, "5 KiB": 5 << 10, "200 KiB": 200 << 10, "1 MiB": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			f, sctx, ctx := newWill(t)
			gate := newGate()
			arg, want := loaded(gate, size)
			r := measure.With(on("w1")).Go(sctx, arg)
			f.holdRecorded(sctx, t, r.Handle())
			small(t, f.node("s"), r)
			f.kill("s")
			openGate(gate)
			if a, b := summed(ctx, t, "w2"), summed(ctx, t, "w3"); a != want || b != want {
				t.Errorf("w2 has %d, w3 has %d, want %d", a, b, want)
			}
		})
	}
}

// TestAdoptedLargeArgumentTwice: each next submitter has the argument copied to another node, so that its own death loses nothing.
func TestAdoptedLargeArgumentTwice(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	arg, want := loaded(gate, 1<<20)
	h := measure.Go(sctx, arg).Handle()
	f.holdRecorded(sctx, t, h)
	hold(sctx, t, "w1", h)
	r := h.Ref()
	name := system.RecipeName(f.node("s"), core.FutureOf(r.Link), 1)
	f.kill("s")
	left := []raysys.NodeID{"w1", "w2", "w3"}
	for len(left) > 1 {
		next := -1
		settles(t, "a worker keeps a copy of the argument for the next submitter", func() bool {
			next = slices.IndexFunc(left, func(w raysys.NodeID) bool { return system.Recorded(f.node(w)) == 1 })
			if next < 0 {
				return false
			}
			owner, copies, err := system.OwnerOf(f.node("d"), name)
			return owner == left[next] && copies > 1 && err == nil
		})
		f.kill(left[next])
		left = slices.Delete(left, next, next+1)
	}
	openGate(gate)
	if n := summed(ctx, t, left[0]); n != want {
		t.Errorf("%s has %d, want %d", left[0], n, want)
	}
}

// TestLargeArgumentGoes: the object that an argument has become goes with the record of its task, at the submitter and where its
// copy was.
func TestLargeArgumentGoes(t *testing.T) {
	f, sctx, ctx := newWill(t)
	func() {
		gate := newGate()
		arg, want := loaded(gate, 1<<20)
		r := measure.With(on("w1")).Go(sctx, arg)
		f.holdRecorded(sctx, t, r.Handle())
		if n := f.stored("s"); n != 1 {
			t.Errorf("the submitter has %d objects, want the recipe", n)
		}
		if n := f.stored("w1", "w2", "w3"); n != 1 {
			t.Errorf("the workers have %d objects, want one copy of the recipe", n)
		}
		openGate(gate)
		if n := summed(ctx, t, "w2"); n != want {
			t.Errorf("w2 has %d, want %d", n, want)
		}
	}()
	hold(ctx, t, "w2")
	hold(ctx, t, "w3")
	f.nothingLeft(t)
	arg, _ := loaded("open", 1<<20)
	if _, err := measure.With(raysys.Detached("heavy")).Go(sctx, arg).Get(sctx); err != nil {
		t.Error(err)
	}
	f.nothingLeft(t)
}

// nothingLeft waits until the submitter s has no recorded task and no node an object.
func (f *fleet) nothingLeft(t *testing.T) {
	t.Helper()
	settles(t, "neither the task is recorded nor an object left", func() bool {
		return system.Recorded(f.node("s")) == 0 && f.stored("s", "w1", "w2", "w3", "d") == 0
	})
}

// disks are the directories of nodes, by name.
type disks map[raysys.NodeID]string

// place places a node with its directory.
func (d disks) place(f *fleet, name raysys.NodeID, role system.Role) context.Context {
	if d[name] == "" {
		d[name] = f.t.TempDir()
	}
	_, ctx := f.place(name, role, func(c *system.Config) { c.Objects.Spill, c.Objects.Disk = d[name], 1<<30 })
	return ctx
}

// TestLargeArgumentAfterRestart: where nodes have disks, a restart of all brings back a task with a large argument that has a name, or to
// which a State refers, also where a node without the files is there first and becomes the submitter.
func TestLargeArgumentAfterRestart(t *testing.T) {
	t.Run("nodes with files first", func(t *testing.T) { largeArgumentAfterRestart(t, "") })
	t.Run("a node without files first", func(t *testing.T) { largeArgumentAfterRestart(t, "w3") })
}

func largeArgumentAfterRestart(t *testing.T, first raysys.NodeID) {
	f, on := newFleet(t), disks{}
	on.place(f, "w1", system.Worker)
	on.place(f, "w2", system.Worker)
	_, sctx := f.place("s", system.Driver) // as most drivers, without a directory
	_, _ = f.place("d", system.Driver)
	meet(t, f.nodes...)
	gate := newGate()
	arg, want := loaded(gate, 20<<10)
	r := measure.With(raysys.Detached("heavy")).Go(sctx, arg)
	settles(t, "the task runs", func() bool { return runs(gate) == 1 })
	small(t, f.node("s"), r)
	g := writtenDrawers.kind.Get(gate)
	arg.Gate = "open"
	m := measured.Go(sctx, arg)
	func() {
		h := nextParcel.On(sctx, m).Handle()
		for range 2 { // the first may leave after 1 s, before it is recorded
			if _, err := writtenDrawers.put.Call(sctx, g, h).Get(sctx); err != nil {
				t.Fatal(err)
			}
			settles(t, "all three tasks are recorded", func() bool { return f.recordedAt("s") == 3 })
		}
	}()
	s := system.Self(f.node("s"))
	f.kill("s")
	f.kill("w1")
	for _, n := range f.nodes { // the others know of these deaths: no lease has to end
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	f.nodes = nil
	before := runs(gate)
	if first != "" {
		on.place(f, first, system.Worker)
		for _, c := range []*core.Future{core.FutureOf(r.Link), core.FutureOf(m.Link)} {
			settles(t, "the node without the recipe is the submitter", func() bool {
				rec, err := system.TaskRecord(f.node(first), c)
				return err == nil && rec.Submitter.Node == first
			})
		}
		if err := system.LookForCopies(f.node(first), s); !errors.Is(err, raysys.ErrObjectLost) {
			t.Errorf("an object without copies: %v; want ErrObjectLost", err)
		}
	}
	ctx := on.place(f, "w1", system.Worker)
	on.place(f, "w2", system.Worker)
	settles(t, "the task runs again", func() bool { return runs(gate) > before })
	openGate(gate)
	if n := f.oneOutcome(t, "heavy"); n != want {
		t.Errorf("the outcome is %d, want %d", n, want)
	}
	if n, err := writtenDrawers.seed.Call(ctx, g).Get(ctx); n != want%1000+1 || err != nil {
		t.Errorf("the object to which a State refers has %d, %v; want %d", n, err, want%1000+1)
	}
}

// TestLargeArgumentLost: a recorded task whose argument has no copy ends with its submitter, and who waits hears which task lacks it.
func TestLargeArgumentLost(t *testing.T) {
	f, sctx, ctx := newWill(t)
	gate := newGate()
	arg, _ := loaded(gate, 1<<20)
	h := measure.With(on("w1")).Go(sctx, arg).Handle()
	f.holdRecorded(sctx, t, h)
	asked, dead := raysys.NodeID(""), []raysys.NodeID{"s"}
	for _, w := range []raysys.NodeID{"w1", "w2", "w3"} {
		if f.stored(w) > 0 { // the copy, and on w1 also what the task has brought for itself
			dead = append(dead, w)
		} else {
			asked = w
		}
	}
	f.kill(dead...) // of one after the other the submitter would have had another copy made
	openGate(gate)
	n, err := holderSum.Call(ctx, holders.Get(string(asked))).Get(ctx)
	if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "the result of measure cannot be made again: its recipe") {
		t.Errorf("a task whose argument is lost: %d, %v; want ErrObjectLost, and what is lost", n, err)
	}
}

// TestAdoptedUnknownFunction: a node that becomes the submitter of a task which its program does not have says that to all who wait. A
// node that has the function, and the reference, becomes the submitter in its place.
func TestAdoptedUnknownFunction(t *testing.T) {
	for name, known := range map[string]bool{"at no node": false, "at one": true} {
		t.Run(name, func(t *testing.T) {
			f, _, ctx := newWill(t)
			program := raysys.NewTable()
			rare := tasks.DefineIn(program, "rare", func(ctx context.Context, gate string) (int, error) {
				select {
				case <-gateOf(gate):
					return 7, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			has := func(c *system.Config) { c.Table = program }
			_, octx := f.place("o", system.Both, has)
			_, pctx := f.place("p", system.Both, has)
			meet(t, f.nodes...)
			gate := newGate()
			h := rare.Go(octx, gate).Handle()
			if _, err := raysys.Put(octx, []raysys.Handle[int]{h}, raysys.Named("rare")).Get(octx); err != nil {
				t.Fatal(err)
			}
			hold(ctx, t, "w2", onlyOf(ctx, t, "rare"))
			hold(ctx, t, "w3", onlyOf(ctx, t, "rare"))
			var here raysys.Handle[int]
			if known {
				here = onlyOf(pctx, t, "rare")
			}
			f.kill("o")
			openGate(gate)
			if known {
				if n, err := here.Ref().Get(pctx); err != nil || n != 7 {
					t.Errorf("a node whose program has the task gets %d, %v", n, err)
				}
			}
			for _, at := range []string{"w2", "w3"} {
				n, err := holderSum.Call(ctx, holders.Get(at)).Get(ctx)
				if known && (err != nil || n != 7) || !known && !errors.Is(err, raysys.ErrUnknownFunc) {
					t.Errorf("%s, whose program does not have the task, gets %d, %v; want 7 where another has it, else ErrUnknownFunc", at, n, err)
				}
			}
		})
	}
}

// onlyOf reads what the list with the name refers to.
func onlyOf(ctx context.Context, t *testing.T, name string) raysys.Handle[int] {
	t.Helper()
	list, err := raysys.Lookup[[]raysys.Handle[int]](ctx, name).Get(ctx)
	if err != nil || len(list) != 1 {
		t.Fatal(len(list), err)
	}
	return list[0]
}

// TestDetachedLargeArgument: a task with a name and a large argument outlives its driver and one of the nodes that have the
// argument, which goes with its outcome.
func TestDetachedLargeArgument(t *testing.T) {
	for name, size := range map[string]int{"200 KiB": 200 << 10, "1 MiB": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			f, sctx, _ := newWill(t)
			gate := newGate()
			arg, want := loaded(gate, size)
			r := measure.With(raysys.Detached("heavy")).Go(sctx, arg)
			settles(t, "the task runs", func() bool { return runs(gate) == 1 })
			small(t, f.node("s"), r)
			f.kill("s")
			for _, w := range []raysys.NodeID{"w1", "w2", "w3"} {
				if f.stored(w) > 0 {
					f.kill(w)
					break
				}
			}
			settles(t, "the task runs again", func() bool { return runs(gate) > 1 })
			openGate(gate)
			if n := f.oneOutcome(t, "heavy"); n != want {
				t.Errorf("the outcome is %d, want %d", n, want)
			}
		})
	}
}
