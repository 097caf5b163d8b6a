package system_test

import (
	"context"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
)

var (
	holderSumAll = grains.Method0(holders, "sum-all", func(h *holder, ctx context.Context) (sum int, err error) {
		refs := make([]raysys.Ref[int], len(h.numbers))
		for i, n := range h.numbers {
			refs[i] = n.Ref()
		}
		values, err := raysys.GetAll(ctx, refs).Values()
		for _, v := range values {
			sum += v
		}
		return sum, err
	})

	// numberAfter gives its number, and counts how often it has.
	numberAfter = tasks.Define2In(table, "numberAfter", func(_ context.Context, _, number int) (int, error) {
		runsMu.Lock()
		defer runsMu.Unlock()
		runsOf[number]++
		return number, nil
	})
	runsMu sync.Mutex // guards runsOf
	runsOf = map[int]int{}
)

// TestAdoptsMany: all references to tasks of one dead submitter are answered, at every node that holds them. A task that had
// not run runs once, and one whose value was at the submitter alone runs once more.
func TestAdoptsMany(t *testing.T) {
	const half = 250
	f, sctx, ctx := newWill(t)
	gate, later := newGate(), newGate()
	first := int(drawn.Add(2*half)) - 2*half
	opens := map[bool]raysys.Ref[int]{true: draw.With(on("w1")).Go(sctx, gate), false: draw.With(on("w1")).Go(sctx, later)}
	var before []raysys.Ref[int]
	var list []raysys.Handle[int]
	sum := 0
	for i := range 2 * half {
		r := numberAfter.With(on("w1")).On(sctx, opens[i < half], raysys.Ready(first+i))
		if i < half {
			before = append(before, r)
		}
		list, sum = append(list, r.Handle()), sum+first+i
	}
	for _, at := range []raysys.NodeID{"w2", "w3"} {
		hold(sctx, t, at, list...)
	}
	openGate(gate)
	if _, err := raysys.GetAll(sctx, before).Values(); err != nil {
		t.Fatal(err)
	}
	f.kill("s")
	openGate(later)
	var got []raysys.Ref[int]
	for _, at := range []raysys.NodeID{"w2", "w3"} {
		got = append(got, holderSumAll.Call(ctx, holders.Get(string(at))))
	}
	for i, o := range raysys.GetAll(ctx, got) {
		if o.Value != sum || o.Err != nil {
			t.Errorf("holder %d has %d, %v; want %d", i, o.Value, o.Err, sum)
		}
	}
	runsMu.Lock()
	defer runsMu.Unlock()
	for i := range 2 * half {
		want := 1
		if i < half {
			want = 2
		}
		if n := runsOf[first+i]; n != want {
			t.Errorf("task %d ran %d times, want %d", i, n, want)
		}
	}
}
