package objectstore_test

import (
	"context"
	"testing"

	"github.com/raysys/raysys/internal/objectstore"
)

// taker is a copy's live value whose Evict finds that somebody just began to read the object.
type taker struct {
	*value
	taken func()
}

func (v *taker) Evict() bool {
	v.taken()
	return v.value.Evict()
}

// TestCopyTakenDuringEvict: a copy that is pinned while its value is being asked to go is not dropped.
func TestCopyTakenDuringEvict(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	want := content(1, 2*mib)
	a := receive(t, s, 1, want, objectstore.Heap)
	pinned := false
	a.Revive(&taker{newValue(want), func() {
		if !pinned {
			pinned = s.Take(id(1)) != nil
		}
	}})
	b := add(t, s, 2, newValue(content(2, 2*mib)))
	c := add(t, s, 3, newValue(content(3, 2*mib)))
	if !pinned {
		t.Fatal("nothing asked the copy's value to go: the test tests nothing")
	}
	got, err := a.Bytes(context.Background())
	if err != nil || len(got) != len(want) || objectstore.Checksum(got) != objectstore.Checksum(want) {
		t.Errorf("a copy that was pinned while room was made is gone: %d bytes, %v", len(got), err)
	}
	a.Unpin()
	empty(t, s, a, b, c)
}
