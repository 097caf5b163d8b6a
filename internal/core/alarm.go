package core

import (
	"math"
	"time"
)

// Alarm is one entry of a runtime's timing wheel. It is intrusive, so that a call with a deadline costs no timer of
// its own: the record that waits embeds its Alarm.
type Alarm struct {
	At   int64  // when it rings, in nanoseconds on the runtime's clock
	Ring func() // called once, from the wheel; it must not block

	// Next, Prev and Slot belong to the wheel, which guards them.
	Next, Prev *Alarm
	Slot       int32
}

// Far is the last time that a clock of the runtime is asked for: about 146 years after its start. What is to end later
// ends then, so that sums and differences of times do not overflow.
const Far = math.MaxInt64 / 2

// After returns the time d after now, on the runtime's clock, and Far where that is later.
func After(now int64, d time.Duration) int64 {
	if int64(d) > Far-now {
		return Far
	}
	return now + int64(d)
}
