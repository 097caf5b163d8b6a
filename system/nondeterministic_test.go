package system_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	draws atomic.Int64
	// wavers has a child known to a grain whose argument, of some bytes, ends with another number in each attempt.
	wavers = tasks.DefineIn(table, "wavers", func(ctx context.Context, p struct {
		Gate string
		Size int
	},
	) (int, error) {
		arg := load{Gate: p.Gate, Data: make([]byte, p.Size)}
		arg.Data[p.Size-1] = byte(draws.Add(1))
		r := measure.With(on("w3")).Go(ctx, arg)
		if _, err := holderHold.With(on("w2")).Call(ctx, holders.Get("w2"), []raysys.Handle[int]{r.Handle()}).Get(ctx); err != nil {
			return 0, err
		}
		return r.Get(ctx)
	})
)

// TestNondeterministic: a parent whose next attempt submits another child under the same id is told the first difference, also
// where the recorded argument is an object.
func TestNondeterministic(t *testing.T) {
	for name, size := range map[string]int{"in the record": 100, "an object": 200 << 10} {
		t.Run(name, func(t *testing.T) {
			f, sctx, _ := newWill(t)
			spare, _ := f.join("spare", system.Worker, func(c *system.Config) { c.Cluster.Labels = map[string]string{"node": "w1"} })
			meet(t, f.nodes...)
			gate := newGate()
			defer openGate(gate)
			r := wavers.With(on("w1")).Go(sctx, struct {
				Gate string
				Size int
			}{gate, size})
			settles(t, "the child is recorded", func() bool { return system.Recorded(f.node("w1"))+system.Recorded(spare) == 1 })
			if system.Recorded(spare) == 1 {
				f.kill("spare")
			} else {
				f.kill("w1")
			}
			_, err := r.Get(sctx)
			if !errors.Is(err, raysys.ErrNondeterministic) || !strings.Contains(err.Error(), "of the encoded argument begins") || !strings.Contains(err.Error(), "raysys.Key") {
				t.Errorf("the next attempt submits another child, and gets %v; want ErrNondeterministic with the first difference", err)
			}
		})
	}
}
