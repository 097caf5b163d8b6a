package forwarding_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/forwarding"
)

// TestChoose: where peers have idle CPUs each of them may be chosen, and no other; else one of the highest score;
// else none.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) forwarding.Offer {
			o := forwarding.Offer{Tasks: rapid.Int64Range(0, 3).Draw(t, "tasks"), Score: rapid.Int64Range(0, 3).Draw(t, "score")}
			o.Idle = o.Tasks > 0 && rapid.Bool().Draw(t, "idle")
			return o
		}), 0, 6).Draw(t, "offers")
		draw := forwarding.Draw(rapid.Uint64().Draw(t, "seed"))
		want := map[int]bool{}
		idle, most := false, int64(-1)
		for _, o := range offers {
			if o.Tasks > 0 {
				idle, most = idle || o.Idle, max(most, o.Score)
			}
		}
		for i, o := range offers {
			if o.Tasks > 0 && (o.Idle || !idle && o.Score == most) {
				want[i] = true
			}
		}
		got := map[int]bool{}
		for range 200 {
			i, o := forwarding.Choose(len(offers), &draw, func(i int) forwarding.Offer { return offers[i] })
			if i < 0 && len(want) > 0 || i >= 0 && (!want[i] || o != offers[i]) {
				t.Fatalf("chosen %d, %+v of %+v", i, o, offers)
			}
			got[i] = true
		}
		if idle && len(got) != len(want) {
			t.Fatalf("of %+v only %v were chosen in 200 times", offers, got)
		}
	})
}

// TestOwed: each peer is owed once, those of higher classes are taken first, then those that came first, and nobody
// is lost.
func TestOwed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o forwarding.Owed[int]
		type debt struct{ to, class, came int }
		var want []debt
		came := 0
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch p := rapid.IntRange(0, 5).Draw(t, "peer"); rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				class := rapid.IntRange(-1, 1).Draw(t, "class")
				came++
				o.Add(p, class)
				i := slices.IndexFunc(want, func(d debt) bool { return d.to == p })
				if i >= 0 && want[i].class >= class {
					break // it keeps its place
				}
				if i >= 0 {
					want = slices.Delete(want, i, i+1)
				}
				want = append(want, debt{p, class, came})
			case 2:
				want = slices.DeleteFunc(want, func(d debt) bool { return d.to == p })
				o.Remove(p)
			case 3:
				got, ok := o.Take()
				if ok != (len(want) > 0) {
					t.Fatalf("taken %d, %v of %+v", got, ok, want)
				}
				if !ok {
					break
				}
				first := slices.MinFunc(want, func(a, b debt) int {
					if a.class != b.class {
						return b.class - a.class
					}
					return a.came - b.came
				})
				if got != first.to {
					t.Fatalf("taken %d, want %+v of %+v", got, first, want)
				}
				want = slices.DeleteFunc(want, func(d debt) bool { return d == first })
			}
			if o.Len() != len(want) {
				t.Fatalf("%d are owed, want %+v", o.Len(), want)
			}
		}
	})
}

// TestAccepts: long tasks, and those of which nobody knows how long they take, come for CPUs that are free; short
// ones may wait.
func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		free, waits int64
		mean        time.Duration
		want        int64
	}{
		{4, 0, 0, 4},
		{4, 3, time.Second, 1},
		{0, 0, time.Second, 0},
		{2, 5, 0, 0},
		{1, 0, 10 * time.Millisecond, 1},
		{0, 9, time.Millisecond, forwarding.MaxFlights},
	} {
		if got := forwarding.Accepts(c.free, c.waits, c.mean); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if forwarding.Settled(3, 4) || !forwarding.Settled(4, 4) || !forwarding.Settled(0, 0) {
		t.Error("a mean is told when as many tasks have ended as there are CPUs")
	}
}

// TestAsks: of few nodes all are asked at once, of many a few, then twice as many, then all.
func TestAsks(t *testing.T) {
	for _, c := range []struct {
		round, nodes, want int
		after              time.Duration
	}{
		{0, 0, 0, 1},
		{0, 16, 16, 1},
		{1, 16, 16, 20},
		{0, 17, 4, 20},
		{1, 17, 8, 20},
		{2, 17, 16, 20},
		{3, 17, 17, 20},
		{9, 1000, 1000, 20},
		{1 << 30, 1000, 1000, 20},
	} {
		if got, after := forwarding.Asks(c.round, c.nodes); got != c.want || after != c.after*time.Millisecond {
			t.Errorf("%+v: %d after %v", c, got, after)
		}
	}
	for nodes, want := range map[int]time.Duration{1: 100, 20: 100, 100: 500, 1000: 5000} {
		if got := forwarding.ReportEvery(nodes); got != want*time.Millisecond {
			t.Errorf("%d nodes: %v, want %d ms", nodes, got, want)
		}
	}
}
