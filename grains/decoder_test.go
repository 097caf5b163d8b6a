package grains_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// numeral is a value whose own method decodes it. One that is odd waits there for the test.
type numeral struct{ n, padding int }

var decodeOn = make(chan bool)

func (m numeral) MarshalBinary() ([]byte, error) {
	return append(binary.AppendVarint(nil, int64(m.n)), make([]byte, m.padding)...), nil
}

func (m *numeral) UnmarshalBinary(src []byte) error {
	n, _ := binary.Varint(src)
	if m.n, m.padding = int(n), 0; n%2 != 0 {
		<-decodeOn
	}
	return nil
}

// numerals keeps those that it is told.
type numerals struct{ had []int }

func (a *numerals) Tell(_ context.Context, m numeral) (int, error) {
	a.had = append(a.had, m.n)
	return len(a.had), nil
}

func (a *numerals) Ask(_ context.Context, m int) (numeral, error) { return numeral{n: m}, nil }

func (a *numerals) Had(_ context.Context, _ int) ([]int, error) { return a.had, nil }

var (
	numeralKind = grains.Define[numerals]("numerals")
	tellNumeral = grains.Method(numeralKind, "tell", (*numerals).Tell)
	askNumeral  = grains.Method(numeralKind, "ask", (*numerals).Ask)
	hadNumerals = grains.Method(numeralKind, "had", (*numerals).Had)
)

// TestDecoderBlocksNoReader: while the own method of an argument or of a result waits, grains of its node answer others. Calls keep their
// order.
func TestDecoderBlocksNoReader(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1), testkit.Loose()) // the test alone decides who decodes
	ctx, there := k.Context(), raysys.OnNode(k.Cluster().Name(1))
	tell, ask, had := tellNumeral.With(there), askNumeral.With(there), hadNumerals.With(there)
	beside := func(what string) {
		t.Helper()
		if _, err := had.Call(ctx, numeralKind.Get("beside"), 0).Get(ctx); err != nil {
			t.Fatal(what, err)
		}
	}
	for what, padding := range map[string]int{"small": 0, "pushed": 40 << 10, "large": 1 << 20} {
		of := numeralKind.Get(what)
		for _, n := range []int{2, 1, 4} {
			tell.Call(ctx, of, numeral{n, padding})
		}
		beside(what)
		decodeOn <- true
		if got, err := had.Call(ctx, of, 0).Get(ctx); err != nil || !slices.Equal(got, []int{2, 1, 4}) {
			t.Errorf("%s: it was told %v, %v", what, got, err)
		}
	}
	result := ask.Call(ctx, numeralKind.Get("result"), 1)
	beside("a result:")
	decodeOn <- true
	if m, err := result.Get(ctx); err != nil || m.n != 1 {
		t.Error("the result is", m, err)
	}
}
