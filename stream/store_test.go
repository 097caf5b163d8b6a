package stream_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// till counts each event once, and refuses those of a key that begins with "bad" for as long as a test wants.
type till struct {
	Sum grains.State[int]
	stream.Cursor
}

var (
	sales = stream.Define[int]("sales", stream.Partitions(1))
	tills = grains.Define[till]("till", grains.Durable())
	_     = stream.Into(sales, tills, (*till).OnSale)
	inAll = grains.Method0(tills, "sum", func(c *till, _ context.Context) (int, error) { return c.Sum.Value, nil }).ReadOnly()
)

func (c *till) OnSale(_ context.Context, e stream.Event[int]) error {
	if e.Key == "bad" && refuses.Load() {
		return errBroken
	}
	c.Sum.Value += e.Value
	return nil
}

// TestOlderStore: the bus comes back without events that were taken, and with others under their numbers. Each event that is stored counts once:
// those that were taken are not taken again, the new ones are, and so is one at which a handler has failed since before. The same once more.
func TestOlderStore(t *testing.T) {
	for name, fresh := range map[string]int{"it ends before the last one": 15, "it has others under all their numbers": 200} {
		t.Run(name, func(t *testing.T) {
			inMemory(t)
			log, lines := observer.New(zapcore.ErrorLevel)
			refuses.Store(true)
			defer refuses.Store(false)
			testkit.Virtual(t, func(k *testkit.Kit) {
				ctx, t := k.Context(), k.T()
				want := map[string]int{}
				publish := func(key string, n int) {
					t.Helper()
					for range n {
						if _, err := sales.Publish(ctx, key, 1); err != nil {
							t.Fatal(err)
						}
						want[key]++
					}
				}
				check := func(when string) {
					t.Helper()
					for key, n := range want {
						if got, err := inAll.Call(ctx, tills.Get(key)).Get(ctx); err != nil || got != n {
							t.Fatalf("%s: %s has %d, want %d; %v", when, key, got, n, err)
						}
					}
				}
				publish("good", 5)
				publish("bad", 1)
				publish("good", 4) // in all 10
				k.Advance(5 * time.Second)
				for round := range 2 {
					publish("good", 20)
					k.Advance(5 * time.Second) // and where they are is stored
					want["bad"] = 0
					check("before")
					if err := sales.Restore(ctx, 10); err != nil {
						t.Fatal(err)
					}
					publish("good", fresh)
					publish("bad", 1) // in the next generation than the one before it
					want["bad"] = 0
					k.Advance(30 * time.Second)
					check("the new ones are taken")
					k.Cluster().Kill(1)
					k.Advance(30 * time.Second)
					k.Cluster().Restart(1)
					publish("good", 1)
					k.Advance(30 * time.Second)
					check("another node delivers, or the same")
					all, err := k.Cluster().Node(2).Streams(ctx)
					if err != nil {
						t.Fatal(err)
					}
					for _, p := range all.Parts {
						if p.Stream == "sales" && (p.Stores != round+1 || p.Since == 0) {
							t.Fatalf("%+v", p)
						}
					}
				}
				refuses.Store(false)
				want["bad"] = 2
				k.Advance(time.Minute)
				check("those that failed")
				if lost := lines.FilterMessageSnippet("a grain has lost its State").All(); len(lost) > 0 {
					t.Fatal("the numbers of one store were compared with those of another: ", lost)
				}
			}, testkit.Nodes(2), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL, cfg.Logger = "memory:"+t.Name(), zap.New(log) }))
		})
	}
}

// TestReadOlderStore: a Read whose bus comes back without events that it had, or without the stream, goes on with the events that come, each once: also
// where the store ends before the number that it waits for, and where it has others under all numbers.
func TestReadOlderStore(t *testing.T) {
	memory := inVirtualMemory(t)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		var mu sync.Mutex // guards got
		var got, want []int
		var reading sync.WaitGroup
		ctx, cancel := context.WithCancel(ctx)
		reading.Go(func() {
			for e, err := range sales.Read(ctx, t.Name()) {
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					got = append(got, e.Value)
					mu.Unlock()
				}
			}
		})
		next := 0
		publish := func(what string, n int) {
			t.Helper()
			for range n {
				next++
				want = append(want, next)
				if _, err := sales.Publish(ctx, t.Name(), next); err != nil {
					t.Fatal(err)
				}
				k.Advance(time.Millisecond) // each has a time of its own
			}
			k.Advance(5 * time.Second) // of which it waits three before it believes it
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, want) {
				t.Fatalf("%s: got %d, want %d", what, got, want)
			}
		}
		publish("before", 30)
		for _, fresh := range []int{5, 40} {
			if err := sales.Restore(ctx, 10); err != nil {
				t.Fatal(err)
			}
			publish("an older store", fresh)
		}
		if err := sales.Remove(ctx); err != nil {
			t.Fatal(err)
		}
		publish("made again", 5)
		cancel()
		reading.Wait()
	}, testkit.Nodes(1), memory)
}

// TestPlaces: where a Cursor has its numbers does not change while a stream has the store that it had at first.
func TestPlaces(t *testing.T) {
	for generation, want := range []string{"orders>account/3/zik0zj", "orders>account/3/zik0zj/1", "orders>account/3/zik0zj/2"} {
		if got := stream.Place("orders>account", 3, 1<<31-1, generation); got != want {
			t.Error(got, want)
		}
	}
}
