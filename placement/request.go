package placement

import (
	"time"

	"github.com/raysys/raysys"
)

// Kind is the kind of work that is placed.
type Kind uint8

const (
	// Grain is an activation: it stays, and holds what it needs while it does.
	Grain Kind = iota
	// Task comes and goes; it may queue.
	Task
)

// String names the kind for messages.
func (k Kind) String() string {
	if k == Task {
		return "task"
	}
	return "grain"
}

// Request is the work that wants a node.
type Request struct {
	Kind      Kind
	Function  string           // entry that the node must have; "" asks for none
	Namespace string           // of Function
	Key       string           // of the grain; hash places by it alone, so that equal keys of all kinds meet
	Needs     raysys.Resources // zero for a grain that holds none
	Now       bool             // of a task: only where it can start now
	Queue     bool             // of a grain: also where it must wait for room
	Labels    map[string]string
	// Conditions are the nodes where it must be, where it must not be, and which it prefers: of the soft ones the first counts most.
	Conditions []Condition
	Strategy   raysys.Strategy // "" is raysys.Balanced
	// From is the node that asks, by which raysys.PreferLocal places a grain; "" is the local node of the View.
	From raysys.NodeID
	// Custom are strategies of the program by name, for a Strategy that is none of the built-in ones.
	Custom map[raysys.Strategy]Strategy
	// Seed is the draw for random choices: a new one for each request. Equal seeds choose equally.
	Seed uint64
	// Avoid are nodes to take only when no other fits: nodes that just refused, or where the last attempt ended.
	Avoid []raysys.NodeID
	// Inputs are the values that a task reads. Balanced weighs the time to move them against the time to wait; other
	// strategies leave them out, but for your own, which may look.
	Inputs Inputs
	// Explain asks for Decision.Reasons.
	Explain bool
}

// Decision is where the work goes.
type Decision struct {
	Node        raysys.NodeID
	Incarnation uint64
	Wait        time.Duration // estimated, of a task there
	Move        time.Duration // estimated, until the inputs of a task are there
	Account     Account       // how it was chosen
	Reasons     []string      // the strategy's, then one line for each node, where Explain was set
}

// Strategy chooses among the nodes that may take a request: it returns an index into nodes, which is never empty, is
// sorted by ID, and must not be changed or kept. To repeat, it must depend on nothing but its arguments.
type Strategy func(r Request, nodes []*Node) int
