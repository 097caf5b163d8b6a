// Package demo learns to balance CartPole-v1 and serves what it learned, as a program of tasks and grains.
//
// Learn is the training half, Serve the answering half, Run the whole program on a node of its own. World and algorithm
// are those of rl/envs and rl/ppo, which know nothing of nodes; this package spreads them. A program that wants to learn
// and nothing else calls the Train of package rl, which spreads them by itself.
//
//	          Ref[Weights] v                    Ref[Played]
//	          ┌──► rollout 0 (task) ────────────────┐
//	Learner ──┼──► rollout 1 (task) ────────────────┼──► Learner.Update ──► Ref[Weights] v+1
//	(grain)   └──► ... rollout 7 ───────────────────┘            │
//	                                                             └──► evaluate (tasks) ──► 475?
//	clients ──► Server (stateless-worker grains, one per CPU) ──► actions
//	   └─ play episodes by them            └─ load the Ref[Weights] once
//
// What a program of one's own may take from it:
//
//  1. The driver holds references and numbers. Weights go from the learner to the rollouts and on to the servers,
//     trajectories from the rollouts to the learner, and neither passes through the driver.
//  2. Every piece of work draws from a seed of its own, that of the run with its iteration and number, and trajectories
//     are passed in order of their number. So a run repeats by its seed, whatever ran where and finished when.
//  3. The weights' reference is passed on before they exist: rollouts wait for it as a dependency, without a CPU.
//
// A whole run, under any context of a runtime:
//
//	learned, err := demo.Learn(ctx, demo.Defaults(), nil)
//	...
//	served, err := demo.Serve(ctx, learned.Weights, demo.Defaults(), nil)
//
// What it does not do: keep the weights on disk, overlap rollouts with updates, serve over a network.
package demo
