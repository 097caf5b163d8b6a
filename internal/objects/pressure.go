package objects

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

// pressure is called before a primary is spilled. It runs a collection: the objects that become unreachable by it may
// free enough memory (rule C25). The runtime runs the cleanups that a collection has queued on goroutines of its own;
// pressure waits until as many have run as were queued.
func (o *Objects) pressure() {
	runtime.GC()
	counts := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(counts)
	queued := counts[0].Value.Uint64()
	ctx, cancel := context.WithTimeout(o.ctx, pressureLimit)
	defer cancel()
	for pause := time.Microsecond; counts[1].Value.Uint64() < queued && ctx.Err() == nil; pause *= 2 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		metrics.Read(counts[1:])
	}
}

// pressureLimit bounds the wait for cleanups.
const pressureLimit = 100 * time.Millisecond
