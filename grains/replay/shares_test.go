package replay

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/testkit"
)

// TestSplit: parts have their sum, and each lies beside its share; what has no share gets nothing.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 1, 1, 2, 1e-9, 1e9}), 1, 9).Draw(t, "shares")
		sum := 0.0
		for _, s := range shares {
			sum += s
		}
		if sum == 0 {
			shares, sum = append(shares, 1), 1
		}
		for i := range shares {
			shares[i] /= sum
		}
		n, total := rapid.IntRange(1, 1000).Draw(t, "n"), 0
		for i, part := range split(n, shares, rapid.Float64Range(0, 0.9999).Draw(t, "at")) {
			if total += part; part < 0 || math.Abs(float64(part)-shares[i]*float64(n)) > 1+1e-6 || shares[i] == 0 && part > 0 {
				t.Fatalf("share %g of %d is %d", shares[i], n, part)
			}
		}
		if total != n {
			t.Fatalf("%d parts of %d", total, n)
		}
	})
	const times = 50_000
	r, mean := rand.New(rand.NewPCG(1, 2)), make([]float64, 3)
	shares := []float64{0.62, 0.05, 0.33}
	for range times {
		for i, part := range split(2, shares, r.Float64()) {
			mean[i] += float64(part) / times
		}
	}
	for i, m := range mean {
		if math.Abs(m-2*shares[i]) > 0.02 {
			t.Errorf("a part of 2 is %g in the mean, and its share is %g", m, 2*shares[i])
		}
	}
}

// TestSharesOfShards: over several shards an item comes as often as its priority says among those of all, and so says its probability. A shard that
// gets priorities later is found.
func TestSharesOfShards(t *testing.T) {
	for _, sampler := range []Selector{Prioritized(1), Uniform, MaxHeap} {
		t.Run(sampler.String(), func(t *testing.T) {
			cfg := oneTable(Table{Name: "t", MaxSize: 100, Sampler: sampler})
			cfg.Shards = 3
			bytesOf(t, cfg, func(k *testkit.Kit, ctx context.Context, c *Client[string]) {
				var inserted [][]float64
				for _, priorities := range [][]float64{{0, 0}, {1, 3, 2, 2}, {20, 30, 22}} {
					inserted = append(inserted, priorities)
					if err := c.Insert(ctx, "t", make([]string, len(priorities)), priorities); err != nil {
						t.Fatal(err)
					}
				}
				check := func(round string, want []float64) { // the parts of the shards
					t.Helper()
					total := 0.0
					for _, list := range inserted {
						for _, p := range list {
							if total++; sampler.name == "prioritized" {
								total += p - 1
							}
						}
					}
					const n = 160
					for range 2 { // the first learns what there is
						s, err := c.Sample(ctx, "t", n)
						if err != nil || s.Len() != n {
							t.Fatal(s.Len(), err)
						}
						if round == "" {
							continue
						}
						got := make([]float64, 3)
						for i, key := range s.Keys {
							got[key>>52]++
							p := s.Priorities[i] / total
							switch sampler.name {
							case "uniform":
								p = 1 / total
							case "max_heap":
								p = 1
							}
							if math.Abs(s.Probabilities[i]-p) > 1e-12 {
								t.Fatalf("%s: an item of priority %g has the probability %g, want %g", round, s.Priorities[i], s.Probabilities[i], p)
							}
						}
						for i := range got {
							if math.Abs(got[i]-n*want[i]) > 1 {
								t.Errorf("%s: shards gave %v of %d, want %v of all", round, got, n, want)
							}
						}
					}
				}
				check("", nil)
				switch sampler.name {
				case "uniform":
					check("by size", []float64{2. / 9, 4. / 9, 3. / 9})
				case "prioritized":
					check("by mass", []float64{0, 8. / 80, 72. / 80})
					for range 3 { // each shard has one
						if err := c.Insert(ctx, "t", []string{""}, []float64{100}); err != nil {
							t.Fatal(err)
						}
						inserted = append(inserted, []float64{100})
					}
					check("", nil)
					check("more", []float64{100. / 380, 108. / 380, 172. / 380})
				default:
					check("alike", []float64{1. / 3, 1. / 3, 1. / 3})
				}
			})
		})
	}
}
