package grainengine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
)

// library is a kind with read-only and other methods that wait in the middle of their turn.
type library struct {
	table             *raysys.Table
	kind              grains.Kind[cell]
	read, write       grains.Func[cell, time.Duration, int]
	look              grains.Func0[cell, int]
	most, now, errors atomic.Int32
	writing           atomic.Bool
}

func newLibrary() *library {
	tb := raysys.NewTable()
	l := &library{table: tb, kind: grains.DefineIn[cell](tb, "library")}
	clock := grains.DefineIn[cell](tb, "clock", grains.StatelessWorker(100))
	after := grains.Action(clock, "after", func(_ *cell, _ context.Context, d time.Duration) error {
		<-time.After(d)
		return nil
	})
	wait := func(ctx context.Context, d time.Duration) error {
		_, err := after.Call(ctx, clock.Get(""), d).Get(ctx)
		return err
	}
	l.read = grains.Method(l.kind, "read", func(c *cell, ctx context.Context, d time.Duration) (int, error) {
		if l.writing.Load() {
			l.errors.Add(1)
		}
		l.most.Store(max(l.most.Load(), l.now.Add(1)))
		n := c.n
		err := wait(ctx, d)
		if n != c.n || l.writing.Load() {
			l.errors.Add(1)
		}
		l.now.Add(-1)
		return n, err
	}).ReadOnly()
	l.write = grains.Method(l.kind, "write", func(c *cell, ctx context.Context, d time.Duration) (int, error) {
		if l.now.Load() > 0 || l.writing.Swap(true) {
			l.errors.Add(1)
		}
		c.n++
		err := wait(ctx, d)
		l.writing.Store(false)
		return c.n, err
	})
	l.look = grains.Method0(l.kind, "look", func(c *cell, _ context.Context) (int, error) {
		if l.writing.Load() {
			l.errors.Add(1)
		}
		return c.n, nil
	}).ReadOnly()
	return l
}

func (l *library) run(t *testing.T, f func(ctx context.Context, g grains.Grain[cell])) {
	synctest.Test(t, func(t *testing.T) {
		f(nodetest.Driver(t, l.table), l.kind.Get("a"))
		if n := l.errors.Load(); n != 0 {
			t.Errorf("%d turns interleaved that must not", n)
		}
	})
}

// TestReadersInterleave: ten readers that wait a second each are through after a second, queued before or after the
// first of them began to wait.
func TestReadersInterleave(t *testing.T) {
	l := newLibrary()
	l.run(t, func(ctx context.Context, g grains.Grain[cell]) {
		begin := time.Now()
		var refs []raysys.Ref[int]
		for i := range 10 {
			refs = append(refs, l.read.Call(ctx, g, time.Second))
			if i%3 == 0 {
				synctest.Wait()
			}
		}
		wants(t, ctx, l.look.Call(ctx, g), 0)
		if time.Since(begin) != 0 {
			t.Error("a reader that does not wait was held up")
		}
		for _, r := range refs {
			wants(t, ctx, r, 0)
		}
		if d := time.Since(begin); d != time.Second || l.most.Load() != 10 {
			t.Errorf("%d readers at a time took %v", l.most.Load(), d)
		}
	})
}

// TestWritersStayAlone: a writer waits for the readers, readers behind it wait for the writer, and nothing is let
// in while it waits.
func TestWritersStayAlone(t *testing.T) {
	l := newLibrary()
	l.run(t, func(ctx context.Context, g grains.Grain[cell]) {
		begin := time.Now()
		var refs []raysys.Ref[int]
		for range 3 {
			refs = append(refs, l.read.Call(ctx, g, time.Second), l.read.Call(ctx, g, 2*time.Second), l.write.Call(ctx, g, time.Second))
			synctest.Wait()
		}
		for i, r := range refs {
			want := i / 3
			if i%3 == 2 {
				want++
			}
			wants(t, ctx, r, want)
		}
		if d := time.Since(begin); d != 9*time.Second {
			t.Errorf("it took %v, want 3 times 2 s of readers and 1 s of a writer", d)
		}
	})
}

// TestReaderBesideAdmittedWriter: a reader's chain came back with a call that writes and is declared reentrant; while
// that waits in the middle of its turn, no reader is let in.
func TestReaderBesideAdmittedWriter(t *testing.T) {
	l := newLibrary()
	write := l.write.Reentrant()
	chain := grains.Method0(l.kind, "chain", func(_ *cell, ctx context.Context) (int, error) {
		self, _ := l.kind.Self(ctx)
		return write.Call(ctx, self, time.Second).Get(ctx)
	}).ReadOnly()
	l.run(t, func(ctx context.Context, g grains.Grain[cell]) {
		begin := time.Now()
		r := chain.Call(ctx, g)
		synctest.Wait()
		wants(t, ctx, l.look.Call(ctx, g), 1)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("the reader came after %v, want the writer's second", d)
		}
		wants(t, ctx, r, 1)
	})
}

// TestReaderChain: a read-only method that comes back to its grain is let in without Reentrant, and one that writes
// is refused.
func TestReaderChain(t *testing.T) {
	k := newKnot()
	look := k.value.ReadOnly()
	turn := func(f grains.Func0[cell, int]) grains.Func0[cell, int] {
		return k.turn(func(ctx context.Context) (int, error) {
			self, _ := k.kind.Self(ctx)
			return f.Call(ctx, self).Get(ctx)
		}).ReadOnly()
	}
	reads, writes := turn(look), turn(k.value)
	k.run(t, func(ctx context.Context) {
		wants(t, ctx, reads.Call(ctx, k.kind.Get("a")), 1)
		isCycle(t, nodetest.Fails(t, ctx, writes.Call(ctx, k.kind.Get("a")), raysys.ErrCycle), "k/a.turn")
	})
}
