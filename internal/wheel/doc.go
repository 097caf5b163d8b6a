// Package wheel is the timing wheel behind every deadline, backoff and idle clock of a node.
//
// A [Wheel] holds [core.Alarm] values, which their records embed: setting one allocates nothing, and costs no timer
// and no goroutine of its own.
//
//	level 0   64 slots of 1 ms      each slot one tick: what is in it rings
//	level 1   64 slots of 64 ms     what is in a slot moves down when the slot begins
//	level 2   64 slots of 4.1 s
//	level 3   64 slots of 4.4 min
//	level 4   64 slots of 4.7 h     goes round every 12.4 days; farther alarms wait here for their round
//
// Rules for the user:
//
//  1. An alarm never rings before its At, and at most about one tick (1 ms) after it.
//  2. Ring runs on the wheel's goroutine, outside its lock and one at a time. It must not block and must not call Stop;
//     it may call Set, Move and Clear.
//  3. At and Ring of an alarm that is set belong to the wheel. Move changes At under the wheel's lock.
//  4. An alarm is in one wheel at a time.
//
// One time.AfterFunc timer serves the wheel, armed for the first slot that holds something. Clear leaves it as it is,
// so that the usual life of a deadline, set and cleared long before it is due, never touches the runtime's timers.
//
//	w := wheel.New()
//	defer w.Stop()
//	a := &core.Alarm{At: w.Now() + int64(30*time.Second), Ring: expire}
//	w.Set(a)
//	...
//	if w.Clear(a) {
//		// expire was not called and will not be
//	}
//
// The wheel does not keep wall-clock time: it counts nanoseconds since New on the monotonic clock, or on the clock of
// the testing/synctest bubble it was made in.
package wheel
