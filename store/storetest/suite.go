package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys/store"
)

// patience bounds every wait of a test that should not wait at all.
const patience = 60 * time.Second

// Backend is the store under test.
type Backend struct {
	// Open returns an empty KV that the test closes. Several calls in one test return the same data.
	Open func(t *testing.T) store.KV
	// TTL is the shortest time to live that a session may have. Within TTL and Gone a session that is not renewed has ended.
	TTL, Gone time.Duration
}

// Run runs the suite, its parts in parallel. Each part opens a store of its own.
func Run(t *testing.T, open func(t *testing.T) Backend) {
	for _, part := range []struct {
		name string
		test func(*suite)
	}{
		{"Pairs", (*suite).pairs},
		{"ListsInOrder", (*suite).lists},
		{"EachVerb", (*suite).verbs},
		{"AllOrNothing", (*suite).allOrNothing},
		{"SameValueIsNoChange", (*suite).sameValue},
		{"Limits", (*suite).limits},
		{"BadKeys", (*suite).badKeys},
		{"EpochsGrow", (*suite).epochs},
		{"Fencing", (*suite).fencing},
		{"OneWinner", (*suite).oneWinner},
		{"Counter", (*suite).counter},
		{"SessionTakesItsKeys", (*suite).sessionKeys},
		{"SessionExpires", (*suite).expiry},
		{"RenewedSessionStays", (*suite).renewal},
		{"WatchWakes", (*suite).watchWakes},
		{"WatchSeesDeletion", (*suite).watchDeletion},
		{"WatchSeesSessionEnd", (*suite).watchSession},
		{"WatchIsolation", (*suite).watchIsolation},
		{"WatchOfNothing", (*suite).watchNothing},
		{"WatchEnds", (*suite).watchEnds},
		{"EndedContext", (*suite).endedContext},
		{"Closed", (*suite).closed},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience+b.TTL+b.Gone)
			t.Cleanup(cancel)
			part.test(&suite{t, b, b.Open(t), ctx})
		})
	}
}

type suite struct {
	*testing.T
	Backend
	kv  store.KV
	ctx context.Context
}

func (s *suite) txn(ops ...store.Op) []store.Pair {
	s.Helper()
	pairs, err := s.kv.Txn(s.ctx, ops)
	if err != nil {
		s.Fatalf("%v: %v", ops, err)
	}
	if len(pairs) != len(ops) {
		s.Fatalf("%v: %d pairs for %d operations", ops, len(pairs), len(ops))
	}
	for i, p := range pairs {
		if p.Key != ops[i].Key {
			s.Fatalf("%v: pair %d is of key %q", ops, i, p.Key)
		}
	}
	return pairs
}

// refused runs a transaction whose operation number at must be refused.
func (s *suite) refused(at int, ops ...store.Op) {
	s.Helper()
	_, err := s.kv.Txn(s.ctx, ops)
	r, ok := errors.AsType[*store.RefusedError](err)
	if !ok || !errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrUnknownOutcome) {
		s.Fatalf("%v: %v, want a RefusedError", ops, err)
	}
	if r.Index != at || r.Op.Verb != ops[at].Verb || r.Op.Key != ops[at].Key || r.Why == "" {
		s.Fatalf("%v: refused operation %d, %v (%s), want %d", ops, r.Index, r.Op, r.Why, at)
	}
}

func (s *suite) get(key string) store.Pair {
	s.Helper()
	p, err := s.kv.Get(s.ctx, key)
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *suite) absent(key string) {
	s.Helper()
	if p, err := s.kv.Get(s.ctx, key); !errors.Is(err, store.ErrNotFound) {
		s.Fatalf("get %s = %+v, %v, want ErrNotFound", key, p, err)
	}
}

func (s *suite) list(prefix string) ([]store.Pair, uint64) {
	s.Helper()
	pairs, index, err := s.kv.List(s.ctx, prefix, store.Consistent)
	if err != nil {
		s.Fatal(err)
	}
	return pairs, index
}

func (s *suite) session(name string) string {
	s.Helper()
	id, err := s.kv.NewSession(s.ctx, name, s.TTL)
	if err != nil {
		s.Fatal(err)
	}
	// It must not outlive the test on a server that others use.
	s.Cleanup(func() { _ = s.kv.Destroy(context.WithoutCancel(s.ctx), id) })
	return id
}

func (s *suite) destroy(session string) {
	s.Helper()
	if err := s.kv.Destroy(s.ctx, session); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) same(got, want store.Pair) {
	s.Helper()
	if got.Key != want.Key || !bytes.Equal(got.Value, want.Value) || got.Create != want.Create || got.Modify != want.Modify || got.Session != want.Session {
		s.Fatalf("got %+v, want %+v", got, want)
	}
}

func keysOf(pairs []store.Pair) []string {
	keys := make([]string, len(pairs))
	for i, p := range pairs {
		keys[i] = p.Key
	}
	return keys
}

func value(i int) []byte { return fmt.Appendf(nil, "value %d", i) }

func (s *suite) wantKeys(prefix string, want ...string) {
	s.Helper()
	pairs, _ := s.list(prefix)
	if got := keysOf(pairs); !slices.Equal(got, want) {
		s.Fatalf("list %q = %q, want %q", prefix, got, want)
	}
	keys, err := s.kv.Keys(s.ctx, prefix)
	if err != nil || !slices.Equal(keys, want) {
		s.Fatalf("keys %q = %q, %v, want %q", prefix, keys, err, want)
	}
}
