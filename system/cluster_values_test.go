package system_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type linked struct {
	N    int
	Ref  raysys.Ref[int]
	Late raysys.Handle[int]
	Big  raysys.Handle[[]byte]
}

var errShort = errors.New("short of funds")

var (
	_ = raysys.RegisterError("system_test.short", errShort)

	// sumLinked reads every reference in its argument.
	sumLinked = tasks.DefineIn(table, "sum-linked", func(ctx context.Context, l linked) (int, error) {
		a, err := l.Ref.Get(ctx)
		if err != nil {
			return 0, err
		}
		b, err := l.Late.Ref().Get(ctx)
		if err != nil {
			return 0, err
		}
		c, err := l.Big.Ref().Get(ctx)
		return l.N + a + b + len(c), err
	})
	// spread returns references to objects and tasks of the node it ran on.
	spread = tasks.DefineIn(table, "spread", func(ctx context.Context, n int) ([]raysys.Ref[int], error) {
		refs := make([]raysys.Ref[int], n)
		for i := range refs {
			if i%2 == 0 {
				refs[i] = raysys.Put(ctx, i)
			} else {
				refs[i] = slowly.Go(ctx, i)
			}
		}
		return refs, nil
	})
	slowly = tasks.DefineIn(table, "slowly", func(ctx context.Context, n int) (int, error) {
		select {
		case <-time.After(20 * time.Millisecond):
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	echo    = tasks.DefineIn(table, "echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
	fails   = tasks.DefineIn(table, "fails", func(context.Context, int) (int, error) { return 0, fmt.Errorf("pay: %w", errShort) })
	panics  = tasks.DefineIn(table, "panics", func(context.Context, int) (int, error) { panic("ouch") })
	forever = tasks.DefineIn(table, "forever", func(ctx context.Context, _ int) (int, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 0, ctx.Err()
	})
	started = make(chan struct{}, 100)
	ended   = make(chan error, 100)
)

// vault is a grain that holds references.
type vault struct{ refs []raysys.Ref[int] }

func (v *vault) Keep(_ context.Context, refs []raysys.Ref[int]) (int, error) {
	v.refs = append(v.refs, refs...)
	return len(v.refs), nil
}

func (v *vault) Sum(ctx context.Context) (int, error) {
	total := 0
	for _, r := range v.refs {
		n, err := r.Get(ctx)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

var (
	vaults = grains.DefineIn[vault](table, "vault")
	keep   = grains.Method(vaults, "keep", (*vault).Keep)
	total  = grains.Method0(vaults, "sum", (*vault).Sum)
)

func TestReferencesTravel(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	f.join("w2", system.Worker)
	_, ctx := f.join("d", system.Driver)
	for i := range 20 {
		big := raysys.Put(ctx, make([]byte, 300<<10))
		l := linked{N: i, Ref: raysys.Put(ctx, 100), Late: slowly.Go(ctx, 1000).Handle(), Big: big.Handle()}
		v, err := sumLinked.Go(ctx, l).Get(ctx)
		if want := i + 1100 + 300<<10; v != want || err != nil {
			t.Fatal(v, want, err)
		}
		refs, err := spread.Go(ctx, 10).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		// On to a grain on some node, which gets them from wherever they are.
		g := vaults.Get(fmt.Sprint(i))
		if n, err := keep.Call(ctx, g, refs).Get(ctx); n != 10 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := total.Call(ctx, g).Get(ctx); n != 45 || err != nil {
			t.Fatal(n, err)
		}
		for j, r := range refs {
			if v, err := r.Get(ctx); v != j || err != nil {
				t.Fatal(j, v, err)
			}
		}
	}
}

func TestValuesOfAllSizes(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	_, ctx := f.join("d", system.Driver)
	for _, n := range []int{0, 1, 1000, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, 4<<20 - 64, 4<<20 + 1, 20<<20 + 7} {
		in := bytes.Repeat([]byte{byte(n)}, n)
		out, err := echo.Go(ctx, in).Get(ctx)
		if err != nil || !bytes.Equal(in, out) {
			t.Fatalf("%d bytes: %d came back: %v", n, len(out), err)
		}
	}
}

func TestErrorsTravel(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	_, ctx := f.join("d", system.Driver)
	_, err := fails.Go(ctx, 1).Get(ctx)
	var te *raysys.TaskError
	if !errors.Is(err, errShort) || !errors.As(err, &te) || te.Node != "w1" || te.Function != "fails" || te.Attempt != 1 {
		t.Errorf("%v: %+v", err, te)
	}
	_, err = panics.Go(ctx, 1).Get(ctx)
	if !errors.Is(err, raysys.ErrPanic) || !errors.As(err, &te) || !strings.Contains(string(te.Stack), "cluster_values_test.go") {
		t.Error(err)
	}
}

func TestCancellationCrosses(t *testing.T) {
	f := newFleet(t)
	f.join("w1", system.Worker)
	n, ctx := f.join("d", system.Driver)
	ended := func() {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Fatal("the task goes on")
		}
	}
	r := forever.Go(ctx, 1)
	<-started
	r.Cancel()
	ended()
	if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
		t.Error(err)
	}

	mine, cancel := context.WithCancelCause(n.Context(context.Background()))
	r = forever.Go(mine, 1)
	<-started
	cancel(errShort)
	ended()
	if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrCancelled) {
		t.Error(err)
	}

	r = forever.With(raysys.Deadline(50*time.Millisecond)).Go(ctx, 1)
	<-started
	ended()
	if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
		t.Error(err)
	}
}
