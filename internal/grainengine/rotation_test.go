package grainengine_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
)

// crowd is a stateless kind with one worker on each node, whose calls take a second.
type crowd struct {
	net   *fakeNet
	kind  grains.Kind[rover]
	work  grains.Func0[rover, string] // answers with its node
	d     *fakeNode
	hosts []*fakeNode
}

func newCrowd(t *testing.T, opts ...grains.Option) *crowd {
	tb := raysys.NewTable()
	c := &crowd{net: newNet(t, tb), kind: grains.DefineIn[rover](tb, "crowd", append(opts, grains.StatelessWorker(1))...)}
	c.work = grains.Method0(c.kind, "work", func(_ *rover, ctx context.Context) (string, error) {
		turn, _, err := core.TurnOf(ctx)
		<-time.After(time.Second)
		return string(turn.Job().Node), err
	})
	c.d = c.net.addAs("d", true)
	for _, name := range []string{"a", "b", "c"} {
		c.hosts = append(c.hosts, c.net.add(name))
	}
	return c
}

// calls makes n calls to one key at once, and returns how many each node answered.
func (c *crowd) calls(t *testing.T, n int) (by map[string]int, took time.Duration) {
	t.Helper()
	ctx := c.d.context()
	begin := time.Now()
	var refs []raysys.Ref[string]
	for range n {
		refs = append(refs, c.work.Call(ctx, c.kind.Get("")))
	}
	by = map[string]int{}
	for _, r := range refs {
		v, err := r.Get(ctx)
		if err != nil {
			t.Error(err)
		}
		by[v]++
	}
	return by, time.Since(begin)
}

// TestOneStatelessKeyOnAllNodes: a node that runs no workers sends its calls to one stateless key to all nodes that do,
// in turn, from the first call on; a node that dies is out, one that comes is in.
func TestOneStatelessKeyOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		wantCalls(t, c, 6, map[string]int{"a": 2, "b": 2, "c": 2})
		before := c.net.count("locate")
		wantCalls(t, c, 9, map[string]int{"a": 3, "b": 3, "c": 3})
		if n := c.net.count("locate") - before; n != 0 {
			t.Errorf("9 calls to known nodes asked the registry %d times, want 0", n)
		}
		c.hosts[1].kill()
		wantCalls(t, c, 6, map[string]int{"a": 3, "c": 3})
		c.net.add("e")
		for range statelessCalls / 4 { // until the registry is asked again
			c.calls(t, 4)
		}
		wantCalls(t, c, 6, map[string]int{"a": 2, "c": 2, "e": 2})
	})
}

const statelessCalls = 256

func wantCalls(t *testing.T, c *crowd, n int, want map[string]int) {
	t.Helper()
	if by, took := c.calls(t, n); !maps.Equal(by, want) || took != time.Duration(n/len(want))*time.Second {
		t.Errorf("%d calls of one second to one stateless key ran on %v and took %v: want %v, so %d s", n, by, took, want, n/len(want))
	}
}

// TestStatelessBeforeWorkers: calls that waited for the first workers are spread over them too.
func TestStatelessBeforeWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		let := c.net.slowly("locate")
		ctx := c.d.context()
		by := map[string]int{}
		var refs []raysys.Ref[string]
		for range 9 {
			refs = append(refs, c.work.Call(ctx, c.kind.Get("")))
		}
		synctest.Wait()
		let()
		for _, r := range refs {
			v, err := r.Get(ctx)
			if err != nil {
				t.Error(err)
			}
			by[v]++
		}
		if want := map[string]int{"a": 3, "b": 3, "c": 3}; !maps.Equal(by, want) {
			t.Errorf("calls that waited for the first answer of the registry ran on %v, want %v", by, want)
		}
	})
}

// TestDrainingNodeLeavesTheRing: a node that refuses calls gets none again; what it refused runs elsewhere.
func TestDrainingNodeLeavesTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		wantCalls(t, c, 6, map[string]int{"a": 2, "b": 2, "c": 2})
		if err := c.hosts[0].drain(context.Background()); err != nil {
			t.Error(err)
		}
		for range 2 {
			by, _ := c.calls(t, 8)
			if by["a"] != 0 || by["b"] == 0 || by["c"] == 0 {
				t.Errorf("while a drains 8 calls ran on %v: want them on b and c", by)
			}
		}
		wantCalls(t, c, 8, map[string]int{"b": 4, "c": 4})
	})
}

// TestStrategyKeepsItsNode: where the strategy chooses the node of a key, the calls stay there.
func TestStrategyKeepsItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, grains.Placement(raysys.ByHash))
		c.net.choose = func(_ graindir.ID, _ *fakeNode, alive []*fakeNode) *fakeNode {
			i := slices.IndexFunc(alive, func(n *fakeNode) bool { return n.name == "b" })
			if i < 0 {
				return nil
			}
			return alive[i]
		}
		if by, _ := c.calls(t, 6); !maps.Equal(by, map[string]int{"b": 6}) {
			t.Errorf("6 calls of a kind that is placed by hash ran on %v, want all on b", by)
		}
	})
}
