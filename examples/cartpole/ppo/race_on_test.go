//go:build race

package ppo_test

// raceEnabled shortens what only needs time, not another interleaving: the
// learner is sequential.
const raceEnabled = true
