package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

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
