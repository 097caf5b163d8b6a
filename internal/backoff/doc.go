// Package backoff has the pauses between attempts at what may be in trouble for a while: a store, a node, a server.
//
//	pause := backoff.Doubling{First: 2 * time.Millisecond, Longest: 500 * time.Millisecond}
//	for try() != nil && pause.Wait(ctx) {
//	}
//
// Wait goes by package time, which is virtual in a bubble of testing/synctest. A package with a clock of its own takes
// [Doubling.Next], and waits by that clock.
package backoff
