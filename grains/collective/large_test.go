package collective_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// heavy is a vector so long that half of it, which one of two ranks sends at first, is more than a link lets wait for a
// node: 64 MiB.
const heavy = 136 << 20 / 8

// uneven is element i of a rank. It uses all bits of a float64, so that sums are rounded.
func uneven(rank, i int) float64 {
	x := (uint64(rank)<<40 + uint64(i) + 1) * 0x9e3779b97f4a7c15
	x ^= x >> 32
	return math.Float64frombits(x>>12|0x3ff<<52) * float64(int64(1)<<(x&31))
}

func unevenSum(i int) float64 { return uneven(0, i) + uneven(1, i) }

// bitwise looks for the first element that has other bits than it should.
func bitwise(got []float64, n int, want func(i int) float64) error {
	if len(got) != n {
		return fmt.Errorf("%d elements, want %d", len(got), n)
	}
	for i, x := range got {
		if w := want(i); math.Float64bits(x) != math.Float64bits(w) {
			return fmt.Errorf("element %d is %x, want %x", i, math.Float64bits(x), math.Float64bits(w))
		}
	}
	return nil
}

// mine is the heavy vector of a rank.
func mine(rank int) []float64 {
	v := make([]float64, heavy)
	for i := range v {
		v[i] = uneven(rank, i)
	}
	return v
}

// heavyRank reduces a heavy vector, first to both of two ranks and then to rank 1, and leaves at once.
var heavyRank = tasks.Define2("collective_test.heavy", func(ctx context.Context, key string, rank int) (bool, error) {
	vec := mine(rank)
	m, err := floats.Join(ctx, key, rank, 2)
	if err != nil {
		return false, err
	}
	defer m.Leave()
	got, err := m.AllReduce(ctx, vec, collective.Sum)
	if err == nil {
		err = bitwise(got, heavy, unevenSum)
	}
	if err != nil {
		return false, fmt.Errorf("AllReduce at rank %d: %w", rank, err)
	}
	size := rank * heavy // only rank 1 gets the sum
	got, err = m.Reduce(ctx, 1, vec, collective.Sum)
	if err == nil {
		err = bitwise(got, size, unevenSum)
	}
	if err != nil {
		return false, fmt.Errorf("Reduce at rank %d: %w", rank, err)
	}
	return true, bitwise(vec, heavy, func(i int) float64 { return uneven(rank, i) })
})

// heavyLoss begins to reduce a heavy vector; rank 1 gives up soon after.
var heavyLoss = tasks.Define2("collective_test.heavy-loss", func(ctx context.Context, key string, rank int) (bool, error) {
	vec := mine(rank)
	m, err := floats.Join(ctx, key, rank, 2)
	if err != nil {
		return false, err
	}
	defer m.Leave()
	if rank == 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
	}
	_, err = m.AllReduce(ctx, vec, collective.Sum)
	if e := (*collective.RoundError)(nil); !errors.As(err, &e) || e.Rank != 1 || e.Reason != collective.Late {
		return false, fmt.Errorf("rank %d: rank 1 was late, and the round says: %v", rank, err)
	}
	return true, nil
})

// heavily runs both ranks on nodes between which bytes move more slowly than they are asked for: 256 KiB a millisecond.
func heavily(t *testing.T, rank tasks.Task2[string, int, bool]) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		k.Cluster().Delay(1, 2, time.Millisecond, 0)
		ctx := k.Context()
		refs := []raysys.Ref[bool]{rank.With(apart...).Go(ctx, t.Name(), 0), rank.With(apart...).Go(ctx, t.Name(), 1)}
		for rank, o := range raysys.GetAll(ctx, refs) {
			if o.Err != nil {
				k.T().Errorf("rank %d: %v", rank, o.Err)
			}
		}
	}, testkit.Nodes(2), testkit.Loose(), roomy)
}

// TestVectorsLargerThanALinkTakes: what a rank sends of a vector waits with the rank, and not with the link, whose bound
// is shared by all that goes to the node. A rank that has nothing to wait for leaves with all of it sent.
func TestVectorsLargerThanALinkTakes(t *testing.T) { heavily(t, heavyRank) }

// TestLateWithALargeVector: both ranks hear who was late while most of their vectors had not left.
func TestLateWithALargeVector(t *testing.T) { heavily(t, heavyLoss) }
