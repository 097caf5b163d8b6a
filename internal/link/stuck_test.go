package link_test

import (
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// TestStuckInHandler: a session that ends in one of its handlers, at once and without a word, ends.
func TestStuckInHandler(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		a := open(t, "a", transport("a"))
		b := open(t, "b", transport("b"), func(c *link.Config) {
			c.Queue = [3]int{1 << 20, 1 << 20, 1 << 20}
			c.Handlers[kindEcho] = func(p *link.Peer, _ wire.Class, b []byte) {
				for range 100 { // nothing is written before it returns
					p.Send(wire.Replies, kindNote, make([]byte, 100_000))
				}
			}
		})
		p := a.connect(b)
		if err := p.Send(wire.Requests, kindEcho, nil); err != nil {
			t.Fatal(err)
		}
		p.Flush()
		b.expect("down a(1): peer takes nothing")
		a.expect("down b(1)")
	})
}
