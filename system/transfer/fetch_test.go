package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys/system/object"
	"github.com/raysys/raysys/system/transfer"
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
		for _, form := range []object.Form{object.Heap, object.Segment, object.Disk} {
			t.Run(fmt.Sprint(size, form), func(t *testing.T) {
				bubble(t, func(t *testing.T, n *net) {
					a, b := n.node("a"), n.node("b")
					want := noise(1, size)
					v := a.put(1, 3, want)
					got, err := b.getAs(t.Context(), object.Version{ID: id(1)}, form, transfer.From(key("a")))
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
