package net

import (
	"fmt"
	"math"
	"slices"
)

// LogSoftmax writes the log-probabilities of logits to dst, which may be logits. A logit of -Inf is an action that cannot be taken. It
// panics where the lengths differ or are 0, as the other functions of rows do.
//
// The loss -log p(a) has the slope p(j) - [j = a] by logit j; Softmax has p.
func LogSoftmax(dst, logits []float32) {
	norm := logSum("LogSoftmax", dst, logits)
	for i, l := range logits {
		dst[i] = float32(float64(l) - norm)
	}
}

// Softmax writes the probabilities of logits to dst, which may be logits.
func Softmax(dst, logits []float32) {
	norm := logSum("Softmax", dst, logits)
	for i, l := range logits {
		dst[i] = float32(math.Exp(float64(l) - norm))
	}
}

// logSum is the logarithm of the sum of the exponentials. It subtracts the largest logit first, so that none overflows.
func logSum(what string, dst, logits []float32) float64 {
	same(what, len(dst), len(logits))
	top := float64(logits[ArgMax(logits)])
	var sum float64
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return top + math.Log(sum)
}

// Entropy is that of log-probabilities, in nats. An action that cannot be taken adds nothing.
func Entropy(logProbs []float32) float32 {
	var h float64
	for _, lp := range logProbs {
		if p := math.Exp(float64(lp)); p > 0 {
			h -= p * float64(lp)
		}
	}
	return float32(h)
}

// ArgMax is the index of the largest element, the lowest of equal ones.
func ArgMax(x []float32) int {
	same("ArgMax", len(x), len(x))
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// Huber is the loss of an error and its slope by it: half the square up to limit, and linear beyond (Huber 1964), so that one outlier moves no
// net far.
func Huber(err, limit float32) (loss, slope float32) {
	switch {
	case err > limit:
		return limit * (err - limit/2), limit
	case err < -limit:
		return limit * (-err - limit/2), -limit
	}
	return err * err / 2, err
}

// GaussianLogDensity is the logarithm of the density of action under independent normal distributions with these means and logarithms of the
// standard deviations.
func GaussianLogDensity(action, mean, logStd []float32) float32 {
	same("GaussianLogDensity", len(action), len(mean), len(logStd))
	var sum float64
	for i, a := range action {
		ls := float64(logStd[i])
		z := (float64(a) - float64(mean[i])) * math.Exp(-ls)
		sum -= z*z/2 + ls + log2Pi/2
	}
	return float32(sum)
}

// GaussianSlopes writes the slopes of GaussianLogDensity by each mean and each logStd.
func GaussianSlopes(byMean, byLogStd, action, mean, logStd []float32) {
	same("GaussianSlopes", len(byMean), len(byLogStd), len(action), len(mean), len(logStd))
	for i, a := range action {
		scale := math.Exp(-float64(logStd[i]))
		z := (float64(a) - float64(mean[i])) * scale
		byMean[i], byLogStd[i] = float32(z*scale), float32(z*z-1)
	}
}

// GaussianEntropy is that of the distributions of GaussianLogDensity, in nats. Its slope by each logStd is 1.
func GaussianEntropy(logStd []float32) float32 {
	sum := float64(len(logStd)) * (1 + log2Pi) / 2
	for _, ls := range logStd {
		sum += float64(ls)
	}
	return float32(sum)
}

const log2Pi = 1.8378770664093453 // log(2 pi)

// same panics unless the slices of a function have one length, which is not 0. The copy keeps the lengths of every call off the heap.
func same(what string, lengths ...int) {
	for _, n := range lengths {
		if n != lengths[0] || n == 0 {
			panic(fmt.Sprintf("net: %s: slices of %v elements: want one length, not 0", what, slices.Clone(lengths)))
		}
	}
}
