package collective

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
)

// simulate runs one round of size ranks with parts arriving in an order that draw chooses, some of them twice, and
// returns what each rank got. deliver counts the parts.
func simulate[T Number](t rapid.TB, size int, make func(at place) algorithm[T], draw func(n int) int) (results [][]T, delivered int) {
	t.Helper()
	type flight struct {
		to  int
		h   handed[T]
		how manner
	}
	var air []flight
	ranks := []algorithm[T]{}
	post := func(from int, o *out[T]) {
		for i, to := range o.to {
			o.out[i].Part.From = from
			if to < 0 || to >= size || to == from {
				t.Fatalf("rank %d of %d sends to %d", from, size, to)
			}
			air = append(air, flight{to, o.out[i], o.how[i]})
		}
	}
	for rank := range size {
		ranks = append(ranks, make(place{rank, size}))
		var o out[T]
		ranks[rank].begin(&o)
		post(rank, &o)
	}
	for len(air) > 0 {
		i := draw(len(air))
		f := air[i]
		air = slices.Delete(air, i, i+1)
		if f.how == lent { // it leaves as late as it can
			f.h.Part.Vec = slices.Clone(f.h.Part.Vec)
		}
		twice := draw(4) == 0
		again := f.h
		again.Part.Vec = slices.Clone(f.h.Part.Vec)
		for range map[bool]int{false: 1, true: 2}[twice] {
			var o out[T]
			if err := ranks[f.to].take(f.h, &o); err != nil {
				t.Fatal(err)
			}
			post(f.to, &o)
			f.h = again // what comes twice is another copy
		}
		delivered++
	}
	for rank, a := range ranks {
		if !a.done() {
			t.Fatalf("rank %d of %d is not done, it waits for %v", rank, size, a.waits())
		}
		if len(a.waits()) > 0 {
			t.Fatalf("rank %d is done and waits for %v", rank, a.waits())
		}
		results = append(results, a.result().Vec)
	}
	return results, delivered
}

// inputs are whole numbers, so that every order of a sum gives the same.
func inputs(t *rapid.T, size, n int) (vecs [][]float64, sum []float64) {
	sum = make([]float64, n)
	for range size {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(rapid.IntRange(-1000, 1000).Draw(t, "x"))
			sum[i] += v[i]
		}
		vecs = append(vecs, v)
	}
	return vecs, sum
}

func TestAlgorithmsComputeTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, n := rapid.IntRange(1, 17).Draw(t, "size"), rapid.IntRange(0, 40).Draw(t, "n")
		root, piece := rapid.IntRange(0, size-1).Draw(t, "root"), rapid.IntRange(1, 9).Draw(t, "piece")
		vecs, sum := inputs(t, size, n)
		draw := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") }
		s := sign{Op: Sum, Root: root}
		vec := func(at place) []float64 { return slices.Clone(vecs[at.rank]) }
		everywhere := func(name string, got [][]float64) {
			for rank, v := range got {
				if diff := cmp.Diff(sum, v); diff != "" {
					t.Fatalf("%s: rank %d of %d: %s", name, rank, size, diff)
				}
			}
		}
		atRoot := func(name string, got [][]float64) {
			for rank, v := range got {
				if rank != root && v != nil {
					t.Fatalf("%s: rank %d got %v", name, rank, v)
				}
			}
			if diff := cmp.Diff(sum, got[root]); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
		}
		got, _ := simulate(t, size, func(at place) algorithm[float64] { return newDoubling(at, Sum, vec(at)) }, draw)
		everywhere("doubling", got)
		got, _ = simulate(t, size, func(at place) algorithm[float64] { return newStar(at, Sum, vec(at)) }, draw)
		everywhere("star", got)
		got, _ = simulate(t, size, func(at place) algorithm[float64] { return newTreeUp(at, s, vec(at)) }, draw)
		atRoot("tree", got)
		got, _ = simulate(t, size, func(at place) algorithm[float64] { return newChain(at, s, vec(at), piece) }, draw)
		atRoot("chain", got)
		got, n = simulate(t, size, func(at place) algorithm[float64] {
			return newTreeDown(at, request[float64]{Sign: s, Vec: vecs[at.rank]})
		}, draw)
		if n != size-1 {
			t.Fatalf("a broadcast to %d ranks took %d messages", size, n)
		}
		for rank, v := range got {
			if diff := cmp.Diff(vecs[root], v); rank != root && diff != "" {
				t.Fatalf("broadcast: rank %d: %s", rank, diff)
			}
		}
	})
}

// TestSameBits uses numbers whose sum depends on the order.
func TestSameBits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for size := 2; size <= 9; size++ {
		vecs := make([][]float32, size)
		for i := range vecs {
			for range 100 {
				vecs[i] = append(vecs[i], float32(math.Exp(20*r.Float64()-10)))
			}
			vecs[i][7] = math.Float32frombits(0x7fc00000 | uint32(i)) // NaNs that tell apart
		}
		var before [2][][]float32
		for range 20 {
			for kind, make := range []func(at place) algorithm[float32]{
				func(at place) algorithm[float32] { return newStar(at, Sum, slices.Clone(vecs[at.rank])) },
				func(at place) algorithm[float32] { return newDoubling(at, Sum, slices.Clone(vecs[at.rank])) },
			} {
				got, _ := simulate(t, size, make, r.IntN)
				got = append(got, before[kind]...) // and the same in every run, whatever comes first
				for rank, v := range got {
					for i := range v {
						if math.Float32bits(v[i]) != math.Float32bits(got[0][i]) {
							t.Fatalf("algorithm %d, size %d, element %d: rank %d has %x and rank 0 %x", kind, size, i, rank,
								math.Float32bits(v[i]), math.Float32bits(got[0][i]))
						}
					}
				}
				before[kind] = got[:1]
			}
		}
	}
}

// TestCost holds the algorithms to what they are chosen for.
func TestCost(t *testing.T) {
	first := func(int) int { return 0 }
	zero := func(n int) []float64 { return make([]float64, n) }
	for size, want := range map[int]int{1: 0, 2: 2, 3: 4, 4: 8, 5: 10, 6: 12, 7: 14, 8: 24, 9: 26} {
		_, n := simulate(t, size, func(at place) algorithm[float64] { return newDoubling(at, Sum, zero(5)) }, first)
		if n != want {
			t.Errorf("doubling over %d ranks takes %d messages, want %d", size, n, want)
		}
	}
	for size := 2; size <= 9; size++ {
		_, n := simulate(t, size, func(at place) algorithm[float64] { return newExchange(at, gifts(at)) }, first)
		if want := size * (size - 1); n != want {
			t.Errorf("an exchange of %d ranks takes %d messages, want %d", size, n, want)
		}
	}
}

// gifts are what a rank gives to the others in an exchange.
func gifts(at place) []raysys.Handle[[]float64] {
	give := make([]raysys.Handle[[]float64], at.size)
	for rank := range give {
		give[rank] = raysys.Ready([]float64{1}).Handle()
	}
	return give
}

// TestExchange: each rank gets what every other one gave to it.
func TestExchange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for size := 1; size <= 9; size++ {
		var all []*exchange[float64]
		simulate(t, size, func(at place) algorithm[float64] {
			all = append(all, newExchange(at, gifts(at)))
			return all[at.rank]
		}, r.IntN)
		for rank, x := range all {
			for from := range x.others() {
				if x.result().Refs[from] != all[from].give[rank] {
					t.Errorf("rank %d of %d got another reference from %d than that gave to it", rank, size, from)
				}
			}
		}
	}
}

func TestOps(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		op   Op
		want []float64
	}{
		{Sum, []float64{5, nan, -1, 0}},
		{Product, []float64{6, nan, -2, 0}},
		{Min, []float64{2, nan, -2, math.Copysign(0, -1)}},
		{Max, []float64{3, nan, 1, 0}},
	} {
		a, b := []float64{2, 1, -2, math.Copysign(0, -1)}, []float64{3, nan, 1, 0}
		got := make([]float64, 4)
		combine(c.op, got, a, b)
		for i := range got {
			same := math.IsNaN(got[i]) && math.IsNaN(c.want[i]) || got[i] == c.want[i]
			if !same {
				t.Errorf("%v: element %d is %v, want %v", c.op, i, got[i], c.want[i])
			}
		}
	}
	got := []uint8{250, 3}
	combine(Sum, got, got, []uint8{10, 4})
	if diff := cmp.Diff([]uint8{4, 7}, got); diff != "" {
		t.Error(diff)
	}
}

// TestAskedAgain: a rank whose answer was lost gets the same one, whatever rank 0's program has made of its own.
func TestAskedAgain(t *testing.T) {
	s := newStar(place{0, 2}, Sum, []float64{1, 2})
	var o out[float64]
	ask := handed[float64]{Part: part[float64]{From: 1, Vec: []float64{10, 20}}}
	if err := s.take(ask, &o); err != nil || !s.done() || len(o.out) != 1 {
		t.Fatal(err, o)
	}
	s.result().Vec[0] = 77
	if err := s.take(ask, &o); err != nil || o.answer == nil {
		t.Fatal(err, o.answer)
	}
	if diff := cmp.Diff([]float64{11, 22}, o.answer.Vec); diff != "" {
		t.Error(diff)
	}
}

// TestStrangers: parts that no rank of this program sends are refused.
func TestStrangers(t *testing.T) {
	at := place{1, 4}
	vec := func() []float64 { return make([]float64, 40) }
	s := sign{Op: Sum, Root: 0}
	for name, make := range map[string]func() algorithm[float64]{
		"doubling": func() algorithm[float64] { return newDoubling(at, Sum, vec()) },
		"folded":   func() algorithm[float64] { return newDoubling(place{2, 3}, Sum, vec()) },
		"star":     func() algorithm[float64] { return newStar(at, Sum, vec()) },
		"center":   func() algorithm[float64] { return newStar(place{0, 4}, Sum, vec()) },
		"exchange": func() algorithm[float64] { return newExchange(at, gifts(at)) },
		"chain":    func() algorithm[float64] { return newChain(at, s, vec(), 4) },
		"treeUp":   func() algorithm[float64] { return newTreeUp(at, s, vec()) },
		"treeDown": func() algorithm[float64] { return newTreeDown(at, request[float64]{Sign: s}) },
	} {
		for _, p := range []part[float64]{
			{From: 9, Vec: vec()},
			{From: -1, Vec: vec()},
			{From: 3, Step: 77, Vec: vec()},
			{From: 3, Step: -7, Chunk: -1, Vec: vec()},
			{From: 3, Chunk: 2, Piece: 1 << 40, Vec: vec()[:4]},
			{From: 3, Chunk: 2, Piece: -1, Vec: vec()[:4]},
		} {
			var o out[float64]
			if err := make().take(handed[float64]{Part: p}, &o); err == nil || len(o.to) > 0 {
				t.Errorf("%s takes %+v", name, p)
			}
		}
	}
}
