package queue

import (
	"testing"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/items"
)

// TestSettleFails: what a take gets whose caller is gone by the moment of its answer goes back, in its order, and a put that ends so is not in.
func TestSettleFails(t *testing.T) {
	b := &box{d: &definition{size: 10}}
	three := items.Chunk{Data: []byte("abc"), Ends: []uint32{1, 2, 3}}
	take := &waiting[items.Chunk]{later: &grains.Later[items.Chunk]{}, ask: ask{ID: 1, N: 2}, line: &b.taking} // a Later of no call: its Settle fails
	take.at = b.taking.PushBack(take)
	b.append(batch{ID: 2, Items: three})
	put := &waiting[int]{later: &grains.Later[int]{}, put: batch{ID: 3, Items: three}, line: &b.putting}
	put.at = b.putting.PushBack(put)
	b.pump()
	if b.count != 3 || b.taking.Len() != 0 || b.putting.Len() != 0 {
		t.Error(b.count, "items,", b.taking.Len(), b.putting.Len(), "calls")
	}
	if c := b.remove(3); string(c.Data) != "abc" {
		t.Errorf("%q", c.Data)
	}
	if _, in := b.puts.Get(3); in {
		t.Error("a put whose caller was told that it failed counts")
	}
	if _, known := b.takes.Get(1); known {
		t.Error("a take that got nothing counts")
	}
}
