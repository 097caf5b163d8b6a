package grainengine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
)

// TestReentrantKind: with every call admitted, chains of any shape end, and plain fields need no lock.
func TestReentrantKind(t *testing.T) {
	k := newKnot(grains.Reentrant())
	var count grains.Func[cell, []string, int]
	count = grains.Method(k.kind, "count", func(c *cell, ctx context.Context, keys []string) (int, error) {
		c.n++ // the race detector sees turns that overlap
		if len(keys) > 0 {
			if _, err := count.Call(ctx, k.kind.Get(keys[0]), keys[1:]).Get(ctx); err != nil {
				return 0, err
			}
		}
		c.n++
		return c.n, nil
	})
	k.run(t, func(ctx context.Context) {
		for i, keys := range [][]string{{"a"}, {"b", "a"}, {"a", "a", "a"}, {"b", "c", "a", "b", "c", "a"}} {
			key := fmt.Sprint("a", i)
			for j, s := range keys {
				keys[j] = s + fmt.Sprint(i)
			}
			want := 2
			for _, s := range keys {
				if s == key {
					want += 2
				}
			}
			wants(t, ctx, count.Call(ctx, k.kind.Get(key), keys), want)
		}
		wants(t, ctx, k.by.Call(ctx, k.kind.Get("x"), "x"), 1)
	})
}

// TestReentrantMethod: only the declared method comes back in.
func TestReentrantMethod(t *testing.T) {
	k := newKnot()
	open := k.value.Reentrant()
	turn := func(f grains.Func0[cell, int]) grains.Func0[cell, int] {
		return k.turn(func(ctx context.Context) (int, error) {
			self, _ := k.kind.Self(ctx)
			return f.Call(ctx, self).Get(ctx)
		})
	}
	admitted, refused := turn(open), turn(k.value)
	k.run(t, func(ctx context.Context) {
		wants(t, ctx, admitted.Call(ctx, k.kind.Get("a")), 1)
		isCycle(t, nodetest.Fails(t, ctx, refused.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn")
	})
}

// noted is a grain that remembers what it was told.
type noted struct{ lines []string }

func (n *noted) Add(_ context.Context, s string) error   { n.lines = append(n.lines, s); return nil }
func (n *noted) Lines(context.Context) ([]string, error) { return n.lines, nil }

// TestReentrantOrder: calls that the same turn queued before go first; those of others wait.
func TestReentrantOrder(t *testing.T) {
	tb := raysys.NewTable()
	k := grains.DefineIn[noted](tb, "note", grains.Reentrant())
	add := grains.Action(k, "add", (*noted).Add)
	lines := grains.Method0(k, "lines", (*noted).Lines)
	begun := make(chan bool)
	turn := grains.Method0(k, "turn", func(n *noted, ctx context.Context) ([]string, error) {
		self, _ := k.Self(ctx)
		begun <- true
		<-begun // the stranger's call is queued now
		for _, s := range []string{"1", "2", "3"} {
			if err := add.Tell(ctx, self, s); err != nil {
				return nil, err
			}
		}
		return lines.Call(ctx, self).Get(ctx)
	})
	ctx := nodetest.Driver(t, tb)
	for range 50 {
		g := k.Get(fmt.Sprint(serial.Add(1)))
		r := turn.Call(ctx, g)
		<-begun
		stranger := add.Call(ctx, g, "stranger")
		begun <- true
		got, err := r.Get(ctx)
		if d := cmp.Diff([]string{"1", "2", "3"}, got); d != "" || err != nil {
			t.Fatal(d, err)
		}
		if _, err := stranger.Get(ctx); err != nil {
			t.Fatal(err)
		}
		if got, _ := lines.Call(ctx, g).Get(ctx); len(got) != 4 {
			t.Fatal(got)
		}
	}
}

// TestReentrantTurnsNeverOverlap: many chains come back to one grain while its turns wait at different places. Turns
// change at waits only, so a counter without a lock is right, and the race detector agrees.
func TestReentrantTurnsNeverOverlap(t *testing.T) {
	k := newKnot(grains.Reentrant())
	in := false
	var work grains.Func[cell, int, int]
	section := func(c *cell) {
		if in {
			t.Error("two turns at a time")
		}
		in = true
		n := c.n
		for range 100 {
			n++
		}
		c.n = n
		in = false
	}
	relay := grains.Method(k.kind, "relay", func(_ *cell, ctx context.Context, depth int) (int, error) {
		return work.Call(ctx, k.kind.Get("hub"), depth-1).Get(ctx)
	})
	work = grains.Method(k.kind, "work", func(c *cell, ctx context.Context, depth int) (int, error) {
		section(c)
		if depth > 0 {
			var refs []raysys.Ref[int]
			for i := range 3 {
				refs = append(refs, relay.Call(ctx, k.kind.Get(fmt.Sprint("r", i)), depth-1))
			}
			for _, r := range refs {
				if _, err := r.Get(ctx); err != nil {
					return 0, err
				}
				section(c)
			}
		}
		section(c)
		return c.n, nil
	})
	ctx := nodetest.Driver(t, k.table)
	for range 10 {
		for _, o := range raysys.GetAll(ctx, []raysys.Ref[int]{
			work.Call(ctx, k.kind.Get("hub"), 4), work.Call(ctx, k.kind.Get("hub"), 2), work.Call(ctx, k.kind.Get("hub"), 0),
		}) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
		}
	}
}

// TestAdmittedCallOutlivesTheWait: the turn that let a call in does not go on while that runs, even when its own wait
// has ended.
func TestAdmittedCallOutlivesTheWait(t *testing.T) {
	k := newKnot(grains.Reentrant())
	var inside, overlap atomic.Bool
	long := k.turn(func(ctx context.Context) (int, error) {
		inside.Store(true)
		<-time.After(10 * time.Second)
		inside.Store(false)
		return 1, nil
	})
	turn := k.turn(func(ctx context.Context) (int, error) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := long.Call(ctx, k.kind.Get("a")).Get(short)
		overlap.Store(inside.Load())
		return 0, err
	})
	synctest.Test(t, func(t *testing.T) {
		ctx := nodetest.Driver(t, k.table)
		nodetest.Fails(t, ctx, turn.Call(ctx, k.kind.Get("a")), context.DeadlineExceeded)
		if overlap.Load() {
			t.Error("two turns at a time")
		}
	})
}

// TestPanicOfAdmittedCall: the kind's choice for a panic holds for calls that were let in, too.
func TestPanicOfAdmittedCall(t *testing.T) {
	for name, c := range map[string]struct {
		choice grains.PanicChoice
		want   int
	}{
		"keep": {grains.KeepOnPanic, 3}, "deactivate": {grains.DeactivateOnPanic, 1}, "restart": {grains.RestartOnPanic, 1},
	} {
		t.Run(name, func(t *testing.T) {
			tb := raysys.NewTable()
			k := grains.DefineIn[cell](tb, "k", grains.Reentrant(), grains.OnPanic(c.choice))
			add := grains.Method0(k, "add", func(c *cell, _ context.Context) (int, error) { c.n++; return c.n, nil })
			boom := grains.Action0(k, "boom", func(*cell, context.Context) error { panic("boom") })
			turn := grains.Method0(k, "turn", func(c *cell, ctx context.Context) (int, error) {
				self, _ := k.Self(ctx)
				c.n++
				_, err := boom.Call(ctx, self).Get(ctx)
				c.n++
				return c.n, err
			})
			ctx := nodetest.Driver(t, tb)
			for i := range 20 {
				g := k.Get(fmt.Sprint(i))
				nodetest.Fails(t, ctx, turn.Call(ctx, g), raysys.ErrPanic)
				wants(t, ctx, add.Call(ctx, g), c.want)
			}
		})
	}
}

// TestAdmittedCallWaitsTwice: several goroutines of a turn that was let in wait at a time, and the other turns still come in one
// after the other.
func TestAdmittedCallWaitsTwice(t *testing.T) {
	k := newKnot(grains.Reentrant())
	var inside atomic.Bool
	slow := k.turn(func(context.Context) (int, error) {
		<-time.After(25 * time.Second)
		return 1, nil
	})
	waits := k.turn(func(ctx context.Context) (int, error) {
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				if _, err := slow.Call(ctx, k.kind.Get(fmt.Sprint("s", i))).Get(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return 0, nil
	})
	runs := k.turn(func(ctx context.Context) (int, error) {
		inside.Store(true)
		<-time.After(20 * time.Second)
		inside.Store(false)
		return 0, nil
	})
	back := k.turn(func(ctx context.Context) (int, error) {
		<-time.After(time.Second) // the call that waits is in
		return runs.Call(ctx, k.kind.Get("a")).Get(ctx)
	})
	turn := k.turn(func(ctx context.Context) (int, error) {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		both := []raysys.Ref[int]{waits.Call(ctx, k.kind.Get("a")), back.Call(ctx, k.kind.Get("b"))}
		_, _, err := raysys.Wait(short, both, 2)
		if err == nil || inside.Load() {
			t.Errorf("two turns at a time (%v)", err)
		}
		for _, o := range raysys.GetAll(ctx, both) {
			err = o.Err
		}
		return 0, err
	})
	synctest.Test(t, func(t *testing.T) {
		ctx := nodetest.Driver(t, k.table)
		wants(t, ctx, turn.With(raysys.Deadline(time.Hour)).Call(ctx, k.kind.Get("a")), 0)
	})
}
