package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// TestCloseRacesCalls: calls to new and old grains race the node's end. Each ends in a value or ErrClosed, and when
// Close has returned, every activation that began has ended.
func TestCloseRacesCalls(t *testing.T) {
	for name, opts := range map[string][]grains.Option{"grain": nil, "worker": {grains.StatelessWorker(2)}} {
		t.Run(name, func(t *testing.T) {
			for round := range 60 {
				h := newHooked(opts...)
				n, ctx := nodetest.Start(t, system.Config{Table: h.table})
				var wg sync.WaitGroup
				for c := range 4 {
					wg.Add(1)
					go func() {
						defer wg.Done()
						ctx := raysys.Branch(ctx, c)
						for i := range 200 {
							r := h.add.With(raysys.Detached()).Call(ctx, h.kind.Get(fmt.Sprint(c, i/2)), 1)
							_, err := r.Get(ctx)
							if errors.Is(err, raysys.ErrClosed) {
								return
							}
							if err != nil {
								t.Error(err)
							}
						}
					}()
				}
				for range round * 20 {
					runtime.Gosched()
				}
				if err := n.Close(context.Background()); err != nil {
					t.Error(err)
				}
				active, log := map[string]int{}, h.test.said()
				before := len(log)
				for _, line := range log {
					var what, key string
					fmt.Sscan(line, &what, &key)
					if what == "activate" {
						active[key]++
					} else {
						active[key]--
					}
				}
				for key, n := range active {
					if n != 0 {
						t.Errorf("round %d: %s was activated %d times more than deactivated", round, key, n)
					}
				}
				if c := engineOf(n).Activations("hooked"); c != 0 {
					t.Errorf("round %d: %d activations", round, c)
				}
				wg.Wait()
				if after := len(h.test.said()); after != before {
					t.Errorf("round %d: %d hooks ran after Close", round, after-before)
				}
			}
		})
	}
}

// watcher hears of the end of a PID.
type watcher struct {
	of    *actor.PID
	ended chan<- string
}

func (w watcher) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Watch(w.of)
	case *actor.Terminated:
		w.ended <- m.Who.Id
	}
}

// TestCloseOfIdleGrains: a grain that would not hear of its end has no turn at it, so a Close that may not wait ends thousands,
// and the calls that they keep.
func TestCloseOfIdleGrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := raysys.NewTable()
		deaf := grains.DefineIn[struct{}](tb, "deaf")
		touch := grains.Action(deaf, "touch", func(*struct{}, context.Context, int) error { return nil })
		keep := grains.LaterMethod(deaf, "keep", func(*struct{}, context.Context, int, *grains.Later[int]) error { return nil })
		n, ctx := nodetest.Start(t, system.Config{Table: tb})
		for i := range 2000 {
			if _, err := touch.Call(ctx, deaf.Get(fmt.Sprint(i)), i).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		kept := keep.With(raysys.Detached()).Call(ctx, deaf.Get("kept"), 0)
		synctest.Wait() // all are idle
		now, cancel := context.WithCancel(t.Context())
		cancel()
		if err := n.Close(now); err != nil {
			t.Error(err)
		}
		if _, err := kept.Get(t.Context()); err == nil {
			t.Error("a call that was kept at the end succeeds")
		}
	})
}

// TestCloseIsHeard: of the end of an idle grain its OnDeactivate hears, and who watches its PID.
func TestCloseIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHooked()
		deaf := grains.DefineIn[struct{}](h.table, "deaf")
		touch := grains.Action(deaf, "touch", func(*struct{}, context.Context, int) error { return nil })
		n, ctx := nodetest.Start(t, system.Config{Table: h.table})
		wants(t, ctx, h.add.Call(ctx, h.kind.Get("a"), 5), 5)
		if _, err := touch.Call(ctx, deaf.Get("b"), 0).Get(ctx); err != nil {
			t.Fatal(err)
		}
		ended := make(chan string, 1)
		b := engineOf(n).PID(idOf(deaf.Get("b")))
		n.Actors().Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return watcher{b, ended} }))
		synctest.Wait()
		if err := n.Close(t.Context()); err != nil {
			t.Error(err)
		}
		h.want(t, "activate a", "deactivate a after 5")
		synctest.Wait()
		select {
		case id := <-ended:
			if id != b.Id {
				t.Errorf("%s has ended, not %s", id, b.Id)
			}
		default:
			t.Error("who watches a grain does not hear of its end")
		}
	})
}
