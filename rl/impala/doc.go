// Package impala is the importance weighted actor-learner (Espeholt et al. 2018) as an agent of package rl, for discrete actions: the agent whose experience
// may be old.
//
//	          drawn action, log-probability          steps piled up to Batch
//	policy net ─► softmax ─► Act ─► environment ─► sequences of Unroll ─► queue ─► V-trace by the value net
//	    ▲                                                                        │
//	    └──────────── a gradient step for each of the Passes ◄───────────────────┘
//
// V-trace weighs each step by how likely the policy of now takes its action, beside the policy that took it. So hundreds of actors may each play by weights
// that are some updates old: on Catch 64 actors take 1.6 times the steps of one, and 512 take 1.8 times (medians of 5 seeds). On another machine weights are
// older or newer, and the figures others: TestAlike prints them. On CartPole rl/ppo is the better choice up to some ten actors: its clip is steadier than one
// gradient after the other.
//
// New makes the agent of a Config. Train it as any agent:
//
//	var agent = rl.Define("catch", rl.Setup[int]{Env: envs.Catch, Agent: impala.New(impala.Config{})})
//	...
//	run, err := agent.Train(ctx, rl.Plan{Steps: 100_000, Actors: 64, Stop: rl.MeanReturn(100, 0.95)})
//
// Rules for the user:
//
//  1. The same calls give the same bits, on processors of one kind.
//  2. Weights are those of the policy. The value net, the optimizers and the counters are in a checkpoint; the Config is the program's. Trajectories that
//     wait for an update are not: a learner that goes on has them collected anew.
//  3. Scale rewards (Config.RewardScale) so that discounted returns are near 1 to 10: the value net learns slowly where they are larger.
//
// What it does not do: vectors of actions, recurrent nets, images, replay of what was learned from.
package impala
