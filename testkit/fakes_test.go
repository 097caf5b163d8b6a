package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// booth is a grain that a test does without: it does not come up.
type booth struct {
	Paid grains.State[int]
}

var errNoBooth = errors.New("there is no booth")

func (g *booth) OnActivate(context.Context) error   { return errNoBooth }
func (g *booth) OnDeactivate(context.Context) error { panic(errNoBooth) }

// shop is all that has a fake.
type shop struct {
	table  *raysys.Table
	booths grains.Kind[booth]
	pay    grains.Func[booth, int, string]
	total  grains.Func0[booth, int]
	later  grains.Func[booth, int, string]
	keeps  bool // it has that
	shut   grains.Act0[booth]
	like   grains.Kind[struct{}] // its name begins as the names of a faked kind's methods do
	ok     grains.Act0[struct{}]
	greet  tasks.Task[string, string]
	now    tasks.Task0[string]
	add    tasks.Task2[int, string, string]
	sum    tasks.Task3[int8, string, bool, string]
	plain  tasks.Task0[string]
	pays   tasks.Task[int, string]
}

func newShop(opts ...grains.Option) *shop {
	s := &shop{table: raysys.NewTable()}
	s.booths = grains.DefineIn[booth](s.table, "booth", opts...)
	s.pay = grains.Method(s.booths, "pay", func(*booth, context.Context, int) (string, error) { return "real", nil })
	s.total = grains.Method0(s.booths, "total", func(*booth, context.Context) (int, error) { return 0, nil })
	if s.keeps = opts == nil; s.keeps {
		s.later = grains.LaterMethod(s.booths, "later", func(*booth, context.Context, int, *grains.Later[string]) error { return nil })
	}
	s.shut = grains.Action0(s.booths, "shut", func(*booth, context.Context) error { return nil })
	s.like = grains.DefineIn[struct{}](s.table, "booth.pay")
	s.ok = grains.Action0(s.like, "ok", func(*struct{}, context.Context) error { return nil })
	s.greet = tasks.DefineIn(s.table, "greet", func(context.Context, string) (string, error) { return "real", nil })
	s.now = tasks.Define0In(s.table, "now", func(context.Context) (string, error) { return "real", nil })
	s.add = tasks.Define2In(s.table, "add", func(context.Context, int, string) (string, error) { return "real", nil })
	s.sum = tasks.Define3In(s.table, "sum", func(context.Context, int8, string, bool) (string, error) { return "real", nil })
	s.plain = tasks.Define0In(s.table, "plain", func(context.Context) (string, error) { return "real", nil })
	s.pays = tasks.DefineIn(s.table, "pays", func(ctx context.Context, n int) (string, error) {
		return s.pay.Call(ctx, s.booths.Get("b"), n).Get(ctx)
	})
	return s
}

// fakes are those of all but shut, ok, plain and pays.
func (s *shop) fakes(more ...testkit.Option) []testkit.Option {
	pay := func(ctx context.Context, key string, n int) (string, error) {
		if self, _ := grains.Self(ctx); self.Key != key || n < 0 {
			return "lost", fmt.Errorf("%d for %s", n, self.Key)
		}
		return fmt.Sprintf("%d for %s", n, key), nil
	}
	if s.keeps {
		more = append(more, testkit.Fake(s.later, pay))
	}
	return append(more, testkit.Table(s.table), testkit.Fake(s.pay, pay),
		testkit.Fake0(s.total.ReadOnly(), func(context.Context, string) (int, error) { return 7, nil }),
		testkit.FakeTask(s.greet.With(raysys.CPU(0)), func(_ context.Context, a string) (string, error) { return "hello " + a, nil }),
		testkit.FakeTask0(s.now, func(context.Context) (string, error) { return "noon", nil }),
		testkit.FakeTask2(s.add, func(_ context.Context, a int, b string) (string, error) { return fmt.Sprint(a, b), nil }),
		testkit.FakeTask3(s.sum, func(_ context.Context, a int8, b string, c bool) (string, error) { return fmt.Sprint(a, b, c), nil }),
	)
}

func gets[T comparable](ctx context.Context, t *testing.T, r raysys.Ref[T], want T) {
	t.Helper()
	if got, err := r.Get(ctx); got != want || err != nil {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// TestFake: fakes stand in for methods and tasks, and of a kind with one no code of the program runs; in one node, and over those of a cluster.
func TestFake(t *testing.T) {
	for name, kind := range map[string][]grains.Option{"plain": nil, "durable": {grains.Durable()}, "unfiltered": {grains.Unfiltered()}} {
		for _, nodes := range []int{0, 2} {
			t.Run(fmt.Sprint(name, " ", nodes), func(t *testing.T) {
				s := newShop(kind...)
				opts := s.fakes()
				if nodes > 0 {
					opts = s.fakes(testkit.Nodes(nodes))
				}
				ctx, a := testkit.New(t, opts...).Context(), s.booths.Get("a")
				gets(ctx, t, s.pay.Call(ctx, a, 5), "5 for a")
				gets(ctx, t, s.pay.Idempotent().Call(ctx, a, 5), "5 for a")
				gets(ctx, t, s.pays.Go(ctx, 5), "5 for b")
				gets(ctx, t, s.total.Call(ctx, a), 7)
				gets(ctx, t, s.greet.Go(ctx, "Eve"), "hello Eve")
				gets(ctx, t, s.now.Go(ctx), "noon")
				gets(ctx, t, s.add.Go(ctx, 1, "x"), "1x")
				gets(ctx, t, s.sum.Go(ctx, 1, "x", true), "1xtrue")
				gets(ctx, t, s.plain.Go(ctx), "real")
				gets(ctx, t, s.ok.Call(ctx, s.like.Get("a")), struct{}{})
				if s.keeps {
					gets(ctx, t, s.later.Call(ctx, a, 5), "5 for a")
				}
				if name == "durable" { // the keys of its calls are not remembered
					once := s.pay.With(raysys.Key("once"))
					gets(ctx, t, once.Call(ctx, a, 5), "5 for a")
					gets(ctx, t, once.Call(ctx, a, 6), "6 for a")
				}
				var failed *raysys.TaskError
				if got, err := s.pay.Call(ctx, a, -1).Get(ctx); got != "" || !errors.As(err, &failed) || failed.Err.Error() != "-1 for a" {
					t.Errorf("a fake that fails: %q, %v", got, err)
				}
				if _, err := s.shut.Call(ctx, a).Get(ctx); !errors.Is(err, testkit.ErrNotFaked) || !strings.Contains(err.Error(), "booth.shut") {
					t.Errorf("a method without a fake: %v", err)
				}
			})
		}
	}
}

// TestFakeOverNodes: a fake runs where its grain is, so that a task of one node calls it on another.
func TestFakeOverNodes(t *testing.T) {
	s := newShop()
	where := func(ctx context.Context, _ string, _ int) (string, error) {
		return string(system.NodeOf(ctx).Name()), nil
	}
	k := testkit.New(t, testkit.Nodes(2), testkit.Table(s.table), testkit.Fake(s.pay, where))
	ctx := k.Context()
	gets(ctx, t, s.pay.With(raysys.OnNode("n2")).Call(ctx, s.booths.Get("b"), 1), "n2") // places it
	gets(ctx, t, s.pays.With(raysys.OnNode("n1")).Go(ctx, 1), "n2")
}

// TestFakeFiltered: filters are around a fake.
func TestFakeFiltered(t *testing.T) {
	s := newShop()
	passed := 0
	ctx := testkit.New(t, s.fakes(testkit.Config(system.Config{Filters: []raysys.Filter{
		func(ctx context.Context, w *raysys.Work, next func(context.Context) error) error {
			passed++
			err := next(ctx)
			if at, ok := w.Result().(*string); ok {
				*at += ", filtered"
			}
			return err
		},
	}}))...).Context()
	gets(ctx, t, s.pay.Call(ctx, s.booths.Get("a"), 5), "5 for a, filtered")
	gets(ctx, t, s.now.Go(ctx), "noon, filtered")
	if passed != 2 {
		t.Errorf("%d passed, want 2", passed)
	}
}

// TestBadFakes: what is wrong with fakes ends the test before a node starts.
func TestBadFakes(t *testing.T) {
	s := newShop()
	fn := func(context.Context, string, int) (string, error) { return "", nil }
	table := testkit.Table(s.table)
	for want, opts := range map[string][]testkit.Option{
		"two fakes of method booth.pay":           {table, testkit.Fake(s.pay, fn), testkit.Fake(s.pay.Idempotent(), fn)},
		"a fake of method booth.pay is nil":       {table, testkit.Fake(s.pay, nil)},
		"a fake of method booth.total is nil":     {table, testkit.Fake0(s.total, nil)},
		"a fake of task greet is nil":             {table, testkit.FakeTask(s.greet, nil)},
		"a fake of task now is nil":               {table, testkit.FakeTask0(s.now, nil)},
		"a fake of task add is nil":               {table, testkit.FakeTask2(s.add, nil)},
		"a fake of task sum is nil":               {table, testkit.FakeTask3(s.sum, nil)},
		"two fakes of task now":                   {table, testkit.FakeTask0(s.now, noon), testkit.FakeTask0(s.now, noon)},
		"a fake of the zero handle":               {testkit.Fake(grains.Func[booth, int, string]{}, fn)},
		"a fake of the zero handle: give one":     {testkit.FakeTask0(tasks.Task0[string]{}, noon)},
		"booth.pay":                               {testkit.Fake(s.pay, fn)},
		"is not in this system's table":           {testkit.FakeTask0(s.now, noon), testkit.Table(raysys.NewTable())},
		"is not in this system's table: pass its": {testkit.Nodes(1), testkit.Fake(s.pay, fn)},
	} {
		f := &fake{name: t.Name()}
		f.run(func() { testkit.New(f, opts...) })
		if f.want(t, want); !f.fatal {
			t.Errorf("%s: the test goes on", want)
		}
	}
	f := &fake{name: t.Name()}
	f.run(func() { testkit.Processes(f, 1, table, testkit.Fake(s.pay, fn)) })
	if f.want(t, "Processes cannot have fakes"); !f.fatal {
		t.Error("the test goes on")
	}
}

func noon(context.Context) (string, error) { return "noon", nil }
