package inspect

import (
	"encoding/json"

	"github.com/raysys/raysys"
)

// Found is what is known of a text: an id or how it begins, the KIND/KEY of a grain, or a name.
type Found struct {
	Cluster string   `json:"cluster"`
	Count   int      `json:"count"`            // of the things that it names, also of those that were left out
	Things  []Thing  `json:"things"`           // at most 20
	Silent  []string `json:"silent,omitempty"` // nodes that do not answer, and why: what they know is missing
}

// Thing is a task or its value, a call that failed, a grain, a placement group, or a schedule, with all that is known of it.
type Thing struct {
	Kind       string              `json:"kind"`                 // ThingTask and so on
	ID         string              `json:"id"`                   // of a grain its KIND/KEY
	Name       string              `json:"name,omitempty"`       // by which it was found, or of a group
	Namespace  string              `json:"namespace,omitempty"`  // of what has a name: that of the program
	Tasks      []Task              `json:"tasks,omitempty"`      // a task that waits or runs, where it is; of a grain, the turns that it is in
	Scheduling *raysys.Scheduling  `json:"scheduling,omitempty"` // where it waits and for what; or where it was placed, and why
	Value      *raysys.Explanation `json:"value,omitempty"`      // where the value is, how it was made, why it is lost
	Grains     []Grain             `json:"grains,omitempty"`     // of a grain, its activations
	States     []State             `json:"states,omitempty"`     // of a grain, what is stored of it
	Outbox     []StoredOutbox      `json:"outbox,omitempty"`     // of a grain on no node, its messages to others
	Group      *GroupStatus        `json:"group,omitempty"`
	Schedule   *Schedule           `json:"schedule,omitempty"`
	Argument   *State              `json:"argument,omitempty"` // of a job that has not settled: up to 4 KiB
	Outcome    *State              `json:"outcome,omitempty"`  // of one that has, its result: up to 64 KiB
	Failure    *Failure            `json:"failure,omitempty"`  // the last that a node remembers of it; of a task, where none is of itself, of its function
}

// The kinds of things.
const (
	ThingTask   = "task"
	ThingJob    = "job"    // a detached task with a name, found by that
	ThingCall   = "call"   // a call of a grain that failed
	ThingObject = "object" // a value that no task has made, or of which no task is known
	ThingGrain  = "grain"
	ThingGroup  = "group" // a placement group
	// ThingSchedule is a schedule of package schedule.
	ThingSchedule = "schedule"
)

// StoredQuery asks for what is stored of the grains of a Durable kind whose keys begin with Prefix.
type StoredQuery struct {
	Kind   string `json:"kind"`
	Prefix string `json:"prefix"`
	Values bool   `json:"values"` // with the values of States and Maps, where a node has the kind
	From   string `json:"from"`   // Next of the page before; "" for the first
}

// StoredGrains is a page of them, program by program and shard by shard, those of a shard in the order of their keys.
type StoredGrains struct {
	Cluster string        `json:"cluster"`
	Grains  []StoredGrain `json:"grains"`
	Next    string        `json:"next,omitempty"` // where the next page begins; "" where there is none
}

// StoredGrain is a grain as it is stored.
type StoredGrain struct {
	Key       string  `json:"key"`
	Namespace string  `json:"namespace"` // of the program
	Turn      uint64  `json:"turn"`      // how many turns of it have been stored
	States    []State `json:"states"`    // States, and Maps with their Entries
	Keys      int     `json:"keys"`      // of calls that it knows
	Messages  int     `json:"messages"`  // to others that have not arrived
	Why       string  `json:"why,omitempty"`
}

// StoredOutbox are messages of a Durable grain that is on no node, as they are stored.
type StoredOutbox struct {
	Namespace string     `json:"namespace"` // of the program
	Messages  int        `json:"messages"`
	Receivers []Receiver `json:"receivers"` // those with the most, at most 5
	Why       string     `json:"why"`       // why the grain is not woken to send them, as far as that is known
}

// State is one State of a grain, as it is stored.
type State struct {
	Namespace string          `json:"namespace"` // of the program
	Name      string          `json:"name"`
	Type      string          `json:"type,omitempty"`
	Bytes     int             `json:"bytes"`             // as it is stored
	Entries   int             `json:"entries,omitempty"` // of a grains.Map, whose values StoredGrain alone has
	JSON      json.RawMessage `json:"value,omitempty"`   // up to 64 KiB
	Text      string          `json:"text,omitempty"`    // in its place, where that is no JSON or longer: 64 KiB of it
	Cut       int             `json:"cut,omitempty"`     // bytes of Text that were left out
	Object    string          `json:"object,omitempty"`  // of a large State: the object that it is
	Why       string          `json:"why,omitempty"`     // why there is no JSON
}

// StartQuery says which task is to be started.
type StartQuery struct {
	Function  string `json:"function"`
	Argument  []byte `json:"argument,omitempty"`  // JSON: a list where it takes several, none where it takes none
	Name      string `json:"name,omitempty"`      // of the task; "": one that begins with the function's is drawn
	Namespace string `json:"namespace,omitempty"` // of the program; "": that which has the function
}

// Started is a named task that was started.
type Started struct {
	ID        string        `json:"id"`
	Name      string        `json:"name"`
	Namespace string        `json:"namespace"`
	Function  string        `json:"function"`
	Node      raysys.NodeID `json:"node"`             // the worker that has submitted it
	Joined    bool          `json:"joined,omitempty"` // it was there: the same had been started before
}

// Stacks is the goroutines of one process at one moment.
type Stacks struct {
	Node       raysys.NodeID `json:"node"`
	PID        int           `json:"pid"`
	Goroutines int           `json:"goroutines"`
	Stacks     []Stack       `json:"stacks"` // the most frequent first; those of more than 1 MiB together are left out
}

// Stack is one stack, and how many goroutines have it.
type Stack struct {
	Count  int      `json:"count"`
	State  string   `json:"state"`           // what they wait for, or running
	Waits  int      `json:"waits,omitempty"` // minutes for which the first of them has waited; 0 for less than one, or where that is not known
	Frames []string `json:"frames"`          // the innermost first: function and place. Neighbours that are raysys's own are one
	By     string   `json:"by,omitempty"`    // the function that started them
}
