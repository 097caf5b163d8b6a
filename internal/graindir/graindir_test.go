package graindir

import (
	"testing"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// TestNewer: of two placements that of the later leader is newer, and of one leader's the later; none is newer than itself.
func TestNewer(t *testing.T) {
	for _, c := range []struct {
		t, u Token
		want bool
	}{
		{Token{}, Token{}, false},
		{Token{1, 1}, Token{}, true},
		{Token{1, 2}, Token{1, 1}, true},
		{Token{1, 1}, Token{1, 1}, false},
		{Token{2, 1}, Token{1, 9}, true}, // the next leader counts from the start
		{Token{1, 9}, Token{2, 1}, false},
	} {
		if got := c.t.Newer(c.u); got != c.want {
			t.Errorf("%v newer than %v: %v, want %v", c.t, c.u, got, c.want)
		}
	}
}

// TestZero: nowhere is the place without a node and a token; a token alone, or a node alone, is a place.
func TestZero(t *testing.T) {
	for _, c := range []struct {
		p    Place
		want bool
	}{
		{Place{}, true},
		{Place{NodeKey: core.NodeKey{Node: "a"}}, false},
		{Place{Token: Token{1, 1}}, false},
	} {
		if got := c.p.IsZero(); got != c.want {
			t.Errorf("%v is nowhere: %v, want %v", c.p, got, c.want)
		}
	}
}

// TestCounterAsBytes: a counter is read as it was appended, and what follows it is left.
func TestCounterAsBytes(t *testing.T) {
	for _, want := range []Counter{{}, {1, 2}, {1 << 40, 1<<64 - 1}} {
		r := wire.NewReader(append(want.Append(nil), "rest"...))
		if got := ReadCounter(&r); got != want || r.Err() != nil || string(r.Rest()) != "rest" {
			t.Errorf("read %v, %v; want %v", got, r.Err(), want)
		}
	}
	r := wire.NewReader(Counter{1, 2}.Append(nil)[:5])
	if ReadCounter(&r); r.Err() == nil {
		t.Error("a counter that was cut off is read without an error")
	}
}
