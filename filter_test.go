package raysys_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// filtered starts a node with filters.
func filtered(t *testing.T, table *raysys.Table, list ...raysys.Filter) context.Context {
	t.Helper()
	n, err := system.New(system.Config{Table: table, Filters: list})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	return n.Context(t.Context())
}

var lender = raysys.NewContextKey[string]("lender")

type purse struct {
	grains.State[int]
	kept *grains.Later[int]
}

// purses is a kind with a method of each sort.
type purses struct {
	kind grains.Kind[purse]
	add  grains.Func[purse, int, int]
	wait grains.Func[purse, int, int]
	give grains.Func0[purse, int]
}

func definePurses(table *raysys.Table, opts ...grains.Option) (p purses) {
	p.kind = grains.DefineIn[purse](table, "purse", opts...)
	p.add = grains.Method(p.kind, "add", func(g *purse, _ context.Context, n int) (int, error) {
		g.Value += n
		return g.Value, nil
	})
	p.wait = grains.LaterMethod(p.kind, "wait", func(g *purse, ctx context.Context, _ int, l *grains.Later[int]) error {
		if who, _ := lender.From(ctx); who != "below" {
			return errors.New("the value of the filter is missing")
		}
		g.kept = l
		return nil
	})
	p.give = grains.Method0(p.kind, "give", func(g *purse, _ context.Context) (int, error) { return g.Value, g.kept.Settle(g.Value) })
	return p
}

// TestFilterSees: the filters of the node are around those of the kind, and both know the work.
func TestFilterSees(t *testing.T) {
	table := raysys.NewTable()
	var mu sync.Mutex
	var saw []string
	note := func(who string) raysys.Filter {
		return func(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
			if w.Result() != nil {
				t.Errorf("%s has a result before its end", w.Name())
			}
			err := next(lender.With(ctx, "below"))
			line := fmt.Sprintf("%s %s/%s %s %s %v", who, w.Name(), w.Key(), shown(w.Arg()), shown(w.Result()), err)
			mu.Lock()
			defer mu.Unlock()
			saw = append(saw, line)
			return err
		}
	}
	below := tasks.Define0In(table, "below", func(ctx context.Context) (string, error) {
		who, _ := lender.From(ctx)
		return who, nil
	})
	sum := tasks.Define2In(table, "sum", func(ctx context.Context, a, b int) (int, error) {
		if who, err := below.Go(ctx).Get(ctx); who != "below" || err != nil {
			return 0, fmt.Errorf("a child has %q, %v", who, err)
		}
		return a + b, nil
	})
	p := definePurses(table, grains.Filter(note("kind")))
	ctx := filtered(t, table, note("node"))
	g := p.kind.Get("a")
	if n, err := sum.Go(ctx, 1, 2).Get(ctx); n != 3 || err != nil {
		t.Error(n, err)
	}
	if n, err := p.add.Call(ctx, g, 5).Get(ctx); n != 5 || err != nil {
		t.Error(n, err)
	}
	w := p.wait.Call(ctx, g, 1)
	if _, err := p.give.Call(ctx, g).Get(ctx); err != nil {
		t.Error(err)
	}
	if n, err := w.Get(ctx); n != 5 || err != nil {
		t.Error(n, err)
	}
	want := []string{
		"node below/ <nil> below <nil>", "node sum/ 1 2 3 <nil>", "kind purse.add/a 5 5 <nil>", "node purse.add/a 5 5 <nil>",
		"kind purse.wait/a 1 <nil> <nil>", "node purse.wait/a 1 <nil> <nil>", "kind purse.give/a <nil> 5 <nil>", "node purse.give/a <nil> 5 <nil>",
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(saw, want) {
		t.Errorf("the filters saw\n%s\nwant\n%s", strings.Join(saw, "\n"), strings.Join(want, "\n"))
	}
}

// shown is what an argument or a result points to.
func shown(at any) string {
	switch v := at.(type) {
	case *int:
		return fmt.Sprint(*v)
	case *string:
		return *v
	case []any:
		return shown(v[0]) + " " + shown(v[1])
	}
	return fmt.Sprint(at)
}

// TestFilterDecides: what a filter returns is the outcome of a task and of a call, of each sort.
func TestFilterDecides(t *testing.T) {
	table := raysys.NewTable()
	runs := 0
	double := tasks.DefineIn(table, "double", func(_ context.Context, n int) (int, error) { runs++; return 2 * n, nil })
	p := definePurses(table)
	errNo := errors.New("no")
	var filter raysys.Filter // of the step
	ctx := filtered(t, table, func(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
		return filter(ctx, w, next)
	})
	g := p.kind.Get("a")
	type next = func(context.Context) error
	with := func(ctx context.Context) context.Context { return lender.With(ctx, "below") }
	twice := func(err error) error { // fails what would be kept for good if the second next had run it
		if err == nil {
			return errNo
		}
		return nil
	}
	for what, c := range map[string]struct {
		filter raysys.Filter
		want   error
	}{
		"refuses":         {func(context.Context, *raysys.Work, next) error { return errNo }, errNo},
		"fails after":     {func(ctx context.Context, _ *raysys.Work, n next) error { return errors.Join(n(with(ctx)), errNo) }, errNo},
		"panics":          {func(context.Context, *raysys.Work, next) error { panic("no") }, raysys.ErrPanic},
		"panics after":    {func(ctx context.Context, _ *raysys.Work, n next) error { panic(n(with(ctx))) }, raysys.ErrPanic},
		"does nothing":    {func(context.Context, *raysys.Work, next) error { return nil }, raysys.ErrFilter},
		"twice":           {func(ctx context.Context, _ *raysys.Work, n next) error { n(with(ctx)); return twice(n(with(ctx))) }, raysys.ErrFilter},
		"another context": {func(_ context.Context, _ *raysys.Work, n next) error { return n(ctx) }, raysys.ErrFilter},
		"no context":      {func(_ context.Context, _ *raysys.Work, n next) error { return n(nil) }, raysys.ErrFilter}, //nolint:staticcheck // it is what is tested
	} {
		filter = c.filter
		if _, err := double.Go(ctx, 1).Get(ctx); !errors.Is(err, c.want) {
			t.Errorf("a filter that %s: the task has %v", what, err)
		}
		if _, err := p.add.Call(ctx, g, 1).Get(ctx); !errors.Is(err, c.want) {
			t.Errorf("a filter that %s: the call has %v", what, err)
		}
		if _, err := p.wait.Call(ctx, g, 1).Get(ctx); !errors.Is(err, c.want) {
			t.Errorf("a filter that %s: the call of a LaterMethod has %v", what, err)
		}
	}

	called := make(chan error, 1)
	filter = func(ctx context.Context, _ *raysys.Work, n next) error {
		go func() { <-ctx.Done(); called <- n(ctx) }()
		return errNo
	}
	if _, err := double.Go(ctx, 1).Get(ctx); !errors.Is(err, errNo) {
		t.Error(err)
	}
	if err := <-called; !errors.Is(err, raysys.ErrFilter) {
		t.Error("next after the filter's end:", err)
	}

	runs = 0
	filter = func(ctx context.Context, w *raysys.Work, n next) error {
		if err := n(ctx); err != nil || raysys.Attempt(ctx) < 3 {
			return errors.Join(err, errNo)
		}
		*w.Result().(*int)++
		return nil
	}
	all := double.With(raysys.Retries(5), raysys.RetryIf(func(err error) bool { return errors.Is(err, errNo) }), raysys.Backoff(time.Millisecond, time.Millisecond))
	if n, err := all.Go(ctx, 10).Get(ctx); n != 21 || err != nil || runs != 3 {
		t.Errorf("%d, %v after %d runs, want 21 after 3", n, err, runs)
	}
	filter = func(ctx context.Context, _ *raysys.Work, n next) error { n(ctx); return nil }
	if n, err := double.Go(ctx, 4).Get(ctx); n != 8 || err != nil {
		t.Error(n, err)
	}
}

// TestFilterOfDurable: a filter is in the transaction, so its error takes back what the method did.
func TestFilterOfDurable(t *testing.T) {
	table := raysys.NewTable()
	k := grains.DefineIn[purse](table, "purse", grains.Durable())
	add := grains.Method(k, "add", func(g *purse, _ context.Context, n int) (int, error) { g.Value += n; return g.Value, nil })
	errNo := errors.New("no")
	ctx := filtered(t, table, func(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
		if err := next(ctx); err != nil || *w.Arg().(*int) != 7 {
			return err
		}
		return errNo
	})
	g := k.Get("a")
	for _, c := range []struct {
		n, want int
		err     error
	}{{1, 1, nil}, {7, 0, errNo}, {1, 2, nil}} {
		if n, err := add.Call(ctx, g, c.n).Get(ctx); n != c.want || !errors.Is(err, c.err) {
			t.Errorf("add %d: %d, %v, want %d, %v", c.n, n, err, c.want, c.err)
		}
	}
}

type metronome struct{}

// TestFilterOfKinds: each call passes, whatever the options of its kind and method, also one that comes back to a grain in its turn.
func TestFilterOfKinds(t *testing.T) {
	for name, opts := range map[string][]grains.Option{"plain": nil, "stateless": {grains.StatelessWorker(1)}, "reentrant": {grains.Reentrant()}} {
		table, errNo := raysys.NewTable(), errors.New("no")
		k := grains.DefineIn[metronome](table, "metronome", opts...)
		who := grains.Method(k, "who", func(_ *metronome, ctx context.Context, fail bool) (string, error) {
			who, _ := lender.From(ctx)
			return who, nil
		})
		back := grains.Method(k, "back", func(_ *metronome, ctx context.Context, fail bool) (string, error) {
			self, _ := grains.Self(ctx)
			return who.Call(ctx, k.Get(self.Key), fail).Get(ctx)
		})
		var passed sync.Map
		ctx := filtered(t, table, func(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
			n, _ := passed.LoadOrStore(w.Name(), new(atomic.Int32))
			n.(*atomic.Int32).Add(1)
			outer, _ := lender.From(ctx)
			if err := next(lender.With(ctx, outer+">"+w.Name())); err != nil || *w.Arg().(*bool) {
				return errors.Join(err, errNo)
			}
			return nil
		})
		for of, f := range map[string]grains.Func[metronome, bool, string]{"": who, " idempotent": who.Idempotent(), " read-only": who.ReadOnly()} {
			if got, err := f.Call(ctx, k.Get("a"), false).Get(ctx); got != ">metronome.who" || err != nil {
				t.Errorf("%s%s: %q, %v", name, of, got, err)
			}
			if got, err := f.Call(ctx, k.Get("a"), true).Get(ctx); got != "" || !errors.Is(err, errNo) {
				t.Errorf("%s%s, failed by the filter: %q, %v", name, of, got, err)
			}
		}
		if name != "reentrant" {
			continue
		}
		if got, err := back.Call(ctx, k.Get("a"), false).Get(ctx); got != ">metronome.back>metronome.who" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		n, _ := passed.Load("metronome.who")
		if got := n.(*atomic.Int32).Load(); got != 7 {
			t.Errorf("%d calls passed, want 7", got)
		}
	}
}

// TestUnfiltered: ticks of timers pass no filter, and a kind that is Unfiltered none but its own.
func TestUnfiltered(t *testing.T) {
	table, errNo := raysys.NewTable(), errors.New("no")
	ticks, passed := make(chan struct{}, 1), 0
	k := grains.DefineIn[metronome](table, "metronome", grains.Unfiltered(), grains.Filter(func(ctx context.Context, _ *raysys.Work, next func(context.Context) error) error {
		passed++
		return next(ctx)
	}))
	start := grains.Action0(k, "start", func(_ *metronome, ctx context.Context) error {
		_, err := grains.After(ctx, time.Millisecond, func(context.Context) error { ticks <- struct{}{}; return nil })
		return err
	})
	ctx := filtered(t, table, func(context.Context, *raysys.Work, func(context.Context) error) error { return errNo })
	if _, err := start.Call(ctx, k.Get("a")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	<-ticks
	if _, err := start.Call(ctx, k.Get("a")).Get(ctx); err != nil || passed != 2 {
		t.Errorf("%v, and the kind's filter was passed %d times, want 2", err, passed)
	}
}

// TestNilFilters: a filter that is nil is found before anything runs.
func TestNilFilters(t *testing.T) {
	if _, err := system.New(system.Config{Table: raysys.NewTable(), Filters: []raysys.Filter{nil}}); err == nil || !strings.Contains(err.Error(), "Config.Filters[0] is nil") {
		t.Error(err)
	}
	table := raysys.NewTable()
	grains.DefineIn[metronome](table, "metronome", grains.Filter(nil))
	if _, err := system.New(system.Config{Table: table}); !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), "Filter(nil)") {
		t.Error(err)
	}
}
