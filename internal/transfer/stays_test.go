package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

// TestFetchedIsNotDropped: between its last chunk and those who wait for it, an object is not dropped for room.
func TestFetchedIsNotDropped(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		n.objects.Budget = 16 * mib
		struck, hold := make(chan struct{}), make(chan struct{})
		a, b := n.node("a"), n.node("b", func(c *transfer.Config) {
			c.Hooks.Struck = func(core.NodeKey, raysys.TaskID, error) {
				close(struck)
				<-hold // the transfer is not over before this returns
			}
		})
		n.node("lacks")
		want := noise(1, 8*mib)
		a.put(1, 1, want)
		type got struct {
			bytes []byte
			err   error
		}
		done := make(chan got, 1)
		go func() {
			b, err := b.get(context.Background(), 1, key("lacks"), key("a"))
			done <- got{b, err}
		}()
		<-struck
		synctest.Wait() // all chunks came
		// More than what the object leaves, so that there is room for one of them.
		if _, err := b.store.Add(t.Context(), id(2), 1, &value{[][]byte{nil, noise(2, 12*mib)}}); err != nil {
			t.Fatal(err)
		}
		close(hold)
		if g := <-done; g.err != nil || !bytes.Equal(g.bytes, want) {
			t.Error(len(g.bytes), g.err)
		}
	})
}

// TestAnotherAttempt: who took an object from its owner is no source of what has the same id now (rule C22).
func TestAnotherAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b, c, d := n.node("a"), n.node("b"), n.node("c"), n.node("d")
		first, second := noise(1, 12*mib), noise(2, 12*mib)
		a.put(1, 1, first)
		for _, x := range []*node{b, c} {
			if got, err := x.get(t.Context(), 1, key("a")); err != nil || !bytes.Equal(got, first) {
				t.Fatal(x.name, err)
			}
		}
		a.store.Lookup(id(1)).Release()
		a.put(1, 2, second)
		if got, err := d.get(t.Context(), 1, key("a")); err != nil || !bytes.Equal(got, second) {
			t.Errorf("another attempt's value, %t: %v", bytes.Equal(got, first), err)
		}
	})
}

// TestNeverTellsItsVersion: a source that does not say which version it has is given up.
func TestNeverTellsItsVersion(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.nodeWith("a", func(x *node) {
			x.onFrame = func(_ raysys.NodeID, kind wire.Kind, payload []byte) []byte {
				if kind == wire.KindPulled {
					payload = bytes.Clone(payload)
					clear(payload[len(payload)-8:]) // the nonce
				}
				return payload
			}
		}), n.node("b")
		a.put(1, 1, noise(1, 9*mib))
		if _, err := b.get(t.Context(), 1, key("a")); !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "nonce") {
			t.Error(err)
		}
	})
}

// TestWantOfAnother: one who wants a version that nobody has does not keep another from what there is.
func TestWantOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, n *net) {
		a, b := n.node("a"), n.node("b")
		want := noise(1, 9*mib)
		wrong := a.put(1, 1, want)
		wrong.Nonce++
		ask := make(chan core.NodeKey)
		done := make(chan error, 2)
		go func() {
			got, err := b.getAs(context.Background(), objectstore.Version{ID: id(1)}, objectstore.Heap, asked(ask))
			if err == nil && !bytes.Equal(got, want) {
				err = errors.New("other bytes")
			}
			done <- err
		}()
		synctest.Wait()
		go func() {
			_, err := b.getAs(context.Background(), wrong, objectstore.Heap, transfer.From())
			if !errors.Is(err, raysys.ErrObjectLost) {
				done <- errors.Join(errors.New("the wrong version was found"), err)
				return
			}
			done <- nil
		}()
		synctest.Wait()
		ask <- key("a")
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// asked are sources that come when the test gives them.
type asked chan core.NodeKey

// Next implements transfer.Sources.
func (c asked) Next(ctx context.Context) (core.NodeKey, error) {
	select {
	case k := <-c:
		return k, nil
	case <-ctx.Done():
		return core.NodeKey{}, context.Cause(ctx)
	}
}
