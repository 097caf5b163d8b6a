package core

import (
	"context"
	"fmt"
)

// Explanation says what a node knows of a value. It is sent as JSON.
type Explanation struct {
	ID        string        `json:"id"`
	Name      string        `json:"name"`                // of what makes it: a function, a grain's method, or object for a value of Put
	State     string        `json:"state"`               // of the reference
	Error     string        `json:"error,omitempty"`     // how it failed, or why it is lost
	Size      int64         `json:"size,omitempty"`      // of an object, about; 0 for a small value
	Here      bool          `json:"here,omitempty"`      // it is on the node that says so
	Held      bool          `json:"held,omitempty"`      // its owner is dead, and the node that says so has a reference
	Owner     NodeID        `json:"owner,omitempty"`     // the node that has the bytes
	Copies    []NodeID      `json:"copies,omitempty"`    // the nodes that have them too
	Submitter NodeID        `json:"submitter,omitempty"` // the node that submitted the task
	Adopter   NodeID        `json:"adopter,omitempty"`   // the node that has taken the task over
	Attempt   int           `json:"attempt,omitempty"`   // the last
	Recipe    bool          `json:"recipe"`              // it can be made again
	NoRecipe  string        `json:"no_recipe,omitempty"` // why it cannot
	Inputs    []Explanation `json:"inputs,omitempty"`    // what it is made of
	More      int           `json:"more,omitempty"`      // inputs that are left out
}

// Explainer is a recipe that says what it is made of, or a Runtime that asks other nodes.
type Explainer interface {
	// Explain adds what it knows to e; depth bounds the inputs of inputs.
	Explain(e *Explanation, depth int)
}

// WhyRuntime is a Runtime that explains values.
type WhyRuntime interface {
	Why(ctx context.Context, c *Future) (Explanation, error)
}

// Why is raysys.Why of the reference to c, which may be nil.
func Why(ctx context.Context, c *Future) (Explanation, error) {
	if c == nil {
		return Explanation{}, fmt.Errorf("%w: Why of a zero reference", ErrInvalidRef)
	}
	t, _, err := TurnOf(ctx)
	if err != nil {
		return Explanation{}, err
	}
	w, ok := t.job.Runtime.(WhyRuntime)
	if !ok {
		return Explain(c, ExplainDepth), nil
	}
	defer blocked(t)()
	return w.Why(ctx, c)
}

// ExplainDepth and ExplainInputs bound an Explanation.
const (
	ExplainDepth  = 4
	ExplainInputs = 16
)

// NoTask is why a value of Put is not made again.
const NoTask = "it is no task's value"

// Explain says what this node knows of c.
func Explain(c *Future, depth int) Explanation {
	e := Explanation{ID: c.ID().String(), Name: c.work.Name(), State: c.state()}
	if err := c.Failure(); err != nil {
		e.Error = err.Error()
	}
	if w, ok := WhereaboutsOf(c); ok {
		e.Size, e.Here, e.Owner = w.Size, w.Here, w.Node
	} else if c.Object() {
		e.Size, e.Here = c.toldSize(), true
	}
	if x, ok := c.Recipe().(Explainer); ok {
		e.Submitter = c.up.job.Node
		x.Explain(&e, depth)
	} else if _, put := c.work.(interface{ unmade() }); put {
		e.NoRecipe = NoTask
	}
	return e
}

// The stages of raysys.Waiting, which explains them.
const (
	StageInputs  = "inputs"  // its inputs are not there
	StagePause   = "pause"   // before its next attempt
	StageStore   = "store"   // what must be recorded before it goes on is not yet
	StageQueue   = "queue"   // of the node, for a CPU of it or of another node
	StageNode    = "node"    // no node can take it
	StageBundle  = "bundle"  // its bundle of a placement group has no node
	StageLine    = "line"    // of the node, for what others hold of its resources
	StageLookup  = "lookup"  // the leader of its shard is asked where the grain is
	StageSent    = "sent"    // it is at another node, which says more
	StageRunning = "running" // a task's function, or a grain that is active
)
