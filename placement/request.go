package placement

import (
	"fmt"
	"maps"
	"slices"
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

// moves reports whether the inputs of r count.
func (r *Request) moves() bool { return r.Kind == Task && r.Inputs.Bytes >= smallInputs }

// weighs returns r without inputs where they do not count.
func (r *Request) weighs(s raysys.Strategy) Request {
	q := *r
	if s != raysys.Balanced || !r.moves() {
		q.Inputs = Inputs{}
	}
	return q
}

func (r *Request) shape() shapeKey {
	k := shapeKey{
		kind: r.Kind, now: r.Now, queue: r.Queue, function: r.Function, namespace: r.Namespace,
		cpu: r.Needs.CPU, gpu: r.Needs.GPU, memory: r.Needs.Memory, gpuMemory: r.Needs.GPUMemory, gpuModel: r.Needs.GPUModel,
	}
	if len(r.Needs.Custom) > 0 {
		var b []byte
		for _, name := range slices.Sorted(maps.Keys(r.Needs.Custom)) {
			b = fmt.Appendf(b, "%q %x ", name, r.Needs.Custom[name])
		}
		k.custom = string(b)
	}
	if len(r.Labels) > 0 {
		var b []byte
		for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
			b = fmt.Appendf(b, "%q %q ", name, r.Labels[name])
		}
		k.labels = string(b)
	}
	for i := range r.Conditions {
		if c := &r.Conditions[i]; c.Label != "" && !c.Soft {
			k.labels += c.key()
		}
	}
	return k
}
