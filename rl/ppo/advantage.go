package ppo

import "math"

// advantages writes the generalized advantage estimates of a trajectory to dst (Schulman et al. 2016, eq. 16):
//
//	delta[t] = scale rewards[t] + gamma discounts[t] values[t+1] - values[t]
//	dst[t]   = delta[t] + gamma lambda discounts[t] dst[t+1]
//
// values has one more than the others: that of the last observation, which stands for what would have come.
func advantages(dst, rewards, discounts, values []float32, c *Config) {
	sum := 0.0
	for t := len(rewards) - 1; t >= 0; t-- {
		discount := c.Gamma * float64(discounts[t])
		delta := c.RewardScale*float64(rewards[t]) + discount*float64(values[t+1]) - float64(values[t])
		sum = delta + discount*c.Lambda*sum
		dst[t] = float32(sum)
	}
}

// standardize brings x to mean 0 and deviation 1, so that the size of a step does not depend on the scale of rewards. A constant x becomes zeros. It makes two
// passes: the formula of one pass cancels.
func standardize(x []float32) {
	var mean, variance float64
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		variance += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := 1 / (math.Sqrt(variance/float64(len(x))) + 1e-8)
	for i, v := range x {
		x[i] = float32((float64(v) - mean) * scale)
	}
}
