package shardlog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/raysys/raysys/internal/shardlog"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

// ledger is what clients know: what was acknowledged must be there, what was refused must not, the rest may be.
type ledger struct {
	acked map[string]string
	maybe map[string][]string
	never map[string][]string
}

func newLedger() *ledger {
	return &ledger{map[string]string{}, map[string][]string{}, map[string][]string{}}
}

// write commits a value and notes the answer. It returns whether the shard goes on.
func (l *ledger) write(t *testing.T, s *shardlog.Shard, key, value string) bool {
	_, err := s.Commit(within(t), put(key, value))
	switch {
	case err == nil:
		l.acked[key] = value
		l.maybe[key] = nil // what was unclear before is overwritten
	case errors.Is(err, store.ErrUnknownOutcome):
		l.maybe[key] = append(l.maybe[key], value)
	case errors.Is(err, shardlog.ErrDeposed), errors.Is(err, store.ErrClosed):
		l.never[key] = append(l.never[key], value)
	default:
		t.Fatalf("write %s=%s: %v", key, value, err)
	}
	return err == nil
}

// check compares a shard with what clients know.
func (l *ledger) check(t *testing.T, s *shardlog.Shard) {
	t.Helper()
	for _, key := range []string{"k0", "k1", "k2", "k3", "k4"} {
		r, ok := s.Get(key)
		got := string(r.Value)
		if ok == (l.acked[key] != "") && got == l.acked[key] {
			continue
		}
		unclear := false
		for _, v := range l.maybe[key] {
			unclear = unclear || v == got
		}
		if !unclear {
			t.Fatalf("%s is %q, acknowledged was %q, unclear %q, refused %q", key, got, l.acked[key], l.maybe[key], l.never[key])
		}
		l.acked[key] = got // it is decided now
		l.maybe[key] = nil
	}
}

// tidy waits until nothing lies in the store that no leader will read: a compaction may be under way.
func tidy(t *testing.T, kv store.KV) {
	t.Helper()
	waitFor(t, "one snapshot and one manifest", func() bool {
		keys, err := kv.Keys(within(t), "snap/07/")
		if err != nil {
			t.Fatal(err)
		}
		folders := map[string]bool{}
		for _, k := range keys {
			folder, _, _ := strings.Cut(strings.TrimPrefix(k, "snap/07/"), "/")
			folders[folder] = true
		}
		return len(folders) == 2
	})
}

// fault is what happens at one call of the leader, and possibly at the next.
type fault struct {
	name string
	at   func(kv *flaky.KV, shared *embedded.Store, session string, after int) flaky.Fault
}

func faultAt(f flaky.Fault) func(*flaky.KV, *embedded.Store, string, int) flaky.Fault {
	return func(_ *flaky.KV, _ *embedded.Store, _ string, after int) flaky.Fault {
		if after == 0 {
			return f
		}
		return flaky.None
	}
}

// deposeAfter has the leader's session end before the call after one with fault f.
func deposeAfter(f flaky.Fault) func(*flaky.KV, *embedded.Store, string, int) flaky.Fault {
	return func(_ *flaky.KV, shared *embedded.Store, session string, after int) flaky.Fault {
		switch after {
		case 0:
			return f
		case 1:
			_ = shared.Destroy(context.Background(), session)
		}
		return flaky.None
	}
}

var everyFault = []fault{
	{"deposed", func(_ *flaky.KV, shared *embedded.Store, session string, after int) flaky.Fault {
		if after == 0 {
			_ = shared.Destroy(context.Background(), session)
		}
		return flaky.None
	}},
	{"call lost", faultAt(flaky.LoseCall)},
	{"answer lost", faultAt(flaky.LoseAnswer)},
	{"call delayed", faultAt(flaky.Delay)},
	{"call lost, then deposed", deposeAfter(flaky.LoseCall)},
	{"answer lost, then deposed", deposeAfter(flaky.LoseAnswer)},
	{"call delayed, then deposed", deposeAfter(flaky.Delay)},
	{"down for five calls", func(_ *flaky.KV, _ *embedded.Store, _ string, after int) flaky.Fault {
		if after < 5 {
			return flaky.Refuse
		}
		return flaky.None
	}},
	{"five answers lost", func(_ *flaky.KV, _ *embedded.Store, _ string, after int) flaky.Fault {
		if after < 5 {
			return flaky.LoseAnswer
		}
		return flaky.None
	}},
	{"call delayed until the next", func(kv *flaky.KV, _ *embedded.Store, _ string, after int) flaky.Fault {
		switch after {
		case 0:
			return flaky.Delay
		case 1:
			kv.Deliver()
		}
		return flaky.None
	}},
}

// A leader that meets any fault at any of its calls, while it appends, snapshots, deletes or hands over: what was
// acknowledged is there, what was refused never is, also when changes arrive late, and the next leader clears up.
func TestEveryFaultAtEveryCall(t *testing.T) {
	calls := 75 // a run without faults makes at least 60
	step := long.Form(3, 1)
	for _, f := range everyFault {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for at := 1; at <= calls; at += step {
				meet(t, f, at)
			}
		})
	}
}

func meet(t *testing.T, f fault, at int) {
	t.Helper()
	shared := memory(t)
	defer shared.Close()
	kv := flaky.Wrap(shared)
	small := func(c *shardlog.LeadConfig) { c.CompactSegments = 6 }
	ses := session(t, shared)
	var mu sync.Mutex
	n := 0
	kv.Hook(func(flaky.Call) flaky.Fault {
		mu.Lock()
		n++
		after := n - at
		mu.Unlock()
		if after < 0 {
			return flaky.None
		}
		return f.at(kv, shared, ses, after)
	})
	l := newLedger()
	cfg := shardlog.LeadConfig{KV: kv, Shard: 7, Session: ses, Node: "one"}
	small(&cfg)
	if s, err := shardlog.Lead(within(t), cfg); err == nil {
		going := true
		for i := 0; i < 50 && going; i++ {
			going = l.write(t, s, fmt.Sprint("k", i%5), fmt.Sprint("one ", i))
		}
		if going {
			l.check(t, s)
			if at > 1000 {
				waitFor(t, "a compaction", func() bool { return s.Stats().Compactions > 0 })
				if n := kv.Calls(); n < 60 {
					t.Fatalf("a run makes %d calls: the test at every call meets less than it should", n)
				}
			}
		}
		if err := s.Release(within(t)); err != nil && !errors.Is(err, shardlog.ErrDeposed) {
			t.Fatalf("fault at call %d: release: %v", at, err)
		}
	}
	destroy(t, shared, ses)

	// The next leader finds what it must; late changes come in while it works.
	next, ses2 := lead(t, shared, "two", small)
	l.check(t, next)
	before := maps.Clone(l.acked)
	kv.Deliver()
	for i := range 15 {
		if !l.write(t, next, fmt.Sprint("k", i%5), fmt.Sprint("two ", i)) {
			t.Fatalf("fault at call %d: the next leader stumbles: %v", at, next.Err())
		}
	}
	if len(l.acked) < len(before) {
		t.Fatal("the ledger lost keys")
	}
	l.check(t, next)
	waitFor(t, "a compaction", func() bool { return next.Stats().Compactions > 0 })
	tidy(t, shared)
	destroy(t, shared, ses2)
	last, _ := lead(t, shared, "three", small)
	l.check(t, last)
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
}

// A run in which nothing happens makes all the calls at which the test above lets something happen.
func TestAFaultlessRunCompacts(t *testing.T) {
	meet(t, fault{"none", faultAt(flaky.None)}, 1<<20)
}
