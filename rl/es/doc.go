// Package es is evolution strategies (Salimans et al. 2017): a net is improved by playing episodes near it, without a gradient of its own, and without
// replay. It is for runs on many cores, whose parts hardly talk: a player draws its noise from a seed, and answers a sum.
//
//	driver ── weights, by Ref ──► player 0 ──► players 1 to 4 ──► players 5 to 20 ...
//	   ▲                             │              │                  │
//	   └── one vector ◄── adds up ◄──┴── adds up ◄──┴── plays, adds ◄──┘
//
// A Search is an environment with a Config, under a name that all nodes know:
//
//	var poles = es.Define("poles", envs.CartPole, es.Config{})
//
//	run, err := poles.Train(ctx, es.Plan{Steps: 200_000, Workers: 16, Goal: 475})
//
// Rules:
//
//  1. An update plays Config.Pairs of candidates: the weights with some noise added, and with the same noise subtracted. What is added to the
//     weights is the sum of the noises, each times how much better the one was than the other.
//  2. The players are grains in a tree. Each plays its share, adds what the players below it have added, and answers one vector: the driver, and
//     every player, hears as many as Config.Fanout, however many there are.
//  3. A run follows from its Seed, its Config and its Workers: on one node and on many it is the same bit for bit, also where nodes die meanwhile. A
//     player that dies plays its share again on another node. The driver keeps the weights: with it the run ends.
//  4. Random, the baseline, draws the weights of each candidate anew, and keeps those that did best.
//
// Both return an rl.Run, which rl.Plot draws. What is wrong with an environment is an *rl.EnvError.
package es
