package link_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
	"github.com/raysys/raysys/internal/wire"
)

// TestBothDial: however the dials of both sides and of many goroutines meet, there is one session, the same on both
// sides, and it carries frames.
func TestBothDial(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		for round := range 20 {
			a, b := open(t, "a", transport("a")), open(t, "b", transport("b"))
			var all sync.WaitGroup
			var mu sync.Mutex
			seen := map[*end]map[*link.Peer]bool{a: {}, b: {}}
			dial := func(from, to *end) {
				all.Go(func() {
					p, err := from.Connect(t.Context(), to.node, to.Addr())
					if err != nil {
						t.Error(err)
						return
					}
					if err := p.Send(wire.Requests, kindNote, []byte("x")); err != nil {
						t.Error(err)
					}
					mu.Lock()
					seen[from][p] = true
					mu.Unlock()
				})
			}
			for range 4 {
				dial(a, b)
				dial(b, a)
			}
			all.Wait()
			if t.Failed() {
				t.Fatal(round, a.lines(), b.lines())
			}
			p, q := a.Peer("b"), b.Peer("a")
			if p == nil || q == nil || len(seen[a]) != 1 || len(seen[b]) != 1 || !seen[a][p] || !seen[b][q] {
				t.Fatalf("round %d: sessions %v and %v, seen %v\n%v\n%v", round, p, q, seen, a.lines(), b.lines())
			}
			p.Send(wire.Requests, kindEcho, fmt.Append(nil, round))
			q.Send(wire.Requests, kindEcho, fmt.Append(nil, round))
			a.expect(fmt.Sprintf("b replies: %d", round))
			b.expect(fmt.Sprintf("a replies: %d", round))
			if a.count("up") != 1 || b.count("up") != 1 || a.count("down")+b.count("down") != 0 {
				t.Fatal(round, a.lines(), b.lines())
			}
			a.Close(t.Context())
			b.Close(t.Context())
		}
	})
}

// TestRedial: one side loses its session and dials again before the other has noticed anything. Either way the new
// one takes its place.
func TestRedial(t *testing.T) {
	for _, names := range [][2]raysys.NodeID{{"a", "b"}, {"b", "a"}} {
		t.Run(fmt.Sprintf("%s dials again", names[0]), func(t *testing.T) {
			n := linktest.NewNetwork(1)
			x, y := open(t, names[0], n.Transport(names[0]), brief), open(t, names[1], n.Transport(names[1]), brief)
			p := x.connect(y)
			y.expect("up")
			n.CutOneWay(x.node, y.node) // so that y learns nothing
			p.Close(fmt.Errorf("mine"))
			<-p.Done()
			done := make(chan *link.Peer)
			go func() {
				q, err := x.Connect(t.Context(), y.node, y.Addr())
				if err != nil {
					t.Error(err)
				}
				done <- q
			}()
			// What is on the way arrives together: the old farewell, if it was written, and the new hello.
			n.Heal(x.node, y.node)
			q := <-done
			q.Send(wire.Requests, kindEcho, []byte("new"))
			x.expect(fmt.Sprintf("%s replies: new", y.node))
			if y.count("up") != 2 || y.count("down") != 1 || x.count("up") != 2 || x.count("down") != 1 {
				t.Error(x.lines(), y.lines())
			}
		})
	}
}

// TestRedialUnnoticed: the first connection stays cut for ever, so that only the new hello can tell that it is over.
func TestRedialUnnoticed(t *testing.T) {
	for _, names := range [][2]raysys.NodeID{{"a", "b"}, {"b", "a"}} {
		for _, wait := range []bool{false, true} { // for the dialer to forget the first
			t.Run(fmt.Sprintf("%s dials again, later %t", names[0], wait), func(t *testing.T) {
				n := linktest.NewNetwork(1)
				x, y := open(t, names[0], n.Transport(names[0]), brief), open(t, names[1], n.Transport(names[1]), brief)
				p := x.connect(y)
				y.expect("up")
				n.Sever(x.node, y.node)
				p.Close(fmt.Errorf("mine"))
				if wait {
					<-p.Done()
				}
				q := x.connect(y)
				q.Send(wire.Requests, kindEcho, []byte("new"))
				x.expect(fmt.Sprintf("%s replies: new", y.node))
				y.expect(fmt.Sprintf("down %s(1): session replaced by a new one", x.node))
			})
		}
	}
}

// brief keeps a test from waiting for a side that cannot answer.
func brief(c *link.Config) { c.Linger = time.Millisecond }
