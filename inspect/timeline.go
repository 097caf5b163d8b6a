package inspect

import "time"

// TimelineQuery says what a timeline is to have.
type TimelineQuery struct {
	For      time.Duration // how long is recorded: 100 ms to 1 min; 0 for 10 s
	Function string        // tasks of this function alone, or calls of this method as kind.method; "" for all
}

// Timeline is what is in a file of a timeline, and what is not.
type Timeline struct {
	Cluster string        `json:"cluster"`
	Began   time.Time     `json:"began"` // the first of the events
	For     time.Duration `json:"for"`   // of a recording that somebody else began, how long it went on
	Events  int           `json:"events"`
	Begun   uint64        `json:"begun"`            // tasks and calls that began in the time
	LeftOut uint64        `json:"left_out"`         // those of them that were not recorded: of more than 20,000 a second a node records one of so many
	Silent  []string      `json:"silent,omitempty"` // nodes that are missing, and why
}
