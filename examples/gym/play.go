package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
)

const (
	envs       = 64 // of one player
	population = 16 // policies that are tried at a time
	best       = 4  // of them
	solved     = 475
)

// policy pushes the cart to the right where the sum of these weights times the observation is above 0.
type policy [4]float64

// player plays CartPole of gymnasium: the environments are in Python, and the policy is here.
type player struct{ process.Vector }

func (p *player) OnActivate(ctx context.Context) error {
	return p.Start(ctx, process.Config{Gym: "CartPole-v1", Envs: envs, Args: map[string]any{"vectorization_mode": "vector_entry_point"}})
}

// game is an episode of a policy in each environment.
type game struct {
	Policy policy
	Seed   int64
}

// players is a pool: each activation has a Python process, one for each CPU.
var (
	players = grains.Define[player]("gym.player", grains.StatelessWorker(0))
	play    = grains.Method(players, "play", (*player).play).Idempotent()
)

// play returns the mean return of the episodes.
func (p *player) play(ctx context.Context, g game) (float64, error) {
	return episodes(ctx, &p.Vector, g.Seed, func(x []float32) int64 {
		if g.Policy[0]*float64(x[0])+g.Policy[1]*float64(x[1])+g.Policy[2]*float64(x[2])+g.Policy[3]*float64(x[3]) > 0 {
			return 1
		}
		return 0
	})
}

// episodes plays an episode in each environment, by the actions that act says of an observation, and returns the mean return.
func episodes(ctx context.Context, v *process.Vector, seed int64, act func(x []float32) int64) (float64, error) {
	o, err := v.Reset(ctx, seed)
	if err != nil {
		return 0, err
	}
	var over [envs]bool
	sum := 0.0
	for left := envs; left > 0; {
		x, err := process.Values[float32](o)
		if err != nil {
			return 0, err
		}
		actions, size := make([]int64, envs), len(x)/envs
		for i := range actions {
			actions[i] = act(x[i*size : (i+1)*size])
		}
		s, err := v.Step(ctx, process.Of(actions))
		if err != nil {
			return 0, err
		}
		for i := range over {
			if over[i] {
				continue // it plays its next episode, which does not count
			}
			sum += float64(s.Rewards[i])
			if over[i] = s.Terminated[i] || s.Truncated[i]; over[i] {
				left--
			}
		}
		o = s.Observations
	}
	return sum / envs, nil
}

// learn finds a policy of that mean return by the cross-entropy method: it draws some around a mean, and takes the mean of the best for the next.
func learn(ctx context.Context, seed uint64, goal float64, w io.Writer) error {
	r := rand.New(rand.NewPCG(seed, 1))
	mean, spread := policy{}, policy{1, 1, 1, 1}
	for round := range 30 {
		tried := make([]policy, population)
		games := make([]raysys.Ref[float64], population)
		for i := range tried {
			for j := range tried[i] {
				tried[i][j] = mean[j] + spread[j]*r.NormFloat64()
			}
			games[i] = play.Call(ctx, players.Get("players"), game{tried[i], int64(round)})
		}
		returns, err := raysys.GetAll(ctx, games).Values()
		if err != nil {
			return err
		}
		order := make([]int, population)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return int(returns[b]*envs - returns[a]*envs) })
		for j := range mean {
			m, s := 0.0, 0.0
			for _, i := range order[:best] {
				m += tried[i][j] / best
			}
			for _, i := range order[:best] {
				s += (tried[i][j] - m) * (tried[i][j] - m) / best
			}
			mean[j], spread[j] = m, 0.1+s
		}
		got, err := play.Call(ctx, players.Get("players"), game{mean, 1 << 20}).Get(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "round %2d: best return %5.1f, of the mean %5.1f\n", round+1, returns[order[0]], got)
		if got >= goal {
			fmt.Fprintf(w, "solved: %.2f\n", mean)
			return nil
		}
	}
	return fmt.Errorf("not solved: no mean return of %v", goal)
}
