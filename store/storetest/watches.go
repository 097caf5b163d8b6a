package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys/store"
)

type seen struct {
	pairs []store.Pair
	index uint64
	err   error
}

// watch begins a watch and returns where its outcome arrives.
func (s *suite) watch(ctx context.Context, prefix string, after uint64) <-chan seen {
	out := make(chan seen, 1)
	go func() {
		pairs, index, err := s.kv.Watch(ctx, prefix, after)
		out <- seen{pairs, index, err}
	}()
	return out
}

// await returns the watch's outcome.
func (s *suite) await(out <-chan seen) seen {
	s.Helper()
	select {
	case x := <-out:
		if x.err != nil {
			s.Fatal(x.err)
		}
		return x
	case <-time.After(patience):
		s.Fatalf("the watch did not wake within %v", patience)
		panic("unreachable")
	}
}

// follow watches on, past unchanged returns, until there are n pairs.
func (s *suite) follow(prefix string, after uint64, n int) seen {
	s.Helper()
	for {
		x := s.await(s.watch(s.ctx, prefix, after))
		if len(x.pairs) == n {
			return x
		}
		after = x.index
	}
}

func (s *suite) watchWakes() {
	s.txn(store.Set("nodes/a", nil))
	_, index := s.list("nodes/")
	if x := s.await(s.watch(s.ctx, "nodes/", 0)); len(x.pairs) != 1 || x.index == 0 {
		s.Fatalf("watch from 0: %+v, want what is there at once", x)
	}
	// A change between the list and the watch is not missed.
	s.txn(store.Set("nodes/b", nil))
	x := s.await(s.watch(s.ctx, "nodes/", index))
	if len(x.pairs) != 2 || x.index <= index {
		s.Fatalf("watch from %d: %+v", index, x)
	}
	for i := range 20 {
		out := s.watch(s.ctx, "nodes/", x.index)
		s.txn(store.Set("nodes/a", value(i)))
		next := s.await(out)
		if next.index <= x.index || string(next.pairs[0].Value) != string(value(i)) {
			s.Fatalf("change %d: %+v after index %d", i, next, x.index)
		}
		x = next
	}
}

func (s *suite) watchDeletion() {
	s.txn(store.Set("nodes/a", nil), store.Set("nodes/b", nil))
	_, index := s.list("nodes/")
	out := s.watch(s.ctx, "nodes/", index)
	s.txn(store.Delete("nodes/a"))
	x := s.await(out)
	if len(x.pairs) != 1 || x.pairs[0].Key != "nodes/b" {
		s.Fatalf("after a deletion: %+v", x)
	}
	// The last key goes while there is no watch.
	s.txn(store.DeleteTree("nodes/"))
	s.follow("nodes/", x.index, 0)
}

func (s *suite) watchSession() {
	ses := s.session("node")
	s.txn(store.Lock("nodes/a", nil, ses), store.Set("nodes/b", nil))
	_, index := s.list("nodes/")
	out := s.watch(s.ctx, "nodes/", index)
	s.destroy(ses)
	if x := s.await(out); len(x.pairs) != 1 || x.pairs[0].Key != "nodes/b" {
		s.Fatalf("after the session's end: %+v", x)
	}
}

// watchIsolation writes a log beside a watched prefix: the watch sleeps on (C13).
func (s *suite) watchIsolation() {
	s.txn(store.Set("leaders/00", nil), store.Set("log/00/0", nil))
	_, index := s.list("leaders/")
	out := s.watch(s.ctx, "leaders/", index)
	for i := range 200 {
		s.txn(store.Set(fmt.Sprintf("log/00/%d", i), value(i)))
	}
	s.txn(store.DeleteTree("log/"))
	select {
	case x := <-out:
		s.Fatalf("a watch of leaders/ woke for a change of log/: %+v, %v", x.pairs, x.err)
	default:
	}
	s.txn(store.Set("leaders/00", []byte("next")))
	if x := s.await(out); string(x.pairs[0].Value) != "next" {
		s.Fatalf("woke with %+v", x)
	}
}

// watchNothing watches a prefix without a key while others change: whether it wakes is the store's business, but the
// first key must wake it.
func (s *suite) watchNothing() {
	s.txn(store.Set("log/0", nil))
	pairs, index := s.list("nodes/")
	if len(pairs) != 0 || index == 0 {
		s.Fatalf("empty prefix: %d pairs at index %d", len(pairs), index)
	}
	out := make(chan seen, 1)
	go func() {
		for after := index; ; {
			pairs, index, err := s.kv.Watch(s.ctx, "nodes/", after)
			if len(pairs) > 0 || err != nil {
				out <- seen{pairs, index, err}
				return
			}
			after = index
		}
	}()
	for i := range 10 {
		s.txn(store.Set(fmt.Sprintf("log/%d", i), value(i)))
	}
	s.txn(store.Set("nodes/a", nil))
	if x := s.await(out); len(x.pairs) != 1 {
		s.Fatalf("woke with %+v", x)
	}
}

func (s *suite) watchEnds() {
	s.txn(store.Set("a", nil))
	_, index := s.list("a")
	ctx, cancel := context.WithCancelCause(s.ctx)
	out := s.watch(ctx, "a", index)
	why := errors.New("reason of its own")
	cancel(why)
	select {
	case x := <-out:
		if !errors.Is(x.err, why) {
			s.Fatalf("watch under an ended context: %v", x.err)
		}
	case <-time.After(patience):
		s.Fatal("the watch outlives its context")
	}
	kv := s.Open(s.T)
	closed := make(chan error, 1)
	go func() {
		_, _, err := kv.Watch(s.ctx, "a", index)
		closed <- err
	}()
	if err := kv.Close(); err != nil {
		s.Fatal(err)
	}
	select {
	case err := <-closed:
		if !errors.Is(err, store.ErrClosed) {
			s.Fatalf("watch of a closed store: %v, want ErrClosed", err)
		}
	case <-time.After(patience):
		s.Fatal("the watch outlives its store")
	}
}
