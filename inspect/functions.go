package inspect

import (
	"slices"
	"time"

	"github.com/raysys/raysys"
)

// Functions is what all nodes have counted of each function and method since they started, and what they have of it now.
type Functions struct {
	Cluster   string     `json:"cluster"`
	At        time.Time  `json:"at"`        // when it was asked for
	Count     int        `json:"count"`     // of functions, also of those that were left out
	Functions []Function `json:"functions"` // those with the most runs first
	Silent    []string   `json:"silent,omitempty"`
}

// Function is one function or method on all nodes. Times are in nanoseconds.
type Function struct {
	Name    string            `json:"name"` // of a method: kind.method
	Kind    string            `json:"kind"` // task or call
	Runs    uint64            `json:"runs"`
	Rate    float64           `json:"rate,omitempty"`     // runs in a second, of what Functions.Since returns
	Errors  uint64            `json:"errors"`             // runs that ended in an error or a panic, and were not repeated
	Left    uint64            `json:"left,omitempty"`     // failures beyond 20 in a second: they have no text
	Ended   map[string]uint64 `json:"outcomes,omitempty"` // runs by how they ended: ok, error, panic, cancelled, retried
	P50     time.Duration     `json:"p50"`
	P99     time.Duration     `json:"p99"`
	WaitP50 time.Duration     `json:"wait_p50,omitempty"` // of calls, for their turn, to a millisecond
	WaitP99 time.Duration     `json:"wait_p99,omitempty"`
	Running int               `json:"running"`
	Waiting int               `json:"waiting"`
	Oldest  time.Duration     `json:"oldest,omitempty"` // for how long the one has waited that has waited longest, about
}

// Since returns f with the rates of the time since before, which was asked for earlier. A function has none that was not in before, or has
// fewer runs now since a node has left; and no function has where other nodes were silent, whose runs would come or go all at once.
func (f Functions) Since(before Functions) Functions {
	type key struct{ name, kind string }
	runs, seconds := map[key]uint64{}, f.At.Sub(before.At).Seconds()
	for i := range before.Functions {
		one := &before.Functions[i]
		runs[key{one.Name, one.Kind}] = one.Runs
	}
	f.Functions = slices.Clone(f.Functions)
	for i := range f.Functions {
		one := &f.Functions[i]
		was, known := runs[key{one.Name, one.Kind}]
		if one.Rate = 0; known && one.Runs >= was && seconds > 0 && len(f.Silent)+len(before.Silent) == 0 {
			one.Rate = float64(one.Runs-was) / seconds
		}
	}
	return f
}

// Failures is what failed on all nodes.
type Failures struct {
	Cluster  string    `json:"cluster"`
	Count    int       `json:"count"`    // of groups, also of those that were left out
	Failures []Failure `json:"failures"` // the latest first
	Silent   []string  `json:"silent,omitempty"`
}

// Failure is failures of one function on one node whose texts differ in digits alone.
type Failure struct {
	Node     raysys.NodeID `json:"node"`
	Function string        `json:"function"`
	Kind     string        `json:"kind"` // task or call
	Panic    bool          `json:"panic,omitempty"`
	Count    uint64        `json:"count"`          // that were looked at
	Left     uint64        `json:"left,omitempty"` // of the function, that were not: they may be of this text
	First    time.Time     `json:"first"`
	Last     time.Time     `json:"last"`
	Text     string        `json:"text"` // of the last that was looked at
	ID       string        `json:"id"`
	Work     string        `json:"work,omitempty"` // of a call: kind/key.method
	Stack    string        `json:"stack,omitempty"`
}
