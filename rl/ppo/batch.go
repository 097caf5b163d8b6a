package ppo

import (
	"slices"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/net"
)

// batch has the steps of an update, or of one of its minibatches, side by side.
type batch struct {
	obs, drawn                   []float32 // each row as many numbers as an observation, or an action, has
	logProbs, advantages, wanted []float32 // wanted is what the value net is to predict
}

func (b *batch) rows() int { return len(b.logProbs) }

// reset makes room for so many steps.
func (b *batch) reset(rows, obs, action int) {
	fit := func(x []float32, n int) []float32 { return slices.Grow(x[:0], n)[:n] }
	b.obs, b.drawn = fit(b.obs, rows*obs), fit(b.drawn, rows*action)
	b.logProbs, b.advantages, b.wanted = fit(b.logProbs, rows), fit(b.advantages, rows), fit(b.wanted, rows)
}

// gather joins trajectories in their order, and estimates advantages by the value net. All observations of a trajectory are valued at once.
func (b *batch) gather(list []rl.Trajectory, steps int, m *model, value []float32, w *net.Workspace, c *Config) {
	obs, action := m.value.In(), m.action
	b.reset(steps, obs, action)
	at := 0
	for i := range list {
		t := &list[i]
		n := t.Len()
		copy(b.obs[at*obs:], t.Obs[:n*obs])
		for k := range n {
			extra := t.Extras[k*extras*action:][:extras*action]
			copy(b.drawn[(at+k)*action:], extra[:action])
			b.logProbs[at+k] = extra[action]
		}
		values := m.value.Forward(value, t.Obs, w)
		estimate := b.advantages[at : at+n]
		advantages(estimate, t.Rewards, t.Discounts, values, c)
		for k, a := range estimate {
			b.wanted[at+k] = a + values[k]
		}
		at += n
	}
	standardize(b.advantages)
}

// take fills b with the given rows of all.
func (b *batch) take(all *batch, rows []int, obs, action int) {
	b.reset(len(rows), obs, action)
	for i, r := range rows {
		copy(b.obs[i*obs:(i+1)*obs], all.obs[r*obs:])
		copy(b.drawn[i*action:(i+1)*action], all.drawn[r*action:])
		b.logProbs[i], b.advantages[i], b.wanted[i] = all.logProbs[r], all.advantages[r], all.wanted[r]
	}
}
