package guide_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

type beatCount struct{ N grains.State[int] }

var (
	beats     = grains.Define[beatCount]("guide.longtasks.beats", grains.Durable())
	count     = grains.Method(beats, "count", func(b *beatCount, _ context.Context, n int) (int, error) { b.N.Value += n; return b.N.Value, nil })
	beatTotal = grains.Method0(beats, "total", func(b *beatCount, _ context.Context) (int, error) { return b.N.Value, nil }).ReadOnly()
)

var keyedBeat = tasks.Define("guide.longtasks.keyed", func(ctx context.Context, every time.Duration) (int, error) {
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(every):
		}
		which := raysys.Key(time.Now().Truncate(every).UTC().Format(time.RFC3339Nano)) // this second, whoever counts it
		if _, err := count.With(which).Call(ctx, beats.Get("keyed"), 1).Get(ctx); err != nil {
			return 0, err
		}
	}
})

var branchedBeat = tasks.Define("guide.longtasks.branched", func(ctx context.Context, every time.Duration) (int, error) {
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return i, context.Cause(ctx)
		case <-time.After(every):
		}
		branch := raysys.Branch(ctx, raysys.Attempt(ctx)<<32+i) // no attempt has the numbers of another
		if _, err := count.Call(branch, beats.Get("branched"), 1).Get(ctx); err != nil {
			return i, err
		}
	}
})

type marchCount struct{ N grains.State[int] }

var (
	marches = grains.Define[marchCount]("guide.longtasks.marches")
	marched = grains.Method(marches, "add", func(m *marchCount, ctx context.Context, n int) (int, error) {
		m.N.Value += n
		return m.N.Value, m.N.Write(ctx)
	})
)

var march = tasks.Define("guide.longtasks.march", func(ctx context.Context, steps int) (int, error) {
	for {
		saved, err := marched.Call(ctx, marches.Get("one"), 0).Get(ctx)
		if err != nil || saved == steps {
			return raysys.Attempt(ctx), err
		}
		select {
		case <-raysys.Leaving(ctx):
			return 0, raysys.ErrLeaving // the step is saved: the next attempt goes on behind it
		case <-time.After(time.Minute): // the work of a step
		}
		if _, err := marched.Call(ctx, marches.Get("one"), 1).Get(ctx); err != nil {
			return 0, err
		}
	}
})

// plainBeat is what the page warns of.
var plainBeat = tasks.Define("guide.longtasks.plain", func(ctx context.Context, every time.Duration) (int, error) {
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return i, context.Cause(ctx)
		case <-time.After(every):
		}
		if _, err := count.Call(ctx, beats.Get("plain"), 1).Get(ctx); err != nil {
			return i, err
		}
	}
})

// TestMarch: a task of ten minutes gives way to the drain of its node, in the fifth or in the seventh.
func TestMarch(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx, c := k.T(), k.Context(), k.Cluster()
		c.Ready()
		f := march.With(raysys.Retries(0)).Go(ctx, 10)
		for i := 1; i <= 2; i++ {
			k.Advance(2*time.Minute + 20*time.Second)
			c.Drain(i)
			c.Restart(i)
			c.Ready()
		}
		if attempt, err := f.Get(ctx); attempt < 2 || attempt > 3 || err != nil {
			t.Error(attempt, err)
		}
	}, testkit.Nodes(2))
}

// TestLongTasks: loops tick for five minutes, and for five more after their node has died. With a key and with a branch they count on, and
// without either not one tick of the second five minutes counts.
func TestLongTasks(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		const each = 5 * time.Minute
		loops := map[string]tasks.Task[time.Duration, int]{"keyed": keyedBeat, "branched": branchedBeat, "plain": plainBeat}
		for _, loop := range loops {
			loop.With(raysys.CPU(0), raysys.Detached(), raysys.Prefer(raysys.OnNode("n2"))).Go(ctx, time.Second)
		}
		counted := func() map[string]int {
			m := map[string]int{}
			for name := range loops {
				n, err := beatTotal.Idempotent().Call(ctx, beats.Get(name)).Get(ctx)
				if err != nil {
					t.Fatal(name, err)
				}
				m[name] = n
			}
			return m
		}
		k.Advance(each)
		before := counted()
		k.Cluster().Kill(2)
		k.Advance(each)
		for name, n := range counted() {
			most, least := 305, 270 // of 300 ticks: the death is noticed after some seconds
			if name == "plain" {
				most, least = 1, 0 // that of the moment of the death
			}
			if was := before[name]; was < 290 || n-was < least || n-was > most {
				t.Errorf("%s: %d ticks count in five minutes, and %d after the node's death", name, was, n-was)
			}
		}
	}, testkit.Nodes(3))
}

// besides are tasks that run at the same time after a wait.
type besides struct {
	entry, leave    chan struct{}
	came, now, most atomic.Int64
}

var (
	beside       *besides
	enteringTask = tasks.Define0("guide.longtasks.entry", func(context.Context) (int, error) { <-beside.entry; return 1, nil })
	afterWait    = tasks.Define("guide.longtasks.after-wait", func(ctx context.Context, entry raysys.Handle[int]) (int, error) {
		beside.came.Add(1)
		v, err := entry.Ref().Get(ctx)
		n := beside.now.Add(1)
		for m := beside.most.Load(); n > m && !beside.most.CompareAndSwap(m, n); m = beside.most.Load() {
		}
		<-beside.leave
		beside.now.Add(-1)
		return v, err
	})
)

// TestBesideATask: after a wait all tasks run at once, on eight CPUs; a resource bounds how many do.
func TestBesideATask(t *testing.T) {
	node := system.Config{Resources: raysys.Resources{CPU: 8, Custom: map[string]float64{"crawl": 2}}}
	polite := afterWait.With(raysys.Resource("crawl", 1)) // at most two at a time on such a node
	for _, x := range []struct {
		task tasks.Task[raysys.Handle[int], int]
		most int64
	}{{afterWait, 20}, {polite, 2}} {
		beside = &besides{entry: make(chan struct{}), leave: make(chan struct{})}
		err := system.Run(context.Background(), node, func(ctx context.Context) error {
			entry := enteringTask.Go(ctx)
			refs := make([]raysys.Ref[int], 20)
			for i := range refs {
				refs[i] = x.task.Go(ctx, entry.Handle())
			}
			testkit.Eventually(t, time.Minute, "they wait", func() bool { return beside.came.Load() >= x.most })
			close(beside.entry)
			testkit.Eventually(t, time.Minute, "they go on", func() bool { return beside.now.Load() >= x.most })
			close(beside.leave)
			_, err := raysys.GetAll(ctx, refs).Values()
			return err
		})
		if n := beside.most.Load(); err != nil || n != x.most {
			t.Errorf("%d at a time, %v; want %d", n, err, x.most)
		}
	}
}
