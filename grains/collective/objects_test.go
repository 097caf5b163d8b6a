package collective_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var (
	singles = collective.Define[float32]("collective_test.singles")
	longs   = collective.Define[int64]("collective_test.longs")
	bytes   = collective.Define[uint8]("collective_test.bytes")
)

// large is a length of which vectors of T are larger than what ranks exchange whole, and which no number of ranks divides.
func large[T collective.Number](size int) int { return 1<<20/size + 61 }

// period is after how many elements the numbers of number repeat.
const period = 5

// number is element i of a rank in a round: a small whole one, so that every order of a sum and of a product gives the same bits.
func number[T collective.Number](rank, round, i int) T { return T((i+3*rank+round)%period + 1) }

// differs returns the how many elements before the end of v one is not that of its place in the period, -1 if none.
func differs[T collective.Number](v []T, want [period]T) int {
	for len(v) > 0 {
		if n := min(len(v), period); !slices.Equal(v[:n], want[:n]) {
			return len(v)
		}
		v = v[min(len(v), period):]
	}
	return -1
}

func apply[T collective.Number](op collective.Op, a, b T) T {
	switch op {
	case collective.Sum:
		return a + b
	case collective.Product:
		return a * b
	case collective.Min:
		return min(a, b)
	}
	return max(a, b)
}

// everyOp runs each operation on large vectors of two lengths, twice in turn on each, and compares every element of all results
// at the end: they belong to the rank, whatever the group does in later rounds.
func everyOp[T collective.Number](ctx context.Context, g collective.Group[T], key string, rank, size, n int) error {
	m, err := g.Join(ctx, key, rank, size)
	if err != nil {
		return err
	}
	defer m.Leave()
	type result struct {
		vec []T
		op  collective.Op
	}
	var results []result
	vec := make([]T, n+1)
	for round, op := range []collective.Op{collective.Sum, collective.Product, collective.Min, collective.Max, collective.Sum, collective.Sum} {
		v := vec[:n+round/2%2]
		var mine [period]T
		for i := range mine {
			mine[i] = number[T](rank, round, i)
		}
		copy(v, slices.Repeat(mine[:], len(v)/period+1))
		got, err := m.AllReduce(ctx, v, op)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if len(got) != len(v) {
			return fmt.Errorf("round %d: %d elements, want %d", round, len(got), len(v))
		}
		if i := differs(v, mine); i >= 0 {
			return fmt.Errorf("round %d changed the argument, %d elements before its end", round, i)
		}
		results = append(results, result{got, op})
	}
	for round, r := range results {
		var want [period]T
		for i := range want {
			want[i] = number[T](0, round, i)
			for other := 1; other < size; other++ {
				want[i] = apply(r.op, want[i], number[T](other, round, i))
			}
		}
		if i := differs(r.vec, want); i >= 0 {
			return fmt.Errorf("%v in round %d: want %v in turn, and %d elements before the end it is %v", r.op, round, want, i, r.vec[len(r.vec)-i:][:min(i, period)])
		}
	}
	return nil
}

var everyOpTask = tasks.Define3("collective_test.every-op", func(ctx context.Context, key string, rank, size int) (bool, error) {
	if err := everyOp(ctx, singles, key, rank, size, large[float32](4)); err != nil {
		return false, fmt.Errorf("float32: %w", err)
	}
	if err := everyOp(ctx, longs, key, rank, size, large[int64](8)); err != nil {
		return false, fmt.Errorf("int64: %w", err)
	}
	if err := everyOp(ctx, bytes, key, rank, size, large[uint8](1)); err != nil {
		return false, fmt.Errorf("uint8: %w", err)
	}
	return true, nil
})

// TestLargeVectors: ranks that offer each other objects get the right results, on one node, where they read each other's memory,
// and on several. Strict mode finds a rank that changes what it has put.
func TestLargeVectors(t *testing.T) {
	for name, opts := range map[string][]testkit.Option{
		"one node":    {testkit.CPU(10)},
		"three nodes": {testkit.Nodes(3), roomy, testkit.Loose()},
	} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, opts...)
			ctx := k.Context()
			for size := 1; size <= 5; size++ {
				refs := make([]raysys.Ref[bool], size)
				for rank := range refs {
					refs[rank] = everyOpTask.With(apart...).Go(ctx, strconv.Itoa(size), rank, size)
				}
				for rank, o := range raysys.GetAll(ctx, refs) {
					if o.Err != nil {
						t.Errorf("rank %d of %d: %v", rank, size, o.Err)
					}
				}
			}
		})
	}
}

// manyTask is a rank that goes through 30 rounds of one length, and tells afterwards whether the rounds were right.
var manyTask = tasks.Define2("collective_test.many", func(ctx context.Context, key string, rank int) (bool, error) {
	m, err := floats.Join(ctx, key, rank, 3)
	if err != nil {
		return false, err
	}
	defer m.Leave()
	for round := range 30 {
		got, err := m.AllReduce(ctx, slices.Repeat([]float64{float64(round)}, many), collective.Sum)
		if err != nil {
			return false, fmt.Errorf("round %d: %w", round, err)
		}
		if got[0] != float64(3*round) || got[many-1] != float64(3*round) {
			return false, fmt.Errorf("round %d: %v and %v", round, got[0], got[many-1])
		}
	}
	return true, m.Barrier(ctx)
})

const many = 200_000

// TestManyLargeRounds: what ranks offer does not stay in the stores until it is collected.
func TestManyLargeRounds(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	k := testkit.New(t, testkit.Loose(), testkit.Nodes(3), roomy)
	ctx := k.Context()
	refs := make([]raysys.Ref[bool], 3)
	for rank := range refs {
		refs[rank] = manyTask.With(apart...).Go(ctx, t.Name(), rank)
	}
	for rank, o := range raysys.GetAll(ctx, refs) {
		if o.Err != nil {
			t.Errorf("rank %d: %v", rank, o.Err)
		}
	}
	const most = 4 * 8 * many // a copy that something else uses at its end stays
	for i := 1; i <= 3; i++ {
		if s := k.Cluster().Node(i).Objects(); s.Used-s.Warm > most {
			t.Errorf("node %d: its store has objects of %d bytes, and a vector has %d", i, s.Used-s.Warm, 8*many)
		}
	}
}

var fullTask = tasks.Define2("collective_test.full", func(ctx context.Context, key string, rank int) (bool, error) {
	m, err := floats.Join(ctx, key, rank, 2)
	if err != nil {
		return false, err
	}
	defer m.Leave()
	_, err = m.AllReduce(ctx, vector(rank, 4<<20/8), collective.Sum)
	return true, err
})

// TestFullStore: a store that has no room for a chunk that its rank offers, or for one that its rank reads, ends the round for
// both with the reason.
func TestFullStore(t *testing.T) {
	for name, memory := range map[string]int64{"offering": 1 << 20, "reading": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			small := testkit.Each(func(i int, cfg *system.Config) {
				cfg.Resources.CPU = 16 * float64(min(i, 1))
				if i == 2 {
					cfg.Objects = system.ObjectConfig{Memory: memory, Disk: 1}
				}
			})
			k := testkit.New(t, testkit.Nodes(2), testkit.Loose(), small)
			ctx := k.Context()
			refs := []raysys.Ref[bool]{fullTask.With(apart...).Go(ctx, t.Name(), 0), fullTask.With(apart...).Go(ctx, t.Name(), 1)}
			var errs []error
			for _, o := range raysys.GetAll(ctx, refs) {
				errs = append(errs, o.Err)
			}
			same(t, errs, raysys.ErrStoreFull, collective.Full, 0)
		})
	}
}
