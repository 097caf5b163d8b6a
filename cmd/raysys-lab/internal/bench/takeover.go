package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys/store"
)

const takeOverName = "Consul session destroyed to its key locked by another"

// leaderKey is the key that is taken over in the raw limit of failover.
const leaderKey = "leader"

// raceTTL is longer than one race for the key takes.
const raceTTL = time.Minute

// takeOver is the raw limit of failover: how long it takes from the destruction of a session to another session that
// holds the key the first one held, which it watches.
func takeOver(ctx context.Context, kv store.KV) (time.Duration, error) {
	first, err := kv.NewSession(ctx, "bench-first", raceTTL)
	if err != nil {
		return 0, err
	}
	second, err := kv.NewSession(ctx, "bench-second", raceTTL)
	if err != nil {
		return 0, errors.Join(err, kv.Destroy(ctx, first))
	}
	if _, err := kv.Txn(ctx, []store.Op{store.Lock(leaderKey, nil, first)}); err != nil {
		return 0, errors.Join(err, kv.Destroy(ctx, first), kv.Destroy(ctx, second))
	}
	_, index, err := kv.List(ctx, leaderKey, store.Consistent)
	if err != nil {
		return 0, errors.Join(err, kv.Destroy(ctx, first), kv.Destroy(ctx, second))
	}
	type outcome struct {
		at  time.Time
		err error
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	held := make(chan outcome, 1)
	go func() {
		err := lockNext(watched, kv, second, index)
		held <- outcome{time.Now(), err}
	}()
	start := time.Now()
	err = kv.Destroy(ctx, first)
	if err != nil {
		stop()
	}
	o := <-held
	return o.at.Sub(start), errors.Join(err, o.err, kv.Destroy(ctx, second))
}

// lockNext locks the key when whoever holds it is gone.
func lockNext(ctx context.Context, kv store.KV, session string, index uint64) error {
	for {
		pairs, next, err := kv.Watch(ctx, leaderKey, index)
		if err != nil {
			return fmt.Errorf("watch the leader: %w", err)
		}
		index = next
		if len(pairs) > 0 && pairs[0].Session != "" {
			continue
		}
		for {
			_, err := kv.Txn(ctx, []store.Op{store.Lock(leaderKey, nil, session)})
			var refused *store.RefusedError
			if !errors.As(err, &refused) {
				return err
			}
			// Consul keeps a lock from others for a moment after its session went.
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
