package simulate

import (
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/forwarding"
)

// TestNobodyOwedIsForgotten: in drawn clusters, of which nodes die, a node with a free CPU for which nothing waits
// there tells all to whom it owes word, within
// the pauses between which it tells twice as many; and no submitter has tasks that wait for long beside a free CPU.
func TestNobodyOwedIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 24).Draw(t, "nodes")
		c := Config{
			Nodes: nodes, CPUs: rapid.IntRange(1, 4).Draw(t, "CPUs"),
			Submitters: rapid.IntRange(0, nodes).Draw(t, "submitters"),
			GPUEvery:   1, GPUs: 1, Tasks: rapid.IntRange(1, 500).Draw(t, "tasks"),
			Mean:  time.Duration(rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "mean")) * time.Millisecond,
			Fixed: rapid.Bool().Draw(t, "fixed"), Report: forwarding.ReportEvery(nodes),
			Detect:  50 * time.Millisecond,
			Latency: time.Duration(rapid.SampledFrom([]int{10, 100, 2000}).Draw(t, "latency")) * time.Microsecond,
			Seed:    rapid.Uint64().Draw(t, "seed"),
		}
		load := rapid.SampledFrom([]float64{0, 0.5, 0.8, 0.95, 1.2}).Draw(t, "load")
		c.Rate = load * float64(nodes*c.CPUs) / c.Mean.Seconds()
		c.Deaths = rapid.IntRange(0, c.mortal()).Draw(t, "deaths")
		doublings := forwarding.TellPause * time.Duration(bits.Len(uint(nodes))+1)
		word := 2*c.Latency + doublings
		_, asks := forwarding.Asks(1, nodes)
		room := word + time.Duration(bits.Len(uint(nodes)))*asks + 4*c.Latency
		s := newSim(c)
		owes, waits := map[int]int64{}, map[int]int64{} // since when
		lasts := func(of map[int]int64, i int, still bool) time.Duration {
			from, was := of[i]
			switch {
			case !still:
				delete(of, i)
				return 0
			case !was:
				from = s.now
				of[i] = from
			}
			return time.Duration(s.now - from)
		}
		for s.done < c.Tasks {
			if err := s.step(); err != nil {
				t.Fatalf("%v: %+v", err, c)
			}
			spare := -1
			for i := range s.nodes {
				n := &s.nodes[i]
				spares := !n.dead && n.free > 0 && n.inbound.len() == 0 && (n.own == nil || n.own.waits() == 0)
				if spares {
					spare = i
				}
				if d := lasts(owes, i, spares && n.owed.Len() > 0); d > word {
					t.Fatalf("node %d has %d free CPUs and owes word to %d for %v, want %v at most",
						i, n.free, n.owed.Len(), d, word)
				}
			}
			for k := range s.submitters {
				b := &s.submitters[k]
				if d := lasts(waits, k, spare >= 0 && b.waits() > 0 && s.nodes[b.node].free == 0); d > room {
					t.Fatalf("%d tasks of node %d wait beside a free CPU of node %d for %v, want %v at most",
						b.waits(), b.node, spare, d, room)
				}
			}
		}
	})
}
