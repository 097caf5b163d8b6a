package shardlog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
)

// An append that was on its way while the shard changed hands and the new leader compacted: the number of its segment
// is free again, and only the fence refuses it.
func TestAppendOfLongAgo(t *testing.T) {
	shared := memory(t)
	kv := flaky.Wrap(shared)
	old, ses := lead(t, kv, "one")
	held, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Writes() {
			once.Do(func() { close(held); <-gate })
		}
		return flaky.None
	})
	answer := make(chan error, 1)
	if err := old.Propose(put("a", "old"), func(_ shardlog.Result, err error) { answer <- err }); err != nil {
		t.Fatal(err)
	}
	<-held
	destroy(t, shared, ses)
	next, ses2 := lead(t, shared, "two", func(c *shardlog.LeadConfig) { c.CompactSegments = 4 })
	for i := range 20 {
		commit(t, next, put("a", fmt.Sprint("new ", i)))
	}
	waitFor(t, "the segment's number to be free", func() bool {
		_, err := shared.Get(within(t), shardlog.SegmentKey(7, 2))
		return errors.Is(err, store.ErrNotFound)
	})
	close(gate)
	if err := <-answer; !errors.Is(err, shardlog.ErrDeposed) {
		t.Fatalf("the append of long ago: %v, want ErrDeposed", err)
	}
	want(t, next, "a", "new 19")
	destroy(t, shared, ses2)
	last, _ := lead(t, shared, "three")
	want(t, last, "a", "new 19")
}

// A segment that is there already is never overwritten, whoever put it there: a leader that finds one of another epoch,
// or of its own epoch and not its own, gives up.
func TestSegmentOfAnother(t *testing.T) {
	for _, same := range []bool{false, true} {
		kv := memory(t)
		s, _ := lead(t, kv, "one")
		epoch := s.Epoch() + 1
		if same {
			epoch = s.Epoch()
		}
		there := shardlog.EncodeSegment(epoch, 2)
		if _, err := kv.Txn(within(t), []store.Op{store.Set(shardlog.SegmentKey(7, 2), there)}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(within(t), put("a", "1")); !errors.Is(err, shardlog.ErrDeposed) {
			t.Errorf("same epoch %v: commit over another's segment: %v, want ErrDeposed", same, err)
		}
		if p, err := kv.Get(within(t), shardlog.SegmentKey(7, 2)); err != nil || string(p.Value) != string(there) {
			t.Errorf("same epoch %v: the segment was overwritten: %v", same, err)
		}
		if _, ok := s.Get("a"); ok {
			t.Errorf("same epoch %v: what was refused is visible", same)
		}
	}
}

// A damaged log is told, not loaded in part.
func TestDamagedLog(t *testing.T) {
	for name, damage := range map[string]func(kv store.KV) []store.Op{
		"a gap":        func(store.KV) []store.Op { return []store.Op{store.Delete(shardlog.SegmentKey(7, 3))} },
		"no beginning": func(store.KV) []store.Op { return []store.Op{store.Delete(shardlog.SegmentKey(7, 1))} },
		"no beginning, as far as one read goes": func(store.KV) (ops []store.Op) {
			for n := range uint64(store.MaxTxnOps) {
				ops = append(ops, store.Delete(shardlog.SegmentKey(7, n+1)))
			}
			return ops
		},
		"a flipped byte": flip(shardlog.SegmentKey(7, 3)),
		"an old epoch": func(store.KV) []store.Op {
			return []store.Op{store.Set(shardlog.SegmentKey(7, 3), shardlog.EncodeSegment(1, 3))}
		},
		"another's number": func(store.KV) []store.Op {
			return []store.Op{store.Set(shardlog.SegmentKey(7, 3), shardlog.EncodeSegment(1<<40, 4))}
		},
	} {
		kv := memory(t)
		s, ses := lead(t, kv, "one")
		for i := range store.MaxTxnOps + 3 { // more than one read takes
			commit(t, s, put("a", fmt.Sprint(i)))
		}
		destroy(t, kv, ses)
		if _, err := kv.Txn(within(t), damage(kv)); err != nil {
			t.Fatal(err)
		}
		_, err := shardlog.Lead(within(t), shardlog.LeadConfig{KV: kv, Shard: 7, Session: session(t, kv), Node: "two"})
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
		// Nobody is left as leader of a shard that cannot be led.
		if _, err := kv.Get(within(t), shardlog.LeaderKey(7)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: the leader's key: %v", name, err)
		}
	}
}

func flip(key string) func(kv store.KV) []store.Op {
	return func(kv store.KV) []store.Op {
		p, err := kv.Get(context.Background(), key)
		if err != nil {
			panic(err)
		}
		b := append([]byte(nil), p.Value...)
		b[len(b)-1] ^= 1
		return []store.Op{store.Set(key, b)}
	}
}

// A manifest whose write arrives late, after the next compaction of the same leader, must not bring back a snapshot
// that is deleted.
func TestManifestOfLongAgo(t *testing.T) {
	shared := memory(t)
	kv := flaky.Wrap(shared)
	s, ses := lead(t, kv, "one", func(c *shardlog.LeadConfig) { c.CompactSegments = 4 })
	var once sync.Once
	kv.Hook(func(c flaky.Call) (f flaky.Fault) {
		for _, op := range c.Ops {
			if op.Verb.Writes() && op.Key == "snap/07/manifest" {
				once.Do(func() { f = flaky.Delay })
			}
		}
		return f
	})
	for n := uint64(0); s.Stats().Compactions < 3; n++ {
		commit(t, s, put("a", fmt.Sprint(n)))
	}
	r, _ := s.Get("a")
	if kv.Deliver() != 1 {
		t.Fatal("no manifest was held back")
	}
	destroy(t, shared, ses)
	next, _ := lead(t, shared, "two")
	want(t, next, "a", string(r.Value))
}

// A store that is closed under a shard ends it, and everybody is answered.
func TestStoreClosedUnderAShard(t *testing.T) {
	kv := flaky.Wrap(memory(t))
	s, _ := lead(t, kv, "one")
	if err := kv.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(within(t), put("a", "1")); !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("commit: %v, want ErrClosed", err)
	}
	<-s.Done()
	idle, _ := lead(t, flaky.Wrap(memory(t)), "one")
	if err := idle.Close(); err != nil {
		t.Fatal(err)
	}
	if err := idle.Fence(within(t)); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("fence of a closed shard: %v", err)
	}
}
