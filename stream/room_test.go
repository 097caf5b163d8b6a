package stream_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/testkit"
)

// worker is a kind whose handlers are as slow, and fail as often, as their events say.
type worker struct{}

type job struct {
	N     int
	Takes time.Duration
	Fails int    // times, before it is taken
	Load  []byte // for its size
}

var (
	jobs    = stream.Define[job]("jobs", stream.Partitions(1))
	workers = grains.Define[worker]("worker")
	_       = stream.Into(jobs, workers, (*worker).OnJob, stream.OnError(stream.Retry(1000, 10*time.Second), stream.Drop))
	_       = stream.Into(jobs, workers, (*worker).OnJobOfTo, stream.As("to"), stream.To(func(e stream.Event[job]) string { return "to " + e.Key }))

	refuses atomic.Bool // handlers of keys that begin with "bad"
	failed  atomic.Int64
)

func (w *worker) OnJob(ctx context.Context, e stream.Event[job]) error     { return w.do(e, "") }
func (w *worker) OnJobOfTo(ctx context.Context, e stream.Event[job]) error { return w.do(e, "to ") }

func (*worker) do(e stream.Event[job], by string) error {
	if e.Value.Takes > 0 {
		<-time.After(e.Value.Takes)
	}
	if events, bytes, again, _ := stream.Held(); events > stream.MaxHeld || bytes > stream.MaxHeldBytes || again > stream.MaxAgain {
		write("bounds", fmt.Sprint(events, " events, ", bytes, " bytes, ", again, " again"))
	}
	if refuses.Load() && strings.HasPrefix(e.Key, "bad") {
		failed.Add(1)
		return errBroken
	}
	if e.Value.Fails > 0 {
		what := fmt.Sprint("failed ", by, e.Key, e.Value.N)
		if write(what, ""); len(written(what)) <= e.Value.Fails {
			return errBroken
		}
	}
	write(by+e.Key, fmt.Sprint(e.Value.N))
	return nil
}

// inOrder checks that what was published to a key was taken once, in its order, by both subscriptions.
func inOrder(t testing.TB, key string, n int) {
	t.Helper()
	for _, by := range []string{"", "to "} {
		got := written(by + key)
		for i, what := range got {
			if what != fmt.Sprint(i) {
				t.Fatalf("%s%s: %s where %d is next", by, key, what, i)
			}
		}
		if len(got) != n {
			t.Fatalf("%s%s: %d were taken of %d", by, key, len(got), n)
		}
	}
	if got := written("bounds"); got != nil {
		t.Fatal(got[0])
	}
}

// TestSlowGrain: grains whose handlers are slow have far more events than a pump holds. The events of others that come after those are taken
// meanwhile, and in the end all are, in their order.
func TestSlowGrain(t *testing.T) {
	for _, slow := range []int{1, 12} { // 12 have more than all the room
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			memory := inVirtualMemory(t)
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				n := 4000 / slow
				for i := range slow {
					list := make([]job, n)
					for j := range list {
						list[j] = job{N: j, Takes: 100 * time.Millisecond}
					}
					if err := jobs.PublishAll(ctx, fmt.Sprint("slow", i), list); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 5 {
					if _, err := jobs.Publish(ctx, "quick", job{N: i}); err != nil {
						t.Fatal(err)
					}
					k.Advance(6 * time.Second)
					if slow == 1 {
						inOrder(t, "quick", i+1)
					} else if got := len(written("quick")); got != i+1 { // with To, later
						t.Fatal(got, "were taken, not", i+1)
					}
				}
				if got := len(written("slow0")); got < 20 || got == n {
					t.Fatal(got, "of a slow grain were taken meanwhile")
				}
				k.Advance(7 * time.Minute)
				inOrder(t, "quick", 5)
				for i := range slow {
					inOrder(t, fmt.Sprint("slow", i), n)
				}
			}, testkit.Nodes(1), memory)
		})
	}
}

// TestManyFail: far more grains fail than a pump holds events. They have neither an event nor a goroutine, so others go on; and then all is taken.
func TestManyFail(t *testing.T) {
	memory := inVirtualMemory(t)
	refuses.Store(true)
	defer refuses.Store(false)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		k.Advance(time.Second)
		before := runtime.NumGoroutine()
		const keys = 1500
		for i := range keys {
			for n := range 2 {
				if _, err := jobs.Publish(ctx, fmt.Sprint("bad", i), job{N: n}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := jobs.Publish(ctx, "good", job{}); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Minute)
		inOrder(t, "good", 1)
		k.Advance(time.Millisecond)
		if more := runtime.NumGoroutine() - before; more > 2*stream.MaxAgain+100 {
			t.Error(more, "goroutines for", keys, "grains that fail")
		}
		if events, _, _, busy := stream.Held(); busy != 2*keys || events > stream.MaxAgain {
			t.Error(busy, "grains have events left,", events, "are in memory")
		}
		refuses.Store(false)
		k.Advance(time.Minute)
		for i := range keys {
			inOrder(t, fmt.Sprint("bad", i), 2)
		}
		if events, bytes, again, busy := stream.Held(); events+bytes+again+busy != 0 {
			t.Error("what is held in the end:", events, bytes, again, busy)
		}
	}, testkit.Nodes(1), memory)
}

// TestMixed: events of all sizes for grains that are fast, slow and fail, in any order.
func TestMixed(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			memory := inVirtualMemory(t)
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				r := rand.New(rand.NewPCG(seed, 10))
				large := make([]byte, 900<<10)
				next := make([]int, 40)
				for range 60 {
					key := r.IntN(len(next))
					list := make([]job, 1+r.IntN(60))
					for i := range list {
						list[i] = job{N: next[key]}
						next[key]++
						switch {
						case key < 10:
							list[i].Takes = time.Duration(r.IntN(300)) * time.Millisecond
						case key < 20 && r.IntN(10) == 0:
							list[i].Fails = r.IntN(4)
						case key < 30 && r.IntN(8) == 0:
							list[i].Load, list[i].Takes = large[:r.IntN(len(large))], time.Duration(r.IntN(2000))*time.Millisecond
						}
					}
					if err := jobs.PublishAll(ctx, fmt.Sprint("key", key), list); err != nil {
						t.Fatal(err)
					}
					k.Advance(time.Duration(r.IntN(500)) * time.Millisecond)
				}
				k.Advance(5 * time.Minute)
				for key, n := range next {
					inOrder(t, fmt.Sprint("key", key), n)
				}
				if events, bytes, again, busy := stream.Held(); events+bytes+again+busy != 0 {
					t.Error("what is held in the end:", events, bytes, again, busy)
				}
			}, testkit.Nodes(2), memory)
		})
	}
}
