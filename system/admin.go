package system

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/wire"
)

// Status is a cluster as one of its nodes sees it.
type Status struct {
	Cluster string        `json:"cluster"`
	Nodes   []NodeStatus  `json:"nodes"`
	Shards  []ShardStatus `json:"shards"`
}

// NodeStatus is one node. What only the node itself knows is there when it answered in time; else Error says why not.
type NodeStatus struct {
	Name        raysys.NodeID     `json:"name"`
	Incarnation uint64            `json:"incarnation"`
	Address     string            `json:"address"`
	Role        Role              `json:"role"`
	Version     string            `json:"version"`
	State       string            `json:"state"` // active, suspect, draining
	Resources   raysys.Resources  `json:"resources"`
	Labels      map[string]string `json:"labels,omitempty"`
	Queued      int               `json:"queued"`     // its own tasks that wait to start
	Guests      int               `json:"guests"`     // tasks of other nodes that it has accepted and not answered
	BusyCPU     float64           `json:"busy_cpu"`   // CPUs that run its own tasks
	FreeCPU     float64           `json:"free_cpu"`   // CPUs that nothing holds
	MeanTask    time.Duration     `json:"mean_task"`  // running time of recent tasks, in nanoseconds
	Grains      map[string]int    `json:"grains"`     // activations by kind
	Peers       int               `json:"peers"`      // nodes it is connected to
	Held        int               `json:"held"`       // its futures that other nodes hold
	LeaseLeft   time.Duration     `json:"lease_left"` // in nanoseconds
	Error       string            `json:"error,omitempty"`
}

// ShardStatus is the leader of one shard; Node is empty while there is none.
type ShardStatus struct {
	Shard int           `json:"shard"`
	Node  raysys.NodeID `json:"node"`
	Epoch uint64        `json:"epoch"`
}

// adminOp is what an operator asks a node. The numbers are on the wire.
type adminOp byte

const (
	adminStatus adminOp = 1
	adminDrain  adminOp = 2
)

// adminAnswer goes over the wire as JSON: it is read by people, and by versions that know more fields or fewer.
type adminAnswer struct {
	Status NodeStatus `json:"status"`
	Error  string     `json:"error,omitempty"`
}

// report is this node's own part of the status.
func (c *cluster) report() NodeStatus {
	k := c.self()
	l := c.node.tasks.Load()
	s := NodeStatus{
		Name: k.node, Incarnation: k.incarnation, Queued: l.Queued, Guests: l.Guests, BusyCPU: l.Busy, FreeCPU: l.Free, MeanTask: l.Mean,
		Grains: c.node.grains.Kinds(), Peers: len(c.connected()), Held: c.exports.count(), LeaseLeft: c.member.Lease(),
	}
	return s
}

// Status asks every node of the cluster.
func (n *Node) Status(ctx context.Context) (Status, error) {
	c := n.others
	if c == nil {
		return Status{}, fmt.Errorf("status: the node is in no cluster")
	}
	view := c.member.View()
	st := Status{Cluster: c.cfg.Name}
	for i := range c.reg.conf.Shards {
		sh := ShardStatus{Shard: i}
		if l, ok := view.Leader(i); ok {
			sh.Node, sh.Epoch = l.Node, l.Epoch
		}
		st.Shards = append(st.Shards, sh)
	}
	answers := make(chan NodeStatus, len(view.Nodes()))
	for _, m := range view.Nodes() {
		base := NodeStatus{
			Name: m.ID, Incarnation: m.Incarnation, Address: m.Info.Address, Role: roleOf(m.Info), Version: m.Info.Version,
			Resources: m.Info.Resources, Labels: m.Info.Labels, State: "active",
		}
		switch {
		case m.Info.Draining:
			base.State = "draining"
		case m.Suspect:
			base.State = "suspect"
		}
		k := nodeKey{m.ID, m.Incarnation}
		if k == c.self() {
			answers <- base.with(c.report())
			continue
		}
		c.admin(k, adminStatus, func(a adminAnswer, err error) {
			if err != nil {
				base.Error = err.Error()
				answers <- base
				return
			}
			answers <- base.with(a.Status)
		})
	}
	for range view.Nodes() {
		select {
		case s := <-answers:
			st.Nodes = append(st.Nodes, s)
		case <-ctx.Done():
			return st, fmt.Errorf("status: %d of %d nodes answered: %w", len(st.Nodes), len(view.Nodes()), context.Cause(ctx))
		}
	}
	slices.SortFunc(st.Nodes, func(a, b NodeStatus) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return st, nil
}

// with takes over what the node itself reported.
func (s NodeStatus) with(own NodeStatus) NodeStatus {
	s.Queued, s.Guests, s.BusyCPU, s.FreeCPU, s.MeanTask = own.Queued, own.Guests, own.BusyCPU, own.FreeCPU, own.MeanTask
	s.Grains, s.Peers, s.Held, s.LeaseLeft = own.Grains, own.Peers, own.Held, own.LeaseLeft
	return s
}

// DrainNode asks a node to drain and leave, and returns when it has begun. The node ends by itself.
func (n *Node) DrainNode(ctx context.Context, name raysys.NodeID) error {
	c := n.others
	if c == nil {
		return fmt.Errorf("drain %s: the node is in no cluster", name)
	}
	m, ok := c.member.View().Node(name)
	if !ok {
		return fmt.Errorf("drain %s: %w: raysys status lists the nodes", name, ErrNoSuchNode)
	}
	done := make(chan error, 1)
	c.admin(nodeKey{m.ID, m.Incarnation}, adminDrain, func(a adminAnswer, err error) {
		if err == nil && a.Error != "" {
			err = fmt.Errorf("node %s: %s", name, a.Error)
		}
		done <- err
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("drain %s: %w", name, context.Cause(ctx))
	}
}

// admin sends an operator's request to a node.
func (c *cluster) admin(k nodeKey, op adminOp, done func(adminAnswer, error)) {
	c.connect(k, func(p *peer, err error) {
		if err != nil {
			done(adminAnswer{}, err)
			return
		}
		slot, ok := p.admins.Put(done)
		if !ok {
			done(adminAnswer{}, raysys.ErrNotDelivered)
			return
		}
		frame := append(wire.AppendUvarint(nil, slot), byte(op))
		if err := p.Send(wire.Requests, wire.KindAdmin, frame); err != nil {
			if done, ok := p.admins.Take(slot); ok {
				done(adminAnswer{}, err)
			}
			return
		}
		p.Flush()
	})
}

// onAdmin handles KindAdmin.
func (p *peer) onAdmin(frame []byte) error {
	r := wire.NewReader(frame)
	slot, op := r.Uvarint(), adminOp(r.Byte())
	if err := r.Err(); err != nil {
		return err
	}
	var a adminAnswer
	switch op {
	case adminStatus:
		a.Status = p.c.report()
	case adminDrain:
		if !p.c.node.askDrain() {
			a.Error = "its program does not drain on request: send it SIGTERM"
		}
	default:
		a.Error = fmt.Sprintf("operation %d is unknown to this version", op)
	}
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return p.reply(wire.KindAdminReply, append(wire.AppendUvarint(nil, slot), body...))
}

// onAdminReply handles KindAdminReply.
func (p *peer) onAdminReply(frame []byte) error {
	r := wire.NewReader(frame)
	slot := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	done, ok := p.admins.Take(slot)
	if !ok {
		return nil
	}
	var a adminAnswer
	err := json.Unmarshal(r.Rest(), &a)
	done(a, err)
	return err
}
