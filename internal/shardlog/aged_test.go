package shardlog_test

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
)

// segments counts the keys of shard 7's log.
func segments(t *testing.T, kv store.KV) int {
	t.Helper()
	keys, err := kv.Keys(within(t), "log/07/")
	if err != nil {
		t.Fatal(err)
	}
	return len(keys)
}

// uncompacted is a leader whose log only grows.
func uncompacted(c *shardlog.LeadConfig) { c.CompactAt, c.CompactSegments = 1<<40, 1<<30 }

// TestSmallSegmentsAreCompacted: a log of few bytes is compacted by the number of its segments, since the next leader reads
// them one by one.
func TestSmallSegmentsAreCompacted(t *testing.T) {
	kv := memory(t)
	s, _ := lead(t, kv, "one")
	for i := range 2000 {
		commit(t, s, put("a", fmt.Sprint(i)))
	}
	waitFor(t, "no more than 256 segments to replay", func() bool { return s.Stats().LogSegments <= 256 && segments(t, kv) <= 256 })
	// A segment for each of 2000 commits, and no more snapshots than that takes.
	if n := s.Stats().Compactions; n > 2000/256 {
		t.Errorf("%d compactions for 2000 commits: each costs a snapshot", n)
	}
}

// TestRestingShardIsCompacted: while a shard with a large snapshot is written to, its log may be longer than 256 segments; at
// rest it may not.
func TestRestingShardIsCompacted(t *testing.T) {
	shardlog.Warm()
	synctest.Test(t, func(t *testing.T) {
		kv := memory(t)
		s, _ := lead(t, kv, "one")
		defer kv.Close()
		defer s.Close()
		value := make([]byte, 100<<10)
		for i := range 40 { // 4 MiB allow 1000 segments
			_, _ = rand.Read(value)
			commit(t, s, put(fmt.Sprint("large ", i), string(value)))
		}
		for i := range 300 {
			commit(t, s, put("a", fmt.Sprint(i)))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		made := s.Stats().Compactions
		if st := s.Stats(); st.LogSegments > 256 {
			t.Fatalf("a shard at rest has a log of %d segments", st.LogSegments)
		}
		for i := range 600 {
			commit(t, s, put("a", fmt.Sprint(i)))
			synctest.Wait()
		}
		if n := s.Stats().Compactions; n != made {
			t.Errorf("%d snapshots of 4 MiB for 600 small commits: compaction costs more than what it saves", n-made)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if st := s.Stats(); st.LogSegments > 256 {
			t.Errorf("after a minute without a commit the log has %d segments", st.LogSegments)
		}
	})
}

// TestNextLeaderDeletesTheRest: a leader that ends after it wrote a snapshot and before it deleted what that replaces leaves
// segments behind that count in no figure of the next one, which deletes them.
func TestNextLeaderDeletesTheRest(t *testing.T) {
	shardlog.Warm()
	synctest.Test(t, func(t *testing.T) {
		kv := memory(t)
		defer kv.Close()
		sick := flaky.Wrap(kv)
		sick.Hook(func(c flaky.Call) flaky.Fault {
			for _, op := range c.Ops {
				if op.Verb == store.VerbDelete {
					return flaky.Refuse
				}
			}
			return flaky.None
		})
		one, session := lead(t, sick, "one")
		for i := range 300 {
			commit(t, one, put("a", fmt.Sprint(i)))
			synctest.Wait()
		}
		if all, live := segments(t, kv), one.Stats().LogSegments; all < 300 || live > 256 {
			t.Fatalf("of %d segments the snapshot lacks %d: want one that replaces some, which stay", all, live)
		}
		destroy(t, kv, session)
		one.Close()
		two, _ := lead(t, kv, "two")
		defer two.Close()
		<-time.After(time.Minute)
		synctest.Wait()
		if all, live := segments(t, kv), two.Stats().LogSegments; all != live {
			t.Errorf("a minute after the next leader began there are %d segments, and the snapshot lacks %d of them", all, live)
		}
	})
}

// TestLoadReadsAhead: the reads of a long log of small segments go out together; those of one of large segments do not, so
// that a log which was not compacted for long is loaded in the memory of a few. The next leader compacts it.
func TestLoadReadsAhead(t *testing.T) {
	for _, c := range []struct {
		name         string
		count, bytes int
		together     int // reads that must be under way at the same time
	}{
		{"small", 2000, 10, 4}, {"large", 200, 100 << 10, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared := memory(t)
			old, ses := lead(t, shared, "one", uncompacted)
			value := make([]byte, c.bytes)
			for i := range c.count {
				_, _ = rand.Read(value)
				commit(t, old, put(fmt.Sprint("k", i%7), string(value)))
			}
			last, _ := old.Get("k1")
			destroy(t, shared, ses)

			var mu sync.Mutex
			reading, most, reads := 0, 0, 0
			full := make(chan struct{}) // closed when so many read at the same time
			kv := flaky.Wrap(shared)
			kv.Hook(func(call flaky.Call) flaky.Fault {
				if len(call.Ops) == 0 || call.Ops[0].Verb != store.VerbRead || call.Ops[0].Key < "log/" || call.Ops[0].Key > "log0" {
					return flaky.None
				}
				mu.Lock()
				reading++
				reads++
				if most = max(most, reading); most == c.together && reads > 1 {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				first := reads == 1
				mu.Unlock()
				if !first { // the first read shows how large the segments are
					select {
					case <-full:
					case <-time.After(patience):
						t.Errorf("reads of a long log wait for each other: %d at the same time, want %d", most, c.together)
					}
				}
				mu.Lock()
				reading--
				mu.Unlock()
				return flaky.None
			})
			s, ses2 := lead(t, kv, "two")
			want(t, s, "k1", string(last.Value))
			if most != c.together {
				t.Errorf("%d reads of %d segments of %d bytes were under way at the same time, want %d", most, store.MaxTxnOps, c.bytes, c.together)
			}
			if c.together == 1 && reads != 4 { // one more would have been of what is not there
				t.Errorf("%d reads for the log of %d large segments, want 4, one after the other", reads, c.count)
			}
			waitFor(t, "the next leader's compaction", func() bool { return segments(t, shared) <= 256 })
			destroy(t, shared, ses2)
			next, _ := lead(t, shared, "three")
			want(t, next, "k1", string(last.Value))
		})
	}
}
