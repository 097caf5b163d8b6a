package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/transfer"
)

// broadcast lets all receivers want an object of one source at the same time.
func broadcast(t *testing.T, receivers []*node, want []byte, from core.NodeKey) {
	t.Helper()
	var wg sync.WaitGroup
	for _, x := range receivers {
		wg.Go(func() {
			if got, err := x.get(t.Context(), 1, from); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %v", x.name, err)
			}
		})
	}
	wg.Wait()
}

// TestTree: of one object to many nodes the source sends at most two copies, however many want it, and no node sends
// more; they overlap, and each byte arrives once, with the owner's sums, also from nodes that still receive it.
func TestTree(t *testing.T) {
	var one time.Duration
	for _, count := range []int{1, 2, 4, 12} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *net) {
				took := tree(t, n, count)
				if count == 1 {
					one = took
				}
				if took > 2*one {
					t.Errorf("%d copies took %s where one took %s", count, took, one)
				}
			})
		})
	}
}

func tree(t *testing.T, n *net, count int) time.Duration {
	a := n.node("a")
	want := noise(1, 12*mib)
	a.put(1, 1, want)
	all := []*node{a}
	for i := range count {
		x := n.node(raysys.NodeID(fmt.Sprint("r", i)))
		for _, y := range all {
			n.memory.Delay(x.name, y.name, 2*time.Millisecond, 0)
		}
		all = append(all, x)
	}
	begin := time.Now()
	broadcast(t, all[1:], want, key("a"))
	took := time.Since(begin)
	synctest.Wait()
	for i, x := range all {
		x.sameSums(1, want)
		s := x.Stats()
		if s.BytesOut > uint64(2*len(want)) || s.Corrupt != 0 {
			t.Errorf("%s: %+v", x.name, s)
		}
		if i > 0 && (s.BytesIn != uint64(len(want)) || s.Returned != 0) {
			t.Errorf("%s: %+v", x.name, s)
		}
	}
	return took
}

// TestTreeLater: who comes when the copies are made is sent to them, and back to the source when they have dropped
// them.
func TestTreeLater(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a := n.node("a")
		want := noise(1, 10*mib)
		a.put(1, 1, want)
		var nodes []*node
		for i := range 3 {
			x := n.node(raysys.NodeID(fmt.Sprint("r", i)))
			broadcast(t, []*node{x}, want, key("a"))
			synctest.Wait()
			nodes = append(nodes, x)
		}
		if s := a.Stats(); s.BytesOut != uint64(2*len(want)) || s.SentOn != 1 {
			t.Errorf("%+v", s)
		}
		for _, x := range nodes[:2] {
			x.store.Lookup(id(1)).Release()
		}
		last := n.node("last")
		broadcast(t, []*node{last}, want, key("a"))
		if s := last.Stats(); s.Redirects != 1 || s.Returned != 1 || s.Struck != 0 {
			t.Errorf("%+v", s)
		}
		small := noise(2, mib)
		a.put(2, 1, small)
		for _, x := range append(nodes, last) { // below TreeFrom nobody is sent elsewhere
			if got, err := x.get(t.Context(), 2, key("a")); err != nil || !bytes.Equal(got, small) {
				t.Error(err)
			}
		}
		if s := a.Stats(); s.SentOn != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// TestManyObjects: a node that gives away one object after another remembers only those that it has.
func TestManyObjects(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		n.adapt = func(c *transfer.Config) { c.TreeFrom = 1 }
		a, b := n.node("a"), n.node("b")
		most := 0
		for i := range uint64(1000) {
			a.put(i+1, 1, noise(i, 1000))
			if _, err := b.get(t.Context(), i+1, key("a")); err != nil {
				t.Fatal(err)
			}
			a.store.Lookup(id(i + 1)).Release()
			b.store.Lookup(id(i + 1)).Release()
			most = max(most, a.Given())
		}
		if most > 100 {
			t.Errorf("%d objects were remembered", most)
		}
		synctest.Wait()
		for _, x := range []*node{a, b} {
			if s := x.store.Stats(); s.Objects != 0 || s.Used != 0 {
				t.Errorf("%s: %+v", x.name, s)
			}
			if s := x.Stats(); s.Streams+s.Feeds+s.Flights != 0 {
				t.Errorf("%s: %+v", x.name, s)
			}
		}
	})
}

// TestParentDies: children of a node that dies, or stands still, in the middle come back to the source and go on with
// what they have.
func TestParentDies(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprint("silent ", silent), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *net) {
				a := n.node("a")
				want := noise(1, 20*mib)
				a.put(1, 1, want)
				var receivers []*node
				for i := range 6 {
					x := n.node(raysys.NodeID(fmt.Sprint("r", i)))
					n.memory.Delay("a", x.name, 3*time.Millisecond, 0)
					receivers = append(receivers, x)
				}
				parent := receivers[0]
				var given atomic.Int32
				parent.onBody = func(raysys.NodeID, *transfer.Body) {
					if given.Add(1) == 5 {
						if silent {
							n.memory.Pause(parent.name)
						} else {
							go parent.kill()
						}
					}
				}
				var wg sync.WaitGroup
				for i, x := range receivers {
					if i > 0 {
						<-time.After(5 * time.Millisecond) // the first two are the source's own
					}
					wg.Go(func() {
						got, err := x.get(t.Context(), 1, key("a"))
						if x != parent && (err != nil || !bytes.Equal(got, want)) {
							t.Errorf("%s: %v", x.name, err)
						}
					})
				}
				children := make(chan struct{})
				go func() { wg.Wait(); close(children) }()
				if silent {
					<-time.After(20 * time.Second)
					n.memory.Resume(parent.name)
				}
				<-children
				returned := uint64(0)
				for _, x := range receivers[1:] {
					s := x.Stats()
					returned += s.Returned
					if s.BytesIn != uint64(len(want)) {
						t.Errorf("%s: %+v", x.name, s)
					}
				}
				if given.Load() < 5 || returned == 0 {
					t.Errorf("the parent gave %d chunks, %d came back", given.Load(), returned)
				}
			})
		})
	}
}

// TestNoCircle: receivers that know of each other do not wait for each other. While the source lives they are sent back
// to it; when it dies both learn at once that the object is lost.
func TestNoCircle(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("dies ", dies), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *net) {
				n.adapt = func(c *transfer.Config) { c.SeveralFrom, c.Fanout = 1, 8 }
				a := n.node("a")
				want := noise(1, 30*mib)
				a.put(1, 1, want)
				names := []raysys.NodeID{"x", "y", "z"}
				var receivers []*node
				for _, name := range names {
					receivers = append(receivers, n.node(name))
					n.memory.Delay("a", name, time.Millisecond, 0)
				}
				var sent atomic.Int32
				a.onBody = func(raysys.NodeID, *transfer.Body) {
					if sent.Add(1) == 40 && dies {
						go a.kill()
					}
				}
				begin := time.Now()
				var wg sync.WaitGroup
				for i, x := range receivers {
					from := []core.NodeKey{key("a"), key(names[(i+1)%3])}
					wg.Go(func() {
						got, err := x.get(t.Context(), 1, from...)
						if dies && !errors.Is(err, raysys.ErrObjectLost) || !dies && (err != nil || !bytes.Equal(got, want)) {
							t.Errorf("%s: %v", x.name, err)
						}
					})
				}
				wg.Wait()
				if took := time.Since(begin); took > time.Second {
					t.Error("they waited for each other for", took)
				}
			})
		})
	}
}
