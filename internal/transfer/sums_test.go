package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// inParts makes much of little.
func inParts(c *transfer.Config) { c.Window, c.SeveralFrom, c.TreeFrom = 2, 2*mib, 2*mib }

// sameSums compares the sum of each chunk that a node gives with that of the bytes.
func (x *node) sameSums(n uint64, b []byte) {
	x.net.t.Helper()
	o := x.store.Lookup(id(n))
	if o == nil {
		x.net.t.Errorf("%s does not have the object", x.name)
		return
	}
	for i := range objectstore.Chunks(int64(len(b))) {
		c, err := o.Chunk(context.Background(), i)
		if err != nil {
			x.net.t.Errorf("%s: %v", x.name, err)
			return
		}
		if sum, err := c.Sum(); err != nil || sum != objectstore.Checksum(b[i*mib:min(len(b), (i+1)*mib)]) {
			x.net.t.Errorf("%s: chunk %d has the sum %08x: %v", x.name, i, sum, err)
		}
		c.Release()
	}
}

// TestSums: whatever the size and wherever it goes, an object arrives as it is, both sides have the same version and
// sums of it, and the next receiver can have it from the first.
func TestSums(t *testing.T) {
	for _, size := range []int{0, 1, 8*mib - 1, 8 * mib, long.Form(9, 20)*mib + 5} {
		for _, form := range []objectstore.Form{objectstore.Heap, objectstore.Segment, objectstore.Disk} {
			t.Run(fmt.Sprint(size, " ", form), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *net) {
					a, b, c := n.node("a"), n.node("b"), n.node("c")
					want := noise(1, size)
					v := a.put(1, 3, want)
					for _, x := range []*node{b, c} {
						from := map[*node]core.NodeKey{b: key("a"), c: key("b")}[x]
						got, err := x.getAs(t.Context(), objectstore.Version{ID: id(1)}, form, transfer.From(from))
						if err != nil || !bytes.Equal(got, want) {
							t.Fatal(x.name, len(got), err)
						}
						if have, err := x.store.Lookup(id(1)).Version(t.Context()); err != nil || have != v {
							t.Errorf("%s has %s where its source had %s: %v", x.name, have, v, err)
						}
						if s := x.Stats(); s.BytesIn != uint64(size) || s.Struck+s.Corrupt+s.Resumed != 0 {
							t.Errorf("%s: %+v", x.name, s)
						}
						a.sameSums(1, want)
						x.sameSums(1, want)
					}
				})
			})
		}
	}
}

// TestRotInTheMiddle: bytes that rot in the memory of a copy are no chunk to the next receiver, which has the sum that
// the owner computed; the copy is struck off, and the chunk comes from elsewhere.
func TestRotInTheMiddle(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b, c := n.node("a"), n.node("b"), n.node("c")
		want := noise(1, 12*mib)
		a.put(1, 1, bytes.Clone(want))
		copied, err := b.get(t.Context(), 1, key("a"))
		if err != nil {
			t.Fatal(err)
		}
		copied[5*mib+7] ^= 1 // the copy's own memory
		got, err := c.get(t.Context(), 1, key("b"), key("a"))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
		if s := c.Stats(); s.Corrupt != 1 || s.Struck != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWanted: one who wants a version gets that or an error, also from a transfer that was begun for one who takes any.
func TestWanted(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		want := noise(1, 20*mib)
		v := a.put(1, 1, want)
		if got, err := b.getAs(t.Context(), v, objectstore.Heap, transfer.From(key("a"))); err != nil || !bytes.Equal(got, want) {
			t.Error(err)
		}
		v = a.put(2, 1, want)
		n.memory.Delay("a", "b", 10*time.Millisecond, 0)
		wrong := v
		wrong.Nonce++
		var wg sync.WaitGroup
		for _, w := range []objectstore.Version{{ID: id(2)}, v, wrong} {
			wg.Go(func() {
				got, err := b.getAs(t.Context(), w, objectstore.Heap, transfer.From(key("a")))
				if w == wrong && !errors.Is(err, raysys.ErrObjectLost) || w != wrong && (err != nil || !bytes.Equal(got, want)) {
					t.Errorf("%s: %v", w, err)
				}
			})
			<-time.After(25 * time.Millisecond)
		}
		wg.Wait()
	})
}

// TestBadLinks: whatever becomes of links and frames, what arrives is right, from two nodes with one version and from
// two with two.
func TestBadLinks(t *testing.T) {
	for seed := range long.Form[uint64](8, 40) {
		bubbleSeed(t, seed, func(t *testing.T, n *net) {
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 1))
			n.chaos = func(raysys.NodeID, wire.Class, wire.Kind) link.Action {
				mu.Lock()
				defer mu.Unlock()
				switch r.IntN(20) {
				case 0:
					return link.Drop
				case 1, 2:
					return link.Duplicate
				case 3:
					return link.Reorder
				}
				return link.Pass
			}
			n.adapt = inParts
			a, b := n.node("a"), n.node("b")
			want := noise(seed, 6*mib+int(seed))
			a.put(1, 1, want)
			if seed%2 == 0 {
				b.put(1, 1, want)
			} else {
				b.own(1, 1, want) // of another run: no receiver can know that the bytes are the same
			}
			var sent atomic.Int32
			a.onBody = func(raysys.NodeID, *transfer.Body) {
				if k := sent.Add(1); k == 3 || k == 7 {
					go n.memory.Reset("a", "c")
				}
			}
			for _, x := range []*node{n.node("c"), n.node("d"), n.node("e")} {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				got, err := x.get(ctx, 1, key("a"), key("b"))
				cancel()
				if err != nil || !bytes.Equal(got, want) {
					t.Error(x.name, err)
					continue
				}
				x.sameSums(1, want)
			}
		})
	}
}

// twin is the bytes of another version that begins as b does.
func twin(b []byte, same int) []byte {
	other := bytes.Clone(b)
	for i := same; i < len(other); i += mib / 2 {
		other[i] ^= 0x55
	}
	return other
}

// TestNeverMixed: two versions of one id, attempt and length, which share their first chunks, are on two nodes, or one
// version on both; one of the nodes may die. Nobody has bytes of both (rule C22), and while the
// nodes live everybody has one of them.
func TestNeverMixed(t *testing.T) {
	seeds := long.Form[uint64](1, 50)
	var first, second, lost atomic.Int64
	for _, percent := range []int{0, 10, 50, 90} { // 0: nobody dies
		for seed := range seeds {
			bubbleSeed(t, seed, func(t *testing.T, n *net) {
				r := rand.New(rand.NewPCG(seed, uint64(percent)))
				n.adapt = inParts
				one := noise(seed, 3*mib+r.IntN(5*mib))
				two := twin(one, r.IntN(len(one)/mib)*mib)
				if r.IntN(4) == 0 {
					two = one
				}
				a, b := n.node("a"), n.node("b")
				a.put(1, 1, one)
				b.put(1, 1, two)
				receivers := make([]*node, 1+r.IntN(4))
				for i := range receivers {
					receivers[i] = n.node(raysys.NodeID(fmt.Sprint("r", i)), func(c *transfer.Config) { c.Fanout = 1 })
					n.memory.Delay("a", receivers[i].name, time.Duration(1+r.IntN(3))*time.Millisecond, time.Millisecond)
					n.memory.Delay("b", receivers[i].name, time.Duration(1+r.IntN(9))*time.Millisecond, time.Millisecond)
				}
				a.dieAt(t, len(one), percent)
				var wg sync.WaitGroup
				for i, x := range receivers {
					from := []core.NodeKey{key("a"), key("b")}
					if i > 0 {
						from = append(from, key(receivers[r.IntN(i)].name))
					}
					if r.IntN(3) == 0 {
						slices.Reverse(from)
					}
					wait := time.Duration(r.IntN(6)) * time.Millisecond
					wg.Go(func() {
						<-time.After(wait)
						got, err := x.get(t.Context(), 1, from...)
						switch {
						case err == nil && bytes.Equal(got, one):
							first.Add(1)
							x.sameSums(1, one)
						case err == nil && bytes.Equal(got, two):
							second.Add(1)
							x.sameSums(1, two)
						case err == nil:
							t.Errorf("%s has bytes of neither version", x.name)
						case errors.Is(err, raysys.ErrObjectLost) && percent > 0 && !bytes.Equal(one, two):
							lost.Add(1)
						default:
							t.Errorf("%s: %v", x.name, err)
						}
					})
				}
				wg.Wait()
				synctest.Wait()
				for _, x := range receivers {
					if s := x.Stats(); s.Flights != 0 || s.Feeds != 0 {
						t.Errorf("%s: %+v", x.name, s)
					}
				}
			})
		}
	}
	t.Logf("%d have the first, %d the second, %d lost it", first.Load(), second.Load(), lost.Load())
	if first.Load() == 0 || second.Load() == 0 {
		t.Error("not everything was tried")
	}
}
