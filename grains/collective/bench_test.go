package collective_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/collective"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

const eightKiB = 8 << 10 / 4

var grads = collective.Define[float32]("collective_test.grads")

// times are the durations of a number of rounds, as one rank saw them.
type times struct {
	Node   raysys.NodeID
	Rounds []time.Duration
}

func (x times) at(share float64) time.Duration {
	s := slices.Clone(x.Rounds)
	slices.Sort(s)
	return s[int(share*float64(len(s)-1))]
}

// together is a rank that takes part in n rounds of AllReduce.
var together = tasks.Define3("collective_test.together", func(ctx context.Context, key string, rank [2]int, n int) (times, error) {
	turn, _, err := core.TurnOf(ctx)
	if err != nil {
		return times{}, err
	}
	x := times{Node: turn.Job().Node}
	m, err := grads.Join(ctx, key, rank[0], rank[1])
	if err != nil {
		return x, err
	}
	defer m.Leave()
	vec := make([]float32, eightKiB)
	for i := range vec {
		vec[i] = float32(rank[0])
	}
	for range n {
		begin := time.Now()
		sum, err := m.AllReduce(ctx, vec, collective.Sum)
		if err != nil {
			return x, err
		}
		x.Rounds = append(x.Rounds, time.Since(begin))
		if want := float32(rank[1] * (rank[1] - 1) / 2); sum[0] != want || sum[eightKiB-1] != want {
			return x, fmt.Errorf("the sum is %v, want %v", sum[0], want)
		}
	}
	return x, nil
})

// holder is a rank of the naive way: somebody fetches its vector, and brings it the sum.
type holder struct{ vec, sum []float32 }

var (
	holders = grains.Define[holder]("collective_test.holder", grains.Placement(raysys.PreferLocal))
	give    = grains.Method(holders, "give", func(h *holder, _ context.Context, rank int) ([]float32, error) {
		if h.vec == nil {
			h.vec = make([]float32, eightKiB)
			for i := range h.vec {
				h.vec[i] = float32(rank)
			}
		}
		return h.vec, nil
	})
	bring = grains.Method(holders, "bring", func(h *holder, _ context.Context, sum []float32) (raysys.NodeID, error) {
		h.sum = sum
		return "", nil
	})
)

// settle brings a holder to the process it runs in.
var settle = tasks.Define2("collective_test.settle", func(ctx context.Context, key string, rank int) (bool, error) {
	_, err := give.Call(ctx, holders.Get(fmt.Sprintf("%s/%d", key, rank)), rank).Get(ctx)
	return true, err
})

// naive gathers the vectors of all ranks, adds them up and brings everyone the sum.
var naive = tasks.Define3("collective_test.naive", func(ctx context.Context, key string, size, n int) (times, error) {
	var x times
	var ranks []grains.Grain[holder]
	for rank := range size {
		ranks = append(ranks, holders.Get(fmt.Sprintf("%s/%d", key, rank)))
	}
	vecs := make([]raysys.Ref[[]float32], size)
	for range n {
		begin := time.Now()
		for rank, g := range ranks {
			vecs[rank] = give.Call(ctx, g, rank)
		}
		sum := make([]float32, eightKiB)
		for _, r := range vecs {
			v, err := r.Get(ctx)
			if err != nil {
				return x, err
			}
			for i := range sum {
				sum[i] += v[i]
			}
		}
		for _, r := range bring.Each(ctx, ranks, sum) {
			if _, err := r.Get(ctx); err != nil {
				return x, err
			}
		}
		x.Rounds = append(x.Rounds, time.Since(begin))
		if want := float32(size * (size - 1) / 2); sum[0] != want {
			return x, fmt.Errorf("the sum is %v, want %v", sum[0], want)
		}
	}
	return x, nil
})

const benchRanks = 4

// bothWays runs n rounds of AllReduce and of the naive way, whose gatherer is rank 0. where says which process a rank
// is on. AllReduce's times are those of the slowest rank.
func bothWays(t testing.TB, ctx context.Context, key string, n int, where func(rank int) []raysys.Option) (good, bad times) {
	return byAllReduce(t, ctx, key, n, where), naively(t, ctx, n, where)
}

func byAllReduce(t testing.TB, ctx context.Context, key string, n int, where func(rank int) []raysys.Option) (slowest times) {
	refs := make([]raysys.Ref[times], benchRanks)
	for rank := range refs {
		refs[rank] = together.With(where(rank)...).Go(ctx, key, [2]int{rank, benchRanks}, n)
	}
	got, err := raysys.GetAll(ctx, refs).Values()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range got {
		if len(slowest.Rounds) == 0 || x.at(.5) > slowest.at(.5) {
			slowest = x
		}
	}
	return slowest
}

func naively(t testing.TB, ctx context.Context, n int, where func(rank int) []raysys.Option) times {
	for rank := range benchRanks {
		if _, err := settle.With(where(rank)...).Go(ctx, t.Name(), rank).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	x, err := naive.With(where(0)...).Go(ctx, t.Name(), benchRanks, n).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// compare runs both ways in turns, and reports the medians.
func compare(b *testing.B, ctx context.Context, where func(rank int) []raysys.Option) {
	bothWays(b, ctx, b.Name()+" first", 100, where)
	var good, bad times
	i := 0
	for b.Loop() {
		g, n := bothWays(b, ctx, fmt.Sprint(b.Name(), i), 500, where)
		i++
		good.Rounds, bad.Rounds = append(good.Rounds, g.Rounds...), append(bad.Rounds, n.Rounds...)
	}
	µs := func(d time.Duration) float64 { return float64(d) / 1e3 }
	b.ReportMetric(µs(good.at(.5)), "µs/allreduce-p50")
	b.ReportMetric(µs(good.at(.99)), "µs/allreduce-p99")
	b.ReportMetric(µs(bad.at(.5)), "µs/naive-p50")
	b.ReportMetric(µs(bad.at(.99)), "µs/naive-p99")
	b.ReportMetric(float64(bad.at(.5))/float64(good.at(.5)), "times-faster")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSmallInProcess is 8 KiB over four ranks of one process.
func BenchmarkSmallInProcess(b *testing.B) {
	k := testkit.New(b, testkit.Loose(), testkit.CPU(8))
	compare(b, k.Context(), func(int) []raysys.Option { return nil })
}

// onProcess keeps a rank to a process of its own.
func onProcess(rank int) []raysys.Option {
	return []raysys.Option{raysys.Label("rank", strconv.Itoa(rank))}
}

func fourProcesses(t testing.TB) *testkit.Procs {
	p := testkit.Processes(t, benchRanks, testkit.Loose(), testkit.EnvOf(func(i int) []string {
		return []string{fmt.Sprintf("RAYSYS_LABELS=rank=%d", i-1)}
	}))
	p.Ready()
	return p
}

// BenchmarkSmallProcesses is 8 KiB over four processes.
func BenchmarkSmallProcesses(b *testing.B) {
	compare(b, fourProcesses(b).Context(), onProcess)
}
