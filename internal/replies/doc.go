// Package replies is what a durable grain remembers of calls that may be made again, so that each counts once.
//
//	call ──► ByCall, Book.Below, WhyGone ──► known: the reply of before, or that it has counted
//	                                     └─► new: Book.Room ──► turn ──► Book.Add ──► commit, Book.Changes
//	restart ──► Read, Book.Add, AddStored, Restored
//
// The nouns:
//
//   - A [Reply] is the outcome of one call, as it is stored.
//   - A [Kind] is who may make a call again, which decides what makes room: a driver, a task or grain, whoever knows a key.
//   - A floor is what stays of a turn whose oldest replies have gone: none of its calls up to there is run.
//   - A block is 1,024 keys of calls whose replies have gone, 8 bytes each (keys.go).
//   - Forgotten is the time up to which keys are not known any more.
//
// Invariants:
//
//	a call id       has one reply
//	what goes       is removed by the next commit, which stores the floor that stands for it
//	what is kept    is bounded for each kind: [Max] replies of [MaxBytes], [MaxKeys] keys
//	a key           is in a reply, in a block, or before forgotten: in memory and in the store, after each commit
package replies
