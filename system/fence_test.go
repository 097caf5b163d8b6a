package system_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/system"
)

// TestFencedDriverHearsOfIt: when the session of a driver is gone its context ends with the reason, for loops that look
// at Err and for waiters on Done, in Run and in Node.Context; and Run says why, whatever the driver's function makes of
// it.
func TestFencedDriverHearsOfIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t, kv := b.t, b.kv
		cfg := system.Config{Name: "d", Table: table, Namespace: "test", Cluster: over(b.net.Transport("d"), system.ClusterConfig{
			Store: kv, Role: system.Driver,
		})}
		err := system.Run(t.Context(), cfg, func(ctx context.Context) error {
			own := system.NodeOf(ctx).Context(context.Background())
			request, cancel := context.WithTimeout(own, time.Hour)
			defer cancel()
			p, err := kv.Get(ctx, shardlog.NodesPrefix+"d")
			if err == nil {
				err = kv.Destroy(ctx, p.Session)
			}
			if err != nil {
				return err
			}
			for name, ctx := range map[string]context.Context{"Run": ctx, "Node.Context": own, "a request's": request} {
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
					t.Errorf("the node is fenced and the context of %s is not done", name)
					continue
				}
				if ctx.Err() != context.Canceled || !errors.Is(context.Cause(ctx), raysys.ErrFenced) {
					t.Errorf("the node is fenced; the context of %s has Err %v and Cause %v", name, ctx.Err(), context.Cause(ctx))
				}
			}
			return ctx.Err()
		})
		if !errors.Is(err, raysys.ErrFenced) {
			t.Errorf("Run returned %v, which does not say that the node was fenced", err)
		}
	})
}
