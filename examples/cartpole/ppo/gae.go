package ppo

// Advantages writes the generalized advantage estimates of one episode to dst
// (Schulman et al. 2016, eq. 16):
//
//	delta[t] = rewards[t] + gamma values[t+1] - values[t]
//	dst[t]   = delta[t] + gamma lambda dst[t+1]
//
// where the value after the last step is bootstrap: zero for an episode that was
// done, the value of the final observation for one that was truncated. The
// slices have one length.
func Advantages(dst, rewards, values []float64, bootstrap, gamma, lambda float64) {
	next, sum := bootstrap, 0.0
	for t := len(rewards) - 1; t >= 0; t-- {
		delta := rewards[t] + gamma*next - values[t]
		sum = delta + gamma*lambda*sum
		dst[t] = sum
		next = values[t]
	}
}
