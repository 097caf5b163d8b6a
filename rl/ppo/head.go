package ppo

import (
	"math"
	"math/rand/v2"

	"github.com/raysys/raysys/rl/net"
)

// extras is how many numbers stand beside each number of an action: of a step there are first the numbers that were drawn, before they were clipped,
// then the logarithm of their probability or density, then zeros.
const extras = 2

// head is what the outputs of the policy net for one observation mean: a distribution over actions, by parameters beside the net too.
type head interface {
	String() string
	// act draws from the distribution, and writes the extras; without a rng it takes the most probable action, and writes none.
	act(out, beside []float32, rng *rand.Rand, action, extra []float32)
	// weigh returns the logarithm of the probability of what was drawn, and the entropy of the distribution, in nats.
	weigh(out, beside, drawn []float32) (logProb, entropy float64)
	// slopes writes to dOut, and adds to dBeside, the slopes of a sum: logProb times byLogProb, and entropy times byEntropy. They are those of the row that
	// weigh saw last.
	slopes(dOut, dBeside, out, beside, drawn []float32, byLogProb, byEntropy float64)
}

// softmax is the head of discrete actions: the outputs are logits.
type softmax struct {
	logProbs []float32
	entropy  float64
}

func (*softmax) String() string { return "softmax" }

func (s *softmax) act(out, _ []float32, rng *rand.Rand, action, extra []float32) {
	if rng == nil {
		action[0] = float32(net.ArgMax(out))
		return
	}
	net.LogSoftmax(s.logProbs, out)
	a := len(out) - 1 // the probabilities add up to 1 only up to rounding
	u := rng.Float64()
	for i, lp := range s.logProbs[:a] {
		if u -= math.Exp(float64(lp)); u < 0 {
			a = i
			break
		}
	}
	action[0] = float32(a)
	extra[0], extra[1] = float32(a), s.logProbs[a]
}

func (s *softmax) weigh(out, _, drawn []float32) (logProb, entropy float64) {
	net.LogSoftmax(s.logProbs, out)
	s.entropy = float64(net.Entropy(s.logProbs))
	return float64(s.logProbs[int(drawn[0])]), s.entropy
}

func (s *softmax) slopes(dOut, _, _, _, drawn []float32, byLogProb, byEntropy float64) {
	for i, l := range s.logProbs {
		lp := float64(l)
		p := math.Exp(lp)
		if p == 0 { // an action that cannot be taken
			dOut[i] = 0
			continue
		}
		dOut[i] = float32(-byLogProb*p - byEntropy*p*(lp+s.entropy))
	}
	dOut[int(drawn[0])] += float32(byLogProb)
}

// gaussian is the head of vectors: the outputs are the means of independent normal distributions, whose logarithms of the standard deviation stand beside the
// net. What is drawn is in units of the bounds, -1 to 1, and not bounded: the environment gets it clipped. What was drawn, and not what was clipped, has the
// density of the distribution.
type gaussian struct{ low, high []float32 }

func (gaussian) String() string { return "gaussian" }

func (g gaussian) act(out, logStd []float32, rng *rand.Rand, action, extra []float32) {
	for i, u := range out {
		if rng != nil {
			u += float32(math.Exp(float64(logStd[i])) * rng.NormFloat64())
			extra[i] = u
		}
		low, high := g.low[i], g.high[i]
		action[i] = max(low, min(high, low+(high-low)*(u+1)/2))
	}
	if n := len(out); rng != nil {
		clear(extra[n:])
		extra[n] = net.GaussianLogDensity(extra[:n], out, logStd)
	}
}

func (gaussian) weigh(out, logStd, drawn []float32) (logProb, entropy float64) {
	return float64(net.GaussianLogDensity(drawn, out, logStd)), float64(net.GaussianEntropy(logStd))
}

func (gaussian) slopes(dOut, dLogStd, out, logStd, drawn []float32, byLogProb, byEntropy float64) {
	for i, u := range drawn {
		scale := math.Exp(-float64(logStd[i]))
		z := (float64(u) - float64(out[i])) * scale
		dOut[i] = float32(byLogProb * z * scale)
		dLogStd[i] += float32(byLogProb*(z*z-1) + byEntropy)
	}
}
