// Package runner runs the background work of one node: goroutines that end with the node, and functions that are
// called later.
//
//		New ── Run, Background, Pause, After ──▶ End(cause) ── Context is over ──▶ Wait: no goroutine is left
//
//	  - [Runner.Run] and [Runner.Background] start a goroutine; after End they start none, and Background says so.
//	  - [Runner.After] sets an alarm of the node's clock, which is virtual in tests; the function must not block.
//	  - [Wait] and [WaitOr] turn a call with a callback into one that waits.
//
// Invariants:
//
//	goroutines = started - ended; Wait returns when it is 0
//	after End: nothing starts, Context is done, Err is End's cause; alarms still ring, and look at Err where it matters
package runner
