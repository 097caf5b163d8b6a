package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/impala"
)

var agent = rl.Define("menger-catch", rl.Setup[int]{ // a package variable: every node knows it
	Env:   catch,
	Agent: impala.New(impala.Config{}),
})

// made counts the environments of this process. An actor that comes back to memory makes its own anew.
var made atomic.Int64

func catch(seed uint64) rl.Env[int] {
	made.Add(1)
	return envs.Catch(seed)
}

// stepsOf is how many steps an episode of Catch has.
const stepsOf = 9

// learning is a run of many actors.
type learning struct {
	Actors, Episodes int
	Seed             uint64
	Stay             bool
	Each             time.Duration // until the next tenth of the actors leaves memory
}

type learned struct {
	*rl.Run
	unloaded int
}

// run learns Catch, while a tenth of the actors leaves memory each second, say, and comes back.
func (l learning) run(ctx context.Context) (r learned, err error) {
	plan := rl.Plan{
		Name: fmt.Sprintf("menger-%d", l.Seed), Steps: stepsOf * l.Episodes, Actors: l.Actors, Seed: l.Seed,
		Every: 250, Stop: rl.MeanReturn(100, 0.95), // random actions return -0.6, and the best ones 1
	}
	if err := agent.Forget(ctx, plan.Name); err != nil { // a run that was interrupted
		return r, err
	}
	leaving, stay := context.WithCancel(ctx)
	var all sync.WaitGroup
	if !l.Stay {
		all.Go(func() { r.unloaded = l.unload(leaving, plan.Name) })
	}
	r.Run, err = agent.Train(ctx, plan)
	stay()
	all.Wait()
	return r, err
}

// unload has the next tenth of the actors leave memory, again and again until ctx ends, and returns how many did.
func (l learning) unload(ctx context.Context, run string) int {
	var left atomic.Int64
	var all sync.WaitGroup
	tenth := max(1, l.Actors/10)
	for first := 0; ; first += tenth {
		select {
		case <-ctx.Done():
			all.Wait()
			return int(left.Load())
		case <-time.After(l.Each):
		}
		for i := range tenth {
			all.Go(func() { // it waits for the actor's turn
				if agent.Unload(ctx, run, (first+i)%l.Actors) == nil {
					left.Add(1)
				}
			})
		}
	}
}

// agesOf counts the points of a run by the age of the weights that had acted last.
func agesOf(run *rl.Run) (counts []int) {
	for _, p := range run.Points {
		for len(counts) <= p.Age {
			counts = append(counts, 0)
		}
		counts[p.Age]++
	}
	return counts
}

// drawAges is an SVG with a bar for each age.
func drawAges(counts []int) []byte {
	const width, height, foot = 640, 320, 40
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="white"/>`+"\n", width, height+foot)
	bar := float64(width-20) / float64(max(1, len(counts)))
	for age, n := range counts {
		h := float64(n) / float64(most) * (height - 30)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#4c78a8"><title>age %d: %d points</title></rect>`+"\n", 10+float64(age)*bar, height-h, bar*0.9, h, age, n)
		if every := 1 + len(counts)/20; age%every == 0 {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", 10+(float64(age)+0.45)*bar, height+16, age)
		}
	}
	fmt.Fprintf(&b, `<text x="10" y="%d">updates that the learner had made since the weights that acted; the tallest bar is %d points</text>`+"\n</svg>\n", height+34, most)
	return []byte(b.String())
}
