package faults_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/testkit"
)

// keptFor counts what the nodes keep for another one.
func (s *shelfTest) keptFor(node raysys.NodeID) (n int) {
	s.t.Helper()
	for _, o := range s.all() {
		if o.KeptFor == node {
			n++
		}
	}
	return n
}

// TestCopiesOfForgotten: what the caretaker of a dead node's object has copied while the last name of the object ends
// is freed: it does not stay for as long as the copies that the owner had asked for.
func TestCopiesOfForgotten(t *testing.T) {
	shelves(t, 3, func(s *shelfTest) {
		for round := range 20 {
			b := keptBlobs{fmt.Sprint("brief", round, "-"), 3, 300_000, 2}
			s.put("n1", b)
			s.Cluster().Delay(2, 3, 20*time.Millisecond, 0)
			s.Cluster().Kill(1)
			s.Advance(time.Duration(round) * 12 * time.Millisecond)
			s.forget(b)
			s.Cluster().Heal()
			s.Advance(10 * time.Second)
			for _, caretaker := range []raysys.NodeID{"n2", "n3"} {
				if n := s.keptFor(caretaker); n > 0 {
					s.t.Errorf("round %d: %d copies are kept for %s", round, n, caretaker)
				}
			}
			s.Cluster().Restart(1)
			s.Cluster().Ready()
		}
	})
}

// TestCopyInDoubt: a node that drained has left its copy to another one. The owner asks that one to keep it, and the
// answers are lost: the copy may be kept for the owner by now, and is freed with the object, or before.
func TestCopyInDoubt(t *testing.T) {
	shelves(t, 3, func(s *shelfTest) {
		c := s.Cluster()
		for round := range 5 { // where the leaders are decides whether the owner knows of the copy
			b := keptBlobs{fmt.Sprint("doubt", round, "-"), 1, 200_000, 2}
			s.put("n1", b)
			from, to := 2, 3 // which has the copy, and which gets it
			if !s.has("n2") {
				from, to = 3, 2
			}
			var asked, lost atomic.Bool
			c.Drop(1, func(f testkit.Frame) bool {
				switch {
				case f.From == "n1" && f.To == c.Name(to) && f.Kind == uint8(wire.KindKeep):
					asked.Store(true)
				case f.From == c.Name(to) && f.To == "n1" && f.Kind == uint8(wire.KindAnswer) && asked.Load():
					lost.Store(true)
					return true
				}
				return false
			})
			c.Drain(from)
			s.Advance(8 * time.Second) // the connection is made anew within 6 s
			if !lost.Load() {
				s.t.Fatal("no answer was lost: the owner did not ask")
			}
			c.Heal()
			s.forget(b)
			s.freed("forgotten")
			c.Restart(from)
			c.Ready()
		}
	})
}

// TestCopyOfDying: an owner dies while another node answers that it keeps a copy. What is kept is an orphan like any
// other, and no primary for ever.
func TestCopyOfDying(t *testing.T) {
	shelves(t, 3, func(s *shelfTest) {
		for round := range 25 {
			s.Cluster().StoreSlow(30 * time.Millisecond)
			r := keepBlobs.With(on("n1")).Go(s.Context(), keptBlobs{fmt.Sprint("dying", round, "-"), 1, 200_000, 2})
			s.Advance(time.Duration(round) * 8 * time.Millisecond)
			s.Cluster().Kill(1)
			s.Cluster().Heal()
			r.Release()
			s.Cluster().Restart(1)
			s.Cluster().Ready()
		}
		s.Advance(12 * time.Minute)
		for round := range 25 {
			_ = raysys.Forget(s.Context(), fmt.Sprint("dying", round, "-0")) // some were never named
		}
		s.Advance(12 * time.Minute)
		if left := slices.DeleteFunc(s.all(), func(o inspect.HeldObject) bool { return !o.Primary }); len(left) > 0 {
			s.t.Errorf("%d copies are kept, the first is %+v", len(left), left[0])
		}
	})
}

// TestCopiesOfThree: a node that drains asks a node to keep its copy that keeps one for the owner already. That one keeps
// it for the owner as before, and not for as long as what a node that is gone had.
func TestCopiesOfThree(t *testing.T) {
	const n, copies = 10, 3
	shelves(t, 4, func(s *shelfTest) {
		var all []raysys.Ref[[]byte]
		for i := range n {
			r := raysys.Put(s.Context(), blob{byte(i), 200_000}.make(), raysys.Replicas(copies))
			if _, err := r.Get(s.Context()); err != nil {
				s.t.Fatal(err)
			}
			all = append(all, r)
		}
		s.Cluster().Drain(1)
		s.Advance(12 * time.Minute)
		s.wants("after the drain", n, copies, 0)
		for _, o := range s.all() {
			if !o.Primary {
				s.t.Errorf("a copy that the owner counts may be evicted: %+v", o)
			}
		}
		for _, r := range all {
			r.Release()
		}
		s.freed("released")
	})
}

// has reports whether a node has an object.
func (s *shelfTest) has(node raysys.NodeID) bool {
	s.t.Helper()
	m, err := s.Cluster().Node(0).Memory(s.Context(), node, 10)
	if err != nil || len(m.Nodes) != 1 {
		s.t.Fatal(m, err)
	}
	return len(m.Nodes[0].Objects) > 0
}
