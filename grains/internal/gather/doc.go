// Package gather is what grains.Batch is made of: calls of one method that wait in their process for others to the same grain, and travel
// as one.
//
//	Call ──► batch of the grain ──► full, or it has waited and none is away ──► one call, with all arguments
//	  │                                                                          │
//	  └── future ◄── its answer, or the error of the whole call ◄────────────────┘
//
// The large call belongs to none of its callers: it is below a turn of its own, which ends when the last of them has given up. Each caller
// has a future with its own deadline and its own end.
//
// What depends on the types of a method is in a Typed, whose functions package grains makes. The rest is compiled once.
package gather
