package transfer_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/transfer"
	"github.com/raysys/raysys/internal/wire"
)

func sameHost(c *transfer.Config) { c.Host = "here" }

// TestSameHost: processes of one host map a large object, all of them that of its owner, and nothing is sent.
func TestSameHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no memory files to share")
	}
	bubble(t, func(t *testing.T, n *net) {
		n.adapt = sameHost
		a := n.node("a")
		want := noise(1, 20*mib+3)
		a.put(1, 1, want)
		for i := range 4 {
			x := n.node(raysys.NodeID(fmt.Sprint("r", i)))
			o, err := x.Fetch(t.Context(), objectstore.Version{ID: id(1)}, transfer.From(key("a")), objectstore.Segment)
			if err != nil {
				t.Fatal(err)
			}
			m, err := o.Map(t.Context())
			if err != nil || !bytes.Equal(m.Bytes(), want) {
				t.Fatal(err)
			}
			m.Close()
			o.Unpin()
			if s := x.Stats(); s.Mapped != 1 || s.BytesIn != 0 {
				t.Errorf("%+v", s)
			}
		}
		small := noise(2, mib/2)
		a.put(2, 1, small)
		b := n.node("b")
		if got, err := b.get(t.Context(), 2, key("a")); err != nil || !bytes.Equal(got, small) {
			t.Error(err)
		}
		far := n.node("far", func(c *transfer.Config) { c.Host = "elsewhere" })
		if got, err := far.get(t.Context(), 1, key("a")); err != nil || !bytes.Equal(got, want) {
			t.Error(err)
		}
		synctest.Wait()
		if s := a.Stats(); s.Shared != 4 || s.BytesOut != uint64(len(want)+len(small)) || s.Streams != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestSentOnTheSameHost: what is asked for as sent goes into memory of the receiver, which is used again when the copy was dropped.
func TestSentOnTheSameHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no memory files to share")
	}
	bubble(t, func(t *testing.T, n *net) {
		n.adapt = sameHost
		a, b := n.node("a"), n.node("b")
		for i := range uint64(3) {
			want := noise(i, 20*mib+3)
			a.put(i, 1, want)
			o, err := b.Fetch(t.Context(), objectstore.Version{ID: id(i)}, transfer.From(key("a")), objectstore.Sent)
			if err != nil {
				t.Fatal(err)
			}
			m, err := o.Map(t.Context())
			if err != nil || !bytes.Equal(m.Bytes(), want) {
				t.Fatal(err)
			}
			o.Unpin()
			o.Drop()
			if b.store.Lookup(id(i)) == nil {
				t.Error("a copy was dropped while its bytes were in use")
			}
			m.Close()
			o.Drop()
			o.Drop()
			if b.store.Lookup(id(i)) != nil {
				t.Error("a copy was not dropped")
			}
			if s := b.store.Stats(); s.Used != s.Warm || s.Used > 21*mib {
				t.Errorf("%+v", s)
			}
		}
		if s := a.Stats(); s.Shared != 0 {
			t.Errorf("%+v", s)
		}
		if o := a.store.Lookup(id(0)); o != nil {
			o.Drop() // it is no copy
		}
		if a.store.Lookup(id(0)) == nil {
			t.Error("an owner's object was dropped")
		}
	})
}

// TestNotMappable: where mapping does not work the object is pulled, and the reason told.
func TestNotMappable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are no memory files to share")
	}
	bubble(t, func(t *testing.T, n *net) {
		n.adapt = sameHost
		a := n.nodeWith("a", func(x *node) {
			x.onFrame = func(_ raysys.NodeID, k wire.Kind, b []byte) []byte {
				if k != wire.KindPulled || b[1] != 2 {
					return b
				}
				b = bytes.Clone(b)
				b[len(b)-7-(1+20*4)] ^= 1 // another inode, or another size, before the sums
				return b
			}
		})
		want := noise(1, 20*mib)
		a.put(1, 1, want)
		told := ""
		b := n.node("b", func(c *transfer.Config) {
			c.Hooks.NotShared = func(from core.NodeKey, _ raysys.TaskID, why error) { told = fmt.Sprint(from, why) }
		})
		if got, err := b.get(t.Context(), 1, key("a")); err != nil || !bytes.Equal(got, want) {
			t.Error(err)
		}
		if s := b.Stats(); s.Mapped != 0 || s.BytesIn != uint64(len(want)) || !strings.HasPrefix(told, "a (incarnation 1)") {
			t.Errorf("%q %+v", told, s)
		}
	})
}

// TestHostID: two who ask in one place get the same answer.
func TestHostID(t *testing.T) {
	if a, b := transfer.HostID(), transfer.HostID(); a != b || runtime.GOOS == "linux" && a == "" {
		t.Error(a, b)
	}
}
