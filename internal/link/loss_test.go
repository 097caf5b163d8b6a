package link_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// TestLostFramesAreNoticed: the receiver learns within a ping of each frame that did not arrive, once, in every class. What
// is sent twice, or late, is not lost.
func TestLostFramesAreNoticed(t *testing.T) {
	for _, class := range []wire.Class{wire.Control, wire.Replies, wire.Requests, wire.Bulk} {
		for _, action := range []link.Action{link.Drop, link.Duplicate, link.Reorder} {
			t.Run(fmt.Sprint(class, " ", action), func(t *testing.T) {
				var act atomic.Bool
				var lost atomic.Uint64
				change := func(c *link.Config) {
					if c.Self().Node == "a" {
						c.Chaos = func(raysys.NodeID, wire.Class, wire.Kind) link.Action {
							if act.Load() {
								return action
							}
							return link.Pass
						}
						return
					}
					c.Lost = func(p *link.Peer, in wire.Class, n uint64) {
						if p.Node() != "a" || in != class {
							t.Errorf("%d frames of %s from %s are said to be lost", n, in, p)
						}
						lost.Add(n)
					}
				}
				bubble(t, func(t *testing.T, _ *linktest.Network, a, b *end, p *link.Peer) {
					send := func(n int) {
						for range n {
							var err error
							if class == wire.Bulk {
								err = p.SendBulk(kindNote, []byte("x"))
							} else {
								err = p.Send(class, kindNote, []byte("x"))
							}
							if err != nil {
								t.Fatal(err)
							}
						}
					}
					want := uint64(0)
					for round := range 3 {
						act.Store(true)
						send(5 + round) // the first frames of all, too: with those of bulk its connection is opened
						act.Store(false)
						if action == link.Drop {
							want += uint64(5 + round)
						}
						pass(2 * time.Second)
						if n := lost.Load(); n != want {
							t.Errorf("round %d: %d frames were found lost, %d were", round, n, want)
						}
						send(3)
						pass(2 * time.Second)
					}
					if n := lost.Load(); n != want || p.Err() != nil {
						t.Errorf("at the end %d frames were found lost, %d were; the session: %v", n, want, p.Err())
					}
				}, change)
			})
		}
	}
}

// TestCountsOfALiar: more frames than their sender counts are a violation.
func TestCountsOfALiar(t *testing.T) {
	b := open(t, "b", link.TCP(link.TCPConfig{}))
	conn := dialRaw(t, b)
	shake(t, conn, greeting())
	conn.Write(link.Frame{Kind: kindNote, Class: wire.Requests, Payload: "one"}.Append(nil))
	conn.Write(link.Frame{Kind: 6, Class: wire.Control, Payload: strings.Repeat("\x00", 24)}.Append(nil))
	b.expect("x requests: one", "down x(1): corrupt frame")
}
