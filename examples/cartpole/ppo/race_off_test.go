//go:build !race

package ppo_test

const raceEnabled = false
