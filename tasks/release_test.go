package tasks_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

type blob struct{ Bytes []byte }

type carrier struct{ Blob raysys.Ref[*blob] }

// A reference released right after it was given to a task stays readable for that task: in an argument, by reference,
// in a retry, and in what the task itself hands on.
func TestReleasedAfterSubmit(t *testing.T) {
	table := raysys.NewTable()
	open := make(chan struct{})
	size := tasks.DefineIn(table, "size", func(_ context.Context, b *blob) (int, error) { return len(b.Bytes), nil })
	fetch := tasks.DefineIn(table, "fetch", func(ctx context.Context, c carrier) (int, error) {
		<-open
		b, err := c.Blob.Get(ctx)
		if err != nil {
			return 0, err
		}
		return len(b.Bytes), nil
	})
	tries := 0
	again := tasks.DefineIn(table, "again", func(ctx context.Context, c carrier) (int, error) {
		<-open
		if tries++; tries == 1 {
			return 0, errBoom
		}
		b, err := c.Blob.Get(ctx)
		if err != nil {
			return 0, err
		}
		return len(b.Bytes), nil
	}).With(raysys.RetryIf(func(err error) bool { return errors.Is(err, errBoom) }), raysys.Backoff(0, 0))
	handOn := tasks.DefineIn(table, "hand-on", func(ctx context.Context, c carrier) (int, error) {
		<-open
		return size.On(ctx, c.Blob).Get(ctx)
	})
	handIn := tasks.DefineIn(table, "hand-in", func(ctx context.Context, c carrier) (int, error) {
		<-open
		return fetch.Go(ctx, c).Get(ctx)
	})
	slow := tasks.DefineIn(table, "slow", func(_ context.Context, n int) (*blob, error) { <-open; return &blob{make([]byte, n)}, nil })
	_, ctx := nodetest.Node(t, table, 8)
	put := func() raysys.Ref[*blob] { return raysys.Put(ctx, &blob{make([]byte, 3)}) }
	pending := func() raysys.Ref[*blob] { return slow.Go(ctx, 3) }
	type given struct {
		name string
		blob raysys.Ref[*blob]
		out  raysys.Ref[int]
	}
	var all []given
	for name, in := range map[string]func() raysys.Ref[*blob]{"put": put, "pending": pending} {
		for kind, f := range map[string]func(r raysys.Ref[*blob]) raysys.Ref[int]{
			"On":      func(r raysys.Ref[*blob]) raysys.Ref[int] { return size.On(ctx, r) },
			"in args": func(r raysys.Ref[*blob]) raysys.Ref[int] { return fetch.Go(ctx, carrier{r}) },
			"hand on": func(r raysys.Ref[*blob]) raysys.Ref[int] { return handOn.Go(ctx, carrier{r}) },
			"hand in": func(r raysys.Ref[*blob]) raysys.Ref[int] { return handIn.Go(ctx, carrier{r}) },
		} {
			r := in()
			all = append(all, given{name + ", " + kind, r, f(r)})
		}
	}
	r := put()
	all = append(all, given{"retried", r, again.Go(ctx, carrier{r})})
	for _, g := range all {
		g.blob.Release()
	}
	close(open)
	for _, g := range all {
		if n, err := nodetest.Get(t, ctx, g.out); n != 3 || err != nil {
			t.Errorf("%s: got %d, %v; want 3", g.name, n, err)
		}
		if _, err := nodetest.Get(t, ctx, g.blob); !errors.Is(err, raysys.ErrReleased) {
			t.Errorf("%s: the driver's own Get: %v; want ErrReleased", g.name, err)
		}
	}
}

// After the last task that holds a released value has ended, in whatever way, the value is freed although refs to it
// are kept.
func TestReleasedMemoryIsFreed(t *testing.T) {
	table := raysys.NewTable()
	began, open := make(chan struct{}, 10), make(chan struct{})
	hold := tasks.DefineIn(table, "hold", func(ctx context.Context, c carrier) (int, error) {
		began <- struct{}{}
		<-open
		return 1, nil
	})
	by := tasks.DefineIn(table, "by", func(ctx context.Context, b *blob) (int, error) { return 1, nil })
	panics := tasks.DefineIn(table, "panics", func(ctx context.Context, c carrier) (int, error) { panic("x") })
	_, ctx := nodetest.Node(t, table, 1)
	blocker := hold.Go(ctx, carrier{raysys.Put(ctx, &blob{})})
	nodetest.Arrive(t, began, "the blocker runs")
	type kept struct {
		name string
		ref  raysys.Ref[*blob]
		mem  weak.Pointer[blob]
	}
	var all []kept
	put := func(name string) raysys.Ref[*blob] {
		b := &blob{make([]byte, 1<<10)}
		r := raysys.Put(ctx, b)
		all = append(all, kept{name, r, weak.Make(b)})
		return r
	}
	var outs []raysys.Ref[int]
	outs = append(outs, hold.Go(ctx, carrier{put("ran")}), by.On(ctx, put("by reference")), panics.Go(ctx, carrier{put("panicked")}))
	for _, name := range []string{"cancelled in the queue", "cancelled in the queue, by reference"} {
		var r raysys.Ref[int]
		if name == "cancelled in the queue" {
			r = hold.Go(ctx, carrier{put(name)})
		} else {
			r = by.On(ctx, put(name))
		}
		r.Cancel()
		outs = append(outs, r)
	}
	sub, cancel := context.WithCancel(ctx)
	outs = append(outs, hold.Go(sub, carrier{put("cancelled with its ctx")}))
	cancel()
	put("given to nobody")
	for _, k := range all {
		k.ref.Release()
	}
	close(open)
	for _, r := range append(outs, blocker) {
		nodetest.Get(t, ctx, r)
	}
	for _, k := range all {
		nodetest.Eventually(t, "freed: "+k.name, func() bool { runtime.GC(); return k.mem.Value() == nil })
		if s := raysys.PhaseOf(k.ref); s != raysys.PhaseReleased {
			t.Errorf("%s: %v, want released", k.name, s)
		}
	}
}
