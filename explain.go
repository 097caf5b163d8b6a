package raysys

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// Scheduling says where a task or a grain waits, for how long and for what; or where it was placed, and why there. String shows
// it.
type Scheduling struct {
	ID     string    `json:"id"`             // of the task; kind/key of a grain
	Name   string    `json:"name,omitempty"` // the task's function, or the grain's kind
	Waits  []Waiting `json:"waits"`          // at each node that has it: that which submitted a task and that to which it was sent
	Placed []Placed  `json:"placed"`         // the decisions that are remembered, oldest first
}

// Waiting is where a task or a grain waits on one node. Its Stage is one of
//
//	inputs    its inputs are not there
//	pause     before its next attempt
//	store     what must be recorded before it goes on is not yet
//	queue     of the node, for a CPU of it or of another node
//	node      no node can take it
//	bundle    its bundle of a placement group has no node
//	line      of the node, for what others hold of its resources
//	lookup    the leader of its shard is asked where the grain is
//	sent      it is at another node, which says more
//	running   a task's function, or a grain that is active
type Waiting struct {
	Node   NodeID            `json:"node"` // that says so
	Stage  string            `json:"stage"`
	For    string            `json:"for"` // what it waits for, in words
	Waited time.Duration     `json:"waited,omitempty"`
	Asks   Resources         `json:"asks"`             // of one node
	Labels map[string]string `json:"labels,omitempty"` // that the node must have
	// Conditions on that node, in words.
	Conditions []string  `json:"conditions,omitempty"`
	Short      []string  `json:"short,omitempty"`  // what of that is not free on Node, where it waits for that
	Before     int       `json:"before,omitempty"` // how many go before it there
	First      []string  `json:"first,omitempty"`  // the first of them
	Inputs     []string  `json:"inputs,omitempty"` // while it waits for its inputs: what is not there
	Stacks     []string  `json:"stacks,omitempty"` // of a grain's turn that is past its deadline: of the goroutines in it, folded, the outermost function first
	Nodes      []NodeFit `json:"nodes,omitempty"`  // what each node that is known to Node has to offer, for work that may go to any
}

// NodeFit is what one node has for a piece of work.
type NodeFit struct {
	Node  NodeID   `json:"node"`
	Never bool     `json:"never,omitempty"` // however idle it is
	Why   string   `json:"why"`             // what keeps the work from it, or how soon it would begin there
	Short []string `json:"short,omitempty"` // what the work asks for and is not free there
}

// Placed is a decision where a task or a grain goes.
type Placed struct {
	Time    time.Time `json:"time"`
	By      NodeID    `json:"by"` // that decided: the submitter of a task, the leader of a grain's shard
	Node    NodeID    `json:"node"`
	Reasons []string  `json:"reasons"` // of the strategy, with what it compared
}

// explains is a Runtime that explains where work waits.
type explains interface {
	ExplainWork(ctx context.Context, c *core.Future) (Scheduling, error)
}

// Explain says why the work behind r has not begun: where it waits, for how long, for what, and what keeps each node from taking
// it; or where it was placed and why, as far as that is remembered. Of a grain's call it explains the grain. It waits for nothing
// but the answers of the nodes. The error matches ErrNotFound when the work waits nowhere and no decision is remembered.
func Explain[T any](ctx context.Context, r Ref[T]) (Scheduling, error) {
	of := core.Ref[T](r)
	c := core.FutureOf(of.Link)
	if c == nil {
		return Scheduling{}, fmt.Errorf("%w: Explain of a zero reference", ErrInvalidRef)
	}
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return Scheduling{}, err
	}
	rt, ok := t.Runtime().(explains)
	if !ok {
		return Scheduling{}, fmt.Errorf("%w: this runtime does not explain where work waits", ErrNotFound)
	}
	t.Runtime().Block(t.Base())
	defer t.Runtime().Unblock(t.Base())
	return rt.ExplainWork(ctx, c)
}

// String shows it in lines.
func (s Scheduling) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", s.Name, s.ID)
	for i := range s.Waits {
		s.Waits[i].show(&b)
	}
	for i := range s.Placed {
		p := &s.Placed[i]
		fmt.Fprintf(&b, "  placed on %s by %s at %s\n", p.Node, p.By, p.Time.UTC().Format("2006-01-02 15:04:05.000"))
		for _, r := range p.Reasons {
			fmt.Fprintf(&b, "    %s\n", r)
		}
	}
	return b.String()
}

func (w *Waiting) show(b *strings.Builder) {
	fmt.Fprintf(b, "  on %s: %s", w.Node, w.For)
	if w.Waited > 0 {
		fmt.Fprintf(b, ", for %v", w.Waited.Round(time.Millisecond))
	}
	b.WriteByte('\n')
	if asks := w.Asks.String(); asks != "nothing" || len(w.Labels) > 0 {
		fmt.Fprintf(b, "    asks for %s", asks)
		for _, k := range slices.Sorted(maps.Keys(w.Labels)) {
			fmt.Fprintf(b, ", label %s=%s", k, w.Labels[k])
		}
		b.WriteByte('\n')
	}
	for _, c := range w.Conditions {
		fmt.Fprintf(b, "    %s\n", c)
	}
	for _, s := range w.Short {
		fmt.Fprintf(b, "    short: %s\n", s)
	}
	if w.Before > 0 {
		fmt.Fprintf(b, "    %d before it\n", w.Before)
	}
	for _, f := range w.First {
		fmt.Fprintf(b, "      %s\n", f)
	}
	for _, i := range w.Inputs {
		fmt.Fprintf(b, "    input %s\n", i)
	}
	for _, s := range w.Stacks {
		fmt.Fprintf(b, "    %s\n", s)
	}
	for _, n := range w.Nodes {
		word := ""
		if n.Never {
			word = "never, "
		}
		fmt.Fprintf(b, "    %s: %s%s\n", n.Node, word, n.Why)
		for _, s := range n.Short {
			fmt.Fprintf(b, "      short: %s\n", s)
		}
	}
}
