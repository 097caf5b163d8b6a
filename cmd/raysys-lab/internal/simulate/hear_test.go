package simulate

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (m marks) has(i int) bool { return m[i>>6]&(1<<(i&63)) != 0 }

// seesGPUs: of each live node that has reported to b, its view says that the GPUs are free which that told, but for those of tasks on their
// way; none is on its way any more when a report has counted it.
func seesGPUs(t *rapid.T, s *sim, b *submitter) {
	if b.view == nil {
		return
	}
	for _, i := range s.withGPUs {
		r := &s.reports[i]
		if i == b.node || r.number == 0 || s.nodes[i].gone {
			continue
		}
		want := float64(r.gpus)
		for _, c := range b.sent {
			if c.node == i {
				want--
			}
			if c.node == i && (c.until <= r.at || c.seenOff && r.news > c.after) {
				t.Fatalf("%+v is on its way after %+v", c, *r)
			}
		}
		if free := b.view.Find(nodeID(i)).Free.GPU; free != want {
			t.Fatalf("%v GPUs of node %d are free in the view of %d, want %v", free, i, b.node, want)
		}
	}
}

// TestHeardLate: a report that is taken in when it is first looked at has the effect of one that all take in when it comes, and whoever
// waits for one is marked.
func TestHeardLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 12).Draw(t, "nodes")
		c := Config{
			Nodes: nodes, CPUs: rapid.IntRange(1, 4).Draw(t, "CPUs"), Submitters: rapid.IntRange(0, nodes-1).Draw(t, "submitters"),
			GPUEvery: rapid.IntRange(1, min(nodes, 3)).Draw(t, "GPUs every"), GPUs: rapid.IntRange(1, 3).Draw(t, "GPUs"),
			GPUShare: rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "share"),
			Tasks:    rapid.IntRange(1, 600).Draw(t, "tasks"), Mean: 10 * time.Millisecond, Rate: rapid.SampledFrom([]float64{0, 300, 2000}).Draw(t, "rate"),
			Report: rapid.SampledFrom([]time.Duration{2 * time.Millisecond, 20 * time.Millisecond}).Draw(t, "report"),
			Detect: 50 * time.Millisecond, Latency: 100 * time.Microsecond, Seed: rapid.Uint64().Draw(t, "seed"),
		}
		c.Deaths = rapid.IntRange(0, c.mortal()).Draw(t, "deaths")
		play := func(each func(*sim, *submitter)) Result {
			s := newSim(c)
			for s.done < c.Tasks {
				if err := s.step(); err != nil {
					t.Fatalf("%v: %+v", err, c)
				}
				for k := range s.submitters {
					if b := &s.submitters[k]; (b.waits() > 0 || len(b.unplaced) > 0) && !s.sending.has(k) {
						t.Fatalf("submitter %d has tasks to send and is not marked", k)
					}
					each(s, &s.submitters[k])
				}
				for k := range s.observers {
					each(s, &s.observers[k])
				}
				for k := range s.nodes {
					if s.nodes[k].gpu.len() > 0 && !s.inLine.has(k) {
						t.Fatalf("tasks wait for a GPU of node %d, which is not marked", k)
					}
				}
			}
			return s.result()
		}
		late := play(func(*sim, *submitter) {})
		early := play(func(s *sim, b *submitter) {
			for i := range b.peers {
				s.peer(b, int32(i))
			}
			seesGPUs(t, s, b)
		})
		if late != early {
			t.Fatalf("%+v, and when all take in each report at once %+v", late, early)
		}
	})
}
