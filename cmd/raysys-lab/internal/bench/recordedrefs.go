package bench

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
)

// The references of one operation of the row, and how many go with one call.
const (
	recordedRefs  = 20_000
	refsOfOneCall = 500
)

// recordedRow is in the catalogue of the tier.
func recordedRow() Row {
	return Row{
		Name: "recorded_refs", Unit: "references/s", Named: true,
		measure:   func(ctx context.Context, p Plan) (measured, error) { return recordRefs(ctx, p, recordedRefs) },
		Operation: "pending references, each to a task of its own, given to a grain in another process, 500 with a call: submitted, recorded and received",
	}
}

// keeper is a grain that keeps the references of its last call.
type keeper struct{ kept []raysys.Handle[int] }

var (
	keepers    = grains.DefineIn[keeper](functions, "keeper")
	keeperKeep = grains.Method(keepers, "keep", func(k *keeper, _ context.Context, list []raysys.Handle[int]) (int, error) {
		k.kept = list
		return len(list), nil
	})
	keeperSum = grains.Method0(keepers, "sum", func(k *keeper, ctx context.Context) (sum int, err error) {
		refs := make([]raysys.Ref[int], len(k.kept))
		for i, h := range k.kept {
			refs[i] = h.Ref()
		}
		values, err := raysys.GetAll(ctx, refs).Values()
		for _, v := range values {
			sum += v
		}
		return sum, err
	})

	// endless ends when it is cancelled, and afterEndless waits for it.
	endless = tasks.Define0In(functions, "endless", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	afterEndless = tasks.Define2In(functions, "after-endless", func(_ context.Context, a, b int) (int, error) { return a + b, nil })
)

func recordRefs(ctx context.Context, p Plan, n int) (m measured, err error) {
	err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
		kv, err := c.store("raysys/" + c.name + "/raw/") // goes with the cluster's own
		if err != nil {
			return err
		}
		defer kv.Close()
		var raw rawLog
		m, err = compareRates(ctx, p, side{n, func() error { return giveAndCancel(driver, n) }}, side{rawSegments, func() error { return raw.commit(ctx, kv) }})
		return err
	})
	m.limit, m.latencyOf = rawLogName, fmt.Sprintf("%d references", n)
	m.note("nodes", "the driver, one worker process, Consul with its data on disk; the records of the last operation go meanwhile")
	return m, err
}

// giveAndCancel gives the references to one grain, and cancels the tasks and what they wait for.
func giveAndCancel(ctx context.Context, n int) error {
	first := endless.Go(ctx)
	defer first.Cancel()
	pending, err := giveAway(ctx, afterEndless, first, n, func(int) grains.Grain[keeper] { return keepers.Get("keeper") })
	for _, r := range pending {
		r.Cancel()
	}
	return err
}

// giveAway gives references to n tasks that wait for first to grains, so many to each as go with one call.
func giveAway(ctx context.Context, task tasks.Task2[int, int, int], first raysys.Ref[int], n int, to func(call int) grains.Grain[keeper]) ([]raysys.Ref[int], error) {
	var pending, calls []raysys.Ref[int]
	for i := 0; i < n; i += refsOfOneCall {
		list := make([]raysys.Handle[int], min(refsOfOneCall, n-i))
		for j := range list {
			r := task.On(ctx, first, raysys.Ready(i+j))
			pending = append(pending, r)
			list[j] = r.Handle()
		}
		calls = append(calls, keeperKeep.Call(ctx, to(len(calls)), list))
	}
	kept := 0
	for _, c := range calls {
		got, err := c.Get(ctx)
		if err != nil {
			return pending, fmt.Errorf("give references to a grain: %w", err)
		}
		kept += got
	}
	return pending, expect(kept, n)
}
