package ppo

// Stats tells how an update went.
type Stats struct {
	// Version is that of the weights it made, TotalSteps the environment steps
	// learned from up to them.
	Version, TotalSteps int

	// Steps and Episodes are what this update learned from, MeanReturn the mean
	// of the episodes' returns under the sampled, not the greedy, policy.
	Steps, Episodes int
	MeanReturn      float64

	// Epochs is the number of passes made, fewer than configured when TargetKL
	// ended them.
	Epochs int

	// PolicyLoss, ValueLoss, Entropy (nats), KL (nats, from the policy that
	// acted) and ClipFraction are means over the last epoch.
	PolicyLoss, ValueLoss, Entropy, KL, ClipFraction float64

	// ExplainedVariance is the share of the returns' variance the value net had
	// foreseen: 1 all of it, 0 none, below 0 worse than the mean.
	ExplainedVariance float64
}

// newStats reports on trajectories before they are learned from; advantages in
// all are still those of GAE.
func newStats(trajs []Trajectory, all batch) Stats {
	s := Stats{Steps: all.obs.Rows}
	for i := range trajs {
		for _, r := range trajs[i].Returns {
			s.MeanReturn += r
			s.Episodes++
		}
	}
	s.MeanReturn /= float64(s.Episodes)
	// An advantage is the return less the value, so its variance is the part not
	// foreseen.
	_, unforeseen := meanVariance(all.advantages)
	if _, total := meanVariance(all.returns); total > 0 {
		s.ExplainedVariance = 1 - unforeseen/total
	}
	return s
}

// record takes over the sums of one epoch.
func (s *Stats) record(t policyTerms, valueSum float64) {
	n := float64(t.rows)
	s.PolicyLoss, s.Entropy, s.KL = t.loss/n, t.entropy/n, t.kl/n
	s.ClipFraction, s.ValueLoss = float64(t.clipped)/n, valueSum/n
}
