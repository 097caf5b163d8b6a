// Package tally is what a node counts of the work that it runs: how often, with what outcome, for how long, and what failed.
//
//	engines: Function.Ended, Function.Took, Tally.Failed ──► Tally ──► Tally.Rows, Tally.Failures ──► commands, metrics
//	engines: what runs and what waits, looked at when asked ─────────► Row.Running, Row.Waiting
//
// The nouns:
//
//   - A [Tally] is all that one node counts, of tasks and of calls. It lives as long as the node, and nobody else keeps any of it.
//   - A [Function] counts one function, or one method of a grain kind. A [Row] is what it had counted at a moment.
//   - [Times] are how long runs took, in buckets of which each is an eighth wider than the one below.
//   - A [Failure] is failures of one function whose texts differ in digits alone.
//   - A [Slot] is what an engine notes of the tasks on one CPU, by plain stores.
//   - A [Recorder] keeps an [Event] of each run for some seconds, where somebody wants a timeline.
//
// What each task or call costs is bounded by what the engines were measured to bear: an atomic addition to a counter that few
// goroutines share, and two readings of the clock for one short run in [Sample].
package tally
