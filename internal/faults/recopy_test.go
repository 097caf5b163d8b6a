package faults_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// keptBlobs are blobs under names that begin so, each with so many copies.
type keptBlobs struct {
	Name   string
	N      int
	Size   int
	Copies int
}

func (b keptBlobs) name(i int) string { return fmt.Sprint(b.Name, i) }

func (b keptBlobs) blob(i int) blob { return blob{byte(i + 1), b.Size + i} }

// keepBlobs puts the blobs on the node that it runs on.
var keepBlobs = tasks.Define("faults.keepBlobs", func(ctx context.Context, b keptBlobs) (bool, error) {
	for i := range b.N {
		if _, err := raysys.Put(ctx, b.blob(i).make(), raysys.Named(b.name(i)), raysys.Replicas(b.Copies)).Get(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
})

// shelfTest is a cluster whose kept objects a test counts.
type shelfTest struct {
	*testkit.Kit
	t testing.TB
}

// put puts the blobs on a worker.
func (s *shelfTest) put(node string, b keptBlobs) {
	s.t.Helper()
	if _, err := keepBlobs.With(on(node)).Go(s.Context(), b).Get(s.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// all lists what the nodes that are up have, but for references without bytes.
func (s *shelfTest) all() (list []inspect.HeldObject) {
	s.t.Helper()
	for range 2 { // what is collected is freed at the next tick, elsewhere too
		runtime.GC()
		s.Advance(time.Second)
	}
	for i := range s.Cluster().Size() + 1 {
		n := s.Cluster().Node(i)
		if n == nil {
			continue
		}
		m, err := n.Memory(context.Background(), n.Name(), 1000)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, at := range m.Nodes {
			list = append(list, slices.DeleteFunc(at.Objects, func(o inspect.HeldObject) bool { return len(o.Forms) == 0 })...)
		}
	}
	return list
}

// wants checks that each object has so many copies, and that nodes say that so many replicas are missing, in all.
func (s *shelfTest) wants(when string, objects, copies, missing int) {
	s.t.Helper()
	have, short := map[string]int{}, 0
	for _, o := range s.all() {
		have[o.ID]++
		short += o.Missing
	}
	if len(have) != objects {
		s.t.Errorf("%s: %d objects, want %d", when, len(have), objects)
	}
	for id, n := range have {
		if n != copies {
			s.t.Errorf("%s: object %s has %d copies, want %d", when, id, n, copies)
		}
	}
	if short != missing {
		s.t.Errorf("%s: list objects says that %d replicas are missing, want %d", when, short, missing)
	}
}

// freed wants all to be freed within less than the time for which copies of a dead node's objects stay.
func (s *shelfTest) freed(when string) {
	s.t.Helper()
	var left []inspect.HeldObject
	for range 60 {
		if left = s.all(); len(left) == 0 {
			return
		}
	}
	s.t.Errorf("%s: %d objects are left, the first is %+v", when, len(left), left[0])
}

// read checks the bytes of the blobs.
func (s *shelfTest) read(b keptBlobs) {
	s.t.Helper()
	for i := range b.N {
		got, err := raysys.Lookup[[]byte](s.Context(), b.name(i)).Get(s.Context())
		if err == nil {
			err = b.blob(i).is(got)
		}
		if err != nil {
			s.t.Errorf("%s: %v", b.name(i), err)
		}
	}
}

// forget frees the blobs.
func (s *shelfTest) forget(b keptBlobs) {
	s.t.Helper()
	for i := range b.N {
		if err := raysys.Forget(s.Context(), b.name(i)); err != nil {
			s.t.Error(err)
		}
	}
}

// shelves runs a test of kept objects in virtual time.
func shelves(t *testing.T, nodes int, f func(s *shelfTest), opts ...testkit.Option) {
	testkit.Virtual(t, func(k *testkit.Kit) { f(&shelfTest{k, k.T()}) }, append([]testkit.Option{testkit.Nodes(nodes), testkit.CPU(2), labelled(system.ObjectConfig{})}, opts...)...)
}

// TestCopiesMadeAgain: an object has as many copies as Replicas asks for again after each death of a node that kept one, also where most
// objects are in files of a node whose memory is short.
func TestCopiesMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		blobs keptBlobs
		o     system.ObjectConfig
	}{
		{"small", keptBlobs{"small", 1, 100, 2}, system.ObjectConfig{}},
		{"large", keptBlobs{"large", 1, 1 << 20, 2}, system.ObjectConfig{}},
		{"spilled", keptBlobs{"spilled", 12, 1 << 20, 2}, system.ObjectConfig{Memory: 4 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			spill := func(i int, cfg *system.Config) { cfg.Objects.Spill = fmt.Sprint(dir, "/", i) }
			shelves(t, 3, func(s *shelfTest) {
				s.put("n1", c.blobs)
				for range 2 {
					for _, i := range []int{2, 3} {
						s.Cluster().Kill(i)
						s.Advance(time.Minute)
						s.wants(fmt.Sprint("after the death of n", i), c.blobs.N, 2, 0)
						s.Cluster().Restart(i)
						s.Cluster().Ready()
						s.Advance(11 * time.Minute)
						s.wants(fmt.Sprint("n", i, " is back"), c.blobs.N, 2, 0)
					}
				}
				s.read(c.blobs)
				s.forget(c.blobs)
				s.freed("forgotten")
			}, labelled(c.o, spill))
		})
	}
}

// TestCopiesOfReference: the same of an object without a name, whose owner lives. One that drains leaves its copy to another node, which the
// owner frees with the object.
func TestCopiesOfReference(t *testing.T) {
	shelves(t, 3, func(s *shelfTest) {
		ctx, c := s.Context(), s.Cluster()
		r := raysys.Put(ctx, blob{1, 200_000}.make(), raysys.Replicas(2))
		if _, err := r.Get(ctx); err != nil {
			s.t.Fatal(err)
		}
		for i := 1; i <= 3; i++ {
			c.Drain(i)
			s.Advance(time.Minute)
			s.wants("after a drain", 1, 2, 0)
			c.Restart(i)
			c.Ready()
		}
		for i := 1; i <= 3; i++ {
			c.Kill(i)
			s.Advance(time.Minute)
			s.wants("after a death", 1, 2, 0)
			c.Restart(i)
			c.Ready()
		}
		r.Release()
		s.freed("released")
	})
}

// TestCopiesAfterOwner: of an object with a name a node that keeps a copy sees to the copies once the owner is dead, and then another one,
// also where two nodes die at once.
func TestCopiesAfterOwner(t *testing.T) {
	b := keptBlobs{"orphan", 3, 100_000, 3}
	shelves(t, 5, func(s *shelfTest) {
		s.put("n1", b)
		for _, dead := range [][]int{{1}, {2, 3}, {4, 5}, {1, 2}} {
			for _, i := range dead {
				s.Cluster().Kill(i)
			}
			s.Advance(2 * time.Minute)
			s.wants(fmt.Sprint("without ", dead), b.N, 3, 0)
			for _, i := range dead {
				s.Cluster().Restart(i)
			}
			s.Cluster().Ready()
			s.Advance(11 * time.Minute)
			s.wants(fmt.Sprint(dead, " are back"), b.N, 3, 0)
		}
		s.read(b)
		s.forget(b)
		s.freed("forgotten")
		s.put("n1", b)
		s.Cluster().Kill(1)
		s.Advance(2 * time.Minute)
		s.forget(b) // references of other nodes may still find the copies
		s.Advance(11 * time.Minute)
		if left := slices.DeleteFunc(s.all(), func(o inspect.HeldObject) bool { return !o.Primary }); len(left) > 0 {
			s.t.Errorf("forgotten soon after the death: %d copies are kept, the first is %+v", len(left), left[0])
		}
	})
}

// TestCopiesWithoutRoom: where no node is left that takes a copy, the node says so in one line for all objects, and list objects says what is
// missing, until a node joins. A driver keeps none.
func TestCopiesWithoutRoom(t *testing.T) {
	b := keptBlobs{"lone", 30, 70_000, 2}
	core, seen := observer.New(zapcore.InfoLevel)
	shelves(t, 2, func(s *shelfTest) {
		lines := func(part string) int {
			return seen.Filter(func(e observer.LoggedEntry) bool {
				return e.Message == part
			}).Len()
		}
		const few, enough = "objects have fewer copies than Replicas asks for, and are lost with the last; tried again", "objects have as many copies as Replicas asks for again"
		s.put("n1", b)
		s.wants("at first", b.N, 2, 0)
		s.Cluster().Kill(2)
		s.Advance(5 * time.Minute)
		s.wants("without n2", b.N, 1, b.N)
		if n := lines(few); n != 1 || lines(enough) != 0 {
			t.Errorf("%d lines say that copies are missing, %d that they are there, want 1 and 0", n, lines(enough))
		}
		s.Cluster().Restart(2)
		s.Cluster().Ready()
		s.Advance(20 * time.Second)
		s.wants("n2 is back", b.N, 2, 0)
		if n := lines(enough); n != 1 {
			t.Errorf("%d lines say that all copies are there, want 1", n)
		}
		s.read(b)
	}, labelled(system.ObjectConfig{}, func(i int, cfg *system.Config) {
		if i == 1 {
			cfg.Logger = zap.New(core)
		}
	}))
}

// TestCopiesOfDeleted: an object that goes while a copy of it is made leaves none.
func TestCopiesOfDeleted(t *testing.T) {
	shelves(t, 3, func(s *shelfTest) {
		for round := range 20 {
			b := keptBlobs{fmt.Sprint("brief", round, "-"), 3, 300_000, 2}
			s.put("n1", b)
			s.Cluster().Delay(1, 2, 20*time.Millisecond, 0)
			s.Cluster().Delay(1, 3, 20*time.Millisecond, 0)
			s.Cluster().Kill(2 + round%2)
			s.Advance(time.Duration(round) * 12 * time.Millisecond)
			s.forget(b)
			s.Cluster().Heal()
			s.freed("forgotten")
			s.Cluster().Restart(2 + round%2)
			s.Cluster().Ready()
		}
	})
}
