package collective

import "testing"

// TestUnderWay: what all ranks of one node send to another stays within half of what a link lets wait, 64 parts.
func TestUnderWay(t *testing.T) {
	for size := 1; size <= 33; size++ {
		n := underWay(size)
		if all := n * int64(size-1); n < 1 || n > 8 || all > 32 || size <= 9 && n < 4 {
			t.Errorf("of %d ranks each has %d parts under way", size, n)
		}
	}
	if n := underWay(1000); n != 1 {
		t.Errorf("of 1,000 ranks each has %d parts under way", n)
	}
}

// TestDrop: once a round has failed no arrival finds that a part waits for it.
func TestDrop(t *testing.T) {
	var o outgoing[float64]
	o.room.Store(-1)
	o.queue = make([]addressed[float64], 2)
	o.drop()
	if arrived := o.room.Add(1); arrived == 0 || o.queue != nil {
		t.Errorf("after a failed round %d parts wait, and an arrival makes the room %d", len(o.queue), arrived)
	}
	o.drop()
	if room := o.room.Load(); room != 1 {
		t.Errorf("without parts that wait the room changes from 1 to %d", room)
	}
}
