//go:build !race

package link_test

import (
	"runtime"
	"testing"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// TestNoAllocations: in steady state no frame allocates, on either side. The race detector allocates by itself.
func TestNoAllocations(t *testing.T) {
	const burst = 500
	tcp := link.TCP(link.TCPConfig{})
	back, at := make(chan struct{}, 1), 0
	a := open(t, "a", tcp, func(c *link.Config) {
		c.Handlers[kindNote] = func(*link.Peer, wire.Class, []byte) {
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
			if err := p.Send(wire.Requests, kindEcho, payload); err != nil {
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

// TestBodiesAllocateNothing: nor does a body, in steady state, from memory or from a file.
func TestBodiesAllocateNothing(t *testing.T) {
	tcp := link.TCP(link.TCPConfig{})
	to := &still{memory: make([]byte, 300_000), done: make(chan struct{}, 1)}
	a := open(t, "a", tcp)
	b := open(t, "b", tcp, func(c *link.Config) { c.Sinks = map[wire.Kind]link.Sink{kindBody: to.sink} })
	p := a.connect(b)
	pieces := [][]byte{make([]byte, 100_000), make([]byte, 200_000)}
	f := file(t, make([]byte, 300_000))
	head := []byte("which")
	for name, body := range map[string]link.Body{"memory": {Pieces: pieces}, "file": {File: f, Length: 300_000}} {
		work := func() {
			if err := p.SendBody(kindBody, head, body); err != nil {
				t.Fatal(err)
			}
			<-to.done
		}
		for range 100 {
			work()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const rounds = 500
		for range rounds {
			work()
		}
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > rounds/10 {
			t.Errorf("%s: %d allocations for %d bodies", name, n, rounds)
		}
	}
}

// still is a sink with one place for all bodies.
type still struct {
	memory []byte
	done   chan struct{}
}

func (s *still) sink(*link.Peer, []byte, int) link.Landing { return s }

func (s *still) Memory() []byte { return s.memory }

func (s *still) Landed(error) { s.done <- struct{}{} }
