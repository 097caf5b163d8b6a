package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/queue"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// with runs f with a queue of texts on one node.
func with(t *testing.T, f func(ctx context.Context, q queue.Queue[string]), opts ...queue.Option) {
	t.Helper()
	table := raysys.NewTable()
	kind := queue.DefineIn[string](table, "jobs", opts...)
	f(testkit.New(t, testkit.Table(table)).Context(), kind.Get("a"))
}

// on runs f with a queue of texts on three nodes, in virtual time.
func on(t *testing.T, f func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]), opts ...queue.Option) {
	t.Helper()
	table := raysys.NewTable()
	kind := queue.DefineIn[string](table, "jobs", opts...)
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		f(k, k.Context(), kind.Get("a"))
	}, testkit.Table(table), testkit.Nodes(3))
}

func texts(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

// TestOrder: items leave in their order, however many a call has.
func TestOrder(t *testing.T) {
	with(t, func(ctx context.Context, q queue.Queue[string]) {
		want := texts(0, 5000)
		if err := errors.Join(q.Put(ctx, want[:3]...), q.Put(ctx), q.Put(ctx, want[3]), q.Put(ctx, want[4:]...)); err != nil {
			t.Fatal(err)
		}
		if n, err := q.Len(ctx); n != len(want) || err != nil {
			t.Error(n, err)
		}
		var got []string
		for _, n := range []int{1, 2, 100, 1000, 10_000} {
			list, err := q.TakeUpTo(ctx, n)
			if err != nil || len(list) != min(n, 1024) {
				t.Error(n, len(list), err)
			}
			got = append(got, list...)
		}
		v, err := q.Take(ctx)
		if err != nil {
			t.Error(err)
		}
		got = append(got, v)
		if err := q.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for v, err := range q.All(ctx) {
			if err != nil {
				t.Error(err)
			}
			got = append(got, v)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d items of %d, or in another order", len(got), len(want))
		}
		if _, err := q.Take(ctx); !errors.Is(err, queue.ErrClosed) {
			t.Error(err)
		}
		if err := q.Put(ctx, "late"); !errors.Is(err, queue.ErrClosed) {
			t.Error(err)
		}
	}, queue.Size(10_000))
}

// TestWaits: a Put waits for room, a Take for an item, both as long as their ctx, and Close ends them.
func TestWaits(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
		ended := make(chan error, 2)
		go func() { ended <- q.Put(ctx, "a", "b", "c") }() // one batch of two, and one that waits
		k.Advance(time.Hour)
		if n, err := q.Len(ctx); n != 2 || err != nil {
			t.Error(n, err)
		}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := q.Put(short, "d"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for _, want := range []string{"a", "b", "c"} {
			if v, err := q.Take(ctx); v != want || err != nil {
				t.Error(v, err)
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		go func() { _, err := q.Take(ctx); ended <- err }()
		k.Advance(time.Hour)
		if err := q.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, queue.ErrClosed) {
			t.Error(err)
		}
	}, queue.Size(2))
}

// TestCloseEndsPuts: what is in stays, and what waits for room fails.
func TestCloseEndsPuts(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
		ended := make(chan error, 1)
		go func() { ended <- q.Put(ctx, "a", "b") }()
		k.Advance(time.Second)
		if err := q.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, queue.ErrClosed) || !strings.Contains(err.Error(), "1 are in") {
			t.Error(err)
		}
		if v, err := q.Take(ctx); v != "a" || err != nil {
			t.Error(v, err)
		}
	}, queue.Size(1))
}

// TestGivenUp: a Take that ends early takes nothing, whatever moment that is.
func TestGivenUp(t *testing.T) {
	const n = 100
	with(t, func(ctx context.Context, q queue.Queue[string]) {
		var all sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]int{}
		for w := range 2 {
			all.Go(func() {
				for i := 0; ; i++ {
					patience := time.Duration(1+(i*37+w*11)%60) * 10 * time.Microsecond
					if i%4 == 3 {
						patience = time.Hour // so that the test goes on, however slow the machine is
					}
					short, cancel := context.WithTimeout(ctx, patience)
					v, err := q.Take(short)
					cancel()
					switch {
					case err == nil:
						mu.Lock()
						seen[v]++
						mu.Unlock()
					case errors.Is(err, queue.ErrClosed):
						return
					case short.Err() == nil:
						t.Error(err)
						return
					}
				}
			})
		}
		for _, v := range texts(0, n) {
			if err := q.Put(ctx, v); err != nil {
				t.Error(err)
			}
		}
		testkit.Eventually(t, 20*time.Second, "all items are taken", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(seen) == n
		})
		if err := q.Close(ctx); err != nil {
			t.Error(err)
		}
		all.Wait()
		for v, times := range seen {
			if times != 1 {
				t.Errorf("%s was taken %d times", v, times)
			}
		}
	}, queue.Size(8))
}

// TestGivenUpLate: what a Take gets as it is given up goes back, and a Put that is given up lets those behind it go on.
func TestGivenUpLate(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
		if err := q.Put(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 2)
		short, cancel := context.WithCancel(ctx)
		go func() { ended <- q.Put(short, "b", "c") }()
		k.Advance(time.Second)
		go func() { ended <- q.Put(ctx, "d") }()
		k.Advance(time.Second)
		cancel()
		if err := errors.Join(<-ended, <-ended); !errors.Is(err, raysys.ErrCancelled) {
			t.Error(err)
		}
		list, err := q.TakeUpTo(ctx, 3)
		if err != nil || !slices.Equal(list, []string{"a", "d"}) {
			t.Error(list, err)
		}
		at := home(k, q)
		beside := k.Cluster().Node(at).Context(context.Background())
		short, cancel = context.WithCancel(ctx)
		go func() { _, err := q.Take(short); ended <- err }()
		k.Advance(time.Second)
		k.Cluster().Delay(0, at, time.Second, 0)
		if err := q.Put(beside, "e"); err != nil {
			t.Error(err)
		}
		k.Advance(500 * time.Millisecond) // the answer is under way
		cancel()
		if err := <-ended; !errors.Is(err, raysys.ErrCancelled) {
			t.Error(err)
		}
		if v, err := q.Take(beside); v != "e" || err != nil {
			t.Error(v, err)
		}
	}, queue.Size(2))
}

// TestLoopEnds: what All has taken and the loop has not seen goes back to the front, also where the loop panics.
func TestLoopEnds(t *testing.T) {
	with(t, func(ctx context.Context, q queue.Queue[string]) {
		want := texts(0, 100)
		if err := q.Put(ctx, want...); err != nil {
			t.Fatal(err)
		}
		var got []string
		loop := func(n int, last func()) {
			for v, err := range q.All(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, v); len(got) == n {
					last()
					break
				}
			}
		}
		loop(20, func() {})
		func() {
			defer func() { _ = recover() }()
			loop(50, func() { panic("the loop's") })
		}()
		loop(100, func() {})
		if !slices.Equal(got, want) {
			t.Error(got)
		}
	})
}

// TestOverloaded: half of Mailbox waits, and the others go in.
func TestOverloaded(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
		took := make(chan error, 10)
		for range 10 {
			go func() { _, err := q.Take(ctx); took <- err }()
		}
		for range 5 {
			if err := <-took; !errors.Is(err, raysys.ErrOverloaded) || !strings.Contains(err.Error(), "5 consumers") {
				t.Error(err)
			}
		}
		if err := q.Put(ctx, texts(0, 4)...); err != nil {
			t.Error(err)
		}
		if err := q.Close(ctx); err != nil {
			t.Error(err)
		}
		closed := 0
		for range 5 {
			if err := <-took; errors.Is(err, queue.ErrClosed) {
				closed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if closed != 1 {
			t.Error(closed, "consumers found it closed")
		}
	}, queue.Mailbox(10))
}

// TestWayBreaks: puts and takes whose connection breaks while they wait, or while their answer is under way, count once, and in order.
func TestWayBreaks(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
		want := texts(0, 60)
		ended := make(chan error, 1)
		go func() {
			for _, v := range want {
				if err := q.Put(ctx, v); err != nil {
					ended <- err
					return
				}
			}
			ended <- q.Close(ctx)
		}()
		for i := 1; i <= 3; i++ {
			k.Cluster().Delay(0, i, 5*time.Millisecond, 5*time.Millisecond)
		}
		var got []string
		for v, err := range q.All(k.Cluster().Node(1).Context(context.Background())) { // at another node
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, v); len(got)%7 == 0 {
				for i := 1; i <= 3; i++ {
					k.Cluster().Reset(0, i)
					k.Cluster().Reset(1, i)
				}
			}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	}, queue.Size(2))
}

// home is the node that has the queue.
func home(k *testkit.Kit, q queue.Queue[string]) int {
	list, err := k.Node().Grains(k.Context(), inspect.GrainQuery{Kind: "jobs"})
	if err == nil && len(list.Grains) == 1 {
		for i := 1; i <= 3; i++ {
			if k.Cluster().Name(i) == list.Grains[0].Node {
				return i
			}
		}
	}
	k.T().Fatal("no node has ", q, list, err)
	return 0
}

// TestKilled: a consumer that waits goes on where the queue begins anew, and one that dies, or a producer that does, holds up nobody.
func TestKilled(t *testing.T) {
	for _, drains := range []bool{false, true} {
		t.Run(fmt.Sprint("drains=", drains), func(t *testing.T) {
			on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
				took := make(chan string, 1)
				go func() {
					v, err := q.Take(ctx)
					took <- fmt.Sprint(v, err)
				}()
				k.Advance(time.Second)
				if at := home(k, q); drains {
					k.Cluster().Drain(at)
				} else {
					k.Cluster().Kill(at)
				}
				k.Advance(time.Minute)
				if err := q.Put(ctx, "a"); err != nil {
					t.Error(err)
				}
				if v := <-took; v != "a<nil>" {
					t.Error(v)
				}
			})
		})
	}
	t.Run("consumer", func(t *testing.T) {
		on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
			if _, err := q.Len(ctx); err != nil {
				t.Error(err)
			}
			dies := home(k, q)%3 + 1
			go func() { _, _ = q.Take(k.Cluster().Node(dies).Context(context.Background())) }()
			k.Advance(time.Second)
			k.Cluster().Kill(dies)
			k.Advance(time.Minute)
			if err := q.Put(ctx, "a"); err != nil {
				t.Error(err)
			}
			if v, err := q.Take(ctx); v != "a" || err != nil {
				t.Error(v, err)
			}
		})
	})
	t.Run("producer", func(t *testing.T) {
		on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
			if err := q.Put(ctx, "a"); err != nil {
				t.Error(err)
			}
			dies := home(k, q)%3 + 1
			far := k.Cluster().Node(dies).Context(context.Background())
			go func() { _ = q.Put(far, "b", "c") }()
			k.Advance(time.Second)
			k.Cluster().Kill(dies)
			k.Advance(time.Minute)
			go func() { _ = q.Put(ctx, "d", "e") }()
			k.Advance(time.Second)
			if list, err := q.TakeUpTo(ctx, 10); err != nil || !slices.Equal(list, []string{"a"}) {
				t.Error(list, err)
			}
			if list, err := q.TakeUpTo(ctx, 10); err != nil || !slices.Equal(list, []string{"d", "e"}) {
				t.Error(list, err)
			}
		}, queue.Size(2))
	})
}

// TestBadDefinitions: what cannot be meant is said at the start, and what a call cannot mean by the call.
func TestBadDefinitions(t *testing.T) {
	for want, define := range map[string]func(*raysys.Table){
		"queue.Size(-1)":   func(t *raysys.Table) { queue.DefineIn[int](t, "q", queue.Size(-1)) },
		"queue.Bytes(0)":   func(t *raysys.Table) { queue.DefineIn[int](t, "q", queue.Bytes(0)) },
		"queue.Mailbox(1)": func(t *raysys.Table) { queue.DefineIn[int](t, "q", queue.Mailbox(1)) },
		"nil Option":       func(t *raysys.Table) { queue.DefineIn[int](t, "q", nil) },
		"has references":   func(t *raysys.Table) { queue.DefineIn[raysys.Ref[int]](t, "q") },
		"func()":           func(t *raysys.Table) { queue.DefineIn[func()](t, "q") },
	} {
		table := raysys.NewTable()
		define(table)
		if _, err := system.New(system.Config{Table: table}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "queue_test.go") {
			t.Errorf("%s: %v", want, err)
		}
	}
	with(t, func(ctx context.Context, q queue.Queue[string]) {
		if _, err := q.TakeUpTo(ctx, -1); !errors.Is(err, raysys.ErrBadOption) {
			t.Error(err)
		}
		if err := q.Put(context.Background(), "a"); !errors.Is(err, raysys.ErrNoRuntime) {
			t.Error(err)
		}
	})
}

// TestSlowConsumer: however many items a producer has for a slow consumer, the queue holds as many as its size. In the long form the heap does not
// grow with them.
func TestSlowConsumer(t *testing.T) {
	n := long.Form(50_000, 1_000_000)
	table := raysys.NewTable()
	q := queue.DefineIn[string](table, "jobs", queue.Size(2000)).Get("a")
	ctx := testkit.New(t, testkit.Table(table), testkit.Loose()).Context() // in strict mode the Kit holds what it watches
	ended := make(chan error, 1)
	go func() {
		for i := 0; i < n; i += 500 {
			if err := q.Put(ctx, texts(i, i+500)...); err != nil {
				ended <- err
				return
			}
		}
		ended <- q.Close(ctx)
	}()
	next, first := 0, uint64(0)
	for v, err := range q.All(ctx) {
		if err != nil || v != fmt.Sprint(next) {
			t.Fatal(next, v, err)
		}
		if next++; next%5000 != 0 {
			continue
		}
		if held, err := q.Len(ctx); held > 2000 || err != nil {
			t.Error(held, "items are held", err)
		}
		if next%100_000 == 0 { // in the long form
			var m runtime.MemStats
			runtime.GC()
			if runtime.ReadMemStats(&m); first == 0 {
				first = m.HeapAlloc
			} else if m.HeapAlloc > first+16<<20 {
				t.Errorf("after %d items the heap has %d bytes, after the first %d", next, m.HeapAlloc, first)
			}
		}
	}
	if err := <-ended; err != nil || next != n {
		t.Error(next, err)
	}
}

// TestBytes: a queue has as many bytes of items as it may, and an item that is larger alone.
func TestBytes(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
		small, large := strings.Repeat("s", 400), strings.Repeat("l", 5000)
		ended := make(chan error, 2)
		steps := func(want int) {
			t.Helper()
			k.Advance(time.Minute)
			if n, err := q.Len(ctx); n != want || err != nil {
				t.Errorf("%d items, want %d, %v", n, want, err)
			}
		}
		take := func(want string) {
			t.Helper()
			if v, err := q.Take(ctx); v != want || err != nil {
				t.Error(len(v), "bytes", err)
			}
		}
		go func() { ended <- q.Put(ctx, small, small, small, large, small) }()
		steps(2)
		take(small)
		steps(2)
		take(small)
		steps(1)
		take(small) // the large one goes in now
		steps(1)
		if v, err := q.TakeUpTo(ctx, 10); len(v) != 1 || v[0] != large || err != nil {
			t.Error(len(v), err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		take(small)
	}, queue.Bytes(1000))
}

// TestProducersHoldTheirItems: of producers with more bytes than may wait each gets its items in, in its order.
func TestProducersHoldTheirItems(t *testing.T) {
	const producers, each = 20, 10
	on(t, func(k *testkit.Kit, ctx context.Context, q queue.Queue[string]) {
		var all sync.WaitGroup
		for p := range producers {
			from := k.Cluster().Node(p%3 + 1).Context(context.Background())
			all.Go(func() {
				for i := range each {
					if err := q.Put(from, fmt.Sprintf("%d %d %s", p, i, strings.Repeat("x", 600))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		go func() {
			all.Wait()
			_ = q.Close(ctx)
		}()
		next, n := map[int]int{}, 0
		for v, err := range q.All(ctx) {
			var p, i int
			if _, scanned := fmt.Sscan(v, &p, &i); err != nil || scanned != nil || next[p] != i {
				t.Fatal(p, i, next[p], err, scanned)
			}
			next[p]++
			n++
		}
		if n != producers*each {
			t.Error(n, "items came")
		}
	}, queue.Bytes(1000))
}
