package core

// Alarm is one entry of a runtime's timing wheel. It is intrusive, so that a call with a deadline costs no timer of
// its own: the record that waits embeds its Alarm.
type Alarm struct {
	At   int64  // when it rings, in nanoseconds on the runtime's clock
	Ring func() // called once, from the wheel; it must not block

	// Next, Prev and Slot belong to the wheel, which guards them.
	Next, Prev *Alarm
	Slot       int32
}
