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
		first := endless.Go(driver)
		defer first.Cancel()
		var raw rawLog
		m, err = compareRates(ctx, p, side{n, func() error { return giveAway(driver, first, n) }}, side{rawSegments, func() error { return raw.commit(ctx, kv) }})
		return err
	})
	m.limit, m.latencyOf = rawLogName, fmt.Sprintf("%d references", n)
	m.note("nodes", "the driver, one worker process, Consul with its data on disk; the records of the last operation go meanwhile")
	return m, err
}

// giveAway gives references to n tasks that wait to a grain.
func giveAway(ctx context.Context, first raysys.Ref[int], n int) error {
	var pending []raysys.Ref[int]
	defer func() {
		for _, r := range pending {
			r.Cancel()
		}
	}()
	var calls []raysys.Ref[int]
	for i := 0; i < n; i += refsOfOneCall {
		list := make([]raysys.Handle[int], refsOfOneCall)
		for j := range list {
			r := afterEndless.On(ctx, first, raysys.Ready(i+j))
			pending = append(pending, r)
			list[j] = r.Handle()
		}
		calls = append(calls, keeperKeep.Call(ctx, keepers.Get("keeper"), list))
	}
	for _, c := range calls {
		if got, err := c.Get(ctx); err != nil || got != refsOfOneCall {
			return fmt.Errorf("a grain has %d of %d references: %w", got, refsOfOneCall, err)
		}
	}
	return nil
}
