package collective_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// story is what the ranks of a fault test report; they run in the test's process.
type story struct {
	mu     sync.Mutex
	nodes  map[int]raysys.NodeID // where a rank was last
	rounds map[int]int
	errs   []error
	killed bool
	moved  chan struct{} // capacity 1: something was written
}

var stories sync.Map // key -> *story

func newStory(t *testing.T) *story {
	s := &story{nodes: map[int]raysys.NodeID{}, rounds: map[int]int{}, moved: make(chan struct{}, 1)}
	stories.Store(t.Name(), s)
	t.Cleanup(func() { stories.Delete(t.Name()) })
	return s
}

func (s *story) write(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.moved <- struct{}{}:
	default:
	}
}

// until waits for a fact of the story.
func (s *story) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		s.mu.Lock()
		done := cond()
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-s.moved:
		case <-limit.C:
			t.Fatalf("never: %s; errors so far: %v", what, s.errs)
		}
	}
}

// apart spreads ranks over the nodes that hold them, roomy, which the test's own is not.
var (
	roomy = testkit.Each(func(i int, cfg *system.Config) { cfg.Resources.CPU = 1 + 15*float64(min(i, 1)) })
	apart = []raysys.Option{raysys.CPU(2), raysys.Placement(raysys.Spread)}
)

const storyRounds = 10

// persist is a rank that joins again until it has seen storyRounds rounds in one epoch after the kill. Every result is
// checked.
var persist = tasks.Define3("collective_test.persist", func(ctx context.Context, key string, rank, size int) (int, error) {
	v, ok := stories.Load(key)
	if !ok {
		return 0, errors.New("the test is over")
	}
	s := v.(*story)
	turn, _, err := core.TurnOf(ctx)
	if err != nil {
		return 0, err
	}
	s.write(func() { s.nodes[rank] = turn.Job().Node })
	for epoch := 1; ; epoch++ {
		err := func() error {
			m, err := floats.Join(ctx, key, rank, size)
			if err != nil {
				return err
			}
			defer m.Leave()
			for i := 0; ; i++ {
				n := []int{3, 20_000, 140_000}[i%3]
				got, err := m.AllReduce(ctx, vector(rank, n), collective.Sum)
				if err != nil {
					return err
				}
				if err := equal(got, total(size, n)); err != nil {
					return fmt.Errorf("wrong result: %w", err)
				}
				var stop float64
				s.write(func() {
					s.rounds[rank]++
					if s.killed && i >= storyRounds {
						stop = 1
					}
				})
				if all, err := m.AllReduce(ctx, []float64{stop}, collective.Min); err != nil || all[0] == 1 {
					return err
				}
			}
		}()
		if err == nil {
			return epoch, nil
		}
		s.write(func() { s.errs = append(s.errs, err) })
		if e := (*collective.RoundError)(nil); !errors.As(err, &e) || ctx.Err() != nil {
			return epoch, err
		}
	}
})

// TestKilledRank kills a node in the middle of the rounds. The others hear which rank it was and join again, with the
// rank that the runtime starts anew elsewhere.
func TestKilledRank(t *testing.T) {
	const size = 4
	k := testkit.New(t, testkit.Nodes(4), roomy)
	ctx := k.Context()
	s := newStory(t)
	var refs []raysys.Ref[int]
	for rank := range size {
		refs = append(refs, persist.With(apart...).Go(ctx, t.Name(), rank, size))
	}
	s.until(t, "all ranks are in the rounds", func() bool { return len(s.rounds) == size && s.rounds[3] > 2 })
	s.mu.Lock()
	lost := map[int]bool{}
	node := s.nodes[3]
	for rank, n := range s.nodes {
		lost[rank] = n == node
	}
	s.mu.Unlock()
	for i := 1; i <= k.Cluster().Size(); i++ {
		if k.Cluster().Name(i) == node {
			k.Cluster().Kill(i)
		}
	}
	s.write(func() { s.killed = true })
	for rank, o := range raysys.GetAll(ctx, refs) {
		if o.Err != nil {
			t.Errorf("rank %d: %v", rank, o.Err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) == 0 {
		t.Error("nobody noticed the death of a rank")
	}
	named := false
	for _, err := range s.errs {
		e := (*collective.RoundError)(nil)
		// Its successor may have been faster than the news of its death.
		gone := errors.Is(err, collective.ErrLost) || errors.Is(err, collective.ErrLeft)
		named = named || errors.As(err, &e) && lost[e.Rank] && gone
	}
	if !named {
		t.Errorf("no error names the lost ranks %v: %v", lost, s.errs)
	}
}

// TestNodeGoesWhileRanksJoin kills the node that brings the ranks together while they wait for the last one: those on
// other nodes go on waiting, and the group forms anew.
func TestNodeGoesWhileRanksJoin(t *testing.T) {
	const size = 4
	k := testkit.New(t, testkit.Nodes(4), roomy)
	ctx := k.Context()
	s := newStory(t)
	participants := func() (n int) {
		st, err := k.Cluster().Status()
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range st.Nodes {
			n += node.Grains["collective_test.floats.participant"]
		}
		return n
	}
	refs := []raysys.Ref[int]{persist.With(apart...).Go(ctx, t.Name(), 0, size)}
	awaitParticipants := func(want int) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for limit := time.After(30 * time.Second); participants() != want; {
			select {
			case <-tick.C:
			case <-limit:
				t.Fatalf("never: %d ranks have a participant", want)
			}
		}
	}
	awaitParticipants(1) // the coordinator is where the first rank is
	for rank := 1; rank < size-1; rank++ {
		refs = append(refs, persist.With(apart...).Go(ctx, t.Name(), rank, size))
	}
	awaitParticipants(size - 1)
	s.write(func() { s.killed = true })
	for i := 1; i <= k.Cluster().Size(); i++ {
		if k.Cluster().Name(i) == s.nodes[0] {
			k.Cluster().Kill(i)
		}
	}
	refs = append(refs, persist.With(apart...).Go(ctx, t.Name(), size-1, size))
	for rank, o := range raysys.GetAll(ctx, refs) {
		if o.Err != nil {
			t.Errorf("rank %d: %v", rank, o.Err)
		}
	}
}

// gates hold the ranks of TestCallsThatComeTwice back until every frame comes twice.
var gates sync.Map

var twice = tasks.Define2("collective_test.twice", func(ctx context.Context, key string, rank int) (bool, error) {
	v, there := stories.Load(key)
	gate, ok := gates.Load(key)
	if !ok || !there {
		return false, errors.New("the test is over")
	}
	m, err := floats.Join(ctx, key, rank, 4)
	if err != nil {
		return false, err
	}
	defer m.Leave()
	for i := range 40 {
		got, err := m.AllReduce(ctx, vector(rank, 3), collective.Sum)
		if err == nil {
			err = equal(got, total(4, 3))
		}
		if err != nil {
			return false, fmt.Errorf("round %d: %w", i, err)
		}
		if i == 0 {
			s := v.(*story)
			s.write(func() { s.rounds[rank]++ })
			<-gate.(chan struct{})
		}
	}
	return true, nil
})

// TestCallsThatComeTwice: a rank's call that comes twice while rank 0 waits for the others is answered to whichever of
// the two the rank listens to.
func TestCallsThatComeTwice(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(4), roomy)
	ctx, s, gate := k.Context(), newStory(t), make(chan struct{})
	gates.Store(t.Name(), gate)
	defer gates.Delete(t.Name())
	var refs []raysys.Ref[bool]
	for rank := range 4 {
		refs = append(refs, twice.With(apart...).Go(ctx, t.Name(), rank))
	}
	s.until(t, "all ranks are in the rounds", func() bool { return len(s.rounds) == 4 })
	k.Cluster().Duplicate(1, nil)
	close(gate)
	for rank, r := range refs {
		if _, err := r.Get(ctx); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
