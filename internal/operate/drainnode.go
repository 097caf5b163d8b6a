package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/node"
)

// ErrDrainCancelled: an operator cancelled the drain (raysys drain --cancel). The node takes work again.
var ErrDrainCancelled = node.ErrDrainCancelled

// ErrNoSuchNode: no node of that name is in the cluster.
var ErrNoSuchNode = errors.New("no such node")

// DrainNode asks a node to drain and leave. It returns when the drain has begun, with the node's incarnation, for AwaitDrained.
// The error matches ErrNoSuchNode when the cluster has no node of that name.
func (o *Operator) DrainNode(ctx context.Context, name raysys.NodeID) (incarnation uint64, err error) {
	return o.leave(ctx, "drain", name, adminRequest{op: adminDrain})
}

// leave asks a node to leave.
func (o *Operator) leave(ctx context.Context, verb string, name raysys.NodeID, q adminRequest) (uint64, error) {
	m, err := o.operate(ctx, verb, name, q)
	if err != nil {
		o.reports.Delete(mesh.KeyOf(m))
	}
	return m.Incarnation, err
}

// report asks a node for the outcome of its drain. The channel is closed, and has it before where the node says it.
func (o *Operator) report(k core.NodeKey) <-chan *inspect.Drained {
	came := make(chan *inspect.Drained, 1)
	o.admin(k, adminRequest{op: adminAwait}, func(a adminAnswer, err error) {
		if err == nil && a.Error == "" {
			came <- a.Drain
		}
		close(came)
	})
	return came
}

// RestartNode is that of a system.Node. The named tasks that run on the node for others are looked for, since the
// node does not know their names.
func RestartNode(ctx context.Context, o *Operator, name raysys.NodeID, keepJobs bool) (incarnation uint64, err error) {
	how := node.DrainRequest{Restart: true, KeepJobs: keepJobs}
	if !keepJobs {
		list, err := Tasks(ctx, o, inspect.TaskQuery{Detached: true, Limit: maxRows})
		if err != nil {
			return 0, fmt.Errorf("restart %s: %w", name, err)
		}
		for _, t := range list.Tasks {
			if id, ok := readID(t.ID); ok && t.Name != "" && t.Node == name && t.Of != "" {
				how.Jobs = append(how.Jobs, id)
			}
		}
	}
	query, err := json.Marshal(how)
	if err != nil {
		return 0, err
	}
	return o.leave(ctx, "restart", name, adminRequest{op: adminRestart, query: query})
}

// CancelDrain cancels a drain that DrainNode asked for, and returns when the node is active again. The error says why the node
// cannot stay; it matches ErrNoSuchNode when the node has left.
func (o *Operator) CancelDrain(ctx context.Context, name raysys.NodeID) error {
	m, err := o.operate(ctx, "cancel the drain of", name, adminRequest{op: adminStay})
	if err != nil {
		return err
	}
	o.reports.Delete(mesh.KeyOf(m))
	return o.await(ctx, "wait until "+string(name)+" is active again", func(v *member.View) bool {
		now, ok := v.Node(name)
		return !ok || now.Incarnation != m.Incarnation || !now.Info.Draining
	})
}

// operate asks one node for an operation.
func (o *Operator) operate(ctx context.Context, verb string, name raysys.NodeID, q adminRequest) (member.Node, error) {
	c := o.Node.Cluster()
	if c == nil {
		return member.Node{}, fmt.Errorf("%s %s: %w", verb, name, errInNoCluster)
	}
	m, ok := c.Member.View().Node(name)
	if !ok || m.Info.Observer {
		return m, fmt.Errorf("%s %s: %w: raysys status lists the nodes", verb, name, ErrNoSuchNode)
	}
	if a := o.askAll(ctx, []member.Node{m}, q)[mesh.KeyOf(m)]; a.err != nil {
		return m, fmt.Errorf("%s %s: %w", verb, name, a.err)
	}
	return m, nil
}

// AwaitDrained waits until that incarnation of a node has left the cluster, and returns the outcome of its drain: nil when the node
// did not report it, because it died, or runs a version without reports. The error matches ErrDrainCancelled when the node stays.
func (o *Operator) AwaitDrained(ctx context.Context, name raysys.NodeID, incarnation uint64) (*inspect.Drained, error) {
	c := o.Node.Cluster()
	if c == nil {
		return nil, fmt.Errorf("wait for %s to leave: %w", name, errInNoCluster)
	}
	k := core.NodeKey{Node: name, Incarnation: incarnation}
	asked, ok := o.reports.LoadAndDelete(k)
	if !ok {
		asked = o.report(k)
	}
	came := asked.(<-chan *inspect.Drained)
	began := false // the view has shown that the node drains
	stays := false
	err := o.await(ctx, "wait for "+string(name)+" to leave", func(v *member.View) bool {
		m, ok := v.Node(name)
		if !ok || m.Incarnation != incarnation {
			return true
		}
		stays = began && !m.Info.Draining
		began = m.Info.Draining
		return stays
	})
	switch {
	case err != nil:
		return nil, err
	case stays:
		return nil, fmt.Errorf("drain %s: %w", name, ErrDrainCancelled)
	}
	t := time.NewTimer(mesh.LastWords) // the view may change before the node's report arrives
	defer t.Stop()
	select {
	case d := <-came:
		return d, nil
	case <-t.C:
		return nil, nil
	case <-ctx.Done():
		return nil, nil
	}
}

// Holding asks a node that drains for the names of tasks and grains that keep it.
func (o *Operator) Holding(ctx context.Context, name raysys.NodeID) ([]string, error) {
	c := o.Node.Cluster()
	if c == nil {
		return nil, errInNoCluster
	}
	m, ok := c.Member.View().Node(name)
	if !ok {
		return nil, ErrNoSuchNode
	}
	t := askMembers[inspect.NodeStatus](ctx, o, []member.Node{m}, "status", struct{}{})[mesh.KeyOf(m)]
	return t.answer.Holding, t.err
}

// await waits until done returns true for the view.
func (o *Operator) await(ctx context.Context, what string, done func(*member.View) bool) error {
	c := o.Node.Cluster()
	for {
		view := c.Member.View()
		if done(view) {
			return nil
		}
		select {
		case <-view.Changed():
		case <-c.Member.Done():
			return fmt.Errorf("%s: %w", what, c.Member.Err())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}
