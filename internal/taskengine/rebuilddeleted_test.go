package taskengine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
)

// TestRebuildDeleted: of chains of 50 tasks objects at random depths are deleted, 1,000 of them in the long form. The last
// values are read, and then all: as few tasks run again as can.
func TestRebuildDeleted(t *testing.T) {
	const depth = 50
	deleted := long.Form(100, 1000)
	s := newShop(t)
	rng := rand.New(rand.NewPCG(1, long.Seed()))
	chains := make([][]raysys.Ref[bulky], 2*deleted/depth)
	for i := range chains {
		chains[i] = s.chain(t, depth, func(n int) bool { return n%2 == i%2 })
	}
	before := s.allRuns()
	places := rng.Perm(len(chains) * depth)[:deleted]
	lost := map[int]bool{} // by chain and depth, which counts from 1 on: task 0 of each stays
	for _, at := range places {
		lost[at] = true
		loseObject(t, chains[at/depth][1+at%depth])
	}
	fewest := 0
	for i := range chains {
		for d := depth - 1; d >= 0 && lost[i*depth+d]; d-- {
			fewest++
		}
	}
	for _, refs := range chains {
		s.want(t, refs[depth], depth)
	}
	if got := s.allRuns() - before; got != fewest {
		t.Errorf("%d tasks ran again for the last values, want %d: those that are missing, down to the nearest value that is there", got, fewest)
	}
	for _, refs := range chains {
		for d, r := range refs {
			s.want(t, r, d)
		}
	}
	got := s.allRuns() - before
	if got != deleted {
		t.Errorf("%d tasks ran again for %d deleted objects, want one for each", got, deleted)
	}
	t.Logf("%d objects deleted at depths 1 to %d of %d chains: %d tasks ran again for the last values, %d for all", deleted, depth, len(chains), fewest, got)
}
