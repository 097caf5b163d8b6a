// Package ppo is proximal policy optimization (Schulman et al. 2017) as an agent of package rl, for discrete actions and for vectors.
//
//	                        drawn action, log-probability            steps piled up to Batch
//	policy net  ─► head ─► Act ─► environment ─► sequences of 256 ─► queue ─► advantages (GAE) by the value net
//	    ▲                                                                       │
//	    └──────────── epochs of minibatches: clipped surrogate, value loss ◄────┘
//
// New makes the agent of a Config, whose zero value learns CartPole. The head follows from the Spec of the environment:
//
//   - Actions of a number are drawn from a softmax of the outputs.
//   - Vectors are drawn from independent normal distributions. The outputs are the means; the deviations are learned, and do not depend on the observation.
//     Both are in units of the bounds: -1 is Low and 1 is High. The environment gets what was drawn clipped to the bounds; learned from is what was drawn.
//
// Train it as any agent:
//
//	var agent = rl.Define("cartpole", rl.Setup[int]{Env: envs.CartPole, Agent: ppo.New(ppo.Config{})})
//	...
//	run, err := agent.Train(ctx, rl.Plan{Steps: 100_000, Every: 512, Stop: rl.MeanReturn(100, 475)})
//
// Rules for the user:
//
//  1. The same calls give the same bits, on processors of one kind.
//  2. Weights are those of the policy. The value net, the optimizers, the counters and the seed are in a checkpoint, and the Config is not: it is the program's.
//     Nor are trajectories that wait for an update: a learner that goes on has them collected anew.
//  3. Stop when it is learned. PPO bounds the step of an update, and not what the step does: a run that goes on may fall for an update or two.
//
// Config{} learns CartPole to a mean return of 475 within 40,000 steps with each of the seeds 1 to 5, in less than a second on one core. Pendulum is
// learned to -250 within 60,000 steps with each of the seeds 1 to 3 by
//
//	ppo.Config{Gamma: 0.9, RewardScale: 0.1, Entropy: -1, LearningRate: 0.001, Epochs: 10, Minibatch: 64}
//
// The command for both is go test ./rl/ppo -run 'CartPole|Pendulum' -v -long.
//
// What it does not do: recurrent nets, images, normalization of observations, correction for trajectories that are many updates old.
package ppo
