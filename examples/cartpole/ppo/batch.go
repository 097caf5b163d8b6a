package ppo

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
)

// batch holds the rows of an update, or of one of its minibatches, side by side.
type batch struct {
	obs        blas64.General
	actions    []int32
	logProbs   []float64
	advantages []float64
	returns    []float64 // what the value net is to predict
}

func newBatch(rows, obs int) batch {
	return batch{
		obs:        newGeneral(rows, obs),
		actions:    make([]int32, rows),
		logProbs:   make([]float64, rows),
		advantages: make([]float64, rows),
		returns:    make([]float64, rows),
	}
}

// gather joins trajectories in order and computes advantages and value targets,
// episode by episode. Advantages are brought to mean 0 and deviation 1 over the
// whole batch, so that the step size does not depend on the scale of rewards.
func gather(trajs []Trajectory, rows int, c Config) batch {
	b := newBatch(rows, trajs[0].ObsSize)
	at := 0
	for i := range trajs {
		t := &trajs[i]
		copy(b.obs.Data[at*b.obs.Stride:], t.Obs)
		copy(b.actions[at:], t.Actions)
		copy(b.logProbs[at:], t.LogProbs)
		from := 0
		for e, length := range t.Lengths {
			to := from + int(length)
			Advantages(b.advantages[at+from:at+to], t.Rewards[from:to], t.Values[from:to],
				t.Bootstraps[e], c.Gamma, c.Lambda)
			from = to
		}
		for j, v := range t.Values {
			b.returns[at+j] = b.advantages[at+j] + v
		}
		at += t.Steps()
	}
	return b
}

// take fills b with the given rows of all and returns the part it used.
func (b batch) take(all batch, rows []int) batch {
	n, w := len(rows), b.obs.Stride
	b.obs = head(b.obs, n)
	for i, r := range rows {
		copy(b.obs.Data[i*w:(i+1)*w], all.obs.Data[r*w:])
		b.actions[i] = all.actions[r]
		b.logProbs[i] = all.logProbs[r]
		b.advantages[i] = all.advantages[r]
		b.returns[i] = all.returns[r]
	}
	b.actions, b.logProbs = b.actions[:n], b.logProbs[:n]
	b.advantages, b.returns = b.advantages[:n], b.returns[:n]
	return b
}

// meanVariance makes two passes: the one-pass formula cancels.
func meanVariance(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(x))
}

// standardize brings x to mean 0 and deviation 1. A constant x becomes zeros.
func standardize(x []float64) {
	mean, variance := meanVariance(x)
	scale := 1 / (math.Sqrt(variance) + 1e-8)
	for i := range x {
		x[i] = (x[i] - mean) * scale
	}
}
