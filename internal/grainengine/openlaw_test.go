package grainengine

import (
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// TestOpenCalls: a call is open until it has its reply, and for a while after it has ended without one. What is over is not kept.
func TestOpenCalls(t *testing.T) {
	var o openCalls
	ended := core.FailedOf(core.TypeOf[int](), errors.New("cancelled by test"))
	name := func(n uint64) raysys.TaskID { return raysys.TaskID{Hi: n} } // all in one shard
	o.enter(name(1), &core.Future{}, 1)
	o.enter(name(2), ended, 1)
	o.enter(name(3), ended, 1)
	o.leave(name(3))
	for _, x := range []struct {
		n    uint64
		now  int64
		open bool
	}{
		{1, 1, true}, {2, 1, true}, {3, 1, false}, {4, 1, false}, // the second is seen to have ended
		{2, endsAfter, true}, {2, endsAfter + 1, false}, {1, 100 * endsAfter, true},
	} {
		if got := o.has(name(x.n), x.now); got != x.open {
			t.Errorf("call %d is open at %d: %v", x.n, x.now, got)
		}
	}
	for i := range uint64(100_000) {
		o.enter(name(i+10), ended, 1+int64(i)*endsAfter/100)
	}
	if n := len(o.shard(name(0)).calls); n > 2000 {
		t.Errorf("%d calls are kept, of a hundred in the time for which they count as open", n)
	}
}
