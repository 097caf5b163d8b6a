// Package dqn is deep Q-learning: a net that says of each action what return follows it, and a policy that takes the best. It is double (van Hasselt et
// al., 2015), with returns of n steps, and replay that is prioritised where the Config says so (Schaul et al., 2015): the DQN of Acme.
//
//	actor: epsilon-greedy ──► n steps as one item ──► replay, whose limiter keeps SamplesPerInsert ──► batch ──► learner
//	   ▲                                                                                                          │
//	   └─────────────────────────────────────────────── weights ◄────────────────────────────────────────────────┘
//
// New returns an rl.Agent, for environments whose actions are ints:
//
//	var agent = rl.Define("catch-dqn", rl.Setup[int]{
//		Env:   envs.Catch,
//		Agent: dqn.New(dqn.Config{NStep: 5, Prioritised: true}),
//	})
//
// For an item with the return R of n steps, the discount d of what comes after them and the last observation s', the net Q learns
//
//	Q(s, a)  towards  R + d Q'(s', argmax over b of Q(s', b))
//
// by the Huber loss and Adam. Q' is the target net, a copy of Q that is made every Target steps. After a step that terminated the episode d is 0; after
// one that truncated it d is what it would have been.
//
// A learner has no chance of its own after its first weights: the same batches make the same weights, bit for bit.
//
// There are no vector actions (rl/ppo has them), no dueling heads, no distributions of returns and no convolutions.
package dqn
