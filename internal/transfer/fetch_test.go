package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
)

// bubble runs f in virtual time with a network of its own.
func bubble(t *testing.T, f func(t *testing.T, n *net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newNet(t, 1)) })
}

const mib = 1 << 20

// TestFetch: objects of any size arrive as they are, in every form.
func TestFetch(t *testing.T) {
	for _, size := range []int{0, 1, 100_000, mib - 1, mib, mib + 1, 5*mib + 12345, 40 * mib} {
		for _, form := range []objectstore.Form{objectstore.Heap, objectstore.Segment, objectstore.Disk} {
			t.Run(fmt.Sprint(size, form), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *net) {
					a, b := n.node("a"), n.node("b")
					want := noise(1, size)
					v := a.put(1, 3, want)
					got, err := b.getAs(t.Context(), objectstore.Version{ID: id(1)}, form, transfer.From(key("a")))
					if err != nil || !bytes.Equal(got, want) {
						t.Fatal(len(got), err)
					}
					again, err := b.getAs(context.Background(), v, form, transfer.From())
					if err != nil || !bytes.Equal(again, want) {
						t.Error("what is here is fetched again:", err)
					}
					if s := b.Stats(); s.BytesIn != uint64(size) || s.Failed != 0 || s.Corrupt != 0 || s.Flights != 0 || s.Feeds != 0 {
						t.Errorf("%+v", s)
					}
					synctest.Wait()
					if s := a.Stats(); s.BytesOut != uint64(size) || s.Streams != 0 {
						t.Errorf("%+v", s)
					}
				})
			})
		}
	}
}

// TestSpilled: what lies in a file is sent from there, and read back from there.
func TestSpilled(t *testing.T) {
	for _, memory := range []bool{true, false} {
		t.Run(fmt.Sprint("memory ", memory), func(t *testing.T) {
			body := func(t *testing.T) {
				n := newNet(t, 1)
				if !memory {
					n.memory = nil // over TCP, the system moves it
				}
				a, b, c, d := n.node("a"), n.node("b"), n.node("c"), n.node("d")
				want := noise(1, 20*mib+77)
				v := a.put(1, 1, want)
				var files atomic.Int32
				for _, x := range []*node{b, c} {
					x.onBody = func(_ raysys.NodeID, body *transfer.Body) {
						if body.File != nil {
							files.Add(1)
						}
					}
				}
				for i, x := range []*node{b, c, d} {
					from := []core.NodeKey{key("a"), key("b"), key("c")}[i]
					o, err := x.Fetch(t.Context(), v, transfer.From(from), objectstore.Disk)
					if err != nil {
						t.Fatal(x.name, err)
					}
					o.Unpin()
				}
				for _, x := range []*node{b, c, d} {
					got, err := x.getAs(t.Context(), v, objectstore.Heap, transfer.From())
					if err != nil || !bytes.Equal(got, want) {
						t.Error(x.name, err)
					}
				}
				if files.Load() == 0 {
					t.Error("nothing was sent from a file")
				}
			}
			if memory {
				synctest.Test(t, body)
			} else {
				body(t)
			}
		})
	}
}

// spoil makes a node send one of its chunks wrong: the n-th, counted from 1.
func spoil(n int) func(*node) {
	sent := 0
	return func(x *node) {
		x.onBody = func(_ raysys.NodeID, body *transfer.Body) {
			if sent++; sent == n {
				wrong := bytes.Clone(bytes.Join(body.Pieces, nil))
				wrong[len(wrong)/2] ^= 1
				body.Pieces = [][]byte{wrong}
			}
		}
	}
}

// copies gives each of the nodes the object of the first.
func copies(t *testing.T, n uint64, nodes ...*node) {
	t.Helper()
	for i, x := range nodes[1:] {
		if _, err := x.get(context.Background(), n, key(nodes[i].name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSeveral: a large object comes from all who have it, each chunk once.
func TestSeveral(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b, c, d := n.node("a"), n.node("b"), n.node("c"), n.node("d")
		want := noise(1, 60*mib+5)
		a.put(1, 1, want)
		copies(t, 1, a, b, c)
		for _, x := range []string{"a", "b", "c"} {
			n.memory.Delay("d", raysys.NodeID(x), time.Millisecond, time.Millisecond)
		}
		before := a.Stats().BytesOut
		got, err := d.get(t.Context(), 1, key("a"), key("b"), key("c"))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
		synctest.Wait()
		total := a.Stats().BytesOut - before + b.Stats().BytesOut - uint64(len(want)) + c.Stats().BytesOut
		if total != uint64(len(want)) {
			t.Errorf("%d bytes were sent of %d", total, len(want))
		}
		for _, x := range []*node{a, b, c} {
			if s := x.Stats(); s.BytesOut%uint64(len(want)) < 5*mib {
				t.Errorf("%s gave %d bytes", x.name, s.BytesOut)
			}
		}
	})
}

// TestWrongBytes: a chunk that is wrong is never seen: its source is struck off, and the chunk comes from another, or the
// error says what was wrong.
func TestWrongBytes(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, c := n.nodeWith("a", spoil(7)), n.node("c")
		b := n.node("b")
		want := noise(1, 20*mib)
		a.put(1, 1, want)
		b.put(1, 1, want)
		got, err := c.get(t.Context(), 1, key("a"), key("b"))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
		if s := c.Stats(); s.Corrupt != 1 {
			t.Errorf("%+v", s)
		}
		d := n.node("d")
		a.onBody = func(_ raysys.NodeID, body *transfer.Body) {
			body.Pieces = [][]byte{make([]byte, transferLength(body))}
		}
		_, err = d.get(t.Context(), 1, key("a"))
		var wrong *objectstore.ChunkError
		if !errors.Is(err, raysys.ErrObjectLost) || !errors.As(err, &wrong) || !strings.Contains(err.Error(), "a (incarnation 1)") {
			t.Error(err)
		}
		if o := d.store.Lookup(id(1)); o != nil {
			t.Error("what was not received whole is found")
		}
	})
}

func transferLength(b *transfer.Body) (n int) {
	for _, p := range b.Pieces {
		n += len(p)
	}
	return n
}

// TestVersions: chunks of two attempts are never mixed (rule C22), though each of their checksums is right.
func TestVersions(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b, c := n.node("a"), n.node("b"), n.node("c")
		one, two := noise(1, 30*mib), noise(2, 30*mib)
		a.put(1, 1, one)
		second := b.put(1, 2, two)
		n.memory.Delay("a", "c", time.Millisecond, 0)
		got, err := c.get(t.Context(), 1, key("a"), key("b"))
		if err != nil || !bytes.Equal(got, one) {
			t.Error(err)
		}
		if s := b.Stats(); s.BytesOut != 0 {
			t.Error("the second attempt was asked for chunks")
		}
		d := n.node("d")
		got, err = d.getAs(t.Context(), second, objectstore.Heap, transfer.From(key("a"), key("b")))
		if err != nil || !bytes.Equal(got, two) {
			t.Error(err)
		}
		if _, err := d.getAs(t.Context(), objectstore.Version{ID: id(1), Attempt: 1, Size: 30 * mib, Nonce: 7}, objectstore.Heap, transfer.From(key("a"))); !errors.Is(err, raysys.ErrObjectLost) {
			t.Error("another version than is here:", err)
		}
		e := n.node("e")
		_, err = e.getAs(t.Context(), objectstore.Version{ID: id(1), Attempt: 1, Size: 30 * mib, Nonce: 7}, objectstore.Heap, transfer.From(key("a"), key("b")))
		if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "another version") {
			t.Error(err)
		}
	})
}

// TestLost: each way of not having an object is an error that says who was asked and what came of it.
func TestLost(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		n.node("a")
		b := n.node("b")
		for _, c := range []struct {
			from transfer.Sources
			want string
		}{
			{transfer.From(), "no other node is known to have it"},
			{transfer.From(key("b")), "no other node is known to have it"}, // the node itself
			{transfer.From(key("a")), "a (incarnation 1): it does not have it"},
			{transfer.From(key("gone"), key("a")), "gone (incarnation 1): it does not answer: node dead"},
		} {
			_, err := b.getAs(t.Context(), objectstore.Version{ID: id(9)}, objectstore.Heap, c.from)
			if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), id(9).String()) {
				t.Error(err)
			}
		}
		if _, err := b.getAs(t.Context(), objectstore.Version{}, objectstore.Heap, transfer.From(key("a"))); !errors.Is(err, raysys.ErrInvalidRef) {
			t.Error(err)
		}
	})
}

// TestSingleFlight: those who want one object share its transfer, and one who leaves takes nothing from the others.
func TestSingleFlight(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		want := noise(1, 10*mib)
		a.put(1, 1, want)
		n.memory.Delay("a", "b", 10*time.Millisecond, 0)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		for i := range 10 {
			wg.Go(func() {
				if i%3 == 0 {
					if _, err := b.get(ctx, 1, key("a")); !errors.Is(err, why) {
						t.Error(err)
					}
					return
				}
				if got, err := b.get(t.Context(), 1, key("a")); err != nil || !bytes.Equal(got, want) {
					t.Error(err)
				}
			})
		}
		<-time.After(15 * time.Millisecond)
		cancel(why)
		wg.Wait()
		if s := b.Stats(); s.BytesIn != uint64(len(want)) || s.Fetched != 1 {
			t.Errorf("%+v", s)
		}
		<-time.After(time.Second) // for the last word to arrive
		synctest.Wait()
		for _, x := range []*node{a, b} {
			for _, info := range x.store.List() {
				if info.Pins != 0 {
					t.Errorf("%s: %d pins are left", x.name, info.Pins)
				}
			}
		}
	})
}

// TestCancelled: when the last who wants it leaves, the transfer ends at once, though the source is silent, and leaves
// nothing; who comes then begins anew.
func TestCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		want := noise(1, 20*mib)
		a.put(1, 1, want)
		n.memory.Delay("a", "b", 5*time.Millisecond, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 42*time.Millisecond)
		defer cancel()
		begin := time.Now()
		time.AfterFunc(38*time.Millisecond, func() { n.memory.Cut("a", "b") })
		if _, err := b.get(ctx, 1, key("a")); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 42*time.Millisecond {
			t.Error(time.Since(begin), err)
		}
		synctest.Wait()
		if s := b.Stats(); s.Flights != 0 || s.Feeds != 0 {
			t.Errorf("%+v", s)
		}
		if u := b.store.Stats(); u.Used != 0 {
			t.Errorf("%d bytes of memory stay used", u.Used)
		}
		n.memory.HealAll()
		if got, err := b.get(t.Context(), 1, key("a")); err != nil || !bytes.Equal(got, want) {
			t.Error(err)
		}
	})
}

// TestClosed: Close ends what waits.
func TestClosed(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		a.put(1, 1, noise(1, 20*mib))
		n.memory.Delay("a", "b", 5*time.Millisecond, 0)
		time.AfterFunc(20*time.Millisecond, b.Engine.Close)
		if _, err := b.get(t.Context(), 1, key("a")); !errors.Is(err, raysys.ErrClosed) {
			t.Error(err)
		}
		if _, err := b.get(t.Context(), 2, key("a")); !errors.Is(err, raysys.ErrClosed) {
			t.Error(err)
		}
		c := n.node("c")
		if _, err := c.get(t.Context(), 1, key("b")); !errors.Is(err, raysys.ErrObjectLost) {
			t.Error(err)
		}
	})
}

// TestNoRoom: a receiver without room says so, and does not blame the source.
func TestNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a := n.node("a")
		a.put(1, 1, noise(1, 20*mib))
		n.objects.Budget, n.objects.Disk = 2*mib, 3*mib
		b := n.node("b")
		if _, err := b.get(t.Context(), 1, key("a")); !errors.Is(err, raysys.ErrStoreFull) || errors.Is(err, raysys.ErrObjectLost) {
			t.Error(err)
		}
	})
}

// told is a Sources that learns of nodes while it is asked.
type told chan core.NodeKey

func (c told) Next(ctx context.Context) (core.NodeKey, error) {
	select {
	case k, ok := <-c:
		if !ok {
			return k, errors.New("the directory knows nobody else")
		}
		return k, nil
	case <-ctx.Done():
		return core.NodeKey{}, context.Cause(ctx)
	}
}

// TestTold: a flight without a source waits until it is told of one, and no longer.
func TestTold(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		want := noise(1, 3*mib)
		a.put(1, 1, want)
		news := make(told)
		time.AfterFunc(time.Minute, func() { news <- key("a") })
		begin := time.Now()
		got, err := b.getAs(t.Context(), objectstore.Version{ID: id(1)}, objectstore.Heap, news)
		if err != nil || !bytes.Equal(got, want) || time.Since(begin) != time.Minute {
			t.Error(time.Since(begin), err)
		}
		time.AfterFunc(time.Minute, func() { close(news) })
		_, err = b.getAs(t.Context(), objectstore.Version{ID: id(2)}, objectstore.Heap, news)
		if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "the directory knows nobody else") {
			t.Error(err)
		}
		// One whose sources only wait does not keep back another who knows somebody.
		a.put(3, 1, want)
		quiet, stop := context.WithCancel(t.Context())
		defer stop()
		go b.getAs(quiet, objectstore.Version{ID: id(3)}, objectstore.Heap, make(told))
		synctest.Wait()
		if got, err := b.get(t.Context(), 3, key("a")); err != nil || !bytes.Equal(got, want) {
			t.Error(err)
		}
	})
}
