package stream_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/testkit"
)

// TestOpenWhileStoreIsSlow: while the store does not say where NATS is, each Publish ends with its own context, and virtual time goes on, which it does not
// where a goroutine waits for a lock.
func TestOpenWhileStoreIsSlow(t *testing.T) {
	guard := time.AfterFunc(2*time.Minute, func() { panic("virtual time stands still") }) // of real time, on a busy machine
	defer guard.Stop()
	testkit.Virtual(t, func(k *testkit.Kit) {
		t := k.T()
		k.Cluster().StoreSlow(8 * time.Second)
		var all sync.WaitGroup
		for _, c := range []struct {
			limit, took time.Duration
			want        error
		}{{20 * time.Second, 8 * time.Second, stream.ErrNoNATS}, {time.Second, time.Second, context.DeadlineExceeded}, {3 * time.Second, 3 * time.Second, context.DeadlineExceeded}} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(k.Context(), c.limit)
				defer cancel()
				from := time.Now()
				_, err := quiet.Publish(ctx, "k", 1)
				if took := time.Since(from); !errors.Is(err, c.want) || took > c.took {
					t.Errorf("with %v it returned after %v: %v", c.limit, took, err)
				}
			})
		}
		k.Advance(10 * time.Second)
		all.Wait()
		k.Cluster().StoreSlow(0)
	}, testkit.Nodes(1))
}

var quiet = stream.Define[int]("quiet")
