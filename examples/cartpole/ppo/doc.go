// Package ppo is proximal policy optimisation as a sequential core: functions
// and plain data that a program may spread over a cluster as it likes.
//
// The nouns are Weights, the parameters of policy and value net at one moment,
// which never change once published; Trajectory, the whole episodes one rollout
// brings back; and Learner, which turns the second into the next of the first.
//
//	             Weights v             Trajectory
//	           +--> Rollout(0) ------------+
//	           |                           |
//	Learner ---+--> Rollout(1) ------------+--> Learner.Update --> Weights v+1
//	           |      ...                  |
//	           +--> Rollout(k) ------------+
//
// Rules for the user:
//
//  1. Rollout is a pure function of its arguments: give it the Stream of its
//     seed, iteration and number, and a rollout that was lost can run again
//     anywhere and bring back the same.
//  2. Update counts trajectories in the order given. For a run to repeat, pass
//     them by number, not by arrival.
//  3. A Learner and a Policy belong to one goroutine each; Weights, State and
//     Trajectory may be shared, since nobody writes to them.
//
// One iteration:
//
//	learner, err := ppo.NewLearner(ppo.Config{Seed: 1}, env.NewCartPole().Spec())
//	...
//	traj := ppo.Rollout(learner.Weights(), env.NewCartPole(), 256, ppo.Stream(1, 0, 0))
//	stats, err := learner.Update([]ppo.Trajectory{traj})
//
// With the zero Config cart-pole is learned after 19,000 to 30,000 steps with each
// of the seeds 1 to 20, in one to two seconds on one core:
//
//	go test ./examples/cartpole/ppo -run TestLearnsSequentially -v -long
//
// Stop when it is learned. Left to learn on to 100k steps, one of those seeds
// fell once to a mean return of 202, for two updates: PPO bounds the step of an
// update, not what the step does.
//
// What it does not do: continuous actions, recurrent nets, images, correction
// for trajectories many versions old, normalisation of observations or rewards.
package ppo
