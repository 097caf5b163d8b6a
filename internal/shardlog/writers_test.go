package shardlog_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/raysys/raysys/store"
)

// heldKV holds back transactions that set a value, once hold is set.
type heldKV struct {
	store.KV
	hold    atomic.Bool
	mu      sync.Mutex // guards the rest
	writes  int        // under way
	most    int
	arrived chan struct{}
	let     chan struct{}
}

func (k *heldKV) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	set := false
	for _, op := range ops {
		set = set || op.Verb == store.VerbSet
	}
	if set && k.hold.Load() {
		k.mu.Lock()
		k.writes++
		k.most = max(k.most, k.writes)
		k.mu.Unlock()
		k.arrived <- struct{}{}
		<-k.let
		defer func() {
			k.mu.Lock()
			k.writes--
			k.mu.Unlock()
		}()
	}
	return k.KV.Txn(ctx, ops)
}

// TestWriters: shards that share one turn write one after the other, and what comes while a shard waits for its turn is one
// segment.
func TestWriters(t *testing.T) {
	shardlog.Warm()
	synctest.Test(t, func(t *testing.T) {
		kv := &heldKV{KV: memory(t), arrived: make(chan struct{}, 10), let: make(chan struct{}, 10)}
		shared := shardlog.NewWriters(1)
		a, _ := lead(t, kv, "a", func(c *shardlog.LeadConfig) { c.Writers = shared })
		b, _ := lead(t, kv, "a", func(c *shardlog.LeadConfig) { c.Writers, c.Shard = shared, 8 })
		kv.hold.Store(true)
		before := b.Stats().Commits
		done := make(chan error, 4)
		propose := func(s *shardlog.Shard, key string) {
			if err := s.Propose(put(key, "v"), func(_ shardlog.Result, err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		propose(a, "a")
		for _, key := range []string{"1", "2", "3"} {
			propose(b, key)
		}
		close(kv.let)
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := b.Stats().Commits - before; n != 1 {
			t.Errorf("what came while another shard wrote is %d segments, not one", n)
		}
		kv.mu.Lock()
		defer kv.mu.Unlock()
		if kv.most != 1 {
			t.Errorf("%d shards wrote at the same time, and 1 may", kv.most)
		}
	})
}

// TestWritersEnd: a shard that waits for its turn can be closed.
func TestWritersEnd(t *testing.T) {
	kv := &heldKV{KV: memory(t), arrived: make(chan struct{}, 10), let: make(chan struct{}, 10)}
	shared := shardlog.NewWriters(1)
	a, _ := lead(t, kv, "a", func(c *shardlog.LeadConfig) { c.Writers = shared })
	b, _ := lead(t, kv, "a", func(c *shardlog.LeadConfig) { c.Writers, c.Shard = shared, 8 })
	kv.hold.Store(true)
	done := make(chan error, 2)
	for _, s := range []*shardlog.Shard{a, b} {
		if err := s.Propose(put("k", "v"), func(_ shardlog.Result, err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if s == a {
			<-kv.arrived
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("a proposal of a shard that was closed before its turn was committed")
	}
	close(kv.let)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
