package link_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/wire"
)

// TestItems: items arrive in the order of sending, also between other frames, and share frames while these wait.
func TestItems(t *testing.T) {
	each(t, func(t *testing.T, transport func(raysys.NodeID) link.Transport) {
		var mu sync.Mutex
		var got [][]byte
		frames := 0
		b := open(t, "b", transport("b"), func(c *link.Config) {
			c.Handlers[kindList] = func(_ *link.Peer, _ wire.Class, b []byte) {
				mu.Lock()
				defer mu.Unlock()
				for frames++; len(b) > 0; {
					n, size := binary.Uvarint(b)
					if size <= 0 || n > uint64(len(b)-size) {
						t.Errorf("%d bytes that are no list", len(b))
						return
					}
					got = append(got, bytes.Clone(b[size:size+int(n)]))
					b = b[size+int(n):]
				}
			}
		})
		a := open(t, "a", transport("a"))
		p := a.connect(b)
		var want [][]byte
		for i := range 3000 {
			item := bytes.Repeat([]byte{byte(i)}, i%200)
			if err := p.SendItem(wire.Requests, kindList, item); err != nil {
				t.Fatal(err)
			}
			want = append(want, item)
			if i%500 == 499 { // a frame of another's making comes where it was sent
				if err := p.Send(wire.Requests, kindList, []byte{1, 'x', 0}); err != nil {
					t.Fatal(err)
				}
				want = append(want, []byte("x"), nil)
			}
		}
		if err := p.Send(wire.Requests, kindEcho, []byte("end")); err != nil {
			t.Fatal(err)
		}
		a.expect("b replies: end")
		mu.Lock()
		defer mu.Unlock()
		if len(got) != len(want) {
			t.Fatalf("%d items came, not %d", len(got), len(want))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("item %d is %q, not %q", i, got[i], want[i])
			}
		}
		if frames > len(want)/2 {
			t.Errorf("%d items took %d frames", len(want), frames)
		}
		if err := p.SendItem(wire.Requests, kindList, make([]byte, 2<<20)); !errors.Is(err, raysys.ErrTooLarge) {
			t.Error(err)
		}
		p.Close(nil)
		if err := p.SendItem(wire.Requests, kindList, nil); !errors.Is(err, raysys.ErrNotDelivered) {
			t.Error(err)
		}
	})
}
