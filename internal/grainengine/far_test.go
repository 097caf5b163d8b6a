package grainengine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/wire"
)

// rover is a kind whose grains may be on any node.
type rover struct {
	n    int
	seen []int
}

var errTooFar = errors.New("too far")

var _ = raysys.RegisterError("grains_test.too-far", errTooFar)

type rovers struct {
	net   *fakeNet
	kind  grains.Kind[rover]
	add   grains.Func[rover, int, int]
	note  grains.Func[rover, int, int]
	noted grains.Func0[rover, []int]
	where grains.Func0[rover, string]
	fail  grains.Act0[rover]
	boom  grains.Act0[rover]
	big   grains.Func[rover, []byte, int]
	make  grains.Func[rover, int, []byte]
	gate  grains.Act0[rover]
	quit  grains.Act0[rover]

	entered chan context.Context
	leave   chan struct{}
	over    chan struct{} // a gate was left by cancellation
}

func newRovers(t testing.TB, opts ...grains.Option) *rovers {
	tb := raysys.NewTable()
	r := &rovers{net: newNet(t, tb), entered: make(chan context.Context, 100), leave: make(chan struct{}), over: make(chan struct{}, 100)}
	r.kind = grains.DefineIn[rover](tb, "rover", opts...)
	r.add = grains.Method(r.kind, "add", func(g *rover, _ context.Context, d int) (int, error) { g.n += d; return g.n, nil })
	r.note = grains.Method(r.kind, "note", func(g *rover, _ context.Context, i int) (int, error) {
		g.seen = append(g.seen, i)
		return i, nil
	})
	r.noted = grains.Method0(r.kind, "noted", func(g *rover, _ context.Context) ([]int, error) { return slices.Clone(g.seen), nil })
	r.where = grains.Method0(r.kind, "where", func(_ *rover, ctx context.Context) (string, error) {
		t, _, err := core.TurnOf(ctx)
		if err != nil {
			return "", err
		}
		return string(t.Job().Node), nil
	})
	r.fail = grains.Action0(r.kind, "fail", func(*rover, context.Context) error { return fmt.Errorf("rover: %w", errTooFar) })
	r.boom = grains.Action0(r.kind, "boom", func(*rover, context.Context) error { panic("boom") })
	r.big = grains.Method(r.kind, "big", func(g *rover, _ context.Context, b []byte) (int, error) {
		g.seen = append(g.seen, len(b))
		return len(b) + int(b[len(b)-1]), nil
	})
	r.make = grains.Method(r.kind, "make", func(_ *rover, _ context.Context, n int) ([]byte, error) { return bytes.Repeat([]byte{7}, n), nil })
	r.gate = grains.Action0(r.kind, "gate", func(_ *rover, ctx context.Context) error {
		r.entered <- ctx
		select {
		case <-r.leave:
			return nil
		case <-ctx.Done():
			r.over <- struct{}{}
			return context.Cause(ctx)
		}
	})
	r.quit = grains.Action0(r.kind, "quit", func(_ *rover, ctx context.Context) error { return grains.Deactivate(ctx) })
	return r
}

// apart puts all rovers on b; the context is of a, which calls them.
func apart(t testing.TB) (r *rovers, a, b *fakeNode, ctx context.Context) {
	r = newRovers(t)
	a, b = r.net.add("a"), r.net.add("b")
	r.on(b)
	return r, a, b, a.context()
}

// on places every grain on n from now on.
func (r *rovers) on(n *fakeNode) {
	r.net.mu.Lock()
	defer r.net.mu.Unlock()
	r.net.choose = func(graindir.ID, *fakeNode, []*fakeNode) *fakeNode { return n }
}

// TestFarCall: what a call brings back from another node is what it brings back here.
func TestFarCall(t *testing.T) {
	r, a, b, ctx := apart(t)
	g := r.kind.Get("x")
	wants(t, ctx, r.add.Call(ctx, g, 5), 5)
	wants(t, ctx, r.add.Call(ctx, g, 2), 7)
	wants(t, ctx, r.where.Call(ctx, g), "b")
	wants(t, b.context(), r.where.Call(b.context(), g), "b")

	_, err := r.fail.Call(ctx, g).Get(ctx)
	var task *raysys.TaskError
	if !errors.Is(err, errTooFar) || !errors.As(err, &task) || task.Node != "b" || task.Function != "rover/x.fail" {
		t.Errorf("%v (%+v)", err, task)
	}
	_, err = r.boom.Call(ctx, g).Get(ctx)
	if !errors.Is(err, raysys.ErrPanic) || !errors.As(err, &task) || len(task.Stack) == 0 {
		t.Error(err)
	}
	// a asks once, b confirms once, and b's own call finds the activation.
	if l, c := r.net.count("locate"), r.net.count("confirm"); l != 1 || c != 1 {
		t.Error(l, "look-ups,", c, "confirmations")
	}
	if a.engine.Activations("rover") != 0 || b.engine.Activations("rover") != 1 {
		t.Error("the grain is not on b alone")
	}
}

// TestFarLarge: what is above the inline limit arrives by the bulk connection, an argument up to 4 MiB and a result up to 1 MiB; what is
// larger is an object.
func TestFarLarge(t *testing.T) {
	r, a, b, ctx := apart(t)
	g := r.kind.Get("x")
	for _, c := range []struct {
		size    int
		refused bool // the bulk connection has no room at first
		frames  int  // on the bulk connection: the argument and the result
	}{
		{1, false, 0},
		{wire.InlineLimit - 100, false, 0},
		{wire.InlineLimit + 1, false, 2},
		{wire.InlineLimit + 1, true, 3}, // the argument again; the result by reference
		{1 << 20, false, 2},
		{wire.PushLimit + 1, false, 1}, // the argument, which is asked for
		{wire.ValueLimit + 1, false, 0},
		{64 << 20, false, 0},
	} {
		r.net.mu.Lock()
		r.net.large = 0
		r.net.mu.Unlock()
		if c.refused {
			refuseLarge(a, b, 1)
			refuseLarge(b, a, 1)
		}
		arg := bytes.Repeat([]byte{3}, c.size)
		wants(t, ctx, r.big.Call(ctx, g, arg), c.size+3)
		v, err := r.make.Call(ctx, g, c.size).Get(ctx)
		if err != nil || len(v) != c.size || v[c.size/2] != 7 {
			t.Errorf("a result of %d bytes: %d bytes, %v", c.size, len(v), err)
		}
		r.net.mu.Lock()
		if r.net.large != c.frames {
			t.Errorf("%d bytes, refused %v: %d frames on the bulk connection, want %d", c.size, c.refused, r.net.large, c.frames)
		}
		r.net.mu.Unlock()
	}
}

// TestFarOrder: one goroutine's calls keep their order, whatever their size, from the first one on.
func TestFarOrder(t *testing.T) {
	r, _, _, ctx := apart(t)
	g := r.kind.Get("x")
	var want []int
	for i := range 60 {
		if i%5 == 4 {
			n := 70_000 + i
			if i%15 == 4 {
				n += wire.ValueLimit
			}
			r.big.Call(ctx, g, make([]byte, n))
			want = append(want, n)
		} else {
			r.note.Call(ctx, g, i)
			want = append(want, i)
		}
	}
	got, err := r.noted.Call(ctx, g).Get(ctx)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%v\n%v", got, want, err)
	}
}
