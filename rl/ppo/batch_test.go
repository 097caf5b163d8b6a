package ppo

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/raysys/raysys/rl"
)

// pulled are two episodes of levers, of two steps and one: the first is truncated, the second terminated.
func pulled() []rl.Trajectory {
	return []rl.Trajectory{
		{
			Obs: []float32{1, 2, 3, 4, 5, 6}, Actions: []float32{0, 0, 0, 0}, Rewards: []float32{1, 2}, Discounts: []float32{1, 1},
			Extras: []float32{.1, .2, -1, 0, .3, .4, -2, 0},
		},
		{Obs: []float32{7, 8, 9, 10}, Actions: []float32{0, 0}, Rewards: []float32{4}, Discounts: []float32{0}, Extras: []float32{.5, .6, -3, 0}},
	}
}

// TestGather is worked by hand for a value net that says 2 of all, gamma 0.5 and lambda 1: the returns are 1 + 0.5 (2 + 0.5*2), 2 + 0.5*2 and 4, and the
// advantages 0.5, 1 and 2.
func TestGather(t *testing.T) {
	_, m, err := agent{}.model(levers)
	if err != nil {
		t.Fatal(err)
	}
	l := newLearner(Config{Gamma: 0.5, Lambda: 1, RewardScale: 1}, m, 1)
	value := make([]float32, m.value.Size())
	value[len(value)-1] = 2
	l.all.gather(pulled(), 3, &m, value, &l.onValue, &l.c)
	standard := []float32{0.5, 1, 2}
	standardize(standard)
	l.mini.take(&l.all, []int{2, 0}, 2, 2)
	for _, tc := range []struct {
		name      string
		got, want batch
	}{
		{"all", l.all, batch{[]float32{1, 2, 3, 4, 7, 8}, []float32{.1, .2, .3, .4, .5, .6}, []float32{-1, -2, -3}, standard, []float32{2.5, 3, 4}}},
		{"two rows", l.mini, batch{[]float32{7, 8, 1, 2}, []float32{.5, .6, .1, .2}, []float32{-3, -1}, []float32{standard[2], standard[0]}, []float32{4, 2.5}}},
	} {
		if diff := cmp.Diff(tc.want, tc.got, cmp.AllowUnexported(batch{}), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestOrder: each update takes the steps in an order of its own.
func TestOrder(t *testing.T) {
	c, m, err := agent{Config{Batch: 20, Epochs: 1}}.model(levers)
	if err != nil {
		t.Fatal(err)
	}
	l := newLearner(c, m, 1)
	var orders [][]int
	for range 2 {
		if learned, err := l.Learn(context.Background(), rl.Batch{Steps: slices.Repeat(pulled(), 10)}); err != nil || learned.Steps != 1 {
			t.Fatal(learned, err)
		}
		orders = append(orders, slices.Clone(l.order))
	}
	if l.updates != 2 || len(orders[0]) != 30 || slices.Equal(orders[0], orders[1]) {
		t.Errorf("%d updates, in the orders %v", l.updates, orders)
	}
}
