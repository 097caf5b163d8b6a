package testkit

import "testing"

// Seeds are those that a test of t's name would run with.
func Seeds(t testing.TB, fixed uint64) []uint64 {
	var list []uint64
	for _, d := range drawSeeds(t, fixed) {
		list = append(list, d.seed)
	}
	return list
}

// Announce is what a run with the i-th of them does.
func Announce(t testing.TB, i int, matters bool) uint64 {
	d := drawSeeds(t, 0)[i]
	d.announce(t, t.Name(), func() bool { return matters })
	return d.seed
}
