package ppo

import "math"

// losses adds up over the rows of minibatches. kl, in nats, is the divergence from the policy that acted.
type losses struct{ loss, kl float64 }

// policyLoss adds the clipped surrogate, with its entropy bonus, to sum, and writes the slopes of its mean over the rows to dOut and dBeside (Schulman et al.
// 2017, eq. 7 and 9, negated since the optimizer descends):
//
//	loss = -min(r A, clip(r, 1-c, 1+c) A) - entropy H,   r = p(a) / p_acted(a)
func policyLoss(h head, dOut, dBeside, out, beside []float32, b *batch, c *Config, sum *losses) {
	rows := b.rows()
	width, action, mean, bonus := len(out)/rows, len(b.drawn)/rows, 1/float64(rows), max(c.Entropy, 0)
	for i := range rows {
		o, drawn := out[i*width:(i+1)*width], b.drawn[i*action:(i+1)*action]
		logProb, entropy := h.weigh(o, beside, drawn)
		logRatio := logProb - float64(b.logProbs[i])
		ratio := math.Exp(logRatio)
		surrogate, slope := clipped(ratio, float64(b.advantages[i]), c.Clip)
		// By the logarithm of its probability the ratio grows as itself.
		h.slopes(dOut[i*width:(i+1)*width], dBeside, o, beside, drawn, -mean*slope*ratio, -mean*bonus)
		sum.loss -= surrogate + bonus*entropy
		// The estimator of the divergence that is never negative: (r-1) - log r.
		sum.kl += ratio - 1 - logRatio
	}
}

// clipped is min(r A, clip(r) A) and its slope by r: 0 where moving further would win nothing, A elsewhere. Moving back from beyond the clip is never
// clipped: that is what the minimum is for.
func clipped(ratio, advantage, clip float64) (surrogate, slope float64) {
	free, bound := ratio*advantage, min(max(ratio, 1-clip), 1+clip)*advantage
	if bound < free {
		return bound, 0
	}
	return free, advantage
}

// valueLoss adds half the squared errors to sum, and writes the slopes of their mean to dOut. It is not clipped, as some implementations do: that was found to
// hurt (Andrychowicz et al. 2021, "What matters in on-policy RL").
func valueLoss(dOut, out, wanted []float32, sum *losses) {
	mean := 1 / float32(len(out))
	for i, v := range out {
		e := v - wanted[i]
		sum.loss += float64(e) * float64(e) / 2
		dOut[i] = mean * e
	}
}
