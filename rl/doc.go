// Package rl is reinforcement learning on raysys, in the words of Acme: environments, and what learns in them.
//
// An Env is an environment; Check looks whether one keeps the rules, and Flatten makes an observation of a struct. Package rl/envs has environments
// to begin with, rl/net a small net.
//
// Agents, and their training on one node or many, are not here yet.
package rl
