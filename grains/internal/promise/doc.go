// Package promise is what grains that answer later have in common: a future they settle when they please, a context
// that outlives the turn, and a way to be told when a future has settled.
//
//	turn ── Of(ctx) ──► Root ── New ──► Promise ── Handle ══► waiters, on any node
//	                                       ▲                        │
//	                                    Settle                    Watch ──► tell: a call of the grain to itself
//
// A grain's method that must not block returns the Handle of a Promise and settles it in a later turn. A goroutine
// that waits for it on another node learns when this one dies: then the future fails.
//
// A method whose own answer comes after its turn is one of grains.LaterMethod: one message less, for a caller that waits for nothing
// else. A promise is for what is passed on.
//
// The package is for the packages beside it. Programs have futures of tasks and calls.
package promise
