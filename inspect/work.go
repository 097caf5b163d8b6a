package inspect

import (
	"time"

	"github.com/raysys/raysys"
)

// TaskQuery says which tasks Node.Tasks lists; the zero value says the 100 of all nodes that have waited or run longest.
type TaskQuery struct {
	State    string        `json:"state,omitempty"`    // TaskWaiting, TaskRunning or TaskBlocked; "" for all
	Function string        `json:"function,omitempty"` // "" for all
	Node     raysys.NodeID `json:"node,omitempty"`     // where they are; "" for all
	Detached bool          `json:"detached,omitempty"` // no others
	Limit    int           `json:"limit,omitempty"`    // at most so many; 0 stands for 100
}

// The states of a task.
const (
	TaskWaiting = "waiting" // it has not begun
	TaskRunning = "running"
	TaskBlocked = "blocked" // its function waits for other work
)

// Tasks is tasks of a cluster at one moment.
type Tasks struct {
	Cluster string   `json:"cluster"`
	Count   int      `json:"count"`            // of those that match, also of those that were left out
	Tasks   []Task   `json:"tasks"`            // those that have waited or run longest first
	Silent  []string `json:"silent,omitempty"` // nodes that do not answer, and why: what is there is missing
}

// Task is a task that waits or runs; in Waits also a turn of a grain.
type Task struct {
	ID       string        `json:"id"`
	Function string        `json:"function"`        // of a grain's turn: kind/key.method
	Node     raysys.NodeID `json:"node"`            // where it is
	Of       raysys.NodeID `json:"of,omitempty"`    // the node that sent it there; "" where it was submitted there
	State    string        `json:"state"`           // TaskWaiting and so on
	Stage    string        `json:"stage,omitempty"` // of raysys.Waiting
	For      string        `json:"for,omitempty"`   // what it waits for, in words
	Lasts    time.Duration `json:"lasts"`           // in nanoseconds, since it began to wait, or to run; about, and 0 where that is not known
	Attempt  int           `json:"attempt"`         // the first is 1
	Detached bool          `json:"detached,omitempty"`
	Name     string        `json:"name,omitempty"`  // of a detached task
	Grain    string        `json:"grain,omitempty"` // kind/key, of a grain's turn
	On       []WaitsOn     `json:"on,omitempty"`    // of one that is blocked: what it waits for, some of it
	Open     int           `json:"open,omitempty"`  // how much that is
}

// WaitsOn is work for which other work waits.
type WaitsOn struct {
	ID    string        `json:"id"`
	Name  string        `json:"name"`            // of the function; of a call kind/key.method
	Grain string        `json:"grain,omitempty"` // kind/key, of a call: it waits in the mailbox, or is the grain's turn
	Node  raysys.NodeID `json:"node,omitempty"`  // to which it was sent; "" where that is not known, or it was sent to none
}

// Waits is the tasks, and the turns of grains, that wait for other work, and the work at the end of these waits.
type Waits struct {
	Cluster string   `json:"cluster"`
	Count   int      `json:"count"` // of those that wait, also of those that were left out
	Waits   []Task   `json:"waits"` // those that wait, the longest first, and what they wait for, as far as it waits itself
	Ends    []Task   `json:"ends"`  // what those wait for that does not wait for other work
	Silent  []string `json:"silent,omitempty"`
}

// GrainQuery says which grains Node.Grains lists; the zero value says the 100 of all nodes with the fullest mailboxes.
type GrainQuery struct {
	Kind  string        `json:"kind,omitempty"` // "" for all
	Key   string        `json:"key,omitempty"`  // how their keys begin
	Node  raysys.NodeID `json:"node,omitempty"` // where they are; "" for all
	Limit int           `json:"limit,omitempty"`
	// Outbox asks for grains alone whose messages to others are above half of their bound, or have waited for a
	// minute; with their receivers.
	Outbox bool `json:"outbox,omitempty"`
}

// Grains is the grains of a cluster that are in memory, at one moment.
type Grains struct {
	Cluster string   `json:"cluster"`
	Count   int      `json:"count"`            // of those that match, also of those that were left out
	Grains  []Grain  `json:"grains"`           // those with the fullest mailboxes first
	Silent  []string `json:"silent,omitempty"` // nodes that do not answer, and why
}

// Grain is one activation.
type Grain struct {
	Kind    string        `json:"kind"`
	Key     string        `json:"key"`
	Node    raysys.NodeID `json:"node"`
	Mailbox int           `json:"mailbox"`         // messages that wait
	Turn    string        `json:"turn,omitempty"`  // the method or hook that runs
	Lasts   time.Duration `json:"lasts"`           // in nanoseconds, how long that runs, at least; it is looked at every few seconds
	Late    string        `json:"late,omitempty"`  // why nothing waits for it any more
	Waits   bool          `json:"waits,omitempty"` // it has not begun: what it asks for of the node is not free
	// Keys are those of calls that a grain of a Durable kind knows. Keys of calls made up to Forgotten may be
	// forgotten.
	Keys      int       `json:"keys,omitempty"`
	Forgotten time.Time `json:"forgotten,omitzero"`
	// Outbox is how many messages of a Durable grain have not arrived, with those of turns that are not stored yet.
	Outbox int `json:"outbox,omitempty"`
	// OutboxAge, in nanoseconds, is how long the oldest of them has waited on this node. Receivers are those with the
	// most of them, at most 5. Node.Get says both, and Node.Grains with GrainQuery.Outbox.
	OutboxAge time.Duration `json:"outboxAge,omitempty"`
	Receivers []Receiver    `json:"receivers,omitempty"`
}

// Receiver is a grain to which another has messages that have not arrived.
type Receiver struct {
	// To is kind/key, the key quoted as in Go where it does not print. "unreadable:..." names a message that the
	// grain's program cannot read: those behind it wait.
	To       string `json:"to"`
	Messages int    `json:"messages"`
	Tries    int    `json:"tries,omitempty"` // to deliver the next one, in vain
	Why      string `json:"why,omitempty"`   // of the last of them
}
