package placement_test

import (
	"fmt"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/placement"
)

func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{16, 1000} {
		for _, s := range []raysys.Strategy{raysys.Balanced, raysys.PreferLocal, raysys.ByHash, raysys.Spread} {
			b.Run(fmt.Sprintf("%s/nodes=%d", s, n), func(b *testing.B) {
				v := placement.NewView("node-1", equalNodes(n))
				r := placement.Request{Function: "counter", Key: "alice", Strategy: s}
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					r.Seed = seed(k)
					d, err := placement.Place(v, r)
					if err != nil {
						b.Fatal(err)
					}
					v.Placed(r, d)
				}
			})
		}
	}
}
