// Package replies is what a durable grain remembers of calls that may be made again, so that each counts once.
//
//	call ──► Book.Below, ByCall ──► known: the reply of before
//	                            └─► new: Book.Room ──► turn ──► Book.Add ──► a commit, with Book.Changes
//	restart ──► Read, Book.Add, Book.Restored
//
// The nouns:
//
//   - A [Reply] is the outcome of one call, as it is stored.
//   - A [Kind] is who may make a call again, which decides what makes room: a driver, a task or grain, whoever knows a key.
//   - A floor is what stays of a turn whose oldest replies have gone: none of its calls up to there is run.
//
// Invariants:
//
//	a call id       has one reply
//	what goes       is removed by the next commit, which stores the floor that stands for it
//	what is kept    is bounded for each kind: [Max] replies of [MaxBytes], [MaxKeys] keys
package replies
