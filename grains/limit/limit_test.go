package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/limit"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// book is what holders write: they run in the process of the test.
type book struct {
	mu    sync.Mutex
	held  map[string]int // units, by key
	most  map[string]int
	order []string
	taken int
	errs  []error
}

func (b *book) hold(key string, units int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[key] += units
	b.most[key] = max(b.most[key], b.held[key])
	if units > 0 {
		b.taken++
	}
}

func (b *book) write(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order = append(b.order, what)
}

func (b *book) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errs = append(b.errs, err)
}

func (b *book) holds(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[key]
}

func (b *book) written() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.order)
}

var books sync.Map // name -> *book

func newBook(t testing.TB) (name string, b *book) {
	b = &book{held: map[string]int{}, most: map[string]int{}}
	books.Store(t.Name(), b)
	t.Cleanup(func() { books.Delete(t.Name()) })
	return t.Name(), b
}

// job is work under a limit.
type job struct {
	Book, Limit, Key string
	N, Units         int
	For              time.Duration
	Keep             bool // it gives nothing back
}

// work takes units, and has them for a time, or as long as its permit lives.
var work = tasks.Define("limit_test.work", func(ctx context.Context, j job) (string, error) {
	v, ok := books.Load(j.Book)
	if !ok {
		return "", errors.New("the test is over")
	}
	b := v.(*book)
	p, err := limit.Take(ctx, limit.AtMost(j.Limit, j.N), j.Key, j.Units)
	if err != nil {
		return "", err
	}
	b.hold(j.Key, j.Units)
	select {
	case <-time.After(j.For):
	case <-p.Context().Done():
		err = context.Cause(p.Context())
	}
	b.hold(j.Key, -j.Units)
	if !j.Keep {
		p.Release()
	}
	return "done", err
})

type taker struct{}

var (
	takers = grains.Define[taker]("limit_test.taker")
	takes  = grains.Action0(takers, "takes", func(_ *taker, ctx context.Context) error { // and gives nothing back
		_, err := limit.Take(ctx, limit.AtMost("ends", 2), "", 2, limit.Try())
		return err
	})
)

func on(t *testing.T, f func(k *testkit.Kit, ctx context.Context), opts ...testkit.Option) {
	t.Helper()
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Ready()
		f(k, k.Context())
	}, append([]testkit.Option{testkit.Nodes(3)}, opts...)...)
}

func take(
	k *testkit.Kit, ctx context.Context, l limit.Limit, key string, units int, opts ...limit.Option,
) *limit.Permit {
	k.T().Helper()
	p, err := limit.Take(ctx, l, key, units, opts...)
	if err != nil {
		k.T().Fatal(err)
	}
	return p
}

func busy(k *testkit.Kit, ctx context.Context, l limit.Limit, key string, units int) {
	k.T().Helper()
	if _, err := limit.Take(ctx, l, key, units, limit.Try()); !errors.Is(err, limit.ErrBusy) {
		k.T().Errorf("take %d of %v: %v", units, l, err)
	}
}

// gateOf is the node of a gate.
func gateOf(k *testkit.Kit, ctx context.Context, kind string) int {
	k.T().Helper()
	list, err := k.Node().Grains(ctx, inspect.GrainQuery{Kind: kind})
	if err == nil && len(list.Grains) == 1 {
		for i := 1; i < k.Cluster().Size()+1; i++ {
			if k.Cluster().Name(i) == list.Grains[0].Node {
				return i
			}
		}
	}
	k.T().Fatal("the gate is nowhere: ", list, err)
	return 0
}

// TestAtMost: units are held once; Release gives them back to who takes them next, at once.
func TestAtMost(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context) {
		l := limit.AtMost("a/b", 3)
		one, two := take(k, ctx, l, "c", 1), take(k, ctx, l, "c", 2)
		busy(k, ctx, l, "c", 1)
		take(k, ctx, limit.AtMost("a", 3), "b/c", 3)
		take(k, ctx, limit.AtMost("a%2Fb", 3), "c", 3)
		take(k, ctx, limit.Rate("a/b", 3, time.Second), "c", 3)
		two.Release()
		two.Release()
		if two.Context().Err() == nil || one.Context().Err() != nil {
			t.Error(two.Context().Err(), one.Context().Err())
		}
		for range 100 {
			take(k, ctx, l, "c", 2, limit.Try()).Release()
		}
		busy(k, ctx, l, "c", 3)
	})
}

// TestEnds: a permit ends with the task, the grain's turn or the driver that took it.
func TestEnds(t *testing.T) {
	name, b := newBook(t)
	on(t, func(k *testkit.Kit, ctx context.Context) {
		l := limit.AtMost("ends", 2)
		if _, err := work.Go(ctx, job{Book: name, Limit: "ends", N: 2, Units: 2, Keep: true}).Get(ctx); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Second)
		mine, cancel := context.WithCancel(ctx)
		p := take(k, mine, l, "", 2, limit.Try())
		cancel()
		k.Advance(time.Second)
		if p.Context().Err() == nil {
			t.Error("the permit outlives its context")
		}
		take(k, ctx, l, "", 2, limit.Try()).Release()
		k.Advance(time.Second)
		if _, err := takes.Call(ctx, takers.Get("")).Get(ctx); err != nil {
			t.Error(err)
		}
		k.Advance(time.Second)
		take(k, ctx, l, "", 2, limit.Try()).Release()
		// One that is cancelled while it holds, and one while it waits.
		ref := work.Go(ctx, job{Book: name, Limit: "ends", N: 2, Units: 2, For: time.Hour})
		k.Advance(time.Second)
		second := work.Go(ctx, job{Book: name, Limit: "ends", N: 2, Units: 2, For: time.Hour})
		k.Advance(time.Second)
		if n := b.holds(""); n != 2 {
			t.Errorf("%d units are held", n)
		}
		second.Cancel()
		ref.Cancel()
		k.Advance(time.Second)
		take(k, ctx, l, "", 2, limit.Try()).Release()
	})
}

// waiters makes Takes one after the other, each of which writes its name when it is granted, and gives its units back.
type waiter struct {
	name, tenant string
	units        int
}

func wait(k *testkit.Kit, ctx context.Context, b *book, l limit.Limit, list ...waiter) *sync.WaitGroup {
	var done sync.WaitGroup
	for i, w := range list {
		ctx := raysys.Branch(ctx, i+1)
		done.Go(func() {
			p, err := limit.Take(ctx, l, "", w.units, limit.For(w.tenant))
			if err != nil {
				b.fail(err)
				return
			}
			b.write(w.name)
			p.Release()
		})
		k.Advance(time.Millisecond)
	}
	return &done
}

// TestOrder: of a tenant the first that came is the first that is granted, also before a smaller one, and tenants
// that wait get theirs in turn.
func TestOrder(t *testing.T) {
	_, b := newBook(t)
	on(t, func(k *testkit.Kit, ctx context.Context) {
		l := limit.AtMost("order", 2)
		p := take(k, ctx, l, "", 1)
		done := wait(k, ctx, b, l, waiter{"a1", "a", 2}, waiter{"a2", "a", 1}, waiter{"a3", "a", 2},
			waiter{"b1", "b", 2}, waiter{"b2", "b", 2}, waiter{"c1", "", 2}, waiter{"a4", "a", 2})
		if got := b.written(); len(got) > 0 {
			t.Error(got, "did not wait")
		}
		p.Release()
		done.Wait()
		want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}
		if got := b.written(); !slices.Equal(got, want) || b.errs != nil {
			t.Error(got, b.errs)
		}
	})
}

// TestGivenUp: a call that waits and ends lets those behind it go on.
func TestGivenUp(t *testing.T) {
	_, b := newBook(t)
	for _, l := range []limit.Limit{limit.AtMost("given", 2), limit.Rate("given", 2, 2*time.Hour)} {
		b.order = nil
		on(t, func(k *testkit.Kit, ctx context.Context) {
			take(k, ctx, l, "", 1)
			short, cancel := context.WithCancel(ctx)
			first := wait(k, short, b, l, waiter{"first", "", 2})
			second := wait(k, raysys.Branch(ctx, 7), b, l, waiter{"second", "", 1})
			k.Advance(time.Minute)
			if got := b.written(); len(got) > 0 {
				t.Error(l, got, "did not wait")
			}
			cancel()
			first.Wait()
			k.Advance(time.Second)
			if got := b.written(); len(got) != 1 {
				t.Error(l, got, "waits for who has gone")
			}
			second.Wait()
			if got := b.written(); !slices.Equal(got, []string{"second"}) || len(b.errs) != 1 ||
				!errors.Is(b.errs[0], raysys.ErrCancelled) {
				t.Error(l, got, b.errs)
			}
			b.errs = nil
		})
	}
}

// TestRate: n units at once, and then one each n-th part of the time.
func TestRate(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context) {
		l := limit.Rate("rate", 10, time.Second)
		for range 3 {
			take(k, ctx, l, "x", 3, limit.Try()).Release()
		}
		busy(k, ctx, l, "x", 2)
		take(k, ctx, l, "x", 1, limit.Try())
		take(k, ctx, l, "y", 10, limit.Try())
		began := time.Now()
		for i := 1; i <= 20; i++ {
			take(k, ctx, l, "x", 1)
			d, want := time.Since(began), time.Duration(i)*100*time.Millisecond
			if d < want || d > want+20*time.Millisecond {
				t.Fatalf("unit %d came after %v", i, d)
			}
		}
		k.Advance(5 * time.Minute)
		take(k, ctx, l, "x", 10, limit.Try())
		busy(k, ctx, l, "x", 1)
	})
}

// TestEndedEmpty: a gate that is idle leaves no State behind, and the next one grants at once. One that ended with
// permits waits for them.
func TestEndedEmpty(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context) {
		rate := limit.Rate("empty", 2, 20*time.Minute)
		for _, l := range []limit.Limit{limit.AtMost("empty", 2), rate} {
			take(k, ctx, l, "", 2).Release()
		}
		k.Advance(17 * time.Minute)
		if list, err := k.Node().Grains(ctx, inspect.GrainQuery{Kind: "limit"}); err != nil || len(list.Grains) > 0 {
			t.Error(list, err)
		}
		take(k, ctx, rate, "", 1, limit.Try()) // it knows when the units are back
		busy(k, ctx, rate, "", 1)
		l := limit.AtMost("empty", 2)
		p := take(k, ctx, l, "", 2, limit.Try())
		for i := range 3 {
			k.Cluster().Drain(i + 1)
			k.Cluster().Restart(i + 1)
			k.Cluster().Ready()
			busy(k, ctx, l, "", 1)
		}
		p.Release()
		busy(k, ctx, l, "", 1) // it waits its time
		k.Advance(3 * time.Second)
		take(k, ctx, l, "", 2, limit.Try())
	})
}

// TestNewGate: the gate after one that died or drained knows who holds permits, and whom it has to let wait.
func TestNewGate(t *testing.T) {
	for _, end := range []func(c *testkit.Cluster, i int){(*testkit.Cluster).Kill, (*testkit.Cluster).Drain} {
		_, b := newBook(t)
		on(t, func(k *testkit.Kit, ctx context.Context) {
			l := limit.AtMost("new", 3)
			p := take(k, ctx, l, "", 2)
			done := wait(k, ctx, b, l, waiter{"next", "", 3})
			end(k.Cluster(), gateOf(k, ctx, "limit"))
			k.Advance(time.Minute)
			busy(k, ctx, l, "", 1)
			if got := b.written(); len(got) > 0 || p.Context().Err() != nil {
				t.Error(got, p.Context().Err())
			}
			p.Release()
			done.Wait()
			k.Advance(time.Second)
			take(k, ctx, l, "", 3, limit.Try())
		})
	}
}

// TestConnections: a connection that breaks ends no permit, and gives no units back.
func TestConnections(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context) {
		l := limit.AtMost("broken", 1)
		p := take(k, ctx, l, "", 1)
		gate := gateOf(k, ctx, "limit")
		for range 40 {
			k.Cluster().Reset(0, gate)
			k.Advance(500 * time.Millisecond)
			busy(k, ctx, l, "", 1)
			k.Advance(5 * time.Second)
		}
		busy(k, ctx, l, "", 1)
		if err := p.Context().Err(); err != nil {
			t.Error(context.Cause(p.Context()))
		}
		p.Release()
		take(k, ctx, l, "", 1, limit.Try())
	})
}

// TestHolderDies: the units of a node that dies come back.
func TestHolderDies(t *testing.T) {
	name, b := newBook(t)
	on(t, func(k *testkit.Kit, ctx context.Context) {
		l := limit.AtMost("dies", 2)
		one := take(k, ctx, l, "", 1)
		gate := gateOf(k, ctx, "limit")
		holder := gate%3 + 1
		at := raysys.OnNode(k.Cluster().Name(holder))
		ref := work.With(at, raysys.Retries(0)).Go(ctx, job{Book: name, Limit: "dies", N: 2, Units: 1, For: time.Hour})
		k.Advance(time.Second)
		if b.holds("") != 1 {
			t.Fatal("the task holds nothing")
		}
		busy(k, ctx, l, "", 1)
		k.Cluster().Kill(holder)
		if _, err := ref.Get(ctx); err == nil {
			t.Error("the task has not ended")
		}
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		take(k, soon, l, "", 1)
		one.Release()
	})
}

// TestPlan: whatever dies, leaves or loses its connections, no more units are held than there are, and in the end all
// are free.
func TestPlan(t *testing.T) {
	name, b := newBook(t)
	on(t, func(k *testkit.Kit, ctx context.Context) {
		const keys, n = 4, 3
		plan := testkit.DrawPlan(k.Seed(), 3, 10*time.Second, 10*time.Minute,
			testkit.FaultKill, testkit.FaultDrain, testkit.FaultReset, testkit.FaultDelay)
		draw := k.Rand()
		var refs []raysys.Ref[string]
		var begin sync.WaitGroup
		for i := range 400 {
			j := job{
				Book: name, Limit: "plan", Key: fmt.Sprint(draw.IntN(keys)), N: n, Units: 1 + draw.IntN(n),
				For: time.Duration(draw.IntN(10_000)) * time.Millisecond, Keep: draw.IntN(4) == 0,
			}
			at := time.Duration(draw.IntN(600)) * time.Second
			begin.Go(func() {
				<-time.After(at)
				ref := work.With(raysys.CPU(0), raysys.Retries(100)).Go(raysys.Branch(ctx, i), j)
				b.mu.Lock()
				refs = append(refs, ref)
				b.mu.Unlock()
			})
		}
		k.Cluster().Play(plan)
		begin.Wait()
		for _, ref := range refs {
			if _, err := ref.Get(ctx); err != nil {
				t.Error(err)
			}
		}
		k.Advance(time.Minute)
		soon, cancel := context.WithTimeout(ctx, time.Minute) // a gate may be new, and wait its time
		defer cancel()
		for key := range keys {
			if most := b.most[fmt.Sprint(key)]; most > n || most == 0 {
				t.Errorf("%d units of key %d were held at once\n%v", most, key, plan)
			}
			take(k, soon, limit.AtMost("plan", n), fmt.Sprint(key), n)
		}
		t.Log(k.Cluster().Played(), b.taken, "permits")
	})
}

// TestRatePlan: however often the bucket's node dies, no time has more units than a burst and what comes back in it.
func TestRatePlan(t *testing.T) {
	on(t, func(k *testkit.Kit, ctx context.Context) {
		const n, per = 20, 10 * time.Second
		l := limit.Rate("plan", n, per)
		var mu sync.Mutex
		var times []time.Time
		var units []int
		ctx, cancel := context.WithCancel(ctx)
		var done sync.WaitGroup
		for i := range 8 {
			draw, ctx := raysys.Rand(raysys.Branch(ctx, i)), raysys.Branch(ctx, i)
			done.Go(func() {
				for ctx.Err() == nil {
					u := 1 + draw.IntN(5)
					if _, err := limit.Take(ctx, l, "", u); err == nil {
						mu.Lock()
						times, units = append(times, time.Now()), append(units, u)
						mu.Unlock()
					}
					if draw.IntN(20) == 0 {
						<-time.After(time.Duration(draw.IntN(30_000)) * time.Millisecond)
					}
				}
			})
		}
		const length = 5 * time.Minute
		k.Cluster().Play(testkit.DrawPlan(k.Seed(), 3, 10*time.Second, length, testkit.FaultKill, testkit.FaultDrain))
		cancel()
		done.Wait()
		for i := range times {
			sum := 0
			for j := i; j < len(times); j++ {
				sum += units[j]
				in := times[j].Sub(times[i])
				if most := n + int(math.Ceil(n*float64(in+50*time.Millisecond)/float64(per))); sum > most {
					t.Fatalf("%d units in %v, %d are allowed", sum, in, most)
				}
			}
		}
		t.Log(k.Cluster().Played(), len(times), "grants")
	})
}

type other struct{}

// TestBadInput: what cannot be meant fails, and takes nothing.
func TestBadInput(t *testing.T) {
	ctx := testkit.New(t).Context()
	for want, bad := range map[string]struct {
		l     limit.Limit
		units int
		opts  []limit.Option
	}{
		"a limit of 0 units":         {l: limit.AtMost("bad", 0), units: 1},
		"a limit of -1 units":        {l: limit.Rate("bad", -1, 1), units: 1},
		"give it 1 to 1099511627776": {l: limit.AtMost("bad", math.MaxInt), units: 1},
		"no name of the limit":       {l: limit.AtMost("", 1), units: 1},
		"give a time above":          {l: limit.Rate("bad", 1, 0), units: 1},
		"1 units in -1ns":            {l: limit.Rate("bad", 1, -1), units: 1},
		"make it by AtMost":          {units: 1},
		"3 units of a limit of 2":    {l: limit.AtMost("bad", 2), units: 3},
		"4 units of a limit of 3":    {l: limit.Rate("bad", 3, time.Hour), units: 4},
		"0 units of a limit":         {l: limit.AtMost("bad", 2)},
		"-5 units of a limit":        {l: limit.AtMost("bad", 2), units: -5},
		"nil Option":                 {l: limit.AtMost("bad", 2), units: 1, opts: []limit.Option{nil}},
	} {
		p, err := limit.Take(ctx, bad.l, "", bad.units, bad.opts...)
		if p != nil || !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, p, err)
		}
	}
	long := strings.Repeat("k", 2000)
	if _, err := limit.Take(ctx, limit.AtMost("bad", 1), long, 1); !errors.Is(err, raysys.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := limit.Take(context.Background(), limit.AtMost("bad", 1), "", 1); !errors.Is(err, raysys.ErrNoRuntime) {
		t.Error(err)
	}
	for l, n := range map[limit.Limit]int{
		limit.Rate("ends", 1, math.MaxInt64): 1, limit.Rate("ends2", 1<<40, 1): 1 << 40,
		limit.AtMost("ends\xff/%", 1<<40): 1 << 40,
	} {
		for _, key := range []string{"", "a\x00\xff/"} {
			p, err := limit.Take(ctx, l, key, n, limit.Try(), limit.For("\xff"))
			if err != nil {
				t.Fatal(l, err)
			}
			p.Release()
		}
	}
}

// TestTable: a program with a table of its own is told that the gates are not in it.
func TestTable(t *testing.T) {
	table := raysys.NewTable()
	grains.DefineIn[other](table, "other")
	ctx := testkit.New(t, testkit.Table(table)).Context()
	for _, l := range []limit.Limit{limit.AtMost("bad", 1), limit.Rate("bad", 1, 1)} {
		if _, err := limit.Take(ctx, l, "", 1); !errors.Is(err, raysys.ErrUnknownFunc) {
			t.Error(err)
		}
	}
}
