// Package runner is where what serves a node among others runs: goroutines that end with it, and what is called later.
//
//		New ── Run, Background, Pause, After ──▶ End(cause) ── Context is over ──▶ Wait: no goroutine is left
//
//	  - [Runner.Run] and [Runner.Background] start a goroutine; after End they start none, and Background says so.
//	  - [Runner.After] sets an alarm of the node's clock, which is virtual in tests; what it calls must not block.
//	  - [Wait] and [WaitOr] turn a call with a callback into one that waits.
//
// Invariants:
//
//	goroutines = started - ended; Wait returns when it is 0
//	after End: nothing starts, Context is done, Err is End's cause; alarms still ring, and look at Err where it matters
package runner
