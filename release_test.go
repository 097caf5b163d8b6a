package raysys_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/tasks"
)

// wide has several words, so that a torn read of it shows.
type wide struct {
	A, B *int
	Text string
	Many []int
}

func newWide(x int) wide {
	return wide{&x, &x, "text", []int{x, x, x}}
}

func (w wide) whole() bool {
	return w.A != nil && w.A == w.B && w.Text == "text" && len(w.Many) == 3 && w.Many[0] == *w.A && w.Many[2] == *w.B
}

// A Get that races Release gives the whole value or ErrReleased, never a part of it, and what was released stays so.
func TestGetRacesRelease(t *testing.T) {
	table := raysys.NewTable()
	make1 := tasks.DefineIn(table, "make", func(_ context.Context, x int) (wide, error) { return newWide(x), nil })
	use := tasks.DefineIn(table, "use", func(_ context.Context, w wide) (bool, error) { return w.whole(), nil })
	type boxed struct{ R raysys.Ref[wide] }
	read := tasks.DefineIn(table, "read", func(ctx context.Context, b boxed) (bool, error) {
		w, err := b.R.Get(ctx)
		return w.whole(), err
	})
	_, ctx := node(t, table)
	rapid.Check(t, func(rt *rapid.T) {
		r := raysys.Put(ctx, newWide(1))
		switch rapid.IntRange(0, 2).Draw(rt, "source") {
		case 1:
			r = make1.Go(ctx, 2)
		case 2:
			r = make1.On(ctx, raysys.Ready(3))
		}
		var group sync.WaitGroup
		for i := range rapid.IntRange(1, 6).Draw(rt, "readers") {
			switch i % 3 {
			case 0:
				group.Go(func() {
					gone := false
					for range 20 {
						w, err := r.Get(ctx)
						switch {
						case err == nil && (gone || !w.whole()):
							t.Errorf("gone %v, got %+v", gone, w)
						case err != nil && !errors.Is(err, raysys.ErrReleased):
							t.Errorf("got %v, want ErrReleased", err)
						}
						gone = err != nil
						runtime.Gosched()
					}
				})
			case 1:
				out, out2 := use.On(ctx, r), read.Go(ctx, boxed{r})
				group.Go(func() {
					for _, o := range raysys.GetAll(raysys.Branch(ctx, i), []raysys.Ref[bool]{out, out2}) {
						if o.Err != nil || !o.Value {
							t.Errorf("a task that was given the ref before its release: %v, %v", o.Value, o.Err)
						}
					}
				})
			case 2:
				group.Go(func() {
					own := raysys.Branch(ctx, i)
					for _, o := range raysys.GetAll(own, []raysys.Ref[bool]{use.On(own, r), read.Go(own, boxed{r})}) {
						if o.Err == nil && !o.Value || o.Err != nil && !errors.Is(o.Err, raysys.ErrReleased) {
							t.Errorf("a task that was given the ref at any time: %v, %v", o.Value, o.Err)
						}
					}
				})
			}
		}
		for range rapid.IntRange(1, 3).Draw(rt, "releases") {
			group.Go(r.Release)
		}
		group.Wait()
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrReleased) {
			t.Errorf("after all: %v, want ErrReleased", err)
		}
	})
}

// The same for values without pointers, which are read without a lock.
func TestGetRacesReleaseOfPlainValues(t *testing.T) {
	type plain struct{ A, B, C, D uint64 }
	table := raysys.NewTable()
	task := tasks.DefineIn(table, "plain", func(_ context.Context, x uint64) (plain, error) { return plain{x, x, x, x}, nil })
	_, ctx := node(t, table)
	for i := range uint64(200) {
		r := task.Go(ctx, i)
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for range 10 {
					v, err := r.Get(ctx)
					if err == nil && v != (plain{i, i, i, i}) || err != nil && !errors.Is(err, raysys.ErrReleased) {
						t.Errorf("got %v, %v", v, err)
					}
				}
			})
		}
		group.Go(r.Release)
		group.Wait()
		if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrReleased) {
			t.Errorf("after all: %v, want ErrReleased", err)
		}
	}
}

// Release of what there is nothing to free of is harmless.
func TestReleaseOfAnything(t *testing.T) {
	_, ctx := node(t, raysys.NewTable())
	(raysys.Ref[int]{}).Release()
	failed := raysys.Ref[int](core.FailedRef[int](errBoom))
	failed.Release()
	if _, err := failed.Get(ctx); !errors.Is(err, errBoom) {
		t.Errorf("a failed ref after its release: %v, want its failure", err)
	}
	ready := raysys.Ready([]int{1})
	ready.Release()
	ready.Release()
	if _, err := ready.Get(ctx); !errors.Is(err, raysys.ErrReleased) {
		t.Errorf("a Ready value after its release: %v", err)
	}
}
