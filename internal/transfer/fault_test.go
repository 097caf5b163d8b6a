package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// TestResumed: a link that breaks is made again, and what has arrived is not sent again.
func TestResumed(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		want := noise(1, 40*mib)
		a.put(1, 1, want)
		var sent atomic.Int32
		a.onBody = func(raysys.NodeID, *transfer.Body) {
			if k := sent.Add(1); k == 10 || k == 20 || k == 45 {
				go n.memory.Reset("a", "b")
			}
		}
		got, err := b.get(t.Context(), 1, key("a"))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
		s := b.Stats()
		if s.Resumed < 2 || s.Struck != 0 || s.BytesIn != uint64(len(want)) {
			t.Errorf("%+v", s)
		}
		if extra := sent.Load() - 40; extra > 3*16 {
			t.Errorf("%d chunks were sent again", extra)
		}
	})
}

// TestSilent: a source that falls silent loses its chunks to another; alone, it is waited for until it is heard again.
func TestSilent(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b, c := n.node("a"), n.node("b"), n.node("c")
		want := noise(1, 30*mib)
		a.put(1, 1, want)
		b.put(1, 1, want)
		n.memory.Delay("a", "c", time.Millisecond, 0)
		time.AfterFunc(8*time.Millisecond, func() { n.memory.Pause("a") })
		const stall = 2 * time.Second // without a chunk: a source that was asked again in vain takes as long once more
		begin := time.Now()
		got, err := c.get(t.Context(), 1, key("a"), key("b"))
		if err != nil || !bytes.Equal(got, want) || time.Since(begin) > 3*stall {
			t.Error(time.Since(begin), err)
		}
		d := n.node("d")
		n.memory.Delay("b", "d", time.Millisecond, 0)
		time.AfterFunc(8*time.Millisecond, func() { n.memory.Pause("b") })
		time.AfterFunc(10*time.Second, func() { n.memory.Resume("b") })
		begin = time.Now()
		got, err = d.get(t.Context(), 1, key("b"))
		if err != nil || !bytes.Equal(got, want) || time.Since(begin) > 10*time.Second+3*stall {
			t.Error(time.Since(begin), err)
		}
		if s := d.Stats(); s.BytesIn != uint64(len(want)) || s.Stalled == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestForeverSilent: a source that says nothing is given up at last.
func TestForeverSilent(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		a.put(1, 1, noise(1, 10*mib))
		if _, err := b.link.Connect(t.Context(), "a", a.link.Addr()); err != nil {
			t.Fatal(err)
		}
		n.memory.Pause("a")
		begin := time.Now()
		_, err := b.get(t.Context(), 1, key("a"))
		if !errors.Is(err, raysys.ErrUnreachable) || errors.Is(err, raysys.ErrObjectLost) || time.Since(begin) > 3*time.Minute {
			t.Error(time.Since(begin), err)
		}
		n.memory.HealAll()
	})
}

// TestKilled: sources die at any moment. While one has the object it arrives as it is; else the error is
// raysys.ErrObjectLost. Nothing hangs, and no byte is wrong.
func TestKilled(t *testing.T) {
	seeds := long.Form[uint64](8, 100)
	for _, percent := range []int{10, 50, 90} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			for seed := range seeds {
				bubbleSeed(t, seed, func(t *testing.T, n *net) { killOne(t, n, seed, percent) })
			}
		})
	}
}

// dieAt kills the node once it has sent so many percent of size bytes.
func (x *node) dieAt(t testing.TB, size, percent int) {
	var sent atomic.Int64
	die := make(chan struct{})
	at := int64(size) * int64(percent) / 100
	x.onBody = func(_ raysys.NodeID, b *transfer.Body) {
		n := int64(transferLength(b))
		if total := sent.Add(n); total >= at && total-n < at {
			close(die)
		}
	}
	go func() {
		select {
		case <-die:
			x.kill()
		case <-t.Context().Done():
		}
	}()
}

func bubbleSeed(t *testing.T, seed uint64, f func(t *testing.T, n *net)) {
	t.Helper()
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newNet(t, seed)) })
	})
}

func killOne(t *testing.T, n *net, seed uint64, percent int) {
	r := rand.New(rand.NewPCG(seed, uint64(percent)))
	size := 3*mib + r.IntN(4*mib)
	n.adapt = func(c *transfer.Config) { c.Window, c.SeveralFrom, c.TreeFrom = 3, 4*mib, 2*mib }
	want, otherWant := noise(seed, size), noise(seed+1000, size)
	a := n.node("a")
	v := a.put(1, 1, want)
	if seed%2 == 0 {
		v = objectstore.Version{ID: id(1)} // whichever is there, but one of them
	}
	sources := []core.NodeKey{key("a")}
	others := r.IntN(3) // with none, the object is lost
	for i := range others {
		name := raysys.NodeID(fmt.Sprint("copy", i))
		x := n.node(name)
		if r.IntN(4) == 0 {
			x.put(1, 2, otherWant) // another attempt, never to be mixed in
			others--
		} else {
			x.put(1, 1, want)
		}
		sources = append(sources, key(name))
	}
	receivers := make([]*node, 1+r.IntN(3))
	for i := range receivers {
		receivers[i] = n.node(raysys.NodeID(fmt.Sprint("r", i)))
		n.memory.Delay("a", receivers[i].name, time.Millisecond, time.Millisecond)
	}
	a.dieAt(t, size, percent)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var arrived, lost atomic.Int32
	for _, x := range receivers {
		wg.Go(func() {
			got, err := x.getAs(ctx, v, objectstore.Heap, transfer.From(sources...))
			switch {
			case err == nil && bytes.Equal(got, want):
				arrived.Add(1)
			case err == nil && v.Nonce == 0 && bytes.Equal(got, otherWant):
			case err == nil:
				t.Error("wrong bytes")
			case errors.Is(err, raysys.ErrObjectLost):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if others > 0 && lost.Load() > 0 {
		t.Errorf("%d of %d lost it while %d nodes had it", lost.Load(), len(receivers), others)
	}
	cancel()
	synctest.Wait()
	for _, x := range receivers {
		if s := x.Stats(); s.Flights != 0 || s.Feeds != 0 {
			t.Errorf("%s: %+v", x.name, s)
		}
	}
}

// TestHostile: what cannot be is an error, which costs the one who sent it the connection and nobody else anything.
func TestHostile(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		a.put(1, 1, noise(1, 3*mib))
		p, err := b.Connect(t.Context(), key("a"))
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range transfer.Kinds() {
			if err := a.Handle(p, k, []byte{0x80}); !errors.Is(err, wire.ErrCorrupt) {
				t.Errorf("kind %d: %v", k, err)
			}
		}
		if err := a.Handle(p, wire.KindLoad, nil); err == nil {
			t.Error("a frame of another part was taken")
		}
		for _, c := range []struct {
			name  string
			kind  wire.Kind
			bytes []byte
		}{
			{"asks for nothing", wire.KindAsk, []byte{1, 1, 0, 0}},
			{"asks for too much", wire.KindAsk, []byte{1, 1, 0, 0x81, 0x08}},
			{"a list longer than its frame", wire.KindPull, append(make([]byte, 28), 0xff, 0x7f)},
			{"a version that is cut off", wire.KindPulled, append([]byte{1, 0}, make([]byte, 25)...)},
		} {
			if err := a.Handle(p, c.kind, c.bytes); !errors.Is(err, wire.ErrCorrupt) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if l := a.Land(key("b"), []byte{1, 1}, 5); l != nil {
			t.Error("a body that nobody asked for has a place")
		}
	})
}
