package impala

import "math"

// vtrace writes, for each step of a trajectory, what the value net is to predict to wanted, and the advantage that the slope of the policy is weighed by to
// advantages (Espeholt et al. 2018, eq. 1 and the one below 4):
//
//	delta[t]      = rho[t] (scale rewards[t] + gamma discounts[t] values[t+1] - values[t])
//	wanted[t]     = values[t] + delta[t] + gamma discounts[t] c[t] (wanted[t+1] - values[t+1])
//	advantages[t] = rho[t] (scale rewards[t] + gamma discounts[t] wanted[t+1] - values[t])
//	rho[t]        = min(Rho, p[t] / p_acted[t]),   c[t] = lambda min(1, p[t] / p_acted[t])
//
// logRatios has the logarithms of p / p_acted. values has one more than the others: that of the last observation, which stands for what would have come.
func vtrace(wanted, advantages, logRatios, rewards, discounts, values []float32, c *Config) {
	last := len(rewards)
	next := float64(values[last]) // wanted[t+1]
	for t := last - 1; t >= 0; t-- {
		ratio := math.Exp(float64(logRatios[t]))
		rho, trace := min(c.Rho, ratio), c.Lambda*min(1, ratio)
		reward, discount, value := c.RewardScale*float64(rewards[t]), c.Gamma*float64(discounts[t]), float64(values[t])
		after := float64(values[t+1])
		advantages[t] = float32(rho * (reward + discount*next - value))
		next = value + rho*(reward+discount*after-value) + discount*trace*(next-after)
		wanted[t] = float32(next)
	}
}
