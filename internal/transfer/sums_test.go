package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
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

// older makes a node ask as a version did that knew no sums beside chunks.
func older(x *node) {
	x.onFrame = func(_ raysys.NodeID, kind wire.Kind, payload []byte) []byte {
		if kind == wire.KindPull {
			return transfer.Older(payload)
		}
		return payload
	}
}

// neverBeside makes a node answer as one did.
func neverBeside(c *transfer.Config) { c.SumsFrom = math.MaxInt64 }

// besideAlways has the sums of every object beside its chunks, and makes much of little.
func besideAlways(c *transfer.Config) {
	c.SumsFrom, c.Window, c.SeveralFrom, c.TreeFrom = 1, 2, 2*mib, 2*mib
}

// sameSums compares what a node knows of an object with what its bytes say.
func (x *node) sameSums(n uint64, attempt uint32, b []byte) {
	x.net.t.Helper()
	o := x.store.Lookup(id(n))
	if o == nil {
		x.net.t.Errorf("%s does not have the object", x.name)
		return
	}
	got, err := o.Manifest(context.Background())
	want := objectstore.NewManifest(id(n), attempt, b)
	if err != nil || got.Version != want.Version || !slices.Equal(got.Chunks, want.Chunks) {
		x.net.t.Errorf("%s: %s where the bytes are %s: %v", x.name, got.Version, want.Version, err)
	}
}

// TestSumsBeside: whoever asks and whoever answers, of this version or an earlier one, what arrives is the same, and both
// sides know the same sums of it. Sums come beside the chunks where both know how and the object is large.
func TestSumsBeside(t *testing.T) {
	for _, size := range []int{0, 1, 8*mib - 1, 8 * mib, long.Form(9, 20)*mib + 5} {
		for _, asks := range []bool{true, false} {
			for _, gives := range []bool{true, false} {
				for _, form := range []objectstore.Form{objectstore.Heap, objectstore.Segment, objectstore.Disk} {
					t.Run(fmt.Sprint(size, " asks ", asks, " gives ", gives, " ", form), func(t *testing.T) {
						bubble(t, func(t *testing.T, n *net) { besideOne(t, n, size, asks, gives, form) })
					})
				}
			}
		}
	}
}

func besideOne(t *testing.T, n *net, size int, asks, gives bool, form objectstore.Form) {
	a, b := n.node("a"), n.node("b")
	if !gives {
		a = n.node("old", neverBeside)
	}
	if !asks {
		older(b)
	}
	want := noise(1, size)
	a.hold(1, 3, want)
	got, err := b.getAs(t.Context(), objectstore.Version{ID: id(1)}, form, transfer.From(key(a.name)))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatal(len(got), err)
	}
	a.sameSums(1, 3, want)
	b.sameSums(1, 3, want)
	unsummed := uint64(0)
	if asks && gives && size >= 8*mib {
		unsummed = 1
	}
	if s := b.Stats(); s.BytesIn != uint64(size) || s.Struck+s.Corrupt+s.Resumed != 0 {
		t.Errorf("%+v", s)
	}
	synctest.Wait()
	if s := a.Stats(); s.BytesOut != uint64(size) || s.Unsummed != unsummed {
		t.Errorf("%+v", s)
	}
	// Whoever comes next is told them all.
	c := n.node("c")
	if got, err := c.get(t.Context(), 1, key(a.name)); err != nil || !bytes.Equal(got, want) || a.Stats().Unsummed != unsummed {
		t.Error(err)
	}
	c.sameSums(1, 3, want)
}

// TestBesideWanted: one who wants a version by its sum sees all of it before the first chunk; who comes to a transfer
// that did not gets that version or an error.
func TestBesideWanted(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		want := noise(1, 20*mib)
		a.hold(1, 1, want)
		v := objectstore.NewManifest(id(1), 1, want).Version
		if got, err := b.getAs(t.Context(), v, objectstore.Heap, transfer.From(key("a"))); err != nil || !bytes.Equal(got, want) || a.Stats().Unsummed != 0 {
			t.Error(err)
		}
		a.hold(2, 1, want)
		n.memory.Delay("a", "b", 10*time.Millisecond, 0)
		v.ID = id(2)
		v = objectstore.NewManifest(id(2), 1, want).Version
		wrong := v
		wrong.Sum++
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
		if a.Stats().Unsummed != 1 {
			t.Errorf("%+v", a.Stats())
		}
	})
}

// TestBesideWrongBytes: a chunk that is not what its own sum says strikes its source off, as one that is not what the
// manifest says.
func TestBesideWrongBytes(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b, c := n.nodeWith("a", spoil(7)), n.node("b"), n.node("c")
		want := noise(1, 12*mib) // so small that one source is asked at a time
		a.hold(1, 1, want)
		b.put(1, 1, want)
		got, err := c.get(t.Context(), 1, key("a"), key("b"))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
		if s := c.Stats(); s.Corrupt != 1 || a.Stats().Unsummed != 1 || s.BytesIn != uint64(len(want)) {
			t.Errorf("%+v", s)
		}
		c.sameSums(1, 1, want)
		d, e := n.nodeWith("d", spoil(2)), n.node("e")
		d.hold(1, 1, want)
		_, err = e.get(t.Context(), 1, key("d"))
		var wrong *objectstore.ChunkError
		if !errors.Is(err, raysys.ErrObjectLost) || !errors.As(err, &wrong) || e.store.Lookup(id(1)) != nil {
			t.Error(err)
		}
	})
}

// TestBadLinks: whatever becomes of links and frames, what arrives is right, with sums that are known and such that come
// with the chunks.
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
			n.adapt = besideAlways
			a, b := n.node("a"), n.node("b")
			want := noise(seed, 6*mib+int(seed))
			if seed%2 == 0 {
				a.put(1, 1, want)
				b.put(1, 1, want)
			} else {
				a.hold(1, 1, want)
				b.hold(1, 1, want) // the same, but nobody can know
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
				x.sameSums(1, 1, want)
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

// TestNeverMixed: two versions of one id, attempt and length, which share their first chunks, are on two nodes; sums are
// known, or come beside the chunks, and one of the nodes may die. Nobody has bytes of both (rule C22), and while the
// nodes live everybody has one of them.
func TestNeverMixed(t *testing.T) {
	seeds := long.Form[uint64](8, 50)
	var first, second, lost, beside atomic.Int64
	for _, percent := range []int{0, 10, 50, 90} { // 0: nobody dies
		for seed := range seeds {
			bubbleSeed(t, seed, func(t *testing.T, n *net) {
				r := rand.New(rand.NewPCG(seed, uint64(percent)))
				n.adapt = besideAlways
				one := noise(seed, 3*mib+r.IntN(5*mib))
				two := twin(one, r.IntN(len(one)/mib)*mib)
				if r.IntN(4) == 0 {
					two = one
				}
				a, b := n.node("a"), n.node("b")
				a.hold(1, 1, one)
				if o := b.hold(1, 1, two); r.IntN(3) > 0 {
					if _, err := o.Manifest(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				receivers := make([]*node, 1+r.IntN(4))
				for i := range receivers {
					receivers[i] = n.node(raysys.NodeID(fmt.Sprint("r", i)), func(c *transfer.Config) { c.Fanout = 1 })
					n.memory.Delay("a", receivers[i].name, time.Duration(1+r.IntN(3))*time.Millisecond, time.Millisecond)
					n.memory.Delay("b", receivers[i].name, time.Duration(1+r.IntN(9))*time.Millisecond, time.Millisecond)
				}
				die := make(chan struct{})
				at, sent := int64(len(one))*int64(percent)/100, atomic.Int64{}
				a.onBody = func(_ raysys.NodeID, body *transfer.Body) {
					n := int64(transferLength(body))
					if total := sent.Add(n); total >= at && total-n < at {
						close(die)
					}
				}
				go func() {
					select {
					case <-die:
						a.kill()
					case <-t.Context().Done():
					}
				}()
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
							x.sameSums(1, 1, one)
						case err == nil && bytes.Equal(got, two):
							second.Add(1)
							x.sameSums(1, 1, two)
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
				beside.Add(int64(a.Stats().Unsummed))
			})
		}
	}
	t.Logf("%d have the first, %d the second, %d lost it; %d received sums beside chunks", first.Load(), second.Load(), lost.Load(), beside.Load())
	if first.Load() == 0 || second.Load() == 0 || beside.Load() == 0 {
		t.Error("not everything was tried")
	}
}
