package grainengine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// TestFullMailbox: as many calls wait as the mailbox holds, the next one is refused, and as soon as one is taken
// there is room again. The call whose turn it is does not count.
func TestFullMailbox(t *testing.T) {
	for name, c := range map[string]struct {
		limit int
		opts  []grains.Option
	}{
		"default": {10_000, nil},
		"one":     {1, []grains.Option{grains.Mailbox(1)}},
		"seven":   {7, []grains.Option{grains.Mailbox(7)}},
		"worker":  {7, []grains.Option{grains.Mailbox(7), grains.StatelessWorker(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			tb := raysys.NewTable()
			k := grains.DefineIn[cell](tb, "k", c.opts...)
			entered, release := make(chan bool), make(chan bool)
			defer close(release)
			hang := grains.Action0(k, "hang", func(*cell, context.Context) error { entered <- true; <-release; return nil })
			add := grains.Method0(k, "add", func(c *cell, _ context.Context) (int, error) { c.n++; return c.n, nil })
			ctx := nodetest.Driver(t, tb)
			a := k.Get("a")
			n := 0
			for range 3 { // each time the mailbox is empty, so that it has room again
				_ = hang.Tell(ctx, a)
				nodetest.Arrive(t, entered, "the call before those that fill the mailbox has its turn")
				var refs []raysys.Ref[int]
				for i := range c.limit {
					r := add.Call(ctx, a)
					if raysys.PhaseOf(r) != raysys.PhasePending {
						_, err := r.Get(ctx)
						t.Fatalf("call %d of a mailbox for %d does not wait: %v", i+1, c.limit, err)
					}
					refs = append(refs, r)
				}
				for range 3 {
					r := add.Call(ctx, a)
					if raysys.PhaseOf(r) == raysys.PhasePending {
						t.Fatalf("a mailbox for %d calls admits one more", c.limit)
					}
					err := nodetest.Fails(t, ctx, r, raysys.ErrOverloaded)
					if !raysys.Retriable(err) || !strings.Contains(err.Error(), fmt.Sprint(c.limit)) {
						t.Fatalf("the refusal of a full mailbox is retriable and names its limit of %d, and not: %v", c.limit, err)
					}
					if err := add.Tell(ctx, a); !errors.Is(err, raysys.ErrOverloaded) {
						t.Fatalf("Tell to a full mailbox: %v, want ErrOverloaded", err)
					}
				}
				wants(t, ctx, add.Call(ctx, k.Get("b"+fmt.Sprint(serial.Add(1)))), 1) // others are not concerned
				release <- true
				for i, r := range refs {
					n++
					if v, err := r.Get(ctx); err != nil || v != n {
						t.Fatalf("call %d of those that filled a mailbox for %d got %d, %v, want %d: each runs once, in order", i+1, c.limit, v, err, n)
					}
				}
			}
		})
	}
}

// TestClosedWhileFull: what waits in a mailbox when the node closes ends with ErrClosed.
func TestClosedWhileFull(t *testing.T) {
	for name, opts := range map[string][]grains.Option{"grain": nil, "worker": {grains.StatelessWorker(2)}} {
		t.Run(name, func(t *testing.T) {
			tb := raysys.NewTable()
			k := grains.DefineIn[cell](tb, "k", opts...)
			entered := make(chan bool)
			hang := grains.Action0(k, "hang", func(_ *cell, ctx context.Context) error {
				entered <- true
				<-ctx.Done()
				return ctx.Err()
			})
			n, ctx := nodetest.Start(t, system.Config{Table: tb})
			a := k.Get("a")
			var refs []grains.Done
			for range 2 {
				refs = append(refs, hang.Call(ctx, a))
			}
			<-entered
			if name == "worker" {
				<-entered
			}
			for range 100 {
				refs = append(refs, hang.With(raysys.Detached()).Call(ctx, a), hang.Call(ctx, a))
			}
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
			for _, r := range refs {
				nodetest.Fails(t, ctx, r, raysys.ErrClosed)
			}
			nodetest.Fails(t, ctx, hang.Call(ctx, k.Get("new")), raysys.ErrClosed)
			if c := engineOf(n).Activations("k"); c != 0 {
				t.Error(c, "activations in a closed node")
			}
		})
	}
}
