package link_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// TestBulk: large frames pass in both directions, whichever side dialed, and keep what the handler kept.
func TestBulk(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		for _, dialer := range []raysys.NodeID{"a", "b"} {
			var mu sync.Mutex
			kept := map[raysys.NodeID][][]byte{}
			keep := func(c *link.Config) {
				here := c.Self().Node
				c.Handlers[kindNote] = func(p *link.Peer, class wire.Class, b []byte) {
					if class != wire.Bulk {
						t.Error(class)
					}
					mu.Lock()
					kept[here] = append(kept[here], bytes.Clone(b))
					n := len(kept[here])
					mu.Unlock()
					if n == 5 {
						p.Send(wire.Control, kindEcho, []byte("all five"))
					}
				}
				c.Handlers[kindEcho] = func(*link.Peer, wire.Class, []byte) { c.Up(nil) }
			}
			got := map[raysys.NodeID]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
			done := func(c *link.Config) {
				keep(c)
				here, up := c.Self().Node, c.Up
				c.Up = func(p *link.Peer) {
					if p == nil {
						close(got[here])
						return
					}
					up(p)
				}
			}
			a, b := open(t, "a", transport("a"), done), open(t, "b", transport("b"), done)
			if dialer == "a" {
				a.connect(b)
			} else {
				b.connect(a)
			}
			a.expect("up")
			b.expect("up")
			for i := range 5 {
				if err := a.Peer("b").SendBulk(kindNote, bytes.Repeat([]byte{byte(i)}, 4<<20+i)); err != nil {
					t.Fatal(err)
				}
				if err := b.Peer("a").SendBulk(kindNote, bytes.Repeat([]byte{byte(i)}, i)); err != nil {
					t.Fatal(err)
				}
			}
			<-got["a"]
			<-got["b"]
			for i := range 5 {
				if !bytes.Equal(kept["b"][i], bytes.Repeat([]byte{byte(i)}, 4<<20+i)) || !bytes.Equal(kept["a"][i], bytes.Repeat([]byte{byte(i)}, i)) {
					t.Errorf("frame %d came changed", i)
				}
			}
			if err := a.Peer("b").SendBulk(kindNote, make([]byte, a.Peer("b").MaxBulk()+1)); !errors.Is(err, raysys.ErrTooLarge) {
				t.Error(err)
			}
			if s := a.Peer("b").Stats().Out[wire.Bulk].Frames; s != 5 {
				t.Error(s, "bulk frames were counted")
			}
			a.Close(t.Context())
			b.Close(t.Context())
			// The bulk connection ends too, and is not taken for the death of a process.
			b.expect("down a(1): closed by the peer: the node closed its link")
		}
	})
}

// TestBulkAside: a stream of bulk frames does not delay a small one, because it has a connection of its own.
func TestBulkAside(t *testing.T) {
	block := make(chan struct{})
	slow := func(c *link.Config) {
		c.Handlers[kindBoom] = func(*link.Peer, wire.Class, []byte) { <-block }
	}
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		block = make(chan struct{})
		a, b := open(t, "a", transport("a")), open(t, "b", transport("b"), slow)
		p := a.connect(b)
		for range 8 {
			if err := p.SendBulk(kindBoom, make([]byte, 4<<20)); err != nil {
				t.Fatal(err)
			}
		}
		p.Send(wire.Requests, kindEcho, []byte("quick"))
		a.expect("b replies: quick") // with the bulk handler blocked
		var err error
		for range 20 {
			if err = p.SendBulk(kindBoom, make([]byte, 4<<20)); err != nil {
				break
			}
		}
		if !errors.Is(err, raysys.ErrOverloaded) {
			t.Error("more than the bound waits:", err)
		}
		close(block)
	})
}

// TestBulkLost: when the bulk connection breaks or cannot be made, frames are lost, so the session is over.
func TestBulkLost(t *testing.T) {
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		n.Shut(b.Addr())
		p.SendBulk(kindNote, []byte("x"))
		begin := time.Now()
		<-p.Done()
		if took := time.Since(begin); took > time.Second || !errors.Is(p.Err(), link.ErrRefused) {
			t.Error(took, p.Err())
		}
		if err := p.SendBulk(kindNote, nil); !errors.Is(err, raysys.ErrNotDelivered) {
			t.Error(err)
		}
	})
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		p.SendBulk(kindNote, []byte("x"))
		b.expect("a bulk: x")
		n.Reset("a", "b")
		<-p.Done()
		if !errors.Is(p.Err(), link.ErrReset) {
			t.Error(p.Err())
		}
		synctest.Wait()
		b.expect("down a(1): connection reset")
	})
}

// TestBulkWanted: the side that was dialed asks for the connection, and gets it though it could not dial itself.
func TestBulkWanted(t *testing.T) {
	bubble(t, func(t *testing.T, n *linktest.Network, a, b *end, p *link.Peer) {
		n.Shut(a.Addr())
		for i := range 3 {
			if err := b.Peer("a").SendBulk(kindNote, fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
		}
		a.expect("b bulk: 0", "b bulk: 1", "b bulk: 2")
	})
}
