//go:build !race

package link_test

import (
	"runtime"
	"testing"

	"github.com/raysys/raysys/system/link"
)

// TestNoAllocations: in steady state no frame allocates, on either side. The race detector allocates by itself.
func TestNoAllocations(t *testing.T) {
	const burst = 500
	tcp := link.TCP(link.TCPConfig{})
	back, at := make(chan struct{}, 1), 0
	a := open(t, "a", tcp, func(c *link.Config) {
		c.Handlers[kindNote] = func(*link.Peer, link.Class, []byte) {
			if at++; at%burst == 0 {
				back <- struct{}{}
			}
		}
	})
	b := open(t, "b", tcp)
	p := a.connect(b)
	payload := make([]byte, 100)
	work := func() {
		for range burst {
			if err := p.Send(link.Requests, kindEcho, payload); err != nil {
				t.Fatal(err)
			}
		}
		p.Flush()
		<-back
	}
	for range 100 {
		work()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 200
	for range rounds {
		work()
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > rounds/2 { // what tickers and the like take
		t.Errorf("%d allocations for %d frames there and back", n, rounds*burst)
	}
}
