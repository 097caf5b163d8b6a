package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// sketchBytes is the raw limit of an idle grain: the memory of a stock protoactor actor, its PID and its id, of which
// the first sketch of this project made 1M on the same kind of machine. It is a constant because actors may not be made
// here.
const sketchBytes = 624

// idleReport has the figures of the child that holds the grains.
type idleReport struct {
	Grains   int     `json:"grains"`
	PerGrain float64 `json:"bytes_per_grain"`    // live heap, without the user's struct
	Struct   int     `json:"user_struct_bytes"`  // of the grains measured
	Heap     uint64  `json:"live_heap_bytes"`    // with all grains idle
	Before   uint64  `json:"heap_before_bytes"`  // with one grain, which has made the memory that all share
	Resident uint64  `json:"rss_bytes"`          // 0 where it cannot be read
	Seconds  float64 `json:"activation_seconds"` // first call to last answer
	P50      float64 `json:"batch_p50_us"`       // of 1000 activations
}

// idleGrains activates n grains with one call each, weighs them, and hands out the report while they are there.
func idleGrains(ctx context.Context, p Plan, n int, report func(idleReport) error) error {
	return withNode(ctx, p, func(ctx context.Context, _ *system.Node) error {
		if _, err := add.Call(ctx, counters.Get("first"), 1).Get(ctx); err != nil {
			return err
		}
		rep := idleReport{Grains: n, Struct: int(unsafe.Sizeof(counter{})), Before: liveHeap()}
		var h hist
		start, last := time.Now(), time.Duration(0)
		refs := make([]raysys.Ref[int], 0, batch)
		for i := range n {
			refs = append(refs, add.Call(ctx, counters.Get(strconv.Itoa(i)), 1))
			if len(refs) < batch && i < n-1 {
				continue
			}
			for _, r := range refs {
				v, err := r.Get(ctx)
				if err != nil {
					return err
				}
				if err := expect(v, 1); err != nil {
					return err
				}
			}
			clear(refs)
			refs = refs[:0]
			now := time.Since(start)
			h.add(now - last)
			last = now
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		rep.Seconds, rep.P50 = last.Seconds(), us(h.quantile(0.5))
		rep.Heap = liveHeap()
		rep.PerGrain = (float64(rep.Heap)-float64(rep.Before))/float64(n) - float64(rep.Struct)
		if runtime.GOOS == "linux" {
			var err error
			if rep.Resident, err = residentBytes("self"); err != nil {
				return err
			}
		}
		return report(rep)
	})
}

// grainsIdle weighs a million grains in a process of their own, so that neither the other rows' garbage nor the
// grains' memory is in the other's way.
func grainsIdle(ctx context.Context, p Plan) (measured, error) { return idleInChild(ctx, p, million) }

func idleInChild(ctx context.Context, p Plan, n int) (measured, error) {
	m := measured{limit: "actor, PID and id of the sketch", limitValue: sketchBytes}
	c, err := launch(ctx, p, childGrains, strconv.Itoa(n))
	if err != nil {
		return m, err
	}
	var rep idleReport
	if err := json.NewDecoder(c.out).Decode(&rep); err != nil {
		if e := c.end(); e != nil {
			return m, e
		}
		return m, fmt.Errorf("read child's report: %w", err)
	}
	// A million grains take seconds to leave one by one. The row does not measure that.
	if err := c.kill(); err != nil {
		return m, err
	}
	m.value = rep.PerGrain
	m.note("grains", rep.Grains)
	m.note("user_struct_bytes", rep.Struct)
	m.note("live_heap_mib", figures(float64(rep.Heap)/(1<<20)))
	m.note("rss_mib", figures(float64(rep.Resident)/(1<<20)))
	m.note("rss_bytes_per_grain", figures(float64(rep.Resident)/float64(n)))
	m.note("activations_per_s", figures(float64(n)/rep.Seconds))
	m.note("activation_batch_p50_us", figures(rep.P50))
	m.note("limit_source", "constant: the sketch's live heap per idle actor, 1M actors on 2 cores")
	return m, nil
}
