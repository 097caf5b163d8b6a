package inspect

import (
	"time"

	"github.com/raysys/raysys"
)

// Schedule is a schedule of package schedule. Times of firings are those at which they are due, without jitter.
type Schedule struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	When      string    `json:"when"`
	Work      string    `json:"work"` // KIND/KEY.method of a grain, or the name of a task
	Overlap   string    `json:"overlap"`
	CatchUp   int       `json:"catch_up"`
	Jitter    string    `json:"jitter"` // a duration
	Paused    bool      `json:"paused"`
	Next      time.Time `json:"next,omitzero"` // also in a pause, which may leave it out
	// Running are the firings that run, or wait for one to end or to be tried again.
	Running   []time.Time `json:"running,omitempty"`
	Last      time.Time   `json:"last,omitzero"`
	Ended     time.Time   `json:"ended,omitzero"` // when the last one had
	LastError string      `json:"last_error,omitempty"`
	Missed    uint64      `json:"missed"` // times that were left out
	// Left is why: "overlap" (the firing before ran, or was tried again), "late" (an outage, beyond CatchUp), "full" (as many waited as can), or
	// "unknown" (of a version that kept no reasons). Missed is its sum.
	Left map[string]uint64 `json:"left,omitempty"`
	// Node has the schedule, which is due; "" while it waits for its time or for a node.
	Node raysys.NodeID `json:"node,omitempty"`
	Why  string        `json:"why,omitempty"` // it stays, though it is due
	// Waits is what the task of its firing waits for before it begins, such as resources; "" where it runs.
	Waits string `json:"waits,omitempty"`
}

// Schedules are those of a cluster, the soonest first: as far as they were asked for.
type Schedules struct {
	Cluster   string     `json:"cluster"`
	Count     int        `json:"count"`
	Schedules []Schedule `json:"schedules"`
	Silent    []string   `json:"silent,omitempty"` // shards whose leaders did not answer, and why
}
