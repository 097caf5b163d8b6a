package collective_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var floats = collective.Define[float64]("collective_test.floats")

// ranks runs f as every rank of a new group of size at the same time, in goroutines, and returns their errors.
func ranks(t testing.TB, ctx context.Context, size int, f func(ctx context.Context, m *collective.Member[float64]) error) []error {
	t.Helper()
	errs := make([]error, size)
	var wg sync.WaitGroup
	for rank := range size {
		wg.Go(func() {
			errs[rank] = func() error {
				m, err := floats.Join(raysys.Branch(ctx, rank), t.Name(), rank, size)
				if err != nil {
					return err
				}
				defer m.Leave()
				return f(raysys.Branch(ctx, rank), m)
			}()
		})
	}
	wg.Wait()
	return errs
}

func ok(t testing.TB, errs []error) {
	t.Helper()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// vector is rank's, and total what the vectors of size ranks add up to.
func vector(rank, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(rank*n + i)
	}
	return v
}

func total(size, n int) []float64 {
	v := make([]float64, n)
	for rank := range size {
		for i, x := range vector(rank, n) {
			v[i] += x
		}
	}
	return v
}

// equal looks for differences only where there are some: cmp.Diff of 20,000 numbers takes a second under the race detector.
func equal(got, want []float64) error {
	if len(want) > 0 && slices.Equal(got, want) {
		return nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		if len(diff) > 2000 {
			diff = diff[:2000] + "..."
		}
		return errors.New(diff)
	}
	return nil
}

// program is every verb, each with small and large vectors.
func program(ctx context.Context, m *collective.Member[float64]) error {
	for _, n := range []int{0, 1, 7, 1000, 20_000} {
		vec := vector(m.Rank(), n)
		want := total(m.Size(), n)
		got, err := m.AllReduce(ctx, vec, collective.Sum)
		if err != nil {
			return err
		}
		if err := equal(got, want); err != nil {
			return fmt.Errorf("AllReduce of %d: %w", n, err)
		}
		for i := range got { // it belongs to the caller
			got[i] = -1
		}
		root := n % m.Size()
		got, err = m.Reduce(ctx, root, vec, collective.Sum)
		if err != nil {
			return err
		}
		if m.Rank() != root {
			want = nil
		}
		if err := equal(got, want); err != nil {
			return fmt.Errorf("Reduce of %d to %d: %w", n, root, err)
		}
		got, err = m.Broadcast(ctx, root, vec)
		if err != nil {
			return err
		}
		if err := equal(got, vector(root, n)); err != nil {
			return fmt.Errorf("Broadcast of %d from %d: %w", n, root, err)
		}
		for i := range got {
			got[i] = -2
		}
		if err := m.Barrier(ctx); err != nil {
			return err
		}
	}
	top, err := m.AllReduce(ctx, []float64{float64(m.Rank()), float64(-m.Rank())}, collective.Max)
	if err != nil {
		return err
	}
	return equal(top, []float64{float64(m.Size() - 1), 0})
}

func TestEveryVerb(t *testing.T) {
	for size := 1; size <= 9; size++ {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			k := testkit.New(t)
			ok(t, ranks(t, k.Context(), size, program))
		})
	}
}

// TestVectorsAreUsedAgain: a rank may use its vector again when a round is over, and keep and change what it got, while
// the group uses its own memory again.
func TestVectorsAreUsedAgain(t *testing.T) {
	k := testkit.New(t, testkit.Loose())
	ok(t, ranks(t, k.Context(), 4, again))
	k = testkit.New(t, testkit.Loose(), testkit.Nodes(3), roomy)
	ctx := k.Context()
	refs := make([]raysys.Ref[bool], 4)
	for rank := range refs {
		refs[rank] = againTask.With(raysys.Placement(raysys.Spread)).Go(ctx, "again", rank)
	}
	for rank, r := range refs {
		if _, err := r.Get(ctx); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// againTask is a rank of TestVectorsAreUsedAgain.
var againTask = tasks.Define2("collective_test.again", func(ctx context.Context, key string, rank int) (bool, error) {
	m, err := floats.Join(ctx, key, rank, 4)
	if err != nil {
		return false, err
	}
	defer m.Leave()
	return true, again(ctx, m)
})

func again(ctx context.Context, m *collective.Member[float64]) error {
	const n = 50
	vec := make([]float64, n)
	var kept [][]float64
	for round := range 100 {
		want := 0.0
		for other := range 4 {
			want += float64(round * (other + 1))
		}
		for i := range vec {
			vec[i] = float64(round * (m.Rank() + 1))
		}
		got, err := m.AllReduce(ctx, vec, collective.Sum)
		if err != nil {
			return err
		}
		for i, v := range got {
			if v != want {
				return fmt.Errorf("round %d, element %d: %v, not %v", round, i, v, want)
			}
			got[i] = -float64(round)
		}
		kept = append(kept, got)
	}
	for round, got := range kept {
		for i, v := range got {
			if v != -float64(round) {
				return fmt.Errorf("what round %d gave has %v at %d by now", round, v, i)
			}
		}
	}
	return nil
}

func TestMillionElements(t *testing.T) {
	k := testkit.New(t, testkit.Loose())
	const n = 1_000_000
	for _, size := range []int{3, 4} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			ok(t, ranks(t, k.Context(), size, func(ctx context.Context, m *collective.Member[float64]) error {
				got, err := m.AllReduce(ctx, vector(m.Rank(), n), collective.Sum)
				if err != nil {
					return err
				}
				return equal(got, total(m.Size(), n))
			}))
		})
	}
}

// rankTask is a rank of a cluster.
var rankTask = tasks.Define3("collective_test.rank", func(ctx context.Context, key string, rank, size int) (bool, error) {
	m, err := floats.Join(ctx, key, rank, size)
	if err != nil {
		return false, err
	}
	defer m.Leave()
	return true, program(ctx, m)
})

func TestCluster(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3), roomy)
	ctx := k.Context()
	for _, size := range []int{3, 5} {
		var refs []raysys.Ref[bool]
		for rank := range size {
			refs = append(refs, rankTask.With(apart...).Go(ctx, t.Name(), rank, size))
		}
		for _, o := range raysys.GetAll(ctx, refs) {
			if o.Err != nil {
				t.Error(o.Err)
			}
		}
	}
}

// TestMismatch: ranks that do not agree all hear so.
func TestMismatch(t *testing.T) {
	vec := []float64{1, 2, 3}
	big := make([]float64, 50_000)
	bigger := make([]float64, 200_000)
	type member = collective.Member[float64]
	all := func(ctx context.Context, m *member) error {
		_, err := m.AllReduce(ctx, vec, collective.Sum)
		return err
	}
	for name, odd := range map[string]func(ctx context.Context, m *member) error{
		"length": func(ctx context.Context, m *member) error {
			_, err := m.AllReduce(ctx, vec[:2], collective.Sum)
			return err
		},
		"algorithm": func(ctx context.Context, m *member) error {
			_, err := m.AllReduce(ctx, big, collective.Sum)
			return err
		},
		"objects": func(ctx context.Context, m *member) error {
			_, err := m.AllReduce(ctx, bigger, collective.Sum)
			return err
		},
		"op": func(ctx context.Context, m *member) error {
			_, err := m.AllReduce(ctx, vec, collective.Max)
			return err
		},
		"no op": func(ctx context.Context, m *member) error { _, err := m.AllReduce(ctx, vec, 77); return err },
		"verb": func(ctx context.Context, m *member) error {
			_, err := m.Reduce(ctx, 0, vec, collective.Sum)
			return err
		},
		"waits":   func(ctx context.Context, m *member) error { _, err := m.Broadcast(ctx, 0, vec); return err },
		"sends":   func(ctx context.Context, m *member) error { _, err := m.Broadcast(ctx, 2, vec); return err },
		"no root": func(ctx context.Context, m *member) error { _, err := m.Broadcast(ctx, 4, vec); return err },
		"zero ref": func(ctx context.Context, m *member) error {
			_, err := m.Share(ctx, 2, raysys.Ref[[]float64]{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t)
			errs := ranks(t, k.Context(), 4, func(ctx context.Context, m *member) error {
				if err := all(ctx, m); err != nil {
					return err
				}
				op := all
				if m.Rank() == 2 {
					op = odd
				}
				if err := op(ctx, m); err != nil {
					return err
				}
				return m.Barrier(ctx)
			})
			same(t, errs, collective.ErrMismatch, collective.Mismatch, 1)
		})
	}
	t.Run("different roots", func(t *testing.T) {
		k := testkit.New(t)
		errs := ranks(t, k.Context(), 3, func(ctx context.Context, m *member) error {
			_, err := m.Broadcast(ctx, (m.Rank()+1)%3, vec) // all wait, and nobody sends
			return err
		})
		same(t, errs, collective.ErrMismatch, collective.Mismatch, 0)
	})
}

// same fails the test unless all ranks got the same verdict.
func same(t testing.TB, errs []error, is error, reason collective.Reason, round uint64) {
	t.Helper()
	var first *collective.RoundError
	for rank, err := range errs {
		var e *collective.RoundError
		if !errors.As(err, &e) || !errors.Is(err, is) {
			t.Errorf("rank %d: %v, want %v", rank, err, is)
			continue
		}
		if e.Reason != reason || e.Round < round || e.Round > round+1 {
			t.Errorf("rank %d: %v: want reason %d in round %d", rank, err, reason, round)
		}
		if first == nil {
			first = e
		}
		if e.Rank != first.Rank || e.Group != first.Group {
			t.Errorf("rank %d says %v, and another %v", rank, e, first)
		}
	}
}

func TestOneOperationAtATime(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	second := make(chan error, 1)
	entered := make(chan struct{})
	errs := ranks(t, ctx, 2, func(ctx context.Context, m *collective.Member[float64]) error {
		if m.Rank() == 1 {
			<-entered
			return m.Barrier(ctx)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			defer close(entered)
			for {
				if err := m.Barrier(raysys.Branch(ctx, 7)); errors.Is(err, collective.ErrBusy) || err == nil {
					second <- err
					return
				}
			}
		})
		for {
			err := m.Barrier(ctx)
			if !errors.Is(err, collective.ErrBusy) {
				return err
			}
			select {
			case <-entered: // the other one was first, so this one is refused, which is what the test wants too
				return nil
			default:
			}
		}
	})
	ok(t, errs)
	if err := <-second; !errors.Is(err, collective.ErrBusy) && err != nil {
		t.Error(err)
	}
}

// TestBadRanks: everybody who waits to join hears of a bad one.
func TestBadRanks(t *testing.T) {
	for name, joins := range map[string][][2]int{ // rank, size
		"twice":         {{0, 3}, {1, 3}, {1, 3}},
		"out of range":  {{0, 3}, {1, 3}, {3, 3}},
		"negative":      {{0, 3}, {-1, 3}},
		"sizes differ":  {{0, 3}, {1, 4}},
		"nobody at all": {{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t)
			ctx := k.Context()
			errs := make([]error, len(joins))
			var wg sync.WaitGroup
			for i, j := range joins {
				wg.Go(func() {
					_, errs[i] = floats.Join(raysys.Branch(ctx, i), "bad", j[0], j[1])
				})
			}
			wg.Wait()
			for i, err := range errs {
				if !errors.Is(err, collective.ErrRank) {
					t.Errorf("join %d: %v", i, err)
				}
			}
		})
	}
}

// TestNextEpoch: after a failure the same ranks join again, and go on.
func TestNextEpoch(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		for epoch := range 3 {
			errs := ranks(k.T(), ctx, 4, func(ctx context.Context, m *collective.Member[float64]) error {
				if m.Rank() == 3 {
					if err := m.Barrier(ctx); err != nil {
						return err
					}
					ctx, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					if epoch == 1 {
						return errors.New("it dies and leaves")
					}
					err := m.Barrier(ctx)
					if epoch == 0 && err != nil {
						return fmt.Errorf("gives up: %w", err)
					}
					return err
				}
				if err := m.Barrier(ctx); err != nil {
					return err
				}
				if epoch == 0 && m.Rank() == 0 {
					k.Advance(2 * time.Second)
				}
				return m.Barrier(ctx)
			})
			switch epoch {
			case 0:
				same(k.T(), errs, raysys.ErrDeadline, collective.Late, 1)
			case 1:
				same(k.T(), errs[:3], collective.ErrLeft, collective.Left, 1)
			case 2:
				ok(k.T(), errs)
			}
		}
	})
}

// TestPatience: a rank that never comes ends the round for those who wait.
func TestPatience(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		errs := ranks(k.T(), k.Context(), 3, func(ctx context.Context, m *collective.Member[float64]) error {
			if err := m.Barrier(ctx); err != nil || m.Rank() == 1 {
				if err == nil {
					k.Advance(31 * time.Second)
				}
				return err
			}
			return m.Barrier(ctx)
		})
		same(k.T(), []error{errs[0], errs[2]}, raysys.ErrDeadline, collective.Late, 1)
		if errs[1] != nil {
			k.T().Error(errs[1])
		}
	})
}

// TestLeftBeforeARoundBegins: a round that begins when the participant knows that a rank has left fails at once, and
// does not wait for that rank's part.
func TestLeftBeforeARoundBegins(t *testing.T) {
	for _, size := range []int{3, 6} { // rank 0 asks nobody in a small group, and others in a large one
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				done := make(chan struct{})
				ok(k.T(), ranks(k.T(), k.Context(), size, func(ctx context.Context, m *collective.Member[float64]) error {
					if err := m.Barrier(ctx); err != nil {
						return err
					}
					switch m.Rank() {
					case 0:
						defer close(done)
						k.Advance(time.Second) // its participant hears that the last rank has left
						begun := time.Now()
						err := m.Barrier(ctx)
						same(k.T(), []error{err}, collective.ErrLeft, collective.Left, 1)
						if waited := time.Since(begun); waited > 0 {
							return fmt.Errorf("the round after a rank had left failed only after %v", waited)
						}
						return nil
					case size - 1:
						return nil
					}
					<-done // the other ranks stay, and begin no round
					return nil
				}))
			})
		})
	}
}
