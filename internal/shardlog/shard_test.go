package shardlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

const patience = 30 * time.Second

func memory(t testing.TB) *embedded.Store {
	t.Helper()
	kv, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kv.Close() })
	return kv
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func session(t testing.TB, kv store.KV) string {
	t.Helper()
	id, err := kv.NewSession(t.Context(), t.Name(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// lead leads shard 7 under a session of its own.
func lead(t testing.TB, kv store.KV, node string, change ...func(*shardlog.LeadConfig)) (*shardlog.Shard, string) {
	t.Helper()
	cfg := shardlog.LeadConfig{KV: kv, Shard: 7, Session: session(t, kv), Node: node}
	for _, f := range change {
		f(&cfg)
	}
	s, err := shardlog.Lead(within(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, cfg.Session
}

func put(key, value string) shardlog.Batch {
	return shardlog.Batch{Puts: []shardlog.Put{{Key: key, Value: []byte(value)}}}
}

func commit(t testing.TB, s *shardlog.Shard, b shardlog.Batch) shardlog.Result {
	t.Helper()
	r, err := s.Commit(within(t), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func want(t testing.TB, s *shardlog.Shard, key, value string) shardlog.Record {
	t.Helper()
	r, ok := s.Get(key)
	if !ok || string(r.Value) != value {
		t.Fatalf("get %q = %q, %v, want %q", key, r.Value, ok, value)
	}
	return r
}

func destroy(t testing.TB, kv store.KV, session string) {
	t.Helper()
	if err := kv.Destroy(within(t), session); err != nil {
		t.Fatal(err)
	}
}

func TestShardCommitsAndReloads(t *testing.T) {
	kv := memory(t)
	s, ses := lead(t, kv, "one")
	r := commit(t, s, shardlog.Batch{Puts: []shardlog.Put{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}})
	if a := want(t, s, "a", "1"); a.Version != r.Version(0) || a.Version.Epoch != s.Epoch() || a.Version.IsZero() {
		t.Fatalf("a is at %v, the commit said %v", a.Version, r.Version(0))
	}
	if b := want(t, s, "b", "2"); b.Version != r.Version(1) || b.Version == r.Version(0) {
		t.Fatalf("b is at %v, the commit said %v", b.Version, r.Version(1))
	}
	commit(t, s, shardlog.Batch{Deletes: []string{"b"}, Puts: []shardlog.Put{{Key: "c"}}})
	again := commit(t, s, put("b", "3")).Version(0)
	destroy(t, kv, ses)

	next, _ := lead(t, kv, "two")
	if next.Epoch() <= s.Epoch() {
		t.Fatalf("epoch %d after %d", next.Epoch(), s.Epoch())
	}
	if a := want(t, next, "a", "1"); a.Version != r.Version(0) {
		t.Fatalf("a is at %v after a change of leader, before it was at %v", a.Version, r.Version(0))
	}
	if b := want(t, next, "b", "3"); b.Version != again {
		t.Fatalf("b is at %v after a change of leader, before it was at %v", b.Version, again)
	}
	want(t, next, "c", "")
	if v := commit(t, next, put("a", "4")).Version(0); !r.Version(0).Before(v) {
		t.Fatalf("version %v after %v", v, r.Version(0))
	}
	if next.Len() != 3 {
		t.Fatalf("%d records", next.Len())
	}
}

func TestShardConflicts(t *testing.T) {
	s, _ := lead(t, memory(t), "one")
	token := commit(t, s, shardlog.Batch{Checks: []shardlog.Check{{Key: "g/k/1"}}, Puts: []shardlog.Put{{Key: "g/k/1", Value: []byte("node a")}}}).Version(0)
	// A state commit is conditional on the activation's token and on the value's own version.
	etag := commit(t, s, shardlog.Batch{
		Checks: []shardlog.Check{{Key: "g/k/1", Version: token}, {Key: "s/k/1/x"}},
		Puts:   []shardlog.Put{{Key: "s/k/1/x", Value: []byte("1")}},
	}).Version(0)
	moved := commit(t, s, shardlog.Batch{Checks: []shardlog.Check{{Key: "g/k/1", Version: token}}, Puts: []shardlog.Put{{Key: "g/k/1", Value: []byte("node b")}}}).Version(0)
	_, err := s.Commit(within(t), shardlog.Batch{
		Checks: []shardlog.Check{{Key: "s/k/1/x", Version: etag}, {Key: "g/k/1", Version: token}},
		Puts:   []shardlog.Put{{Key: "s/k/1/x", Value: []byte("2")}}, Deletes: []string{"g/k/1"},
	})
	conflict, ok := errors.AsType[*shardlog.ConflictError](err)
	if !ok || !errors.Is(err, shardlog.ErrConflict) || conflict.Check.Key != "g/k/1" || conflict.Current.Version != moved || string(conflict.Current.Value) != "node b" {
		t.Fatalf("commit of an old activation: %v (%+v)", err, conflict)
	}
	want(t, s, "s/k/1/x", "1")
	want(t, s, "g/k/1", "node b")
	// Made again, it is not what it was.
	commit(t, s, shardlog.Batch{Deletes: []string{"g/k/1"}})
	commit(t, s, put("g/k/1", "node a"))
	if _, err := s.Commit(within(t), shardlog.Batch{Checks: []shardlog.Check{{Key: "g/k/1", Version: token}}}); !errors.Is(err, shardlog.ErrConflict) {
		t.Fatalf("check of a record that was deleted and made again: %v", err)
	}
}

func TestShardScan(t *testing.T) {
	s, _ := lead(t, memory(t), "one")
	var b shardlog.Batch
	for i := range 1000 {
		b.Puts = append(b.Puts, shardlog.Put{Key: fmt.Sprintf("g/%04d", i)}, shardlog.Put{Key: fmt.Sprintf("h/%04d", i)})
	}
	commit(t, s, b)
	var seen []string
	s.Scan("g/", func(key string, r shardlog.Record) bool {
		if len(seen)%100 == 0 { // commits go on during a scan
			commit(t, s, shardlog.Batch{Deletes: []string{key}, Puts: []shardlog.Put{{Key: "g/-"}}})
		}
		seen = append(seen, key)
		return true
	})
	if len(seen) != 1000 || !slices.IsSorted(seen) || seen[0] != "g/0000" || seen[999] != "g/0999" {
		t.Fatalf("%d keys from %q to %q", len(seen), seen[0], seen[len(seen)-1])
	}
	n := 0
	s.Scan("h/", func(string, shardlog.Record) bool { n++; return n < 300 })
	if n != 300 {
		t.Fatalf("the scan went on to %d", n)
	}
	s.Scan("i", func(key string, _ shardlog.Record) bool { t.Errorf("saw %q", key); return true })
}

func TestOneLeader(t *testing.T) {
	kv := memory(t)
	s, _ := lead(t, kv, "one")
	_, err := shardlog.Lead(within(t), shardlog.LeadConfig{KV: kv, Shard: 7, Session: session(t, kv), Node: "two"})
	e, ok := errors.AsType[*shardlog.NotLeaderError](err)
	if !ok || !errors.Is(err, shardlog.ErrNotLeader) || e.Leader.Node != "one" || e.Leader.Epoch != s.Epoch() || e.Leader.Shard != 7 {
		t.Fatalf("lead a shard that has a leader: %v", err)
	}
	pairs, _, err := kv.List(within(t), shardlog.LeadersPrefix, store.Consistent)
	if err != nil || len(pairs) != 1 {
		t.Fatal(pairs, err)
	}
	if l, err := shardlog.ParseLeader(pairs[0]); err != nil || l != e.Leader {
		t.Fatalf("parsed %+v, %v, want %+v", l, err, e.Leader)
	}
	gone := session(t, kv)
	destroy(t, kv, gone)
	if _, err := shardlog.Lead(within(t), shardlog.LeadConfig{KV: kv, Shard: 8, Session: gone, Node: "two"}); !errors.Is(err, store.ErrSessionGone) {
		t.Fatalf("lead under a session that is gone: %v", err)
	}
}

// A session may lead again what it led before: after a Close, which left the key, it gets a new epoch, and the old
// shard can neither write nor pass its fence.
func TestLeadAgainUnderTheSameSession(t *testing.T) {
	kv := memory(t)
	s, ses := lead(t, kv, "one")
	commit(t, s, put("a", "1"))
	next, err := shardlog.Lead(within(t), shardlog.LeadConfig{KV: kv, Shard: 7, Session: ses, Node: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if next.Epoch() <= s.Epoch() {
		t.Fatalf("epoch %d after %d", next.Epoch(), s.Epoch())
	}
	want(t, next, "a", "1")
	if err := s.Fence(within(t)); !errors.Is(err, shardlog.ErrDeposed) {
		t.Fatalf("fence of the shard before: %v, want ErrDeposed", err)
	}
	if err := next.Fence(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestDeposed(t *testing.T) {
	kv := memory(t)
	s, ses := lead(t, kv, "one")
	commit(t, s, put("a", "1"))
	destroy(t, kv, ses)
	next, _ := lead(t, kv, "two")
	commit(t, next, put("a", "2"))
	if _, err := s.Commit(within(t), put("a", "3")); !errors.Is(err, shardlog.ErrDeposed) || errors.Is(err, shardlog.ErrReleased) {
		t.Fatalf("commit by a deposed leader: %v", err)
	}
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("a deposed shard is not done")
	}
	if !errors.Is(s.Err(), shardlog.ErrDeposed) {
		t.Fatal(s.Err())
	}
	if err := s.Propose(put("a", "3"), func(shardlog.Result, error) { t.Error("done was called") }); !errors.Is(err, shardlog.ErrDeposed) {
		t.Fatal(err)
	}
	want(t, next, "a", "2")

	// A refusal, too, is only said by who leads: what it was judged against may be old.
	s3, ses3 := lead(t, kv, "three", func(c *shardlog.LeadConfig) { c.Shard = 9 })
	commit(t, s3, put("a", "1"))
	destroy(t, kv, ses3)
	if _, err := s3.Commit(within(t), shardlog.Batch{Checks: []shardlog.Check{{Key: "a"}}}); !errors.Is(err, shardlog.ErrDeposed) {
		t.Fatalf("conflict said by a deposed leader: %v", err)
	}
}

func TestRelease(t *testing.T) {
	kv := flaky.Wrap(memory(t))
	s, _ := lead(t, kv, "one")
	// Hold the first commit back, so that others wait when the shard is released: they are still committed.
	entered, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Writes() {
			once.Do(func() { close(entered); <-gate })
		}
		return flaky.None
	})
	errs := make(chan error, 20)
	for i := range cap(errs) {
		if err := s.Propose(put(fmt.Sprint(i), "x"), func(_ shardlog.Result, err error) { errs <- err }); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	released := make(chan error, 1)
	go func() { released <- s.Release(within(t)) }()
	waitFor(t, "the release to refuse proposals", func() bool {
		err := s.Propose(shardlog.Batch{}, func(shardlog.Result, error) {})
		return errors.Is(err, shardlog.ErrReleased) && errors.Is(err, shardlog.ErrDeposed)
	})
	close(gate)
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(s.Err(), shardlog.ErrReleased) {
		t.Fatal(s.Err())
	}
	next, _ := lead(t, kv, "two")
	if next.Len() != cap(errs) || next.Epoch() <= s.Epoch() {
		t.Fatalf("%d records, epoch %d after %d", next.Len(), next.Epoch(), s.Epoch())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReleaseGivesUp(t *testing.T) {
	kv := flaky.Wrap(memory(t))
	s, _ := lead(t, kv, "one")
	kv.Down(true)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more time")
	kv.Hook(nil)
	done := make(chan error, 1)
	if err := s.Propose(put("a", "1"), func(_ shardlog.Result, err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if err := s.Release(ctx); !errors.Is(err, why) {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("a proposal that never left: %v", err)
	}
}

// While one segment is on its way everything else goes into the next.
func TestGroupCommit(t *testing.T) {
	kv := flaky.Wrap(memory(t))
	s, _ := lead(t, kv, "one")
	entered, gate := make(chan struct{}, 100), make(chan struct{})
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Writes() {
			entered <- struct{}{}
			<-gate
		}
		return flaky.None
	})
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	propose := func(i int) {
		wg.Add(1)
		err := s.Propose(put(fmt.Sprint("k", i), "x"), func(_ shardlog.Result, err error) {
			defer wg.Done()
			if err != nil {
				t.Error(err)
			}
			if _, ok := s.Get(fmt.Sprint("k", i)); !ok {
				t.Errorf("proposal %d is answered and cannot be read", i)
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	propose(0)
	<-entered
	before := s.Stats().Commits
	const n = 5000
	for i := 1; i < n; i++ {
		propose(i)
	}
	if _, ok := s.Get("k0"); ok {
		t.Error("a record is visible before it is committed")
	}
	close(gate)
	wg.Wait()
	if !slices.IsSorted(order) || len(order) != n {
		t.Error("answers came out of order")
	}
	// Stats count a commit after its answers.
	if commits := s.Stats().Commits - before; commits > 2 {
		t.Errorf("%d segments for %d proposals that waited together", commits, n)
	}
}

func TestOverload(t *testing.T) {
	kv := flaky.Wrap(memory(t))
	s, _ := lead(t, kv, "one", func(c *shardlog.LeadConfig) { c.MaxQueue = 10; c.MaxQueueBytes = 100 << 10 })
	kv.Down(true)
	answers := make(chan error, 20)
	done := func(_ shardlog.Result, err error) { answers <- err }
	for i := range 10 {
		if err := s.Propose(put(fmt.Sprint(i), "x"), done); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Propose(put("x", "x"), done); !errors.Is(err, raysys.ErrOverloaded) || !raysys.Retriable(err) {
		t.Fatalf("proposal beyond the queue: %v, want ErrOverloaded", err)
	}
	kv.Down(false)
	for range 10 {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	kv.Down(true)
	if err := s.Propose(put("big", strings.Repeat("x", 90<<10)), done); err != nil {
		t.Fatal(err)
	}
	if err := s.Propose(put("big", strings.Repeat("x", 90<<10)), done); !errors.Is(err, raysys.ErrOverloaded) {
		t.Fatalf("bytes beyond the queue: %v, want ErrOverloaded", err)
	}
	kv.Down(false)
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
}

func TestTooLarge(t *testing.T) {
	kv := memory(t)
	s, ses := lead(t, kv, "one")
	full := make([]byte, shardlog.MaxValueBytes)
	for i := range full {
		full[i] = byte(i * i >> 7)
	}
	commit(t, s, shardlog.Batch{Puts: []shardlog.Put{{Key: "a", Value: full}}})
	for _, b := range []shardlog.Batch{
		{Puts: []shardlog.Put{{Key: "b", Value: append(full, 1)}}},
		{Puts: []shardlog.Put{{Key: "b", Value: full}, {Key: "c", Value: full}}},
	} {
		if _, err := s.Commit(within(t), b); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("batch of %d puts: %v, want ErrTooLarge", len(b.Puts), err)
		}
	}
	for _, b := range []shardlog.Batch{put("", "x"), {Deletes: []string{""}}, {Checks: []shardlog.Check{{}}}, put(strings.Repeat("k", 5000), "")} {
		if _, err := s.Commit(within(t), b); !errors.Is(err, store.ErrBadKey) {
			t.Errorf("%+.40v: %v, want ErrBadKey", b, err)
		}
	}
	destroy(t, kv, ses)
	next, _ := lead(t, kv, "two")
	if r, _ := next.Get("a"); !bytes.Equal(r.Value, full) {
		t.Error("the largest value did not come back")
	}
}
