package ppo

import (
	"math"

	"gonum.org/v1/gonum/blas/blas64"
)

// policyTerms sums, over the rows of minibatches, what an update reports about
// the policy.
type policyTerms struct {
	rows              int
	loss, entropy, kl float64
	clipped           int
}

// policyLoss adds the clipped surrogate with its entropy bonus to terms and
// writes its gradient by the logits, averaged over the rows, to grad (Schulman
// et al. 2017, eq. 7 and 9, negated since the optimiser descends):
//
//	loss = -min(r A, clip(r, 1-c, 1+c) A) - entropy H,   r = pi(a) / pi_old(a)
func policyLoss(grad, logits blas64.General, actions []int32, oldLogProbs, advantages []float64,
	clip, entropy float64, logProbs []float64, terms *policyTerms,
) {
	scale := 1 / float64(logits.Rows)
	for i := range logits.Rows {
		logSoftmax(logProbs, logits.Data[i*logits.Stride:i*logits.Stride+logits.Cols])
		action, adv := int(actions[i]), advantages[i]
		logRatio := logProbs[action] - oldLogProbs[i]
		ratio := math.Exp(logRatio)

		var h float64
		for _, lp := range logProbs {
			h -= math.Exp(lp) * lp
		}
		surrogate, slope := clippedSurrogate(ratio, adv, clip)
		row := grad.Data[i*grad.Stride : i*grad.Stride+grad.Cols]
		for j, lp := range logProbs {
			p := math.Exp(lp)
			// By the log-probability of the action the ratio grows as itself.
			byLogit := -p
			if j == action {
				byLogit++
			}
			row[j] = scale * (entropy*p*(lp+h) - slope*ratio*byLogit)
		}

		terms.loss -= surrogate
		terms.entropy += h
		// The estimator of KL(old, new) that is never negative: (r-1) - log r.
		terms.kl += ratio - 1 - logRatio
		if math.Abs(ratio-1) > clip {
			terms.clipped++
		}
	}
	terms.rows += logits.Rows
}

// clippedSurrogate is min(r A, clip(r) A) and its slope by r: zero where moving
// further would win nothing, A elsewhere. Moving back from beyond the clip is
// never clipped: that is what the minimum is for.
func clippedSurrogate(ratio, adv, clip float64) (surrogate, slope float64) {
	free, bound := ratio*adv, min(max(ratio, 1-clip), 1+clip)*adv
	if bound < free {
		return bound, 0
	}
	return free, adv
}

// valueLoss returns the sum of half the squared errors and writes the gradient
// of their mean to grad. It is not clipped as some implementations do: that was
// found to hurt (Andrychowicz et al. 2021, "What matters in on-policy RL").
func valueLoss(grad, predicted blas64.General, returns []float64) float64 {
	var sum float64
	scale := 1 / float64(predicted.Rows)
	for i, v := range predicted.Data {
		e := v - returns[i]
		sum += e * e / 2
		grad.Data[i] = scale * e
	}
	return sum
}
