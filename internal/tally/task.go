package tally

import (
	"time"

	"github.com/raysys/raysys/internal/core"
)

// State is what a piece of work does.
type State string

// The states.
const (
	Waiting State = "waiting" // to start
	Running State = "running"
	Blocked State = "blocked" // it waits, in a Get or a call, and has given its CPU back
)

// States are all there are, for messages.
func States() []State { return []State{Waiting, Running, Blocked} }

// Task is one task that runs or waits on a node.
type Task struct {
	ID       core.TaskID
	Function string
	State    State
	For      time.Duration // it has been in that state, about, and never longer than it was there
	Detached bool
	Name     string // of a detached one
	Owner    string // the node that submitted it; "" for this one
	// WaitsFor is what a blocked one waits for, where that is known.
	WaitsFor string
}
