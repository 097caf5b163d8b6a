package generator_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/items"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tasks/generator"
	"github.com/raysys/raysys/testkit"
)

// producer is a function of a generator of texts.
type producer = func(ctx context.Context, n int, yield func(string) bool) error

// count yields the numbers below n.
func count(_ context.Context, n int, yield func(string) bool) error {
	for i := range n {
		if !yield(fmt.Sprint(i)) {
			return nil
		}
	}
	return nil
}

func texts(n int) (list []string) {
	_ = count(context.Background(), n, func(s string) bool { list = append(list, s); return true })
	return list
}

// with runs f with a generator on one node.
func with(t *testing.T, p producer, f func(ctx context.Context, g generator.Generator[int, string]), opts ...testkit.Option) {
	t.Helper()
	table := raysys.NewTable()
	g := generator.DefineIn(table, "texts", p)
	f(testkit.New(t, append(opts, testkit.Table(table))...).Context(), g)
}

// on runs f with a generator on a driver, node 0, and three workers, in virtual time.
func on(t *testing.T, p producer, f func(k *testkit.Kit, ctx context.Context, g generator.Generator[int, string]), opts ...testkit.Option) {
	t.Helper()
	table := raysys.NewTable()
	g := generator.DefineIn(table, "texts", p)
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		f(k, k.Context(), g)
	}, append(opts, testkit.Table(table), testkit.Nodes(3))...)
}

// collect returns the items of a stream, and its error.
func collect(ctx context.Context, s *generator.Stream[string]) (list []string, last error) {
	for v, err := range s.All(ctx) {
		if last != nil {
			return list, errors.Join(errors.New("there is an element after the error"), last)
		}
		if last = err; err == nil {
			list = append(list, v)
		}
	}
	return list, last
}

// same reports items that differ.
func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%d items of %d, or in another order: %.200q", len(got), len(want), got)
	}
}

// TestOrder: items come in their order.
func TestOrder(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024, 1025, 50_000} {
		with(t, count, func(ctx context.Context, g generator.Generator[int, string]) {
			got, err := collect(ctx, g.Go(ctx, n))
			if err != nil {
				t.Error(err)
			}
			same(t, got, texts(n))
		})
	}
}

// TestFar: so they do from another node.
func TestFar(t *testing.T) {
	on(t, count, func(k *testkit.Kit, ctx context.Context, g generator.Generator[int, string]) {
		got, err := collect(ctx, g.Go(ctx, 5000))
		if err != nil {
			t.Error(err)
		}
		same(t, got, texts(5000))
	})
}

// TestLarge: items that fill a chunk each, and one that is larger than what goes along with an answer.
func TestLarge(t *testing.T) {
	on(t, func(_ context.Context, n int, yield func(string) bool) error {
		for i := range n {
			if !yield(strings.Repeat(fmt.Sprint(i%10), i*200_000)) {
				return nil
			}
		}
		return nil
	}, func(k *testkit.Kit, ctx context.Context, g generator.Generator[int, string]) {
		got, err := collect(ctx, g.Go(ctx, 9))
		if err != nil || len(got) != 9 {
			t.Fatal(len(got), err)
		}
		for i, v := range got {
			if v != strings.Repeat(fmt.Sprint(i), i*200_000) {
				t.Errorf("item %d has %d bytes: %.10q", i, len(v), v)
			}
		}
	})
}

var (
	errBroken = errors.New("broken")
	_         = raysys.RegisterError("generator_test.broken", errBroken)
)

// TestErrors: what the producer returns, or panics with, comes after its items.
func TestErrors(t *testing.T) {
	with(t, func(ctx context.Context, n int, yield func(string) bool) error {
		if err := count(ctx, n, yield); err != nil || n == 3000 {
			return errBroken
		}
		panic("the producer's")
	}, func(ctx context.Context, g generator.Generator[int, string]) {
		for n, want := range map[int]error{3000: errBroken, 2000: raysys.ErrPanic} {
			got, err := collect(ctx, g.Go(ctx, n))
			var e *raysys.TaskError
			if !errors.Is(err, want) || !errors.As(err, &e) {
				t.Error(err)
			}
			same(t, got, texts(n))
		}
	})
	table := raysys.NewTable()
	g := generator.DefineIn(table, "any", func(_ context.Context, _ int, yield func(any) bool) error {
		yield("a")
		if yield(func() {}) || yield("b") {
			return errors.New("yield returns true after an item that cannot travel")
		}
		return nil
	})
	ctx := testkit.New(t, testkit.Table(table)).Context()
	var got []any
	var last error
	for v, err := range g.Go(ctx, 0).All(ctx) {
		got, last = append(got, v), err
	}
	if len(got) != 2 || got[0] != "a" || last == nil || !strings.Contains(last.Error(), "yield: ") {
		t.Error(got, last)
	}
}

// TestRetryIf: an error that is accepted begins another attempt, whose items follow those that the loop has had.
func TestRetryIf(t *testing.T) {
	with(t, func(ctx context.Context, n int, yield func(string) bool) error {
		if err := count(ctx, n*raysys.Attempt(ctx), yield); err != nil || raysys.Attempt(ctx) < 3 {
			return errBroken
		}
		return nil
	}, func(ctx context.Context, g generator.Generator[int, string]) {
		again := raysys.RetryIf(func(err error) bool { return errors.Is(err, errBroken) })
		got, err := collect(ctx, g.With(raysys.Retries(2), again).Go(ctx, 1500))
		if err != nil {
			t.Error(err)
		}
		same(t, got, texts(4500))
		got, err = collect(ctx, g.With(raysys.Retries(1), again).Go(ctx, 1500))
		if !errors.Is(err, errBroken) {
			t.Error(err)
		}
		same(t, got, texts(3000))
		got, err = collect(ctx, g.With(again).Go(ctx, 1500))
		if !errors.Is(err, errBroken) {
			t.Error(err)
		}
		same(t, got, texts(1500))
	})
}

// TestReaderEnds: each end of the reader ends the producer, whether it makes items or waits for room, or for its ctx.
func TestReaderEnds(t *testing.T) {
	begun, ended := make(chan bool, 100), make(chan error, 1)
	with(t, func(ctx context.Context, n int, yield func(string) bool) error {
		begun <- true
		if n == 0 {
			yield("a")
			<-ctx.Done()
			ended <- ctx.Err()
			return nil
		}
		for yield("a") {
		}
		if yield("b") {
			ended <- errors.New("yield returns true again")
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil
	}, func(ctx context.Context, g generator.Generator[int, string]) {
		for name, end := range map[string]func(ctx context.Context, n int){
			"Stop before the loop": func(ctx context.Context, n int) {
				s := g.Go(ctx, n)
				<-begun
				s.Stop()
				if _, err := collect(ctx, s); !errors.Is(err, raysys.ErrCancelled) {
					t.Error(err)
				}
			},
			"Stop in the loop": func(ctx context.Context, n int) {
				s := g.Go(ctx, n)
				var last error
				for v, err := range s.All(ctx) {
					last = err
					if s.Stop(); err == nil && v != "a" {
						t.Error(v)
					}
				}
				if !errors.Is(last, raysys.ErrCancelled) {
					t.Error(last)
				}
			},
			"break": func(ctx context.Context, n int) {
				for range g.Go(ctx, n).All(ctx) {
					break
				}
			},
			"a panic": func(ctx context.Context, n int) {
				defer func() { _ = recover() }()
				for range g.Go(ctx, n).All(ctx) {
					panic("the loop's")
				}
			},
			"ctx of Go": func(ctx context.Context, n int) {
				short, cancel := context.WithCancel(ctx)
				defer cancel()
				var last error
				for _, err := range g.Go(short, n).All(ctx) {
					cancel()
					last = err
				}
				if !errors.Is(last, raysys.ErrCancelled) {
					t.Error(last)
				}
			},
			"ctx of All": func(ctx context.Context, n int) {
				short, cancel := context.WithCancel(ctx)
				defer cancel()
				var last error
				for _, err := range g.Go(ctx, n).All(short) {
					cancel()
					last = err
				}
				if !errors.Is(last, raysys.ErrCancelled) {
					t.Error(last)
				}
			},
		} {
			for n := range 2 {
				end(ctx, n)
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(name, n, err)
				}
				for len(begun) > 0 {
					<-begun
				}
			}
		}
	})
}

// TestReturned: yield is false once the producer has returned, and its ctx has ended.
func TestReturned(t *testing.T) {
	late := make(chan func(string) bool, 1)
	with(t, func(ctx context.Context, n int, yield func(string) bool) error {
		late <- yield
		return count(ctx, n, yield)
	}, func(ctx context.Context, g generator.Generator[int, string]) {
		got, err := collect(ctx, g.Go(ctx, 3))
		if err != nil || (<-late)("late") {
			t.Error(err)
		}
		same(t, got, texts(3))
	})
}

// TestAnotherAll: a stream has one loop, and another one does not end it.
func TestAnotherAll(t *testing.T) {
	with(t, count, func(ctx context.Context, g generator.Generator[int, string]) {
		s := g.Go(ctx, 3000)
		for v, err := range s.All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if v == "1500" {
				if got, err := collect(ctx, s); len(got) > 0 || !errors.Is(err, raysys.ErrBadOption) {
					t.Error(got, err)
				}
			}
		}
		if got, err := collect(ctx, s); len(got) > 0 || !errors.Is(err, raysys.ErrBadOption) {
			t.Error(got, err)
		}
	})
}

// TestHour: an hour for an item is fine, on either side and on both, and an item waits for no other.
func TestHour(t *testing.T) {
	sleep := func(ctx context.Context, d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	table := raysys.NewTable()
	g := generator.DefineIn(table, "slow", func(ctx context.Context, pause time.Duration, yield func(int) bool) error {
		for i := range 3 {
			if sleep(ctx, pause); !yield(i) {
				return errors.New("yield is false")
			}
		}
		return nil
	})
	for _, c := range []struct {
		producer, reader time.Duration
		opts             []testkit.Option
	}{
		{time.Hour, 0, nil},
		{0, time.Hour, nil},
		{time.Millisecond, time.Hour, nil},
		{time.Hour, 3 * time.Hour, nil},
		{8 * time.Minute, 0, []testkit.Option{testkit.Nodes(1)}}, // on a cluster an hour takes ten seconds; no limit is between them
		{0, 8 * time.Minute, []testkit.Option{testkit.Nodes(1)}},
	} {
		testkit.Virtual(t, func(k *testkit.Kit) {
			ctx, next := k.Context(), 0
			if c.opts != nil {
				k.Cluster().Ready()
			}
			began := time.Now()
			for v, err := range g.Go(ctx, c.producer).All(ctx) {
				if err != nil || v != next {
					t.Fatal(c.producer, c.reader, v, err)
				}
				if took := time.Since(began); v == 0 && took > c.producer+time.Second { // virtual time
					t.Error(c.producer, c.reader, "the first item takes", took)
				}
				next++
				sleep(ctx, c.reader)
			}
			if next != 3 {
				t.Error(c.producer, c.reader, next, "items")
			}
		}, append(c.opts, testkit.Table(table))...)
	}
}

// TestWaits: however many items there are, a producer is no more than three chunks ahead of a reader: two that are unread, and one that it fills. While it waits another task has its CPU.
// In the long form the heap does not grow with them.
func TestWaits(t *testing.T) {
	n := long.Form(50_000, 1_000_000)
	var made atomic.Int64
	table := raysys.NewTable()
	g := generator.DefineIn(table, "numbers", func(_ context.Context, n int, yield func(int) bool) error {
		for i := range n {
			made.Add(1)
			if !yield(i) {
				return errors.New("yield is false")
			}
		}
		return nil
	})
	one := tasks.DefineIn(table, "one", func(context.Context, int) (int, error) { return 1, nil })
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, read := k.Context(), int64(0)
		most, first := int64(0), uint64(0)
		for v, err := range g.Go(ctx, n).All(ctx) {
			if err != nil || int64(v) != read {
				t.Fatal(v, err)
			}
			if read%5000 == 0 {
				k.Advance(time.Second)
				most = max(most, made.Load()-read)
				if _, err := one.Go(ctx, 1).Get(ctx); err != nil {
					t.Error(err)
				}
			}
			if read++; read%100_000 == 0 { // in the long form
				var m runtime.MemStats
				runtime.GC()
				if runtime.ReadMemStats(&m); first == 0 {
					first = m.HeapAlloc
				} else if m.HeapAlloc > first+16<<20 {
					t.Errorf("after %d items the heap has %d bytes, after the first %d", read, m.HeapAlloc, first)
				}
			}
		}
		if read != int64(n) || most > 4*items.MaxItems || most < 2*items.MaxItems {
			t.Errorf("%d items of %d; the producer was %d ahead", read, n, most)
		}
	}, testkit.Table(table), testkit.CPU(1), testkit.Loose()) // in strict mode the Kit holds what it watches
}

// TestWayBreaks: a connection that breaks again and again, with which the attempt that runs on the other side is lost, loses no item, and none
// comes twice.
func TestWayBreaks(t *testing.T) {
	on(t, count, func(k *testkit.Kit, ctx context.Context, g generator.Generator[int, string]) {
		for i := 1; i <= 3; i++ {
			k.Cluster().Delay(0, i, 5*time.Millisecond, 5*time.Millisecond)
		}
		var got []string
		for v, err := range g.With(raysys.Retries(20)).Go(ctx, 30_000).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, v); len(got)%3000 == 0 {
				for i := 1; i <= 3; i++ {
					k.Cluster().Reset(0, i)
				}
			}
		}
		same(t, got, texts(30_000))
	})
}

// TestKilled: the producer's node dies, or drains.
func TestKilled(t *testing.T) {
	for name, c := range map[string]struct {
		retries int
		want    error
	}{"Retries(0)": {0, raysys.ErrNodeDead}, "Retries(1)": {1, nil}} {
		t.Run(name, func(t *testing.T) {
			var at atomic.Value
			on(t, func(ctx context.Context, n int, yield func(string) bool) error {
				at.Store(system.NodeOf(ctx).Name())
				return count(ctx, n, yield)
			}, func(k *testkit.Kit, ctx context.Context, g generator.Generator[int, string]) {
				var got []string
				var last error
				for v, err := range g.With(raysys.Retries(c.retries)).Go(ctx, 10_000).All(ctx) {
					if last = err; err != nil {
						break
					}
					if got = append(got, v); len(got) == 3500 {
						k.Cluster().Kill(number(k, at.Load().(raysys.NodeID)))
					}
				}
				if !errors.Is(last, c.want) {
					t.Error(last)
				}
				if c.want == nil {
					same(t, got, texts(10_000))
				} else {
					same(t, got, texts(len(got)))
				}
			})
		})
	}
}

// number is that of a node.
func number(k *testkit.Kit, id raysys.NodeID) int {
	for i := 1; i <= 3; i++ {
		if k.Cluster().Name(i) == id {
			return i
		}
	}
	k.T().Fatal("no node is ", id)
	return 0
}

// TestReaderDies: the node of the reader dies, while its task runs on another one.
func TestReaderDies(t *testing.T) {
	ended := make(chan error, 1)
	on(t, func(ctx context.Context, _ int, yield func(string) bool) error {
		for yield("a") {
		}
		ended <- ctx.Err()
		return nil
	}, func(k *testkit.Kit, ctx context.Context, g generator.Generator[int, string]) {
		dies := k.Cluster().Node(1).Context(context.Background())
		s := g.With(raysys.OnNode(k.Cluster().Name(2))).Go(dies, 0)
		read := make(chan bool)
		go func() {
			for range s.All(dies) {
				select {
				case read <- true:
				case <-dies.Done():
				}
			}
		}()
		<-read
		k.Cluster().Kill(1)
		k.Advance(time.Minute)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		k.Advance(5 * time.Minute)
		list, err := k.Node().Grains(ctx, inspect.GrainQuery{Kind: "texts.items"})
		if err != nil || len(list.Grains) != 0 {
			t.Error("left behind:", list.Grains, err)
		}
	})
}

// TestBadDefinitions: what cannot be meant is said at the start, and what a call cannot mean by its loop.
func TestBadDefinitions(t *testing.T) {
	for want, define := range map[string]func(*raysys.Table){
		"the function is nil": func(t *raysys.Table) { generator.DefineIn[int, int](t, "g", nil) },
		"has references": func(t *raysys.Table) {
			generator.DefineIn(t, "g", func(context.Context, int, func(raysys.Ref[int]) bool) error { return nil })
		},
		"func()": func(t *raysys.Table) {
			generator.DefineIn(t, "g", func(context.Context, int, func(func()) bool) error { return nil })
		},
	} {
		table := raysys.NewTable()
		define(table)
		if _, err := system.New(system.Config{Table: table}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "generator_test.go") {
			t.Errorf("%s: %v", want, err)
		}
	}
	with(t, count, func(ctx context.Context, g generator.Generator[int, string]) {
		if _, err := collect(ctx, g.With(raysys.Detached()).Go(ctx, 1)); !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), "reader") {
			t.Error(err)
		}
		if _, err := collect(ctx, g.With(raysys.Retries(-1)).Go(ctx, 1)); !errors.Is(err, raysys.ErrBadOption) {
			t.Error(err)
		}
		if _, err := collect(ctx, g.Go(context.Background(), 1)); !errors.Is(err, raysys.ErrNoRuntime) {
			t.Error(err)
		}
		if _, err := collect(context.Background(), g.Go(ctx, 1)); !errors.Is(err, raysys.ErrNoRuntime) {
			t.Error(err)
		}
	})
}
